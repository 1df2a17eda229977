//! List, filter and tombstones together, under every execution that the memory
//! model allows: what a reader's sequence covers is found.

use std::sync::Arc;

use tidekv_models::explore;
use tidekv_models::loom::thread;

use super::*;
use crate::sync::atomic::AtomicU64;

/// So small that the first insertion makes the filter, of one line.
const TARGET_BYTES: usize = 64;

/// The filter comes into being, and then gets a key, beside a reader.
#[test]
fn the_filter_hides_nothing_that_is_visible() {
    explore::loom("memtable: a filter is made beside a reader", 2, Some(3), || {
        let shared = Arc::new((Memtable::new(TARGET_BYTES, 0), AtomicU64::new(0)));
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (memtable, visible) = &*shared;
                let sequence = visible.load(Ordering::Acquire);
                for (key, written_at) in [(b"a", 1), (b"b", 2)] {
                    let found = memtable.get(&LookupKey::new(key, sequence));
                    assert_eq!(found.is_some(), sequence >= written_at);
                    assert!(found.is_none_or(|found| found.payload == key));
                }
            })
        };
        let (memtable, visible) = &*shared;
        for (key, sequence) in [(b"a", 1), (b"b", 2)] {
            put(memtable, key, sequence, key);
            visible.store(sequence, Ordering::Release);
        }
        reader.join().unwrap();
    });
}

/// The fragments are made by whoever reads first, and again after another
/// tombstone has come.
#[test]
fn a_visible_tombstone_is_in_the_fragments() {
    explore::loom("memtable: tombstones come while fragments are made", 2, Some(3), || {
        let shared = Arc::new((Memtable::new(TARGET_BYTES, 0), AtomicU64::new(0)));
        let reader = |shared: &Arc<(Memtable, AtomicU64)>| {
            let shared = Arc::clone(shared);
            thread::spawn(move || {
                let (memtable, visible) = &*shared;
                let sequence = visible.load(Ordering::Acquire);
                assert_eq!(memtable.tombstone_over(b"k", sequence), sequence);
            })
        };
        let (memtable, visible) = &*shared;
        let readers = [reader(&shared), reader(&shared)];
        for sequence in 1..=2 {
            memtable.insert_tombstone(RangeTombstone::new(b"a", b"z", sequence), 7);
            visible.store(sequence, Ordering::Release);
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}
