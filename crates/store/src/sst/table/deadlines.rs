//! The distribution of a table's deadlines: how many entries and bytes have expired at a time,
//! without reading the table.
//!
//! A small set of groups; each has the latest deadline of its entries, their number and their
//! bytes. When there are too many groups, neighbours are merged until each holds about the same
//! bytes.
//!
//! Guarantee: what counts as expired has expired, because a group counts as soon as its latest
//! deadline has passed. With [`GROUPS_MAX`] groups about three hundredths of the expired bytes are
//! not counted yet.

use crate::format::coding::{Reader, put_varint};

/// Groups that a table stores.
const GROUPS_MAX: usize = 32;

/// Groups that are kept while a table is built, so that merging them costs little per entry.
const GROUPS_OPEN: usize = 256;

/// Entries whose deadlines are close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    /// The latest of their deadlines, in milliseconds since 1970.
    until_ms: u64,
    entries: u64,
    /// Bytes of their keys and payloads before compression.
    bytes: u64,
}

/// Entries, and the bytes of their keys and payloads before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ExpiredShare {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

/// The deadlines of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Deadlines {
    /// Ascending once [`Self::compress`] has been called.
    groups: Vec<Group>,
    /// The table stores no distribution.
    is_assumed: bool,
}

impl Deadlines {
    /// A single group of `entries` with `bytes`, whose latest deadline is `until_ms`: for tables
    /// without a stored distribution.
    pub(super) fn whole(until_ms: u64, entries: u64, bytes: u64) -> Self {
        Self { groups: vec![Group { until_ms, entries, bytes }], is_assumed: true }
    }

    /// Whether it is that of [`Self::whole`].
    pub(super) fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    /// Counts an entry of `bytes`.
    pub(super) fn add(&mut self, deadline_ms: u64, bytes: u64) {
        if let Some(last) = self.groups.last_mut()
            && last.until_ms == deadline_ms
        {
            last.entries += 1;
            last.bytes += bytes;
            return;
        }
        if self.groups.len() >= GROUPS_OPEN {
            self.compress();
        }
        self.groups.push(Group { until_ms: deadline_ms, entries: 1, bytes });
    }

    /// Sorts the groups and merges neighbours until there are at most [`GROUPS_MAX`].
    pub(super) fn compress(&mut self) {
        self.groups.sort_by_key(|group| group.until_ms);
        let total: u64 = self.groups.iter().map(|group| group.bytes).sum();
        let is_few = self.groups.len() <= GROUPS_MAX;
        // At most GROUPS_MAX - 1 groups reach this size, and one remains.
        let full = if is_few { 0 } else { total / (GROUPS_MAX as u64 - 1) + 1 };
        let mut merged: Vec<Group> = Vec::with_capacity(GROUPS_MAX);
        for group in self.groups.drain(..) {
            match merged.last_mut() {
                Some(last) if last.bytes < full || last.until_ms == group.until_ms => {
                    last.until_ms = group.until_ms;
                    last.entries += group.entries;
                    last.bytes += group.bytes;
                }
                _ => merged.push(group),
            }
        }
        self.groups = merged;
    }

    /// What has expired at `now_ms`.
    pub(crate) fn expired(&self, now_ms: u64) -> ExpiredShare {
        let past = self.groups.iter().filter(|group| group.until_ms <= now_ms);
        past.fold(ExpiredShare::default(), |sum, group| ExpiredShare {
            entries: sum.entries.saturating_add(group.entries),
            bytes: sum.bytes.saturating_add(group.bytes),
        })
    }

    /// The next time after `now_ms` at which more will have expired.
    pub(crate) fn next_after(&self, now_ms: u64) -> Option<u64> {
        self.groups.iter().map(|group| group.until_ms).filter(|&until| until > now_ms).min()
    }

    /// Bytes of DRAM held.
    pub(super) fn charge(&self) -> usize {
        self.groups.len() * size_of::<Group>()
    }

    /// Layout: number of groups, then for each the difference of its deadline to the previous one,
    /// entries, bytes; all varints.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.groups.len() as u64);
        let mut before = 0;
        for group in &self.groups {
            put_varint(out, group.until_ms - before);
            put_varint(out, group.entries);
            put_varint(out, group.bytes);
            before = group.until_ms;
        }
    }

    /// Reads untrusted bytes.
    pub(super) fn decode(r: &mut Reader<'_>) -> Option<Self> {
        let count = usize::try_from(r.varint()?).ok().filter(|&count| count <= GROUPS_OPEN)?;
        let mut before = 0u64;
        let group = |_| {
            before = before.checked_add(r.varint()?)?;
            Some(Group { until_ms: before, entries: r.varint()?, bytes: r.varint()? })
        };
        (0..count)
            .map(group)
            .collect::<Option<Vec<_>>>()
            .map(|groups| Self { groups, is_assumed: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: impl IntoIterator<Item = (u64, u64)>) -> Deadlines {
        let mut deadlines = Deadlines::default();
        entries.into_iter().for_each(|(deadline, bytes)| deadlines.add(deadline, bytes));
        deadlines.compress();
        deadlines
    }

    #[test]
    fn what_counts_as_expired_has_expired_and_little_is_missed() {
        for (seed, far) in [(1u64, false), (7, false), (1, true)] {
            let mut x = seed;
            let entries: Vec<(u64, u64)> = (0..20_000)
                .map(|i| {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // One in ten lives for ever so long.
                    let later = if far && i % 10 == 0 { 1 << 40 } else { 0 };
                    (later + 1000 + (x >> 40) % 50_000, 20 + (x >> 20) % 200)
                })
                .collect();
            let deadlines = of(entries.iter().copied());
            assert!(deadlines.groups.len() <= GROUPS_MAX);
            let all: u64 = entries.iter().map(|(_, bytes)| bytes).sum();
            for now in [0, 999, 5_000, 20_000, 50_999, 51_000, 1 << 50] {
                let past = entries.iter().filter(|(deadline, _)| *deadline <= now);
                let truth: u64 = past.clone().map(|(_, bytes)| bytes).sum();
                let found = deadlines.expired(now);
                assert!(found.bytes <= truth && found.entries <= past.count() as u64);
                assert!(truth - found.bytes <= all / 12, "{found:?} of {truth} at {now}");
            }
            assert_eq!(deadlines.expired(u64::MAX).entries, 20_000);
            assert_eq!(deadlines.expired(u64::MAX).bytes, all);
        }
    }

    #[test]
    fn next_change_is_announced() {
        let deadlines = of([(30, 1), (10, 1), (30, 1), (20, 1)]);
        assert_eq!(deadlines.groups.len(), 3);
        assert_eq!(deadlines.next_after(0), Some(10));
        assert_eq!(deadlines.next_after(10), Some(20));
        assert_eq!(deadlines.next_after(29), Some(30));
        assert_eq!(deadlines.next_after(30), None);
    }

    #[test]
    fn encoding_round_trips_and_truncated_bytes_are_refused() {
        let deadlines = of((0..1000).map(|i| (i * 37 % 500, i)));
        let mut bytes = Vec::new();
        deadlines.encode(&mut bytes);
        assert_eq!(Deadlines::decode(&mut Reader::new(&bytes)), Some(deadlines));
        for cut in 0..bytes.len() {
            assert_eq!(Deadlines::decode(&mut Reader::new(&bytes[..cut])), None);
        }
        assert_eq!(Deadlines::decode(&mut Reader::new(&[255, 255, 3])), None, "too many");
    }
}
