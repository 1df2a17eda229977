//! The part of an index partition that DRAM holds: the changes that its page does not have yet, and
//! the page's locator.
//!
//! ```text
//!            set()                begin_merge()              finish_merge()
//!  nothing ────────► changes ──────────────────► merging ──────────────────► in the page
//!                       ▲                           │
//!                       └───────────────────────────┘ abort_merge()
//! ```
//!
//! The newest state counts: pending changes, then changes being merged, then the page. If
//! [`Partition::find`] returns absent, a recovery does not find the name either: an invalidation is
//! written only for names that may be present, so no name that DRAM has called absent may reappear.
//! This is why
//!
//! 1. a change stays here until a page that has it is on flash, and its version is;
//! 2. a record in a segment that is not whole does not get into a page, but the page's entry of its
//!    name is removed;
//! 3. where a page has been lost, nothing is absent ([`Partition::distrust`]) until no recovery
//!    goes back so far that it would find the lost entries.
//!
//! For one thread at a time; [`crate::device::flash_device`] puts locks around it.

use std::hint::black_box;

use crate::entry::{Entry, RecordLocation};
use crate::index::locator::{Code, Locator};
use crate::segment::segment_table::{LiveSegments, SegmentState};

/// No operation has this sequence.
pub(crate) const NO_SEQUENCE: u64 = u64::MAX;

/// What DRAM knows of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DramLookup {
    /// There is no record.
    Absent,
    /// The record's entry.
    Entry(Entry),
    /// The page may have it; the code of its location if that is known.
    Page(Code),
}

/// Changes, and the sequence of the first of them.
#[derive(Debug)]
struct Changes {
    entries: Vec<Entry>,
    oldest: u64,
}

impl Changes {
    const NONE: Self = Self { entries: Vec::new(), oldest: NO_SEQUENCE };

    fn find(&self, fingerprint: u64) -> Option<Entry> {
        self.entries.iter().copied().find(|entry| entry.fingerprint() == fingerprint)
    }

    fn set(&mut self, entry: Entry, sequence: u64) {
        self.oldest = self.oldest.min(sequence);
        let fingerprint = entry.fingerprint();
        match self.entries.iter_mut().find(|entry| entry.fingerprint() == fingerprint) {
            Some(before) => *before = entry,
            None => {
                if self.entries.len() == self.entries.capacity() {
                    // Doubling would leave too much memory unused: there are many partitions.
                    self.entries.reserve_exact(8);
                }
                self.entries.push(entry);
            }
        }
    }
}

/// A partition.
#[derive(Debug)]
pub(crate) struct Partition {
    changes: Changes,
    merging: Option<Box<Changes>>,
    /// The page's locator; `None` before the page has been read.
    locator: Option<Locator>,
    /// The version of the page; 0: there is none.
    version: u32,
    /// Recoveries that start below this sequence find lost entries of the page.
    distrusted_until: u64,
}

impl Partition {
    /// A partition whose page has that version and has not been read.
    pub(crate) fn new(version: u32) -> Self {
        let locator = (version == 0).then(Locator::default);
        let changes = Changes::NONE;
        Self { changes, merging: None, locator, version, distrusted_until: 0 }
    }

    /// The version of the page.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// The state of a fingerprint.
    pub(crate) fn find(&self, fingerprint: u64, live_segments: &LiveSegments) -> DramLookup {
        match self.newest_change(fingerprint) {
            Some(entry) => match entry.location() {
                Some(location) if live_segments.has(location) => DramLookup::Entry(entry),
                _ => DramLookup::Absent,
            },
            None => match &self.locator {
                Some(locator) => match locator.find(fingerprint) {
                    Some(code) => DramLookup::Page(code),
                    None => DramLookup::Absent,
                },
                None => DramLookup::Page(Code::NONE),
            },
        }
    }

    /// Whether [`Partition::find`] would return anything but absent; cheaper.
    pub(crate) fn may_have(&self, fingerprint: u64, live_segments: &LiveSegments) -> bool {
        match self.newest_change(fingerprint) {
            Some(entry) => entry.location().is_some_and(|location| live_segments.has(location)),
            None => self.locator.as_ref().is_none_or(|locator| locator.may_have(fingerprint)),
        }
    }

    fn newest_change(&self, fingerprint: u64) -> Option<Entry> {
        let merging = || self.merging.as_ref().and_then(|merging| merging.find(fingerprint));
        self.changes.find(fingerprint).or_else(merging)
    }

    /// Whether there is a page on flash.
    pub(crate) fn has_page(&self) -> bool {
        self.version > 0
    }

    /// Records a change made by the operation with that sequence.
    pub(crate) fn set(&mut self, entry: Entry, sequence: u64) {
        self.changes.set(entry, sequence);
    }

    /// Updates the location of a record that has been written to flash, if the pending change of its
    /// fingerprint is still that record.
    pub(crate) fn relocate(&mut self, fingerprint: u64, from: RecordLocation, to: RecordLocation) {
        let is_it = |entry: &&mut Entry| {
            entry.fingerprint() == fingerprint && entry.location() == Some(from)
        };
        if let Some(entry) = self.changes.entries.iter_mut().find(is_it) {
            *entry = Entry::record(fingerprint, to);
        }
    }

