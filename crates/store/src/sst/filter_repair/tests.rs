//! Repeated false positives are repaired, within the rate and the memory.

use super::*;

fn found(hash: u64) -> FalsePositive {
    FalsePositive { keyspace: 1, table: 7, partition: 3, hash, is_repairable: true }
}

#[test]
fn second_false_positive_is_repaired() {
    let filter_repair = FilterRepair::new(64 << 10);
    assert_eq!(filter_repair.charge(), 0);
    filter_repair.note(found(1));
    filter_repair.note(found(2));
    filter_repair.note(FalsePositive { table: 8, ..found(1) });
    filter_repair.note(FalsePositive { is_repairable: false, ..found(3) });
    filter_repair.note(FalsePositive { is_repairable: false, ..found(3) });
    // The cache must make room for the tags, and no repair is queued.
    assert!(filter_repair.begin(|| 0) && filter_repair.take_is_new());
    assert_eq!(filter_repair.take(), []);
    filter_repair.end(0, 0);
    assert!(!filter_repair.begin(|| 0), "each came once, or cannot be helped");
    assert_eq!(filter_repair.charge(), 64 << 10);
    filter_repair.note(found(2));
    assert!(filter_repair.begin(|| 0));
    assert!(!filter_repair.begin(|| 0), "one at a time");
    assert_eq!(filter_repair.take(), [found(2)]);
    filter_repair.end(1, 100);
    assert!(!filter_repair.begin(|| u64::MAX), "nothing waits");
    assert_eq!(filter_repair.counts.false_positives.get(), 6);
}

#[test]
fn flood_of_false_positives_stays_within_rate_and_memory() {
    let filter_repair = FilterRepair::new(1 << 20);
    for hash in 0..10_000 {
        filter_repair.note(found(hash));
        filter_repair.note(found(hash));
    }
    assert_eq!(filter_repair.waiting.lock().len(), WAITING_MAX);
    assert_eq!(filter_repair.counts.dropped.get(), 10_000 - WAITING_MAX as u64);
    let (mut now_ns, mut repaired) = (0, 0);
    while filter_repair.has_waiting.load(Ordering::Relaxed) {
        assert!(filter_repair.begin(|| now_ns));
        let taken = filter_repair.take().len();
        repaired += taken;
        filter_repair.end(taken, now_ns);
        let pause_ns = taken as u64 * NS_PER_REPAIR;
        assert!(!filter_repair.begin(|| now_ns + pause_ns - 1), "too soon");
        now_ns += pause_ns;
    }
    assert_eq!((repaired, now_ns), (WAITING_MAX, WAITING_MAX as u64 * NS_PER_REPAIR));
}

/// With as many tags as slots, few are replaced before they recur.
#[test]
fn false_positives_are_remembered_up_to_capacity() {
    let filter_repair = FilterRepair::new(64 << 10);
    let places = (64 << 10) / 4;
    (0..places / 2).for_each(|hash| filter_repair.note(found(hash * 77_777)));
    let again = (0..places / 2).filter(|hash| filter_repair.seen_before(&found(hash * 77_777)));
    assert!(again.count() as f64 > places as f64 / 2.0 * 0.95);
}

#[test]
fn impossible_repair_is_not_tried_again() {
    let filter_repair = FilterRepair::new(64 << 10);
    for _ in 0..2 {
        filter_repair.note(found(5));
    }
    assert_eq!(filter_repair.take(), [found(5)]);
    filter_repair.give_up(&found(5));
    (0..10).for_each(|_| filter_repair.note(found(5)));
    assert_eq!(filter_repair.take(), []);
    assert_eq!(filter_repair.counts.false_positives.get(), 12);
}
