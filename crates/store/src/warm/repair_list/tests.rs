//! Lists round-trip, and malformed lists are rejected.

use super::*;
use tidekv_testkit::golden::Dump;

fn list() -> RepairList {
    let packed = |bucket: u64, seed: u64| bucket << 40 | seed << 32 | 0x0403_0201;
    let of = |number, partitions| RepairedTable {
        id: TableIdentity { number, bytes: 70_000, contents: 0x1122_3344_5566_7788 },
        partitions,
    };
    RepairList {
        store: 77,
        tables: vec![
            of(9, vec![(0, vec![packed(0, 1), packed(1, 0)]), (3, vec![packed(3000, 255)])]),
            of(12, vec![(1, vec![packed(u64::from(BUCKETS_MAX) - 1, 7)])]),
        ],
    }
}

fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0; HEAD_BYTES], body].concat();
    list_file::seal(MAGIC, &mut bytes);
    bytes
}

#[test]
fn repair_list_round_trips() {
    for list in [list(), RepairList::default()] {
        assert_eq!(RepairList::decode(&list.encode()), Some(list));
    }
}

#[test]
fn repair_list_matches_golden_bytes() {
    let bytes = list().encode();
    let mut dump = Dump::new(
        "Repairs of filters when a store was closed. See crates/store/src/warm/repair_list.rs.",
    );
    let parts = [(8, "Magic"), (16, "Checksum"), (24, "Store"), (bytes.len(), "Tables")];
    dump.parts(&bytes, &parts);
    let released = dump.hold_against("filter-repairs");
    assert_eq!(RepairList::decode(&released[0].1), Some(list()));
}

#[test]
fn torn_or_damaged_repair_list_is_ignored() {
    let bytes = list().encode();
    for len in 0..bytes.len() {
        assert_eq!(RepairList::decode(&bytes[..len]), None, "{len} bytes");
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert_eq!(RepairList::decode(&damaged), None, "byte {at}");
    }
}

#[test]
fn malformed_repair_list_is_ignored_despite_a_valid_checksum() {
    let store = 77_u64.to_le_bytes();
    let table = [&[1, 9, 5][..], &[1; 8], &[1, 0]].concat();
    let of = |repairs: &[u8]| sealed(&[&store[..], &table, repairs].concat());
    assert!(RepairList::decode(&of(&[1, 3, 1, 2, 3, 4, 5])).is_some());
    for wrong in [
        // Two repairs of one bucket, an impossible bucket, one that is cut off, trailing bytes.
        &[2, 3, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5][..],
        &[1, 0xFF, 0xFF, 0xFF, 0x0F, 1, 2, 3, 4, 5],
        &[1, 3, 1, 2, 3, 4],
        &[0, 0],
        // No repair at all.
        &[0],
    ] {
        assert_eq!(RepairList::decode(&of(wrong)), None, "{wrong:?}");
    }
}
