//! Fields have existing counters, and short outages of devices are recorded.

use tidekv_io::{ManualClock, MemoryStorage, Storage};
use tidekv_observe::history::Origin;
use tidekv_tiered::{Cache, Environment, FlashOptions, Options};

use super::*;
use crate::settings::options::CacheServerOptions;

fn sampler() -> Sampler {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let flash = |n| FlashOptions { path: format!("/flash-{n}").into(), bytes: 1 << 20 };
    let flash = (0..2).map(flash).collect();
    let options = Options { flash, segment_bytes: Some(16 << 10), ..Options::default() };
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let cache = Cache::open(&options, &Environment::new(storage, clock)).unwrap();
    Sampler::new(Arc::new(State::new(cache, CacheServerOptions::default(), Vec::new(), 1, None)))
}

#[test]
fn fields_have_existing_counters() {
    let (cache, devices) = read(sampler().state());
    for (fields, reading) in [(&CACHE_FIELDS[..], &cache), (&DEVICE_FIELDS[..], &devices[0])] {
        for field in fields {
            let is_there = |name: &&str| {
                reading.counters.iter().any(|(found, _)| found == name)
                    || reading.counts.iter().any(|(found, _)| found == name)
            };
            let names = match &field.origin {
                Origin::Rate(names) => names,
                Origin::State(name)
                | Origin::Most(name)
                | Origin::P50(name)
                | Origin::P99(name) => std::slice::from_ref(name),
            };
            assert!(names.iter().all(is_there), "{}: {names:?}", field.name);
        }
        let mut names: Vec<_> = fields.iter().map(|field| field.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), fields.len());
    }
}

#[test]
fn an_outage_of_less_than_a_second_is_recorded() {
    let sampler = sampler();
    let states = |sampler: &Sampler| {
        sampler.look(|histories| {
            let device = &histories.devices[1];
            device.fine.since(0).map(|sample| device.value(sample, "state")).collect::<Vec<_>>()
        })
    };
    sampler.sample();
    let (cache, mut devices) = read(sampler.state());
    for (name, number) in &mut devices[1].counters {
        match *name {
            "flash.outages" | "flash.recoveries" => *number = 1,
            STATE => *number = 2,
            _ => {}
        }
    }
    sampler.histories.lock().add(cache.clone(), devices.clone());
    sampler.histories.lock().add(cache, devices);
    assert_eq!(states(&sampler), [0.0, 3.0, 2.0]);
}

#[test]
fn the_history_is_bounded() {
    let of = |fields: usize| (600 + 720) * (fields * size_of::<f32>() + 2 * size_of::<u64>());
    assert!(of(CACHE_FIELDS.len()) < 190 << 10 && of(DEVICE_FIELDS.len()) < 100 << 10);
}
