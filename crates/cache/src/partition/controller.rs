//! The partition controller of `adaptive`: boundaries move by marginal utility.
//!
//! What would the next bytes of each component save? Each component has a ghost with a window of
//! the same number of bytes. A miss that hits the ghost is credited to the component with the I/Os
//! that it took. At a fixed interval of storage reads (or of lookups without a read, which have a
//! small weight) the boundary moves from the component with the least credit to the one with the
//! most.
//!
//! Each component has two credits ([`GhostHits`]). The credit of the whole *window* is an average:
//! it finds the direction, even to a working set that pays off only from some size on. The credit
//! of its *near* part shows where more bytes stop paying off, as with metadata that fits. A search
//! goes by the window; afterwards each component counts with the larger of its two. KP does so from
//! the beginning, until it has as many bytes as a window: a pointer is useful without others, so
//! the first bytes of KP are the most valuable, and a few hundred pointers of keys that filters do
//! not help are lost in a window of thousands. Later bytes are less valuable, and by the larger
//! credit a search would go too far.
//!
//! ```text
//!   Search ─── SEARCH_STEPS ──► Settle ─── they are stable ───► Follow
//!     ▲                                                           │
//!     └─────────── a share STRAYED from where it settled ◄────────┘
//! ```
//!
//! Settling and following use the same credits; straying is measured from the point where settling
//! ends. Ghosts that are rebuilt for another budget or policy begin a search; boundaries set from
//! outside settle. Steps count by how far they can move, and only while there is enough evidence: a
//! cache that is still filling has no ghost hits.
//!
//! 1. Credits decay: each step keeps [`CREDIT_KEPT`] of them.
//! 2. A step moves at most [`STEP_MAX`] of the budget, half of that after the search, and no more
//!    than the winner could fill, by the caller's estimate: a component with free room gets no
//!    more, because the bytes would stay empty while others could use them. The step is
//!    proportional to the distance of the two credits, `(most - least) / (most + least)`, and to
//!    its square while following: small differences are mostly chance, and evicted bytes that are
//!    read again cost I/Os.
//! 3. Nothing moves when the credits are closer to each other than [`HYSTERESIS`], or when there is
//!    too little evidence. Near credits count only where the window's would be enough.
//! 4. Reads come first. Where more bytes would save no reads anywhere, the controller saves time:
//!    KV gets the credits of lookups that find everything in blocks
//!    ([`PartitionController::credit_time`]).
//!
//! **What we changed.** AC-Key (section 4.3) moves the boundary at each ghost hit by `k * benefit /
//! size`. Small entries already have more ghost hits per byte; dividing by the size again counts it
//! twice, and starves blocks. See `docs/adr/0018-adaptive-cache-partitioning.md`.

use crate::partition::ghost::GhostHits;

/// The components that share the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Component {
    /// Key-value entries.
    Kv,
    /// Key-pointer entries.
    Kp,
    /// Blocks.
    Block,
}

/// All components.
pub const COMPONENTS: [Component; 3] = [Component::Kv, Component::Kp, Component::Block];

/// The fraction of the credits kept by a step.
const CREDIT_KEPT: f64 = 0.9;
/// The largest move of a search step, as a fraction of the budget. Other steps move half of it: new
/// entries take a while to produce hits, and near credits change sooner, so boundaries would
/// oscillate.
const STEP_MAX: f64 = 0.02;
/// The minimum relative advantage of the best component over the worst.
const HYSTERESIS: f64 = 0.1;
/// Credits of reads below this count as zero: reads come first.
const CREDIT_NONE: f64 = 1.0;
/// A lookup without a read brings an entry into KV, where a read brings a block: steps that save
/// only time are smaller by this factor.
const TIME_STEP_DIVISOR: usize = 8;
/// Credits below this are chance.
const CREDIT_MIN: f64 = 16.0;
/// Steps of a search: enough to move from one end to the other twice with moderately different
/// credits.
const SEARCH_STEPS: f64 = 256.0;
/// Boundaries that move less than `STILL` of the budget in this number of steps have settled.
const SETTLE_STEPS: f64 = 64.0;
const STILL: f64 = 0.05;
/// As a fraction of the budget: how far a share may move from its settled value before the next
/// search. A smaller value would restart the search for normal variation of the same load.
const STRAYED: f64 = 0.25;

/// Bytes of each component, in the order of `COMPONENTS`.
pub type Split = [usize; 3];

/// The share of each component in the budget.
type Shares = [f64; 3];

/// The phase of the boundaries.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// They search the direction, by whole windows, for this number of steps.
    Search { steps: f64 },
    /// They approach the optimum; at the last check they were at these shares of the budget.
    Settle { from: Shares, steps: f64 },
    /// They follow the load, after settling at these shares.
    Follow { settled: Shares },
}

/// The controller: credits of the components and the phase of the boundaries.
#[derive(Debug, Clone)]
pub struct PartitionController {
    credits: [GhostHits; 3],
    /// The additional bytes that each ghost covers.
    window_bytes: usize,
    /// Credit of KV for saved time.
    time_credit: f64,
    phase: Phase,
}

