//! Tables compared with a model: every read agrees with a sorted list, under every compression,
//! block size and cache, and no damaged file gives a wrong result.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tidekv_io::{Access, AppendFile, MemoryStorage, Storage};

use super::format::{FOOTER_BYTES, Footer};
use super::*;
use crate::error::{Error, ErrorKind, Result};
use crate::format::key::{Kind, LookupKey, SEQUENCE_MAX, Trailer, compare};
use crate::format::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::options::{Compression, FilterKind};
use crate::sst::blocks::Blocks;
use crate::sst::cursor::{Cursor, Target};
use crate::sst::scan_lengths::ScanLengths;

mod damage;
mod golden;

const PATH: &str = "/000007.table";
const ID: u64 = 7;

type Entry = (Vec<u8>, Trailer, Vec<u8>);

fn options() -> TableOptions {
    TableOptions {
        id: ID,
        keyspace: 3,
        compression: Compression::None,
        block_bytes: 4096,
        filter_bits_per_key: 10,
        filter_kind: FilterKind::Bloom,
    }
}

fn build(
    storage: &MemoryStorage,
    options: TableOptions,
    entries: &[Entry],
    tombstones: &[RangeTombstone],
) -> Result<TableProperties> {
    let file = storage.create(Path::new(PATH), Access::Direct)?;
    let mut builder = TableBuilder::new(AppendFile::new(file, 64 << 10), options);
    for (user_key, trailer, payload) in entries {
        builder.add(user_key, *trailer, payload)?;
        assert!(builder.file_bytes() >= payload.len() as u64);
    }
    tombstones.iter().for_each(|t| builder.add_range_tombstone(t));
    builder.finish()
}

fn open(storage: &MemoryStorage, cache_bytes: usize) -> Result<(Arc<Table>, Arc<Blocks>)> {
    let table = Table::open(storage.open_read(Path::new(PATH), Access::Direct)?, ID)?;
    Ok((Arc::new(table), Arc::new(Blocks::standalone(Arc::new(storage.clone()), cache_bytes))))
}

fn table_of(
    options: TableOptions,
    entries: &[Entry],
    cache_bytes: usize,
) -> (Arc<Table>, Arc<Blocks>) {
    let storage = MemoryStorage::new();
    build(&storage, options, entries, &[]).unwrap();
    open(&storage, cache_bytes).unwrap()
}

fn counter(blocks: &Blocks, name: &str) -> u64 {
    blocks.counters().iter().find(|c| c.0 == name).unwrap().1
}

/// Drives a probe and reads the blocks that it needs.
fn get(
    table: &Table,
    blocks: &Blocks,
    user_key: &[u8],
    sequence: u64,
) -> Result<Option<(Trailer, Vec<u8>)>> {
    let mut probe = table.probe(LookupKey::new(user_key, sequence));
    let mut supplied = None;
    loop {
        match probe.step(blocks, supplied.take())? {
            Step::Need(address) => supplied = Some(blocks.read(&address)?),
            Step::Found(found) => return Ok(Some((found.trailer, found.payload().to_vec()))),
            Step::Absent => return Ok(None),
        }
    }
}

fn expected(entries: &[Entry], user_key: &[u8], sequence: u64) -> Option<(Trailer, Vec<u8>)> {
    let sought = Trailer::seek(sequence);
    let at = entries.partition_point(|e| compare((&e.0, e.1), (user_key, sought)).is_lt());
    entries.get(at).filter(|e| e.0 == user_key).map(|e| (e.1, e.2.clone()))
}

fn current(cursor: &TableCursor) -> Option<Entry> {
    cursor.valid().then(|| (cursor.user_key().to_vec(), cursor.trailer(), cursor.value().to_vec()))
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|a, b| compare((&a.0, a.1), (&b.0, b.1)));
    entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
    entries
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = prop_oneof![
        3 => prop::collection::vec(0u8..4, 1..6),
        1 => prop::collection::vec(any::<u8>(), 12..13),
    ];
    let payload = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 8..60),
        2 => (any::<u8>(), 8usize..3000).prop_map(|(byte, len)| vec![byte; len]),
    ];
    let kind =
        prop_oneof![4 => Just(Kind::Value), 1 => Just(Kind::Delete), 1 => Just(Kind::Expiring)];
    let entry = (key, 1u64..12, kind, payload).prop_map(|(key, sequence, kind, payload)| {
        let payload = if kind == Kind::Delete { Vec::new() } else { payload };
        (key, Trailer::new(sequence, kind), payload)
    });
    prop::collection::vec(entry, 0..250).prop_map(|entries| {
        let mut entries = sorted(entries);
        // A store writes one entry for a key and sequence.
        entries.dedup_by(|a, b| a.0 == b.0 && a.1.sequence() == b.1.sequence());
        entries
    })
}

