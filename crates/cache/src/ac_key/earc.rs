//! E-ARC: where AC-Key's boundaries are to be (AC-Key, Wu et al., "AC-Key: Adaptive
//! Caching for LSM-based Key-Value Stores", USENIX ATC 2020, section 4.3).
//!
//! ```text
//!   ├── KV ──┼── KP ──┼────────── blocks ──────────┤
//!            lower    upper boundary
//! ```
//!
//! 1. Who leaves KV or KP is noted in the ghost of that component, and in the one of the
//!    point cache; a block in that of blocks. Real and noted bytes of a component make
//!    the whole that it shares: of KV and KP the point cache, of the others all.
//! 2. A lookup that its ghost knows moves the lower boundary by `k * E` in favour of KV or
//!    KP; `E` is the efficiency of what was noted ([`crate::eviction::elru`]).
//! 3. Then one that the ghost of the point cache knows moves the upper boundary by `k * E`
//!    in its favour, and a block that the ghost of blocks knows moves it back. What the
//!    point cache wins or loses, KV and KP share as their targets are to each other.
//! 4. These are targets. Components follow when something comes in ([`crate::ac_key::shard`],
//!    [`crate::caches`]).
//!
//! **What the paper leaves open.** Both targets of the point cache may be 0 (its figure 12):
//! then KV and KP begin with a half each. When the bytes that all share change, because a
//! ghost takes memory or gives it back, targets keep their parts.
//!
//! Safe to use from all threads; its lock is a leaf.

use crate::block::id::BLOCK_BYTES_USUAL;
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
    /// A larger KV would have held an entry: its target grows at the cost of KP's.
    fn kv_hit(&mut self, step: f64) {
        let point = self.kv + self.kp;
        self.kv = (self.kv + step).min(point);
        self.kp = point - self.kv;
    }

    /// A larger KP would have.
    fn kp_hit(&mut self, step: f64) {
        let point = self.kv + self.kp;
        self.kp = (self.kp + step).min(point);
        self.kv = point - self.kp;
    }

    /// The point cache gets `step` bytes of the blocks, or gives them if it is negative.
    fn move_point(&mut self, step: f64) {
        let point = self.kv + self.kp;
        let step = step.clamp(-point, self.block);
        let kv_part = self.kv_part();
        self.block -= step;
        self.kv = ((point + step) * kv_part).max(0.0);
        self.kp = (point + step - self.kv).max(0.0);
    }

    /// Where the boundaries go from `split`, with so many bytes wanted by newcomers of the
    /// point cache and by blocks: towards the targets, and for blocks a whole one at least.
    pub(crate) fn follow(self, split: [usize; 3], wanted: (usize, usize)) -> [usize; 3] {
        let [kv, kp, mut block] = split;
        let mut point = kv + kp;
        let is_apart = |from: usize, to: f64| to - from as f64 >= BLOCK_BYTES_USUAL as f64;
        if is_apart(block, self.block) {
            let bytes = wanted.1.min(self.block as usize - block).min(point);
            (point, block) = (point - bytes, block + bytes);
        } else if is_apart(point, self.kv + self.kp) {
            let blocks = wanted.0.next_multiple_of(BLOCK_BYTES_USUAL);
            let bytes = blocks.min((self.kv + self.kp) as usize - point).min(block);
            (point, block) = (point + bytes, block - bytes);
        }
        let kv = ((point as f64 * self.kv_part()) as usize).min(point);
        [kv, point - kv, block]
    }

    /// KV's part of the point cache.
    fn kv_part(self) -> f64 {
        let point = self.kv + self.kp;
        if point > 0.0 { self.kv / point } else { 0.5 }
    }

    /// The same parts of `total` bytes.
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

/// Which of the two boundaries' ghosts knew a lookup.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Lower {
    Kv(f64),
    Kp(f64),
}

/// The targets that all shards share.
#[derive(Debug)]
pub struct Boundaries {
    /// The learning rate; of targets that never move there is none.
    k: Option<f64>,
    targets: Mutex<Targets>,
    /// What the targets add up to.
    total: AtomicUsize,
}

impl Boundaries {
    /// Targets that begin at `split`, with the learning rate `k`.
    pub fn new(k: u32, split: [usize; 3]) -> Self {
        Self::with(Some(f64::from(k)), split)
    }

    /// Targets that stay at `split`.
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

    /// Where the boundaries are to be.
    pub fn targets(&self) -> Targets {
        *self.targets.lock()
    }

    /// Whether the targets never move.
    pub(crate) fn are_fixed(&self) -> bool {
        self.k.is_none()
    }

    /// What the targets add up to.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Changes what the targets add up to.
    pub fn set_total(&self, bytes: usize) {
        if bytes == self.total() {
            return;
        }
        let mut targets = self.targets.lock();
        *targets = targets.scaled_to(bytes);
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// The ghosts knew a lookup of a key: first the lower boundary moves, then the upper
    /// one, by the efficiencies of what was noted.
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

    /// The ghost knew a block.
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
        // Neither gets more than there is.
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
        // From nothing both begin alike.
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
    fn boundaries_follow_as_far_as_newcomers_want() {
        let targets = Targets { kv: 30_000.0, kp: 10_000.0, block: 60_000.0 };
        // Nobody wants anything: only KV and KP, which share, are as they are to be.
        assert_eq!(targets.follow([8_000, 12_000, 80_000], (0, 0)), [15_000, 5_000, 80_000]);
        let grown = targets.follow([15_000, 5_000, 80_000], (100, 0));
        assert_eq!(grown, [18_072, 6_024, 75_904], "a block makes room for entries");
        assert_eq!(targets.follow(grown, (90_000, 0)), [30_000, 10_000, 60_000]);
        let blocks = targets.follow([60_000, 20_000, 20_000], (500, 5_000));
        assert_eq!(blocks, [56_250, 18_750, 25_000]);
        assert_eq!(targets.follow(blocks, (0, 90_000)), [30_000, 10_000, 60_000]);
        // Less than a block is not worth a step.
        let near = [27_000, 9_000, 64_000];
        assert_eq!(targets.follow(near, (500, 5_000)), near);
        let near = [33_000, 11_000, 56_000];
        assert_eq!(targets.follow(near, (500, 5_000)), near);
    }

    #[test]
    fn parts_stay_when_the_whole_changes() {
        let boundaries = Boundaries::new(1000, [10, 30, 60]);
        boundaries.set_total(1000);
        assert!(near(boundaries.targets(), [100.0, 300.0, 600.0]));
        boundaries.set_total(0);
        boundaries.set_total(50);
        assert!(near(boundaries.targets(), [0.0, 0.0, 50.0]));
        assert_eq!(boundaries.total(), 50);
    }
}
