//! An index of two levels with chains of buckets, *after* SlickCache (Wang and Chen, "Cascade
//! mapping: optimizing memory efficiency for flash-based key-value caching", SoCC 2018).
//!
//! This is not SlickCache. Our sources are its title and the papers that cite it: mappings are in a
//! cascade of levels, frequently used ones in memory, the others in lists on flash that a lookup
//! walks; and BigKV's measurements, a latency tail ten times as long as with one table. This model:
//! a hash selects a chain; a full bucket has a next one, and a lookup walks from bucket to bucket
//! until it finds its key. The buckets in memory are the recently used ones, as in the other
//! two-level index. Entries do not move towards the beginning of a chain when accessed, which the
//! original may do.
//!
//! ```text
//!   hash ─▶ chain ─▶ [ 63 entries │ next ] ─▶ [ 63 entries │ next ] ─▶ …
//! ```
//!
//! The number of chains gives two buckets per chain on average when the log is full. A tag of 16
//! bits counts as a match only after a comparison of the key on flash, for lookups and for writes.
//!
//! A lookup takes no lock: entries do not move, and chains only become longer. Changes of one chain
//! wait for each other.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tidekv_io::Storage;

use crate::failure::Result;
use crate::subjects::indexes::buckets::Buckets;
use crate::subjects::indexes::lookup::{Index, IsIt, entry_of, parts_of};

/// Mean buckets of a chain when the log is full.
const BUCKETS_OF_CHAIN: u64 = 2;

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 16;

/// The number of lock stripes of chain changes.
const LANES: u64 = 256;

/// The index.
pub(super) struct SlickCache {
    buckets: Buckets,
    chains: u64,
    /// Buckets that are in a chain, or were created for one.
    used: AtomicU64,
    buckets_max: u64,
    lanes: Box<[Mutex<()>]>,
    tag_mask: u64,
}

/// Splits a bucket: its entries, and the number of the next one, or 0.
fn split(bucket: &[u64]) -> (&[u64], u64) {
    bucket.split_last().map_or((&[], 0), |(next, entries)| (entries, *next))
}

impl SlickCache {
    /// An index for this number of objects, with tags of this number of bits, in a new file.
    pub(super) fn new(
        storage: &dyn Storage,
        path: &Path,
        objects: u64,
        tag_bits: u32,
        memory_bytes: u64,
    ) -> Result<Self> {
        let buckets = Buckets::new(storage, path, memory_bytes)?;
        let entries = buckets.bucket_entries() - 1;
        let chains = objects.div_ceil(entries * BUCKETS_OF_CHAIN).max(1);
        // All buckets of a chain except the last one are full.
        let buckets_max = 2 * chains + objects.div_ceil(entries);
        buckets.make_room(buckets_max)?;
        Ok(Self {
            buckets,
            chains,
            used: AtomicU64::new(chains),
            buckets_max,
            lanes: (0..LANES).map(|_| Mutex::default()).collect(),
            tag_mask: (1 << tag_bits) - 1,
        })
    }

    fn chain_of(&self, hash: u64) -> u64 {
        ((hash >> 32) * self.chains) >> 32
    }

    fn tag_of(&self, hash: u64) -> u64 {
        hash & self.tag_mask
    }

    fn lane_of(&self, chain: u64) -> &Mutex<()> {
        &self.lanes[(chain % LANES) as usize]
    }

    /// Walks a chain to the first matching entry: returns its bucket and its position in it, or the
    /// last bucket.
    fn walk(&self, chain: u64, is_wanted: impl Fn(u64) -> bool) -> Result<(u64, Option<usize>)> {
        let mut bucket = chain;
        loop {
            let (position, next) = self.buckets.see(bucket, &mut 0, |all| {
                let (entries, next) = split(all);
                (entries.iter().position(|entry| is_wanted(*entry)), next)
            })?;
            if position.is_some() || next == 0 {
                return Ok((bucket, position));
            }
            bucket = next;
        }
    }

    /// Puts `entry` into a new bucket after the last one of a chain; whether there was room.
    fn lengthen(&self, last: u64, entry: u64) -> Result<bool> {
        let bucket = self.used.fetch_add(1, Ordering::Relaxed);
        if bucket >= self.buckets_max {
            return Ok(false);
        }
        self.buckets.change(bucket, |all| all[0] = entry)?;
        self.buckets.change(last, |all| all.last_mut().map(|next| *next = bucket))?;
        Ok(true)
    }
}

impl Index for SlickCache {
    fn find(&self, hash: u64, reads: &mut u64, is_it: IsIt<'_>) -> Result<Option<u64>> {
        let (mut bucket, tag) = (self.chain_of(hash), self.tag_of(hash));
        loop {
            let (places, next) = self.buckets.see(bucket, reads, |all| {
                let (entries, next) = split(all);
                let own = entries.iter().filter_map(|entry| parts_of(*entry));
                let matching = own.filter(|(mark, _)| *mark == tag).map(|(_, place)| place);
                (matching.collect::<Vec<u64>>(), next)
            })?;
            for place in places {
                if is_it(place)? {
                    return Ok(Some(place));
                }
            }
            if next == 0 {
                return Ok(None);
            }
            bucket = next;
        }
    }

    fn set(
        &self,
        hash: u64,
        old: Option<u64>,
        new: u64,
        is_alive: &dyn Fn(u64) -> bool,
    ) -> Result<bool> {
        let (chain, tag) = (self.chain_of(hash), self.tag_of(hash));
        let _changing = self.lane_of(chain).lock().expect("nobody panics with it");
        if let Some(old) = old {
            let (bucket, position) = self.walk(chain, |entry| entry == entry_of(tag, old))?;
            if let Some(position) = position {
                self.buckets.change(bucket, |all| all[position] = entry_of(tag, new))?;
                return Ok(true);
            }
        }
        let is_free = |entry: u64| !parts_of(entry).is_some_and(|(_, place)| is_alive(place));
        match self.walk(chain, is_free)? {
            (bucket, Some(position)) => {
                self.buckets.change(bucket, |all| all[position] = entry_of(tag, new))?;
                Ok(true)
            }
            (last, None) => self.lengthen(last, entry_of(tag, new)),
        }
    }

    fn remove(&self, hash: u64, place: u64) -> Result<()> {
        let (chain, tag) = (self.chain_of(hash), self.tag_of(hash));
        let _changing = self.lane_of(chain).lock().expect("nobody panics with it");
        if let (bucket, Some(position)) = self.walk(chain, |entry| entry == entry_of(tag, place))? {
            self.buckets.change(bucket, |all| all[position] = 0)?;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        self.buckets.memory_bytes()
    }

    fn reads(&self) -> (u64, u64) {
        self.buckets.reads()
    }

    fn written_bytes(&self) -> u64 {
        self.buckets.written_bytes()
    }
}
