//! Reads through the cache: single flight, batches, errors.
#![allow(clippy::disallowed_methods, reason = "real threads wait for each other here")]

#[cfg(not(miri))]
mod models;

use std::path::Path;
use std::slice;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidekv_io::{Access, MemoryStorage, Operation};

use super::*;
use crate::error::ErrorKind;
use crate::format::key::{Kind, Trailer};
use crate::options::Compression;
use crate::sst::block::{BlockBuilder, Sealer};
use crate::sst::block_address::GAP_BYTES_MAX;
use crate::sst::file_handles::FileHandle;

const PATH: &str = "/9.table";

/// A file of `count` data blocks, one entry each.
fn file_of(storage: &MemoryStorage, count: usize) -> Vec<BlockAddress> {
    file_with(storage, count, 100)
}

/// The same, with values of `value_len` bytes.
fn file_with(storage: &MemoryStorage, count: usize, value_len: usize) -> Vec<BlockAddress> {
    let mut bytes = Vec::new();
    let mut handles = Vec::new();
    for n in 0..count {
        let (mut content, offset) = (Vec::new(), bytes.len() as u64);
        let mut builder = BlockBuilder::default();
        builder.add(&n.to_be_bytes(), Trailer::new(1, Kind::Value), &vec![n as u8; value_len]);
        builder.finish(&mut content);
        Sealer::default().seal(&content, Compression::None, seed(9, offset), &mut bytes);
        handles.push(BlockHandle { offset, len: bytes.len() as u32 - offset as u32 });
    }
    storage.write_file(PATH, &bytes);
    let file = storage.open_read(Path::new(PATH), Access::Direct).unwrap();
    let file = Arc::new(TableFile::new((FileHandle::of(file), 0), 9, 0, bytes.len() as u64));
    let address = |handle| BlockAddress { file: file.clone(), handle, kind: BlockKind::Data };
    handles.into_iter().map(address).collect()
}

fn blocks_of(storage: &MemoryStorage, cache_bytes: usize) -> Blocks {
    Blocks::standalone(Arc::new(storage.clone()), cache_bytes)
}

fn counter(blocks: &Blocks, name: &str) -> u64 {
    let name = format!("io.{name}");
    blocks.counters().iter().find(|(known, _)| *known == name).expect("it is counted").1
}

fn is_block(block: &Block, n: usize) -> bool {
    block.view().len() == 1 && block.view().has_key(0, &n.to_be_bytes())
}

#[test]
fn concurrent_readers_of_an_uncached_block_share_one_read() {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, 1);
    let blocks = blocks_of(&storage, 1 << 20);
    storage.on_operation(|record| {
        if record.operation == Operation::Read {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                assert!(is_block(&blocks.read(&addresses[0]).unwrap(), 0));
            });
        }
    });
    assert_eq!(blocks.statistics.reads.get(), 1);
    assert!(blocks.cached(&addresses[0]).is_some());
    assert_eq!(blocks.statistics.in_flight_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn panicking_reader_wakes_its_followers() {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, 1);
    let blocks = blocks_of(&storage, 0);
    let (armed, waiting) = (AtomicBool::new(true), Arc::new(Barrier::new(2)));
    let in_read = waiting.clone();
    storage.on_operation(move |record| {
        if record.operation == Operation::Read && armed.swap(false, Ordering::Relaxed) {
            in_read.wait();
            std::thread::sleep(Duration::from_millis(20));
            std::panic::resume_unwind(Box::new("the reader dies"));
        }
    });
    std::thread::scope(|scope| {
        let dies = scope.spawn(|| blocks.read(&addresses[0]));
        waiting.wait();
        let error = blocks.read(&addresses[0]).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Storage && error.to_string().contains("abandoned"),
            "{error}"
        );
        assert!(dies.join().is_err());
    });
    assert!(is_block(&blocks.read(&addresses[0]).unwrap(), 0));
}

