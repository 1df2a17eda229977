//! Single flight under many schedules: the shared read, overlapping batches, a failed read. A
//! follower that is never woken is reported as a deadlock.

use tidekv_io::{Fault, FaultRule};
use tidekv_testkit::models::{explore, shuttle};

use super::*;

/// Blocks that are read from disk into a cache, and their addresses.
fn scene(count: usize, cache_bytes: usize) -> (MemoryStorage, Arc<Blocks>, Arc<[BlockAddress]>) {
    let storage = MemoryStorage::new();
    let addresses = file_of(&storage, count).into();
    let blocks = Arc::new(blocks_of(&storage, cache_bytes));
    (storage, blocks, addresses)
}

/// Looks into the cache, then reads, as every caller does.
fn get(blocks: &Blocks, address: &BlockAddress) -> Result<BlockRef> {
    blocks.cached(address).map_or_else(|| blocks.read(address), Ok)
}

#[test]
fn uncached_block_is_read_once_under_any_schedule() {
    explore::shuttle("single flight: three readers of one cold block", || {
        let (_, blocks, addresses) = scene(1, 1 << 20);
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (blocks, addresses) = (Arc::clone(&blocks), Arc::clone(&addresses));
                shuttle::thread::spawn(move || {
                    assert!(is_block(&get(&blocks, &addresses[0]).unwrap(), 0));
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!(blocks.statistics.reads.get(), 1);
        assert_eq!(blocks.statistics.in_flight_bytes.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn overlapping_batches_and_runs_finish_and_read_each_block_once() {
    explore::shuttle("single flight: two batches and a run that overlap", || {
        let (_, blocks, addresses) = scene(3, 1 << 20);
        let batches: Vec<_> = [[0, 1, 2], [2, 1, 0]]
            .into_iter()
            .map(|order| {
                let (blocks, addresses) = (Arc::clone(&blocks), Arc::clone(&addresses));
                shuttle::thread::spawn(move || {
                    let batch = order.map(|n| addresses[n].clone());
                    let read = blocks.read_many(&batch).unwrap();
                    assert!(read.iter().zip(order).all(|(block, n)| is_block(block, n)));
                })
            })
            .collect();
        let run = blocks.read_run(&addresses[1..], Purpose::Any).unwrap();
        assert!(run.iter().zip(1..).all(|(block, n)| is_block(block, n)));
        batches.into_iter().for_each(|batch| batch.join().unwrap());
        assert!(addresses.iter().all(|address| blocks.cached(address).is_some()));
        let bytes: u64 = addresses.iter().map(|address| u64::from(address.handle.len)).sum();
        let gaps = blocks.statistics.gap_bytes.get();
        assert_eq!(blocks.statistics.read_bytes.get() - gaps, bytes);
    });
}

#[test]
fn failed_read_fails_its_followers_but_no_later_reader() {
    explore::shuttle("single flight: the first read fails", || {
        let (storage, blocks, addresses) = scene(1, 1 << 20);
        storage
            .add_fault(FaultRule::once(Operation::Read, Fault::Fail(tidekv_io::ErrorKind::Failed)));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (blocks, addresses) = (Arc::clone(&blocks), Arc::clone(&addresses));
                shuttle::thread::spawn(move || get(&blocks, &addresses[0]).is_err())
            })
            .collect();
        let failures = readers.into_iter().filter_map(|reader| reader.join().ok()).filter(|f| *f);
        assert!((1..=2).contains(&failures.count()));
        assert!(is_block(&get(&blocks, &addresses[0]).unwrap(), 0));
        assert!(blocks.statistics.reads.get() <= 2);
    });
}
