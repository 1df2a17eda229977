//! The entries of one shard of the point cache: the crate's own ([`PointShard`]), or a baseline in
//! their place, such as the algorithm of a paper, behind the trait [`PointEntries`].
//!
//! The rest of the point cache calls only [`Entries`], so its rules hold for both. The crate's own
//! entries are called directly; a baseline costs the product one check that there is none.
//!
//! Single-threaded.

use std::fmt;

use crate::ablation::Ablations;
use crate::name::Name;
use crate::partition::ghost::GhostHits;
use crate::point::kp::{KpEntry, Pointer};
use crate::point::kv::KvEntry;
use crate::point::shard::{LEVELS, LookupResult, PointCacheLookup, PointReads, PointShard};

/// A baseline that replaces [`PointShard`] in the point cache. Its methods mean the same as those
/// of [`PointShard`]. A baseline caches every entry that a lookup finds, as it sees fit; it has no
/// frequency sketch and no warm start.
pub(crate) trait PointEntries: fmt::Debug + Send {
    /// Looks up `name`; `read` returns whether it accepts the value.
    fn lookup(
        &mut self,
        hash: u64,
        name: Name<'_>,
        read: &mut dyn FnMut(KvEntry<'_>) -> bool,
    ) -> PointCacheLookup<()>;

    /// Caches the result of a lookup that read the tree.
    fn resolved(&mut self, hash: u64, resolved: &LookupResult<'_>);

    /// Brings a key up to date with a flush; returns whether a pointer must be redirected.
    fn update(&mut self, hash: u64, name: Name<'_>, entry: Option<KvEntry<'_>>) -> bool;

    /// Points the entry of `hash` to its new location.
    fn redirect(&mut self, hash: u64, to: KpEntry);

    /// Moves a pointer from `from` to `to`; returns whether there was one.
    fn relocate(&mut self, hash: u64, from: Pointer, to: KpEntry) -> bool;

    /// Drops the values whose names are `is_named` and the pointers into tables `is_in`.
    fn forget(&mut self, is_named: &dyn Fn(Name<'_>) -> bool, is_in: &dyn Fn(u64) -> bool);

    /// The pointers into tables that are `is_in`, with their fingerprints.
    fn pointers_into<'a>(
        &'a self,
        is_in: &'a dyn Fn(u64) -> bool,
    ) -> Box<dyn Iterator<Item = (u32, Pointer)> + 'a>;

    /// Storage reads that hits have saved.
    fn saved(&self) -> PointReads;

    /// Sets the capacities of KV and KP in bytes.
    fn set_capacities(&mut self, kv: usize, kp: usize);

    /// The capacities of KV and KP in bytes.
    fn capacities(&self) -> (usize, usize);

    /// The charged bytes of KV and KP.
    fn charged_bytes(&self) -> (usize, usize);

    /// The number of KV and KP entries.
    fn len(&self) -> (usize, usize);

    /// The bytes of ghosts.
    fn measuring_bytes(&self) -> usize;

    /// Sets how many bits of a hash identify a key.
    fn set_fingerprint_bits(&mut self, bits: u32);

    /// Bounds the bytes of ghosts.
    fn set_ghost_bytes(&mut self, bytes: usize);

    /// The bytes that ghosts would use if they could.
    fn ghost_bytes_wanted(&self) -> usize;

    /// The bytes that new entries needed and did not find free since the last call.
    fn take_wanted_bytes(&mut self) -> usize;
}

/// Entries of a shard. The crate's own are empty while a baseline replaces them.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entries {
    own: PointShard,
    baseline: Option<Box<dyn PointEntries>>,
}

impl Entries {
    pub(crate) fn new(own: PointShard, baseline: Option<Box<dyn PointEntries>>) -> Self {
        Self { own, baseline }
    }

    #[inline]
    pub(crate) fn lookup<R>(
        &mut self,
        hash: u64,
        name: Name<'_>,
        read: impl FnOnce(KvEntry<'_>) -> Option<R>,
    ) -> PointCacheLookup<R> {
        match &mut self.baseline {
            None => self.own.lookup(hash, name, read),
            Some(baseline) => lookup_in_baseline(baseline.as_mut(), hash, name, read),
        }
    }

    #[inline]
    pub(crate) fn record_access(&self, hash: u64) {
        if self.baseline.is_none() {
            self.own.record_access(hash);
        }
    }

    pub(crate) fn resolved(&mut self, hash: u64, resolved: &LookupResult<'_>) {
        match &mut self.baseline {
            None => self.own.resolved(hash, resolved),
            Some(baseline) => baseline.resolved(hash, resolved),
        }
    }

    pub(crate) fn offer_memory_hit(&mut self, hash: u64, entry: KvEntry<'_>) -> u32 {
        if self.baseline.is_some() {
            return 0;
        }
        self.own.offer_memory_hit(hash, entry)
    }

    pub(crate) fn saved(&self) -> PointReads {
        self.baseline.as_ref().map_or_else(|| self.own.saved(), |baseline| baseline.saved())
    }

    /// A baseline has none: its ghosts move its own targets.
    pub(crate) fn wanted(&self) -> PointReads<GhostHits> {
        if self.baseline.is_some() { PointReads::default() } else { self.own.wanted() }
    }

    pub(crate) fn update(&mut self, hash: u64, name: Name<'_>, entry: Option<KvEntry<'_>>) -> bool {
        match &mut self.baseline {
            None => self.own.update(hash, name, entry),
            Some(baseline) => baseline.update(hash, name, entry),
        }
    }

    pub(crate) fn redirect(&mut self, hash: u64, to: KpEntry) {
        match &mut self.baseline {
            None => self.own.redirect(hash, to),
            Some(baseline) => baseline.redirect(hash, to),
        }
    }

    pub(crate) fn relocate(&mut self, hash: u64, from: Pointer, to: KpEntry) -> bool {
        match &mut self.baseline {
            None => self.own.relocate(hash, from, to),
            Some(baseline) => baseline.relocate(hash, from, to),
        }
    }

    pub(crate) fn forget(
        &mut self,
        is_named: impl Fn(Name<'_>) -> bool,
        is_in: impl Fn(u64) -> bool,
    ) {
        match &mut self.baseline {
            None => self.own.forget(is_named, is_in),
            Some(baseline) => baseline.forget(&is_named, &is_in),
        }
    }

    pub(crate) fn pointers_into<'a, F: Fn(u64) -> bool + 'a>(
        &'a self,
        is_in: &'a F,
    ) -> Box<dyn Iterator<Item = (u32, Pointer)> + 'a> {
        match &self.baseline {
            None => Box::new(self.own.pointers_into(is_in)),
            Some(baseline) => baseline.pointers_into(is_in),
        }
    }

    pub(crate) fn for_each_value(&self, see: impl FnMut(KvEntry<'_>, u8)) {
        if self.baseline.is_none() {
            self.own.for_each_value(see);
        }
    }

    pub(crate) fn for_each_pointer(&self, mut see: impl FnMut(u32, KpEntry, u8)) {
        if self.baseline.is_none() {
            self.own.pointers().for_each(|(hash, entry, times)| see(hash, entry, times));
        }
    }

    pub(crate) fn restore_frequency(&self, hash: u64, times: u8) {
        if self.baseline.is_none() {
            self.own.restore_frequency(hash, times);
        }
    }

    pub(crate) fn restore_value(&mut self, hash: u64, entry: KvEntry<'_>) -> bool {
        self.baseline.is_none() && self.own.restore_value(hash, entry)
    }

    pub(crate) fn restore_pointer(&mut self, hash: u64, entry: KpEntry) {
        if self.baseline.is_none() {
            self.own.restore_pointer(hash, entry);
        }
    }

    pub(crate) fn set_ablations(&mut self, ablations: Ablations, reads: [f32; LEVELS]) {
        if self.baseline.is_none() {
            self.own.set_ablations(ablations, reads);
        }
    }

    pub(crate) fn measure(&mut self, sketch_bytes: usize, window_bytes: usize, sampling: u32) {
        if self.baseline.is_none() {
            self.own.measure(sketch_bytes, window_bytes, sampling);
        }
    }

    pub(crate) fn set_capacities(&mut self, kv: usize, kp: usize) {
        match &mut self.baseline {
            None => self.own.set_capacities(kv, kp),
            Some(baseline) => baseline.set_capacities(kv, kp),
        }
    }

    pub(crate) fn capacities(&self) -> (usize, usize) {
        self.baseline.as_ref().map_or_else(|| self.own.capacities(), |b| b.capacities())
    }

    pub(crate) fn have_room(&self) -> (bool, bool) {
        let Some(baseline) = &self.baseline else { return self.own.have_room() };
        let (charged, capacities) = (baseline.charged_bytes(), baseline.capacities());
        (charged.0 < capacities.0, charged.1 < capacities.1)
    }

    pub(crate) fn charged_bytes(&self) -> (usize, usize) {
        self.baseline.as_ref().map_or_else(|| self.own.charged_bytes(), |b| b.charged_bytes())
    }

    pub(crate) fn len(&self) -> (usize, usize) {
        self.baseline.as_ref().map_or_else(|| self.own.len(), |baseline| baseline.len())
    }

    pub(crate) fn measuring_bytes(&self) -> usize {
        self.baseline.as_ref().map_or_else(|| self.own.measuring_bytes(), |b| b.measuring_bytes())
    }

    pub(crate) fn set_fingerprint_bits(&mut self, bits: u32) {
        self.own.set_fingerprint_bits(bits);
        if let Some(baseline) = &mut self.baseline {
            baseline.set_fingerprint_bits(bits);
        }
    }

    /// The baseline, if there is one.
    pub(crate) fn baseline(&mut self) -> Option<&mut dyn PointEntries> {
        match &mut self.baseline {
            Some(baseline) => Some(baseline.as_mut()),
            None => None,
        }
    }
}

/// A baseline is called through a trait object, which cannot take a generic closure: this
/// carries the answer out of a plain one.
#[cold]
fn lookup_in_baseline<R>(
    baseline: &mut dyn PointEntries,
    hash: u64,
    name: Name<'_>,
    read: impl FnOnce(KvEntry<'_>) -> Option<R>,
) -> PointCacheLookup<R> {
    let (mut read, mut answer) = (Some(read), None);
    let found = baseline.lookup(hash, name, &mut |entry| {
        answer = read.take().and_then(|read| read(entry));
        answer.is_some()
    });
    match (found, answer) {
        (PointCacheLookup::Value(()), Some(answer)) => PointCacheLookup::Value(answer),
        (PointCacheLookup::Pointer(entry), _) => PointCacheLookup::Pointer(entry),
        _ => PointCacheLookup::Miss,
    }
}
