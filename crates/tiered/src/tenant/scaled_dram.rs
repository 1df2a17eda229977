//! The DRAM of a cache of another size, for a sample of its keys: a model without values, scaled
//! down by the sampling rate ("Cache Modeling and Optimization using Miniature Simulations",
//! Waldspurger, Saemundsson, Ahmad, Park, USENIX ATC 2017).
//!
//! Guarantees:
//! 1. Objects are charged and evicted as in the DRAM of a cache that was opened with that size: in
//!    as many shards, by the same code. Of a sample the same part of the shards is modelled, at
//!    least one.
//! 2. A model takes [`ScaledDram::memory_bytes`], about 50 bytes for each object and no more than
//!    15 for each ghost record, and holds no keys or values.
//!
//! What it leaves out: leases, values that a lookup revises in place, and the time until an expired
//! object is swept. An expired object takes room until it is looked up, evicted, or removed by
//! [`ScaledDram::sweep`].
//!
//! Pure; one thread's.

use tidekv_cache::{Eviction, Objects};

use crate::dram::BENEFIT_WITHOUT_COPY;
use crate::object::Deadline;
use crate::tenant::pool::{self, Shard};

/// An object of the model.
#[derive(Debug, Clone, Copy)]
struct Modelled {
    deadline: Deadline,
    /// The charge of the object itself, in bytes.
    bytes: u32,
}

/// A model of the DRAM of a cache of any size, for a sample of its keys.
#[derive(Debug)]
pub struct ScaledDram {
    eviction: Eviction,
    object_bytes_max: u64,
    /// The DRAM of the modelled cache, in bytes.
    dram_bytes: u64,
    shards: Box<[Objects<Modelled>]>,
}

impl ScaledDram {
    /// An empty model of `dram_bytes` of DRAM without flash, for keys that are sampled at `rate`, 0
    /// to 1.
    pub(crate) fn new(
        eviction: Eviction,
        object_bytes_max: u64,
        dram_bytes: u64,
        rate: f64,
    ) -> Self {
        let mut model = Self { eviction, object_bytes_max, dram_bytes, shards: Box::new([]) };
        model.shards = model.empty_shards(rate);
        model
    }

    fn empty_shards(&self, rate: f64) -> Box<[Objects<Modelled>]> {
        let shards_max = pool::shards_max(self.object_bytes_max, self.dram_bytes);
        let all = pool::shards_for(self.object_bytes_max, self.dram_bytes, shards_max);
        let shards = ((all as f64 * rate).round() as u64).max(1);
        let capacity_bytes = (self.dram_bytes as f64 * rate / shards as f64) as usize;
        (0..shards).map(|_| Objects::new(self.eviction, capacity_bytes)).collect()
    }

    fn shard(&mut self, hash: u64) -> &mut Objects<Modelled> {
        // As in the pool.
        let number = ((hash >> 32) as usize * self.shards.len()) >> 32;
        &mut self.shards[number]
    }

    /// Whether a lookup at `now_s` hits; the access counts for eviction.
    pub fn get(&mut self, hash: u64, now_s: u32) -> bool {
        let shard = self.shard(hash);
        let Some(found) = shard.get(hash) else { return false };
        let is_over = found.deadline.has_passed(now_s);
        if is_over {
            shard.remove(hash);
        }
        !is_over
    }

    /// Whether there is an object under `hash`, expired or not, without counting an access.
    pub fn contains(&mut self, hash: u64) -> bool {
        self.shard(hash).peek(hash).is_some()
    }

    /// Stores an object in place of the old one. `bytes` is its charge as a cache reports it
    /// ([`crate::Access::Stored`]), with the largest overhead of any eviction policy.
    pub fn store(&mut self, hash: u64, bytes: u64, deadline: Deadline) {
        let bytes = bytes.saturating_sub(Shard::OVERHEAD_BYTES as u64);
        let object = Modelled { deadline, bytes: u32::try_from(bytes).unwrap_or(u32::MAX) };
        self.insert(hash, object);
    }

    fn insert(&mut self, hash: u64, object: Modelled) {
        let of_cache = Shard::overhead_bytes(self.eviction);
        let of_model = Objects::<Modelled>::overhead_bytes(self.eviction);
        let charge_bytes = (object.bytes as usize + of_cache).saturating_sub(of_model);
        let shard = self.shard(hash);
        // As the pool does: an object that is replaced is not evicted.
        shard.remove(hash);
        drop(shard.insert_for(hash, object, charge_bytes, BENEFIT_WITHOUT_COPY));
    }

    /// Removes the object under `hash`.
    pub fn remove(&mut self, hash: u64) {
        self.shard(hash).remove(hash);
    }

    /// Drops all objects.
    pub fn clear(&mut self) {
        for shard in &mut self.shards {
            *shard = Objects::new(self.eviction, shard.capacity_bytes());
        }
    }

    /// Models a cache of `dram_bytes` from now on, for keys that are sampled at `rate`, and drops
    /// the objects for which `is_sampled` is false. If the number of shards changes, objects move,
    /// and their order of eviction begins anew.
    pub fn set_scale(&mut self, dram_bytes: u64, rate: f64, is_sampled: impl Fn(u64) -> bool) {
        self.dram_bytes = dram_bytes;
        let mut shards = self.empty_shards(rate);
        let is_same_number = shards.len() == self.shards.len();
        if !is_same_number {
            std::mem::swap(&mut self.shards, &mut shards);
        }
        let old = if is_same_number { &self.shards } else { &shards };
        let mut objects = Vec::new();
        for shard in old {
            shard.scan(0, shard.places(), |hash, object| objects.push((hash, *object)));
        }
        if is_same_number {
            for (hash, _) in objects.into_iter().filter(|(hash, _)| !is_sampled(*hash)) {
                self.remove(hash);
            }
            for (shard, new) in self.shards.iter_mut().zip(&shards) {
                drop(shard.set_capacity_bytes(new.capacity_bytes()));
            }
        } else {
            for (hash, object) in objects.into_iter().filter(|(hash, _)| is_sampled(*hash)) {
                self.insert(hash, object);
            }
        }
    }

    /// Removes the objects that have expired at `now_s`.
    pub fn sweep(&mut self, now_s: u32) {
        for shard in &mut self.shards {
            let mut expired = Vec::new();
            shard.scan(0, shard.places(), |hash, object| {
                if object.deadline.has_passed(now_s) {
                    expired.push(hash);
                }
            });
            expired.into_iter().for_each(|hash| _ = shard.remove(hash));
        }
    }

    /// The number of objects.
    pub fn objects(&self) -> usize {
        self.shards.iter().map(Objects::len).sum()
    }

    /// Whether so much is charged that another object of the mean size would evict one.
    pub fn is_full(&self) -> bool {
        let free = |shard: &Objects<Modelled>| {
            let mean_bytes = shard.charged_bytes() / shard.len().max(1);
            shard.charged_bytes() + mean_bytes > shard.capacity_bytes()
        };
        self.shards.iter().all(|shard| !shard.is_empty() && free(shard))
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.allocated_bytes() + size_of_val(shard)).sum()
    }
}

#[cfg(test)]
mod tests;
