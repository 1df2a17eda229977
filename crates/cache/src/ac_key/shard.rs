//! One shard of AC-Key's point cache, as in the paper (Wu et al., "AC-Key: Adaptive Caching for
//! LSM-based Key-Value Stores", USENIX ATC 2020, sections 4.1 to 4.3).
//!
//! ```text
//!              first lookup          second one
//!   tree ─────────────────────► KP ──────────────► KV
//!     │                          │ eviction         │ eviction
//!     │    hit in the ghost      ▼                  ▼
//!     └────of KP or KV: to KV ◄─ ghosts of KP, KV and of both (fingerprints)
//! ```
//!
//! 1. A key found in the tree goes to KP with its location, or with the value if that is shorter. A
//!    key found by KP goes to KV with its value, and is removed from KP. ([`AcKeyShard::resolved`])
//! 2. A lookup that hits the ghost of KV or KP moves the boundary between them, and goes to KV; one
//!    that hits the ghost of the point cache moves the boundary of the blocks
//!    ([`crate::ac_key::earc`]).
//! 3. If there is no room, an entry is evicted: of KV, if it exceeds its target, else of KP; E-LRU
//!    chooses which ([`crate::eviction::elru`]). It is recorded in the ghost of its component and
//!    in that of the point cache.
//! 4. The benefit of a hit is a formula ([`Benefit`]): on level `l`, below `n0` tables of level 0,
//!    the filters of `m` tables, an index block and a data block.
//! 5. Where targets never move (the paper's `offline`), KV or KP without bytes of its own gets no
//!    entries: they go to the other one.
//!
//! **What the paper leaves open.** A value that is shorter than a pointer and inline in KP saves
//! all I/Os, as in KV. An entry larger than the shard is recorded as if it had been evicted at
//! once; one larger than the shard's part of the total is not recorded. A flush updates an entry
//! without moving it in its order. After a flush updates a key, KP has no location for it until the
//! redirect ([`AcKeyShard::redirect`]): pointers are exact without comparing keys.
//!
//! Guarantee: entries take at most the capacity after every call, ghosts at most their bound.
//! Single-threaded; pure.

use std::sync::Arc;

use crate::ac_key::earc::{Boundaries, Lower};
use crate::eviction::elru::Efficiencies;
use crate::eviction::ghost_list::{GhostList, Record};
use crate::eviction::lists::{Key, Lists};
use crate::name::Name;
use crate::partition::ghost::spread;
use crate::point::kp::{KpEntry, Pointer};
use crate::point::kv::KvEntry;
use crate::point::shard::{LookupResult, PointCacheLookup, PointReads};

const KV: usize = 0;
const KP: usize = 1;
/// The ghost of the whole point cache.
const BOTH: usize = 2;

/// Bytes of a pointer, as in the paper; a shorter value is stored inline.
const POINTER_BYTES: usize = size_of::<Pointer>();
const _: () = assert!(POINTER_BYTES == 24);

/// Ghosts may take this fraction of the shard's part of the total: with the paper's entries of 116
/// bytes they take less than half of it.
const GHOSTS_DIVISOR: usize = 4;

/// The index key of entries: names are compared afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprint(u32);

impl Key for Fingerprint {
    fn hash(&self) -> u64 {
        spread(self.0)
    }
}

/// The content after the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// The stamp and the value.
    Value,
    /// The location of the entry.
    Pointer,
    /// Room for a pointer: the running flush will set the location.
    Unknown,
}

/// Bytes of a stamp.
const STAMP_BYTES: usize = size_of::<u64>();

#[derive(Debug)]
struct Entry {
    /// The encoded name, then the body: numbers in little-endian order.
    bytes: Box<[u8]>,
    name_len: u32,
    level: u8,
    body: Body,
}

impl Entry {
    fn new(of: &KvEntry<'_>, body: Body) -> Self {
        let name_len = of.name.encoded_len();
        let body_len = match body {
            Body::Value => STAMP_BYTES + of.value.len(),
            Body::Pointer | Body::Unknown => POINTER_BYTES,
        };
        let mut bytes = vec![0; name_len + body_len];
        let (name, rest) = bytes.split_at_mut(name_len);
        of.name.encode(name);
        if body == Body::Value {
            rest[..STAMP_BYTES].copy_from_slice(&of.stamp.to_le_bytes());
            rest[STAMP_BYTES..].copy_from_slice(of.value);
        }
        Self { bytes: bytes.into(), name_len: name_len as u32, level: of.level, body }
    }

