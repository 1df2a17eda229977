//! The controller `tide`: boundaries move by marginal utility.
//!
//! What would the next bytes of each component save? Each has a ghost with a window of
//! the same number of bytes; a miss that the ghost knows is credited to the component
//! with the I/Os that it took. Every so many reads of storage (or of lookups that read
//! none, which count for little) the boundary moves from the component with the least
//! credit to the one with the most.
//!
//! Each component has two credits ([`Wanted`]). That of the whole *window* is an average: it
//! finds the way, also to what is of use only from some size on. That of its *near* part
//! shows where more stops being of use, as metadata does that fits. A search goes by the
//! window; afterwards each component counts with the larger of its two. KP does so from the
//! beginning, until it has as many bytes as a window: a pointer is of use without others, so the
//! first bytes of KP are worth the most, and a few hundred pointers of keys that filters do not
//! help are lost in a window of thousands. Later ones are not, and by the larger credit a search
//! would go too far.
//!
//! ```text
//!   Search ─── SEARCH_STEPS ──► Settle ─── they stand still ──► Follow
//!     ▲                                                           │
//!     └─────────── a share STRAYED from where it settled ◄────────┘
//! ```
//!
//! Settling goes by the credits that following goes by; where it ends is the place that
//! straying is measured from. Ghosts that are made anew, for another budget or policy, begin a
//! search; boundaries that are put somewhere settle. Steps count by how much they can move, and only
//! while there is something to judge by: a cache that fills wants nothing.
//!
//! 1. Credits fade: each step keeps [`CREDIT_KEPT`] of them.
//! 2. A step moves at most [`STEP_MAX`] of the budget, half of that behind the search, and no
//!    more than the caller says the winner could fill: what has room left gets no more, for it
//!    would stand empty while others could use it. It does so in proportion to how far the two
//!    are apart, `(most - least) / (most + least)`, and to the square of that where it follows:
//!    what is near is mostly chance, and what gives way to it and is read again costs I/Os.
//! 3. Nothing moves when they are nearer to each other than [`HYSTERESIS`], or when
//!    there is too little to judge by. Near credits count where those of the window would do.
//! 4. Reads come first. Where more bytes would spare none anywhere, time is to be spared:
//!    KV has the credits of lookups that find everything in blocks ([`Tide::spare`]).
//!
//! **What we changed.** AC-Key (section 4.3) moves the boundary at each ghost hit by
//! `k * benefit / size`. Small entries already have more ghost hits to the byte; to
//! divide by the size again counts it twice, and starves blocks. See
//! `docs/adr/0018-adaptive-cache-partitioning.md`.

use crate::partition::ghost::Wanted;

/// Who shares the budget.
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

/// What a step keeps of the credits.
const CREDIT_KEPT: f64 = 0.9;
/// Of the budget, what a step of a search moves at most. Other steps move half of it: what
/// comes in takes a while to answer, and near credits change sooner, so that boundaries would
/// swing.
const STEP_MAX: f64 = 0.02;
/// How much more the most useful must promise than the least useful.
const HYSTERESIS: f64 = 0.1;
/// Credits of reads below this are none: reads come first.
const CREDIT_NONE: f64 = 1.0;
/// A lookup without a read brings an entry into KV, where a read brings a block: steps that
/// are to spare time are smaller by this.
const SPARED_SHARE: usize = 8;
/// Credits below this are chance.
const CREDIT_MIN: f64 = 16.0;
/// Steps of a search: enough to go from one end to the other twice with credits that are
/// somewhat apart.
const SEARCH_STEPS: f64 = 256.0;
/// Boundaries that go less than `STILL` of the budget in so many steps have settled.
const SETTLE_STEPS: f64 = 64.0;
const STILL: f64 = 0.05;
/// Of the budget: how far a share may go from where it settled before the next search. Less
/// would search again for what the same load makes boundaries do.
const STRAYED: f64 = 0.25;

/// Bytes of each component, in the order of [`COMPONENTS`].
pub type Split = [usize; 3];

/// Of the budget, the part of each component.
type Shares = [f64; 3];

/// What boundaries are about, and for how many steps more.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Course {
    /// They look for the way, by whole windows.
    Search { steps: f64 },
    /// They go to the place itself, and were at these shares of the budget lately.
    Settle { from: Shares, steps: f64 },
    /// They follow the load, and had settled there.
    Follow { settled: Shares },
}

