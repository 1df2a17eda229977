//! Compaction: merges tables of one level into the next, so that reads search few tables and old
//! versions are removed.
//!
//! [`picker`] selects the next compaction (pure), [`output`] writes tables, [`merge_tables`] is the
//! loop between them, also used by flushes. [`reclaim`] and [`dead_tables`] give the space of
//! deleted and expired data back.

pub(crate) mod idle;
pub(crate) mod retain;
pub(crate) mod cache_invalidation;
pub(crate) mod hot_block_carryover;

pub(crate) mod picker;
pub(crate) mod group;
pub(crate) mod dead_data;
pub(crate) mod dead_tables;
pub(crate) mod reclaim;
pub(crate) mod reclaim_watch;
pub(crate) mod output;

use std::sync::Arc;

use tidekv_io::Clock;

use crate::compaction::cache_invalidation::CacheInvalidation;
use crate::compaction::hot_block_carryover::HotBlockCarryover;
use crate::compaction::retain::{Decision, Retention, retained_tombstones};
use crate::error::{Error, ErrorKind, Result};
use crate::format::LEVELS;
use crate::format::key::{Sequence, Trailer};
use crate::format::range_tombstones::{Fragment, RangeTombstones};
use crate::read::merge::MergingCursor;
use crate::sst::cursor::{Cursor, Target};
use crate::version::levels::{TableHandle, Version};
use output::{Output, Outputs};

/// Keys and payloads between two possible pauses of a merge.
const PAUSE_BYTES: usize = 256 << 10;

/// Bytes of a key that an error shows.
const KEY_BYTES_SHOWN: usize = 64;

/// The tables below the level that is written: keys ascend, so a position in each level only moves
/// forward.
pub(crate) struct LevelsBelow {
    levels: Vec<(Vec<Arc<TableHandle>>, usize)>,
}

impl LevelsBelow {
    /// The levels of `version` below `level`.
    pub(crate) fn new(version: &Version, level: usize) -> Self {
        let levels = (level + 1..LEVELS)
            .filter(|&below| !version.level(below).is_empty())
            .map(|below| (version.level(below).to_vec(), 0))
            .collect();
        Self { levels }
    }

    /// All tables of `version`: for the output of a flush.
    pub(crate) fn all(version: &Version) -> Self {
        let mut below = Self::new(version, 0);
        below.levels.extend(version.runs().map(|run| (run.to_vec(), 0)));
        below
    }

    /// Whether no level below may hold `key`. Keys must ascend from call to call.
    fn is_free_of(&mut self, key: &[u8]) -> bool {
        self.levels.iter_mut().all(|(tables, finger)| {
            while tables.get(*finger).is_some_and(|table| table.ends_before(key)) {
                *finger += 1;
            }
            tables.get(*finger).is_none_or(|table| *key < *table.meta().smallest)
        })
    }

    /// Whether no level below may hold a key of the fragment.
    fn is_free_of_range(&self, fragment: &Fragment) -> bool {
        !self.levels.iter().any(|(tables, _)| {
            let first = tables.partition_point(|table| table.ends_before(&fragment.start));
            tables.get(first).is_some_and(|table| *table.meta().smallest < *fragment.end)
        })
    }
}

/// The settings and inputs of a flush or compaction.
pub(crate) struct MergePlan<'a> {
    /// Called after every [`PAUSE_BYTES`] of input.
    pub(crate) pause: &'a dyn Fn(),
    /// Ascending.
    pub(crate) snapshots: &'a [Sequence],
    pub(crate) now_ms: u64,
    /// All range tombstones of the inputs.
    pub(crate) tombstones: &'a RangeTombstones,
    /// Restricts the keys: start included, end excluded; `None`: open.
    pub(crate) start: Option<&'a [u8]>,
    pub(crate) end: Option<&'a [u8]>,
    /// The tables that may hold older data; `None`: unknown.
    pub(crate) below: Option<LevelsBelow>,
    /// Whether the output is for level 0.
    pub(crate) is_flush: bool,
    /// Updates of the point cache.
    pub(crate) invalidation: CacheInvalidation<'a>,
    /// Heat of the entries, if any is hot.
    pub(crate) heat: Option<HotBlockCarryover<'a>>,
}

/// Statistics of a merge.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MergeCounts {
    pub(crate) entries_read: u64,
    pub(crate) entries_dropped: u64,
    pub(crate) entries_expired: u64,
}

/// Merges the entries of `cursor` into tables, without those that no reader can see.
pub(crate) fn merge_tables(
    mut cursor: MergingCursor,
    mut plan: MergePlan<'_>,
    mut outputs: Outputs<'_>,
    clock: &dyn Clock,
) -> Result<(Vec<Output>, MergeCounts)> {
    let tombstones = retained_tombstones(plan.tombstones, plan.snapshots, |fragment| {
        plan.below.as_ref().is_some_and(|below| below.is_free_of_range(fragment))
    });
    outputs.set_tombstones(tombstones, plan.start, plan.end);
    let mut retention = Retention::new(plan.snapshots, plan.now_ms, plan.tombstones);
    if plan.is_flush {
        retention = retention.keeping_sequences();
    }
    let mut counts = MergeCounts::default();
    let mut bytes_to_pause = PAUSE_BYTES;
    let wants_locations = plan.invalidation.wants_locations() || plan.heat.is_some();
    match plan.start {
        Some(start) => cursor.seek(Target::AtOrAfter(start, Trailer(u64::MAX)))?,
        None => cursor.seek(Target::First)?,
    }
    while cursor.valid() {
        let (key, trailer, payload) = (cursor.user_key(), cursor.trailer(), cursor.value());
        if plan.end.is_some_and(|end| key >= end) {
            break;
        }
        counts.entries_read += 1;
        let bytes = key.len() + payload.len();
        match bytes_to_pause.checked_sub(bytes) {
            Some(left) => bytes_to_pause = left,
            None => {
                (plan.pause)();
                bytes_to_pause = PAUSE_BYTES;
            }
        }
        let below = &mut plan.below;
        let verdict = retention.decide(key, trailer, payload, |key| {
            below.as_mut().is_some_and(|below| below.is_free_of(key))
        });
        let kept = match verdict {
            Decision::Keep(kept) => Some(kept),
            _ => None,
        };
        let location = kept.filter(|_| wants_locations).and_then(|_| cursor.location());
        let tag = plan.invalidation.entry(key, trailer, kept, payload, location);
        match verdict {
            Decision::Keep(kept) => {
                let payload =
                    if kept.kind() == crate::format::key::Kind::Delete { &[] } else { payload };
                outputs.add(key, kept, payload, tag, clock)?;
                if let (Some(heat), Some(location)) = (&mut plan.heat, location)
                    && let Some(heat) = heat.of(location)
                {
                    outputs.warm(heat);
                }
            }
            Decision::Drop => counts.entries_dropped += 1,
            Decision::OutOfOrder => return Err(out_of_order(key)),
        }
        cursor.next()?;
    }
    counts.entries_expired = retention.expired();
    Ok((outputs.finish()?, counts))
}

/// The error of tables whose entries are out of order although their checksums agree.
fn out_of_order(key: &[u8]) -> Error {
    let key = key[..key.len().min(KEY_BYTES_SHOWN)].escape_ascii();
    Error::new(ErrorKind::Corrupt, format!("an entry is out of order, its key begins \"{key}\""))
}
