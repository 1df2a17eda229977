//! A device slot: a place for a flash device, with all state that outlives the device in it. A
//! device that is out leaves its slot empty; its counters, health and limit stay.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tidekv_io::Executor;

use crate::device::flash_device::Device;
use crate::device::read_times::{ReadClock, ReadTimes};
use crate::device::stats::{DeviceCounters, DeviceCounts};
use crate::fleet::health::{DeviceState, Health};
use crate::options::FlashOptions;
use crate::segment::layout::Layout;
use crate::stats::Counter;

/// The statistics of a flash device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceStats {
    /// Its path.
    pub path: String,
    /// Its size, in bytes.
    pub bytes: u64,
    /// How many bytes of it may be used now.
    pub bytes_max: u64,
    /// Its state.
    pub state: DeviceState,
    /// How often it has been detached.
    pub times_out: u64,
    /// How often it has been attached again.
    pub times_back: u64,
    /// Segments on it.
    pub segments: u64,
    /// The limit of segments.
    pub segments_max: u64,
    /// The size of a segment, in bytes.
    pub segment_bytes: u64,
    /// The DRAM that its index takes, write buffers included, in bytes.
    pub dram_bytes: u64,
    /// Of these, the fixed cost of the objects on it, whether they are accessed or not: the
    /// filters, the index of small objects, and the state of each partition and segment. Locations,
    /// hot entries and changes have a budget of their own.
    pub index_bytes: u64,
    /// Objects on it, approximately: some have been replaced since.
    pub objects: u64,
    /// Its counters.
    pub counts: DeviceCounts,
    /// The latency of successful lookups that read it.
    pub read_times: ReadTimes,
}

/// A place for a device, which may be out.
#[derive(Debug)]
pub(crate) struct DeviceSlot {
    pub(crate) options: FlashOptions,
    pub(crate) layout: Layout,
    /// Held while a device is notified, so that one that returns has the current limit.
    pub(crate) limit: Mutex<SlotLimit>,
    pub(crate) device: ArcSwapOption<Device>,
    pub(crate) health: Mutex<Health>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) is_scheduled: AtomicBool,
    pub(crate) cursor: Mutex<usize>,
    pub(crate) times_out: Counter,
    pub(crate) times_back: Counter,
    pub(crate) counters: Arc<DeviceCounters>,
    pub(crate) read_clock: ReadClock,
    /// Bytes written, and the time, when the device returned.
    pub(crate) returned: Mutex<(u64, u64)>,
}

/// The limit of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotLimit {
    pub(crate) bytes: u64,
    pub(crate) slots: u32,
}

impl DeviceSlot {
    /// The statistics of its device.
    pub(crate) fn stats(&self) -> DeviceStats {
        let limit = *self.limit.lock();
        let mut stats = DeviceStats {
            path: self.options.path.display().to_string(),
            bytes: self.options.bytes,
            bytes_max: limit.bytes,
            state: self.health.lock().state(),
            times_out: self.times_out.get(),
            times_back: self.times_back.get(),
            segments: 0,
            segments_max: limit.slots.into(),
            segment_bytes: self.layout.segment_bytes.into(),
            dram_bytes: 0,
            index_bytes: 0,
            objects: 0,
            counts: self.counters.get(),
            read_times: self.read_clock.get(),
        };
        if let Some(device) = &*self.device.load() {
            let memory = device.memory();
            stats.segments = memory.segments as u64;
            stats.objects = memory.records as u64;
            stats.index_bytes = memory.index_bytes as u64;
            stats.dram_bytes = (memory.index_bytes + memory.hot_bytes + memory.buffer_bytes) as u64;
        }
        stats
    }
}
