//! What would half or twice the memory do? An estimate from the ghosts.
//!
//! The ghost of a component counts the reads that it would have saved with a window of Δ
//! more bytes. At the boundary the most useful one stands for all of them, since it is
//! where the next bytes go: with R reads and w wanted ones a second, the curve of reads
//! over the budget B falls by w/Δ reads a byte. We assume that it goes on as a power law,
//!
//! ```text
//! R(B) = a · B^-g      with the slope at B     R' = -g · R / B = -w / Δ
//! hence                g = w · B / (R · Δ)
//! so                   R(2B) = R · 2^-g   and   R(B/2) = R · 2^g
//! ```
//!
//! but never more than what was read and what was saved together: then nothing is found
//! in memory any more.
//!
//! What is told are reads of an operation: with another budget, clients may ask for more
//! or less in a second.
//!
//! Curves of real loads are steep where a working set just fits, and flat behind it. The
//! window (a tenth of the budget, of at most 1 GiB) sees nothing of that, so half and twice
//! are guesses that grow worse the farther they are from here.
//!
//! Pure arithmetic.

/// How many reads a second are too few to say anything.
const READS_MIN: f64 = 1.0;

/// What was seen lately, by the second; of components in the order
/// values, pointers, blocks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Observed {
    /// Operations of clients.
    pub operations: f64,
    /// Reads of storage.
    pub reads: f64,
    /// Reads that each component saved.
    pub saved: [f64; 3],
    /// Reads that a window more of each component would have saved.
    pub wanted: [f64; 3],
    /// The window of a ghost.
    pub window_bytes: f64,
    /// The memory of all caches.
    pub budget_bytes: f64,
}

/// Reads of an operation with other budgets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// With half the budget.
    pub half: f64,
    /// With this one.
    pub now: f64,
    /// With twice the budget.
    pub twice: f64,
    /// By how many hundredths reads fall when the budget grows by one.
    pub elasticity: f64,
}

/// Why there is no estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// There are no ghosts of a window.
    Unmeasured,
    /// Hardly anything was asked for that storage was read for.
    Idle,
}

/// The estimate, or why there is none.
pub fn outlook(observed: &Observed) -> Result<Outlook, Unknown> {
    let &Observed { operations, reads, saved, wanted, window_bytes, budget_bytes } = observed;
    if window_bytes <= 0.0 || budget_bytes <= 0.0 {
        return Err(Unknown::Unmeasured);
    }
    if reads < READS_MIN || operations <= 0.0 {
        return Err(Unknown::Idle);
    }
    // More than there were reads cannot be saved.
    let most = wanted.into_iter().fold(0.0, f64::max).min(reads);
    let elasticity = most * budget_bytes / (reads * window_bytes);
    let ceiling = reads + saved.into_iter().sum::<f64>();
    Ok(Outlook {
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
        let found = outlook(&Observed { window_bytes: window, ..observed(640.0, wanted) }).unwrap();
        assert!((found.elasticity - 0.5).abs() < 0.001, "{found:?}");
        assert!((10.0 * found.half - curve(50.0)).abs() < 1.0, "{found:?}");
        assert!((10.0 * found.twice - curve(200.0)).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn nothing_wanted_changes_nothing() {
        let found = outlook(&observed(100.0, 0.0)).unwrap();
        assert_eq!((found.half, found.now, found.twice), (10.0, 10.0, 10.0));
    }

    #[test]
    fn no_more_is_lost_than_there_is() {
        let found = outlook(&observed(100.0, 90.0)).unwrap();
        assert_eq!(found.half, 160.0, "all that is read and saved now");
        assert!(found.twice > 0.0 && found.twice < 0.1);
        // Ghosts are sampled, and may claim too much.
        assert_eq!(outlook(&observed(100.0, 900.0)), outlook(&observed(100.0, 100.0)));
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let unmeasured = Observed { window_bytes: 0.0, ..observed(100.0, 9.0) };
        assert_eq!(outlook(&unmeasured), Err(Unknown::Unmeasured));
        assert_eq!(outlook(&observed(0.5, 0.0)), Err(Unknown::Idle));
        let unasked = Observed { operations: 0.0, ..observed(100.0, 9.0) };
        assert_eq!(outlook(&unasked), Err(Unknown::Idle));
        assert_eq!(outlook(&Observed::default()), Err(Unknown::Unmeasured));
    }
}
