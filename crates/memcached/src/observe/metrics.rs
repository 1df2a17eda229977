//! The metrics of a cache's `/metrics`: one flat list, and one for flash devices, that produce the
//! Prometheus text, its help and the tables in `docs/reference/memcached.md`.
//!
//! All names begin with `tidekv_cache_`. Tests check the names, and that every counter of the
//! server and of the cache is in the list.

use tidekv_tiered::{DeviceStats, TenantStats};

use crate::observe::fields::state_number;
use crate::state::counters::{Count, Counts};
use crate::state::forecast;
use crate::state::server_state::State;
use crate::state::tenants::TENANT_METRICS;

use Kind::{Counter, Gauge, Histogram};
use tidekv_observe::metric::{Kind, Metric, metric};
use tidekv_observe::prometheus;

/// All metrics, in the order in which they are written.
#[rustfmt::skip]
pub(crate) static CACHE_METRICS: [Metric; 36] = [
    // The server.
    metric(Gauge, "tidekv_cache_start_time_seconds", "Start time of the server, in seconds since the Unix epoch.", "", &[("", "server.started_s")]),
    metric(Counter, "tidekv_cache_requests_total", "Requests received from clients.", "", &[("", "server.requests")]),
    metric(Counter, "tidekv_cache_requests_offloaded_total", "Runs of requests on an I/O thread; a request may run there more than once.", "", &[("", "server.offloaded")]),
    metric(Histogram, "tidekv_cache_request_duration_seconds", "Time from complete requests to their replies; requests received together are measured together.", "", &[("", "server.latency")]),
    metric(Counter, "tidekv_cache_connections_total", "Client connections accepted.", "", &[("", "server.connections")]),
    metric(Counter, "tidekv_cache_connections_rejected_total", "Client connections rejected: connection limit.", "", &[("", "server.rejected_connections")]),
    metric(Counter, "tidekv_cache_connections_idle_closed_total", "Client connections closed by idle timeout.", "", &[("", "server.idle_kicks")]),
    metric(Gauge, "tidekv_cache_connected_clients", "Client connections open now.", "", &[("", "server.connected_clients")]),
    metric(Counter, "tidekv_cache_network_bytes_total", "Bytes received from clients (in) and sent to them (out).", "direction", &[("in", "server.bytes_read"), ("out", "server.bytes_written")]),
    metric(Gauge, "tidekv_cache_request_buffer_bytes", "Memory of incomplete requests, beyond the free allowance of each connection.", "", &[("", "server.request_buffer_bytes")]),
    metric(Gauge, "tidekv_cache_reply_buffer_bytes", "Memory of replies that clients have not read, beyond the free allowance of each connection.", "", &[("", "server.reply_buffer_bytes")]),
    metric(Counter, "tidekv_cache_authentications_total", "Authentication attempts of clients, by outcome.", "outcome", &[("success", "server.authenticated"), ("failure", "server.authentication_errors")]),
    metric(Counter, "tidekv_cache_panics_total", "Commands that hit a bug and closed their connection.", "", &[("", "server.panics")]),
    // Requests by command.
    metric(Counter, "tidekv_cache_gets_total", "Keys of get commands, by outcome.", "outcome", &[("hit", "server.get_hits"), ("miss", "server.get_misses")]),
    metric(Counter, "tidekv_cache_sets_total", "Set commands received.", "", &[("", "server.sets")]),
    metric(Counter, "tidekv_cache_sets_rejected_total", "Set commands rejected: value too large, or no memory to receive it.", "reason", &[("too_large", "server.too_large"), ("no_memory", "server.no_memory")]),
    metric(Counter, "tidekv_cache_deletes_total", "Delete commands, by outcome.", "outcome", &[("hit", "server.delete_hits"), ("miss", "server.delete_misses")]),
    metric(Counter, "tidekv_cache_increments_total", "Increments, by outcome.", "outcome", &[("hit", "server.incr_hits"), ("miss", "server.incr_misses")]),
    metric(Counter, "tidekv_cache_decrements_total", "Decrements, by outcome.", "outcome", &[("hit", "server.decr_hits"), ("miss", "server.decr_misses")]),
    metric(Counter, "tidekv_cache_cas_total", "Compare-and-swap commands, by outcome; mismatch: the object had another version.", "outcome", &[("hit", "server.cas_hits"), ("mismatch", "server.cas_badval"), ("miss", "server.cas_misses")]),
    metric(Counter, "tidekv_cache_touches_total", "Changes of a time to live, by outcome.", "outcome", &[("hit", "server.touch_hits"), ("miss", "server.touch_misses")]),
    metric(Counter, "tidekv_cache_flushes_total", "Flushes of the whole cache (flush_all).", "", &[("", "server.flushes")]),
    metric(Counter, "tidekv_cache_meta_debugs_total", "Meta debug commands (me).", "", &[("", "server.meta_debugs")]),
    // The cache.
    metric(Counter, "tidekv_cache_hits_total", "Lookups of all commands that found an object, by tier.", "tier", &[("dram", "cache.dram_hits"), ("flash", "cache.flash_hits")]),
    metric(Counter, "tidekv_cache_misses_total", "Lookups of all commands that found no object.", "", &[("", "cache.misses")]),
    metric(Counter, "tidekv_cache_expired_total", "Objects found expired in DRAM.", "", &[("", "cache.expired")]),
    metric(Counter, "tidekv_cache_expired_removed_total", "Expired objects removed from DRAM in the background.", "", &[("", "cache.swept")]),
    metric(Counter, "tidekv_cache_expired_reclaimed_total", "Expired objects that made room in DRAM for others.", "", &[("", "cache.reclaimed")]),
    metric(Counter, "tidekv_cache_stores_refused_total", "Objects not stored because nothing may be evicted for them.", "", &[("", "cache.refused")]),
    metric(Counter, "tidekv_cache_stores_total", "Objects stored, new or changed.", "", &[("", "cache.stores")]),
    metric(Counter, "tidekv_cache_evictions_total", "Objects evicted from DRAM.", "", &[("", "cache.evicted")]),
    metric(Counter, "tidekv_cache_evictions_unfetched_total", "Objects evicted from DRAM that were never read.", "", &[("", "cache.evicted_unfetched")]),
    metric(Gauge, "tidekv_cache_dram_objects", "Objects in DRAM.", "", &[("", "cache.dram_objects")]),
    metric(Gauge, "tidekv_cache_dram_bytes", "DRAM of objects, overhead included.", "", &[("", "cache.dram_bytes")]),
    metric(Gauge, "tidekv_cache_dram_budget_bytes", "DRAM budget of objects and of the indexes and write buffers of flash.", "", &[("", "cache.dram_bytes_max")]),
    metric(Gauge, "tidekv_cache_object_max_bytes", "Maximum size of a value.", "", &[("", "cache.object_bytes_max")]),
];

