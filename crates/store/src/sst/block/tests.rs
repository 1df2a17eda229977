//! Blocks of random entries compared with a sorted list, and damaged blocks.

use proptest::prelude::*;

use super::*;
use crate::format::key::{Kind, Trailer, compare};
use crate::options::Compression;
use tidekv_testkit::golden::Dump;

type Entry = (Vec<u8>, Trailer, Vec<u8>);

fn block_of(entries: &[Entry]) -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for (key, trailer, payload) in entries {
        let announced = builder.bytes_with(key, *trailer, payload.len());
        builder.add(key, *trailer, payload);
        assert_eq!(builder.bytes(), announced);
    }
    let announced = builder.bytes();
    let mut out = b"before".to_vec();
    builder.finish(&mut out);
    assert!(builder.is_empty());
    assert_eq!(out.len(), 6 + announced);
    out.split_off(6)
}

fn parsed(bytes: &[u8]) -> Option<Block> {
    Block::new(Content::Exact(bytes.into()), BlockKind::Data, 0)
}

/// Keys that often share prefixes and lengths, or are equal.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = prop_oneof![
        prop::collection::vec(0u8..3, 1..12),
        prop::collection::vec(any::<u8>(), 9..10),
        (0u8..4, prop::collection::vec(0u8..2, 1..3)).prop_map(|(n, tail)| {
            let mut key = vec![n; usize::from(n) * 90 + 7];
            key.extend(tail);
            key
        }),
    ];
    let entry = (key, 0u64..6, 0u8..3, prop::collection::vec(any::<u8>(), 0..40));
    (prop::collection::vec(entry, 0..60), any::<bool>(), 0u64..2).prop_map(
        |(list, shared, scale)| {
            let mut entries: Vec<Entry> = list
                .into_iter()
                .map(|(mut key, sequence, kind, payload)| {
                    if shared {
                        key.splice(0..0, *b"shared/");
                    }
                    let trailer =
                        Trailer::new(sequence << (40 * scale), Kind::from_u8(kind).unwrap());
                    (key, trailer, payload)
                })
                .collect();
            entries.sort_by(|a, b| compare((&a.0, a.1), (&b.0, b.1)));
            entries.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
            entries
        },
    )
}

proptest! {
    #[test]
    fn entries_round_trip_and_searches_agree_with_a_scan(entries in entries(), probes in entries()) {
        let block = parsed(&block_of(&entries)).unwrap();
        let view = block.view();
        prop_assert_eq!(view.len(), entries.len());
        let mut key = Vec::new();
        for (i, (user_key, trailer, payload)) in entries.iter().enumerate() {
            let entry = view.entry(i);
            view.key_into(i, &mut key);
            prop_assert_eq!((&key, entry.trailer, entry.payload), (user_key, *trailer, &payload[..]));
            prop_assert_eq!(&block.bytes()[entry.payload_range()], &payload[..]);
            prop_assert!(view.has_key(i, user_key));
        }
        for (user_key, trailer, _) in probes.iter().chain(&entries) {
            for trailer in [*trailer, Trailer(0), Trailer::seek(3)] {
                let expected = entries
                    .partition_point(|e| compare((&e.0, e.1), (user_key, trailer)).is_lt());
                prop_assert_eq!(view.lower_bound(user_key, trailer), expected);
            }
        }
    }

    #[test]
    fn damaged_blocks_are_refused_or_read_safely(
        entries in entries(), flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
    ) {
        let mut bytes = block_of(&entries);
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        read_all(&bytes);
        for cut in 0..bytes.len().min(100) {
            read_all(&bytes[..cut]);
        }
    }

    #[test]
    fn arbitrary_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        read_all(&bytes);
    }
}

/// Reads everything in `bytes`, if they are accepted as a block.
fn read_all(bytes: &[u8]) {
    let Some(block) = parsed(bytes) else { return };
    let view = block.view();
    let mut key = Vec::new();
    for i in 0..view.len() {
        view.entry(i);
        view.key_into(i, &mut key);
        view.lower_bound(&key, Trailer::seek(3));
    }
    view.lower_bound(b"shared/\x01", Trailer(0));
}

#[test]
fn an_entry_of_fixed_sizes_on_the_last_level_costs_one_byte() {
    let entry =
        |i: u32| (format!("user{i:012}").into_bytes(), Trailer::new(0, Kind::Value), vec![7; 100]);
    let entries: Vec<Entry> = (0..30).map(entry).collect();
    let bytes = block_of(&entries);
    // Two digits differ; the other fourteen bytes of the keys are stored once.
    assert_eq!(bytes.len(), 30 * (2 + 1 + 100) + 1 + 1 + 14 + 1 + 1);
}

