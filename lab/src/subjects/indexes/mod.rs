//! Indexes of objects on flash as subjects: the baselines of TideKV's object cache, as BigKV (Koo
//! et al., EuroSys 2023) used for its own.
//!
//! All keep objects in one log on flash, buffer writes as the cache does, use direct reads, and
//! have no memory for objects except that buffer. They differ in the lookup of an object:
//!
//! | subject | the index is | a lookup reads |
//! |---|---|---|
//! | `index:dram` | in memory | the object |
//! | `index:udepot` | a hash table on flash, with its used buckets in memory | one or two buckets, if they are not in memory, and the object |
//! | `index:slickcache` | chains of buckets on flash, likewise | buckets up to that of the object, likewise |
//! | `device:objects` | arithmetic | the object |
//!
//! Those on flash have the same memory as the cache: [`FlashSettings::index_bytes`], and
//! [`BYTES_BESIDE`] for each object, which the cache takes for its filters.
//!
//! 1. A get returns the value of the last put of its key, or a miss if the log overwrote it, it was
//!    deleted, or the index had no room. Full keys are compared.
//! 2. All objects have about the same size; a larger one is an error.
//! 3. The content does not survive the process: each begins with an empty log.
//!
//! Any thread may use them. Puts and deletes of one key wait for each other, gets never wait.

mod log;
mod lookup;
mod buckets;
mod dram;
mod udepot;
mod slickcache;
mod no_index;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidekv_io::LocalStorage;

use crate::failure::Result;
use crate::subject::{
    Counts, FlashSettings, Hold, ObjectCounts, Search, Settings, Subject, SubjectRecord,
};
use crate::subjects::indexes::dram::InDram;
use crate::subjects::indexes::log::ObjectLog;
use crate::subjects::indexes::lookup::{Index, hash_of};
use crate::subjects::indexes::slickcache::SlickCache;
use crate::subjects::indexes::udepot::UDepot;
use crate::subjects::tiered::{cannot, flash_of};

/// Memory per object of an index on flash in addition to the settings.
pub const BYTES_BESIDE: u64 = 2;

/// The fraction of memory for the index if the settings have none, as in the cache.
const INDEX_MEMORY_DIVISOR: u64 = 16;

/// The number of lock stripes of puts and deletes.
const LANES: u64 = 1024;

const USUAL: SubjectRecord = SubjectRecord {
    name: "",
    about: "",
    is_default: false,
    format: "index",
    uses_kernel_cache: true,
    search: Search::Nothing,
    choices: &[],
    open: |path, settings| no_index::open(path, settings),
};

/// The whole index in memory.
pub const INDEX_DRAM: SubjectRecord = SubjectRecord {
    name: "index:dram",
    about: "objects in a log on flash, their index entirely in memory, without a limit; direct \
            I/O",
    open: |path, settings| {
        open(path, settings, |log, _, _| Ok(Box::new(InDram::new(log.slots(), 64))))
    },
    ..USUAL
};

/// Two levels, with hopscotch hashing and tags of eight bits.
pub const INDEX_UDEPOT: SubjectRecord = SubjectRecord {
    name: "index:udepot",
    about: "objects in a log on flash, with an index modelled on uDepot: a hopscotch table on \
            flash, with as many of its buckets in memory as the cache has memory for its index; \
            direct I/O",
    open: |path, settings| {
        open(path, settings, |log, path, bytes| {
            let (storage, bits) = (LocalStorage::new(), udepot::TAG_BITS);
            Ok(Box::new(UDepot::new(&storage, path, log.slots(), bits, bytes)?))
        })
    },
    ..USUAL
};

/// Two levels, with chains of buckets.
pub const INDEX_SLICKCACHE: SubjectRecord = SubjectRecord {
    name: "index:slickcache",
    about: "objects in a log on flash, with an index modelled on the published facts about \
            SlickCache: chains of buckets on flash, with as many of them in memory as the cache \
            has memory for its index; direct I/O",
    open: |path, settings| {
        open(path, settings, |log, path, bytes| {
            let (storage, bits) = (LocalStorage::new(), slickcache::TAG_BITS);
            Ok(Box::new(SlickCache::new(&storage, path, log.slots(), bits, bytes)?))
        })
    },
    ..USUAL
};

/// No index.
pub const DEVICE_OBJECTS: SubjectRecord = SubjectRecord {
    name: "device:objects",
    about: "no index: an object's location on flash is its number; a get is a read of it, a put \
            a write, with direct I/O",
    ..USUAL
};

/// Creates an index for a log, in a file, with this memory.
type Make = fn(&ObjectLog, &Path, u64) -> Result<Box<dyn Index>>;

