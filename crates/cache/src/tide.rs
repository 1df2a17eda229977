//! The controller `tide`: boundaries move by marginal utility.
//!
//! What would the next bytes of each component save? Each has a ghost with a window of
//! the same number of bytes; a miss that the ghost knows is credited to the component
//! with the I/Os that it took. Every so many reads of storage (or of lookups that read none,
//! which count for little) the boundary moves
//! from the component with the least credit to the one with the most.
//!
//! Credits are of two reaches: of the whole window, and of the first part of it alone
//! ([`Wanted`]). A component that is of use only from some size on (pointers that spare a part
//! of the metadata) shows it in the whole window; one of which more is of no use from some size
//! on (metadata that fits) shows where that is in the first part. So the boundaries are
//! *searched for* by the whole window for [`COURSE_STEPS`] steps, and *settle* by the larger of
//! the two for as many more, which goes to the very place. From there on they *follow* it; when
//! they have gone [`STRAYED`] of the budget, the load is another one, and they are searched for
//! again.
//!
//! 1. Credits fade: each step keeps [`CREDIT_KEPT`] of them.
//! 2. A step moves at most [`STEP_MAX`] of the budget, or half of that when nothing is searched
//!    for, and no more than the caller says
//!    was read since the last one: it could not be filled. It does so in proportion to
//!    how far the two are apart: `(most - least) / (most + least)`.
//! 3. Nothing moves when they are nearer to each other than [`HYSTERESIS`], or when
//!    there is too little to judge by.
//! 4. Reads come first. Where more bytes would spare none anywhere, time is to be spared:
//!    KV has the credits of lookups that find everything in blocks ([`Tide::spare`]).
//!
//! **What we changed.** AC-Key (section 4.3) moves the boundary at each ghost hit by
//! `k * benefit / size`. Small entries already have more ghost hits to the byte; to
//! divide by the size again counts it twice, and starves blocks. See
//! `docs/design/0018-tides.md`.

use crate::ghost::Wanted;

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
/// comes in takes a while to answer, and a near credit changes the sooner.
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
/// Steps of a search, and of settling behind it.
const COURSE_STEPS: u32 = 256;
/// Of the budget: so far from where they have settled the next search begins.
const STRAYED: f64 = 0.25;

/// Bytes of each component, in the order of [`COMPONENTS`].
pub type Split = [usize; 3];

/// By which credits boundaries move.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Course {
    /// Of the whole window, so many steps more.
    Search { steps: u32 },
    /// The larger ones, so many steps more, to the place itself.
    Settle { steps: u32 },
    /// The same, from there on: these shares of the budget.
    Follow { from: [f64; 3] },
}

/// Credits of the components.
#[derive(Debug, Clone)]
pub struct Tide {
    credits: [Wanted; 3],
    /// Of KV, of time.
    spared: f64,
    course: Course,
}

impl Default for Tide {
    fn default() -> Self {
        let course = Course::Search { steps: COURSE_STEPS };
        Self { credits: Default::default(), spared: 0.0, course }
    }
}

impl Course {
    /// What follows it when the boundaries are at `split`.
    fn next(self, split: Split) -> Self {
        let budget: usize = split.iter().sum();
        let shares = split.map(|bytes| bytes as f64 / budget.max(1) as f64);
        match self {
            Self::Search { steps: steps @ 1.. } => Self::Search { steps: steps - 1 },
            Self::Search { .. } => Self::Settle { steps: COURSE_STEPS },
            Self::Settle { steps: steps @ 1.. } => Self::Settle { steps: steps - 1 },
            Self::Settle { .. } => Self::Follow { from: shares },
            Self::Follow { from } => {
                let has_strayed = (0..3).any(|c| (shares[c] - from[c]).abs() > STRAYED);
                if has_strayed { Self::Search { steps: COURSE_STEPS } } else { self }
            }
        }
    }
}

impl Tide {
    /// A larger `component` would have saved so many I/Os.
    pub fn credit(&mut self, component: Component, reads: Wanted) {
        self.credits[component as usize] += reads;
    }

    /// A larger KV would have spared time that is worth so many I/Os.
    pub fn spare(&mut self, reads: f64) {
        self.spared += reads;
    }