impl Phase {
    const SEARCH: Self = Self::Search { steps: SEARCH_STEPS };

    /// The effective credit of a component. `takes_first`: it takes its first bytes, which are the
    /// most valuable.
    fn credit_of(self, takes_first: bool, credit: GhostHits) -> f64 {
        match self {
            _ if credit.window < CREDIT_MIN => credit.window,
            Self::Search { .. } if !takes_first => credit.window,
            _ => credit.window.max(credit.near),
        }
    }

    /// The largest move of a step, as a fraction of the budget.
    fn step_max(self) -> f64 {
        match self {
            Self::Search { .. } => STEP_MAX,
            Self::Settle { .. } | Self::Follow { .. } => STEP_MAX / 2.0,
        }
    }

    /// The part of a full step for credits that are `apart` from each other.
    fn part_of(self, apart: f64) -> f64 {
        match self {
            Self::Search { .. } | Self::Settle { .. } => apart,
            Self::Follow { .. } => apart * apart,
        }
    }

    /// The phase after a whole step, or a part `step` of one, that ended with the boundaries at
    /// `split`.
    fn next(self, split: Split, step: f64) -> Self {
        let budget: usize = split.iter().sum();
        let shares = split.map(|bytes| bytes as f64 / budget.max(1) as f64);
        let is_far_from = |place: Shares, far| (0..3).any(|c| (shares[c] - place[c]).abs() > far);
        let settle = Self::Settle { from: shares, steps: SETTLE_STEPS };
        match self {
            Self::Search { steps } if steps > step => Self::Search { steps: steps - step },
            Self::Search { .. } => settle,
            Self::Settle { from, steps } if steps > step => {
                Self::Settle { from, steps: steps - step }
            }
            Self::Settle { from, .. } if is_far_from(from, STILL) => settle,
            Self::Settle { .. } => Self::Follow { settled: shares },
            Self::Follow { settled } if is_far_from(settled, STRAYED) => Self::SEARCH,
            Self::Follow { .. } => self,
        }
    }
}

impl PartitionController {
    /// A controller in the search phase, for ghosts of `window_bytes` each.
    pub fn new(window_bytes: usize) -> Self {
        Self { credits: Default::default(), window_bytes, time_credit: 0.0, phase: Phase::SEARCH }
    }

    /// Credits `component` with reads that it would have saved if it were larger.
    pub fn credit(&mut self, component: Component, reads: GhostHits) {
        self.credits[component as usize] += reads;
    }

    /// Credits KV with time that it would have saved if it were larger, in units of reads.
    pub fn credit_time(&mut self, reads: f64) {
        self.time_credit += reads;
    }

    /// Settles at `split`, which the caller has set.
    pub fn settle_at(&mut self, split: Split) {
        self.phase = Phase::Search { steps: 0.0 }.next(split, 0.0);
    }

    /// Whether the controller is searching.
    #[cfg(test)]
    pub(crate) fn searches(&self) -> bool {
        matches!(self.phase, Phase::Search { .. })
    }

    /// The next split after `split`; each component grows by at most its part of `bytes_max`.
    pub fn step(&mut self, split: Split, bytes_max: Split) -> Split {
        let budget: usize = split.iter().sum();
        let mut credits = COMPONENTS.map(|c| {
            let takes_first = c == Component::Kp && split[c as usize] < self.window_bytes;
            self.phase.credit_of(takes_first, self.credits[c as usize])
        });
        let step_max = budget as f64 * self.phase.step_max();
        let can_judge = self.credits.iter().any(|credit| credit.window > CREDIT_MIN);
        let spares_reads = credits.iter().any(|&credit| credit >= CREDIT_NONE);
        if !spares_reads {
            credits[Component::Kv as usize] += self.time_credit;
        }
        let by_credit = |a: &usize, b: &usize| credits[*a].total_cmp(&credits[*b]);
        let winner = (0..3).max_by(by_credit).unwrap_or(0);
        let bytes_max = bytes_max[winner];
        let step = if can_judge { (bytes_max as f64 / step_max).min(1.0) } else { 0.0 };
        let bytes_max = if spares_reads { bytes_max } else { bytes_max / TIME_STEP_DIVISOR };
        // A component without bytes has none to give.
        let loser = (0..3).filter(|&c| c != winner && split[c] > 0).min_by(by_credit);
        let mut next = split;
        if let Some(loser) = loser {
            let (most, least) = (credits[winner], credits[loser]);
            let apart = (most - least) / (most + least).max(f64::MIN_POSITIVE);
            if most > CREDIT_MIN && apart > HYSTERESIS {
                let bytes = (step_max * self.phase.part_of(apart)) as usize;
                let bytes = bytes.min(bytes_max).min(split[loser]);
                next[loser] -= bytes;
                next[winner] += bytes;
            }
        }
        self.credits = self.credits.map(|credit| credit * CREDIT_KEPT);
        self.time_credit *= CREDIT_KEPT;
        self.phase = self.phase.next(next, step);
        next
    }
}

#[cfg(test)]
mod tests;
