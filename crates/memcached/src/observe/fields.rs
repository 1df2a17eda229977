//! The fields of a cache's samples, and of the samples of each flash device: two flat lists that
//! produce `/api/stats`, the page's figures and tables in `docs/reference/memcached.md`.
//!
//! Their counters are those of `metrics.rs` and of [`FLASH_COUNTERS`].

use tidekv_observe::history::Origin::{Most, P50, P99, Rate, State};
use tidekv_observe::history::{Field, History, field};
use tidekv_tiered::{DeviceState, DeviceStats};

use crate::observe::times::CacheTimes;

/// The history of a cache, all devices together.
pub(crate) type CacheHistory = History<{ CACHE_FIELDS.len() }, CacheTimes>;
/// The history of one device.
pub(crate) type DeviceHistory = History<{ DEVICE_FIELDS.len() }, CacheTimes>;

/// The name of the request latency.
pub(crate) const REQUESTS: &str = "server.latency";
/// The name of the latency of lookups that read a device.
pub(crate) const READS: &str = "flash.read_times";
/// The name of a device's state, a number of [`state_number`].
pub(crate) const STATE: &str = "flash.state";

/// The fields of each sample of a cache.
#[rustfmt::skip]
pub(crate) static CACHE_FIELDS: [Field; 30] = [
    field("requests", "1/s", "requests received from clients", Rate(&["server.requests"])),
    field("offloaded", "1/s", "of these, requests that ran on an I/O thread", Rate(&["server.offloaded"])),
    field("clients", "1", "client connections open", State("server.connected_clients")),
    field("request_us_p50", "us", "p50 latency of requests", P50(REQUESTS)),
    field("request_us_p99", "us", "p99 latency of requests", P99(REQUESTS)),
    field("dram_hits", "1/s", "lookups that found an object in DRAM", Rate(&["cache.dram_hits"])),
    field("flash_hits", "1/s", "lookups that found an object on flash", Rate(&["cache.flash_hits"])),
    field("misses", "1/s", "lookups that found no object", Rate(&["cache.misses"])),
    field("stores", "1/s", "objects stored, new or changed", Rate(&["cache.stores"])),
    field("evictions", "1/s", "objects evicted from DRAM", Rate(&["cache.evicted"])),
    field("dram_bytes", "B", "DRAM of objects", State("cache.dram_bytes")),
    field("dram_bytes_max", "B", "DRAM budget of objects and of the indexes and write buffers of flash", State("cache.dram_bytes_max")),
    field("flash_dram_bytes", "B", "DRAM of the indexes and write buffers of flash, part of that budget", State("flash.dram_bytes")),
    field("dram_objects", "1", "objects in DRAM", State("cache.dram_objects")),
    field("flash_objects", "1", "objects on flash, estimated: some have been replaced since", State("flash.objects")),
    field("device_hits", "1/s", "lookups that found a record on a device or in its write buffers", Rate(&["flash.hits"])),
    field("index_reads", "1/s", "index pages read by lookups", Rate(&["flash.index_reads"])),
    field("index_reads_of_misses", "1/s", "of these, reads for absent keys", Rate(&["flash.index_reads_of_misses"])),
    field("object_reads", "1/s", "records and buckets of small objects read by lookups", Rate(&["flash.object_reads"])),
    field("object_reads_of_misses", "1/s", "of these, reads for absent keys", Rate(&["flash.object_reads_of_misses"])),
    field("flash_us_p50", "us", "p50 latency of lookups that read a device", P50(READS)),
    field("flash_us_p99", "us", "p99 latency of lookups that read a device", P99(READS)),
    field("object_bytes_written", "B/s", "bytes of keys and values written to flash", Rate(&["flash.object_bytes_written"])),
    field("flash_bytes_written", "B/s", "all bytes written to flash: segments, index pages, other metadata", Rate(&["flash.bytes_written"])),
    field("expired_early_bytes", "B/s", "bytes of records evicted from flash, with their segments, before they expired; estimated", Rate(&["flash.expired_early_bytes"])),
    field("bypassed", "1/s", "objects not admitted to flash because no write buffer was free", Rate(&["flash.bypassed"])),
    field("too_large", "1/s", "objects not admitted to flash because they were too large", Rate(&["flash.too_large"])),
    field("over_budget", "1/s", "objects not admitted to flash because the write budget was used up", Rate(&["flash.over_budget"])),
    field("invalidations", "1/s", "invalidations of copies on flash logged", Rate(&["flash.invalidations"])),
    field("devices_out", "1", "devices out of service", Most("flash.devices_out")),
];

/// The fields of each sample of a device.
#[rustfmt::skip]
pub(crate) static DEVICE_FIELDS: [Field; 13] = [
    field("state", "", "worst state during the sample: 0 ok, 1 suspect, 2 warming, 3 out of service", Most(STATE)),
    field("hits", "1/s", "lookups that found a record", Rate(&["flash.hits"])),
    field("reads", "1/s", "index pages, records and buckets of small objects read by lookups", Rate(&["flash.index_reads", "flash.object_reads"])),
    field("errors", "1/s", "operations that failed", Rate(&["flash.errors"])),
    field("read_us_p50", "us", "p50 latency of lookups that read the device", P50(READS)),
    field("read_us_p99", "us", "p99 latency of lookups that read the device", P99(READS)),
    field("bytes_written", "B/s", "all bytes written", Rate(&["flash.bytes_written"])),
    field("segments", "1", "segments on the device", State("flash.segments")),
    field("objects", "1", "objects on the device, estimated", State("flash.objects")),
    field("index_bytes", "B", "DRAM of the part of the index that grows with the objects on the device", State("flash.index_bytes")),
    field("device_dram_bytes", "B", "DRAM of the index and the write buffers of the device", State("flash.dram_bytes")),
    field("outages", "1", "times that the device was taken out of service", State("flash.outages")),
    field("recoveries", "1", "times that the device returned to service", State("flash.recoveries")),
];

/// A counter of a device; the counter of the cache is their sum.
pub(crate) type FlashCounter = (&'static str, fn(&DeviceStats) -> u64);

/// The counters of devices that samples use.
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
    ("flash.outages", |d| d.times_out),
    ("flash.recoveries", |d| d.times_back),
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
