//! Partitions: the newest change counts, until a page has it.

use super::*;
use crate::entry::{RecordLocation, SegmentId};
use crate::index::locator::Widths;

const BUFFERED: SegmentId = SegmentId { slot: 0, generation: 1 };
const WHOLE: SegmentId = SegmentId { slot: 1, generation: 1 };

fn live_segments() -> LiveSegments {
    let live_segments = LiveSegments::new(3);
    live_segments.set_buffered(BUFFERED, 40);
    live_segments.set_whole(WHOLE, 10);
    live_segments
}

fn entry(fingerprint: u64, slot: u32) -> Entry {
    Entry::record(
        fingerprint,
        RecordLocation { slot, generation: 1, offset: 0, len: 64, is_in_buffer: false },
    )
}

fn locator(fingerprints: &[u64]) -> Locator {
    let entries = fingerprints.iter().map(|fingerprint| (*fingerprint, Code::NONE));
    Locator::of(entries, Widths { check: 20, code: 0 })
}

#[test]
fn newest_change_counts() {
    let live_segments = live_segments();
    let mut partition = Partition::new(0);
    assert_eq!(partition.find(5, &live_segments), DramLookup::Absent);
    partition.set(entry(5, 1), 100);
    assert_eq!(partition.find(5, &live_segments), DramLookup::Entry(entry(5, 1)));
    let merging = partition.begin_merge(&live_segments).expect("there are changes");
    assert_eq!(merging, [entry(5, 1)]);
    assert_eq!(partition.find(5, &live_segments), DramLookup::Entry(entry(5, 1)));
    partition.set(Entry::tombstone(5), 101);
    assert_eq!(partition.find(5, &live_segments), DramLookup::Absent);
    partition.finish_merge(1, 0, locator(&[5]));
    assert_eq!((partition.find(5, &live_segments), partition.oldest()), (DramLookup::Absent, 101));
    partition.begin_merge(&live_segments).expect("there are changes");
    partition.finish_merge(2, 0, locator(&[]));
    assert_eq!(
        (partition.find(5, &live_segments), partition.oldest()),
        (DramLookup::Absent, NO_SEQUENCE)
    );
}

#[test]
fn buffered_record_stays_pending_and_its_name_leaves_the_page() {
    let live_segments = live_segments();
    let mut partition = Partition::new(3);
    partition.set(entry(5, 0), 50);
    partition.set(entry(6, 2), 51);
    let merging = partition.begin_merge(&live_segments).expect("there are changes");
    assert_eq!(merging, [Entry::tombstone(5), Entry::tombstone(6)]);
    partition.finish_merge(4, 0, locator(&[]));
    assert_eq!(partition.find(5, &live_segments), DramLookup::Entry(entry(5, 0)));
    assert_eq!((partition.oldest(), partition.version()), (40, 4));
}

#[test]
fn changes_of_an_aborted_merge_do_not_override_newer_ones() {
    let live_segments = live_segments();
    let mut partition = Partition::new(3);
    partition.set(entry(5, 1), 50);
    partition.set(entry(6, 1), 51);
    partition.begin_merge(&live_segments).expect("there are changes");
    assert!(partition.begin_merge(&live_segments).is_none());
    partition.set(Entry::tombstone(5), 60);
    partition.abort_merge();
    assert_eq!(partition.find(5, &live_segments), DramLookup::Absent);
    assert_eq!(partition.find(6, &live_segments), DramLookup::Entry(entry(6, 1)));
    assert_eq!((partition.oldest(), partition.changes(), partition.version()), (50, 2, 3));
}

#[test]
fn recovered_entries_apply_in_order() {
    let live_segments = live_segments();
    let mut partitions = [Partition::new(0), Partition::new(0)];
    let of = |partition, entry, sequence| Restored { partition, entry, sequence };
    let found = [
        of(1, entry(5, 1), 20),
        of(0, entry(5, 1), 30),
        of(1, Entry::tombstone(5), 40),
        of(1, entry(6, 1), 50),
        // There is no such partition.
        of(2, entry(7, 1), 60),
    ];
    restore(&mut partitions, &found);
    let knows = |number: usize, fingerprint| partitions[number].find(fingerprint, &live_segments);
    assert_eq!(knows(0, 5), DramLookup::Entry(entry(5, 1)));
    assert_eq!((knows(1, 5), knows(0, 6)), (DramLookup::Absent, DramLookup::Absent));
    assert_eq!(knows(1, 6), DramLookup::Entry(entry(6, 1)));
    let waits = |number: usize| (partitions[number].changes(), partitions[number].oldest());
    assert_eq!((waits(0), waits(1)), ((1, 30), (2, 20)));
}

#[test]
fn no_key_is_absent_while_its_page_is_unread_or_lost() {
    let live_segments = live_segments();
    let mut partition = Partition::new(3);
    assert_eq!(partition.find(5, &live_segments), DramLookup::Page(Code::NONE));
    partition.install(0, locator(&[7]));
    assert_eq!(partition.find(5, &live_segments), DramLookup::Absent);
    partition.distrust(100);
    partition.install(99, locator(&[7]));
    assert_eq!(partition.find(5, &live_segments), DramLookup::Page(Code::NONE));
    partition.set(entry(7, 1), 120);
    partition.begin_merge(&live_segments).expect("there are changes");
    partition.finish_merge(4, 99, locator(&[7]));
    assert_eq!(partition.find(5, &live_segments), DramLookup::Page(Code::NONE));
    partition.install(100, locator(&[7]));
    assert_eq!(partition.find(5, &live_segments), DramLookup::Absent);
}
