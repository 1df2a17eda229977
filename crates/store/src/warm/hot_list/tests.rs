//! Lists round-trip, and malformed lists are rejected.

use super::*;
use crate::format::checksum::long_checksum;
use tidekv_testkit::golden::Dump;

fn list() -> HotList {
    let block = |table, offset, times| HotBlockId { id: BlockId { table, offset }, times };
    let pointer = Pointer { table: 9, offset: 1 << 30, len: 4096, position: 17 };
    let value = |sequence, kind, payload: &[u8]| {
        let trailer = Trailer::new(sequence, kind);
        Some(Box::new(HotValue { trailer, level: 5, payload: payload.into() }))
    };
    let deadline = [&7u64.to_le_bytes()[..], b"!"].concat();
    HotList {
        fingerprint: 0x0123_4567_89AB_CDEF,
        shares: [0.25, 0.125, 0.625],
        shards: 64,
        blocks: vec![block(3, 0, 1), block(3, 4096, 15), block(200, 8192, 2)],
        keys: vec![
            HotKey {
                keyspace: 0,
                key: (*b"ripe").into(),
                times: 15,
                value: value(300, Kind::Value, b"red"),
            },
            HotKey {
                keyspace: 9,
                key: (*b"milk").into(),
                times: 5,
                value: value(0, Kind::Expiring, &deadline),
            },
            HotKey { keyspace: 0, key: (*b"apple").into(), times: 4, value: None },
            HotKey { keyspace: 7, key: [].into(), times: 0, value: None },
        ],
        pointers: vec![HotPointer {
            hash: 63 << 40 | 12345,
            entry: KpEntry { pointer, level: 6 },
            times: 3,
        }],
    }
}

#[test]
fn hot_list_round_trips() {
    for list in [list(), HotList { shares: [0.0, 0.0, 1.0], ..HotList::default() }] {
        assert_eq!(HotList::decode(&list.encode()), Some(list));
    }
}

#[test]
fn hot_list_matches_golden_bytes() {
    let bytes = list().encode();
    let parts = [
        (16, "Magic, checksum"),
        (24, "Fingerprint of the store"),
        (32, "Shares of KV and KP"),
        (33, "Shards"),
        (47, "Hot tables: two blocks of one, one of another"),
        (48, "Keys: how many"),
        (63, "One with a value"),
        (82, "One with a value that expires"),
        (93, "Two without"),
        (bytes.len(), "Pointers"),
    ];
    let mut dump = Dump::new("What was hot. See crates/store/src/warm/hot_list.rs.");
    dump.parts(&bytes, &parts);
    let released = dump.hold_against("hot-list");
    assert_eq!(HotList::decode(&released[0].1), Some(list()));
}

#[test]
fn torn_or_damaged_hot_list_is_ignored() {
    let bytes = list().encode();
    for len in 0..bytes.len() {
        assert_eq!(HotList::decode(&bytes[..len]), None, "{len} bytes");
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert_eq!(HotList::decode(&damaged), None, "byte {at}");
    }
}

#[test]
fn malformed_hot_list_is_ignored_despite_a_valid_checksum() {
    let sealed = |body: &[u8]| {
        let mut bytes = MAGIC.to_vec();
        let sum = long_checksum(u64::from_le_bytes(MAGIC), body);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    };
    // Claims more blocks or keys than it has bytes; shares beyond one; a level that
    // there is not; blocks in another order; a value that is a deletion; one with a
    // deadline of seven bytes; one of no key.
    let none = [0; 16];
    for body in [
        &[0; 15][..],
        &[&none[..], &[1, 1, 5, 0xFF, 0xFF, 0x7F]].concat(),
        &[&none[..], &[1, 0, 0xFF, 0xFF, 0x7F]].concat(),
        &[&[0; 8][..], &2f32.to_le_bytes(), &[0; 8]].concat(),
        &[&none[..], &[1, 0, 0, 1], &[0; 8], &[9, 9, 9, 9, 8, 1]].concat(),
        &[&none[..], &[1, 2, 5, 1, 9, 1, 5, 1, 8, 1, 0, 0]].concat(),
        &[&none[..], &[1, 0, 1, 0, 1, 9, 0x81, 0, 6, 0, 0]].concat(),
        &[&none[..], &[1, 0, 1, 0, 1, 9, 0x81, 2, 6, 7], &[0; 7], &[0]].concat(),
        &[&none[..], &[1, 0, 1, 0, 0, 0x81, 1, 6, 0, 0]].concat(),
    ] {
        assert_eq!(HotList::decode(&sealed(body)), None, "{body:?}");
    }
    assert!(HotList::decode(&sealed(&[&none[..], &[1, 0, 0, 0]].concat())).is_some());
    for body in [
        [&none[..], &[1, 0, 0, 1], &[0; 8], &[9, 9, 9, 9, 7, 1]].concat(),
        [&none[..], &[1, 0, 1, 0, 1, 9, 0x81, 1, 6, 0, 0]].concat(),
        [&none[..], &[1, 0, 1, 0, 1, 9, 0x81, 2, 6, 8], &[0; 8], &[0]].concat(),
    ] {
        assert!(HotList::decode(&sealed(&body)).is_some(), "{body:?}");
    }
}
