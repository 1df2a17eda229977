//! Sightings of tenants and stores, and the curves that come of them.

use super::*;

struct Fixed(Vec<u64>);

impl Source for Fixed {
    fn lookups(&self) -> Vec<u64> {
        self.0.clone()
    }

    fn bytes_max(&self) -> u64 {
        1 << 20
    }
}

fn profiles(tenants: u64) -> Vec<Profile> {
    (0..tenants).map(|_| Profile::new(1 << 20, 0)).collect()
}

#[test]
fn each_tenant_has_a_curve_of_his_own() {
    let curves = Curves::new(2, Duration::from_secs(60));
    let mut profiles = profiles(2);
    for turn in 0..10 {
        for key in 0..10_u64 {
            let deed = if turn == 0 { Deed::Miss } else { Deed::Hit(100) };
            curves.saw(0, key << 40, 0, deed);
            curves.saw(0, key << 40, 0, Deed::Store(100, None));
        }
        curves.saw(1, 7, 0, Deed::Miss);
    }
    assert!(curves.take_in(&mut profiles));
    assert!(!curves.take_in(&mut profiles));
    curves.tell(&mut profiles, &[100, 10], 2.0, 1, true);
    let told = curves.told(0).expect("there were requests");
    assert_eq!((told.curve.miss_ratio(1_000), told.curve.miss_ratio(999)), (0.1, 1.0));
    assert_eq!((told.seconds, told.window, told.object_bytes), (2.0, 1, Some(100.0)));
    assert!(told.backend_us.is_some_and(|us| us < 1e6));
    // Never stored, so no cache has it.
    assert_eq!(curves.told(1).expect("there were requests").curve.miss_ratio(1 << 20), 1.0);
    // What nobody asks for is not told anew.
    curves.tell(&mut profiles, &[100, 10], 2.0, 2, true);
    assert_eq!(curves.told(0).expect("it stays").window, 1);
    assert!(curves.told(2).is_none());
}

#[test]
fn what_a_full_queue_has_no_room_for_is_counted() {
    let curves = Curves::new(1, Duration::from_secs(60));
    let mut profiles = profiles(1);
    assert_eq!(
        (stands_for(ALL_KEYS), stands_for(ALL_KEYS / 100), stands_for(0)),
        (1, 100, ALL_KEYS)
    );
    let more = 1_000;
    for key in 0..(QUEUE_LEN + more) as u64 {
        curves.saw(0, key, 0, Deed::Miss);
    }
    assert!(curves.take_in(&mut profiles));
    curves.tell(&mut profiles, &[(QUEUE_LEN + more) as u64], 1.0, 1, true);
    let told = curves.told(0).expect("there were requests");
    assert_eq!((told.lost, told.curve.miss_ratio(1 << 40)), (more as u64, 1.0));
}

#[test]
fn what_was_there_before_is_learnt_from_its_hits() {
    let curves = Curves::new(1, Duration::from_secs(60));
    let mut profiles = profiles(1);
    // Ten objects in a circle that nobody has stored since it began to look.
    for key in (0..10_u64).cycle().take(100) {
        curves.saw(0, key << 40, 0, Deed::Hit(100));
    }
    curves.take_in(&mut profiles);
    curves.tell(&mut profiles, &[100], 1.0, 1, true);
    let told = curves.told(0).expect("there were requests");
    assert_eq!((told.curve.miss_ratio(1_000), told.curve.miss_ratio(999)), (0.0, 1.0));
    assert_eq!((told.lost, told.curve.requests()), (0, 100.0));
}

#[test]
fn what_has_left_the_sample_meanwhile_counts_no_more() {
    let mut profile = Profile::new(u64::MAX, 0);
    // More objects than a sample has room for.
    let objects = 3 * OBJECTS_MAX as u64;
    let key = |number: u64| (number + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29);
    let see = |profile: &mut Profile, key, deed| {
        profile.see(&Sighting { key, deed, at_ms: 0, monotonic_us: 0 });
    };
    (0..objects).for_each(|number| see(&mut profile, key(number), Deed::Store(100, None)));
    assert!(profile.watch.rate() < 0.5 && profile.watch.memory_bytes() < 4 << 20);
    (0..objects).for_each(|number| see(&mut profile, key(number), Deed::Hit(100)));
    assert_eq!(profile.unknown, 0, "all of the sample is known");
    see(&mut profile, key(objects), Deed::Hit(100));
    let is_in = sample_hash(key(objects)) < profile.watch.threshold();
    assert_eq!(profile.unknown > 0, is_in);
}

#[test]
fn a_thread_tells_curves_until_it_is_stopped() {
    let curves = Arc::new(Curves::new(1, Duration::from_millis(20)));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let thread = tidekv_io::threads::spawn("curves", {
        let curves = Arc::clone(&curves);
        move || run(&curves, &Fixed(vec![0]), &stopped)
    })
    .expect("there can be another thread");
    // Nobody asks for anything.
    curves.clock.sleep(Duration::from_millis(60));
    assert!(curves.told(0).is_none());
    stop.send(true).expect("it runs");
    thread.join().expect("it ends");
}