    /// Where the boundaries go from `split`, by at most `bytes_max`.
    pub fn step(&mut self, split: Split, bytes_max: usize) -> Split {
        let budget: usize = split.iter().sum();
        let searches = matches!(self.course, Course::Search { .. });
        let step_max = if searches { STEP_MAX } else { STEP_MAX / 2.0 };
        let mut credits = self.credits.map(|credit| match credit.window > CREDIT_MIN {
            true if !searches => credit.window.max(credit.near),
            _ => credit.window,
        });
        let mut bytes_max = bytes_max;
        if credits.iter().all(|&credit| credit < CREDIT_NONE) {
            credits[Component::Kv as usize] += self.spared;
            bytes_max /= SPARED_SHARE;
        }
        let by_credit = |a: &usize, b: &usize| credits[*a].total_cmp(&credits[*b]);
        let winner = (0..3).max_by(by_credit).unwrap_or(0);
        // One that has no bytes has none to give.
        let loser = (0..3).filter(|&c| c != winner && split[c] > 0).min_by(by_credit);
        let mut next = split;
        if let Some(loser) = loser {
            let (most, least) = (credits[winner], credits[loser]);
            let apart = (most - least) / (most + least).max(f64::MIN_POSITIVE);
            if most > CREDIT_MIN && apart > HYSTERESIS {
                let bytes = (budget as f64 * step_max * apart) as usize;
                let bytes = bytes.min(bytes_max).min(split[loser]);
                next[loser] -= bytes;
                next[winner] += bytes;
            }
        }
        self.credits = self.credits.map(|credit| credit * CREDIT_KEPT);
        self.spared *= CREDIT_KEPT;
        self.course = self.course.next(next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads that every part of the window would have saved alike.
    fn alike(reads: f64) -> Wanted {
        Wanted { window: reads, near: reads }
    }

    #[test]
    fn bytes_go_where_they_save_most() {
        let mut tide = Tide::default();
        let mut split = [0, 0, 1_000_000];
        for _ in 0..200 {
            tide.credit(Component::Kv, alike(300.0));
            tide.credit(Component::Block, alike(100.0));
            let next = tide.step(split, usize::MAX);
            assert_eq!(next.iter().sum::<usize>(), 1_000_000);
            split = next;
        }
        assert_eq!(split, [1_000_000, 0, 0]);
    }

    /// Metadata has to be here up to a size and is of no use beyond it.
    #[test]
    fn the_place_is_found_where_more_is_of_no_use() {
        let (mut tide, mut split) = (Tide::default(), [0, 0, 1_000_000]);
        let needed = 300_000;
        let mut run = |steps: u32, split: &mut Split| {
            for _ in 0..steps {
                let missing = needed.max(split[2]) - split[2];
                let of_missing = |window: usize| 200.0 * missing.min(window) as f64 / window as f64;
                let (window, near) = (of_missing(100_000), of_missing(25_000));
                tide.credit(Component::Block, Wanted { window, near });
                tide.credit(Component::Kv, alike(100.0));
                *split = tide.step(*split, usize::MAX);
            }
            split[2]
        };
        // As the average over the window says.
        let searched = run(COURSE_STEPS, &mut split);
        assert!((240_000..265_000).contains(&searched), "{searched}");
        let settled = run(COURSE_STEPS, &mut split);
        assert!((280_000..300_000).contains(&settled), "{settled}");
        assert!(run(2 * COURSE_STEPS, &mut split).abs_diff(settled) < 10_000);
    }

    /// Pointers that are of use only if there are many are looked for while boundaries are
    /// searched for: at first, and again when the load has carried them far away.
    #[test]
    fn who_has_strayed_far_searches_again() {
        let (mut tide, mut split) = (Tide::default(), [0, 0, 1_000_000]);
        let mut run = |steps: u32, split: &mut Split| {
            for _ in 0..steps {
                tide.credit(Component::Kp, Wanted { window: 300.0, near: 0.0 });
                tide.credit(Component::Kv, Wanted { window: 100.0, near: 400.0 });
                *split = tide.step(*split, usize::MAX);
            }
            *split
        };
        assert!(run(COURSE_STEPS + 1, &mut split)[1] > 990_000);
        let settled = run(COURSE_STEPS + 1, &mut split);
        assert!(settled[0] > 250_000, "by near credits: {settled:?}");
        split = [1_000_000 - settled[0], settled[0], 0];
        let before = run(2, &mut split);
        assert!(run(COURSE_STEPS, &mut split)[1] > before[1], "strayed from {settled:?}");
    }

    /// Of a handful of hits four times as many are near by chance.
    #[test]
    fn near_credits_say_nothing_where_there_are_few() {
        let (mut tide, mut split) = (Tide::default(), [500_000, 0, 500_000]);
        for _ in 0..3 * COURSE_STEPS {
            tide.credit(Component::Kv, Wanted { window: 1.0, near: 4.0 });
            split = tide.step(split, usize::MAX);
        }
        assert_eq!(split, [500_000, 0, 500_000]);
    }

    #[test]
    fn time_is_spared_where_no_reads_are() {
        let mut tide = Tide::default();
        let split = [0, 0, 1_000_000];
        tide.spare(300.0);
        tide.credit(Component::Block, alike(1.05));
        assert_eq!(tide.step(split, usize::MAX), split);
        // What is left of both.
        let [kv, kp, block] = tide.step(split, usize::MAX);
        assert!(kv > 15_000 && kp == 0 && kv + block == 1_000_000, "{kv}, {kp} and {block}");
    }

    #[test]
    fn nothing_moves_by_chance_or_between_equals() {
        let mut tide = Tide::default();
        let split = [100, 200, 700];
        tide.credit(Component::Kp, alike(10.0));
        assert_eq!(tide.step(split, usize::MAX), split);
        tide.credit(Component::Kv, alike(1000.0));
        tide.credit(Component::Kp, alike(1050.0));
        tide.credit(Component::Block, alike(1000.0));
        assert_eq!(tide.step(split, usize::MAX), split);
    }
}