fn any_options() -> impl Strategy<Value = TableOptions> {
    let compression =
        prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Zstd)];
    let block_bytes =
        prop_oneof![Just(512u32), Just(1000), Just(4096), Just(16 << 10), Just(64 << 10)];
    let bits = prop_oneof![Just(0u8), Just(10)];
    let kinds = prop_oneof![Just(FilterKind::Bloom), Just(FilterKind::Cuckoo)];
    let all = (compression, block_bytes, bits, kinds);
    all.prop_map(|(compression, block_bytes, filter_bits_per_key, filter_kind)| TableOptions {
        compression,
        block_bytes,
        filter_bits_per_key,
        filter_kind,
        ..options()
    })
}

/// A move of a cursor: its kind, and the approximate target entry.
type Move = (u8, prop::sample::Index, bool);

/// Makes the moves on a cursor and on an index into the list.
fn walk(cursor: &mut TableCursor, blocks: &Blocks, entries: &[Entry], moves: &[Move]) {
    // `entries.len()` means "not valid".
    let mut at = entries.len();
    for (which, near, two_phases) in moves {
        let sought: (Vec<u8>, Trailer) = match entries.get(near.index(entries.len() + 1)) {
            None => (vec![3, 3, 3, 3, 3, 3], Trailer(0)),
            Some((key, trailer, _)) if *two_phases => (key.clone(), *trailer),
            Some((key, _, _)) => (key.clone(), Trailer::seek(5)),
        };
        let lower =
            entries.partition_point(|e| compare((&e.0, e.1), (&sought.0, sought.1)).is_lt());
        let (target, to) = match which % 8 {
            0 => (Target::First, 0),
            1 => (Target::Last, entries.len().saturating_sub(1)),
            2 => (Target::AtOrAfter(&sought.0, sought.1), lower),
            3 => {
                (Target::Before(&sought.0, sought.1), lower.checked_sub(1).unwrap_or(entries.len()))
            }
            4 | 5 if at < entries.len() => {
                cursor.next().unwrap();
                at += 1;
                assert_eq!(current(cursor), entries.get(at).cloned());
                continue;
            }
            6 | 7 if at < entries.len() => {
                cursor.prev().unwrap();
                at = at.checked_sub(1).unwrap_or(entries.len());
                assert_eq!(current(cursor), entries.get(at).cloned());
                continue;
            }
            _ => continue,
        };
        if *two_phases {
            let mut rounds = 0;
            loop {
                let run = cursor.want(target);
                if run.is_empty() {
                    break;
                }
                for block in blocks.read_many(&run).unwrap() {
                    cursor.supply(block);
                }
                rounds += 1;
                assert!(rounds <= 4, "a seek wants at most two index and two data blocks");
            }
        }
        let reads = counter(blocks, "io.reads");
        cursor.seek(target).unwrap();
        assert!(
            !two_phases || counter(blocks, "io.reads") == reads,
            "all that was wanted was supplied"
        );
        at = to;
        assert_eq!(current(cursor), entries.get(at).cloned());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn reads_agree_with_the_list(
        entries in entries(),
        options in any_options(),
        cache_bytes in prop_oneof![Just(0usize), Just(20_000), Just(64 << 20)],
        moves in prop::collection::vec(any::<Move>(), 0..60),
    ) {
        let (table, blocks) = table_of(options, &entries, cache_bytes);
        let absent = [vec![], vec![0, 9], vec![9], vec![1; 30]];
        for key in entries.iter().map(|e| &e.0).chain(&absent) {
            for sequence in [0, 1, 4, 5, 6, 11, SEQUENCE_MAX] {
                prop_assert_eq!(get(&table, &blocks, key, sequence).unwrap(), expected(&entries, key, sequence));
            }
        }
        let mut cursor = TableCursor::new(table.clone(), blocks.clone(), Reading::Cached(Arc::default()));
        walk(&mut cursor, &blocks, &entries, &moves);
        let found = check(&table, &blocks);
        prop_assert_eq!(found.damage, Vec::<String>::new());
        prop_assert_eq!(found.entries, entries.len() as u64);
    }

    #[test]
    fn a_compaction_sees_all_entries_and_leaves_the_cache_clean(entries in entries(), options in any_options()) {
        let (table, blocks) = table_of(options, &entries, 64 << 20);
        let mut cursor = TableCursor::new(table, blocks.clone(), Reading::Compaction);
        let mut seen = Vec::new();
        cursor.seek(Target::First).unwrap();
        while let Some(entry) = current(&cursor) {
            seen.push(entry);
            cursor.next().unwrap();
        }
        prop_assert_eq!(seen, entries);
        prop_assert_eq!(blocks.caches().blocks().len(), 0);
    }
}

fn value(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + n * 7) as u8).collect()
}

