//! AC-Key's shard in place of the crate's own entries: implements the trait of the point cache by
//! the methods of [`AcKeyShard`].

use crate::ac_key::shard::AcKeyShard;
use crate::name::Name;
use crate::point::entries::PointEntries;
use crate::point::kp::{KpEntry, Pointer};
use crate::point::kv::KvEntry;
use crate::point::shard::{LookupResult, PointCacheLookup, PointReads};

impl PointEntries for AcKeyShard {
    fn lookup(
        &mut self,
        hash: u64,
        name: Name<'_>,
        read: &mut dyn FnMut(KvEntry<'_>) -> bool,
    ) -> PointCacheLookup<()> {
        AcKeyShard::lookup(self, hash, name, |entry| read(entry).then_some(()))
    }

    fn resolved(&mut self, hash: u64, resolved: &LookupResult<'_>) {
        AcKeyShard::resolved(self, hash, resolved);
    }

    fn update(&mut self, hash: u64, name: Name<'_>, entry: Option<KvEntry<'_>>) -> bool {
        AcKeyShard::update(self, hash, name, entry)
    }

    fn redirect(&mut self, hash: u64, to: KpEntry) {
        AcKeyShard::redirect(self, hash, to);
    }

    fn relocate(&mut self, hash: u64, from: Pointer, to: KpEntry) -> bool {
        AcKeyShard::relocate(self, hash, from, to)
    }

    fn forget(&mut self, is_named: &dyn Fn(Name<'_>) -> bool, is_in: &dyn Fn(u64) -> bool) {
        AcKeyShard::forget(self, is_named, is_in);
    }

    fn pointers_into<'a>(
        &'a self,
        is_in: &'a dyn Fn(u64) -> bool,
    ) -> Box<dyn Iterator<Item = (u32, Pointer)> + 'a> {
        Box::new(AcKeyShard::pointers_into(self, is_in))
    }

    fn saved(&self) -> PointReads {
        AcKeyShard::saved(self)
    }

    fn set_capacities(&mut self, kv: usize, kp: usize) {
        AcKeyShard::set_capacities(self, kv, kp);
    }

    fn capacities(&self) -> (usize, usize) {
        AcKeyShard::capacities(self)
    }

    fn charged_bytes(&self) -> (usize, usize) {
        AcKeyShard::charged_bytes(self)
    }

    fn len(&self) -> (usize, usize) {
        AcKeyShard::len(self)
    }

    fn measuring_bytes(&self) -> usize {
        AcKeyShard::measuring_bytes(self)
    }

    fn set_fingerprint_bits(&mut self, bits: u32) {
        AcKeyShard::set_fingerprint_bits(self, bits);
    }

    fn set_ghost_bytes(&mut self, bytes: usize) {
        AcKeyShard::set_ghost_bytes(self, bytes);
    }

    fn ghost_bytes_wanted(&self) -> usize {
        AcKeyShard::ghost_bytes_wanted(self)
    }

    fn take_wanted_bytes(&mut self) -> usize {
        AcKeyShard::take_wanted_bytes(self)
    }
}
