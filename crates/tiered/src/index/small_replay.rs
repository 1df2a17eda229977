//! Rebuilds the index of small objects when a device is opened, from the summaries of its segments
//! of buckets and the log of invalidations.
//!
//! All objects of a segment count from the sequence at which it was sealed, and so do its
//! tombstones, for older segments: before that, an object was removed from the buffer itself.
//!
//! Guarantees:
//! 1. An object that DRAM did not find is not found now: each invalidation that removed an entry is
//!    in the log, or a tombstone in a segment that was sealed later.
//! 2. A segment with a damaged summary is reported, and so are all older ones: it may have had
//!    tombstones for their objects. The same holds if a segment is missing that others say was
//!    there: each names the one before, and the superblock the newest.
//!
//! Relies on segments of buckets being evicted in their order, so that no tombstone goes before the
//! objects that it is for.

use crate::index::small_index::{SmallIndex, SmallLocation};
use crate::segment::bucket_segment::TagSummary;
use crate::segment::invalidations::Invalidation;
use crate::segment::layout::Tag;
use crate::segment::segment_table::Slot;

/// An invalidation that no segment has as a tombstone yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) tag: Tag,
    /// The sequence of the operation.
    pub(crate) sequence: u64,
}

/// The outcome of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Replayed {
    /// Segments that were restored, the oldest first, with their numbers in the index.
    pub(crate) segments: Vec<(Slot, u32)>,
    /// Slots of segments that must not count.
    pub(crate) damaged: Vec<u32>,
    /// Invalidations of the log that removed objects.
    pub(crate) tombstones: Vec<Tombstone>,
}

impl Replayed {
    /// Drops all segments so far.
    fn drop_all(&mut self, index: &SmallIndex) {
        self.damaged.extend(self.segments.drain(..).map(|(older, _)| older.id.slot));
        self.tombstones.clear();
        index.clear();
    }
}

/// Inserts the objects of `segments`, whose summaries `read` reads, into an empty index, as far as
/// no later invalidation removes them. `log` is in the order of its sequences, and begins where pages
/// and segments end; `newest` is the order of a segment that was there when it was cut, if any.
pub(crate) fn replay_small<'l>(
    log: impl Iterator<Item = &'l Invalidation>,
    mut segments: Vec<Slot>,
    newest: u64,
    index: &SmallIndex,
    read: impl Fn(&Slot) -> Option<TagSummary>,
) -> Replayed {
    let mut replayed = Replayed::default();
    let mut log = log.peekable();
    let mut invalidate = |before: u64, tombstones: &mut Vec<Tombstone>| {
        while let Some(Invalidation { name, sequence, .. }) =
            log.next_if(|invalidation| invalidation.sequence < before)
        {
            if index.remove(name.tag(), |_| true) > 0 {
                tombstones.push(Tombstone { tag: name.tag(), sequence: *sequence });
            }
        }
    };
    segments.sort_unstable_by_key(|segment| segment.sequence_max);
    let has_newest = segments.iter().any(|segment| segment.order == newest);
    for (number, segment) in (0..).zip(segments) {
        invalidate(segment.sequence_max, &mut replayed.tombstones);
        let summary = read(&segment);
        let before = replayed.segments.last().map(|(before, _)| before.order);
        let is_next = |summary: &TagSummary| before.is_none_or(|before| before == summary.previous);
        if !summary.as_ref().is_some_and(is_next) {
            replayed.drop_all(index);
        }
        let is_older = segment.order < newest && !has_newest;
        let Some(summary) = summary.filter(|_| !is_older) else {
            replayed.damaged.push(segment.id.slot);
            continue;
        };
        for tag in summary.tombstones {
            index.remove(tag, |_| true);
        }
        for (tag, choice) in summary.objects {
            index.insert(tag, SmallLocation { number, choice });
        }
        replayed.segments.push((segment, number));
    }
    invalidate(u64::MAX, &mut replayed.tombstones);
    replayed
}

#[cfg(test)]
mod tests;