fn numbered(count: usize, len: usize) -> Vec<Entry> {
    let entry = |n: usize| {
        (
            format!("{:016x}", n * 2_654_435_761).into_bytes(),
            Trailer::new(n as u64 + 1, Kind::Value),
            value(n, len),
        )
    };
    sorted((0..count).map(entry).collect())
}

#[test]
fn versions_of_one_key_may_span_blocks_and_partitions() {
    let mut entries: Vec<Entry> = (1..=6000u64)
        .map(|sequence| {
            (
                b"hot".to_vec(),
                Trailer::new(sequence, Kind::Value),
                sequence.to_le_bytes().repeat(12),
            )
        })
        .collect();
    entries.push((b"a".to_vec(), Trailer::new(3, Kind::Value), vec![1; 9]));
    entries.push((b"z".to_vec(), Trailer::new(4, Kind::Delete), Vec::new()));
    let entries = sorted(entries);
    let (table, blocks) =
        table_of(TableOptions { block_bytes: 512, ..options() }, &entries, 64 << 20);
    assert!(table.partitions().len() > 2, "the test is about several partitions");
    for sequence in (0..6010).chain([SEQUENCE_MAX]) {
        for key in [&b"hot"[..], b"a", b"z", b"hos", b"hou"] {
            assert_eq!(
                get(&table, &blocks, key, sequence).unwrap(),
                expected(&entries, key, sequence)
            );
        }
    }
    assert!(check(&table, &blocks).damage.is_empty());
}

#[test]
fn longest_keys_and_long_values_round_trip() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let mut entries = Vec::new();
        for n in 0..6u8 {
            entries.push((vec![n], Trailer::new(1, Kind::Value), value(n.into(), 1 << 20)));
            let mut long = vec![n; 64 << 10];
            entries.push((long.clone(), Trailer::new(2, Kind::Value), value(n.into(), 10)));
            *long.last_mut().unwrap() ^= 1;
            entries.push((long, Trailer::new(3, Kind::Value), vec![n; 1 << 20]));
        }
        let entries = sorted(entries);
        let (table, blocks) =
            table_of(TableOptions { compression, ..options() }, &entries, 1 << 20);
        for (key, trailer, _) in &entries {
            let want = expected(&entries, key, trailer.sequence());
            assert!(get(&table, &blocks, key, trailer.sequence()).unwrap() == want);
        }
        let mut cursor = TableCursor::new(table, blocks, Reading::Cached(Arc::default()));
        cursor.seek(Target::Last).unwrap();
        for entry in entries.iter().rev() {
            assert!(current(&cursor).as_ref() == Some(entry));
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
    }
}

#[test]
fn uncached_block_is_one_page_mostly_of_entries() {
    let entries = numbered(20_000, 100);
    let (table, blocks) = table_of(options(), &entries, 0);
    let list = describe(&table, &blocks).unwrap();
    let data: Vec<_> = list.iter().filter(|b| b.kind == "data").collect();
    let paged = data.iter().filter(|b| b.offset.is_multiple_of(4096) && b.bytes <= 4096).count();
    assert!(paged >= data.len() - 1, "{paged} of {} data blocks are pages", data.len());
    let raw: usize = entries.iter().map(|e| e.0.len() + e.2.len()).sum();
    let properties = table.properties();
    assert!(properties.file_bytes < raw as u64 * 107 / 100, "{} for {raw}", properties.file_bytes);
    for block in list.iter().filter(|b| b.kind != "data") {
        assert!(block.bytes <= 16 << 10, "{block:?}");
    }
}

