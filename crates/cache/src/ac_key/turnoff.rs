//! Turns AC-Key's ghosts on while hit ratios change, and off otherwise (AC-Key, section 4.3.3).
//!
//! 1. Hit ratios of KV, KP and blocks are taken over windows of [`WINDOW`] lookups.
//! 2. If none of them has changed by more than `θ` since the window before, ghosts are turned off,
//!    and entries get their memory.
//! 3. If one has, they are turned on again.
//!
//! **What the paper leaves open.** The window; and that `θ` is a difference of ratios: for a ratio
//! near 0 any relative change is chance.
//!
//! Pure; single-threaded.

/// Key lookups per window.
pub(crate) const WINDOW: u64 = 64 << 10;
/// Without key lookups, this number of block lookups, about those of a scan, counts as one.
const BLOCKS_OF_LOOKUP: u64 = 16;

/// Counters since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) kv_hits: u64,
    pub(crate) kp_hits: u64,
    /// Key lookups.
    pub(crate) lookups: u64,
    pub(crate) block_hits: u64,
    /// Block lookups.
    pub(crate) block_lookups: u64,
}

impl Counts {
    fn since(self, before: Self) -> Self {
        Self {
            kv_hits: self.kv_hits.saturating_sub(before.kv_hits),
            kp_hits: self.kp_hits.saturating_sub(before.kp_hits),
            lookups: self.lookups.saturating_sub(before.lookups),
            block_hits: self.block_hits.saturating_sub(before.block_hits),
            block_lookups: self.block_lookups.saturating_sub(before.block_lookups),
        }
    }

    fn ratios(self) -> [f64; 3] {
        let ratio = |hits: u64, lookups: u64| hits as f64 / lookups.max(1) as f64;
        [
            ratio(self.kv_hits, self.lookups),
            ratio(self.kp_hits, self.lookups),
            ratio(self.block_hits, self.block_lookups),
        ]
    }
}

/// Detects changes of hit ratios.
#[derive(Debug)]
pub(crate) struct Turnoff {
    theta: f64,
    /// Counters at the start of the window.
    begin: Counts,
    /// The ratios of the window before, if there was one.
    ratios: Option<[f64; 3]>,
}

impl Turnoff {
    /// A detector with a threshold in percent, starting at `counts`.
    pub(crate) fn new(theta: u8, counts: Counts) -> Self {
        Self { theta: f64::from(theta) / 100.0, begin: counts, ratios: None }
    }

    /// At the end of a window: whether ghosts should be on.
    pub(crate) fn check(&mut self, counts: Counts) -> Option<bool> {
        let window = counts.since(self.begin);
        if window.lookups.max(window.block_lookups / BLOCKS_OF_LOOKUP) < WINDOW {
            return None;
        }
        self.begin = counts;
        let ratios = window.ratios();
        let before = self.ratios.replace(ratios)?;
        let changes = ratios.iter().zip(before).map(|(now, before)| (now - before).abs());
        Some(changes.fold(0.0, f64::max) > self.theta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        turnoff: Turnoff,
        counts: Counts,
    }

    impl Scene {
        /// A window in which `kv` and `block` in a hundred lookups are hits.
        fn window(&mut self, kv: u64, block: u64) -> Option<bool> {
            self.counts.lookups += WINDOW;
            self.counts.block_lookups += WINDOW / 2;
            self.counts.kv_hits += WINDOW * kv / 100;
            self.counts.block_hits += WINDOW / 2 * block / 100;
            self.turnoff.check(self.counts)
        }
    }

    #[test]
    fn ghosts_turn_off_with_stable_ratios_and_on_when_they_change() {
        let turnoff = Turnoff::new(5, Counts::default());
        let mut scene = Scene { turnoff, counts: Counts::default() };
        assert_eq!(scene.window(0, 10), None, "there is nothing to compare with");
        assert_eq!(scene.window(30, 10), Some(true));
        assert_eq!(scene.window(36, 11), Some(true));
        assert_eq!(scene.window(40, 14), Some(false));
        assert_eq!(scene.window(36, 18), Some(false));
        assert_eq!(scene.window(37, 30), Some(true));
        assert_eq!(scene.window(20, 30), Some(true));
        assert_eq!(scene.window(20, 30), Some(false));
    }

    #[test]
    fn nothing_is_decided_before_a_window_ends() {
        let mut turnoff = Turnoff::new(5, Counts::default());
        let counts = |lookups| Counts { lookups, ..Counts::default() };
        assert_eq!(turnoff.check(counts(WINDOW)), None);
        assert_eq!(turnoff.check(counts(2 * WINDOW - 1)), None);
        assert_eq!(turnoff.check(counts(2 * WINDOW)), Some(false));
        let block_lookups = BLOCKS_OF_LOOKUP * WINDOW;
        let of_blocks =
            Counts { block_lookups, block_hits: block_lookups / 2, ..counts(2 * WINDOW) };
        assert_eq!(turnoff.check(of_blocks), Some(true));
    }
}
