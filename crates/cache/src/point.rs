//! One shard of the point cache: what answers point lookups without the tree.
//!
//! ```text
//!              ┌── KV ──► the value            0 I/Os
//!   lookup ────┤
//!              ├── KP ──► the block's place    1 I/O, or 0 if the block is cached
//!              └── neither: the tree           as many as it takes
//! ```
//!
//! After a lookup that did not end in KV, [`PointShard::resolved`] decides what is kept
//! of what it found, by what the entry is worth: how often its key was asked for lately,
//! times the I/Os that a hit saves, per byte. The I/Os are measured: a moving average
//! of those that lookups ending on that level really did (AC-Key, section 4.2, takes
//! them from a formula). What is refused is noted in the ghosts, as is what leaves:
//! otherwise a component without bytes could never show that it wants some.
//!
//! For one thread at a time; pure.

use crate::ghost::{Ghost, spread};
use crate::kp::{self, KpEntry, KpShard, Pointer};
use crate::kv::{self, KvEntry, KvShard};
use crate::sketch::Sketch;

/// Levels that are told apart.
pub const LEVELS: usize = kv::LEVEL_MAX as usize + 1;

/// A refusal lowers the price of KV entries by one part in so many, so that a price
/// from another time does not stay: entries leave only when others come.
const PRICE_DECAY: f32 = 1.0 / 512.0;

/// How a lookup ended that KV could not answer.
#[derive(Debug, Clone, Copy)]
pub struct Resolved<'a> {
    /// The entry, its level included.
    pub entry: KvEntry<'a>,
    /// Where it stands.
    pub pointer: Option<Pointer>,
    /// Storage I/Os that the lookup did, each by how much of it was for this lookup
    /// alone.
    pub reads: f32,
    /// Of these, that of the data block.
    pub data_reads: f32,
    /// Whether KP knew the place.
    pub by_pointer: bool,
}

/// What the ghosts say of a lookup.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Missed {
    /// I/Os that a larger KV component would have saved.
    pub kv_reads: f32,
    /// I/Os that a larger KP component would have saved.
    pub kp_reads: f32,
}

/// What KV and KP hold of one part of the hashes.
#[derive(Debug)]
pub struct PointShard {
    kv: KvShard,
    kp: KpShard,
    kv_ghost: Ghost,
    kp_ghost: Ghost,
    /// By level: I/Os of a lookup that ends there, on average.
    reads: [f32; LEVELS],
    /// Below this worth, entries do not come into KV.
    kv_price: f32,
}

struct KvJudge<'a, H> {
    hash_of: H,
    sketch: &'a Sketch,
    reads: &'a [f32; LEVELS],
    ghost: &'a mut Ghost,
}

impl<H: Fn(&[u8]) -> u64> kv::Judge for KvJudge<'_, H> {
    fn hash(&self, name: &[u8]) -> u64 {
        (self.hash_of)(name)
    }

    fn worth(&mut self, hash: u64, entry: &KvEntry<'_>, asked: u8) -> f32 {
        let times = times(self.sketch, hash as u32, asked);
        times * self.reads[usize::from(entry.level)] / entry.charge() as f32
    }

    fn left(&mut self, hash: u64, _: usize) {
        self.ghost.note(hash as u32, self.sketch);
    }
}

struct KpJudge<'a> {
    sketch: &'a Sketch,
    reads: &'a [f32; LEVELS],
    ghost: &'a mut Ghost,
}

impl kp::Judge for KpJudge<'_> {
    fn worth(&mut self, hash: u32, entry: &KpEntry, asked: u8) -> f32 {
        let saved = (self.reads[usize::from(entry.level)] - 1.0).max(0.0);
        times(self.sketch, hash, asked) * saved
    }

    fn left(&mut self, hash: u32) {
        self.ghost.note(hash, self.sketch);
    }
}

/// How often a key will be asked for, in no unit.
fn times(sketch: &Sketch, hash: u32, asked: u8) -> f32 {
    f32::from(sketch.estimate(spread(hash))) + 0.25 * f32::from(asked)
}