struct Indexed {
    log: ObjectLog,
    index: Box<dyn Index>,
    lanes: Box<[Mutex<()>]>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    memory_hits: AtomicU64,
    flash_hits: AtomicU64,
    misses: AtomicU64,
    index_reads_of_hits: AtomicU64,
    object_reads_of_hits: AtomicU64,
    index_reads_of_misses: AtomicU64,
    object_reads_of_misses: AtomicU64,
    object_bytes_written: AtomicU64,
    /// Objects in the index, and those that it has lost without notice.
    objects: AtomicU64,
}

/// The result of a lookup, and its cost.
#[derive(Debug, Default)]
struct Outcome {
    place: Option<u64>,
    /// The object itself was on flash.
    is_from_flash: bool,
    index_reads: u64,
    object_reads: u64,
}

fn open(directory: &Path, settings: &Settings, make: Make) -> Result<Box<dyn Subject>> {
    let FlashSettings { bytes, object_bytes, index_bytes, .. } = *flash_of(settings)?;
    let path = directory.join("objects");
    let log = ObjectLog::new(&LocalStorage::new(), &path, bytes, object_bytes)?;
    let index_bytes = index_bytes.unwrap_or(settings.memory_bytes / INDEX_MEMORY_DIVISOR);
    let index_bytes = index_bytes + BYTES_BESIDE * log.slots();
    let index = make(&log, &directory.join("index"), index_bytes)?;
    Ok(Box::new(Indexed::new(log, index)))
}

impl Indexed {
    fn new(log: ObjectLog, index: Box<dyn Index>) -> Self {
        let lanes = (0..LANES).map(|_| Mutex::default()).collect();
        Self { log, index, lanes, tally: Tally::default() }
    }

    fn find(&self, hash: u64, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let (mut index_reads, mut object_reads, mut is_from_flash) = (0, 0, false);
        outcome.place = self.index.find(hash, &mut index_reads, &mut |place| {
            let look = self.log.look(place, key, see)?;
            object_reads += u64::from(look.is_read);
            is_from_flash = look.is_read;
            Ok(look.is_it)
        })?;
        Ok(Outcome { is_from_flash, index_reads, object_reads, ..outcome })
    }

    fn lane_of(&self, hash: u64) -> &Mutex<()> {
        &self.lanes[(hash % LANES) as usize]
    }
}

impl Subject for Indexed {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let hash = hash_of(key);
        let _changing = self.lane_of(hash).lock().expect("nobody panics with it");
        // Only the key shows which of the objects with the same fingerprint it is.
        let old = self.find(hash, key, &mut |_| ())?.place;
        let place = self.log.append(key, value)?;
        let is_known = self.index.set(hash, old, place, &|place| self.log.is_alive(place))?;
        let tally = &self.tally;
        tally.objects.fetch_add(u64::from(is_known && old.is_none()), Ordering::Relaxed);
        let bytes = (key.len() + value.len()) as u64;
        tally.object_bytes_written.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let hash = hash_of(key);
        let _changing = self.lane_of(hash).lock().expect("nobody panics with it");
        if let Some(place) = self.find(hash, key, &mut |_| ())?.place {
            self.index.remove(hash, place)?;
            self.tally.objects.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let outcome = self.find(hash_of(key), key, see)?;
        let tally = &self.tally;
        let (lookups, index_reads, object_reads) = match outcome.place {
            Some(_) => (
                if outcome.is_from_flash { &tally.flash_hits } else { &tally.memory_hits },
                &tally.index_reads_of_hits,
                &tally.object_reads_of_hits,
            ),
            None => (&tally.misses, &tally.index_reads_of_misses, &tally.object_reads_of_misses),
        };
        lookups.fetch_add(1, Ordering::Relaxed);
        index_reads.fetch_add(outcome.index_reads, Ordering::Relaxed);
        object_reads.fetch_add(outcome.object_reads, Ordering::Relaxed);
        Ok(outcome.place.is_some())
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
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tally = &self.tally;
        let objects = ObjectCounts {
            memory_hits: of(&tally.memory_hits),
            flash_hits: of(&tally.flash_hits),
            misses: of(&tally.misses),
            index_reads_of_hits: of(&tally.index_reads_of_hits),
            object_reads_of_hits: of(&tally.object_reads_of_hits),
            index_reads_of_misses: of(&tally.index_reads_of_misses),
            object_reads_of_misses: of(&tally.object_reads_of_misses),
            object_bytes_written: of(&tally.object_bytes_written),
            flash_bytes_written: self.log.written_bytes() + self.index.written_bytes(),
            flash_objects: of(&tally.objects).min(self.log.slots()),
            index_bytes: self.index.memory_bytes(),
            flash_bytes_taken: 0,
        };
        let ((reads, bytes), (index_reads, index_bytes)) = (self.log.reads(), self.index.reads());
        Ok(Counts {
            reads: Some(reads + index_reads),
            read_bytes: Some(bytes + index_bytes),
            objects: Some(objects),
            ..Counts::default()
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