/// A metric of each flash device, with the label `device`.
pub(crate) struct DeviceMetric {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) read: fn(&DeviceStats) -> u64,
}

const fn device(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    read: fn(&DeviceStats) -> u64,
) -> DeviceMetric {
    DeviceMetric { name, kind, help, read }
}

/// All metrics of flash devices, in the order in which they are written.
#[rustfmt::skip]
pub(crate) static DEVICE_METRICS: [DeviceMetric; 38] = [
    device(Gauge, "tidekv_cache_device_bytes", "Size of the device.", |d| d.bytes),
    device(Gauge, "tidekv_cache_device_state", "State of the device: 0 ok, 1 suspect, 2 warming, 3 out of service.", |d| state_number(d.state)),
    device(Counter, "tidekv_cache_device_outages_total", "Times that the device was taken out of service.", |d| d.times_out),
    device(Counter, "tidekv_cache_device_recoveries_total", "Times that the device returned to service, empty.", |d| d.times_back),
    device(Gauge, "tidekv_cache_device_segments", "Segments on the device.", |d| d.segments),
    device(Gauge, "tidekv_cache_device_segments_max", "Maximum number of segments on the device.", |d| d.segments_max),
    device(Gauge, "tidekv_cache_device_dram_bytes", "DRAM of the index and the write buffers of the device.", |d| d.dram_bytes),
    device(Gauge, "tidekv_cache_device_index_bytes", "DRAM of the part of the index that grows with the objects on the device.", |d| d.index_bytes),
    device(Gauge, "tidekv_cache_device_objects", "Objects on the device, estimated: some have been replaced since.", |d| d.objects),
    device(Counter, "tidekv_cache_device_index_reads_total", "Index pages read by lookups.", |d| d.counts.index_reads),
    device(Counter, "tidekv_cache_device_index_reads_of_misses_total", "Index pages read by lookups of absent keys.", |d| d.counts.index_reads_of_misses),
    device(Counter, "tidekv_cache_device_object_reads_total", "Records and buckets of small objects read by lookups.", |d| d.counts.object_reads),
    device(Counter, "tidekv_cache_device_object_reads_of_misses_total", "Records and buckets of small objects read by lookups of absent keys.", |d| d.counts.object_reads_of_misses),
    device(Counter, "tidekv_cache_device_buffer_hits_total", "Lookups that found their record in a write buffer.", |d| d.counts.buffer_hits),
    device(Counter, "tidekv_cache_device_hits_total", "Lookups that found their record on the device or in its write buffers.", |d| d.counts.hits),
    device(Counter, "tidekv_cache_device_misses_total", "Lookups that reached the device and found no record.", |d| d.counts.misses),
    device(Counter, "tidekv_cache_device_collisions_total", "Records read that belonged to another key (fingerprint collision), and buckets read that did not have the key.", |d| d.counts.collisions),
    device(Counter, "tidekv_cache_device_expired_total", "Records read that had expired.", |d| d.counts.expired),
    device(Counter, "tidekv_cache_device_damaged_total", "Records and index pages found damaged.", |d| d.counts.damaged),
    device(Counter, "tidekv_cache_device_errors_total", "Operations that failed.", |d| d.counts.errors),
    device(Counter, "tidekv_cache_device_read_bytes_total", "Bytes read from the device.", |d| d.counts.read_bytes),
    device(Counter, "tidekv_cache_device_objects_written_total", "Objects written to the device.", |d| d.counts.objects_written),
    device(Counter, "tidekv_cache_device_object_bytes_written_total", "Bytes of the keys and values written.", |d| d.counts.object_bytes_written),
    device(Counter, "tidekv_cache_device_segment_bytes_written_total", "Bytes of segments written, overhead included.", |d| d.counts.segment_bytes_written),
    device(Counter, "tidekv_cache_device_page_bytes_written_total", "Bytes of index pages written.", |d| d.counts.page_bytes_written),
    device(Counter, "tidekv_cache_device_metadata_bytes_written_total", "Bytes of other metadata written.", |d| d.counts.metadata_bytes_written),
    device(Counter, "tidekv_cache_device_bypassed_total", "Objects not admitted because no write buffer was free.", |d| d.counts.bypassed),
    device(Counter, "tidekv_cache_device_too_large_total", "Objects not admitted because they were too large.", |d| d.counts.too_large),
    device(Counter, "tidekv_cache_device_over_budget_total", "Objects not admitted because the write budget was used up.", |d| d.counts.over_budget),
    device(Counter, "tidekv_cache_device_invalidations_total", "Invalidations of records logged.", |d| d.counts.invalidations),
    device(Counter, "tidekv_cache_device_displaced_total", "Records lost because their index page was full.", |d| d.counts.displaced),
    device(Counter, "tidekv_cache_device_merges_total", "Index pages merged with their changes.", |d| d.counts.merges),
    device(Counter, "tidekv_cache_device_lost_pages_total", "Index pages that could not be read and were reset.", |d| d.counts.lost_pages),
    device(Counter, "tidekv_cache_device_segments_expired_total", "Segments removed because all their records had expired.", |d| d.counts.segments_expired),
    device(Counter, "tidekv_cache_device_segments_evicted_total", "Segments evicted.", |d| d.counts.segments_evicted),
    device(Counter, "tidekv_cache_device_segments_lost_total", "Segments lost because their write failed.", |d| d.counts.segments_lost),
    device(Counter, "tidekv_cache_device_expired_early_bytes_total", "Bytes of records evicted before they expired, estimated.", |d| d.counts.bytes_expired_early),
    device(Counter, "tidekv_cache_device_overflows_total", "Times that the device was cleared because the invalidation log was full.", |d| d.counts.overflows),
];