/// Most separators of long keys were the keys themselves: an index block held one or two, so each
/// data block had a filter block and an index block of its own, and the open table kept half of all
/// keys in memory (300 MB of keys: 737 MB of tables, 143 MB of memory).
#[test]
fn long_keys_take_little_more_than_their_bytes() {
    let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = |n: u64| [format!("{:016x}", hash(n)).as_bytes(), &[b'q'; 3984]].concat();
    let last = |n: u64| [&[b'q'; 3984], format!("{:016x}", hash(n)).as_bytes()].concat();
    let middle =
        |n: u64| [&[b'q'; 1992], format!("{:016x}", hash(n)).as_bytes(), &[b'q'; 1992]].concat();
    for (name, key) in
        [("first", &first as &dyn Fn(u64) -> Vec<u8>), ("last", &last), ("middle", &middle)]
    {
        let entry = |n: u64| (key(n), Trailer::new(n + 1, Kind::Value), vec![b'v']);
        let entries = sorted((0..2000).map(entry).collect());
        let (table, blocks) = table_of(options(), &entries, 1 << 20);
        let raw: u64 = entries.iter().map(|e| (e.0.len() + e.2.len()) as u64).sum();
        let file = table.properties().file_bytes;
        assert!(file < raw * 104 / 100, "differ {name}: {file} bytes for {raw}");
        // The bounds and the prefix that all keys share.
        assert!(table.charge() < 20_000, "differ {name}: {}", table.charge());
        assert!(check(&table, &blocks).damage.is_empty());
        for (key, trailer, _) in entries.iter().step_by(50) {
            let found = get(&table, &blocks, key, SEQUENCE_MAX).unwrap();
            assert_eq!(found, Some((*trailer, vec![b'v'])));
        }
    }
}

#[test]
fn compressed_blocks_of_large_values_may_be_slightly_too_large() {
    let blocks = |compression, len| {
        let options = TableOptions { compression, ..options() };
        let (table, _) = table_of(options, &numbered(120, len), 1 << 20);
        table.properties().data_blocks
    };
    // Four of them are 4.2 KB; in whole pages that would be two.
    assert_eq!(blocks(Compression::None, 1024), 40);
    assert_eq!(blocks(Compression::Lz4, 1024), 30);
    // If they would be much larger, or are nearly full, nothing changes.
    for len in [100, 1200, 1900, 3000, 9000] {
        assert_eq!(blocks(Compression::Lz4, len), blocks(Compression::None, len), "{len}");
    }
}

#[test]
fn scan_reads_ahead_and_compaction_reads_large_pieces() {
    let entries = numbered(20_000, 100);
    let count = |reading, cache_bytes| {
        let (table, blocks) = table_of(options(), &entries, cache_bytes);
        let mut cursor = TableCursor::new(table, blocks.clone(), reading);
        cursor.seek(Target::First).unwrap();
        for entry in &entries {
            assert!(current(&cursor).as_ref() == Some(entry));
            cursor.next().unwrap();
        }
        (counter(&blocks, "io.reads"), counter(&blocks, "io.compaction_reads"))
    };
    let data_blocks = 600;
    for cache_bytes in [0, 64 << 20] {
        let (reads, compaction) = count(Reading::Cached(Arc::default()), cache_bytes);
        assert!(reads < data_blocks / 15 && compaction == 0, "{reads} reads");
    }
    let (reads, compaction) = count(Reading::Compaction, 64 << 20);
    assert!(reads == 0 && compaction < 12, "{compaction} reads");
}

#[test]
fn seek_reads_the_usual_scan_length_in_one_trip() {
    let entries = numbered(20_000, 100);
    for two_phases in [false, true] {
        let (table, blocks) = table_of(options(), &entries, 1 << 20);
        let lengths = Arc::<ScanLengths>::default();
        let mut reads = Vec::new();
        for scan in 0..40 {
            let before = counter(&blocks, "io.reads");
            let reading = Reading::Cached(lengths.clone());
            let mut cursor = TableCursor::new(table.clone(), blocks.clone(), reading);
            let first = scan * 450;
            let target = Target::AtOrAfter(&entries[first].0, Trailer::seek(SEQUENCE_MAX));
            loop {
                let run = if two_phases { cursor.want(target) } else { Vec::new() };
                if run.is_empty() {
                    break;
                }
                blocks.read_many(&run).unwrap().into_iter().for_each(|b| cursor.supply(b));
            }
            cursor.seek(target).unwrap();
            for entry in &entries[first..first + 100] {
                assert!(current(&cursor).as_ref() == Some(entry));
                cursor.next().unwrap();
            }
            reads.push(counter(&blocks, "io.reads") - before);
        }
        // A few of the later scans need an index block as well.
        let sum = |reads: &[u64]| reads.iter().sum::<u64>();
        assert!(sum(&reads[..3]) >= 9 && sum(&reads[20..]) <= 25, "{two_phases}: {reads:?}");
    }
}

