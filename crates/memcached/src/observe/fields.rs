//! What each sample of a cache has, and each sample of one of its flash devices: two flat lists,
//! from which come `/api/stats`, what the page draws and tables in `docs/reference/memcached.md`.
//!
//! The counters that they name are those of `metrics.rs` and of [`FLASH_COUNTERS`].

use tidekv_observe::history::Origin::{Most, P50, P99, Rate, State};
use tidekv_observe::history::{Field, History, field};
use tidekv_tiered::{DeviceState, DeviceStats};

use crate::observe::times::CacheTimes;

/// The history of a cache, all devices together.
pub(crate) type CacheHistory = History<{ CACHE_FIELDS.len() }, CacheTimes>;
/// The history of one device.
pub(crate) type DeviceHistory = History<{ DEVICE_FIELDS.len() }, CacheTimes>;

/// The latency of requests.
pub(crate) const REQUESTS: &str = "server.latency";
/// How long lookups took that read a device.
pub(crate) const READS: &str = "flash.read_times";
/// The worst state of a device, as [`state_number`] says it.
pub(crate) const STATE: &str = "flash.state";

/// What a second of a cache says.
#[rustfmt::skip]
pub(crate) static CACHE_FIELDS: [Field; 30] = [
    field("requests", "1/s", "requests of clients", Rate(&["server.requests"])),
    field("offloaded", "1/s", "of them, those that ran on an I/O thread", Rate(&["server.offloaded"])),
    field("clients", "1", "connections of clients", State("server.connected_clients")),
    field("request_us_p50", "us", "half of the requests took at most", P50(REQUESTS)),
    field("request_us_p99", "us", "99 % of the requests took at most", P99(REQUESTS)),
    field("dram_hits", "1/s", "objects that were found in DRAM", Rate(&["cache.dram_hits"])),
    field("flash_hits", "1/s", "objects that were found on flash", Rate(&["cache.flash_hits"])),
    field("misses", "1/s", "objects that were not there", Rate(&["cache.misses"])),
    field("stores", "1/s", "objects that were stored", Rate(&["cache.stores"])),
    field("evictions", "1/s", "objects that left DRAM for want of room", Rate(&["cache.evicted"])),
    field("dram_bytes", "B", "objects in DRAM: what they take", State("cache.dram_bytes")),
    field("dram_bytes_max", "B", "DRAM that there is for objects and for what flash has of it", State("cache.dram_bytes_max")),
    field("flash_dram_bytes", "B", "of it, what the indexes and write buffers of flash take", State("flash.dram_bytes")),
    field("dram_objects", "1", "objects in DRAM", State("cache.dram_objects")),
    field("flash_objects", "1", "objects on flash, about: some have been replaced since", State("flash.objects")),
    field("device_hits", "1/s", "lookups that found a record on a device, or in its write buffers", Rate(&["flash.hits"])),
    field("index_reads", "1/s", "pages of the index that lookups read", Rate(&["flash.index_reads"])),
    field("index_reads_in_vain", "1/s", "of these, those for keys that were not there", Rate(&["flash.index_reads_of_misses"])),
    field("object_reads", "1/s", "records that lookups read", Rate(&["flash.object_reads"])),
    field("object_reads_in_vain", "1/s", "of these, those for keys that were not there", Rate(&["flash.object_reads_of_misses"])),
    field("flash_us_p50", "us", "half of the lookups that read a device took at most", P50(READS)),
    field("flash_us_p99", "us", "99 % of the lookups that read a device took at most", P99(READS)),
    field("object_bytes_written", "B/s", "keys and values that went to flash", Rate(&["flash.object_bytes_written"])),
    field("flash_bytes_written", "B/s", "all that was written to flash: segments, pages of the index, other metadata", Rate(&["flash.bytes_written"])),
    field("expired_early_bytes", "B/s", "records that went from flash before their deadlines, with their segments, about", Rate(&["flash.expired_early_bytes"])),
    field("bypassed", "1/s", "objects that flash did not take because no write buffer was free", Rate(&["flash.bypassed"])),
    field("too_large", "1/s", "objects that flash did not take because they were too large", Rate(&["flash.too_large"])),
    field("over_budget", "1/s", "objects that flash did not take because too much had been written lately", Rate(&["flash.over_budget"])),
    field("invalidations", "1/s", "invalidations of copies on flash that were logged", Rate(&["flash.invalidations"])),
    field("devices_out", "1", "devices that are out", Most("flash.devices_out")),
];

