//! List, filter and tombstones together, under every execution that the memory model allows: a
//! reader finds all entries that its sequence covers.

use std::sync::Arc;

use tidekv_testkit::models::explore;
use tidekv_testkit::models::loom::thread;

use super::*;
use crate::sync::atomic::AtomicU64;

/// Large enough for a chunk of its own.
const LARGE_BYTES: usize = 1100;

/// A memtable that builds its filter at the insertion after which it holds `bytes` more than with
/// one small entry.
fn memtable(bytes: usize) -> Memtable {
    let first = Memtable::new(usize::MAX, 0);
    put(&first, b"a", 1, b"");
    Memtable::new((first.charge() + bytes) * BYTES_PER_FILTER_BYTE, 0)
}

/// Inserts two keys, the second with a value of `len` bytes, concurrently with a reader.
fn insert_beside_a_reader(memtable: Memtable, len: usize) {
    let shared = Arc::new((memtable, AtomicU64::new(0)));
    let reader = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let (memtable, visible) = &*shared;
            let sequence = visible.load(Ordering::Acquire);
            for (key, written_at) in [(b"a", 1), (b"b", 2)] {
                let found = memtable.get(&LookupKey::new(key, sequence));
                assert_eq!(found.is_some(), sequence >= written_at);
            }
        })
    };
    let (memtable, visible) = &*shared;
    for (key, sequence, value) in [(b"a", 1, vec![]), (b"b", 2, vec![0; len])] {
        put(memtable, key, sequence, &value);
        visible.store(sequence, Ordering::Release);
    }
    reader.join().unwrap();
    assert!(memtable.filter.get().is_some());
}

#[test]
fn new_filter_hides_no_visible_entry() {
    explore::loom("memtable: a filter is made beside a reader", 2, None, || {
        insert_beside_a_reader(memtable(LARGE_BYTES), LARGE_BYTES);
    });
}

/// The first insertion builds the filter, of one line; the second adds to it.
#[test]
fn filter_update_hides_no_visible_entry() {
    explore::loom("memtable: a filter gets a key beside a reader", 2, None, || {
        insert_beside_a_reader(Memtable::new(64, 0), 0);
    });
}

/// The first reader builds the fragments, which are rebuilt after another tombstone.
#[test]
fn a_visible_tombstone_is_in_the_fragments() {
    explore::loom("memtable: tombstones come while fragments are made", 2, Some(3), || {
        let shared = Arc::new((Memtable::new(1 << 16, 0), AtomicU64::new(0)));
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
