//! The list compared with a sorted vector, on one and on many threads. Miri runs these.

#[cfg(not(miri))]
mod models;

use tidekv_io::SeededRandom;

use super::*;
use crate::format::key::{Kind, compare};

fn trailer(sequence: u64) -> Trailer {
    Trailer::new(sequence, Kind::Value)
}

fn walk(list: &SortedList) -> Vec<(Vec<u8>, Trailer, Vec<u8>)> {
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
fn entries_are_in_internal_order_and_searches_find_them() {
    let list = SortedList::new();
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
    let list = SortedList::new();
    let mut splice = Splice::default();
    for i in 0..if cfg!(miri) { 50 } else { 5000u32 } {
        let key = i.to_be_bytes();
        let probe = Probe { key: &key, trailer: trailer(1) };
        // SAFETY: the splice is of this list.
        assert!(i == 0 || unsafe { list.follows(&splice, probe) });
        list.insert(&key, trailer(1), b"v", &mut splice);
    }
    assert!(walk(&list).windows(2).all(|w| w[0].0 < w[1].0));
}

/// Keys whose first bytes are the same, are the same except for their length, or change all at
/// once: the shared prefix of a page must hold for all its keys.
#[test]
fn keys_of_a_page_are_distinguished_after_their_shared_prefix() {
    let keys = |order: &dyn Fn(u64) -> u64| -> Vec<Vec<u8>> {
        let count = if cfg!(miri) { 40 } else { 1500 };
        let key = |n: u64| match n % 5 {
            0 => format!("a long way to the first difference {:06}", n).into_bytes(),
            1 => vec![b'z'; (n % 70) as usize + 1],
            2 => [&[0; 9][..], &n.to_be_bytes()].concat(),
            3 => n.to_be_bytes().to_vec(),
            _ => format!("a long way to {n}").into_bytes(),
        };
        (0..count).map(|i| key(order(i))).collect()
    };
    let orders: [&dyn Fn(u64) -> u64; 4] =
        [&|i| i, &|i| 1_000_000 - i, &|i| i * 7919 % 100_003, &|i| (i % 7) << 50 | i];
    for order in orders {
        let (list, mut splice) = (SortedList::new(), Splice::default());
        let mut model = std::collections::BTreeSet::new();
        for (i, key) in keys(order).into_iter().enumerate() {
            let trailer = trailer(i as u64 + 1);
            list.insert(&key, trailer, b"", &mut splice);
            model.insert((key, std::cmp::Reverse(trailer)));
        }
        let expected: Vec<_> = model.iter().map(|(key, t)| (key.clone(), t.0)).collect();
        let found: Vec<_> = walk(&list).into_iter().map(|(key, t, _)| (key, t)).collect();
        assert_eq!(found, expected);
        for (i, (key, trailer)) in expected.iter().enumerate() {
            // SAFETY: the list is alive; its entries are there.
            unsafe {
                let here = list.at_or_after(key, *trailer);
                assert_eq!((here.key(), here.trailer()), (&key[..], *trailer));
                let before = list.before(key, *trailer);
                assert_eq!(before.is_null(), i == 0);
                assert!(i == 0 || before.key() == expected[i - 1].0);
            }
        }
    }
}

/// A page used the prefix that its first keys shared; another page was begun after it for a key
/// that did not share it, and a key of the gap between them was inserted in the wrong order and
/// lost.
#[test]
fn keys_of_few_letters_are_found_after_any_insertion_order() {
    let (rounds, count) = if cfg!(miri) { (1, 60) } else { (60, 400u64) };
    let random = SeededRandom::new(1);
    for round in 0..rounds {
        let (list, mut splice) = (SortedList::new(), Splice::default());
        let mut model = std::collections::BTreeSet::new();
        for sequence in 1..=count {
            let same = if random.below(2) == 0 { 0 } else { random.below(12) };
            let letters = (0..random.below(4) + 1).map(|_| b'a' + random.below(3) as u8);
            let key: Vec<u8> = std::iter::repeat_n(b'b', same as usize).chain(letters).collect();
            list.insert(&key, trailer(sequence), b"", &mut splice);
            model.insert((key, std::cmp::Reverse(trailer(sequence))));
            if sequence % 50 == 0 {
                let found = walk(&list).into_iter().map(|(key, t, _)| (key, std::cmp::Reverse(t)));
                assert!(found.eq(model.iter().cloned()), "round {round}");
            }
        }
        for (key, trailer) in &model {
            // SAFETY: the list is alive; its entries are there.
            unsafe {
                let here = list.at_or_after(key, trailer.0);
                assert_eq!((here.key(), here.trailer()), (&key[..], trailer.0));
            }
        }
    }
}

#[test]
fn concurrent_readers_see_a_sorted_list_and_find_all_entries() {
    let list = SortedList::new();
    let inserted = std::sync::atomic::AtomicU64::new(0);
    let count = if cfg!(miri) { 40 } else { 20_000u64 };
    let key = |i: u64| (i * 2_654_435_761 % 100_003).to_be_bytes();
    std::thread::scope(|scope| {
        for reader in 0..2u64 {
            let (list, inserted) = (&list, &inserted);
            scope.spawn(move || {
                let random = SeededRandom::new(reader);
                loop {
                    let there = inserted.load(Ordering::Acquire);
                    if there > 0 {
                        let i = random.below(there);
                        let found = list.at_or_after(&key(i), trailer(i + 1));
                        // SAFETY: the list is alive; the entry was inserted.
                        unsafe {
                            let found = (found.key(), found.trailer());
                            assert_eq!(found, (&key(i)[..], trailer(i + 1)));
                        }
                    }
                    if there == count {
                        break;
                    }
                    if random.below(256) == 0 {
                        let in_order = |w: &[(Vec<u8>, Trailer, Vec<u8>)]| {
                            compare((&w[0].0, w[0].1), (&w[1].0, w[1].1)).is_lt()
                        };
                        assert!(walk(list).windows(2).all(in_order));
                    }
                }
            });
        }
        let mut splice = Splice::default();
        for i in 0..count {
            list.insert(&key(i), trailer(i + 1), &i.to_le_bytes(), &mut splice);
            inserted.store(i + 1, Ordering::Release);
        }
    });
    assert_eq!(walk(&list).len() as u64, count);
}

/// A reader at an older sequence got a newer version that was inserted during its search: the
/// search read the same link twice.
#[test]
fn search_never_returns_an_earlier_entry() {
    let list = SortedList::new();
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
    let list = SortedList::new();
    let mut splice = Splice::default();
    for key in [&b"a\0"[..], b"a", b"a\0\0\0\0\0\0\0\0", b"a\0\0\0\0\0\0\0", b"b"] {
        list.insert(key, trailer(1), b"", &mut splice);
    }
    assert!(walk(&list).windows(2).all(|w| w[0].0 < w[1].0));
}
