//! The controller `tide`: boundaries move by marginal utility.
//!
//! What would the next bytes of each component save? Each has a ghost with a window of
//! the same number of bytes; a miss that the ghost knows is credited to the component
//! with the I/Os that it took. Every so many reads of storage (or of lookups that read none,
//! which count for little) the boundary moves
//! from the component with the least credit to the one with the most.
//!
//! 1. Credits fade: each step keeps [`CREDIT_KEPT`] of them.
//! 2. A step moves at most [`STEP_MAX`] of the budget, and no more than the caller says
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
/// Of the budget, what a step moves at most.
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

/// Bytes of each component, in the order of [`COMPONENTS`].
pub type Split = [usize; 3];

/// Credits of the components.
#[derive(Debug, Clone, Default)]
pub struct Tide {
    credits: [f64; 3],
    /// Of KV, of time.
    spared: f64,
}

impl Tide {
    /// A larger `component` would have saved `reads` I/Os.
    pub fn credit(&mut self, component: Component, reads: f64) {
        self.credits[component as usize] += reads;
    }

    /// A larger KV would have spared time that is worth so many I/Os.
    pub fn spare(&mut self, reads: f64) {
        self.spared += reads;
    }

    /// Where the boundaries go from `split`, by at most `bytes_max`.
    pub fn step(&mut self, split: Split, bytes_max: usize) -> Split {
        let budget: usize = split.iter().sum();
        let mut credits = self.credits;
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
                let bytes = (budget as f64 * STEP_MAX * apart) as usize;
                let bytes = bytes.min(bytes_max).min(split[loser]);
                next[loser] -= bytes;
                next[winner] += bytes;
            }
        }
        self.credits.iter_mut().for_each(|credit| *credit *= CREDIT_KEPT);
        self.spared *= CREDIT_KEPT;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_where_they_save_most() {
        let mut tide = Tide::default();
        let mut split = [0, 0, 1_000_000];
        for _ in 0..200 {
            tide.credit(Component::Kv, 300.0);
            tide.credit(Component::Block, 100.0);
            let next = tide.step(split, usize::MAX);
            assert_eq!(next.iter().sum::<usize>(), 1_000_000);
            split = next;
        }
        assert_eq!(split, [1_000_000, 0, 0]);
    }

    #[test]
    fn time_is_spared_where_no_reads_are() {
        let mut tide = Tide::default();
        let split = [0, 0, 1_000_000];
        tide.spare(300.0);
        tide.credit(Component::Block, 1.05);
        assert_eq!(tide.step(split, usize::MAX), split);
        // What is left of both.
        let [kv, kp, block] = tide.step(split, usize::MAX);
        assert!(kv > 15_000 && kp == 0 && kv + block == 1_000_000, "{kv}, {kp} and {block}");
    }

    #[test]
    fn nothing_moves_by_chance_or_between_equals() {
        let mut tide = Tide::default();
        let split = [100, 200, 700];
        tide.credit(Component::Kp, 10.0);
        assert_eq!(tide.step(split, usize::MAX), split);
        tide.credit(Component::Kv, 1000.0);
        tide.credit(Component::Kp, 1050.0);
        tide.credit(Component::Block, 1000.0);
        assert_eq!(tide.step(split, usize::MAX), split);
    }
}
