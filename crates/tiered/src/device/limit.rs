//! How much a flash device may have, which can change while it is used: how many slots, more at once and
//! fewer step by step; and how much DRAM.
//!
//! Where fewer may be than are, segments go in the order in which they would anyway ([`crate::segment::slots`]):
//!
//! 1. [`Device::set_slots_max`] says it. No slot comes to be in use from then on beside those that are,
//!    and of the free ones those are held back that may not be used.
//! 2. [`Device::shrink`], from the device's upkeep, lets a few segments go at a time: that the slot is
//!    free is written before its records count as gone, as where a segment goes for another one.
//! 3. What stood in slots that are held back is given back to the file system, with no lock held: until
//!    that has been done the slot is not given out, and by then the device says that it is free.
//!
//! Where none may be in use, what is in buffers goes as well, and nothing is taken.
//!
//! Guarantee: a recovery may begin after any of these writes. The number itself is not on the device: a
//! recovery finds free slots, and may use all of them.
//!
//! One thread at a time does what upkeep does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidekv_io::Result;

use crate::device::flash_device::{Device, Filling};
use crate::index::flash_dram::Limits;
use crate::segment::segment_table::Slot;

/// So many segments go before others have their turn.
const STEP_SEGMENTS: usize = 8;

impl Device {
    /// From now on it may have so much DRAM. More may be taken at once. Where it is less, hot entries go
    /// that were not asked for lately, and buffers as soon as what is in them is written.
    pub(crate) fn set_limits(&self, limits: Limits) {
        let limits = limits.within(self.partitions.len());
        self.limits.store(Arc::new(limits));
        self.hot.resize(limits.hot_bytes);
        // Of the changes some may be too many that were not worth a try before.
        self.futile_changes.store(0, Ordering::Relaxed);
        let mut filling = self.filling.lock();
        while filling.open.len() > limits.open.max(1) {
            let len = |index: &usize| filling.open[*index].read().len();
            let Some(fullest) = (0..filling.open.len()).max_by_key(len) else { break };
            self.seal(&mut filling, fullest);
        }
        let spare = limits.buffers.saturating_sub(filling.buffers);
        filling.spare.truncate(spare);
    }

    /// From now on so many slots may be in use, or all if that is more.
    pub(crate) fn set_slots_max(&self, count: u32) {
        self.filling.lock().slots.set_in_use_max(count as usize);
    }

    /// Whether there is something to do for [`Device::shrink`].
    pub(crate) fn is_to_shrink(&self) -> bool {
        self.has_too_many(&self.filling.lock())
    }

    /// As [`Device::is_to_shrink`], for who has the lock.
    pub(crate) fn has_too_many(&self, filling: &Filling) -> bool {
        let is_none_to_be = filling.slots.in_use_max() == 0;
        let are_buffered = !filling.open.is_empty() || !filling.sealed.is_empty();
        !self.is_broken() && (filling.slots.is_to_shrink() || is_none_to_be && are_buffered)
    }

    /// Lets some of the segments go that are too many, and gives their room back.
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
            // Whoever waits for the lock comes in between.
            let mut filling = self.filling.lock();
            let Some((id, went)) = filling.slots.shed(now_s) else { break };
            // A recovery must not find what counts as gone from here on.
            self.write_slot(&Slot::free(id))?;
            self.lives.set_free(id);
            self.count_gone(&went, now_s);
        }
        self.give_room_back();
        Ok(())
    }

    /// Where no slot may be in use, what is in buffers goes.
    fn drop_buffered(&self) {
        let mut filling = self.filling.lock();
        if filling.slots.in_use_max() > 0 {
            return;
        }
        let open = std::mem::take(&mut filling.open);
        let sealed = std::mem::take(&mut filling.sealed).into_iter().map(|(_, segment)| segment);
        for segment in open.into_iter().chain(sealed) {
            let (slot, records) = {
                let segment = segment.read();
                (segment.id().slot, segment.records())
            };
            self.lives.set_free(filling.slots.give_back(slot));
            self.buffers.write().remove(&slot);
            filling.buffers -= 1;
            self.buffered.fetch_sub(records.into(), Ordering::Relaxed);
            self.counters.segments_evicted.add(1);
            self.keep_buffer(&mut filling, segment);
        }
        // Their changes wait for nothing any more.
        self.futile_changes.store(0, Ordering::Relaxed);
    }

    /// Gives the room of some slots back that are held back. That it cannot be done is no fault: then
    /// it is kept.
    fn give_room_back(&self) {
        for _ in 0..STEP_SEGMENTS {
            let Some(slot) = self.filling.lock().slots.next_to_empty() else { return };
            let at = self.layout.segment_at(slot);
            if let Err(error) = self.data.punch_hole(at, self.layout.segment_bytes.into()) {
                tracing::debug!("room on flash is kept: {error}");
            }
            self.filling.lock().slots.emptied(slot);
        }
    }
}