#[test]
fn large_columns_have_wide_ends() {
    let entries: Vec<Entry> = (0..4u8)
        .map(|i| {
            (
                vec![i; 1 + usize::from(i)],
                Trailer::new(9, Kind::Value),
                vec![i; 30_000 + usize::from(i)],
            )
        })
        .collect();
    let block = parsed(&block_of(&entries)).unwrap();
    assert_eq!(block.view().entry(3).payload, &[3; 30_003]);
}

/// Future compressors may pack better, so today's output is only checked to decompress to the
/// input; released output must stay readable.
#[test]
fn released_blocks_are_still_read_under_every_compression() {
    const NAMES: [(Compression, &str); 3] =
        [(Compression::None, "none"), (Compression::Lz4, "lz4"), (Compression::Zstd, "zstd")];
    let entries: Vec<Entry> = (0..40u64)
        .map(|n| {
            let key = format!("tide/{n:02}").into_bytes();
            (key, Trailer::new(n, Kind::Value), b"high water, low water".to_vec())
        })
        .collect();
    let content = block_of(&entries);
    let mut dump = Dump::new(
        "A data block at offset 4096 of table 7 in its envelope, under each compression. \
         See crates/store/src/sst/block.rs and block/envelope.rs.",
    );
    for (compression, name) in NAMES {
        dump.file(name);
        let mut sealed = Vec::new();
        let packed = Sealer::default().seal(&content, compression, seed(7, 4096), &mut sealed);
        assert_eq!(packed, compression != Compression::None);
        assert_eq!(*open_part(&sealed, seed(7, 4096)).unwrap(), *content);
        let tail = sealed.len() - TRAILER_BYTES;
        let parts = [(tail, "Content"), (tail + 1, "Compression"), (tail + 5, "Checksum")];
        dump.parts(&sealed, &parts);
    }
    let released = dump.bless("block");
    assert_eq!(released.len(), NAMES.len());
    for ((name, sealed), (compression, expected_name)) in released.iter().zip(NAMES) {
        assert_eq!(name, expected_name);
        let tag = sealed[sealed.len() - TRAILER_BYTES];
        assert_eq!(tag, crate::version::manifest::edit::compression_code(compression));
        let opened = open_part(sealed, seed(7, 4096)).unwrap();
        let block = Block::new(opened, BlockKind::Data, 4096).unwrap();
        let mut key = Vec::new();
        for (i, (user_key, trailer, payload)) in entries.iter().enumerate() {
            block.view().key_into(i, &mut key);
            let entry = block.view().entry(i);
            assert_eq!((&key, entry.trailer, entry.payload), (user_key, *trailer, &payload[..]));
        }
        assert_eq!(block.view().len(), entries.len());
    }
}

#[test]
fn long_part_shares_its_block_and_small_part_is_copied() {
    for (bytes, len, is_shared) in [
        (4000, 1000, true),
        (1000, 512, true),
        (1000, 511, false),
        (4000, 700, false),
        (1 << 20, 64 << 10, false),
        (1 << 20, 256 << 10, true),
    ] {
        let content: Vec<u8> = (0..bytes).map(|i: usize| i as u8).collect();
        let block =
            Arc::new(Block::new(Content::Exact(content.into()), BlockKind::Filter, 0).unwrap());
        let part = Part::new(Arc::clone(&block), 100..100 + len).into_bytes();
        let there = &block.bytes()[100..100 + len];
        assert_eq!(part, there);
        assert_eq!(part.as_ptr() == there.as_ptr(), is_shared, "{len} of {bytes}");
        // The memory that it pins is bounded, and no other block is pinned.
        assert_eq!(Arc::strong_count(&block), 1 + usize::from(is_shared));
        assert!(!is_shared || block.charge() <= PINNED_RATIO_MAX * len);
        drop(part);
        assert_eq!(Arc::strong_count(&block), 1);
    }
}

#[test]
fn touching_a_block_reads_any_block() {
    let long = (b"key".to_vec(), Trailer::new(1, Kind::Value), vec![7; 3000]);
    let short = (b"lock".to_vec(), Trailer::new(1, Kind::Delete), Vec::new());
    for entries in [vec![], vec![long.clone()], vec![long, short.clone()], vec![short]] {
        parsed(&block_of(&entries)).unwrap().view().touch();
    }
}