/// Duration of lookups that read a device, with the label `device`.
pub(crate) const READ_TIMES: (&str, Kind, &str) = (
    "tidekv_cache_device_read_duration_seconds",
    Histogram,
    "Duration of lookups that read the device, once or twice, and did not fail.",
);

/// The upper bounds of its buckets are 2 to these powers of nanoseconds, 16 µs to 1 s: at powers
/// of two the counts of [`tidekv_tiered::ReadTimes`] are exact.
const READ_TIME_POWERS: std::ops::RangeInclusive<u32> = 14..=30;

/// Counters by the names of their sources.
pub(crate) type Numbers = Vec<(&'static str, u64)>;

/// Counters of the server, with the names of their sources.
const COUNTED: [(Count, &str); 28] = [
    (Count::Connections, "server.connections"),
    (Count::RejectedConnections, "server.rejected_connections"),
    (Count::GetHits, "server.get_hits"),
    (Count::GetMisses, "server.get_misses"),
    (Count::Sets, "server.sets"),
    (Count::Flushes, "server.flushes"),
    (Count::TouchHits, "server.touch_hits"),
    (Count::TouchMisses, "server.touch_misses"),
    (Count::MetaDebugs, "server.meta_debugs"),
    (Count::DeleteHits, "server.delete_hits"),
    (Count::DeleteMisses, "server.delete_misses"),
    (Count::IncrHits, "server.incr_hits"),
    (Count::IncrMisses, "server.incr_misses"),
    (Count::DecrHits, "server.decr_hits"),
    (Count::DecrMisses, "server.decr_misses"),
    (Count::CasHits, "server.cas_hits"),
    (Count::CasMisses, "server.cas_misses"),
    (Count::CasBadval, "server.cas_badval"),
    (Count::TooLarge, "server.too_large"),
    (Count::NoMemory, "server.no_memory"),
    (Count::AuthenticationErrors, "server.authentication_errors"),
    (Count::IdleKicks, "server.idle_kicks"),
    (Count::BytesRead, "server.bytes_read"),
    (Count::BytesWritten, "server.bytes_written"),
    (Count::Requests, "server.requests"),
    (Count::Offloaded, "server.offloaded"),
    (Count::Panics, "server.panics"),
    (Count::Authentications, "server.authentications"),
];

/// Reads all counters.
pub(crate) fn read(state: &State) -> Numbers {
    let counts: Counts = state.counters.all();
    let mut numbers: Numbers =
        COUNTED.iter().map(|&(count, name)| (name, counts.get(count))).collect();
    let cache = state.objects.cache.stats();
    let known =
        counts.get(Count::Authentications).saturating_sub(counts.get(Count::AuthenticationErrors));
    numbers.extend([
        ("server.authenticated", known),
        ("server.started_s", u64::from(state.started_s)),
        ("server.connected_clients", state.clients.len() as u64),
        ("server.request_buffer_bytes", state.budget.used_bytes() as u64),
        ("server.reply_buffer_bytes", state.replies.used_bytes() as u64),
        ("cache.dram_hits", cache.dram_hits),
        ("cache.flash_hits", cache.flash_hits),
        ("cache.misses", cache.misses),
        ("cache.expired", cache.expired),
        ("cache.swept", cache.swept),
        ("cache.reclaimed", cache.reclaimed),
        ("cache.refused", cache.refused),
        ("cache.stores", cache.stores),
        ("cache.evicted", cache.evicted),
        ("cache.evicted_unfetched", cache.evicted_unfetched),
        ("cache.dram_objects", cache.dram_objects),
        ("cache.dram_bytes", cache.dram_bytes),
        ("cache.dram_bytes_max", cache.dram_bytes_max),
        ("cache.object_bytes_max", state.objects.cache.object_bytes_max()),
    ]);
    numbers
}

/// The Prometheus text of a cache.
pub(crate) fn text(state: &State) -> String {
    let numbers = read(state);
    let number = |name: &str| {
        numbers.iter().find(|(found, _)| *found == name).map_or(0, |(_, number)| *number)
    };
    let latency = state.latency.counts();
    let mut out = String::with_capacity(8 << 10);
    prometheus::head(&mut out, "tidekv_cache_info", Gauge, "Version; the value is 1.");
    out += concat!("tidekv_cache_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n");
    prometheus::write(&mut out, &CACHE_METRICS, number, |_| Some(&latency));
    write_devices(&mut out, &state.objects.cache.device_stats());
    write_tenants(&mut out, &state.objects.cache.tenant_stats());
    forecast::write_metrics(&mut out, state);
    out
}

/// Writes nothing for a cache that one tenant has alone.
fn write_tenants(out: &mut String, tenants: &[TenantStats]) {
    for metric in TENANT_METRICS.iter().filter(|_| tenants.len() > 1) {
        prometheus::head(out, metric.name, metric.kind, metric.help);
        for tenant in tenants {
            let labels = [("tenant", &*tenant.name)];
            prometheus::line(out, metric.name, &labels, (metric.read)(tenant) as f64);
        }
    }
}

fn write_devices(out: &mut String, devices: &[DeviceStats]) {
    for metric in DEVICE_METRICS.iter().filter(|_| !devices.is_empty()) {
        prometheus::head(out, metric.name, metric.kind, metric.help);
        for device in devices {
            let path = prometheus::escaped(&device.path);
            prometheus::line(out, metric.name, &[("device", &path)], (metric.read)(device) as f64);
        }
    }
    if !devices.is_empty() {
        let (name, kind, help) = READ_TIMES;
        prometheus::head(out, name, kind, help);
        devices.iter().for_each(|device| write_read_times(out, name, device));
    }
}

fn write_read_times(out: &mut String, name: &str, device: &DeviceStats) {
    let (path, times) = (prometheus::escaped(&device.path), &device.read_times);
    let buckets = READ_TIME_POWERS.map(|power| {
        let ns = 1u64 << power;
        (ns as f64 / 1e9, times.at_most(ns))
    });
    let total = (times.count(), times.sum_ns());
    prometheus::histogram(out, name, &[("device", &path)], buckets, total);
}

#[cfg(test)]
mod tests;
