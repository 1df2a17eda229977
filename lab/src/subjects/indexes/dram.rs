//! An index that is entirely in memory: fingerprints and locations in hash maps, one map per shard.
//! A lookup reads only the object.
//!
//! Fingerprints are whole hashes, so two keys hardly ever share one; if they do, the locations of
//! all but the first are in an additional map. Dead entries are removed when a map has become twice
//! as large as the capacity of objects.

use std::collections::HashMap;
use std::sync::RwLock;

use crate::failure::Result;
use crate::subjects::indexes::lookup::{Index, IsIt};

const SHARDS: u64 = 64;

/// A fingerprint, a location, and the hash map's control byte of each slot.
const ENTRY_BYTES: u64 = 17;

#[derive(Default)]
struct Shard {
    first: HashMap<u64, u64>,
    /// Fingerprints with more than one location.
    more: HashMap<u64, Vec<u64>>,
}

impl Shard {
    fn places(&self, fingerprint: u64) -> impl Iterator<Item = u64> {
        let more = self.more.get(&fingerprint).into_iter().flatten();
        self.first.get(&fingerprint).into_iter().chain(more).copied()
    }

    fn set(&mut self, fingerprint: u64, old: Option<u64>, new: u64) {
        let Some(first) = self.first.get_mut(&fingerprint) else {
            self.first.insert(fingerprint, new);
            return;
        };
        if Some(*first) == old {
            *first = new;
            return;
        }
        let more = self.more.entry(fingerprint).or_default();
        match more.iter_mut().find(|place| Some(**place) == old) {
            Some(place) => *place = new,
            None => more.push(new),
        }
    }

    fn retain(&mut self, is_wanted: impl Fn(u64) -> bool) {
        let mut more = std::mem::take(&mut self.more);
        more.values_mut().for_each(|places| places.retain(|place| is_wanted(*place)));
        self.first.retain(|fingerprint, place| {
            if is_wanted(*place) {
                return true;
            }
            let next = more.get_mut(fingerprint).and_then(Vec::pop);
            next.is_some_and(|next| {
                *place = next;
                true
            })
        });
        more.retain(|_, places| !places.is_empty());
        self.more = more;
    }

    fn remove(&mut self, fingerprint: u64, place: u64) {
        let left: Vec<u64> = self.places(fingerprint).filter(|at| *at != place).collect();
        self.first.remove(&fingerprint);
        self.more.remove(&fingerprint);
        left.into_iter().for_each(|place| self.set(fingerprint, None, place));
    }
}

/// The index.
pub(super) struct InDram {
    shards: Box<[RwLock<Shard>]>,
    fingerprint_mask: u64,
    entries_max_of_shard: usize,
}

impl InDram {
    /// An index for this number of objects, with fingerprints of this number of bits.
    pub(super) fn new(objects: u64, fingerprint_bits: u32) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            fingerprint_mask: u64::MAX >> (64 - fingerprint_bits),
            entries_max_of_shard: (2 * objects / SHARDS).max(16) as usize,
        }
    }

    fn shard(&self, fingerprint: u64) -> &RwLock<Shard> {
        &self.shards[(fingerprint % SHARDS) as usize]
    }
}

impl Index for InDram {
    fn find(&self, hash: u64, _: &mut u64, is_it: IsIt<'_>) -> Result<Option<u64>> {
        let fingerprint = hash & self.fingerprint_mask;
        let places: Vec<u64> = {
            let shard = self.shard(fingerprint).read().expect("nobody panics with it");
            shard.places(fingerprint).collect()
        };
        for place in places {
            if is_it(place)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn set(
        &self,
        hash: u64,
        old: Option<u64>,
        new: u64,
        is_alive: &dyn Fn(u64) -> bool,
    ) -> Result<bool> {
        let fingerprint = hash & self.fingerprint_mask;
        let mut shard = self.shard(fingerprint).write().expect("nobody panics with it");
        shard.set(fingerprint, old, new);
        let entries = shard.first.len() + shard.more.len();
        if entries > self.entries_max_of_shard {
            shard.retain(is_alive);
        }
        Ok(true)
    }

    fn remove(&self, hash: u64, place: u64) -> Result<()> {
        let fingerprint = hash & self.fingerprint_mask;
        let mut shard = self.shard(fingerprint).write().expect("nobody panics with it");
        shard.remove(fingerprint, place);
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        let entries = self.shards.iter().map(|shard| {
            let shard = shard.read().expect("nobody panics with it");
            // A hash map is at most seven eighths full.
            (shard.first.capacity() + shard.more.capacity()) as u64 * 8 / 7
        });
        entries.sum::<u64>() * ENTRY_BYTES
    }
}