    fn pointing(of: &KvEntry<'_>, to: Pointer) -> Self {
        let mut entry = Self::new(of, Body::Unknown);
        entry.point(to);
        entry
    }

    /// Points an entry without a value to a location.
    fn point(&mut self, to: Pointer) {
        self.body = Body::Pointer;
        let (table, rest) = self.bytes[self.name_len as usize..].split_at_mut(8);
        let (offset, rest) = rest.split_at_mut(8);
        table.copy_from_slice(&to.table.to_le_bytes());
        offset.copy_from_slice(&to.offset.to_le_bytes());
        rest[..4].copy_from_slice(&to.len.to_le_bytes());
        rest[4..].copy_from_slice(&to.position.to_le_bytes());
    }

    fn name(&self) -> Name<'_> {
        Name::decode(&self.bytes[..self.name_len as usize])
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.name_len as usize..]
    }

    /// The cached entry, if it holds a value.
    fn value(&self) -> Option<KvEntry<'_>> {
        let (stamp, value) = self.rest().split_first_chunk()?;
        let entry = KvEntry {
            name: self.name(),
            stamp: u64::from_le_bytes(*stamp),
            value,
            level: self.level,
        };
        (self.body == Body::Value).then_some(entry)
    }

    /// The location, if it holds one.
    fn pointer(&self) -> Option<Pointer> {
        let (table, rest) = self.rest().split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let pointer = Pointer {
            table: u64::from_le_bytes(*table),
            offset: u64::from_le_bytes(*offset),
            len: u32::from_le_bytes(*len),
            position: u32::from_le_bytes(*rest.first_chunk()?),
        };
        (self.body == Body::Pointer).then_some(pointer)
    }

    fn charge(&self) -> usize {
        self.bytes.len() + Lists::<Fingerprint, Entry, 2>::OVERHEAD_BYTES
    }
}

/// The paper's formula for the benefit of a hit (its equations 2 and 3).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Benefit {
    /// Number of tables that level 0 can hold: the paper's `n0`.
    pub(crate) level0_tables: u8,
}

impl Benefit {
    /// The paper's `m`, doubled: tables whose filters are read on the way to `level`.
    fn tables_halves(self, level: u8) -> u32 {
        let n0 = u32::from(self.level0_tables);
        if level == 0 { n0 } else { 2 * (u32::from(level) + n0) }
    }

    /// I/Os of a lookup that ends on `level`: `f(m) = m + 2`.
    pub(crate) fn reads(self, level: u8) -> f32 {
        (self.tables_halves(level) + 4) as f32 / 2.0
    }

    /// I/Os that a hit saves, in halves: `f(m) = m + 2`, and one less for a pointer.
    fn halves(self, entry: &Entry) -> u8 {
        let all = self.tables_halves(entry.level) + 4;
        let saved = if entry.body == Body::Value { all } else { all - 2 };
        u8::try_from(saved).unwrap_or(u8::MAX)
    }

    fn efficiency(self, entry: &Entry) -> f64 {
        f64::from(self.halves(entry)) / 2.0 / entry.charge() as f64
    }
}

/// The KV and KP entries of one part of the hashes, under AC-Key.
#[derive(Debug)]
pub(crate) struct AcKeyShard {
    /// The bits of a hash that index entries.
    fingerprint_mask: u32,
    entries: Lists<Fingerprint, Entry, 2>,
    efficiencies: [Efficiencies; 2],
    ghosts: [GhostList; 3],
    benefit: Benefit,
    boundaries: Arc<Boundaries>,
    /// Number of shards, each of which has an equal part of the total.
    shards: usize,
    /// Targets of KV and KP; the sum bounds both.
    capacities: (usize, usize),
    ghost_bytes_max: usize,
    /// Bytes that new entries needed and did not find free since the last call.
    wanted_bytes: usize,
    saved: PointReads,
}

impl AcKeyShard {
    /// A shard without capacity, one of `shards`.
    pub(crate) fn new(boundaries: Arc<Boundaries>, shards: usize, benefit: Benefit) -> Self {
        Self {
            fingerprint_mask: u32::MAX,
            entries: Lists::new(),
            efficiencies: Default::default(),
            ghosts: Default::default(),
            benefit,
            boundaries,
            shards,
            capacities: (0, 0),
            ghost_bytes_max: 0,
            wanted_bytes: 0,
            saved: PointReads::default(),
        }
    }