/// What a second of a device says.
#[rustfmt::skip]
pub(crate) static DEVICE_FIELDS: [Field; 13] = [
    field("state", "", "the worst state in that time: 0 for ok, 1 for suspect, 2 for warming, 3 for out", Most(STATE)),
    field("hits", "1/s", "lookups that found a record", Rate(&["flash.hits"])),
    field("reads", "1/s", "pages of the index and records that lookups read", Rate(&["flash.index_reads", "flash.object_reads"])),
    field("errors", "1/s", "operations that the device failed", Rate(&["flash.errors"])),
    field("read_us_p50", "us", "half of the lookups that read the device took at most", P50(READS)),
    field("read_us_p99", "us", "99 % of the lookups that read the device took at most", P99(READS)),
    field("bytes_written", "B/s", "all that was written", Rate(&["flash.bytes_written"])),
    field("segments", "1", "segments on it", State("flash.segments")),
    field("objects", "1", "objects on it, about", State("flash.objects")),
    field("index_bytes", "B", "DRAM that is there for each object on it", State("flash.index_bytes")),
    field("device_dram_bytes", "B", "DRAM that its index and its write buffers take", State("flash.dram_bytes")),
    field("times_out", "1", "how often it has gone out", State("flash.times_out")),
    field("times_back", "1", "how often it has come back", State("flash.times_back")),
];

/// A number of a device, which all devices together have as a sum.
pub(crate) type FlashCounter = (&'static str, fn(&DeviceStats) -> u64);

/// What samples are made of.
pub(crate) static FLASH_COUNTERS: [FlashCounter; 20] = [
    ("flash.hits", |d| d.counts.hits),
    ("flash.index_reads", |d| d.counts.index_reads),
    ("flash.index_reads_of_misses", |d| d.counts.index_reads_of_misses),
    ("flash.object_reads", |d| d.counts.object_reads),
    ("flash.object_reads_of_misses", |d| d.counts.object_reads_of_misses),
    ("flash.errors", |d| d.counts.errors),
    ("flash.object_bytes_written", |d| d.counts.object_bytes_written),
    ("flash.bytes_written", |d| {
        let metadata = d.counts.page_bytes_written + d.counts.metadata_bytes_written;
        d.counts.segment_bytes_written + metadata
    }),
    ("flash.expired_early_bytes", |d| d.counts.bytes_expired_early),
    ("flash.bypassed", |d| d.counts.bypassed),
    ("flash.too_large", |d| d.counts.too_large),
    ("flash.over_budget", |d| d.counts.over_budget),
    ("flash.invalidations", |d| d.counts.invalidations),
    ("flash.segments", |d| d.segments),
    ("flash.objects", |d| d.objects),
    ("flash.index_bytes", |d| d.index_bytes),
    ("flash.dram_bytes", |d| d.dram_bytes),
    ("flash.times_out", |d| d.times_out),
    ("flash.times_back", |d| d.times_back),
    ("flash.devices_out", |d| u64::from(d.state == DeviceState::Out)),
];

/// A state as a number: the worse, the higher.
pub(crate) fn state_number(state: DeviceState) -> u64 {
    match state {
        DeviceState::Ok => 0,
        DeviceState::Suspect => 1,
        DeviceState::Warming => 2,
        DeviceState::Out => 3,
    }
}
