//! The list under every execution that the memory model allows. loom chooses among the values that
//! a load may see, so a link that is published without `Release`, or followed without `Acquire`,
//! leads to an entry or page whose bytes are not visible: its tracker fails the model. Pages have
//! four slots here.

use std::sync::Arc;

use tidekv_testkit::models::explore;
use tidekv_testkit::models::loom::thread;

use super::*;
use crate::sync::atomic::AtomicU64;

/// Asserts that the list is sorted, and that every entry is complete: its value contains its
/// sequence.
fn check(list: &SortedList) -> usize {
    let all = walk(list);
    assert!(all.windows(2).all(|w| compare((&w[0].0, w[0].1), (&w[1].0, w[1].1)).is_lt()));
    for (_, trailer, value) in &all {
        assert_eq!(*value, trailer.sequence().to_le_bytes());
    }
    all.len()
}

fn insert(list: &SortedList, key: &[u8], sequence: u64, splice: &mut Splice) {
    list.insert(key, trailer(sequence), &sequence.to_le_bytes(), splice);
}

/// One inserter, as in the product; a reader walks, another searches.
#[test]
fn readers_find_whole_entries_in_order() {
    explore::loom("sorted list: an inserter, a walk and a search", 2, Some(3), || {
        let list = Arc::new(SortedList::new());
        let walker = {
            let list = Arc::clone(&list);
            thread::spawn(move || assert!(check(&list) <= 2))
        };
        let searcher = {
            let list = Arc::clone(&list);
            thread::spawn(move || {
                let node = list.at_or_after(b"b", trailer(2));
                if !node.is_null() {
                    // SAFETY: the list is alive.
                    assert_eq!(unsafe { (node.key(), node.trailer()) }, (&b"b"[..], trailer(2)));
                }
            })
        };
        let mut splice = Splice::default();
        insert(&list, b"b", 2, &mut splice);
        insert(&list, b"a", 1, &mut splice);
        walker.join().unwrap();
        searcher.join().unwrap();
        assert_eq!(check(&list), 2);
    });
}

/// The sequence is the product's `visible`: a thread that has read it finds the entry.
#[test]
fn a_published_entry_is_found() {
    explore::loom("sorted list: publication of a sequence", 3, None, || {
        let shared = Arc::new((SortedList::new(), AtomicU64::new(0)));
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (list, visible) = &*shared;
                let sequence = visible.load(Ordering::Acquire);
                let node = list.at_or_after(b"key", Trailer::seek(sequence));
                if sequence > 0 {
                    // SAFETY: the list is alive; the entry was published.
                    assert_eq!(unsafe { node.trailer() }.sequence(), sequence);
                }
            })
        };
        let (list, visible) = &*shared;
        let mut splice = Splice::default();
        for sequence in 1..=2 {
            insert(list, b"key", sequence, &mut splice);
            visible.store(sequence, Ordering::Release);
        }
        reader.join().unwrap();
    });
}

/// A leaf is split, and a root is created above it, concurrently with a reader that searches
/// entries of both halves.
#[test]
fn page_split_loses_no_entry() {
    explore::loom("sorted list: a leaf splits beside a search", 2, Some(3), || {
        let shared = Arc::new((SortedList::new(), AtomicU64::new(0)));
        let keys = [b"e", b"a", b"c", b"g", b"b"];
        let (list, visible) = &*shared;
        let mut splice = Splice::default();
        for (key, sequence) in keys.iter().zip(1..).take(SLOTS) {
            insert(list, *key, sequence, &mut splice);
        }
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (list, visible) = &*shared;
                let seen = visible.load(Ordering::Acquire).max(SLOTS as u64);
                for (key, sequence) in keys.iter().zip(1..=seen) {
                    let node = list.at_or_after(*key, trailer(sequence));
                    // SAFETY: the list is alive; the entry is there.
                    let found = unsafe { (node.key(), node.trailer()) };
                    assert_eq!(found, (&key[..], trailer(sequence)));
                }
            })
        };
        for (key, sequence) in keys.iter().zip(1..).skip(SLOTS) {
            insert(list, *key, sequence, &mut splice);
            visible.store(sequence, Ordering::Release);
        }
        reader.join().unwrap();
        assert_eq!(check(list), keys.len());
    });
}

/// Slots that a split has freed are filled again while a reader may still count them.
#[test]
fn reused_slots_do_not_mislead_readers() {
    explore::loom("sorted list: a split page fills up again beside a search", 2, Some(3), || {
        let list = Arc::new(SortedList::new());
        let mut splice = Splice::default();
        for (key, sequence) in [b"a", b"c", b"e", b"g"].into_iter().zip(1..) {
            insert(&list, key, sequence, &mut splice);
        }
        let reader = {
            let list = Arc::clone(&list);
            thread::spawn(move || {
                for (key, sequence) in [(b"g", 4), (b"c", 2)] {
                    let node = list.at_or_after(key, trailer(sequence));
                    // SAFETY: the list is alive; the entry is there.
                    let found = unsafe { (node.key(), node.trailer()) };
                    assert_eq!(found, (&key[..], trailer(sequence)));
                }
            })
        };
        insert(&list, b"f", 5, &mut splice);
        insert(&list, b"b", 6, &mut splice);
        reader.join().unwrap();
        assert_eq!(check(&list), 6);
    });
}
