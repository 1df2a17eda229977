//! Estimates how much space deleted and expired data takes, from what open tables keep in memory:
//! no table is read.
//!
//! - *Expired entries*: from the distribution of deadlines that each table stores.
//! - *Point tombstones*: each takes its own space and hides at most one entry of the older tables
//!   that overlap; an entry counts as their average.
//! - *Range tombstones*: the share of each older table's keys that they cover, from the top level of
//!   its index; within a partition keys are taken to be spread evenly.
//! - Overwritten entries do not count: the sizes of the levels bound them (`picker.rs`).
//!
//! A table all of whose entries expire, little by little, as those of a time series do, is left to
//! die, unless its part of the keyspace is large.
//!
//! What a snapshot needs is not dead: tombstones do not count as long as a snapshot may see what
//! they hide. Expired entries always count, because a snapshot does not see them either.
//!
//! Estimates may be wrong in both directions, and callers must end anyway (`reclaim.rs` says how).
//!
//! Pure: the caller passes the time and the snapshots.

use std::sync::Arc;

use crate::format::key::Sequence;
use crate::format::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::version::levels::{TableHandle, Version};

/// A table whose last entry expires in this time is not rewritten any more.
const DYING_MS: u64 = 30_000;

/// A table whose entries go on expiring for at most this many times as long as they have is not
/// rewritten for the sake of scans.
const STEADY: u64 = 4;

/// The present: what counts as dead depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present<'a> {
    pub(crate) now_ms: u64,
    /// Readers see writes up to here.
    pub(crate) visible: Sequence,
    /// The sequences that snapshots hold, ascending; copied after `visible` was read.
    pub(crate) snapshots: &'a [Sequence],
}

impl Present<'_> {
    /// Whether a snapshot sees some writes from `oldest` on, but not all of those before `end`.
    pub(crate) fn is_between(&self, oldest: Sequence, end: Sequence) -> bool {
        let at = self.snapshots.partition_point(|&snapshot| snapshot < oldest);
        self.snapshots.get(at).is_some_and(|&snapshot| snapshot < end)
    }

    /// Whether a snapshot does not see all writes up to `newest`.
    pub(crate) fn is_before(&self, newest: Sequence) -> bool {
        self.snapshots.first().is_some_and(|&oldest| oldest < newest)
    }
}

/// An amount of data on storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amount {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, other: Self) {
        self.entries = self.entries.saturating_add(other.entries);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// All of `table`; each of its range tombstones counts as an entry.
    pub(crate) fn of(table: &TableHandle) -> Self {
        let meta = table.meta();
        Self { entries: meta.entries + meta.range_tombstones, bytes: meta.bytes }
    }

    pub(crate) fn of_all<'a>(tables: impl IntoIterator<Item = &'a Arc<TableHandle>>) -> Self {
        let mut all = Self::default();
        tables.into_iter().for_each(|table| all.add(Self::of(table)));
        all
    }
}

/// Dead data that the compaction of a table would remove, or bring closer to its removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DeadData {
    pub(crate) amount: Amount,
    /// There may be more that a snapshot needs.
    pub(crate) is_held: bool,
}

impl DeadData {
    pub(crate) fn add(&mut self, other: Self) {
        self.amount.add(other.amount);
        self.is_held |= other.is_held;
    }
}

/// The dead data in `table`, which is on `level`, and that its tombstones hide in older tables.
pub(crate) fn dead_data(
    version: &Version,
    level: usize,
    table: &Arc<TableHandle>,
    present: Present<'_>,
) -> DeadData {
    let mut dead = DeadData { amount: expired(table, present.now_ms), is_held: false };
    let meta = table.meta();
    let tombstones = meta.tombstones + meta.range_tombstones;
    if tombstones == 0 {
        return dead;
    }
    let older = Amount::of_all(version.older_than(level, table));
    let oldest = version.older_than(level, table).map(|older| older.oldest_sequence()).min();
    // A tombstone that hides nothing goes once every snapshot sees it. What a tombstone hides goes
    // unless a snapshot sees that and not the tombstone.
    let is_held = match oldest {
        None => present.is_before(table.newest_sequence()),
        Some(oldest) => present.is_between(oldest, table.newest_sequence()),
    };
    if is_held {
        dead.is_held = true;
        return dead;
    }
    let own = Amount::of(table);
    let share = |count: u64| mul_div(own.bytes, count, own.entries);
    dead.amount.add(Amount { entries: tombstones, bytes: share(tombstones) });
    let hidden = meta.tombstones.min(older.entries);
    let bytes = mul_div(older.bytes, hidden, older.entries);
    dead.amount.add(Amount { entries: hidden, bytes });
    for older in version.older_than(level, table) {
        dead.amount.add(covered(older, table.range_tombstones()));
    }
    dead
}

/// The dead data that `deletions` point tombstones and `ranges` of memtables hide in `version`.
pub(crate) fn hidden_by_memtables(
    version: &Version,
    deletions: u64,
    ranges: &[RangeTombstone],
    present: Present<'_>,
) -> DeadData {
    let all = Amount::of_all(version.tables());
    let oldest = version.tables().map(|table| table.oldest_sequence()).min().unwrap_or(0);
    if present.is_between(oldest, present.visible) {
        return DeadData { amount: Amount::default(), is_held: true };
    }
    let hidden = deletions.min(all.entries);
    let mut amount = Amount { entries: hidden, bytes: mul_div(all.bytes, hidden, all.entries) };
    let ranges = RangeTombstones::newest(ranges, &[]);
    version.tables().for_each(|table| amount.add(covered(table, &ranges)));
    DeadData { amount, is_held: false }
}

