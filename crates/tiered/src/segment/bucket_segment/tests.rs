//! Segments of buckets: places, summaries, reuse of buffers.

use bytes::Bytes;

use super::*;
use crate::object::{CachedObject, Deadline, Object};

const ID: SegmentId = SegmentId { slot: 3, generation: 5 };
const CAPACITY: usize = 1 << 20;

fn name_of(hash: u64) -> Name {
    Name { partition: (hash >> 60) as u32, fingerprint: hash & ((1 << 40) - 1) }
}

fn small(n: u64, bytes: usize) -> SmallObject {
    let value = Bytes::from(vec![n as u8; bytes]);
    let object = Object { value, flags: 0, deadline: Deadline::NEVER, version: n + 1, marks: 0 };
    let found = CachedObject { object, was_fetched: false, accessed_s: 0 };
    SmallObject { found, epoch: 1 }
}

fn finish(segment: &mut BucketSegment, previous: u64, tombstones: &[Tag]) {
    (0..segment.buckets()).for_each(|number| segment.finish_bucket(number, 9, name_of));
    segment.finish(9, previous, tombstones.iter().copied());
}

fn key(n: u64) -> (Vec<u8>, u64) {
    let key = format!("key-{n}").into_bytes();
    let hash = xxh3_64(&key);
    (key, hash)
}

#[test]
fn objects_are_found_in_their_buckets_and_listed_in_the_summary() {
    let mut segment =
        BucketSegment::new(ID, 7, CAPACITY, 9_000, AlignedVec::with_capacity(CAPACITY));
    let mut there = Vec::new();
    let mut full = 0;
    let mut choices = std::collections::HashMap::new();
    for n in 0.. {
        let (key, hash) = key(n);
        match segment.add(hash, &key, &small(n, 100)) {
            Some(Added { choice, moved }) => {
                if let Some(Moved { hash, from }) = moved {
                    assert_eq!(choices.insert(hash, 1 - from), Some(from));
                }
                choices.insert(hash, choice);
                there.push(n);
            }
            None => full += 1,
        }
        if full > 300 {
            break;
        }
    }
    let (bytes, added) = segment.fill();
    assert!(added * 100 > bytes * 96, "{added} of {bytes}");
    let mut there: Vec<(u64, Choice)> =
        there.into_iter().map(|n| (n, choices[&key(n).1])).collect();
    // Some are removed again.
    let removed: Vec<(u64, Choice)> = there.drain(..50).collect();
    for (n, choice) in removed {
        let (key, hash) = key(n);
        assert_eq!(segment.remove(hash, &key), Some(choice));
        assert_eq!(segment.remove(hash, &key), None);
        assert_eq!(segment.find(hash, &key), None);
    }
    let tombstones = vec![Tag::of_number(5), Tag::of_number((1 << 39) - 1)];
    let slot = segment.seal(99, 2);
    assert_eq!((slot.records as usize, slot.order), (there.len(), 7));
    assert_eq!((slot.sequence_max, slot.is_small), (99, true));
    assert!(there.len() + 2 <= segment.tags_max());
    finish(&mut segment, 77, &tombstones);
    assert!(segment.bytes().len() <= CAPACITY);
    let (at, len) = tag_summary_range(&slot);
    let summary = &segment.bytes()[at as usize..at as usize + len];
    let decoded = TagSummary::decode(summary, 9, ID).expect("it is intact");
    assert_eq!((decoded.previous, &decoded.tombstones), (77, &tombstones));
    let sorted = |mut tags: Vec<(Tag, Choice)>| {
        tags.sort_unstable_by_key(|(tag, choice)| (tag.0, *choice));
        tags
    };
    let tags = there.iter().map(|(n, choice)| (name_of(key(*n).1).tag(), *choice));
    assert_eq!(sorted(decoded.objects), sorted(tags.collect()));
    for (n, choice) in there {
        let (key, hash) = key(n);
        let number = bucket_of(hash, choice, segment.buckets());
        let bucket = &segment.bytes()[number as usize * BUCKET_BYTES..][..BUCKET_BYTES];
        assert!(bucket::is_intact(bucket, 9, ID, number));
        assert_eq!(bucket::find(bucket, &key), Some(small(n, 100)));
    }
    assert_eq!(TagSummary::decode(summary, 8, ID), None);
    assert_eq!(TagSummary::decode(summary, 9, SegmentId { generation: 6, ..ID }), None);
    for at in 0..summary.len() {
        let mut damaged = summary.to_vec();
        damaged[at] ^= 1;
        assert_eq!(TagSummary::decode(&damaged, 9, ID), None);
    }
}

#[test]
fn segment_without_objects_is_its_tombstones() {
    let capacity = 64 << 10;
    let mut segment = BucketSegment::new(ID, 7, capacity, 10, AlignedVec::with_capacity(capacity));
    let slot = segment.seal(8, 1);
    finish(&mut segment, 0, &[Tag::of_number(77)]);
    assert_eq!((slot.bytes, segment.bytes().len()), (0, BUCKET_BYTES));
    let (at, len) = tag_summary_range(&slot);
    let decoded = TagSummary::decode(&segment.bytes()[at as usize..][..len], 9, ID);
    let tombstones = vec![Tag::of_number(77)];
    assert_eq!(
        decoded,
        Some(TagSummary { objects: Vec::new(), tombstones, ..TagSummary::default() })
    );
}

#[test]
fn used_buffer_serves_the_next_segment() {
    let capacity = 64 << 10;
    let mut segment = BucketSegment::new(ID, 7, capacity, 10, AlignedVec::with_capacity(capacity));
    let (key, hash) = key(1);
    segment.add(hash, &key, &small(1, 100)).expect("it is empty");
    segment.seal(8, 0);
    finish(&mut segment, 0, &[]);
    let next = BucketSegment::new(ID, 9, capacity, 10, segment.into_buffer());
    assert_eq!((next.find(hash, &key), next.records()), (None, 0));
}
