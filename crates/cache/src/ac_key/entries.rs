//! AC-Key's shard in the place of the product's own entries: the trait of the point cache,
//! by the methods of [`HacShard`].

use crate::ac_key::shard::HacShard;
use crate::name::Name;
use crate::point::entries::PointEntries;
use crate::point::kp::{KpEntry, Pointer};
use crate::point::kv::KvEntry;
use crate::point::shard::{LookupResult, PointCacheLookup, PointReads};

impl PointEntries for HacShard {
    fn lookup(
        &mut self,
        hash: u64,
        name: Name<'_>,
        read: &mut dyn FnMut(KvEntry<'_>) -> bool,
    ) -> PointCacheLookup<()> {
        HacShard::lookup(self, hash, name, |entry| read(entry).then_some(()))
    }

    fn resolved(&mut self, hash: u64, resolved: &LookupResult<'_>) {
        HacShard::resolved(self, hash, resolved);
    }

    fn sync(&mut self, hash: u64, name: Name<'_>, entry: Option<KvEntry<'_>>) -> bool {
        HacShard::sync(self, hash, name, entry)
    }

    fn redirect(&mut self, hash: u64, to: KpEntry) {
        HacShard::redirect(self, hash, to);
    }

    fn follow(&mut self, hash: u64, from: Pointer, to: KpEntry) -> bool {
        HacShard::follow(self, hash, from, to)
    }

    fn forget(&mut self, is_named: &dyn Fn(Name<'_>) -> bool, is_in: &dyn Fn(u64) -> bool) {
        HacShard::forget(self, is_named, is_in);
    }

    fn pointers_into<'a>(
        &'a self,
        is_in: &'a dyn Fn(u64) -> bool,
    ) -> Box<dyn Iterator<Item = (u32, Pointer)> + 'a> {
        Box::new(HacShard::pointers_into(self, is_in))
    }

    fn saved(&self) -> PointReads {
        HacShard::saved(self)
    }

    fn set_capacities(&mut self, kv: usize, kp: usize) {
        HacShard::set_capacities(self, kv, kp);
    }

    fn capacities(&self) -> (usize, usize) {
        HacShard::capacities(self)
    }

    fn charged_bytes(&self) -> (usize, usize) {
        HacShard::charged_bytes(self)
    }

    fn len(&self) -> (usize, usize) {
        HacShard::len(self)
    }

    fn measuring_bytes(&self) -> usize {
        HacShard::measuring_bytes(self)
    }

    fn set_fingerprint_bits(&mut self, bits: u32) {
        HacShard::set_fingerprint_bits(self, bits);
    }

    fn set_ghost_bytes(&mut self, bytes: usize) {
        HacShard::set_ghost_bytes(self, bytes);
    }

    fn ghost_bytes_wanted(&self) -> usize {
        HacShard::ghost_bytes_wanted(self)
    }

    fn take_wanted_bytes(&mut self) -> usize {
        HacShard::take_wanted_bytes(self)
    }
}
