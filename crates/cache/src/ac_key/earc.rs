//! E-ARC: the targets of AC-Key's boundaries (AC-Key, Wu et al., "AC-Key: Adaptive Caching for
//! LSM-based Key-Value Stores", USENIX ATC 2020, section 4.3).
//!
//! ```text
//!   ├── KV ──┼── KP ──┼────────── blocks ──────────┤
//!            lower    upper boundary
//! ```
//!
//! 1. An entry evicted from KV or KP is recorded in the ghost of that component, and in the ghost
//!    of the point cache; a block in that of blocks. Real and recorded bytes of a component make up
//!    the total that it shares: for KV and KP the point cache, for the others all.
//! 2. A lookup that hits such a ghost moves the lower boundary by `k * E` in favour of KV or KP;
//!    `E` is the efficiency of the recorded entry ([`crate::eviction::elru`]).
//! 3. Then a lookup that hits the ghost of the point cache moves the upper boundary by `k * E` in
//!    its favour, and a block that hits the ghost of blocks moves it back. KV and KP share the gain
//!    or loss of the point cache in proportion to their targets.
//! 4. These are targets. Components follow at the next insert ([`crate::ac_key::shard`],
//!    [`crate::caches`]).
//!
//! **What the paper leaves open.** Both targets of the point cache may be 0 (its figure 12): then
//! KV and KP begin with a half each. When the shared total changes, because a ghost takes memory or
//! releases it, targets keep their proportions.
//!
//! Thread-safe; its lock is a leaf.

use crate::block::id::TYPICAL_BLOCK_BYTES;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Targets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Targets {
    /// Key-value entries.
    pub kv: f64,
    /// Key-pointer entries.
    pub kp: f64,
    /// Blocks.
    pub block: f64,
}

impl Targets {
    /// A ghost hit of KV: its target grows at the cost of KP's.
    fn kv_hit(&mut self, step: f64) {
        let point = self.kv + self.kp;
        self.kv = (self.kv + step).min(point);
        self.kp = point - self.kv;
    }

    /// A ghost hit of KP.
    fn kp_hit(&mut self, step: f64) {
        let point = self.kv + self.kp;
        self.kp = (self.kp + step).min(point);
        self.kv = point - self.kp;
    }

    /// Moves `step` bytes from the blocks to the point cache, or back if it is negative.
    fn move_point(&mut self, step: f64) {
        let point = self.kv + self.kp;
        let step = step.clamp(-point, self.block);
        let kv_part = self.kv_part();
        self.block -= step;
        self.kv = ((point + step) * kv_part).max(0.0);
        self.kp = (point + step - self.kv).max(0.0);
    }

    /// The next boundaries after `split`, with `wanted` bytes needed by new entries of the point
    /// cache and by blocks: towards the targets, and for blocks at least a whole one.
    pub(crate) fn follow(self, split: [usize; 3], wanted: (usize, usize)) -> [usize; 3] {
        let [kv, kp, mut block] = split;
        let mut point = kv + kp;
        let is_apart = |from: usize, to: f64| to - from as f64 >= TYPICAL_BLOCK_BYTES as f64;
        if is_apart(block, self.block) {
            let bytes = wanted.1.min(self.block as usize - block).min(point);
            (point, block) = (point - bytes, block + bytes);
        } else if is_apart(point, self.kv + self.kp) {
            let blocks = wanted.0.next_multiple_of(TYPICAL_BLOCK_BYTES);
            let bytes = blocks.min((self.kv + self.kp) as usize - point).min(block);
            (point, block) = (point + bytes, block - bytes);
        }
        let kv = ((point as f64 * self.kv_part()) as usize).min(point);
        [kv, point - kv, block]
    }

    /// KV's fraction of the point cache.
    fn kv_part(self) -> f64 {
        let point = self.kv + self.kp;
        if point > 0.0 { self.kv / point } else { 0.5 }
    }

    /// The same proportions of `total` bytes.
    fn scaled_to(self, total: usize) -> Self {
        let before = self.kv + self.kp + self.block;
        let total = total as f64;
        if before <= 0.0 {
            return Self { block: total, ..Self::default() };
        }
        let kv = self.kv / before * total;
        let kp = self.kp / before * total;
        Self { kv, kp, block: (total - kv - kp).max(0.0) }
    }
}

/// The ghost, KV's or KP's, that a lookup hit, with the efficiency of the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Lower {
    Kv(f64),
    Kp(f64),
}

/// The targets, shared by all shards.
#[derive(Debug)]
pub struct Boundaries {
    /// The learning rate; none for targets that never move.
    k: Option<f64>,
    targets: Mutex<Targets>,
    /// The sum of the targets.
    total: AtomicUsize,
}

impl Boundaries {
    /// Targets that begin at `split`, with the learning rate `k`.
    pub fn new(k: u32, split: [usize; 3]) -> Self {
        Self::with(Some(f64::from(k)), split)
    }

    /// Targets fixed at `split`.
    pub fn fixed(split: [usize; 3]) -> Self {
        Self::with(None, split)
    }

    fn with(k: Option<f64>, split: [usize; 3]) -> Self {
        let [kv, kp, block] = split.map(|bytes| bytes as f64);
        Self {
            k,
            targets: Mutex::new(Targets { kv, kp, block }),
            total: AtomicUsize::new(split.iter().sum()),
        }
    }

    /// The current targets.
    pub fn targets(&self) -> Targets {
        *self.targets.lock()
    }

    /// Whether the targets never move.
    pub(crate) fn are_fixed(&self) -> bool {
        self.k.is_none()
    }