    /// See
    /// [`PointShard::set_fingerprint_bits`](crate::point::shard::PointShard::set_fingerprint_bits).
    pub(crate) fn set_fingerprint_bits(&mut self, bits: u32) {
        assert!(self.len() == (0, 0), "fingerprints change while there are entries");
        self.fingerprint_mask = u32::MAX.checked_shr(u32::BITS - bits.min(32)).unwrap_or(0);
    }

    /// Bounds the bytes of all ghosts together.
    pub(crate) fn set_ghost_bytes(&mut self, bytes: usize) {
        self.ghost_bytes_max = bytes;
        let taken = self.measuring_bytes();
        if taken > bytes {
            for ghost in &mut self.ghosts {
                let part = ghost.charged_bytes() as f64 / taken as f64;
                ghost.set_bytes_max((bytes as f64 * part) as usize);
            }
        }
    }

    /// The bytes that the ghosts need: their current bytes and some more, up to a fraction of the
    /// shard's part.
    pub(crate) fn ghost_bytes_wanted(&self) -> usize {
        let most = self.share() / GHOSTS_DIVISOR;
        let taken = self.measuring_bytes();
        (taken + taken / 4 + GHOST_BYTES_MIN).min(most)
    }

    /// The bytes that new entries needed and did not find free since the last call.
    pub(crate) fn take_wanted_bytes(&mut self) -> usize {
        std::mem::take(&mut self.wanted_bytes)
    }

    /// I/Os saved by hits, by the formula.
    pub(crate) fn saved(&self) -> PointReads {
        self.saved
    }

    pub(crate) fn charged_bytes(&self) -> (usize, usize) {
        (self.entries.charged(KV), self.entries.charged(KP))
    }

    pub(crate) fn measuring_bytes(&self) -> usize {
        self.ghosts.iter().map(GhostList::charged_bytes).sum()
    }

    pub(crate) fn len(&self) -> (usize, usize) {
        (self.entries.len_of(KV), self.entries.len_of(KP))
    }