    /// The number of pending changes.
    pub(crate) fn changes(&self) -> usize {
        self.changes.entries.len()
    }

    /// No operation before this sequence is needed to rebuild the partition.
    pub(crate) fn oldest(&self) -> u64 {
        let merging = self.merging.as_ref().map_or(NO_SEQUENCE, |merging| merging.oldest);
        self.changes.oldest.min(merging)
    }

    /// Installs the locator of the page that has been read.
    pub(crate) fn install(&mut self, replay_from: u64, locator: Locator) {
        if replay_from >= self.distrusted_until {
            self.locator = Some(locator);
        }
    }

    /// Whether the page's locator is missing.
    pub(crate) fn is_unknown(&self) -> bool {
        self.locator.is_none()
    }

    /// Whether the page's locator has codes.
    pub(crate) fn has_codes(&self) -> bool {
        self.locator.as_ref().is_some_and(Locator::has_codes)
    }

    /// Drops the codes of the page's locator.
    pub(crate) fn drop_codes(&mut self) {
        self.locator.iter_mut().for_each(Locator::drop_codes);
    }

    /// The page's entries are lost, though recoveries up to this sequence may find them.
    pub(crate) fn distrust(&mut self, until: u64) {
        self.locator = None;
        self.distrusted_until = until;
    }

    /// Whether a merge would bring at least half of the changes into the page.
    pub(crate) fn is_worth_merging(&self, live_segments: &LiveSegments) -> bool {
        let is_buffered = |entry: &&Entry| {
            let life = entry.location().and_then(|location| live_segments.of(location));
            matches!(life, Some((_, SegmentState::Buffered)))
        };
        let changes = self.changes();
        changes > 0 && self.changes.entries.iter().filter(is_buffered).count() <= changes / 2
    }

    /// Begins to merge the changes into the page; returns them, or `None` if there are none, or a
    /// merge is in progress.
    pub(crate) fn begin_merge(&mut self, live_segments: &LiveSegments) -> Option<Vec<Entry>> {
        if self.merging.is_some() || self.changes.entries.is_empty() {
            return None;
        }
        let mut merging = std::mem::replace(&mut self.changes, Changes::NONE);
        for entry in &mut merging.entries {
            let Some(location) = entry.location() else { continue };
            match live_segments.of(location) {
                Some((_, SegmentState::Whole)) => continue,
                Some((_, SegmentState::Buffered)) => {
                    // No operation on a segment is older than the segment.
                    self.changes.set(*entry, live_segments.order(location.slot));
                }
                None => {}
            }
            *entry = Entry::tombstone(entry.fingerprint());
        }
        let entries = merging.entries.clone();
        self.merging = Some(Box::new(merging));
        Some(entries)
    }

    /// The page with that version contains the merged changes.
    pub(crate) fn finish_merge(&mut self, version: u32, replay_from: u64, locator: Locator) {
        self.merging = None;
        self.version = version;
        self.locator = (replay_from >= self.distrusted_until).then_some(locator);
    }

    /// The page could not be written.
    pub(crate) fn abort_merge(&mut self) {
        let Some(merging) = self.merging.take() else { return };
        let newer = std::mem::replace(&mut self.changes, *merging);
        newer.entries.into_iter().for_each(|entry| self.changes.set(entry, newer.oldest));
    }

    /// The size of its locator in bytes if it has codes, otherwise 0.
    pub(crate) fn coded_bytes(&self) -> usize {
        self.locator.as_ref().map_or(0, Locator::coded_bytes)
    }

    /// The size of its locator, and the part of it that the codes take, in bytes.
    pub(crate) fn locator_bytes(&self) -> (usize, usize) {
        self.locator.as_ref().map_or((0, 0), Locator::memory_bytes)
    }

    /// Memory of its changes, in bytes.
    pub(crate) fn changes_bytes(&self) -> usize {
        let merging = self.merging.as_ref().map_or(0, |merging| merging.entries.capacity());
        (self.changes.entries.capacity() + merging) * size_of::<Entry>()
    }
}

/// An entry found by a recovery: it counts from its sequence on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restored {
    pub(crate) partition: u32,
    pub(crate) entry: Entry,
    pub(crate) sequence: u64,
}

/// Applies these entries in order.
///
/// Partitions and their changes are scattered over memory: the first passes touch many of them with
/// no dependent loads, so that the processor fetches several at once; one by one it would wait for
/// each.
pub(crate) fn restore(partitions: &mut [Partition], restored: &[Restored]) {
    let of = |found: &Restored| partitions.get(found.partition as usize);
    let changes = restored.iter().filter_map(of).map(Partition::changes);
    black_box(changes.fold(0, usize::wrapping_add));
    let is_changed = |found: &&Restored| {
        of(found).is_some_and(|at| at.changes.find(found.entry.fingerprint()).is_some())
    };
    black_box(restored.iter().filter(is_changed).count());
    for found in restored {
        if let Some(partition) = partitions.get_mut(found.partition as usize) {
            partition.set(found.entry, found.sequence);
        }
    }
}

#[cfg(test)]
mod tests;