/// How fast averages of I/Os follow: a new lookup counts for so much.
const READS_GAIN: f32 = 1.0 / 256.0;

/// What a lookup found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found<R> {
    /// The entry.
    Value(R),
    /// Where it stands, if that is the key at all.
    Pointer(KpEntry),
    /// Nothing.
    Nothing,
}

impl PointShard {
    /// A shard without bytes, whose ghosts are made for `window_bytes`, of every
    /// `sampling`-th key.
    pub fn new(window_bytes: usize, sampling: u32) -> Self {
        Self {
            kv: KvShard::new(0),
            kp: KpShard::new(0),
            kv_ghost: Ghost::new(window_bytes / 120, sampling),
            kp_ghost: Ghost::new(window_bytes / kp::ENTRY_BYTES, 4 * sampling),
            reads: [1.0; LEVELS],
            kv_price: 0.0,
        }
    }

    /// The bytes of KV and KP.
    pub fn charged_bytes(&self) -> (usize, usize) {
        (self.kv.charged_bytes(), self.kp.charged_bytes())
    }

    /// The bytes of the ghosts.
    pub fn ghost_bytes(&self) -> usize {
        self.kv_ghost.charged_bytes() + self.kp_ghost.charged_bytes()
    }

    /// Entries of KV and KP.
    pub fn len(&self) -> (usize, usize) {
        (self.kv.len(), self.kp.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// I/Os of a lookup that ends on `level`, on average.
    pub fn reads(&self, level: u8) -> f32 {
        self.reads[usize::from(level.min(kv::LEVEL_MAX))]
    }

    /// What is known of the key of `name`; `read` makes of an entry what is wanted.
    pub fn lookup<R>(
        &mut self,
        hash: u64,
        name: &[u8],
        read: impl FnOnce(KvEntry<'_>) -> R,
    ) -> Found<R> {
        if let Some(entry) = self.kv.get(hash, name) {
            return Found::Value(read(entry));
        }
        self.kp.get(hash as u32).map_or(Found::Nothing, Found::Pointer)
    }

    /// Decides what is kept of what a lookup found; what more bytes would have saved.
    pub fn resolved(
        &mut self,
        hash: u64,
        resolved: &Resolved<'_>,
        sketch: &Sketch,
        hash_of: impl Fn(&[u8]) -> u64,
    ) -> Missed {
        let reads = resolved.reads;
        let level = usize::from(resolved.entry.level);
        let mut missed = Missed::default();
        if self.kv_ghost.take(hash as u32) {
            missed.kv_reads = reads * self.kv_ghost.sampling() as f32;
        }
        if !resolved.by_pointer {
            if self.kp_ghost.take(hash as u32) {
                missed.kp_reads =
                    (reads - resolved.data_reads).max(0.0) * self.kp_ghost.sampling() as f32;
            }
            self.reads[level] += (reads - self.reads[level]) * READS_GAIN;
        }
        let mut judge = KvJudge { hash_of, sketch, reads: &self.reads, ghost: &mut self.kv_ghost };
        let worth = kv::Judge::worth(&mut judge, hash, &resolved.entry, 0);
        if worth >= self.kv_price {
            let price = self.kv.price();
            self.kv.insert(hash, resolved.entry, &mut judge);
            if self.kv.price() != price {
                self.kv_price = self.kv.price();
            }
        } else {
            self.kv_price *= 1.0 - PRICE_DECAY;
        }
        if !self.kv.contains(hash, resolved.entry.name) {
            self.kv_ghost.note(hash as u32, sketch);
        }
        if let (Some(pointer), false) = (resolved.pointer, resolved.by_pointer) {
            let entry = KpEntry { pointer, level: resolved.entry.level };
            let mut judge = KpJudge { sketch, reads: &self.reads, ghost: &mut self.kp_ghost };
            self.kp.insert(hash as u32, entry, &mut judge);
        }
        missed
    }

    /// Changes the bounds of KV and KP; what does not fit any more leaves.
    pub fn set_capacities(
        &mut self,
        kv: usize,
        kp: usize,
        sketch: &Sketch,
        hash_of: impl Fn(&[u8]) -> u64,
    ) {
        let mut judge = KvJudge { hash_of, sketch, reads: &self.reads, ghost: &mut self.kv_ghost };
        if kv > self.kv.capacity() {
            self.kv_price = 0.0;
        }
        self.kv.set_capacity(kv, &mut judge);
        let mut judge = KpJudge { sketch, reads: &self.reads, ghost: &mut self.kp_ghost };
        self.kp.set_capacity(kp, &mut judge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(name: &[u8]) -> u64 {
        let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        name.iter().fold(0xCBF2_9CE4_8422_2325, fold).wrapping_mul(0x7FB5_D329_728E_A185)
    }

    /// Looks `name` up as a store would whose lookups take `reads` I/Os.
    fn get(
        shard: &mut PointShard,
        sketch: &Sketch,
        name: &[u8],
        reads: f32,
    ) -> (Found<()>, Missed) {
        let hash = hash_of(name);
        sketch.add(spread(hash as u32));
        let found = shard.lookup(hash, name, |_| ());
        if found == Found::Value(()) {
            return (found, Missed::default());
        }
        let by_pointer = found != Found::Nothing;
        let pointer = Pointer { table: 1, offset: u64::from(name[0]) << 12, len: 4096 };
        let entry = KvEntry { name, stamp: 7, value: &[1; 100], level: 4 };
        let reads = if by_pointer { 1.0 } else { reads };
        let resolved =
            Resolved { entry, pointer: Some(pointer), reads, data_reads: 1.0, by_pointer };
        (found, shard.resolved(hash, &resolved, sketch, hash_of))
    }

    #[test]
    fn components_without_bytes_show_in_their_ghosts_that_they_want_some() {
        let sketch = Sketch::new(64 << 10);
        let mut shard = PointShard::new(64 << 10, 1);
        let first = get(&mut shard, &sketch, b"key", 4.0);
        assert_eq!(first, (Found::Nothing, Missed::default()));
        // Ghosts of KP know a part of the keys only; each hit stands for as many.
        let missed: Vec<Missed> = (0..100u8)
            .flat_map(|n| {
                [get(&mut shard, &sketch, &[n, 1], 4.0), get(&mut shard, &sketch, &[n, 1], 4.0)]
            })
            .map(|(_, missed)| missed)
            .collect();
        let kv: f32 = missed.iter().map(|missed| missed.kv_reads).sum();
        let kp: f32 = missed.iter().map(|missed| missed.kp_reads).sum();
        assert!((360.0..=400.0).contains(&kv), "{kv} of 400");
        assert!((100.0..=600.0).contains(&kp), "{kp} of about 300");
        assert!(shard.is_empty());
    }

    #[test]
    fn what_was_read_is_kept_and_answers() {
        let sketch = Sketch::new(64 << 10);
        let mut shard = PointShard::new(64 << 10, 1);
        shard.set_capacities(64 << 10, 0, &sketch, hash_of);
        get(&mut shard, &sketch, b"key", 4.0);
        assert_eq!(get(&mut shard, &sketch, b"key", 4.0).0, Found::Value(()));
        // Without room for values, the place is known.
        shard.set_capacities(0, 64 << 10, &sketch, hash_of);
        (0..2000).for_each(|_| {
            get(&mut shard, &sketch, b"key", 4.0);
        });
        let Found::Pointer(entry) = get(&mut shard, &sketch, b"key", 4.0).0 else {
            panic!("the place is not known")
        };
        assert_eq!(entry.pointer.offset, u64::from(b'k') << 12);
    }

    #[test]
    fn a_level_has_the_reads_that_its_lookups_did() {
        let sketch = Sketch::new(4 << 10);
        let mut shard = PointShard::new(0, 1);
        for n in 0..5_000u32 {
            get(&mut shard, &sketch, &n.to_be_bytes(), 3.0);
        }
        assert!((shard.reads(4) - 3.0).abs() < 0.01, "{}", shard.reads(4));
        assert_eq!(shard.reads(2), 1.0);
    }
}
