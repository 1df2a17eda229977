//! Unit tests of memtables.

#[cfg(not(miri))]
mod models;

use super::*;
use crate::format::key::Kind;

fn put(memtable: &Memtable, key: &[u8], sequence: Sequence, value: &[u8]) {
    memtable.insert(key, Trailer::new(sequence, Kind::Value), value, 7, &mut Splice::default());
}

#[test]
fn readers_see_entries_up_to_their_sequence() {
    let memtable = Memtable::new(1 << 16, 0);
    assert!(memtable.is_empty() && memtable.first_log().is_none());
    put(&memtable, b"k", 5, b"five");
    put(&memtable, b"k", 9, b"nine");
    put(&memtable, b"l", 6, b"six");
    let get = |key: &[u8], at| memtable.get(&LookupKey::new(key, at)).map(|f| f.payload.to_vec());
    assert_eq!(get(b"k", 4), None);
    assert_eq!(get(b"k", 8), Some(b"five".to_vec()));
    assert_eq!(get(b"k", 9), Some(b"nine".to_vec()));
    assert_eq!(get(b"kk", 9), None);
    assert_eq!(memtable.newest_write(b"k"), 9);
    memtable.insert_tombstone(RangeTombstone::new(b"a", b"l", 11), 8);
    assert_eq!(memtable.newest_write(b"k"), 11);
    assert_eq!(memtable.newest_write(b"l"), 6);
    assert_eq!(memtable.tombstone_over(b"k", 10), 0);
    assert_eq!(memtable.first_log(), Some(7));
    assert_eq!(memtable.key_range(), Some((&b"k"[..], &b"l"[..])));
}

#[test]
fn filter_never_hides_a_key_and_rarely_passes_an_absent_one() {
    let filter = KeyFilter::new(1 << 12);
    let keys = (1usize << 12) * 8 / 16;
    for i in 0..keys {
        filter.insert(key_hash(&i.to_le_bytes()));
    }
    assert!((0..keys).all(|i| filter.may_contain(key_hash(&i.to_le_bytes()))));
    let wrong =
        (keys..keys + 10_000).filter(|i| filter.may_contain(key_hash(&i.to_le_bytes()))).count();
    assert!(wrong < 200, "{wrong} of 10000 absent keys passed");
}

#[test]
fn a_memtable_is_emptied_by_newer_deletions_of_all_its_keys() {
    let memtable = Memtable::new(1 << 16, 0);
    assert!(!memtable.is_emptied_by(&[RangeTombstone::new(b"", b"z", 9)]), "it has no entries");
    put(&memtable, b"b", 5, b"");
    put(&memtable, b"d", 6, b"");
    for (start, end, sequence, expected) in [
        (&b""[..], &b"e"[..], 7, true),
        (b"b", b"d\0", 7, true),
        (b"b", b"d", 7, false),
        (b"c", b"e", 7, false),
        (b"", b"e", 5, false),
    ] {
        let range = RangeTombstone::new(start, end, sequence);
        assert_eq!(memtable.is_emptied_by(&[range]), expected, "{start:?} {end:?} {sequence}");
    }
}

#[test]
fn cursors_move_in_both_directions() {
    let memtable = Arc::new(Memtable::new(1 << 16, 0));
    for i in 0..50u8 {
        put(&memtable, &[i], u64::from(i) + 1, &[i]);
    }
    let mut cursor = MemtableCursor::new(Arc::clone(&memtable));
    cursor.seek(Target::AtOrAfter(&[20], Trailer::seek(100))).unwrap();
    assert_eq!(cursor.user_key(), [20]);
    cursor.prev().unwrap();
    assert_eq!(cursor.value(), [19]);
    cursor.next().unwrap();
    cursor.next().unwrap();
    assert_eq!(cursor.user_key(), [21]);
    cursor.seek(Target::Last).unwrap();
    assert_eq!(cursor.user_key(), [49]);
    cursor.next().unwrap();
    assert!(!cursor.valid());
    cursor.seek(Target::First).unwrap();
    cursor.prev().unwrap();
    assert!(!cursor.valid());
}
