//! Logs: all invalidations that count are found, and a missing one is noticed.

use super::*;

const PLACES: usize = 8;

/// A ring after `count` invalidations.
fn ring(count: u64) -> Vec<u8> {
    let mut ring = vec![0; PLACES * INVALIDATION_BYTES];
    for number in 0..count {
        let at = number as usize % PLACES * INVALIDATION_BYTES;
        let name = Name { partition: 9, fingerprint: number << 30 };
        let invalidation = Invalidation { number, sequence: number * 3 + 1, name };
        ring[at..at + INVALIDATION_BYTES].copy_from_slice(&invalidation.encode(7));
    }
    let at = count as usize % PLACES * INVALIDATION_BYTES;
    ring[at..at + INVALIDATION_BYTES].copy_from_slice(&Invalidation::end(count, 7));
    ring
}

/// The invalidations of a ring that is read in two pieces.
fn collect(ring: &[u8], device: u64, first: u64) -> Option<Vec<Invalidation>> {
    let mut collection = Collection::new(device, first);
    let (front, back) = ring.split_at(3 * INVALIDATION_BYTES);
    collection.add(front);
    collection.add(back);
    collection.finish()
}

fn numbers(found: Option<Vec<Invalidation>>) -> Option<Vec<u64>> {
    found.map(|found| found.iter().map(|invalidation| invalidation.number).collect())
}

#[test]
fn valid_invalidations_are_found_in_order() {
    let last = collect(&ring(3), 7, 0).and_then(|mut found| found.pop());
    let name = Name { partition: 9, fingerprint: 2 << 30 };
    assert_eq!(last, Some(Invalidation { number: 2, sequence: 7, name }));
    assert_eq!(numbers(collect(&ring(0), 7, 0)), Some(vec![]));
    assert_eq!(numbers(collect(&ring(3), 7, 0)), Some(vec![0, 1, 2]));
    assert_eq!(numbers(collect(&ring(13), 7, 10)), Some(vec![10, 11, 12]));
    assert_eq!(numbers(collect(&ring(13), 7, 13)), Some(vec![]));
}

#[test]
fn missing_or_damaged_invalidation_is_detected() {
    for damaged in 0..PLACES * INVALIDATION_BYTES {
        let mut ring = ring(13);
        ring[damaged] ^= 1;
        assert_eq!(collect(&ring, 7, 6), None, "byte {damaged}");
    }
    // Including the last one and the end mark.
    for missing in 0..6 {
        let mut hole = ring(5);
        hole[missing * INVALIDATION_BYTES..][..INVALIDATION_BYTES].fill(0);
        assert_eq!(collect(&hole, 7, 0), None, "{missing}");
    }
    assert_eq!(collect(&vec![0; PLACES * INVALIDATION_BYTES], 7, 0), None);
    // Overwritten in the next lap.
    assert_eq!(collect(&ring(13), 7, 4), None);
}

#[test]
fn full_ring_returns_no_place() {
    let mut ring = Invalidations::new(PLACES as u32, 0, 0);
    for number in 0..PLACES as u64 - 1 {
        assert_eq!(ring.next(), Some(number));
        ring.advance();
    }
    assert_eq!((ring.next(), ring.percent_full()), (None, 87), "one is for the end");
    ring.cut(3);
    assert_eq!((ring.next(), ring.percent_full()), (Some(7), 50));
    ring.cut(100);
    assert_eq!((ring.next(), ring.end()), (Some(7), 7));
}
