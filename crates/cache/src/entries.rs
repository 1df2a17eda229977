//! The entries of one shard of the point cache, in one of its two formats: compact, with
//! what comes in judged by its worth ([`crate::point`]), or as AC-Key keeps them
//! ([`crate::hac`]). All that the rest of the point cache asks for passes here, so its
//! rules hold for both. Methods are those of [`PointShard`].
//!
//! For one thread at a time.

use crate::ghost::Wanted;
use crate::hac::HacShard;
use crate::ideas::Ideas;
use crate::kp::{KpEntry, Pointer};
use crate::kv::KvEntry;
use crate::name::Name;
use crate::point::{Found, LEVELS, PointReads, PointShard, Resolved};

/// Entries of a shard.
#[allow(clippy::large_enum_variant, reason = "one for each shard, and the large one is usual")]
#[derive(Debug)]
pub(crate) enum Entries {
    Compact(PointShard),
    Hac(Box<HacShard>),
}

/// Calls a method that both have.
macro_rules! of_either {
    ($entries:expr, $shard:ident => $call:expr) => {
        match $entries {
            Entries::Compact($shard) => $call,
            Entries::Hac($shard) => $call,
        }
    };
}

impl Entries {
    #[inline]
    pub(crate) fn lookup<R>(
        &mut self,
        hash: u64,
        name: Name<'_>,
        read: impl FnOnce(KvEntry<'_>) -> Option<R>,
    ) -> Found<R> {
        of_either!(self, shard => shard.lookup(hash, name, read))
    }

    /// AC-Key does not count.
    #[inline]
    pub(crate) fn asked(&self, hash: u64) {
        if let Self::Compact(shard) = self {
            shard.asked(hash);
        }
    }

    pub(crate) fn resolved(&mut self, hash: u64, resolved: &Resolved<'_>) {
        of_either!(self, shard => shard.resolved(hash, resolved));
    }

    /// AC-Key keeps whatever is looked up, and is not asked.
    pub(crate) fn found_in_memory(&mut self, hash: u64, entry: KvEntry<'_>) -> u32 {
        match self {
            Self::Compact(shard) => shard.found_in_memory(hash, entry),
            Self::Hac(_) => 0,
        }
    }

    pub(crate) fn saved(&self) -> PointReads {
        of_either!(self, shard => shard.saved())
    }

    /// AC-Key's ghosts say where boundaries go, not what bytes would save.
    pub(crate) fn wanted(&self) -> PointReads<Wanted> {
        match self {
            Self::Compact(shard) => shard.wanted(),
            Self::Hac(_) => PointReads::default(),
        }
    }

    pub(crate) fn sync(&mut self, hash: u64, name: Name<'_>, entry: Option<KvEntry<'_>>) -> bool {
        of_either!(self, shard => shard.sync(hash, name, entry))
    }

    pub(crate) fn redirect(&mut self, hash: u64, to: KpEntry) {
        of_either!(self, shard => shard.redirect(hash, to));
    }

    pub(crate) fn follow(&mut self, hash: u64, from: Pointer, to: KpEntry) -> bool {
        of_either!(self, shard => shard.follow(hash, from, to))
    }

    pub(crate) fn forget(
        &mut self,
        is_named: impl Fn(Name<'_>) -> bool,
        is_in: impl Fn(u64) -> bool,
    ) {
        of_either!(self, shard => shard.forget(is_named, is_in));
    }

    pub(crate) fn pointers_into<'a>(
        &'a self,
        is_in: impl Fn(u64) -> bool + 'a,
    ) -> Box<dyn Iterator<Item = (u32, Pointer)> + 'a> {
        of_either!(self, shard => Box::new(shard.pointers_into(is_in)))
    }

    /// AC-Key remembers nothing from one life to the next.
    pub(crate) fn look_at_values(&self, see: impl FnMut(KvEntry<'_>, u8)) {
        if let Self::Compact(shard) = self {
            shard.look_at_values(see);
        }
    }

    pub(crate) fn look_at_pointers(&self, mut see: impl FnMut(u32, KpEntry, u8)) {
        if let Self::Compact(shard) = self {
            shard.pointers().for_each(|(hash, entry, times)| see(hash, entry, times));
        }
    }

    pub(crate) fn remember(&self, hash: u64, times: u8) {
        if let Self::Compact(shard) = self {
            shard.remember(hash, times);
        }
    }

    pub(crate) fn restore_value(&mut self, hash: u64, entry: KvEntry<'_>) -> bool {
        match self {
            Self::Compact(shard) => shard.restore_value(hash, entry),
            Self::Hac(_) => false,
        }
    }

    pub(crate) fn restore_pointer(&mut self, hash: u64, entry: KpEntry) {
        if let Self::Compact(shard) = self {
            shard.restore_pointer(hash, entry);
        }
    }

    pub(crate) fn set_without(&mut self, without: Ideas, reads: [f32; LEVELS]) {
        if let Self::Compact(shard) = self {
            shard.set_without(without, reads);
        }
    }

    pub(crate) fn measure(&mut self, sketch_bytes: usize, window_bytes: usize, sampling: u32) {
        if let Self::Compact(shard) = self {
            shard.measure(sketch_bytes, window_bytes, sampling);
        }
    }

    pub(crate) fn set_capacities(&mut self, kv: usize, kp: usize) {
        of_either!(self, shard => shard.set_capacities(kv, kp));
    }

    pub(crate) fn capacities(&self) -> (usize, usize) {
        of_either!(self, shard => shard.capacities())
    }

    pub(crate) fn have_room(&self) -> (bool, bool) {
        match self {
            Self::Compact(shard) => shard.have_room(),
            Self::Hac(shard) => {
                let (charged, capacities) = (shard.charged_bytes(), shard.capacities());
                (charged.0 < capacities.0, charged.1 < capacities.1)
            }
        }
    }

    pub(crate) fn charged_bytes(&self) -> (usize, usize) {
        of_either!(self, shard => shard.charged_bytes())
    }

    pub(crate) fn len(&self) -> (usize, usize) {
        of_either!(self, shard => shard.len())
    }

    pub(crate) fn measuring_bytes(&self) -> usize {
        of_either!(self, shard => shard.measuring_bytes())
    }

    pub(crate) fn set_fingerprint_bits(&mut self, bits: u32) {
        of_either!(self, shard => shard.set_fingerprint_bits(bits));
    }

    /// As AC-Key's shard, if it is one.
    pub(crate) fn as_hac(&mut self) -> Option<&mut HacShard> {
        match self {
            Self::Compact(_) => None,
            Self::Hac(shard) => Some(shard),
        }
    }
}
