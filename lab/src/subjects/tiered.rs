//! TideKV's object cache as a subject: in this process, through its public API.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{LocalStorage, SystemClock};
use tidekv_tiered::{Cache, Deadline, Environment, FlashOptions, Object, Options};

use crate::failure::{Failure, Result};
use crate::subject::{
    Counts, FlashSettings, Hold, ObjectCounts, Search, Settings, Subject, SubjectRecord,
};

/// The cache with its defaults.
pub const TIDEKV_CACHE: SubjectRecord = SubjectRecord {
    name: "tidekv:cache",
    about: "TideKV's cache tier with its defaults, in this process: DRAM for hot objects, write \
            buffers and the hot part of the index, direct I/O for objects on flash",
    is_default: false,
    format: "tidekv-cache",
    uses_kernel_cache: true,
    search: Search::Nothing,
    choices: &[],
    open: |path, settings| {
        Ok(Box::new(Tiered { cache: open_cache(path, settings)?, waits: settings.is_filling }))
    },
};

/// The error for operations that a store supports and a cache does not.
pub fn cannot(what: &str) -> Failure {
    Failure::usage(format!("a cache of objects cannot {what}"))
}

/// The flash of a cache.
///
/// # Errors
/// If the settings have none.
pub fn flash_of(settings: &Settings) -> Result<&FlashSettings> {
    let none = || Failure::usage("a cache of objects is measured where there is flash");
    settings.flash.as_ref().ok_or_else(none)
}

/// A number of devices of equal size, as files in `directory`.
pub(crate) fn flash_in(directory: &Path, devices: u64, bytes_each: u64) -> Vec<FlashOptions> {
    let path = |number| directory.join(format!("flash-{number}"));
    (0..devices).map(|number| FlashOptions { path: path(number), bytes: bytes_each }).collect()
}

/// Opens a cache in the environment `around`.
pub(crate) fn open(options: &Options, around: &Environment) -> Result<Cache> {
    Cache::open(options, around)
        .map_err(|error| Failure::new(format!("could not open the cache: {error}")))
}

/// An object with this value and default metadata, for `cache`.
pub(crate) fn plain(cache: &Cache, value: Bytes) -> Object {
    let version = cache.next_version();
    Object { value, flags: 0, deadline: Deadline::NEVER, version, marks: 0 }
}

struct Tiered {
    cache: Cache,
    /// A put waits for flash, instead of dropping writes when there are too many.
    waits: bool,
}

/// Opens the cache of `settings` in `directory`.
///
/// # Errors
/// If they have no flash, or it cannot be opened.
pub fn open_cache(directory: &Path, settings: &Settings) -> Result<Cache> {
    let flash = flash_of(settings)?;
    let options = Options {
        dram_bytes: settings.memory_bytes,
        flash: flash_in(directory, flash.devices, flash.bytes / flash.devices),
        avg_object_bytes: flash.object_bytes,
        index_bytes: flash.index_bytes,
        state: Some(directory.join("state")),
        ..Options::default()
    };
    let storage = Arc::new(LocalStorage::new());
    open(&options, &Environment::new(storage, Arc::new(SystemClock::new())))
}

/// The counters of a cache since its open.
pub fn counts_of(cache: &Cache) -> Counts {
    let stats = cache.stats();
    let mut objects = ObjectCounts {
        memory_hits: stats.dram_hits,
        flash_hits: stats.flash_hits,
        misses: stats.misses,
        ..ObjectCounts::default()
    };
    let (mut reads, mut read_bytes) = (0, 0);
    for device in cache.device_stats() {
        let counts = device.counts;
        objects.index_reads_of_hits +=
            counts.index_reads.saturating_sub(counts.index_reads_of_misses);
        objects.index_reads_of_misses += counts.index_reads_of_misses;
        objects.object_reads_of_hits +=
            counts.object_reads.saturating_sub(counts.object_reads_of_misses);
        objects.object_reads_of_misses += counts.object_reads_of_misses;
        objects.object_bytes_written += counts.object_bytes_written;
        objects.flash_bytes_written += counts.segment_bytes_written
            + counts.page_bytes_written
            + counts.metadata_bytes_written;
        objects.flash_objects += device.objects;
        objects.index_bytes += device.index_bytes;
        // The fixed overhead is divided among segments.
        let share = device.segments as f64 / device.segments_max.max(1) as f64;
        objects.flash_bytes_taken += (device.bytes as f64 * share) as u64;
        reads += counts.index_reads + counts.object_reads;
        read_bytes += counts.read_bytes;
    }
    Counts {
        reads: Some(reads),
        read_bytes: Some(read_bytes),
        objects: Some(objects),
        ..Counts::default()
    }
}

impl Subject for Tiered {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.cache.store(key, plain(&self.cache, Bytes::copy_from_slice(value)));
        if self.waits {
            self.cache.drain_writes();
        }
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.cache.remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.cache.get(key);
        if let Some(found) = &found {
            see(&found.object.value);
        }
        Ok(found.is_some())
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
        Ok(counts_of(&self.cache))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.cache.close();
        Ok(())
    }
}