/// The expired entries of `table`, with their share of its bytes, as far as a compaction should
/// remove them: in a time series each table dies entry by entry, and is then dropped unread.
fn expired(table: &TableHandle, now_ms: u64) -> Amount {
    let properties = table.table().properties();
    let all_expire = properties.tombstones + properties.expiring == properties.entries;
    let left_ms = properties.latest_deadline_ms.saturating_sub(now_ms);
    let is_dying = all_expire && left_ms > 0;
    if is_dying && left_ms <= DYING_MS {
        return Amount::default();
    }
    let past = properties.deadlines.expired(now_ms);
    let raw = properties.raw_key_bytes.saturating_add(properties.raw_value_bytes);
    let bytes = mul_div(table.meta().bytes, past.bytes.min(raw), raw);
    let passed_ms = now_ms.saturating_sub(properties.earliest_deadline_ms);
    let is_steady = is_dying && left_ms <= STEADY.saturating_mul(passed_ms);
    Amount { entries: if is_steady { 0 } else { past.entries }, bytes }
}

/// The part of `table` whose keys are covered by `ranges`, which are newer.
fn covered(table: &TableHandle, ranges: &RangeTombstones) -> Amount {
    let all = Amount::of(table);
    let reaches = |start: &[u8], end: &[u8]| table.overlaps(Some(start), Some(end));
    let mut fragments = ranges.fragments().iter().filter(|f| reaches(&f.start, &f.end)).peekable();
    if fragments.peek().is_none() {
        return Amount::default();
    }
    let scale = KeyScale::of(table);
    let bytes: f64 = fragments.map(|f| scale.bytes_between(&f.start, &f.end)).sum();
    let bytes = (bytes as u64).min(all.bytes);
    Amount { entries: mul_div(all.entries, bytes, all.bytes), bytes }
}

/// Where keys are in a table: known at the ends of the partitions of its index, and taken to be
/// spread evenly between these.
struct KeyScale {
    /// Keys with the bytes of the file up to them, ascending.
    marks: Vec<(Box<[u8]>, f64)>,
}

impl KeyScale {
    fn of(table: &TableHandle) -> Self {
        let meta = table.meta();
        let inner = table.table().partition_ends().into_iter().map(|(key, end)| (key, end as f64));
        let first = std::iter::once((meta.smallest.clone(), 0.0));
        let last = (meta.largest.clone(), meta.bytes as f64);
        Self { marks: first.chain(inner).chain([last]).collect() }
    }

    /// About how many bytes belong to keys in `[start, end)`.
    fn bytes_between(&self, start: &[u8], end: &[u8]) -> f64 {
        (self.offset_of(end) - self.offset_of(start)).max(0.0)
    }

    fn offset_of(&self, key: &[u8]) -> f64 {
        let at = self.marks.partition_point(|(mark, _)| **mark < *key);
        match (at.checked_sub(1).map(|before| &self.marks[before]), self.marks.get(at)) {
            (None, _) => 0.0,
            (Some((_, bytes)), None) => *bytes,
            (Some((first, from)), Some((last, to))) => {
                from + (to - from) * position(key, first, last)
            }
        }
    }
}

/// The position of `key` between `first` (0) and `last` (1), if keys are spread evenly.
fn position(key: &[u8], first: &[u8], last: &[u8]) -> f64 {
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let digits = key.iter().skip(common).chain(std::iter::repeat(&0)).take(6);
        digits.fold(0.0, |number, &digit| number * 256.0 + f64::from(digit))
    };
    let (first, last) = (number(first), number(last));
    ((number(key) - first) / (last - first).max(1.0)).clamp(0.0, 1.0)
}

/// `a * b / c`, 0 if `c` is.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    (u128::from(a) * u128::from(b))
        .checked_div(u128::from(c))
        .map_or(0, |quotient| u64::try_from(quotient).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_of_a_key_is_found_behind_the_common_prefix() {
        let at = |key: &[u8]| position(key, b"user-000", b"user-999");
        assert!(at(b"user-000") < 0.001 && at(b"user-999") > 0.999);
        assert!((at(b"user-500") - 0.5).abs() < 0.1, "{}", at(b"user-500"));
        assert!((position(b"5", b"0", b"9") - 0.55).abs() < 0.1);
        assert_eq!(position(b"a", b"a", b"a"), 0.0);
    }

    #[test]
    fn snapshots_hold_what_they_see_and_later_readers_do_not() {
        let present = Present { now_ms: 0, visible: 100, snapshots: &[10, 50] };
        assert!(present.is_between(5, 20) && present.is_between(10, 11));
        assert!(!present.is_between(11, 50), "50 sees all of it");
        assert!(present.is_between(11, 51) && !present.is_between(51, 100));
        assert!(present.is_before(11) && !present.is_before(10));
    }
}
