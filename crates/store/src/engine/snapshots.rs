//! The last sequence, the visible sequence, and the sequences that snapshots hold.
//!
//! Guarantee: a snapshot takes its sequence under the lock of the list, so a thread
//! that copies the list afterwards either finds it there, or has seen every write that it sees.

use std::collections::BTreeMap;

use crate::format::key::Sequence;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The sequences of a store.
#[derive(Debug)]
pub(crate) struct Snapshots {
    /// The last sequence allocated. Written by the commit leader.
    last_sequence: AtomicU64,
    /// Readers see writes up to here.
    visible: AtomicU64,
    /// The number of snapshots of each sequence.
    live: Mutex<BTreeMap<Sequence, usize>>,
}

impl Snapshots {
    /// The state of a store whose last write has the sequence `last` and is visible.
    pub(crate) fn new(last: Sequence) -> Self {
        Self {
            last_sequence: AtomicU64::new(last),
            visible: AtomicU64::new(last),
            live: Mutex::new(BTreeMap::new()),
        }
    }

    /// The sequence up to which readers see writes.
    #[inline]
    pub(crate) fn visible(&self) -> Sequence {
        self.visible.load(Ordering::Acquire)
    }

    /// Makes writes with sequences up to this one visible.
    pub(crate) fn publish(&self, sequence: Sequence) {
        self.visible.store(sequence, Ordering::Release);
    }

    /// The last sequence allocated. Only while leading, or before there are writers.
    pub(crate) fn last_sequence(&self) -> Sequence {
        self.last_sequence.load(Ordering::Relaxed)
    }

    /// Records that all sequences up to this one are allocated. Only while leading.
    pub(crate) fn use_up_to(&self, sequence: Sequence) {
        self.last_sequence.store(sequence, Ordering::Relaxed);
    }

    /// Records a sequence found in a log that is replayed.
    pub(crate) fn found_in_log(&self, sequence: Sequence) {
        self.last_sequence.fetch_max(sequence, Ordering::Relaxed);
    }

    /// The sequences that snapshots hold, ascending.
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        self.live.lock().keys().copied().collect()
    }

    /// Registers a snapshot of the current state.
    pub(crate) fn take_snapshot(&self) -> Sequence {
        let mut live = self.live.lock();
        // Read under the lock: a flush or compaction that copied the list earlier holds only writes
        // of which this snapshot sees the newest.
        let sequence = self.visible();
        *live.entry(sequence).or_insert(0) += 1;
        sequence
    }

    pub(crate) fn release_snapshot(&self, sequence: Sequence) {
        let mut live = self.live.lock();
        if let Some(count) = live.get_mut(&sequence) {
            *count -= 1;
            if *count == 0 {
                live.remove(&sequence);
            }
        }
    }
}
