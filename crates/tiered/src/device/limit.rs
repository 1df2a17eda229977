//! The limits of a flash device, which can change while it is in use: its slots, raised at once and
//! lowered step by step, and its DRAM.
//!
//! To lower the number of slots, segments are evicted in the usual order
//! ([`crate::segment::slots`]):
//!
//! 1. [`Device::set_slots_max`] sets the limit. From then on no further slot comes into use, and
//!    the free slots above the limit are held back.
//! 2. [`Device::shrink`], from the device's upkeep, evicts a few segments at a time: the slot is
//!    written as free before its records count as gone, as in any eviction.
//! 3. The space of slots that are held back returns to the file system, with no lock held: the slot
//!    is not given out before that, and by then it is written as free.
//!
//! With a limit of zero the buffered records are dropped as well, and nothing is accepted.
//!
//! Guarantee: a recovery may begin after any of these writes. The limit itself is not stored on the
//! device: a recovery finds free slots, and may use all of them.
//!
//! Upkeep runs in one thread at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidekv_io::Result;

use crate::device::flash_device::{Device, WriteState};
use crate::index::flash_dram::Limits;

/// Segments evicted per step, before other work has its turn.
const STEP_SEGMENTS: usize = 8;

impl Device {
    /// Sets the DRAM limits. An increase takes effect at once. On a decrease, hot entries that were
    /// not accessed recently are dropped, and buffers as soon as their contents are written.
    pub(crate) fn set_limits(&self, limits: Limits) {
        let limits = limits.within(self.partitions.len());
        self.limits.store(Arc::new(limits));
        self.divide_index_memory();
        // The limit may now be exceeded by changes that were not worth a try before.
        self.futile_changes.store(0, Ordering::Relaxed);
        let mut write_state = self.write_state.lock();
        while write_state.open.len() > limits.open.max(1) {
            let len = |index: &usize| write_state.open[*index].read().len();
            let Some(fullest) = (0..write_state.open.len()).max_by_key(len) else { break };
            self.seal(&mut write_state, fullest);
        }
        let spare = limits.buffers.saturating_sub(write_state.buffers);
        write_state.spare.truncate(spare);
    }

    /// Limits the slots in use to `count`, or to all if that is more.
    pub(crate) fn set_slots_max(&self, count: u32) {
        self.write_state.lock().slots.set_in_use_max(count as usize);
    }

    /// Whether [`Device::shrink`] has work to do.
    pub(crate) fn is_to_shrink(&self) -> bool {
        self.has_too_many(&self.write_state.lock())
    }

    /// As [`Device::is_to_shrink`], for a caller that holds the lock.
    pub(crate) fn has_too_many(&self, write_state: &WriteState) -> bool {
        let is_none_to_be = write_state.slots.in_use_max() == 0;
        let are_buffered = !write_state.open.is_empty()
            || !write_state.sealed.is_empty()
            || !self.small.buffers.read().is_empty();
        !self.is_broken() && (write_state.slots.is_to_shrink() || is_none_to_be && are_buffered)
    }

    /// Evicts some of the excess segments and returns their space.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn shrink(&self, now_s: u32) -> Result<()> {
        if !self.is_to_shrink() {
            return Ok(());
        }
        self.drop_buffered();
        for _ in 0..STEP_SEGMENTS {
            // Other threads that wait for the lock get it in between.
            let mut write_state = self.write_state.lock();
            let Some((id, evicted)) = write_state.slots.shed(now_s) else { break };
            self.free_slot(id, &evicted, now_s)?;
        }
        self.give_room_back();
        Ok(())
    }

    /// With a limit of zero, drops the buffered records.
    fn drop_buffered(&self) {
        if self.write_state.lock().slots.in_use_max() > 0 {
            return;
        }
        self.drop_buffered_small();
        let mut write_state = self.write_state.lock();
        let open = std::mem::take(&mut write_state.open);
        let sealed =
            std::mem::take(&mut write_state.sealed).into_iter().map(|(_, segment)| segment);
        for segment in open.into_iter().chain(sealed) {
            let (slot, records) = {
                let segment = segment.read();
                (segment.id().slot, segment.records())
            };
            self.live_segments.set_free(write_state.slots.give_back(slot));
            self.buffers.write().remove(&slot);
            write_state.buffers -= 1;
            self.buffered.fetch_sub(records.into(), Ordering::Relaxed);
            self.counters.segments_evicted.add(1);
            self.keep_buffer(&mut write_state, segment);
        }
        // Their changes no longer wait for a segment.
        self.futile_changes.store(0, Ordering::Relaxed);
    }

    /// Returns the space of some slots that are held back. If the file system cannot do that, the
    /// space is kept; this is no fault.
    fn give_room_back(&self) {
        for _ in 0..STEP_SEGMENTS {
            let Some(slot) = self.write_state.lock().slots.next_to_empty() else { return };
            let at = self.layout.segment_at(slot);
            if let Err(error) = self.data.punch_hole(at, self.layout.segment_bytes.into()) {
                tracing::debug!("room on flash is kept: {error}");
            }
            self.write_state.lock().slots.emptied(slot);
        }
    }
}
