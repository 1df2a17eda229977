//! Returned values: long ones share the memory of their block, so that nothing is copied, short
//! ones do not keep theirs; both never change.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv::{
    CachePolicy, Compression, Db, Entry, EntryRef, Environment, Keyspace, KeyspaceOptions,
    NextWithin, Options,
};
use tidekv_io::{InlineExecutor, MemoryStorage};

fn value(n: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31) ^ n).collect()
}

/// Sixty entries of `len` bytes in tables only, every third with a deadline.
fn store(len: usize, compression: Compression) -> (Db, Keyspace) {
    let environment = Environment::default()
        .storage(Arc::new(MemoryStorage::new()))
        .executor(Arc::new(InlineExecutor::new()));
    let options = Options::default().memory_bytes(8 << 20).environment(environment);
    let db = Db::open("/d", options).unwrap();
    let options = KeyspaceOptions::default().compression(compression).compression_last(compression);
    let keyspace = db.keyspace_with("k", options).unwrap();
    for n in 0..60 {
        match n % 3 {
            0 => keyspace.put_with_ttl([n], value(n, len), Duration::from_secs(3600)).unwrap(),
            _ => keyspace.put([n], value(n, len)).unwrap(),
        }
    }
    db.flush().unwrap();
    (db, keyspace)
}

/// Every entry, by each kind of read.
fn reads(keyspace: &Keyspace) -> Vec<Vec<Entry>> {
    let keys: Vec<[u8; 1]> = (0..60).map(|n| [n]).collect();
    let get = |key: &[u8; 1]| keyspace.get_entry(key).unwrap().unwrap();
    vec![
        keys.iter().map(get).collect(),
        keyspace.multi_get(&keys).unwrap().into_iter().map(Option::unwrap).collect(),
        keyspace.iter().map(|entry| entry.unwrap().1).collect(),
    ]
}

#[test]
fn long_values_share_their_block_in_every_kind_of_read() {
    for compression in [Compression::None, Compression::Lz4] {
        for (len, is_shared) in [(100, false), (1000, true), (10_000, true)] {
            let (_db, keyspace) = store(len, compression);
            let all = reads(&keyspace);
            for n in 0..60u8 {
                let of_key = |entries: &Vec<Entry>| entries[usize::from(n)].clone();
                let entries: Vec<Entry> = all.iter().map(of_key).collect();
                for entry in &entries {
                    assert_eq!(entry.value, value(n, len));
                    assert_eq!(entry.expires_at_ms.is_some(), n % 3 == 0);
                    let same = entry.value.as_ptr() == entries[0].value.as_ptr();
                    let is_first = std::ptr::eq(entry, &entries[0]);
                    assert_eq!(same, is_shared || is_first, "{len} bytes of {n}");
                }
            }
        }
    }
}

#[test]
fn value_outlives_its_block_table_and_store() {
    let (db, keyspace) = store(1000, Compression::Lz4);
    let all = reads(&keyspace);
    for n in 0..60u8 {
        keyspace.put([n], value(!n, 1000)).unwrap();
    }
    db.compact().unwrap();
    assert_eq!(keyspace.get([7]).unwrap().unwrap(), value(!7, 1000));
    drop(keyspace);
    db.close().unwrap();
    for entries in all {
        let is_right = |(n, entry): (usize, Entry)| entry.value == value(n as u8, 1000);
        assert!(entries.into_iter().enumerate().all(is_right));
    }
}

#[test]
fn borrowed_entries_equal_those_of_the_iteration() {
    let (_db, keyspace) = store(100, Compression::None);
    keyspace.put([7], b"in the memtable").unwrap();
    let all: Vec<(Vec<u8>, Entry)> = keyspace
        .iter()
        .map(|item| item.map(|(key, entry)| (key.to_vec(), entry)).unwrap())
        .collect();
    let mut walk = keyspace.iter();
    let (mut front, mut back) = (0, all.len());
    while front < back {
        if front % 3 == 2 {
            back -= 1;
            assert_eq!(walk.next_back().unwrap().unwrap().0, all[back].0);
        }
        if front % 2 == 0 {
            let lent = walk.next_ref().unwrap();
            if front == back {
                assert_eq!(lent, None);
                break;
            }
            let (key, entry) = &all[front];
            let EntryRef { key: lent_key, value, expires_at_ms } = lent.unwrap();
            assert_eq!((lent_key, value), (&key[..], &entry.value[..]));
            assert_eq!(expires_at_ms, entry.expires_at_ms);
        } else {
            assert_eq!(
                walk.next().map(|item| item.unwrap().0),
                all.get(front).map(|(k, _)| k.clone().into())
            );
        }
        front += 1;
    }
    assert_eq!(walk.next_ref().unwrap(), None);
    assert!(walk.next().is_none() && walk.next_back().is_none());
    let mut keys_only = keyspace.iter().keys_only();
    assert_eq!(keys_only.next_ref().unwrap().map(|lent| lent.value), Some(&b""[..]));
    assert_eq!(keyspace.range([9]..[3]).next_ref().unwrap(), None);
}

