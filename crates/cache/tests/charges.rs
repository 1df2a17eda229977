//! Charged bytes equal allocated bytes: caches compared with the allocator's count.

use std::sync::Arc;

use tidekv_cache::KvEntry;
use tidekv_cache::Pointer;
use tidekv_cache::{BlockId, BlockKind, BlockTag, CachePolicy, Caches, Name};
use tidekv_cache::{LookupResult, PointCacheLookup};
use tidekv_testkit::allocation;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

const BUDGET: usize = 8 << 20;
/// The fraction by which the memory may exceed the charges: hash tables grow in steps, and a slot
/// is charged by its average.
const PART_MORE: f64 = 0.02;
/// AC-Key's entries are small, and up to a fifth of its nodes are free.
const PART_MORE_HAC: f64 = 0.06;
/// The caches themselves: locks, counters, empty lists of every shard.
const FIXED_BYTES: usize = 64 << 10;
/// The counts of an `Arc`.
const ARC_BYTES: usize = 16;

/// A block as in the store: shared bytes.
type Block = Arc<[u8]>;

struct Scene {
    caches: Caches<Block>,
    dice: u64,
    empty_bytes: usize,
}

fn hash_of(name: Name<'_>) -> u64 {
    let number = name.key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
    name.hash((number ^ number >> 29).wrapping_mul(0x7FB5_D329_728E_A185).rotate_left(31))
}

impl Scene {
    fn new(policy: CachePolicy) -> Self {
        let empty_bytes = allocation::live();
        Self { caches: Caches::new(hash_of, BUDGET, 4, policy), dice: 1, empty_bytes }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.dice >> 33) % bound
    }

    fn touch(&self, kind: BlockKind, number: u64) -> f32 {
        let id = BlockId { table: kind as u64, offset: number << 12 };
        let tag = BlockTag { keyspace: 0, kind };
        let blocks = self.caches.blocks();
        if blocks.get(id, tag).or_else(|| blocks.get_or_note_read(id, tag)).is_some() {
            return 0.0;
        }
        let block: Block = vec![1; 3000 + (number % 1097) as usize].into();
        let charge = block.len() + ARC_BYTES;
        blocks.insert(id, tag, block, charge);
        self.caches.note_reads(1);
        1.0
    }

    /// Looks up a key; a few are hot. Values have many lengths.
    fn get(&mut self) {
        let number = if self.below(4) == 0 { self.below(200_000) } else { self.below(20_000) };
        let key = number.to_be_bytes();
        let name = Name { keyspace: (number % 300) as u32, key: &key };
        let hash = hash_of(name);
        let point = self.caches.point();
        let epoch = point.epoch(hash);
        let found = point.lookup(hash, name, |_| Some(()));
        if found == PointCacheLookup::Value(()) {
            return;
        }
        let reads =
            self.touch(BlockKind::Data, number / 8) + self.touch(BlockKind::Index, number / 2048);
        if reads == 0.0 {
            return;
        }
        point.record_access(hash);
        let pointer = Pointer { table: 1, offset: number << 9, len: 4096, position: 3 };
        let value = vec![7; (number % 331) as usize];
        let entry = KvEntry { name, stamp: 1, value: &value, level: 2 };
        let (data_reads, by_pointer) = (1.0, found != PointCacheLookup::Miss);
        let pointer = Some(pointer);
        point.resolved(
            hash,
            epoch,
            &LookupResult { entry, pointer, reads, data_reads, by_pointer },
        );
    }

    /// Allocated bytes and charged bytes.
    fn bytes(&self) -> (usize, usize) {
        (allocation::live() - self.empty_bytes, self.caches.charged_bytes())
    }

    fn check(&self, budget: usize, what: &str) {
        let (live, charged) = self.bytes();
        assert!(charged <= budget, "{what}: {charged} bytes of {budget}");
        let is_of_ac_key = self.caches.policy().is_of_ac_key();
        let part = if is_of_ac_key { PART_MORE_HAC } else { PART_MORE };
        let most = charged + (charged as f64 * part) as usize + FIXED_BYTES;
        assert!(live <= most, "{what}: {live} bytes are allocated and {charged} charged");
    }
}

#[test]
fn charged_bytes_match_allocated_bytes() {
    assert!(allocation::is_counting(), "the allocator must count");
    for policy in [
        "adaptive",
        "adaptive-without:admission,controller",
        "fixed:40,30,30",
        "kv-only",
        "kp-only",
        "block-only",
        "block-clock",
        "block-s3-fifo",
        "ac-key",
        "ac-key-fixed:40,30,30",
    ] {
        let mut scene = Scene::new(policy.parse().unwrap());
        for step in 0..60 {
            (0..5_000).for_each(|_| scene.get());
            scene.check(BUDGET, &format!("{policy}, step {step}"));
        }
        let (live, charged) = scene.bytes();
        assert!(charged > BUDGET / 3, "{policy}: {charged} bytes are hardly a test");
        assert!(live > charged - charged / 20, "{policy}: {live} bytes, and {charged} charged");
        for budget in [BUDGET / 3, BUDGET / 20, 0, BUDGET] {
            scene.caches.set_budget(budget);
            scene.check(budget, &format!("{policy}, cut to {budget}"));
            (0..5_000).for_each(|_| scene.get());
            scene.check(budget, &format!("{policy}, used at {budget}"));
        }
    }
}
