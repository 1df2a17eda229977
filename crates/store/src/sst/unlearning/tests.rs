//! What comes twice is repaired, at a rate and within a memory.

use super::*;

fn found(hash: u64) -> FalsePositive {
    FalsePositive { keyspace: 1, table: 7, partition: 3, hash, can_unlearn: true }
}

#[test]
fn what_comes_twice_is_repaired() {
    let unlearning = Unlearning::new(64 << 10);
    assert_eq!(unlearning.charge(), 0);
    unlearning.note(found(1));
    unlearning.note(found(2));
    unlearning.note(FalsePositive { table: 8, ..found(1) });
    unlearning.note(FalsePositive { can_unlearn: false, ..found(3) });
    unlearning.note(FalsePositive { can_unlearn: false, ..found(3) });
    // There is memory to be made room for, and nothing else.
    assert!(unlearning.begin(|| 0) && unlearning.take_is_new());
    assert_eq!(unlearning.take(), []);
    unlearning.end(0, 0);
    assert!(!unlearning.begin(|| 0), "each came once, or cannot be helped");
    assert_eq!(unlearning.charge(), 64 << 10);
    unlearning.note(found(2));
    assert!(unlearning.begin(|| 0));
    assert!(!unlearning.begin(|| 0), "one at a time");
    assert_eq!(unlearning.take(), [found(2)]);
    unlearning.end(1, 100);
    assert!(!unlearning.begin(|| u64::MAX), "nothing waits");
    assert_eq!(unlearning.counts.false_positives.get(), 6);
}

#[test]
fn a_flood_is_held_to_its_rate_and_to_its_memory() {
    let unlearning = Unlearning::new(1 << 20);
    for hash in 0..10_000 {
        unlearning.note(found(hash));
        unlearning.note(found(hash));
    }
    assert_eq!(unlearning.waiting.lock().len(), WAITING_MAX);
    assert_eq!(unlearning.counts.dropped.get(), 10_000 - WAITING_MAX as u64);
    let (mut now_ns, mut repaired) = (0, 0);
    while unlearning.has_waiting.load(Ordering::Relaxed) {
        assert!(unlearning.begin(|| now_ns));
        let taken = unlearning.take().len();
        repaired += taken;
        unlearning.end(taken, now_ns);
        let pause_ns = taken as u64 * NS_PER_REPAIR;
        assert!(!unlearning.begin(|| now_ns + pause_ns - 1), "too soon");
        now_ns += pause_ns;
    }
    assert_eq!((repaired, now_ns), (WAITING_MAX, WAITING_MAX as u64 * NS_PER_REPAIR));
}

/// Of as many as there are places few are forgotten until they come again.
#[test]
fn what_came_once_is_remembered_as_far_as_there_is_room() {
    let unlearning = Unlearning::new(64 << 10);
    let places = (64 << 10) / 4;
    (0..places / 2).for_each(|hash| unlearning.note(found(hash * 77_777)));
    let again = (0..places / 2).filter(|hash| unlearning.came_before(&found(hash * 77_777)));
    assert!(again.count() as f64 > places as f64 / 2.0 * 0.95);
}

#[test]
fn what_cannot_be_repaired_is_let_be() {
    let unlearning = Unlearning::new(64 << 10);
    for _ in 0..2 {
        unlearning.note(found(5));
    }
    assert_eq!(unlearning.take(), [found(5)]);
    unlearning.give_up(&found(5));
    (0..10).for_each(|_| unlearning.note(found(5)));
    assert_eq!(unlearning.take(), []);
    assert_eq!(unlearning.counts.false_positives.get(), 12);
}
