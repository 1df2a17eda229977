//! Tests of the store's clock.

use tidekv_io::ManualClock;

use super::*;

fn clock_at(machine: &Arc<ManualClock>, saved: Option<Record>) -> StoreClock {
    StoreClock::new(Arc::clone(machine) as Arc<dyn Clock>, saved)
}

#[test]
fn steps_of_the_machine_do_not_move_it() {
    let machine = Arc::new(ManualClock::new(10_000_000));
    machine.advance(Duration::from_micros(1_700));
    let clock = clock_at(&machine, None);
    assert_eq!((clock.unix_ms(), clock.offset_ms()), (machine.unix_ms(), 0));
    machine.advance(Duration::from_millis(10));
    assert_eq!(clock.unix_ms(), machine.unix_ms());
    for (back_ms, forward_ms, offset) in [(5000, 0, -5000), (0, 65_000, 60_000), (60_000, 0, 0)] {
        machine.set_back(back_ms);
        machine.set_forward(forward_ms);
        assert_eq!(clock.unix_ms(), 10_000_011);
        assert_eq!(clock.offset_ms(), offset);
    }
    // The clocks of a machine differ a little.
    machine.set_back(400);
    assert_eq!(clock.offset_ms(), 0);
}

#[test]
fn it_goes_on_from_the_last_record() {
    let machine = Arc::new(ManualClock::new(10_000_000));
    let clock = clock_at(&machine, None);
    machine.advance(Duration::from_secs(10));
    let saved = clock.record();
    assert_eq!(saved, Record { store_ms: 10_010_000, machine_ms: 10_010_000 });
    machine.advance(Duration::from_secs(5));
    assert_eq!(clock_at(&machine, Some(saved)).unix_ms(), 10_015_000, "time has passed");
    machine.set_back(3_600_000);
    let clock = clock_at(&machine, Some(saved));
    assert_eq!(clock.unix_ms(), 10_010_000, "the machine's clock is behind");
    assert_eq!(clock.offset_ms(), 10_015_000 - 3_600_000 - 10_010_000);
    // A step while the store was open does not count as time that has passed.
    machine.set_forward(7_200_000);
    let saved = clock.record();
    machine.advance(Duration::from_secs(1));
    assert_eq!(clock_at(&machine, Some(saved)).unix_ms(), 10_011_000);
}

/// A machine of which the milliseconds of one clock begin 0.7 ms before those of the other.
#[derive(Debug)]
struct OutOfPhase(ManualClock);

impl Clock for OutOfPhase {
    fn unix_ns(&self) -> u64 {
        self.0.unix_ns()
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns() + 700_000
    }

    fn sleep(&self, duration: Duration) {
        self.0.sleep(duration);
    }
}

/// Each opening rounded both clocks to milliseconds that begin at different moments, and the
/// next took the difference over: a store that was killed often ran ahead, and entries expired
/// too early.
#[test]
fn openings_do_not_move_it() {
    let machine = Arc::new(OutOfPhase(ManualClock::new(10_000_000)));
    let mut saved = None;
    for _ in 0..1000 {
        let clock = StoreClock::new(Arc::clone(&machine) as Arc<dyn Clock>, saved);
        assert_eq!(clock.unix_ms(), machine.unix_ms());
        machine.sleep(Duration::from_micros(400));
        saved = Some(clock.record());
        assert_eq!(clock.unix_ms(), machine.unix_ms());
        machine.sleep(Duration::from_micros(600));
        assert_eq!(clock.unix_ms(), machine.unix_ms());
    }
}

#[test]
fn a_record_is_wanted_when_the_last_is_old_and_once() {
    let machine = Arc::new(ManualClock::new(10_000_000));
    let clock = clock_at(&machine, None);
    assert!(clock.must_save(true));
    assert!(!clock.must_save(true), "it is being saved");
    clock.saved(clock.record(), true);
    machine.advance(Duration::from_millis(SAVED_MS_MAX - 1));
    assert!(!clock.must_save(true));
    machine.advance(Duration::from_millis(1));
    assert!(!clock.must_save(false), "only when an entry has expired");
    assert!(clock.must_save(true));
    clock.saved(clock.record(), true);
    machine.set_forward(5000);
    assert!(!clock.must_save(false));
    assert_eq!(clock.offset_ms(), 5000);
    assert!(clock.must_save(false), "a step was noticed");
    clock.saved(clock.record(), false);
    assert!(!clock.must_save(true), "not at once after a failure");
    machine.advance(Duration::from_millis(SAVED_MS_MAX));
    assert!(clock.must_save(false), "it was not saved");
    clock.saved(clock.record(), true);
    assert!(!clock.must_save(false));
}

#[test]
fn a_record_is_synced_if_the_clocks_differ_in_it_or_in_the_one_that_it_replaces() {
    let machine = Arc::new(ManualClock::new(10_000_000));
    let clock = clock_at(&machine, None);
    assert!(clock.must_sync(clock.record()), "nothing is known of the one on disk");
    clock.saved(clock.record(), true);
    for (step_ms, is_synced) in [(0, false), (5000, true), (0, true), (-5000, true), (0, false)] {
        machine.set_forward(step_ms as u64);
        let record = clock.record();
        assert_eq!(clock.must_sync(record), is_synced, "{step_ms}");
        clock.saved(record, false);
        assert_eq!(clock.must_sync(record), is_synced, "{step_ms}: it was not saved");
        clock.saved(record, true);
    }
    machine.set_forward(5000);
    assert!(
        clock_at(&machine, Some(clock.record())).must_sync(Record { store_ms: 1, machine_ms: 1 })
    );
}

/// Otherwise the clock could go back by more after a power cut, if the machine's clock is set back
/// before or with it.
#[test]
fn the_record_on_stable_storage_is_never_old() {
    let machine = Arc::new(ManualClock::new(10_000_000));
    let agreeing = Record { store_ms: 9_000_000, machine_ms: 9_000_000 };
    let clock = clock_at(&machine, Some(agreeing));
    assert!(clock.must_sync(clock.record()), "the store was opened");
    clock.saved(clock.record(), false);
    assert!(clock.must_sync(clock.record()), "it could not be saved");
    clock.saved(clock.record(), true);
    for _ in 0..3 {
        machine.advance(Duration::from_millis(SYNCED_MS_MAX - 1));
        assert!(!clock.must_sync(clock.record()));
        clock.saved(clock.record(), true);
        machine.advance(Duration::from_millis(1));
        assert!(clock.must_sync(clock.record()), "a record that was not synced does not count");
        clock.saved(clock.record(), true);
    }
}

#[test]
fn the_record_has_the_documented_bytes_and_damage_is_noticed() {
    let record = Record { store_ms: 0x0102, machine_ms: 0x0304 };
    let bytes = record.encode();
    assert_eq!(&bytes[..8], b"TKCLOCK1");
    assert_eq!(&bytes[16..], [2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Record::decode(&bytes), Some(record));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(Record::decode(&damaged), None, "byte {at}");
        assert_eq!(Record::decode(&bytes[..at]), None, "{at} bytes");
    }
}