    /// See [`PointShard::lookup`](crate::point::shard::PointShard::lookup).
    pub(crate) fn lookup<R>(
        &mut self,
        hash: u64,
        name: Name<'_>,
        read: impl FnOnce(KvEntry<'_>) -> Option<R>,
    ) -> PointCacheLookup<R> {
        let Some(index) = self.find(hash, name) else { return PointCacheLookup::Miss };
        let Some(entry) = self.entries.entry(index) else { return PointCacheLookup::Miss };
        if let Some(pointer) = entry.pointer() {
            let level = entry.level;
            self.saved.kp += f64::from(self.benefit.halves(entry)) / 2.0;
            self.entries.renew(KP, index);
            return PointCacheLookup::Pointer(KpEntry { pointer, level });
        }
        let saved = f64::from(self.benefit.halves(entry)) / 2.0;
        let Some(answer) = entry.value().and_then(read) else { return PointCacheLookup::Miss };
        self.saved.kv += saved;
        match self.entries.list(index) {
            KP if self.may_hold(KV) => self.promote(index),
            list => self.entries.renew(list, index),
        }
        PointCacheLookup::Value(answer)
    }

    /// Moves a value that is inline in KP to KV, at its second access.
    fn promote(&mut self, index: u32) {
        let (efficiency, charge) = (self.efficiency(index), self.entries.charge(index));
        self.efficiencies[KP].remove(efficiency);
        self.efficiencies[KV].add(efficiency);
        self.entries.transfer(index, KV, charge);
    }

    /// Caches the result of a lookup, and moves the boundaries on ghost hits.
    pub(crate) fn resolved(&mut self, hash: u64, resolved: &LookupResult<'_>) {
        let found = &resolved.entry;
        let here = self.find(hash, found.name);
        let was_in = here.map(|index| self.entries.list(index));
        if let Some(index) = here {
            self.take(index);
        }
        // Too large to fit: do not even copy it, it could be hundreds of MiB.
        if found.value.len() > self.share() {
            return;
        }
        let goes_to_kv = match was_in {
            Some(KV) => true,
            Some(_) => resolved.by_pointer,
            // It was evicted between the lookup and now.
            None if resolved.by_pointer => true,
            None => self.check_ghosts(hash),
        };
        let goes_to_kv = if goes_to_kv { self.may_hold(KV) } else { !self.may_hold(KP) };
        let is_inline = found.value.len() < POINTER_BYTES;
        let (list, entry) = match resolved.pointer {
            _ if goes_to_kv => (KV, Entry::new(found, Body::Value)),
            Some(pointer) if !is_inline => (KP, Entry::pointing(found, pointer)),
            _ => (KP, Entry::new(found, Body::Value)),
        };
        self.insert(list, self.fingerprint(hash), entry);
    }

    /// Whether a lookup hit the ghost of KV or KP; ghost hits move the boundaries.
    fn check_ghosts(&mut self, hash: u64) -> bool {
        let Fingerprint(fingerprint) = self.fingerprint(hash);
        let [of_kv, of_kp, of_both] = &mut self.ghosts;
        let lower = of_kv.take(fingerprint).map(|record| Lower::Kv(record.efficiency()));
        let lower =
            lower.or_else(|| of_kp.take(fingerprint).map(|record| Lower::Kp(record.efficiency())));
        let upper = of_both.take(fingerprint).map(Record::efficiency);
        if lower.is_some() || upper.is_some() {
            self.boundaries.point_hit(lower, upper);
        }
        lower.is_some()
    }

    fn insert(&mut self, list: usize, fingerprint: Fingerprint, entry: Entry) {
        let charge = entry.charge();
        if charge > self.capacity().min(Lists::<Fingerprint, Entry, 2>::CHARGE_MAX) {
            self.wanted_bytes += charge;
            return self.note(list, fingerprint, &entry);
        }
        let before = self.entries.len();
        self.wanted_bytes += self.shrink_to(self.capacity() - charge);
        self.entries.give_back(before - self.entries.len());
        self.efficiencies[list].add(self.benefit.efficiency(&entry));
        self.entries.add(list, fingerprint.hash(), fingerprint, entry, charge);
        // The paper's equations 4 and 5: cached and recorded bytes make up one total.
        let (lower, whole) = (self.lower_room(list), self.upper_room());
        self.ghosts[list].fit(lower);
        self.ghosts[BOTH].fit(whole);
    }

    /// The bytes that the ghost of KV or KP may record: the capacity of the other component.
    fn lower_room(&self, list: usize) -> usize {
        self.capacity().saturating_sub(self.entries.charged(list))
    }

    /// The bytes that the ghost of the point cache may record.
    fn upper_room(&self) -> usize {
        self.share().saturating_sub(self.charged())
    }

    /// The shard's part of the bytes of all components.
    fn share(&self) -> usize {
        self.boundaries.total() / self.shards
    }

    /// Evicts entries until at most `bytes` are charged; returns the freed bytes.
    fn shrink_to(&mut self, bytes: usize) -> usize {
        let mut freed = 0;
        while self.charged() > bytes {
            let is_over = self.entries.charged(KV) > self.capacities.0;
            let is_kv = is_over || self.entries.len_of(KP) == 0;
            freed += self.evict(if is_kv { KV } else { KP });
        }
        freed
    }

    /// Evicts one entry of `list`; returns its bytes.
    fn evict(&mut self, list: usize) -> usize {
        let oldest = self.entries.oldest_first(list).map(|index| (index, self.efficiency(index)));
        let victim =
            self.efficiencies[list].victim(oldest).expect("every charged entry is in a list");
        let fingerprint = *self.entries.key(victim);
        let entry = self.take(victim);
        self.note(list, fingerprint, &entry);
        entry.charge()
    }

    /// Records an entry evicted from `list`.
    fn note(&mut self, list: usize, fingerprint: Fingerprint, entry: &Entry) {
        let halves = self.benefit.halves(entry);
        let record = Record::new(fingerprint.0, entry.charge(), halves);
        for (ghost, bytes) in [(list, self.lower_room(list)), (BOTH, self.upper_room())] {
            // The memory that the other ghosts do not use.
            let taken = self.measuring_bytes() - self.ghosts[ghost].charged_bytes();
            let ghost = &mut self.ghosts[ghost];
            ghost.set_bytes_max(self.ghost_bytes_max - taken);
            ghost.note(record, bytes);
        }
    }

    /// See [`PointShard::update`](crate::point::shard::PointShard::update).
    pub(crate) fn update(&mut self, hash: u64, name: Name<'_>, new: Option<KvEntry<'_>>) -> bool {
        let Some(index) = self.find(hash, name) else { return false };
        let Some(new) = new else {
            self.take(index);
            return false;
        };
        let list = self.entries.list(index);
        let is_value = list == KV || new.value.len() < POINTER_BYTES;
        if is_value && new.value.len() > self.share() {
            self.take(index);
            return false;
        }
        let body = if is_value { Body::Value } else { Body::Unknown };
        self.replace(index, Entry::new(&new, body));
        !is_value
    }

    /// Replaces the entry by another of the same name.
    fn replace(&mut self, index: u32, entry: Entry) {
        let (list, charge) = (self.entries.list(index), entry.charge());
        if charge > self.capacity() {
            self.take(index);
            return;
        }
        self.efficiencies[list].remove(self.efficiency(index));
        self.efficiencies[list].add(self.benefit.efficiency(&entry));
        self.entries.set_charge(index, charge);
        if let Some(old) = self.entries.entry_mut(index) {
            *old = entry;
        }
        self.wanted_bytes += self.shrink_to(self.capacity());
    }

    /// Points the entry of `hash` that a flush has updated to `to`. If there are two, each may get
    /// the other's location, where the key comparison fails.
    pub(crate) fn redirect(&mut self, hash: u64, to: KpEntry) {
        self.point(hash, |entry| entry.body == Body::Unknown, to);
    }

    /// See [`PointShard::relocate`](crate::point::shard::PointShard::relocate).
    pub(crate) fn relocate(&mut self, hash: u64, from: Pointer, to: KpEntry) -> bool {
        self.point(hash, |entry| entry.pointer() == Some(from), to)
    }

    /// Points the entry of `hash` for which `matches` is true to `to`.
    fn point(&mut self, hash: u64, matches: impl Fn(&Entry) -> bool, to: KpEntry) -> bool {
        let found = self.entries.find_among(self.fingerprint(hash), matches);
        let Some(index) = found else { return false };
        let list = self.entries.list(index);
        self.efficiencies[list].remove(self.efficiency(index));
        if let Some(entry) = self.entries.entry_mut(index) {
            entry.point(to.pointer);
            entry.level = to.level;
        }
        self.efficiencies[list].add(self.efficiency(index));
        true
    }

    /// See [`PointShard::forget`](crate::point::shard::PointShard::forget).
    pub(crate) fn forget(
        &mut self,
        is_named: impl Fn(Name<'_>) -> bool,
        is_in: impl Fn(u64) -> bool,
    ) {
        let goes = |_: &Fingerprint, entry: &Entry| match entry.pointer() {
            Some(pointer) => is_in(pointer.table),
            None => is_named(entry.name()),
        };
        for index in self.entries.find_all(0, usize::MAX, goes) {
            self.take(index);
        }
    }

    /// The pointers into tables that are `is_in`, each with the lower half of its hash.
    pub(crate) fn pointers_into(
        &self,
        is_in: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = (u32, Pointer)> {
        let pointers = self.entries.oldest_first(KP).filter_map(|index| {
            let pointer = self.entries.entry(index)?.pointer()?;
            Some((self.entries.key(index).0, pointer))
        });
        pointers.filter(move |(_, pointer)| is_in(pointer.table))
    }

    /// Changes the targets of KV and KP. Their sum bounds both; entries that no longer fit are
    /// evicted.
    pub(crate) fn set_capacities(&mut self, kv: usize, kp: usize) {
        self.capacities = (kv, kp);
        let before = self.entries.len();
        self.shrink_to(kv + kp);
        // The bookkeeping of an empty shard is not charged.
        self.entries.give_back(before - self.entries.len());
    }

    pub(crate) fn capacities(&self) -> (usize, usize) {
        self.capacities
    }

    fn capacity(&self) -> usize {
        self.capacities.0 + self.capacities.1
    }

    fn charged(&self) -> usize {
        self.entries.charged(KV) + self.entries.charged(KP)
    }

    /// Whether KV, or KP, may have entries at all: where targets never move, only with bytes of its
    /// own.
    fn may_hold(&self, list: usize) -> bool {
        let (kv, kp) = self.capacities;
        !self.boundaries.are_fixed() || if list == KV { kv > 0 } else { kp > 0 }
    }

    fn fingerprint(&self, hash: u64) -> Fingerprint {
        Fingerprint(hash as u32 & self.fingerprint_mask)
    }

    fn find(&self, hash: u64, name: Name<'_>) -> Option<u32> {
        self.entries.find_among(self.fingerprint(hash), |entry| entry.name() == name)
    }

    fn take(&mut self, index: u32) -> Entry {
        self.efficiencies[self.entries.list(index)].remove(self.efficiency(index));
        self.entries.take(index)
    }

    fn efficiency(&self, index: u32) -> f64 {
        self.entries.entry(index).map_or(0.0, |entry| self.benefit.efficiency(entry))
    }
}

/// Smallest bound of a shard's ghosts in bytes.
const GHOST_BYTES_MIN: usize = 4 << 10;

#[cfg(test)]
mod tests;
