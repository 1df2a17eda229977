//! Which values a list has room for, and which it may have at all.

use tidekv_cache::Name;
use tidekv_cache::{KpEntry, Pointer};

use super::*;

const NAME: [u8; 16] = [0; 16];
const VALUE: [u8; 100] = [0; 100];
/// Their sizes in a list.
const NAME_BYTES: usize = 20;
const VALUE_BYTES: usize = 112;

/// All writes of keyspace 1 up to `flushed` are in tables, and an ingest with sequence 50.
fn tables(flushed: Sequence) -> TablesNow {
    let written = InTables { flushed, ingested: [50].into() };
    let keyspaces = [(1, written)].into();
    TablesNow { keyspaces, now_ms: 1000, is_known: true, ..TablesNow::default() }
}

fn entry<'a>(key: &'a [u8], value: &'a [u8]) -> KvEntry<'a> {
    let stamp = Trailer::new(1, Kind::Value).0;
    KvEntry { name: Name { keyspace: 1, key }, stamp, value, level: 6 }
}

/// The list of 20 entries, the n-th accessed n times, and of `pointers` pointers: the first bytes
/// of the keys with values and of those without, the number of pointers, the free room.
fn listed(room: usize, pointers: usize) -> (Vec<u8>, Vec<u8>, usize, usize) {
    let (names, values) = (20 * NAME_BYTES, 20 * VALUE_BYTES);
    let wanted = Wanted { names, values, pointers: pointers * HotPointer::BYTES };
    let mut of_shard = OfShard::new(room, wanted);
    for n in 0..20 {
        let mut name = NAME;
        name[0] = n;
        of_shard.offer_entry(&entry(&name, &VALUE), n, &tables(9));
    }
    for n in 0..pointers {
        let pointer = Pointer { table: 1, offset: 0, len: 1, position: 0 };
        let entry = KpEntry { pointer, level: 1 };
        of_shard.offer_pointer(HotPointer { hash: n as u64, entry, times: 1 });
    }
    let mut list = HotList::default();
    let left = of_shard.finish(&mut list);
    let firsts = |has_value: bool| {
        let keys = list.keys.iter().filter(|key| key.value.is_some() == has_value);
        let mut firsts: Vec<u8> = keys.map(|key| key.key[0]).collect();
        firsts.sort_unstable();
        firsts
    };
    (firsts(true), firsts(false), list.pointers.len(), left)
}

#[test]
fn all_are_taken_where_there_is_room_for_all() {
    for pointers in [0, 10] {
        let room = 20 * (NAME_BYTES + VALUE_BYTES) + pointers * HotPointer::BYTES;
        assert_eq!(listed(room, pointers), ((0..20).collect(), vec![], pointers, 0));
    }
}

#[test]
fn names_and_pointers_have_their_room_before_the_last_values() {
    let all = 20 * (NAME_BYTES + VALUE_BYTES);
    assert_eq!(listed(all - 2 * VALUE_BYTES, 0), ((2..20).collect(), vec![0, 1], 0, 0));
    let (values, names, pointers, left) = listed(all, 10);
    assert_eq!((values, names, pointers), ((2..20).collect(), vec![0, 1], 10));
    assert_eq!(left, 2 * VALUE_BYTES - 10 * HotPointer::BYTES);
}

#[test]
fn values_take_two_thirds_where_room_is_short() {
    // In 600 bytes four values with their names, in 300 the names that fit beside the pointers.
    let (values, names, pointers, left) = listed(900, 4);
    assert_eq!((values, pointers), ((16..20).collect(), 4));
    assert_eq!(names, (6..16).collect::<Vec<u8>>());
    assert_eq!(left, 600 - 4 * (NAME_BYTES + VALUE_BYTES) + 300 - 4 * HotPointer::BYTES - 200);
    let (values, names, pointers, _) = listed(900, 1000);
    assert_eq!((values.len(), names.len(), pointers), (4, 0, 13));
}

#[test]
fn entries_with_most_saved_reads_per_byte_come_first() {
    let wanted = Wanted { names: 10_000, values: 10_000, pointers: 0 };
    let mut of_shard = OfShard::new(1700, wanted);
    // The long one alone would fit.
    for (name, value, times) in [(b"a", 1000, 15), (b"b", 50, 3), (b"c", 50, 0), (b"d", 100, 8)] {
        of_shard.offer_entry(&entry(name, &vec![0; value]), times, &tables(9));
    }
    let mut list = HotList::default();
    of_shard.finish(&mut list);
    let with = list.keys.iter().filter(|key| key.value.is_some());
    let mut with: Vec<u8> = with.map(|key| key.key[0]).collect();
    with.sort_unstable();
    assert_eq!((with, list.keys.len()), (b"bd".to_vec(), 4));
}

#[test]
fn a_list_vouches_for_what_is_in_a_table_and_has_not_expired() {
    let with = |sequence, kind| KvEntry {
        stamp: Trailer::new(sequence, kind).0,
        ..entry(b"key", b"value")
    };
    let vouched = |entry: KvEntry<'_>| tables(9).vouch_for(&entry);
    assert!(vouched(with(0, Kind::Value)) && vouched(with(9, Kind::Value)));
    // A failed flush has put this one into the cache; after it there was an ingest.
    assert!(!vouched(with(10, Kind::Value)));
    assert!(vouched(with(50, Kind::Value)) && !vouched(with(51, Kind::Value)));
    // The contents of a table of an older format are unknown.
    let of_before = TablesNow { is_known: false, ..tables(9) };
    assert!(!of_before.vouch_for(&with(1, Kind::Value)));
    let elsewhere = Name { keyspace: 2, key: b"key" };
    assert!(!vouched(KvEntry { name: elsewhere, ..with(1, Kind::Value) }));
    for (deadline, is_alive) in [(1001u64, true), (1000, false)] {
        let value = [&deadline.to_le_bytes()[..], b"value"].concat();
        assert_eq!(vouched(KvEntry { value: &value, ..with(1, Kind::Expiring) }), is_alive);
    }
}

/// If values are short compared with their keys, the list has as many of them as fit, and further
/// names.
#[test]
fn short_values_of_long_keys_leave_no_room_unused() {
    let wanted = Wanted { names: 100 * 34, values: 100 * 32, pointers: 0 };
    let mut of_shard = OfShard::new(3000, wanted);
    for n in 0..100 {
        let mut name = [0; 30];
        name[0] = n;
        of_shard.offer_entry(&entry(&name, &[0; 20]), n, &tables(9));
    }
    let mut list = HotList::default();
    let left = of_shard.finish(&mut list);
    let values = list.keys.iter().filter(|key| key.value.is_some()).count();
    assert_eq!((values, list.keys.len() - values), (2000 / 66, 1000 / 34));
    assert!(left < 66 + 34, "{left} bytes are left");
}
