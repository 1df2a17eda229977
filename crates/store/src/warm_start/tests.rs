//! Which values a list has room for.

use super::*;
use crate::key::Kind;

/// A key of KV with a value of so many bytes.
fn key(name: u8, value: usize, times: u8) -> HotKey {
    let name = [name; 16];
    let value = vec![0; value];
    let entry = KvEntry {
        name: Name { keyspace: 1, key: &name },
        stamp: Trailer::new(1, Kind::Value).0,
        value: &value,
        level: 6,
    };
    hot_key(&entry, times, &tables_with(1))
}

/// Keyspace 1 has tables with all writes up to this one.
fn tables_with(sequence: Sequence) -> TablesNow {
    let (traits, flushed) = (BTreeMap::new(), [(1, sequence)].into());
    TablesNow { fingerprint: 0, bytes: 0, traits, flushed }
}

/// The first bytes of keys, and whether they have values.
fn told(keys: &[HotKey]) -> Vec<(u8, bool)> {
    keys.iter().map(|key| (key.key[0], key.value.is_some())).collect()
}

/// What 20 keys with values of 100 bytes take, and by their names alone.
const ALL: usize = 20 * NAME + 20 * 112;
const NAME: usize = 20;

fn twenty() -> Vec<HotKey> {
    (0..20).map(|n| key(n, 100, n)).collect()
}

#[test]
fn all_values_are_taken_where_there_is_room_for_all() {
    for of_pointers in [0, 300] {
        let (mut keys, mut room) = (twenty(), ALL + of_pointers);
        assert_eq!(take_hottest_values(&mut keys, &mut room, of_pointers).len(), 20);
        assert_eq!((keys.len(), room), (0, of_pointers));
    }
}

#[test]
fn names_and_pointers_have_their_room_before_the_last_values() {
    // Of what two values take, all keys stand there by name.
    let (mut keys, mut room) = (twenty(), ALL - 2 * 112);
    assert_eq!(take_hottest_values(&mut keys, &mut room, 0).len(), 18);
    assert_eq!((told(&keys), room), (vec![(1, false), (0, false)], 2 * NAME));
    let (mut keys, mut room) = (twenty(), ALL);
    assert_eq!(take_hottest_values(&mut keys, &mut room, 200).len(), 18);
    assert_eq!(room, 2 * NAME + 224);
}

#[test]
fn values_take_two_thirds_where_room_is_short() {
    let (mut keys, mut room) = (twenty(), 900);
    let hottest = take_hottest_values(&mut keys, &mut room, 10_000);
    let taken: Vec<(u8, bool)> = (15..20).rev().map(|n| (n, true)).collect();
    assert_eq!(told(&hottest), taken);
    assert_eq!((keys.len(), room), (15, 900 - 5 * (NAME + 112)));
    assert!(keys.iter().all(|key| key.value.is_none()));
}

#[test]
fn what_saves_most_for_its_bytes_comes_first() {
    let mut keys = vec![key(1, 1000, 15), key(2, 50, 3), key(3, 50, 0), key(4, 100, 8)];
    // The long one alone would fit.
    let mut room = 1600;
    let hottest = take_hottest_values(&mut keys, &mut room, 10_000);
    assert_eq!(told(&hottest), [(4, true), (2, true), (3, true)]);
    assert_eq!(told(&keys), [(1, false)]);
}

#[test]
fn what_is_in_no_table_is_in_a_list_by_name_alone() {
    let stamp = Trailer::new(9, Kind::Value).0;
    let name = Name { keyspace: 1, key: b"key" };
    let entry = KvEntry { name, stamp, value: b"value", level: 0 };
    let mut keys = vec![
        hot_key(&entry, 15, &tables_with(8)),
        hot_key(&KvEntry { name: Name { keyspace: 2, ..name }, ..entry }, 15, &tables_with(9)),
        hot_key(&entry, 1, &tables_with(9)),
    ];
    assert_eq!(
        keys.iter().map(|key| key.value.is_some()).collect::<Vec<_>>(),
        [false, false, true]
    );
    assert_eq!(take_hottest_values(&mut keys, &mut 1000, 0).len(), 1);
    assert!(keys.len() == 2 && keys.iter().all(|key| key.value.is_none()));
}