/// Credits of the components.
#[derive(Debug, Clone)]
pub struct Tide {
    credits: [Wanted; 3],
    /// For so many bytes more each ghost stands.
    window_bytes: usize,
    /// Of KV, of time.
    spared: f64,
    course: Course,
}

impl Course {
    const SEARCH: Self = Self::Search { steps: SEARCH_STEPS };

    /// What a component counts with; `takes_first`: it takes its first bytes, and they are
    /// worth the most.
    fn credit_of(self, takes_first: bool, credit: Wanted) -> f64 {
        match self {
            _ if credit.window < CREDIT_MIN => credit.window,
            Self::Search { .. } if !takes_first => credit.window,
            _ => credit.window.max(credit.near),
        }
    }

    /// Of the budget, what a step moves at most.
    fn step_max(self) -> f64 {
        match self {
            Self::Search { .. } => STEP_MAX,
            Self::Settle { .. } | Self::Follow { .. } => STEP_MAX / 2.0,
        }
    }

    /// The part of a whole step that is made where credits are so far apart.
    fn part_of(self, apart: f64) -> f64 {
        match self {
            Self::Search { .. } | Self::Settle { .. } => apart,
            Self::Follow { .. } => apart * apart,
        }
    }

    /// The course behind a step, or such a part of one, that left the boundaries at `split`.
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

impl Tide {
    /// A search, by ghosts that stand for so many bytes more each.
    pub fn new(window_bytes: usize) -> Self {
        Self { credits: Default::default(), window_bytes, spared: 0.0, course: Course::SEARCH }
    }

    /// A larger `component` would have saved so many I/Os.
    pub fn credit(&mut self, component: Component, reads: Wanted) {
        self.credits[component as usize] += reads;
    }

    /// A larger KV would have spared time that is worth so many I/Os.
    pub fn spare(&mut self, reads: f64) {
        self.spared += reads;
    }

    /// Boundaries have been put at `split` by somebody who knows.
    pub fn settle_at(&mut self, split: Split) {
        self.course = Course::Search { steps: 0.0 }.next(split, 0.0);
    }

    /// Whether boundaries are searched for.
    #[cfg(test)]
    pub(crate) fn searches(&self) -> bool {
        matches!(self.course, Course::Search { .. })
    }

    /// Where the boundaries go from `split`; to each component at most its part of
    /// `bytes_max`.
    pub fn step(&mut self, split: Split, bytes_max: Split) -> Split {
        let budget: usize = split.iter().sum();
        let mut credits = COMPONENTS.map(|c| {
            let takes_first = c == Component::Kp && split[c as usize] < self.window_bytes;
            self.course.credit_of(takes_first, self.credits[c as usize])
        });
        let step_max = budget as f64 * self.course.step_max();
        let can_judge = self.credits.iter().any(|credit| credit.window > CREDIT_MIN);
        let spares_reads = credits.iter().any(|&credit| credit >= CREDIT_NONE);
        if !spares_reads {
            credits[Component::Kv as usize] += self.spared;
        }
        let by_credit = |a: &usize, b: &usize| credits[*a].total_cmp(&credits[*b]);
        let winner = (0..3).max_by(by_credit).unwrap_or(0);
        let bytes_max = bytes_max[winner];
        let step = if can_judge { (bytes_max as f64 / step_max).min(1.0) } else { 0.0 };
        let bytes_max = if spares_reads { bytes_max } else { bytes_max / SPARED_SHARE };
        // One that has no bytes has none to give.
        let loser = (0..3).filter(|&c| c != winner && split[c] > 0).min_by(by_credit);
        let mut next = split;
        if let Some(loser) = loser {
            let (most, least) = (credits[winner], credits[loser]);
            let apart = (most - least) / (most + least).max(f64::MIN_POSITIVE);
            if most > CREDIT_MIN && apart > HYSTERESIS {
                let bytes = (step_max * self.course.part_of(apart)) as usize;
                let bytes = bytes.min(bytes_max).min(split[loser]);
                next[loser] -= bytes;
                next[winner] += bytes;
            }
        }
        self.credits = self.credits.map(|credit| credit * CREDIT_KEPT);
        self.spared *= CREDIT_KEPT;
        self.course = self.course.next(next, step);
        next
    }
}

#[cfg(test)]
mod tests;
