//! The list under every execution that the memory model allows. loom chooses
//! among the values that a load may see, so a link that is published without
//! `Release`, or followed without `Acquire`, leads to a node whose bytes are not
//! there: its witness fails the model.

use std::sync::Arc;

use tidekv_models::explore;
use tidekv_models::loom::thread;

use super::*;
use crate::sync::atomic::AtomicU64;

/// An empty list whose first nodes are 2, 1, 2 and 2 links high, so that the
/// models see more than one level.
fn list() -> SkipList {
    SkipList { random: AtomicU32::new(490), ..SkipList::new() }
}

/// Asserts that the list is sorted, and that every node is whole: its value says
/// its sequence.
fn check(list: &SkipList) -> usize {
    let all = walk(list);
    assert!(all.windows(2).all(|w| compare((&w[0].0, w[0].1), (&w[1].0, w[1].1)).is_lt()));
    for (_, trailer, value) in &all {
        assert_eq!(*value, trailer.sequence().to_le_bytes());
    }
    all.len()
}

fn insert(list: &SkipList, key: &[u8], sequence: u64, splice: &mut Splice) {
    list.insert(key, trailer(sequence), &sequence.to_le_bytes(), splice);
}

/// One inserter, as in the product; a reader walks, another searches.
#[test]
fn readers_find_whole_nodes_in_order() {
    explore::loom("skiplist: an inserter, a walk and a search", 2, Some(5), || {
        let list = Arc::new(list());
        let walker = {
            let list = Arc::clone(&list);
            thread::spawn(move || assert!(check(&list) <= 3))
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
        insert(&list, b"a", 3, &mut splice);
        walker.join().unwrap();
        searcher.join().unwrap();
        assert_eq!(check(&list), 3);
        assert_eq!(list.height.load(Ordering::Relaxed), 2);
    });
}

/// The sequence is the product's `visible`: whoever has read it finds the entry.
#[test]
fn a_published_entry_is_found() {
    explore::loom("skiplist: publication of a sequence", 3, None, || {
        let shared = Arc::new((list(), AtomicU64::new(0)));
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

/// The list promises more than the product asks for: several may insert.
#[test]
fn inserters_do_not_lose_each_others_nodes() {
    explore::loom("skiplist: two inserters at one place", 2, Some(5), || {
        let list = Arc::new(list());
        let other = {
            let list = Arc::clone(&list);
            thread::spawn(move || {
                let mut splice = Splice::default();
                insert(&list, b"k", 2, &mut splice);
                insert(&list, b"m", 4, &mut splice);
            })
        };
        insert(&list, b"k", 1, &mut Splice::default());
        assert!(check(&list) >= 1);
        other.join().unwrap();
        assert_eq!(check(&list), 3);
    });
}
