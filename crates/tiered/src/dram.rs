//! A shard of the DRAM tier: objects by the hash of their keys, and the keys that are being read
//! from flash.
//!
//! Guarantees:
//! 1. An object is found only under its own key: where hashes collide the younger stays.
//! 2. A [`Lease`] is valid only while nothing has happened to its key since it was acquired: only
//!    then may the object read from flash be kept.
//!
//! For one thread at a time; [`crate::cache`] puts locks around it.

use hashbrown::HashMap;
use tidekv_cache::{Evicted, Eviction, Objects};

use crate::object::{CachedObject, Object};

/// Overhead of a value, in bytes: the key's and the value's allocations, each rounded up.
const ALLOCATION_BYTES: usize = 32;

/// The cost that a hit saves, relative to a read of flash, which is 1: for an object without a copy
/// there, a request to the back end or, once it has been written, such a read. Alternatives tried:
/// `docs/adr/0036-cost-aware-eviction.md`.
pub(crate) const BENEFIT_WITHOUT_COPY: u32 = 16;

/// An object in DRAM. `C` is the location of its copy on flash.
#[derive(Debug)]
pub(crate) struct DramObject<C> {
    pub(crate) key: Box<[u8]>,
    pub(crate) found: CachedObject,
    /// The copy on flash of exactly this state of the object.
    pub(crate) copy: Option<C>,
}

impl<C> DramObject<C> {
    /// An object that is new at `now_s`.
    pub(crate) fn new(key: &[u8], object: Object, now_s: u32) -> Self {
        let found = CachedObject { object, was_fetched: false, accessed_s: now_s };
        Self { key: key.into(), found, copy: None }
    }

    /// Its charge, in bytes, without the overhead of [`Objects`].
    fn charge_bytes(&self) -> usize {
        charge_bytes(self.key.len(), self.found.object.value.len())
    }

    /// The cost that a hit saves.
    fn benefit(&self) -> u32 {
        if self.copy.is_some() { 1 } else { BENEFIT_WITHOUT_COPY }
    }
}

/// The charge of a key and a value of these lengths, in bytes. Allocators round up to one of four
/// sizes between powers of two; the rounded size counts.
pub(crate) fn charge_bytes(key_len: usize, value_len: usize) -> usize {
    rounded(value_len) + rounded(key_len) + ALLOCATION_BYTES
}

fn rounded(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step)
}

/// The pause between two sweeps of a shard for expired objects, in seconds.
const SWEEP_PAUSE_S: u32 = 10;
/// No object expires.
const NEVER_S: u32 = u32::MAX;

/// Acquired by a reader of an object on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease(u64);

/// The objects of a shard.
#[derive(Debug)]
pub(crate) struct Shard<C> {
    objects: Objects<DramObject<C>>,
    /// Keys being read, by hash, with the number of readers.
    reading: HashMap<u64, (Lease, usize)>,
    tickets: u64,
    /// No object expires before this second.
    expires_from_s: u32,
    /// The second of the last sweep.
    swept_s: u32,
}

impl<C> Shard<C> {
    /// Bytes that an object takes beyond its charge.
    pub(crate) const OVERHEAD_BYTES: usize = Objects::<DramObject<C>>::OVERHEAD_BYTES;

    /// The same with this eviction policy.
    pub(crate) const fn overhead_bytes(eviction: Eviction) -> usize {
        Objects::<DramObject<C>>::overhead_bytes(eviction)
    }

    pub(crate) fn new(eviction: Eviction, capacity_bytes: usize) -> Self {
        let objects = Objects::new(eviction, capacity_bytes);
        Self { objects, reading: HashMap::new(), tickets: 0, expires_from_s: NEVER_S, swept_s: 0 }
    }

    /// The object under `key`, without recording an access.
    pub(crate) fn peek(&self, hash: u64, key: &[u8]) -> Option<&DramObject<C>> {
        self.objects.peek(hash).filter(|cached| *cached.key == *key)
    }

    /// The object under `key`; the access counts for eviction.
    pub(crate) fn get(&mut self, hash: u64, key: &[u8]) -> Option<&mut DramObject<C>> {
        // Compare the key first: a colliding object must not be renewed.
        self.peek(hash, key)?;
        self.objects.get(hash)
    }

    /// Inserts an object; returns the evicted objects in the order of eviction. An object larger
    /// than the shard is evicted itself.
    pub(crate) fn put(&mut self, hash: u64, cached: DramObject<C>) -> Evicted<DramObject<C>> {
        let (charge_bytes, benefit) = (cached.charge_bytes(), cached.benefit());
        if let Some(second) = cached.found.object.deadline.unix_s() {
            self.expires_from_s = self.expires_from_s.min(second);
        }
        let insertion = self.objects.insert_for(hash, cached, charge_bytes, benefit);
        let mut evicted = insertion.evicted;
        insertion.refused.into_iter().for_each(|cached| evicted.push(cached));
        evicted
    }

