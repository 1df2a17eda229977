//! Which compaction gives the space and the read cost of dead data back (`dead_data.rs`), when size
//! alone would start none.
//!
//! 1. When the dead data of a keyspace exceeds an eighth ([`DEAD_PER_LIVE`]) of its live data, the
//!    table whose compaction frees the most bytes per byte read is merged with the level below, or
//!    rewritten if it is in the last level.
//! 2. When a quarter ([`DENSE_SHARE`]) of the entries that a compaction would read are dead, scans
//!    pass over many entries in vain: it is due however small its part of the keyspace is.
//!
//! Termination: every such compaction moves tombstones at least one level down, or removes them and
//! expired entries; what a snapshot needs does not count until the snapshot is released. So for
//! given data and snapshots there are only finitely many, also where an estimate is wrong: deletions
//! of absent keys hide nothing. [`Confidence`] bounds how often wrong estimates are acted on while
//! new deletions arrive.
//!
//! The idea of ranking tables by their tombstones is that of Lethe (Sarkar et al., SIGMOD 2020) and
//! of RocksDB's `CompactOnDeletionCollector`. Unlike these there is no deadline for each tombstone
//! and no setting: the amount of dead data decides.
//!
//! Pure: a function of a version, the time and the snapshots.

use std::sync::Arc;
use std::time::Duration;

use crate::compaction::dead_data::{Amount, DeadData, Present, dead_data};
use crate::compaction::picker::{self, Compaction, PickerOptions, Trigger};
use crate::format::LEVELS;
use crate::version::levels::{TableHandle, Version};

const LAST: usize = LEVELS - 1;

/// Dead data is given back once it exceeds the live data divided by this.
const DEAD_PER_LIVE: u64 = 8;

/// A compaction is due for scans when the entries that it reads, divided by this, are dead.
const DENSE_SHARE: u64 = 4;

/// Less than this is not worth a compaction: a few blocks.
const BYTES_MIN: u64 = 16 << 10;
const ENTRIES_MIN: u64 = 256;

/// A compaction that frees less than its input divided by this waits until more is dead.
const COST_MAX: u64 = 64;

/// The dead data of a keyspace, and what to do about it.
#[derive(Debug, Default)]
pub(crate) struct Outlook {
    pub(crate) dead: DeadData,
    /// The next time at which more will have expired, in milliseconds since 1970.
    pub(crate) changes_at_ms: Option<u64>,
    pub(crate) compaction: Option<Compaction>,
}

/// Looks at the dead data of `version`.
pub(crate) fn outlook(version: &Version, options: PickerOptions, present: Present<'_>) -> Outlook {
    let mut outlook = Outlook::default();
    let mut candidates: Vec<(DeadData, Candidate<'_>)> = Vec::new();
    let mut of_level0 = DeadData::default();
    for level in 0..LEVELS {
        for table in version.level(level) {
            let deadlines = &table.table().properties().deadlines;
            let next = deadlines.next_after(present.now_ms);
            outlook.changes_at_ms = outlook.changes_at_ms.into_iter().chain(next).min();
            let dead = dead_data(version, level, table, present);
            outlook.dead.add(dead);
            if level == 0 {
                of_level0.add(dead);
            } else if dead.amount != Amount::default() {
                candidates.push((dead, Candidate::Table { level, table }));
            }
        }
    }
    if of_level0.amount != Amount::default() {
        candidates.push((of_level0, Candidate::Level0));
    }
    let all = Amount::of_all(version.tables());
    outlook.dead.amount.bytes = outlook.dead.amount.bytes.min(all.bytes);
    outlook.dead.amount.entries = outlook.dead.amount.entries.min(all.entries);
    outlook.compaction = best(version, options, &candidates, is_due(all, outlook.dead.amount));
    outlook
}

/// Whether this much dead data among `all` is worth compactions.
pub(crate) fn is_due(all: Amount, dead: Amount) -> bool {
    let live = all.bytes.saturating_sub(dead.bytes);
    dead.bytes >= BYTES_MIN && dead.bytes > live / DEAD_PER_LIVE
}

/// Whether scans over `all` pass over many dead entries.
pub(crate) fn is_dense(all: Amount, dead: Amount) -> bool {
    dead.entries >= ENTRIES_MIN && dead.entries >= all.entries / DENSE_SHARE
}

/// Inputs of a compaction that would free space.
#[derive(Debug, Clone, Copy)]
enum Candidate<'v> {
    /// All of level 0, since its tables overlap.
    Level0,
    Table {
        level: usize,
        table: &'v Arc<TableHandle>,
    },
}

