//! A table of buckets on flash, with the recently used buckets in memory: the two levels of an
//! index that does not fit memory.
//!
//! A bucket is one sector of entries of eight bytes, the minimum read of a device, so that as many
//! used ones as possible fit memory. CLOCK evicts them; changed ones are written then. Only the
//! entries themselves count as memory, which favours the users of this table.
//!
//! Bucket reads and changes are atomic. A thread that needs a bucket that another thread is reading
//! or writing waits. No lock is held during a read or write of flash. Any thread may use it. The
//! content does not survive the process.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tidekv_io::{File, Storage};

use crate::failure::Result;
use crate::load::dice::mix;
use crate::subjects::indexes::log::{failed, new_file};

const SECTOR_BYTES: usize = 512;
const ENTRY_BYTES: usize = 8;

const SHARDS_MAX: usize = 16;
/// With fewer buckets in memory there are fewer shards.
const BUCKETS_OF_SHARD: usize = 8;

struct CachedBucket {
    entries: Box<[u64]>,
    is_changed: bool,
    was_used: bool,
}

#[derive(Default)]
struct Shard {
    held: HashMap<u64, CachedBucket>,
    /// The buckets in memory, in order from the clock hand on.
    clock: VecDeque<u64>,
    /// Buckets that are being read or written.
    busy: HashSet<u64>,
}

impl Shard {
    fn evict(&mut self) -> Option<(u64, CachedBucket)> {
        loop {
            let bucket = self.clock.pop_front()?;
            let is_spared =
                self.held.get_mut(&bucket).is_some_and(|held| std::mem::take(&mut held.was_used));
            if is_spared {
                self.clock.push_back(bucket);
            } else if let Some(held) = self.held.remove(&bucket) {
                return Some((bucket, held));
            }
        }
    }
}

#[derive(Default)]
struct Guarded {
    shard: Mutex<Shard>,
    /// Marks a bucket as no longer busy.
    is_free: Condvar,
}

impl Guarded {
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.shard.lock().expect("nobody panics with it")
    }

    fn set_free(&self, shard: &mut Shard, bucket: u64) {
        shard.busy.remove(&bucket);
        self.is_free.notify_all();
    }
}

/// The table.
pub(super) struct Buckets {
    file: Arc<dyn File>,
    bucket_bytes: usize,
    shards: Box<[Guarded]>,
    held_max_of_shard: usize,
    reads: AtomicU64,
    writes: AtomicU64,
}

/// The number of entries of a bucket in such a file.
fn bucket_bytes_of(file: &dyn File) -> usize {
    SECTOR_BYTES.max(file.alignment())
}

impl Buckets {
    /// An empty table in a new file, with this memory.
    pub(super) fn new(storage: &dyn Storage, path: &Path, memory_bytes: u64) -> Result<Self> {
        let file = new_file(storage, path)?;
        let bucket_bytes = bucket_bytes_of(&*file);
        let held_max = memory_bytes as usize / bucket_bytes;
        let shards = (held_max / BUCKETS_OF_SHARD).clamp(1, SHARDS_MAX);
        Ok(Self {
            file,
            bucket_bytes,
            shards: (0..shards).map(|_| Guarded::default()).collect(),
            held_max_of_shard: (held_max / shards).max(1),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        })
    }

    /// Allocates flash for this number of buckets. Call once, before anything else.
    pub(super) fn make_room(&self, buckets: u64) -> Result<()> {
        self.file.allocate(buckets * self.bucket_bytes as u64).map_err(failed)
    }

    /// Entries of a bucket.
    pub(super) fn bucket_entries(&self) -> u64 {
        (self.bucket_bytes / ENTRY_BYTES) as u64
    }

    /// Memory for buckets.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.shards.len() * self.held_max_of_shard * self.bucket_bytes) as u64
    }

    /// Reads of flash, and bytes of them.
    pub(super) fn reads(&self) -> (u64, u64) {
        let reads = self.reads.load(Ordering::Relaxed);
        (reads, reads * self.bucket_bytes as u64)
    }

    /// Bytes that were written to flash.
    pub(super) fn written_bytes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed) * self.bucket_bytes as u64
    }

    /// Passes the entries of a bucket to a closure; counts the read, if any.
    pub(super) fn see<R>(
        &self,
        bucket: u64,
        reads: &mut u64,
        see: impl FnOnce(&[u64]) -> R,
    ) -> Result<R> {
        let shard = self.hold(bucket, reads)?;
        Ok(see(&shard.held[&bucket].entries))
    }

    /// Changes the entries of a bucket.
    pub(super) fn change<R>(&self, bucket: u64, change: impl FnOnce(&mut [u64]) -> R) -> Result<R> {
        let mut shard = self.hold(bucket, &mut 0)?;
        let held = shard.held.get_mut(&bucket).expect("it is held");
        held.is_changed = true;
        Ok(change(&mut held.entries))
    }

    /// The shard of a bucket, which is in memory then.
    fn hold(&self, bucket: u64, reads: &mut u64) -> Result<MutexGuard<'_, Shard>> {
        let guarded = &self.shards[(mix(bucket) % self.shards.len() as u64) as usize];
        let mut shard = guarded.lock();
        loop {
            if let Some(held) = shard.held.get_mut(&bucket) {
                held.was_used = true;
                return Ok(shard);
            }
            if shard.busy.insert(bucket) {
                break;
            }
            shard = guarded.is_free.wait(shard).expect("nobody panics with it");
        }
        drop(shard);
        let brought = self.bring(guarded, bucket, reads);
        let mut shard = match brought {
            Ok(shard) => shard,
            Err(failure) => {
                guarded.set_free(&mut guarded.lock(), bucket);
                return Err(failure);
            }
        };
        guarded.set_free(&mut shard, bucket);
        Ok(shard)
    }

    /// Reads a busy bucket, and evicts another one for it.
    fn bring<'a>(
        &self,
        guarded: &'a Guarded,
        bucket: u64,
        reads: &mut u64,
    ) -> Result<MutexGuard<'a, Shard>> {
        let at = bucket * self.bucket_bytes as u64;
        let bytes = self.file.read_at(at, self.bucket_bytes).map_err(failed)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        *reads += 1;
        let (words, _) = bytes.as_chunks::<ENTRY_BYTES>();
        let entries = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut shard = guarded.lock();
        while shard.held.len() >= self.held_max_of_shard {
            let Some((victim, held)) = shard.evict() else { break };
            if held.is_changed {
                shard.busy.insert(victim);
                drop(shard);
                let written = self.write(victim, &held.entries);
                shard = guarded.lock();
                guarded.set_free(&mut shard, victim);
                written?;
            }
        }
        shard.held.insert(bucket, CachedBucket { entries, is_changed: false, was_used: false });
        shard.clock.push_back(bucket);
        Ok(shard)
    }

    fn write(&self, bucket: u64, entries: &[u64]) -> Result<()> {
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.file.write_at(bucket * self.bucket_bytes as u64, &bytes).map_err(failed)
    }
}
