//! The list against a sorted one, alone and among threads. Miri runs these.

#[cfg(not(miri))]
mod models;

use super::*;
use crate::key::{Kind, compare};

fn trailer(sequence: u64) -> Trailer {
    Trailer::new(sequence, Kind::Value)
}

fn walk(list: &SkipList) -> Vec<(Vec<u8>, Trailer, Vec<u8>)> {
    let mut all = Vec::new();
    let mut node = list.first();
    while !node.is_null() {
        // SAFETY: the list is alive.
        unsafe { all.push((node.key().to_vec(), node.trailer(), node.value().to_vec())) };
        node = list.next(node);
    }
    all
}

#[test]
fn entries_come_back_in_internal_order_and_searches_find_their_place() {
    let list = SkipList::new();
    let mut splice = Splice::default();
    let count = if cfg!(miri) { 60 } else { 2000u64 };
    let mut model = Vec::new();
    for i in 0..count {
        let key = format!("{}", i * 7919 % 311).into_bytes();
        let value = vec![i as u8; (i % 50) as usize];
        list.insert(&key, trailer(i + 1), &value, &mut splice);
        model.push((key, trailer(i + 1), value));
    }
    model.sort_by(|a, b| compare((&a.0, a.1), (&b.0, b.1)));
    assert_eq!(walk(&list), model);
    for sequence in [0, count / 2, count + 5] {
        for k in 0..320 {
            let key = format!("{k}").into_bytes();
            let seek = Trailer::seek(sequence);
            let at = model.partition_point(|e| compare((&e.0, e.1), (&key, seek)).is_lt());
            let got = |n: Node| {
                (!n.is_null()).then(|| {
                    // SAFETY: the list is alive.
                    unsafe { (n.key().to_vec(), n.trailer(), n.value().to_vec()) }
                })
            };
            assert_eq!(got(list.at_or_after(&key, seek)), model.get(at).cloned());
            assert_eq!(got(list.before(&key, seek)), at.checked_sub(1).map(|i| model[i].clone()));
        }
    }
    // SAFETY: the list is alive and not empty.
    assert_eq!(unsafe { list.last().key() }, &model.last().unwrap().0[..]);
}

#[test]
fn ascending_insertions_use_the_splice() {
    let list = SkipList::new();
    let mut splice = Splice::default();
    for i in 0..if cfg!(miri) { 50 } else { 5000u32 } {
        let key = i.to_be_bytes();
        let probe = Probe::new(&key, trailer(1));
        assert!(i == 0 || list.brackets(&splice, probe));
        list.insert(&key, trailer(1), b"v", &mut splice);
    }
    assert!(walk(&list).windows(2).all(|w| w[0].0 < w[1].0));
}

#[test]
fn concurrent_insertions_and_readers_see_a_sorted_list() {
    let list = SkipList::new();
    let per_thread = if cfg!(miri) { 25 } else { 3000u64 };
    std::thread::scope(|scope| {
        for t in 0..3u64 {
            let list = &list;
            scope.spawn(move || {
                let mut splice = Splice::default();
                for i in 0..per_thread {
                    let key = (i * 2_654_435_761 % 1009).to_be_bytes();
                    let sequence = 1 + i * 3 + t;
                    list.insert(&key, trailer(sequence), &sequence.to_le_bytes(), &mut splice);
                    let found = list.at_or_after(&key, trailer(sequence));
                    // SAFETY: the list is alive; the entry was just inserted.
                    unsafe {
                        assert_eq!((found.key(), found.trailer()), (&key[..], trailer(sequence)));
                    }
                }
            });
        }
        let list = &list;
        scope.spawn(move || {
            for _ in 0..5 {
                assert!(
                    walk(list)
                        .windows(2)
                        .all(|w| compare((&w[0].0, w[0].1), (&w[1].0, w[1].1)).is_lt())
                );
            }
        });
    });
    assert_eq!(walk(&list).len() as u64, 3 * per_thread);
}

/// A reader at an older sequence was given a newer version that was inserted
/// while it searched: the search looked at the same link twice.
#[test]
fn a_search_never_returns_what_sorts_before_it() {
    let list = SkipList::new();
    let last = std::sync::atomic::AtomicU64::new(0);
    let writes = if cfg!(miri) { 30 } else { 40_000u64 };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (list, last) = (&list, &last);
            scope.spawn(move || {
                loop {
                    let sequence = last.load(Ordering::Acquire);
                    let node = list.at_or_after(b"key", Trailer::seek(sequence));
                    if sequence > 0 {
                        // SAFETY: the list is alive; the key was inserted.
                        assert_eq!(unsafe { node.trailer() }.sequence(), sequence);
                    }
                    if sequence == writes {
                        break;
                    }
                }
            });
        }
        let mut splice = Splice::default();
        for sequence in 1..=writes {
            list.insert(b"key", trailer(sequence), b"", &mut splice);
            last.store(sequence, Ordering::Release);
        }
    });
}

#[test]
fn short_keys_sort_before_their_extensions() {
    let list = SkipList::new();
    let mut splice = Splice::default();
    for key in [&b"a\0"[..], b"a", b"a\0\0\0\0\0\0\0\0", b"a\0\0\0\0\0\0\0", b"b"] {
        list.insert(key, trailer(1), b"", &mut splice);
    }
    assert!(walk(&list).windows(2).all(|w| w[0].0 < w[1].0));
}
