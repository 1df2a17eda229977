//! Tables of which no reader needs anything: they are dropped by an edit of the manifest, without
//! being read (like RocksDB's `DeleteFilesInRange`, and its FIFO compaction by TTL).
//!
//! A table is dead in two cases:
//!
//! 1. *Covered*: newer range tombstones cover all keys between its first and its last one, and every
//!    snapshot that sees one of its entries also sees the tombstones. They hide all that the table
//!    hides, so nothing reappears. A tombstone may still be in a memtable: then the log must be
//!    synced before the edit, or a power cut would undo the deletion and keep its effect.
//! 2. *Lifeless*: all its entries are tombstones or have expired, and no older table that may hold
//!    one of its keys holds values. An expired entry counts as a deletion: without it an older
//!    version of the key would reappear. Entries expire for snapshots too, but a transaction that
//!    reads at an older snapshot must find that the key was written since: so no snapshot may be
//!    older than the newest entry.
//!
//! Of the tables of a version the older ones are decided first: a table that is dropped holds no
//! values for the ones above it. All of them go in one edit.
//!
//! Pure: the caller passes the time and the snapshots.

use std::collections::HashSet;
use std::sync::Arc;

use crate::compaction::dead_data::Present;
use crate::format::LEVELS;
use crate::format::key::Sequence;
use crate::format::range_tombstones::{Fragment, RangeTombstone, RangeTombstones};
use crate::version::levels::{TableHandle, Version};

/// Why a table is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    Covered,
    Lifeless,
}

/// A table to drop.
#[derive(Debug, Clone)]
pub(crate) struct DeadTable {
    pub(crate) level: usize,
    pub(crate) table: Arc<TableHandle>,
    pub(crate) death: Death,
}

/// Whether [`dead_tables`] may find anything in `version`: a cheap check without allocations.
pub(crate) fn may_have_dead_tables(
    version: &Version,
    has_ranges_in_memory: bool,
    now_ms: u64,
) -> bool {
    has_ranges_in_memory
        || !version.tombstoned().is_empty()
        || version.tables().any(|table| has_only_expired(table, now_ms))
}

/// The dead tables of `version`, at most `tables_max`; `ranges` are the range tombstones of its
/// memtables.
pub(crate) fn dead_tables(
    version: &Version,
    ranges: &[RangeTombstone],
    present: Present<'_>,
    tables_max: usize,
) -> Vec<DeadTable> {
    let ranges = all_ranges(version, ranges, present);
    let mut dead = Vec::new();
    let mut dropped = HashSet::new();
    // The oldest first.
    for level in (0..LEVELS).rev() {
        for table in version.level(level).iter().rev() {
            if dead.len() == tables_max {
                return dead;
            }
            if table.is_busy() {
                continue;
            }
            let has_values = |older: &&Arc<TableHandle>| {
                let meta = older.meta();
                meta.entries > meta.tombstones && !dropped.contains(&meta.id)
            };
            let death = if is_covered(table, &ranges, present) {
                Death::Covered
            } else if is_lifeless(table, present)
                && !version.older_than(level, table).any(|older| has_values(&older))
            {
                Death::Lifeless
            } else {
                continue;
            };
            dropped.insert(table.meta().id);
            dead.push(DeadTable { level, table: Arc::clone(table), death });
        }
    }
    dead
}

/// The visible range tombstones of memtables and tables.
fn all_ranges(
    version: &Version,
    in_memory: &[RangeTombstone],
    present: Present<'_>,
) -> RangeTombstones {
    let of_tables = version.tombstoned().iter().flat_map(|table| {
        // The tombstones of an ingested table would need its sequence; it has none.
        table.range_tombstones().tombstones()
    });
    let visible = in_memory.iter().filter(|t| t.sequence <= present.visible).cloned();
    let all: Vec<RangeTombstone> = of_tables.chain(visible).collect();
    RangeTombstones::newest(&all, present.snapshots)
}

/// Whether all entries of `table` are tombstones or have expired, and no snapshot is older.
fn is_lifeless(table: &TableHandle, present: Present<'_>) -> bool {
    has_only_expired(table, present.now_ms) && !present.is_before(table.newest_sequence())
}

/// Whether all entries of `table` are tombstones or have expired.
fn has_only_expired(table: &TableHandle, now_ms: u64) -> bool {
    let properties = table.table().properties();
    let is_past = properties.expiring == 0 || properties.latest_deadline_ms <= now_ms;
    is_past && properties.tombstones + properties.expiring == properties.entries
}

/// Whether newer range tombstones hide all of `table` from all readers.
fn is_covered(table: &TableHandle, ranges: &RangeTombstones, present: Present<'_>) -> bool {
    let meta = table.meta();
    let newest = table.newest_sequence();
    let fragments = ranges.fragments();
    let first = fragments.partition_point(|fragment| *fragment.end <= *meta.smallest);
    let mut covered_up_to = &*meta.smallest;
    // The oldest tombstones that hide the table: most snapshots see them.
    let mut hidden_from: Sequence = 0;
    for fragment in &fragments[first..] {
        if *fragment.start > *covered_up_to {
            return false;
        }
        let Some(sequence) = oldest_after(fragment, newest) else { return false };
        hidden_from = hidden_from.max(sequence);
        covered_up_to = &fragment.end;
        let is_end = match meta.largest_is_exclusive {
            true => covered_up_to >= &*meta.largest,
            false => covered_up_to > &*meta.largest,
        };
        if is_end {
            return !present.is_between(table.oldest_sequence(), hidden_from);
        }
    }
    false
}

/// The oldest tombstone of the fragment that is newer than `sequence`.
fn oldest_after(fragment: &Fragment, sequence: Sequence) -> Option<Sequence> {
    fragment.sequences.iter().copied().filter(|&tombstone| tombstone > sequence).min()
}
