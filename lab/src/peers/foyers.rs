//! foyer as a subject: a cache in memory and on flash, as a library.
//!
//! The configuration follows its documentation, within the memory: an eighth for write buffers, as
//! in TideKV's cache, another eighth for queued writes, the rest for objects; its index of flash,
//! about a hundred bytes per object, is on top. It writes objects evicted from memory
//! (`WriteOnEviction`, its default), without compression; it recovers no data. Its calls are
//! futures: a thread of the drive waits for one at a time, while tokio's threads do the work.
//!
//! Its flash is a directory of files, one per block: with a single file, this version prints to
//! standard output, which the lab's processes use for their results.
//!
//! When its write queue is full it drops new writes, as TideKV's cache does.

use std::path::Path;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::subject::{Counts, Hold, Search, Settings, Subject, SubjectRecord};
use crate::subjects::tiered::{cannot, flash_of};
use bytes::Bytes;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    IoEngineConfig, PsyncIoEngineConfig, RecoverMode, UringIoEngineConfig,
};
use tokio::runtime::Runtime;

/// foyer on io_uring.
pub const FOYER: SubjectRecord = SubjectRecord {
    name: "foyer",
    about: "foyer, a cache in memory and on flash, in this process: a quarter of the memory for \
            pending writes, the rest for objects, its index on top; direct I/O by io_uring; \
            without a hard memory limit, it takes more than twice its memory while it is filled",
    is_default: false,
    format: "foyer",
    uses_kernel_cache: false,
    search: Search::Nothing,
    choices: &[],
    open: |path, settings| open(path, settings, UringIoEngineConfig::new().boxed()),
};

/// foyer on blocking calls in threads of its own.
pub const FOYER_PSYNC: SubjectRecord = SubjectRecord {
    name: "foyer:psync",
    about: "the same with direct I/O by blocking calls in threads of tokio",
    open: |path, settings| open(path, settings, PsyncIoEngineConfig::new().boxed()),
    ..FOYER
};

/// The divisor of the memory for write buffers.
const BUFFERS_DIVISOR: u64 = 8;
/// The minimum for its write buffers.
const BUFFERS_BYTES_MIN: u64 = 4 << 20;
/// The unit of eviction on flash, its default.
const BLOCK_BYTES: usize = 16 << 20;
/// Threads of tokio: the number of cores of a small machine.
const THREADS: usize = 2;

struct Foyer {
    cache: HybridCache<Vec<u8>, Bytes>,
    runtime: Runtime,
}

fn failed(what: &str) -> impl Fn(foyer::Error) -> Failure {
    move |error| Failure::new(format!("could not {what}: {error}"))
}

fn open(
    directory: &Path,
    settings: &Settings,
    io: Box<dyn IoEngineConfig>,
) -> Result<Box<dyn Subject>> {
    let flash = flash_of(settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|e| Failure::system("could not start tokio", e))?;
    let buffers = (settings.memory_bytes / BUFFERS_DIVISOR).max(BUFFERS_BYTES_MIN);
    // Queued writes are in memory too.
    let memory = settings.memory_bytes.saturating_sub(2 * buffers) as usize;
    let device = FsDeviceBuilder::new(directory.join("flash"))
        .with_capacity(flash.bytes as usize)
        .with_direct(true)
        .build()
        .map_err(failed("open the flash"))?;
    let engine = BlockEngineConfig::new(device)
        .with_block_size(BLOCK_BYTES)
        .with_buffer_pool_size(buffers as usize)
        .with_submit_queue_size_threshold(buffers as usize);
    let builder = HybridCacheBuilder::new()
        .with_flush_on_close(false)
        .memory(memory)
        .with_weighter(|key: &Vec<u8>, value: &Bytes| key.len() + value.len())
        .storage()
        .with_io_engine_config(io)
        .with_engine_config(engine)
        .with_recover_mode(RecoverMode::None);
    let cache = runtime.block_on(builder.build()).map_err(failed("open the cache"))?;
    Ok(Box::new(Foyer { cache, runtime }))
}

impl Subject for Foyer {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let _entered = self.runtime.enter();
        drop(self.cache.insert(key.to_vec(), Bytes::copy_from_slice(value)));
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.cache.remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let _entered = self.runtime.enter();
        let getting = self.cache.get(key);
        let found = self.runtime.block_on(getting).map_err(failed("get"))?;
        let Some(entry) = found else { return Ok(false) };
        see(entry.value());
        Ok(true)
    }

    fn multi_get(&self, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        Err(cannot("read many keys at once"))
    }

    fn scan(&self, _: &[u8], _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        Err(cannot("scan"))
    }

    fn hold(&self, _: &[u8]) -> Result<Box<dyn Hold + '_>> {
        Err(cannot("take a snapshot"))
    }

    fn settle(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn counts(&self) -> Result<Counts> {
        let statistics = self.cache.statistics();
        Ok(Counts {
            reads: Some(statistics.disk_read_ios() as u64),
            read_bytes: Some(statistics.disk_read_bytes() as u64),
            ..Counts::default()
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.runtime.block_on(self.cache.close()).map_err(failed("close the cache"))
    }
}
