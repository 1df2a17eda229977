//! E-LRU: among the least recently used entries, evicts the one that saves the fewest I/Os per byte
//! (AC-Key, Wu et al., "AC-Key: Adaptive Caching for LSM-based Key-Value Stores", USENIX ATC 2020,
//! section 4.2).
//!
//! 1. The efficiency of an entry is `E = b / s`: the storage I/Os that a hit saves, divided by its
//!    bytes.
//! 2. Among the `a` least recently used entries, the least efficient is evicted.
//! 3. `a = e^v`, with `v` the deviation of `E` in the component: where all are equal, `a` is 1,
//!    which is LRU.
//!
//! **What the paper leaves open.** Its `v` is the standard deviation of `E`; in I/Os per byte that
//! is a few hundredths, so `a` would always be 1. Here it is divided by the mean. The paper takes
//! it over a sample, here it covers all entries and is updated incrementally. `a` is rounded, and
//! at most [`CANDIDATES_MAX`].
//!
//! Pure; single-threaded.

/// Most entries scanned per eviction.
pub(crate) const CANDIDATES_MAX: usize = 32;

/// The distribution of efficiencies in a component.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Efficiencies {
    count: usize,
    sum: f64,
    squares: f64,
}

impl Efficiencies {
    /// Adds an entry.
    pub(crate) fn add(&mut self, efficiency: f64) {
        self.count += 1;
        self.sum += efficiency;
        self.squares += efficiency * efficiency;
    }

    /// Removes an entry that was added with that efficiency.
    pub(crate) fn remove(&mut self, efficiency: f64) {
        self.count -= 1;
        self.sum -= efficiency;
        self.squares -= efficiency * efficiency;
        if self.count == 0 {
            // Drops the rounding error.
            *self = Self::default();
        }
    }

    /// The paper's `a`.
    pub(crate) fn candidates(&self) -> usize {
        if self.count == 0 || self.sum <= 0.0 {
            return 1;
        }
        let mean = self.sum / self.count as f64;
        let variance = (self.squares / self.count as f64 - mean * mean).max(0.0);
        let candidates = (variance.sqrt() / mean).exp().round();
        (candidates as usize).clamp(1, CANDIDATES_MAX)
    }

    /// The entry to evict among `entries`, the least recently used first.
    pub(crate) fn victim<I: Copy>(&self, entries: impl Iterator<Item = (I, f64)>) -> Option<I> {
        let least = entries.take(self.candidates()).min_by(|a, b| a.1.total_cmp(&b.1));
        least.map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(efficiencies: &[f64]) -> Efficiencies {
        let mut all = Efficiencies::default();
        efficiencies.iter().for_each(|&efficiency| all.add(efficiency));
        all
    }

    fn victim(efficiencies: &[f64]) -> Option<usize> {
        of(efficiencies).victim(efficiencies.iter().copied().enumerate())
    }

    #[test]
    fn equal_efficiencies_evict_in_lru_order() {
        assert_eq!(victim(&[0.05; 100]), Some(0));
        // Deviations of a few hundredths of the mean do not count either.
        assert_eq!(victim(&[0.052, 0.050, 0.051, 0.050]), Some(0));
        assert_eq!(victim(&[]), None);
    }

    #[test]
    fn least_efficient_candidate_is_evicted() {
        // The deviation is 1.31 of the mean: e^1.31 is 3.7, so four entries are scanned.
        let efficiencies = [0.05, 0.02, 0.03, 0.001, 0.2, 0.01];
        assert_eq!(of(&efficiencies[..]).candidates(), 4);
        assert_eq!(victim(&efficiencies), Some(3));
        let efficiencies = [0.04, 0.02, 0.03, 0.01, 0.05, 0.06];
        assert_eq!(of(&efficiencies[..]).candidates(), 2);
        assert_eq!(victim(&efficiencies), Some(1));
    }

    #[test]
    fn candidates_are_bounded() {
        let mut efficiencies = [1e-6; 1000];
        efficiencies[999] = 1.0;
        assert_eq!(of(&efficiencies).candidates(), CANDIDATES_MAX);
        efficiencies[40] = 1e-9;
        efficiencies[31] = 1e-7;
        assert_eq!(victim(&efficiencies), Some(31));
    }

    #[test]
    fn removed_entries_do_not_count() {
        let mut all = of(&[0.5, 0.5, 0.001, 0.002]);
        assert!(all.candidates() > 1);
        all.remove(0.001);
        all.remove(0.002);
        assert_eq!(all.candidates(), 1);
        all.remove(0.5);
        all.remove(0.5);
        assert_eq!((all.count, all.sum), (0, 0.0));
    }
}