    /// The sum of the targets in bytes.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Changes the sum of the targets.
    pub fn set_total(&self, bytes: usize) {
        if bytes == self.total() {
            return;
        }
        let mut targets = self.targets.lock();
        *targets = targets.scaled_to(bytes);
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// A lookup of a key hit ghosts: moves first the lower boundary, then the upper one, by the
    /// efficiencies of the records.
    pub(crate) fn point_hit(&self, lower: Option<Lower>, upper: Option<f64>) {
        let Some(k) = self.k else { return };
        let mut targets = self.targets.lock();
        match lower {
            Some(Lower::Kv(efficiency)) => targets.kv_hit(k * efficiency),
            Some(Lower::Kp(efficiency)) => targets.kp_hit(k * efficiency),
            None => {}
        }
        if let Some(efficiency) = upper {
            targets.move_point(k * efficiency);
        }
    }

    /// A block hit its ghost.
    pub(crate) fn block_hit(&self, efficiency: f64) {
        if let Some(k) = self.k {
            self.targets.lock().move_point(-k * efficiency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: Targets, b: [f64; 3]) -> bool {
        [a.kv - b[0], a.kp - b[1], a.block - b[2]].iter().all(|d| d.abs() < 1e-6)
    }

    #[test]
    fn the_lower_boundary_moves_by_k_times_e() {
        let boundaries = Boundaries::new(100_000, [40_000, 60_000, 300_000]);
        // A value of a key on level 4 below two tables of level 0: 8 I/Os, 116 bytes.
        boundaries.point_hit(Some(Lower::Kv(8.0 / 116.0)), None);
        let step = 100_000.0 * 8.0 / 116.0;
        assert!(near(boundaries.targets(), [40_000.0 + step, 60_000.0 - step, 300_000.0]));
        boundaries.point_hit(Some(Lower::Kp(7.0 / 40.0)), None);
        let back = step - 17_500.0;
        assert!(near(boundaries.targets(), [40_000.0 + back, 60_000.0 - back, 300_000.0]));
        // Neither gets more than the point cache has.
        (0..99).for_each(|_| boundaries.point_hit(Some(Lower::Kp(0.5)), None));
        assert!(near(boundaries.targets(), [0.0, 100_000.0, 300_000.0]));
        (0..99).for_each(|_| boundaries.point_hit(Some(Lower::Kv(0.5)), None));
        assert!(near(boundaries.targets(), [100_000.0, 0.0, 300_000.0]));
    }

    #[test]
    fn the_upper_boundary_moves_by_k_times_e_and_the_lower_ones_share_it() {
        let boundaries = Boundaries::new(100_000, [30_000, 10_000, 60_000]);
        boundaries.block_hit(1.0 / 4096.0);
        let step = 100_000.0 / 4096.0;
        let expected = [30_000.0 - 0.75 * step, 10_000.0 - 0.25 * step, 60_000.0 + step];
        assert!(near(boundaries.targets(), expected));
        let boundaries = Boundaries::new(1000, [30_000, 10_000, 60_000]);
        boundaries.point_hit(None, Some(0.1));
        assert!(near(boundaries.targets(), [30_075.0, 10_025.0, 59_900.0]));
        (0..999).for_each(|_| boundaries.point_hit(None, Some(1.0)));
        assert!(near(boundaries.targets(), [75_000.0, 25_000.0, 0.0]));
        (0..999).for_each(|_| boundaries.block_hit(1.0));
        assert!(near(boundaries.targets(), [0.0, 0.0, 100_000.0]));
        // From zero both begin with equal shares.
        boundaries.point_hit(None, Some(2.0));
        assert!(near(boundaries.targets(), [1000.0, 1000.0, 98_000.0]));
    }

    #[test]
    fn the_lower_boundary_moves_before_the_upper_one() {
        let boundaries = Boundaries::new(1000, [10_000, 10_000, 80_000]);
        boundaries.point_hit(Some(Lower::Kv(5.0)), Some(4.0));
        assert!(near(boundaries.targets(), [18_000.0, 6_000.0, 76_000.0]));
    }

    #[test]
    fn boundaries_follow_by_the_bytes_that_new_entries_need() {
        let targets = Targets { kv: 30_000.0, kp: 10_000.0, block: 60_000.0 };
        // No new entries: only KV and KP, which share bytes, follow their targets.
        assert_eq!(targets.follow([8_000, 12_000, 80_000], (0, 0)), [15_000, 5_000, 80_000]);
        let grown = targets.follow([15_000, 5_000, 80_000], (100, 0));
        assert_eq!(grown, [18_072, 6_024, 75_904], "a block makes room for entries");
        assert_eq!(targets.follow(grown, (90_000, 0)), [30_000, 10_000, 60_000]);
        let blocks = targets.follow([60_000, 20_000, 20_000], (500, 5_000));
        assert_eq!(blocks, [56_250, 18_750, 25_000]);
        assert_eq!(targets.follow(blocks, (0, 90_000)), [30_000, 10_000, 60_000]);
        // Less than a block does not move the boundary.
        let near = [27_000, 9_000, 64_000];
        assert_eq!(targets.follow(near, (500, 5_000)), near);
        let near = [33_000, 11_000, 56_000];
        assert_eq!(targets.follow(near, (500, 5_000)), near);
    }

    #[test]
    fn proportions_stay_when_the_total_changes() {
        let boundaries = Boundaries::new(1000, [10, 30, 60]);
        boundaries.set_total(1000);
        assert!(near(boundaries.targets(), [100.0, 300.0, 600.0]));
        boundaries.set_total(0);
        boundaries.set_total(50);
        assert!(near(boundaries.targets(), [0.0, 0.0, 50.0]));
        assert_eq!(boundaries.total(), 50);
    }
}
