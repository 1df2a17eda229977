//! Compaction: tables of one level are merged into the next, so that reads
//! look in few places and old versions go.
//!
//! [`picker`] decides what is next (pure), [`output`] writes tables, [`merge_tables`]
//! is the loop between them, used by flushes as well.

pub(crate) mod quiet;
pub(crate) mod retain;
pub(crate) mod notices;
pub(crate) mod heat;

pub(crate) mod picker;
pub(crate) mod output;

use std::sync::Arc;

use tidekv_io::Clock;

use crate::compaction::heat::Heat;
use crate::compaction::notices::Notice;
use crate::compaction::retain::{Retention, Verdict, retained_tombstones};
use crate::error::{Error, ErrorKind, Result};
use crate::format::LEVELS;
use crate::format::key::{Sequence, Trailer};
use crate::format::range_tombstones::{Fragment, RangeTombstones};
use crate::read::merge::MergingCursor;
use crate::sst::cursor::{Cursor, Target};
use crate::version::levels::{TableHandle, Version};
use output::{Output, Outputs};

/// So much of a key stands in an error.
const KEY_BYTES_SHOWN: usize = 64;

/// Which older data lies below the level that is written: keys ascend, so a
/// finger in each level moves forward.
pub(crate) struct LevelsBelow {
    levels: Vec<(Vec<Arc<TableHandle>>, usize)>,
}

impl LevelsBelow {
    /// Of `version`, the levels below `level`.
    pub(crate) fn new(version: &Version, level: usize) -> Self {
        let levels = (level + 1..LEVELS)
            .filter(|&below| !version.level(below).is_empty())
            .map(|below| (version.level(below).to_vec(), 0))
            .collect();
        Self { levels }
    }

    /// Whether no level below may hold `key`. Keys must ascend from call to
    /// call.
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
        let overlaps =
            |table: &Arc<TableHandle>| table.overlaps(Some(&fragment.start), Some(&fragment.end));
        !self.levels.iter().any(|(tables, _)| tables.iter().any(overlaps))
    }
}

/// What a flush or compaction works under.
pub(crate) struct MergePlan<'a> {
    /// Ascending.
    pub(crate) snapshots: &'a [Sequence],
    pub(crate) now_ms: u64,
    /// All range tombstones of the inputs.
    pub(crate) tombstones: &'a RangeTombstones,
    /// Part of the keys: first included, end excluded; `None`: open.
    pub(crate) start: Option<&'a [u8]>,
    pub(crate) end: Option<&'a [u8]>,
    /// Where older data may be; `None`: everywhere (a flush).
    pub(crate) below: Option<LevelsBelow>,
    /// What the point cache is told.
    pub(crate) notice: Notice<'a>,
    /// How hot the entries are, if any is.
    pub(crate) heat: Option<Heat<'a>>,
}

/// What a merge did.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct MergeCounts {
    pub(crate) entries_read: u64,
    pub(crate) entries_dropped: u64,
    pub(crate) entries_expired: u64,
}

/// Merges the entries of `cursor` into tables, without those nobody can see.
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
    let mut counts = MergeCounts::default();
    let wants_places = plan.notice.wants_places() || plan.heat.is_some();
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
        let below = &mut plan.below;
        let verdict = retention.judge(key, trailer, payload, |key| {
            below.as_mut().is_some_and(|below| below.is_free_of(key))
        });
        let kept = match verdict {
            Verdict::Keep(kept) => Some(kept),
            _ => None,
        };
        let place = kept.filter(|_| wants_places).and_then(|_| cursor.place());
        let tag = plan.notice.entry(key, trailer, kept, payload, place);
        match verdict {
            Verdict::Keep(kept) => {
                let payload =
                    if kept.kind() == crate::format::key::Kind::Delete { &[] } else { payload };
                outputs.add(key, kept, payload, tag, clock)?;
                if let (Some(heat), Some(place)) = (&mut plan.heat, place)
                    && let Some(heat) = heat.of(place)
                {
                    outputs.warm(heat);
                }
            }
            Verdict::Drop => counts.entries_dropped += 1,
            Verdict::Misplaced => return Err(out_of_order(key)),
        }
        cursor.next()?;
    }
    counts.entries_expired = retention.expired();
    Ok((outputs.finish()?, counts))
}

/// What is wrong with tables whose entries are not in order though their checksums
/// agree.
fn out_of_order(key: &[u8]) -> Error {
    let key = key[..key.len().min(KEY_BYTES_SHOWN)].escape_ascii();
    Error::new(ErrorKind::Corrupt, format!("an entry is out of order, its key begins \"{key}\""))
}