#[test]
fn overlapping_batches_do_not_deadlock() {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, 12);
    let blocks = blocks_of(&storage, 0);
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (blocks, addresses) = (&blocks, &addresses);
            scope.spawn(move || {
                for round in 0..200 {
                    let order: Vec<usize> =
                        (0..12).map(|i| (i * [1, 5, 7, 11][thread] + round) % 12).collect();
                    let batch: Vec<_> = order.iter().map(|&n| addresses[n].clone()).collect();
                    let read = blocks.read_many(&batch).unwrap();
                    assert!(read.iter().zip(&order).all(|(block, &n)| is_block(block, n)));
                    let run = blocks.read_run(&addresses[round % 12..], Purpose::Any).unwrap();
                    assert!(
                        run.iter().enumerate().all(|(i, block)| is_block(block, round % 12 + i))
                    );
                }
            });
        }
    });
}

#[test]
fn a_batch_reads_a_repeated_block_once() {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, 2);
    let blocks = blocks_of(&storage, 0);
    let batch = [&addresses[1], &addresses[0], &addresses[1]].map(Clone::clone);
    let read = blocks.read_many(&batch).unwrap();
    assert!(is_block(&read[0], 1) && is_block(&read[1], 0) && is_block(&read[2], 1));
    assert_eq!(blocks.statistics.reads.get(), 1, "neighbours are one request");
}

#[test]
fn run_with_cached_blocks_is_one_read() {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, 8);
    let blocks = blocks_of(&storage, 1 << 20);
    let in_memory = blocks.read_many(&[3, 4, 7].map(|n: usize| addresses[n].clone())).unwrap();
    let counts = || ["reads", "read_bytes", "gap_bytes"].map(|what| counter(&blocks, what));
    let before = counts();
    let run = blocks.read_run(&addresses[1..], Purpose::Any).unwrap();
    assert_eq!(run.len(), 7);
    assert!(run.iter().zip(1..).all(|(block, n)| is_block(block, n)));
    assert!([2, 3, 6].iter().zip(&in_memory).all(|(&at, block)| Arc::ptr_eq(&run[at], block)));
    // It reads up to the last missing block, including the bytes in between.
    let bytes_of = |part: &[BlockAddress]| -> u64 {
        part.iter().map(|address| u64::from(address.handle.len)).sum()
    };
    let [reads, read_bytes, gap_bytes] = counts();
    assert_eq!(reads - before[0], 1);
    assert_eq!(read_bytes - before[1], bytes_of(&addresses[1..7]));
    assert_eq!(gap_bytes - before[2], bytes_of(&addresses[3..5]));
    assert_eq!(counter(&blocks, "in_flight_bytes"), 0);
    assert_eq!(counter(&blocks, "read_ahead_blocks"), 3, "2, 5 and 6");
}

#[test]
fn distant_blocks_are_separate_requests() {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, 400);
    let blocks = blocks_of(&storage, 0);
    let apart = |from: usize, to: usize| addresses[to].handle.offset - addresses[from].handle.end();
    let near = (1..400).take_while(|&n| apart(0, n) <= GAP_BYTES_MAX).last().unwrap();
    blocks.read_many(&[addresses[0].clone(), addresses[near].clone()]).unwrap();
    assert_eq!((counter(&blocks, "reads"), counter(&blocks, "gap_bytes")), (1, apart(0, near)));
    blocks.read_many(&[addresses[0].clone(), addresses[near + 1].clone()]).unwrap();
    // Neighbours are one request in any order.
    let found = blocks.read_many(&[9, 7, 8].map(|n: usize| addresses[n].clone())).unwrap();
    assert!(found.iter().zip([9, 7, 8]).all(|(block, n)| is_block(block, n)));
    assert_eq!((counter(&blocks, "reads"), counter(&blocks, "gap_bytes")), (4, apart(0, near)));
}

#[test]
fn run_returns_blocks_before_the_first_damaged_one() {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, 6);
    let damaged_at = addresses[3].handle.offset as usize + 9;
    storage.corrupt(PATH, |bytes| bytes[damaged_at] ^= 4);
    let blocks = blocks_of(&storage, 0);
    assert_eq!(blocks.read_run(&addresses[1..], Purpose::Any).unwrap().len(), 2);
    assert_eq!(
        blocks.read_run(&addresses[3..], Purpose::Any).unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    assert!(blocks.read_past_cache(&addresses[1..]).is_err());
}

