//! Estimates the reads with half and with twice the memory, from ghost caches.
//!
//! The ghost of a cache counts the reads that a window of Δ more bytes would have saved. The next
//! bytes go to the cache with the highest count, so it represents all of them: with R reads per
//! second, w of which the window would save, the curve of reads over the budget B falls by w/Δ
//! reads per byte. We assume that it continues as a power law,
//!
//! ```text
//! R(B) = a · B^-g      with the slope at B     R' = -g · R / B = -w / Δ
//! hence                g = w · B / (R · Δ)
//! so                   R(2B) = R · 2^-g   and   R(B/2) = R · 2^g
//! ```
//!
//! but never more than reads and saved reads together: that is the rate without any hits.
//!
//! The result is reads per operation: with another budget, clients may send more or fewer
//! operations per second.
//!
//! Curves of real loads are steep where a working set just fits, and flat beyond. The window (a
//! tenth of the budget, or of 1 GiB if that is less) does not show that, so the estimates get worse
//! with the distance from the current budget.
//!
//! Pure arithmetic.

/// Fewer reads per second than this give no estimate.
const READS_MIN: f64 = 1.0;

/// Recent rates per second; of caches in the order values, pointers, blocks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Observed {
    /// Operations of clients.
    pub operations: f64,
    /// Reads of storage.
    pub reads: f64,
    /// Reads that each cache saved.
    pub saved: [f64; 3],
    /// Reads that one more window of each cache would have saved.
    pub wanted: [f64; 3],
    /// The window of a ghost cache.
    pub window_bytes: f64,
    /// The memory budget of all caches.
    pub budget_bytes: f64,
}

/// Reads per operation by budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// With half the budget.
    pub half: f64,
    /// With the current budget.
    pub now: f64,
    /// With twice the budget.
    pub twice: f64,
    /// The percentage by which reads fall when the budget grows by one percent.
    pub elasticity: f64,
}

/// Why there is no estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// There are no ghost caches with a window.
    Unmeasured,
    /// There were hardly any reads of storage.
    Idle,
}

/// The estimate, or the reason why there is none.
pub fn estimate_at_size(observed: &Observed) -> Result<Estimate, Unknown> {
    let &Observed { operations, reads, saved, wanted, window_bytes, budget_bytes } = observed;
    if window_bytes <= 0.0 || budget_bytes <= 0.0 {
        return Err(Unknown::Unmeasured);
    }
    if reads < READS_MIN || operations <= 0.0 {
        return Err(Unknown::Idle);
    }
    // No more reads can be saved than there were.
    let most = wanted.into_iter().fold(0.0, f64::max).min(reads);
    let elasticity = most * budget_bytes / (reads * window_bytes);
    let ceiling = reads + saved.into_iter().sum::<f64>();
    Ok(Estimate {
        half: (reads * elasticity.exp2()).min(ceiling) / operations,
        now: reads / operations,
        twice: reads * (-elasticity).exp2() / operations,
        elasticity,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(reads: f64, wanted: f64) -> Observed {
        Observed {
            operations: 10.0,
            reads,
            saved: [1000.0, 0.0, 500.0],
            wanted: [wanted / 2.0, 0.0, wanted],
            window_bytes: 10.0,
            budget_bytes: 100.0,
        }
    }

    #[test]
    fn a_power_law_is_found_again() {
        // Reads of 6400 / sqrt(budget): 640 of them now, and so much less with a tenth
        // of a thousandth more that the slope is nearly that at the budget.
        let (budget, window) = (100.0, 0.01);
        let curve = |bytes: f64| 6400.0 / f64::sqrt(bytes);
        let wanted = curve(budget) - curve(budget + window);
        let found = estimate_at_size(&Observed { window_bytes: window, ..observed(640.0, wanted) })
            .unwrap();
        assert!((found.elasticity - 0.5).abs() < 0.001, "{found:?}");
        assert!((10.0 * found.half - curve(50.0)).abs() < 1.0, "{found:?}");
        assert!((10.0 * found.twice - curve(200.0)).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn an_unused_window_changes_nothing() {
        let found = estimate_at_size(&observed(100.0, 0.0)).unwrap();
        assert_eq!((found.half, found.now, found.twice), (10.0, 10.0, 10.0));
    }

    #[test]
    fn half_the_memory_loses_at_most_all_hits() {
        let found = estimate_at_size(&observed(100.0, 90.0)).unwrap();
        assert_eq!(found.half, 160.0, "all that is read and saved now");
        assert!(found.twice > 0.0 && found.twice < 0.1);
        // Ghosts are sampled and may overestimate.
        assert_eq!(
            estimate_at_size(&observed(100.0, 900.0)),
            estimate_at_size(&observed(100.0, 100.0))
        );
    }

    #[test]
    fn there_is_no_estimate_without_data() {
        let unmeasured = Observed { window_bytes: 0.0, ..observed(100.0, 9.0) };
        assert_eq!(estimate_at_size(&unmeasured), Err(Unknown::Unmeasured));
        assert_eq!(estimate_at_size(&observed(0.5, 0.0)), Err(Unknown::Idle));
        let unasked = Observed { operations: 0.0, ..observed(100.0, 9.0) };
        assert_eq!(estimate_at_size(&unasked), Err(Unknown::Idle));
        assert_eq!(estimate_at_size(&Observed::default()), Err(Unknown::Unmeasured));
    }
}
