//! The operations that the index did not have yet when a device was last used: invalidations of the
//! log and records of whole segments, in their order.
//!
//! Segments that were filled at the same time have interleaved operations, others do not: so their
//! summaries are read in the order in which segments were opened, and merged with the log; a
//! summary is held from the first of its operations to the last.
//!
//! Guarantees:
//! 1. Operations are applied in the order of their sequences, each once.
//! 2. No more summaries are in memory than segments were open at once.
//! 3. A segment with a damaged summary is reported, and has no operation.
//!
//! Relies on [`crate::segment::buffer`]: no operation of a segment is older than the segment, and
//! a summary has them in their order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::entry::Entry;
use crate::index::partition::Restored;
use crate::segment::buffer::Summary;
use crate::segment::invalidations::Invalidation;
use crate::segment::segment_table::Slot;

/// Operations passed to `apply` at a time.
const SHOWN: usize = 256;

/// The summaries of a segment, and the index of the next one.
struct Stream {
    summaries: Vec<Summary>,
    next: usize,
}

/// Passes to `apply` all operations later than `from`, in batches: of the log, and of `segments`,
/// whose summaries `read` reads. Returns the slots of segments whose summaries are unreadable or
/// inconsistent.
pub(crate) fn replay(
    mut log: Vec<Invalidation>,
    mut segments: Vec<Slot>,
    from: u64,
    read: impl Fn(&Slot) -> Option<Vec<Summary>>,
    mut apply: impl FnMut(&[Restored]),
) -> Vec<u32> {
    log.sort_unstable_by_key(|invalidation| invalidation.sequence);
    let mut log = log.into_iter().filter(|invalidation| invalidation.sequence > from).peekable();
    segments.sort_unstable_by_key(|segment| segment.order);
    let mut segments = segments.into_iter().peekable();
    let mut damaged = Vec::new();
    let mut shown = Vec::with_capacity(SHOWN);
    let mut streams: Vec<Stream> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut turns = BinaryHeap::new();
    loop {
        let of_stream = turns.peek().map(|Reverse((sequence, _))| *sequence);
        let of_log = log.peek().map(|invalidation| invalidation.sequence);
        let next = of_stream.into_iter().chain(of_log).min();
        if let Some(segment) =
            segments.next_if(|segment| next.is_none_or(|next| segment.order < next))
        {
            let Some(summaries) = read(&segment).filter(|found| is_in_order(found, &segment))
            else {
                damaged.push(segment.id.slot);
                continue;
            };
            let next = summaries.partition_point(|summary| summary.sequence <= from);
            let Some(first) = summaries.get(next) else { continue };
            let place = free.pop().unwrap_or(streams.len());
            turns.push(Reverse((first.sequence, place)));
            let stream = Stream { summaries, next };
            match streams.get_mut(place) {
                Some(before) => *before = stream,
                None => streams.push(stream),
            }
            continue;
        }
        if next.is_none() || shown.len() == SHOWN {
            apply(&shown);
            shown.clear();
        }
        let Some(next) = next else { return damaged };
        if of_log == Some(next)
            && let Some(Invalidation { name, sequence, .. }) = log.next()
        {
            let entry = Entry::tombstone(name.fingerprint);
            shown.push(Restored { partition: name.partition, entry, sequence });
            continue;
        }
        let Some(Reverse((_, place))) = turns.pop() else { continue };
        let stream = &mut streams[place];
        let Summary { name, sequence, location } = stream.summaries[stream.next];
        let entry = Entry::record(name.fingerprint, location);
        shown.push(Restored { partition: name.partition, entry, sequence });
        stream.next += 1;
        match stream.summaries.get(stream.next) {
            Some(summary) => turns.push(Reverse((summary.sequence, place))),
            None => {
                stream.summaries = Vec::new();
                free.push(place);
            }
        }
    }
}

/// Whether a segment's operations are in its range and in order.
fn is_in_order(summaries: &[Summary], segment: &Slot) -> bool {
    let is_inside = |summary: &Summary| {
        segment.order < summary.sequence && summary.sequence <= segment.sequence_max
    };
    summaries.iter().all(is_inside) && summaries.is_sorted_by_key(|summary| summary.sequence)
}

#[cfg(test)]
mod tests;