#[test]
fn handle_past_end_of_file_is_refused_before_allocation() {
    let storage = MemoryStorage::new();
    let mut addresses = file_of(&storage, 2);
    addresses[1].handle.len = u32::MAX;
    let blocks = blocks_of(&storage, 0);
    for result in [
        blocks.read(&addresses[1]).map(|_| ()),
        blocks.read_many(&addresses).map(|_| ()),
        blocks.read_past_cache(&addresses).map(|_| ()),
    ] {
        assert!(result.unwrap_err().to_string().contains("reach past the file's end"));
    }
    assert_eq!(blocks.read_run(&addresses, Purpose::Any).unwrap().len(), 1);
}

#[test]
fn only_the_seek_that_reads_a_block_is_charged() {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, 2);
    let blocks = blocks_of(&storage, 1 << 20);
    let paid = || addresses[0].file.seek_bytes().get();
    blocks.read(&addresses[1]).unwrap();
    assert_eq!(paid(), 0);
    blocks.read_as(&addresses[0], Purpose::Seek).unwrap();
    let once = u64::from(addresses[0].handle.len);
    assert_eq!(paid(), once);
    // Another reader has cached the block meanwhile.
    blocks.read_as(&addresses[0], Purpose::Seek).unwrap();
    blocks.read_run(&addresses, Purpose::Seek).unwrap();
    assert_eq!(paid(), once);
}

#[test]
fn lookup_counts_one_hit_or_miss_and_obsolete_tables_are_evicted() {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, 1);
    let blocks = blocks_of(&storage, 1 << 20);
    assert!(blocks.cached(&addresses[0]).is_none());
    blocks.read(&addresses[0]).unwrap();
    assert!(blocks.cached(&addresses[0]).is_some());
    let stats = blocks.caches().blocks().stats().data;
    assert_eq!((stats.hits, stats.misses), (1, 1));
    let as_index = BlockAddress { kind: BlockKind::Index, ..addresses[0].clone() };
    assert!(blocks.cached(&as_index).is_none(), "a block of another kind is not the requested one");
    blocks.evict_tables(&|table| table == 9);
    assert!(blocks.cached(&addresses[0]).is_none());
}

/// Reads runs of four blocks at random, from four extents of which two fit into the cache, in one
/// read or block by block. Returns the share of runs that the cache finally serves.
fn answered_runs(is_at_once: bool) -> f64 {
    const RUN: usize = 4;
    const ROUNDS: u32 = 20_000;
    let storage = MemoryStorage::new();
    let addresses = file_with(&storage, 1024, 3900);
    let blocks = blocks_of(&storage, 2 << 20);
    blocks.caches().blocks().admit_by_use(16 << 10, 256 << 10, 1);
    let (mut lot, mut answered) = (7_u64, 0);
    for round in 0..ROUNDS {
        lot = lot.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let first = (lot >> 33) as usize % (1024 - RUN);
        let run = addresses[first..first + RUN].iter();
        let missing: Vec<_> = run.filter(|a| blocks.cached(a).is_none()).cloned().collect();
        answered += u32::from(missing.is_empty() && round >= ROUNDS / 2);
        if is_at_once {
            assert_eq!(blocks.read_run(&missing, Purpose::Any).unwrap().len(), missing.len());
        } else {
            missing.iter().for_each(|address| {
                assert!(blocks.read_run(slice::from_ref(address), Purpose::Any).is_ok())
            });
        }
    }
    f64::from(answered) / f64::from(ROUNDS / 2)
}

#[test]
fn blocks_read_together_are_evicted_together() {
    let [at_once, one_by_one] = [true, false].map(answered_runs);
    assert!(at_once > one_by_one + 0.05, "{at_once} and {one_by_one}");
}