    /// Removes the object under `hash`.
    pub(crate) fn remove(&mut self, hash: u64) -> Option<DramObject<C>> {
        self.objects.remove(hash)
    }

    /// Begins a sweep for expired objects, if there may be any and the last one was a while ago;
    /// returns whether it does.
    pub(crate) fn begin_sweep(&mut self, now_s: u32) -> bool {
        let is_due = self.expires_from_s <= now_s && self.swept_s.abs_diff(now_s) >= SWEEP_PAUSE_S;
        if is_due {
            self.swept_s = now_s;
            // What is inserted during the sweep lowers it, and so does its end.
            self.expires_from_s = NEVER_S;
        }
        is_due
    }

    /// Removes and returns the expired objects in `count` places from `first` on, and lowers
    /// `expires_from_s` to the earliest deadline of the others there.
    pub(crate) fn sweep(
        &mut self,
        first: usize,
        count: usize,
        now_s: u32,
        expires_from_s: &mut u32,
    ) -> Vec<DramObject<C>> {
        let mut expired = Vec::new();
        self.objects.scan(first, count, |hash, cached| {
            match cached.found.object.deadline.unix_s() {
                Some(second) if second <= now_s => expired.push(hash),
                Some(second) => *expires_from_s = (*expires_from_s).min(second),
                None => {}
            }
        });
        expired.into_iter().filter_map(|hash| self.objects.remove(hash)).collect()
    }

    /// Ends a sweep, which has found this earliest deadline.
    pub(crate) fn end_sweep(&mut self, expires_from_s: u32) {
        self.expires_from_s = self.expires_from_s.min(expires_from_s);
    }

    /// Bytes that further objects may be charged before others are evicted, their overhead
    /// included.
    pub(crate) fn free_bytes(&self) -> usize {
        self.objects.capacity_bytes().saturating_sub(self.objects.charged_bytes())
    }

    /// Whether a shard of that capacity can keep an object with such a charge.
    pub(crate) fn has_room_for(capacity_bytes: usize, charge_bytes: usize) -> bool {
        // The eviction policy may reserve a part for itself.
        let usable_bytes = capacity_bytes / 100 * 95;
        charge_bytes + Objects::<DramObject<C>>::OVERHEAD_BYTES <= usable_bytes
    }

    /// A capacity with room for such a charge ([`Shard::has_room_for`]).
    pub(crate) fn bytes_with_room_for(charge_bytes: usize) -> usize {
        ((charge_bytes + Objects::<DramObject<C>>::OVERHEAD_BYTES) / 95 + 1) * 100
    }

    /// Acquires a lease before a read from flash. Concurrent readers of a key share a lease:
    /// nothing has happened since the first acquired it.
    pub(crate) fn acquire_lease(&mut self, hash: u64) -> Lease {
        self.tickets += 1;
        let (lease, readers) = self.reading.entry(hash).or_insert((Lease(self.tickets), 0));
        *readers += 1;
        *lease
    }

    /// Returns a lease; whether nothing has happened to the key since it was acquired.
    pub(crate) fn validate_lease(&mut self, hash: u64, lease: Lease) -> bool {
        let Some((valid, readers)) = self.reading.get_mut(&hash) else { return false };
        if *valid != lease {
            return false;
        }
        *readers -= 1;
        if *readers == 0 {
            self.reading.remove(&hash);
        }
        true
    }

    /// Voids the lease of a key that is being changed: its readers must not keep the object that
    /// they read.
    pub(crate) fn void_lease(&mut self, hash: u64) {
        self.reading.remove(&hash);
    }

    pub(crate) fn set_capacity_bytes(&mut self, capacity_bytes: usize) -> Evicted<DramObject<C>> {
        self.objects.set_capacity_bytes(capacity_bytes)
    }

    /// Grows to that capacity, if it is smaller.
    pub(crate) fn grow_to(&mut self, capacity_bytes: usize) {
        if self.objects.capacity_bytes() < capacity_bytes {
            drop(self.objects.set_capacity_bytes(capacity_bytes));
        }
    }

    /// Shrinks towards that capacity, if it is larger, evicting no more than about `step_bytes` of
    /// objects: those that would be evicted next.
    pub(crate) fn shrink_towards(
        &mut self,
        capacity_bytes: usize,
        step_bytes: usize,
    ) -> Option<Evicted<DramObject<C>>> {
        if self.objects.capacity_bytes() <= capacity_bytes {
            return None;
        }
        let next = self.objects.charged_bytes().saturating_sub(step_bytes);
        Some(self.objects.set_capacity_bytes(next.max(capacity_bytes)))
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.reading.clear();
        let capacity_bytes = self.objects.capacity_bytes();
        drop(self.objects.set_capacity_bytes(0));
        drop(self.objects.set_capacity_bytes(capacity_bytes));
    }

