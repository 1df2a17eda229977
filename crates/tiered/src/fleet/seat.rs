//! A seat: a place for a flash device, with all that outlives the device in it. One that is out leaves its
//! seat empty, and what it has counted, how it did and how much of it may be used stay.

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

/// What a flash device looks like from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceStats {
    /// Where it is.
    pub path: String,
    /// How much of it may be used at most.
    pub bytes: u64,
    /// How much may be now.
    pub bytes_max: u64,
    /// How it does.
    pub state: DeviceState,
    /// How often it has gone out.
    pub times_out: u64,
    /// How often it has come back.
    pub times_back: u64,
    /// Segments on it.
    pub segments: u64,
    /// How many there may be.
    pub segments_max: u64,
    /// The size of one.
    pub segment_bytes: u64,
    /// What its index takes of DRAM, write buffers included.
    pub dram_bytes: u64,
    /// Of these, what is there for the objects on it, whether they are asked for or not: the negative
    /// filters, and what is fixed for a partition or a segment. Hot entries and changes are in a
    /// budget of their own, as many as it allows.
    pub index_bytes: u64,
    /// Objects on it, about: some have been replaced since.
    pub objects: u64,
    /// What it has counted.
    pub counts: DeviceCounts,
    /// How long lookups took that read it and did not fail.
    pub read_times: ReadTimes,
}

/// A place for a device, which may be out.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) options: FlashOptions,
    pub(crate) layout: Layout,
    /// Held while a device is told, so that one that comes back knows it.
    pub(crate) limit: Mutex<SeatLimit>,
    pub(crate) device: ArcSwapOption<Device>,
    pub(crate) health: Mutex<Health>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) is_scheduled: AtomicBool,
    pub(crate) cursor: Mutex<usize>,
    pub(crate) times_out: Counter,
    pub(crate) times_back: Counter,
    pub(crate) counters: Arc<DeviceCounters>,
    pub(crate) read_clock: ReadClock,
    /// What had been written, and when, when the device came back.
    pub(crate) returned: Mutex<(u64, u64)>,
}

/// How much of a device may be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeatLimit {
    pub(crate) bytes: u64,
    pub(crate) slots: u32,
}

impl Seat {
    /// How its device stands.
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