#[test]
fn seek_skips_cached_blocks_in_one_trip() {
    let entries = numbered(400, 1000);
    let (table, blocks) = table_of(options(), &entries, 16 << 20);
    let lengths = Arc::<ScanLengths>::default();
    (0..4).for_each(|_| lengths.record(34));
    // The index, the first entry and two in the middle are cached.
    for n in [100, 120, 170] {
        let target = Target::AtOrAfter(&entries[n].0, Trailer::seek(SEQUENCE_MAX));
        let mut cursor =
            TableCursor::new(table.clone(), blocks.clone(), Reading::Cached(Arc::default()));
        cursor.seek(target).unwrap();
    }
    let counts = || ["io.reads", "io.read_ahead_blocks"].map(|name| counter(&blocks, name));
    let before = counts();
    let reading = Reading::Cached(lengths);
    let mut cursor = TableCursor::new(table, blocks.clone(), reading);
    let target = Target::AtOrAfter(&entries[100].0, Trailer::seek(SEQUENCE_MAX));
    // All missing blocks are wanted, although the seek itself needs none.
    let wanted = cursor.want(target);
    assert_eq!(wanted.len(), 36 - 3);
    cursor.seek(target).unwrap();
    for entry in &entries[100..200] {
        assert!(current(&cursor).as_ref() == Some(entry));
        cursor.next().unwrap();
    }
    let after = counts();
    assert_eq!((after[0] - before[0], after[1] - before[1]), (1, 33 - 1));
}

#[test]
fn open_table_returns_properties_separators_and_offsets() {
    let storage = MemoryStorage::new();
    let mut entries = numbered(30_000, 100);
    entries.push((b"x".to_vec(), Trailer::new(40_000, Kind::Delete), Vec::new()));
    for (key, deadline) in [(&b"y"[..], 900u64), (b"z", 500)] {
        entries.push((
            key.to_vec(),
            Trailer::new(7, Kind::Expiring),
            deadline.to_le_bytes().to_vec(),
        ));
    }
    let tombstones = [
        RangeTombstone::new(b"m", b"p", 50_000),
        RangeTombstone::new(b"k", b"n", 2),
        RangeTombstone::new(b"b", b"b", 9),
    ];
    let built = build(&storage, options(), &entries, &tombstones).unwrap();
    let (table, blocks) = open(&storage, 1 << 20).unwrap();
    assert_eq!(&built, table.properties());
    assert_eq!(
        (built.entries, built.tombstones, built.expiring, built.range_tombstones),
        (30_003, 1, 2, 2)
    );
    assert_eq!((built.earliest_deadline_ms, built.latest_deadline_ms), (500, 900));
    assert_eq!((&*built.smallest_key, &*built.largest_key), (&entries[0].0[..], &b"z"[..]));
    assert_eq!((&*built.range_start, &*built.range_end), (&b"k"[..], &b"p"[..]));
    assert_eq!((built.smallest_sequence, built.largest_sequence), (1, 50_000));
    assert_eq!(built.file_bytes, storage.read_file(PATH).unwrap().len() as u64);
    assert_eq!(*table.range_tombstones(), RangeTombstones::new(&tombstones));

    let separators = table.separators();
    assert!(separators.len() >= 2 && separators.is_sorted());
    let offsets: Vec<u64> = separators.iter().map(|s| table.approximate_offset_of(s)).collect();
    assert!(offsets.is_sorted());
    assert_eq!(table.approximate_offset_of(b""), 0);
    assert!(table.approximate_offset_of(b"zz") > built.file_bytes * 9 / 10);
    assert!(table.charge() > 500 && table.charge() < 20_000, "{}", table.charge());
    assert!(check(&table, &blocks).damage.is_empty());
}

#[test]
fn table_with_only_range_tombstones_is_valid() {
    let storage = MemoryStorage::new();
    build(&storage, options(), &[], &[RangeTombstone::new(b"a", b"b", 9)]).unwrap();
    let (table, blocks) = open(&storage, 0).unwrap();
    assert_eq!(table.range_tombstones().newest_over(b"a", 10), 9);
    assert_eq!(get(&table, &blocks, b"a", 10).unwrap(), None);
    let mut cursor =
        TableCursor::new(table.clone(), blocks.clone(), Reading::Cached(Arc::default()));
    for target in [
        Target::First,
        Target::Last,
        Target::AtOrAfter(b"", Trailer(0)),
        Target::Before(b"z", Trailer(0)),
    ] {
        cursor.seek(target).unwrap();
        assert!(!cursor.valid());
    }
    assert_eq!(table.separators().len(), 0);
    assert!(check(&table, &blocks).damage.is_empty());
}

#[test]
#[should_panic(expected = "entries are added in order")]
fn entries_out_of_order_are_a_bug() {
    let entry = |key: &[u8]| (key.to_vec(), Trailer::new(1, Kind::Value), Vec::new());
    let _ = build(&MemoryStorage::new(), options(), &[entry(b"b"), entry(b"a")], &[]);
}
