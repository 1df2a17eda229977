//! Pages: an inserted entry is found until another displaces it.

use super::*;
use crate::entry::RecordLocation;

const ID: PageId = PageId { device: 7, partition: 3, version: 9 };

fn entry(fingerprint: u64, slot: u32) -> Entry {
    Entry::record(
        fingerprint,
        RecordLocation { slot, generation: 1, offset: 64, len: 128, is_in_buffer: false },
    )
}

fn slot(entry: Entry) -> u64 {
    entry.location().map_or(0, |location| u64::from(location.slot))
}

#[test]
fn entries_are_found_until_displaced_and_displacement_is_reported() {
    let mut page = Page::empty();
    let mut inside = std::collections::BTreeMap::new();
    let mut first_displaced = None;
    for n in 0..1_000_u64 {
        let new = entry(n * 7_919, n as u32);
        inside.insert(new.fingerprint(), new);
        if let Some(displaced) = page.insert(new, |_| true, slot) {
            assert_eq!(inside.remove(&displaced.fingerprint()), Some(displaced));
            first_displaced = first_displaced.or(Some(n));
        }
        assert!(inside.iter().all(|(fingerprint, entry)| page.find(*fingerprint) == Some(*entry)));
        assert_eq!(page.entries().count(), inside.len());
    }
    let first_displaced = first_displaced.expect("a full page displaces");
    assert!(first_displaced > 800, "only after {first_displaced} of {ENTRIES_MAX}");
}

#[test]
fn oldest_entry_of_both_buckets_is_displaced() {
    let mut page = Page::empty();
    (0..5_000).for_each(|n| _ = page.insert(entry(n, 1_000 + n as u32), |_| true, slot));
    let mut probe = page.clone();
    let displaced = probe.insert(entry(9_999_999, 1), |_| true, slot).expect("the page is full");
    let places = places_of(9_999_999).map(|place| slot(page.entries[place]));
    assert_eq!(Some(slot(displaced)), places.min());
}

#[test]
fn dead_entries_make_room() {
    let mut page = Page::empty();
    (0..5_000).for_each(|n| _ = page.insert(entry(n, 1), |_| true, slot));
    (10_000..10_100).for_each(|n| {
        let displaced = page.insert(entry(n, 2), |entry| slot(entry) == 2, slot);
        assert_eq!(displaced, None);
    });
    page.retain(|entry| slot(entry) == 2);
    assert_eq!(page.entries().count(), 100);
    page.remove(10_007);
    assert_eq!((page.find(10_007), page.entries().count()), (None, 99));
}

#[test]
fn same_fingerprint_replaces_its_entry() {
    let mut page = Page::empty();
    for n in 0..100 {
        assert_eq!(page.insert(entry(5, n), |_| true, slot), None);
    }
    assert_eq!(page.entries().collect::<Vec<_>>(), [entry(5, 99)]);
}

#[test]
fn only_the_expected_intact_page_decodes() {
    let mut page = Page::empty();
    (0..500).for_each(|n| _ = page.insert(entry(n, n as u32), |_| true, slot));
    let bytes = page.encode(ID);
    assert_eq!(Page::decode(&bytes, ID), Some(page));
    for other in
        [PageId { device: 8, ..ID }, PageId { partition: 4, ..ID }, PageId { version: 8, ..ID }]
    {
        assert_eq!(Page::decode(&bytes, other), None);
    }
    for at in (0..PAGE_BYTES).step_by(61) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert_eq!(Page::decode(&damaged, ID), None, "byte {at}");
    }
    assert_eq!(Page::decode(&bytes[..PAGE_BYTES - 1], ID), None);
    let (first, second) = bytes.split_at(PAGE_BLOCK_BYTES);
    let exchanged = [&second[..PAGE_BLOCK_BYTES], first, &second[PAGE_BLOCK_BYTES..]].concat();
    assert_eq!(Page::decode(&exchanged, ID), None);
}

#[test]
fn block_has_the_page_entries_of_its_fingerprints() {
    let mut page = Page::empty();
    (0..800).for_each(|n| _ = page.insert(entry(n * 31, n as u32), |_| true, slot));
    let bytes = page.encode(ID);
    let block = |number: usize| &bytes[number * PAGE_BLOCK_BYTES..][..PAGE_BLOCK_BYTES];
    let mut seen = [0; BLOCKS];
    for fingerprint in 0..800 * 31 {
        let number = block_of(fingerprint);
        let found = PageBlock::decode(block(number), ID, number).expect("it is whole");
        assert_eq!(found.find(fingerprint), page.find(fingerprint));
        seen[number] += usize::from(page.find(fingerprint).is_some());
    }
    assert_eq!(seen.iter().sum::<usize>(), page.entries().count());
    assert!(seen.iter().all(|entries| (150..=BLOCK_ENTRIES).contains(entries)), "{seen:?}");
    let other = PageBlock::decode(block(1), ID, 2);
    assert!(other.is_none(), "it is the block that is meant");
}