#[test]
fn bounded_steps_skip_no_entry() {
    let (db, keyspace) = store(100, Compression::None);
    for i in 0..3000_u32 {
        keyspace.put(i.to_be_bytes(), b"old").unwrap();
        if i % 1000 == 0 {
            db.flush().unwrap();
        }
    }
    let left = |i: u32| i.is_multiple_of(97) && !(500..900).contains(&i) || i == 2999;
    keyspace.delete_range(500_u32.to_be_bytes(), 900_u32.to_be_bytes()).unwrap();
    for i in (0..3000).filter(|&i| !left(i)) {
        keyspace.delete(i.to_be_bytes()).unwrap();
    }
    let range = || keyspace.range(0_u32.to_be_bytes()..3000_u32.to_be_bytes());
    let all: Vec<Bytes> = range().map(|item| item.unwrap().0).collect();
    assert_eq!(all.len(), (0..3000).filter(|&i| left(i)).count());
    for skips_max in [0, 1, 7, 50, u64::MAX] {
        let (mut found, mut reached, mut calls) = (Vec::new(), Bytes::new(), 0);
        let mut iter = range();
        loop {
            let mut skips = skips_max;
            calls += 1;
            let (key, entry) = match iter.next_within(&mut skips).unwrap() {
                NextWithin::Entry(key, entry) => (key, Some(entry)),
                NextWithin::SkipLimit(key) => {
                    assert_eq!(skips, 0);
                    (key, None)
                }
                NextWithin::End => break,
            };
            assert!(reached < key, "{reached:?} {key:?}");
            reached = key;
            if let Some(entry) = entry {
                assert_eq!(entry.value, "old");
                found.push(reached.clone());
            }
        }
        assert_eq!(found, all, "{skips_max}");
        let calls_min = match skips_max {
            0 | 1 => 2500,
            7 => 300,
            50 => 50,
            _ => all.len() + 1,
        };
        assert!(calls >= calls_min, "{skips_max}: {calls}");
        assert_eq!(iter.next_within(&mut 9).unwrap(), NextWithin::End);
    }
    // It goes on from there, and meets the other end.
    let mut iter = range();
    assert!(matches!(iter.next_within(&mut 0).unwrap(), NextWithin::Entry(..)));
    assert_eq!(
        iter.next_within(&mut 50).unwrap(),
        NextWithin::SkipLimit(50_u32.to_be_bytes()[..].to_vec().into())
    );
    assert_eq!(iter.next().unwrap().unwrap().0, all[1]);
    assert!(matches!(iter.next_within(&mut 5).unwrap(), NextWithin::SkipLimit(_)));
    let back: Vec<Bytes> = iter.rev().map(|item| item.unwrap().0).collect();
    assert!(back.iter().rev().eq(&all[2..]));
}

#[test]
fn buffer_has_the_value_of_the_last_key_or_is_empty() {
    for len in [0, 100, 10_000] {
        let (db, keyspace) = store(len, Compression::None);
        keyspace.put([2], value(77, len)).unwrap();
        keyspace.delete([4]).unwrap();
        keyspace.put_with_ttl([5], value(5, len), Duration::ZERO).unwrap();
        for _ in 0..2 {
            let mut buffer = b"what was there before".to_vec();
            for n in 0..70u8 {
                let is_there = keyspace.get_into([n], &mut buffer).unwrap();
                assert_eq!(is_there, n < 60 && n != 4 && n != 5, "{n}");
                assert_eq!(is_there, keyspace.contains([n]).unwrap());
                let expected = value(if n == 2 { 77 } else { n }, len);
                assert_eq!(buffer, if is_there { expected } else { Vec::new() });
            }
            // Once more, from a table.
            db.flush().unwrap();
        }
    }
}

/// A read of many keys ends where the values would take too much memory, having read no more.
#[test]
fn multi_get_up_to_returns_the_first_entries_and_reads_no_more() {
    let (db, keyspace) = store(10_000, Compression::None);
    let keys: Vec<[u8; 1]> = (0..60).map(|n| [n]).collect();
    let all = keyspace.multi_get(&keys).unwrap();
    let snapshot = db.snapshot();
    for is_cached in [false, true] {
        for (bytes_max, count) in [(0, 1), (9_999, 1), (25_000, 2), (55_000, 5), (1 << 20, 60)] {
            if !is_cached {
                db.set_cache_policy(CachePolicy::BlockOnly);
                db.set_reserved_memory_bytes(u64::MAX);
            }
            let before = db.statistics().storage().read_bytes;
            let some = keyspace.multi_get_up_to(&keys, bytes_max).unwrap();
            let read = db.statistics().storage().read_bytes - before;
            assert_eq!(some, all[..count], "{bytes_max}");
            assert_eq!(read == 0, is_cached, "{bytes_max}");
            assert!(read <= (count * 11_000) as u64 + 20_000, "{bytes_max}: {read} bytes");
            assert_eq!(snapshot.multi_get_up_to(&keyspace, &keys, bytes_max).unwrap(), some);
        }
        db.set_reserved_memory_bytes(0);
        keyspace.multi_get(&keys).unwrap();
        keyspace.multi_get(&keys).unwrap();
    }
    assert_eq!(keyspace.multi_get_up_to::<&str>(&[], 100).unwrap(), []);
}