impl Candidate<'_> {
    /// `None` if another compaction is using a table.
    fn compaction(self, version: &Version, options: PickerOptions) -> Option<Compaction> {
        match self {
            Self::Level0 => picker::merge_level0(version, options),
            Self::Table { level: LAST, table } => picker::rewrite(LAST, table),
            Self::Table { level, table } => picker::merge_down(version, options, level, table),
        }
    }
}

/// The candidate that frees the most for each byte that it reads. If the keyspace `is_due`, bytes
/// count; otherwise only compactions in whose inputs many entries are dead.
fn best(
    version: &Version,
    options: PickerOptions,
    candidates: &[(DeadData, Candidate<'_>)],
    is_due: bool,
) -> Option<Compaction> {
    let value = |(dead, candidate): &(DeadData, Candidate<'_>)| {
        let compaction = candidate.compaction(version, options)?;
        let cost = compaction.cost_bytes();
        let is_worth = is_due && dead.amount.bytes.saturating_mul(COST_MAX) >= cost;
        let is_worth = is_worth || is_dense(Amount::of_all(compaction.tables()), dead.amount);
        let value = (dead.amount.bytes.max(1)) as f64 / cost.max(1) as f64;
        is_worth.then_some((value, dead.amount.bytes, compaction))
    };
    let best = candidates.iter().filter_map(value).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, dead_bytes, compaction)| Compaction {
        trigger: Trigger::Space { dead_bytes },
        ..compaction
    })
}

/// How well the estimates agreed with what compactions freed, and how long to wait before acting on
/// the next one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Confidence {
    /// How many compactions in a row freed less than a quarter of the estimate.
    misses: u32,
}

/// The first wait after a wrong estimate; it doubles up to `WAIT_MAX`.
const WAIT: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);

impl Confidence {
    /// Records that a compaction freed `freed` bytes of `estimated`, or that it failed.
    pub(crate) fn note(&mut self, estimated: u64, freed: u64) {
        self.misses = if freed >= estimated / 4 { 0 } else { self.misses.saturating_add(1) };
    }

    /// How long to wait before the next compaction.
    pub(crate) fn wait(self) -> Duration {
        match self.misses.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => (WAIT * 2u32.pow(doublings.min(5))).min(WAIT_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_dead_bytes_is_due_and_a_quarter_of_dead_entries_is_dense() {
        let amount = |entries, bytes| Amount { entries, bytes };
        let all = amount(10_000, 900_000);
        assert!(!is_due(all, amount(0, 99_999)) && is_due(all, amount(0, 100_100)));
        assert!(!is_due(amount(9, 9000), amount(9, 9000)), "too little");
        assert!(!is_dense(all, amount(2499, 0)) && is_dense(all, amount(2500, 0)));
        assert!(!is_dense(amount(9, 90), amount(9, 90)), "too few");
    }

    #[test]
    fn wrong_estimates_are_acted_on_less_and_less_often() {
        let mut confidence = Confidence::default();
        assert_eq!(confidence.wait(), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..8 {
            confidence.note(1000, 10);
            waits.push(confidence.wait().as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        confidence.note(1000, 900);
        assert_eq!(confidence.wait(), Duration::ZERO);
    }
}
