//! Which writes there are, which of them readers see, and what snapshots hold on to.
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
    /// The last sequence given out. Written by the commit leader.
    last_sequence: AtomicU64,
    /// Readers see writes up to here.
    visible: AtomicU64,
    /// How many snapshots hold each sequence.
    live: Mutex<BTreeMap<Sequence, usize>>,
}

impl Snapshots {
    /// Of a store whose last write, which is visible, has the sequence `last`.
    pub(crate) fn new(last: Sequence) -> Self {
        Self {
            last_sequence: AtomicU64::new(last),
            visible: AtomicU64::new(last),
            live: Mutex::new(BTreeMap::new()),
        }
    }

    /// Up to where readers see writes.
    #[inline]
    pub(crate) fn visible(&self) -> Sequence {
        self.visible.load(Ordering::Acquire)
    }

    /// Lets readers see what was inserted with sequences up to this one.
    pub(crate) fn publish(&self, sequence: Sequence) {
        self.visible.store(sequence, Ordering::Release);
    }

    /// The last sequence given out. Only while leading, or before anybody writes.
    pub(crate) fn last_sequence(&self) -> Sequence {
        self.last_sequence.load(Ordering::Relaxed)
    }

    /// All sequences up to this one are used up. Only while leading.
    pub(crate) fn use_up_to(&self, sequence: Sequence) {
        self.last_sequence.store(sequence, Ordering::Relaxed);
    }

    /// A log that is replayed has used this sequence.
    pub(crate) fn found_in_log(&self, sequence: Sequence) {
        self.last_sequence.fetch_max(sequence, Ordering::Relaxed);
    }

    /// The sequences that snapshots hold, ascending.
    pub(crate) fn sequences(&self) -> Vec<Sequence> {
        self.live.lock().keys().copied().collect()
    }

    /// Registers a snapshot of the present.
    pub(crate) fn take_snapshot(&self) -> Sequence {
        let mut live = self.live.lock();
        // Read under the lock: a flush or compaction that copies the list
        // before holds only writes that this snapshot sees the newest of.
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