    pub(crate) fn charged_bytes(&self) -> usize {
        self.objects.charged_bytes()
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn places(&self) -> usize {
        self.objects.places()
    }

    pub(crate) fn look_at(&self, first: usize, count: usize, mut see: impl FnMut(&DramObject<C>)) {
        self.objects.scan(first, count, |_, cached| see(cached));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::object::Deadline;

    fn cached(key: &[u8], value_len: usize) -> DramObject<()> {
        let value = Bytes::from(vec![7; value_len]);
        let object = Object { value, flags: 0, deadline: Deadline::NEVER, version: 1, marks: 0 };
        DramObject::new(key, object, 5)
    }

    #[test]
    fn colliding_key_is_not_found() {
        let mut shard = Shard::new(Eviction::S3Fifo, 100_000);
        let _ = shard.put(1, cached(b"a", 100));
        assert!(shard.get(1, b"a").is_some());
        assert!(shard.get(1, b"b").is_none());
        let _ = shard.put(1, cached(b"b", 100));
        assert!(shard.get(1, b"a").is_none());
        assert!(shard.get(1, b"b").is_some());
    }

    #[test]
    fn change_of_a_key_voids_its_lease() {
        let mut shard = Shard::<()>::new(Eviction::S3Fifo, 100_000);
        let first = shard.acquire_lease(1);
        assert!(shard.validate_lease(1, first));
        let second = shard.acquire_lease(1);
        shard.void_lease(1);
        assert!(!shard.validate_lease(1, second));
        let (third, fourth) = (shard.acquire_lease(1), shard.acquire_lease(1));
        assert!(!shard.validate_lease(1, second));
        assert!(shard.validate_lease(1, third));
        assert!(shard.validate_lease(1, fourth));
        assert!(shard.reading.is_empty());
        let fifth = shard.acquire_lease(1);
        shard.void_lease(1);
        let sixth = shard.acquire_lease(1);
        assert!(!shard.validate_lease(1, fifth) && shard.validate_lease(1, sixth));
    }

    #[test]
    fn charges_equal_the_allocated_sizes() {
        assert_eq!([rounded(0), rounded(1), rounded(100), rounded(128)], [0, 16, 112, 128]);
        assert_eq!([rounded(4097), rounded(16 << 10), rounded(33_000)], [5120, 16384, 40960]);
    }

    #[test]
    fn objects_with_a_copy_on_flash_are_evicted_first() {
        let mut shard = Shard::new(Eviction::GreedyDual, 10_000);
        for hash in 0..8_u64 {
            let copy = (hash == 3).then_some(());
            assert_eq!(
                shard.put(hash, DramObject { copy, ..cached(b"a", 1_000) }).iter().count(),
                0
            );
        }
        let evicted = shard.put(8, cached(b"b", 1_000));
        assert!(evicted.iter().all(|cached| cached.copy.is_some()) && evicted.iter().count() == 1);
    }

    #[test]
    fn shard_shrinks_in_small_steps() {
        for eviction in [Eviction::S3Fifo, Eviction::GreedyDual, Eviction::Lru, Eviction::Clock] {
            let mut shard = Shard::new(eviction, 1 << 20);
            (0..2_000).for_each(|hash| drop(shard.put(hash, cached(b"a", 1_000))));
            shard.grow_to(100_000);
            let before = (shard.objects.capacity_bytes(), shard.len());
            assert_eq!(before.0, 1 << 20);
            let (mut steps, mut evicted) = (0, 0);
            while let Some(gone) = shard.shrink_towards(200_000, 50_000) {
                let gone = gone.iter().count();
                // The eviction policy may keep notes of evicted objects, and give them up.
                assert!(gone <= 60, "{eviction:?}: {gone} objects in a step");
                (steps, evicted) = (steps + 1, evicted + gone);
            }
            assert!(
                steps >= 13 && evicted + shard.len() == before.1,
                "{eviction:?}: {steps} steps"
            );
            assert_eq!(shard.objects.capacity_bytes(), 200_000);
            shard.grow_to(300_000);
            assert_eq!(shard.objects.capacity_bytes(), 300_000);
        }
    }

    #[test]
    fn object_larger_than_the_shard_is_refused() {
        let mut shard = Shard::new(Eviction::S3Fifo, 10_000);
        let evicted = shard.put(1, cached(b"a", 20_000));
        assert_eq!(evicted.iter().count(), 1);
        assert!(!Shard::<()>::has_room_for(10_000, charge_bytes(1, 20_000)));
        assert!(Shard::<()>::has_room_for(10_000, charge_bytes(1, 5_000)));
        for charge in [1, 94, 95, 96, 5_000, 1 << 20] {
            assert!(Shard::<()>::has_room_for(Shard::<()>::bytes_with_room_for(charge), charge));
        }
    }
}
