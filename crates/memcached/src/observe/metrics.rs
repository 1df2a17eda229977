//! The metrics of a cache's `/metrics`: one flat list, and one for flash devices, from which come the text for
//! Prometheus, its help and the table in `docs/reference/memcached.md`.
//!
//! Each count of the server and of the cache stands in the list; a test says so.

use tidekv_io::Latency;
use tidekv_tiered::{DeviceStats, TenantStats};

use crate::observe::fields::state_number;
use crate::state::counters::{Count, Counts};
use crate::state::forecast;
use crate::state::server_state::State;
use crate::state::tenants::TENANT_METRICS;

use Kind::{Counter, Gauge, Histogram, Summary};
use tidekv_observe::metric::{Kind, Metric, metric};
use tidekv_observe::prometheus;

/// All metrics, in the order in which they are shown.
#[rustfmt::skip]
pub(crate) static CACHE_METRICS: [Metric; 32] = [
    // The server.
    metric(Gauge, "tidekv_cache_start_time_seconds", "When the server was started, in seconds since 1970.", "", &[("", "server.started_s")]),
    metric(Counter, "tidekv_cache_requests_total", "Requests of clients.", "", &[("", "server.requests")]),
    metric(Counter, "tidekv_cache_requests_offloaded_total", "Requests that ran on an I/O thread, each time that they did.", "", &[("", "server.offloaded")]),
    metric(Summary, "tidekv_cache_request_duration_seconds", "From whole requests to their replies; those that came together are measured together.", "", &[("", "server.latency")]),
    metric(Counter, "tidekv_cache_connections_total", "Connections that were accepted.", "", &[("", "server.connections")]),
    metric(Counter, "tidekv_cache_connections_rejected_total", "Connections that were one too many.", "", &[("", "server.rejected_connections")]),
    metric(Counter, "tidekv_cache_connections_idle_total", "Connections that were closed for their silence.", "", &[("", "server.idle_kicks")]),
    metric(Gauge, "tidekv_cache_connected_clients", "Connections at this moment.", "", &[("", "server.connected_clients")]),
    metric(Counter, "tidekv_cache_network_bytes_total", "Bytes from clients and to them.", "direction", &[("in", "server.bytes_read"), ("out", "server.bytes_written")]),
    metric(Gauge, "tidekv_cache_request_buffer_bytes", "Bytes of requests that are not complete, beyond what each connection may hold freely.", "", &[("", "server.request_buffer_bytes")]),
    metric(Counter, "tidekv_cache_authentications_total", "Times that a client said who it is, by whether it was known.", "outcome", &[("known", "server.authenticated"), ("unknown", "server.authentication_errors")]),
    metric(Counter, "tidekv_cache_panics_total", "Commands that hit a bug and ended their connection.", "", &[("", "server.panics")]),
    // What was asked for.
    metric(Counter, "tidekv_cache_gets_total", "Keys that were asked for, by whether they were there.", "outcome", &[("hit", "server.get_hits"), ("miss", "server.get_misses")]),
    metric(Counter, "tidekv_cache_sets_total", "Values that were to be stored.", "", &[("", "server.sets")]),
    metric(Counter, "tidekv_cache_sets_refused_total", "Values that were not taken: larger than any may be, or without room until they were whole.", "why", &[("too_large", "server.too_large"), ("no_memory", "server.no_memory")]),
    metric(Counter, "tidekv_cache_deletes_total", "Keys that were to be removed, by whether they were there.", "outcome", &[("hit", "server.delete_hits"), ("miss", "server.delete_misses")]),
    metric(Counter, "tidekv_cache_increments_total", "Numbers that were to be counted up, by whether they were there.", "outcome", &[("hit", "server.incr_hits"), ("miss", "server.incr_misses")]),
    metric(Counter, "tidekv_cache_decrements_total", "Numbers that were to be counted down, by whether they were there.", "outcome", &[("hit", "server.decr_hits"), ("miss", "server.decr_misses")]),
    metric(Counter, "tidekv_cache_compares_total", "Values that were to come in place of a version, by whether it was there.", "outcome", &[("hit", "server.cas_hits"), ("other", "server.cas_badval"), ("miss", "server.cas_misses")]),
    metric(Counter, "tidekv_cache_touches_total", "Keys of which the time to live was to change, by whether they were there.", "outcome", &[("hit", "server.touch_hits"), ("miss", "server.touch_misses")]),
    metric(Counter, "tidekv_cache_flushes_total", "Times that everything was to be forgotten.", "", &[("", "server.flushes")]),
    metric(Counter, "tidekv_cache_debugs_total", "Uses of `me`.", "", &[("", "server.meta_debugs")]),
    // The cache.
    metric(Counter, "tidekv_cache_hits_total", "Objects that were found, by whatever request, and where.", "tier", &[("dram", "cache.dram_hits"), ("flash", "cache.flash_hits")]),
    metric(Counter, "tidekv_cache_misses_total", "Objects that were not there.", "", &[("", "cache.misses")]),
    metric(Counter, "tidekv_cache_expired_total", "Objects that were found in DRAM after their time.", "", &[("", "cache.expired")]),
    metric(Counter, "tidekv_cache_stores_total", "Objects that were stored, new ones and changed ones.", "", &[("", "cache.stores")]),
    metric(Counter, "tidekv_cache_evicted_total", "Objects that left DRAM for want of room.", "", &[("", "cache.evicted")]),
    metric(Counter, "tidekv_cache_evicted_unfetched_total", "Of them, those that nobody had fetched.", "", &[("", "cache.evicted_unfetched")]),
    metric(Gauge, "tidekv_cache_dram_objects", "Objects in DRAM.", "", &[("", "cache.dram_objects")]),
    metric(Gauge, "tidekv_cache_dram_bytes", "DRAM that they take, all told.", "", &[("", "cache.dram_bytes")]),
    metric(Gauge, "tidekv_cache_dram_budget_bytes", "DRAM that they may take.", "", &[("", "cache.dram_bytes_max")]),
    metric(Gauge, "tidekv_cache_object_max_bytes", "The largest value that is taken.", "", &[("", "cache.object_bytes_max")]),
];

/// A metric of each flash device, told apart by the label `device`.
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

/// All metrics of flash devices, in the order in which they are shown.
#[rustfmt::skip]
pub(crate) static DEVICE_METRICS: [DeviceMetric; 38] = [
    device(Gauge, "tidekv_cache_device_bytes", "How large the device is.", |d| d.bytes),
    device(Gauge, "tidekv_cache_device_state", "How it does: 0 for well, 1 for suspect, 2 for warming, 3 for out.", |d| state_number(d.state)),
    device(Counter, "tidekv_cache_device_times_out_total", "How often it has gone out.", |d| d.times_out),
    device(Counter, "tidekv_cache_device_times_back_total", "How often it has come back.", |d| d.times_back),
    device(Gauge, "tidekv_cache_device_segments", "Segments on it.", |d| d.segments),
    device(Gauge, "tidekv_cache_device_segments_max", "Segments that there is room for.", |d| d.segments_max),
    device(Gauge, "tidekv_cache_device_dram_bytes", "DRAM that its index and its write buffers take.", |d| d.dram_bytes),
    device(Gauge, "tidekv_cache_device_index_bytes", "Of these, what is there for each object on it.", |d| d.index_bytes),
    device(Gauge, "tidekv_cache_device_objects", "Objects on it, about: some have been replaced since.", |d| d.objects),
    device(Counter, "tidekv_cache_device_index_reads_total", "Pages of the index read for lookups.", |d| d.counts.index_reads),
    device(Counter, "tidekv_cache_device_index_reads_of_misses_total", "Of these, those for keys that were not there.", |d| d.counts.index_reads_of_misses),
    device(Counter, "tidekv_cache_device_object_reads_total", "Records read.", |d| d.counts.object_reads),
    device(Counter, "tidekv_cache_device_object_reads_of_misses_total", "Of these, those for keys that were not there.", |d| d.counts.object_reads_of_misses),
    device(Counter, "tidekv_cache_device_buffer_hits_total", "Lookups that found a record in a write buffer.", |d| d.counts.buffer_hits),
    device(Counter, "tidekv_cache_device_hits_total", "Lookups that found a record.", |d| d.counts.hits),
    device(Counter, "tidekv_cache_device_misses_total", "Lookups that went to the device and found none.", |d| d.counts.misses),
    device(Counter, "tidekv_cache_device_collisions_total", "Records read that were another key's.", |d| d.counts.collisions),
    device(Counter, "tidekv_cache_device_expired_total", "Records read after their time.", |d| d.counts.expired),
    device(Counter, "tidekv_cache_device_damaged_total", "Records and pages that were damaged.", |d| d.counts.damaged),
    device(Counter, "tidekv_cache_device_errors_total", "Operations that the device failed.", |d| d.counts.errors),
    device(Counter, "tidekv_cache_device_read_bytes_total", "Bytes read.", |d| d.counts.read_bytes),
    device(Counter, "tidekv_cache_device_objects_written_total", "Objects written.", |d| d.counts.objects_written),
    device(Counter, "tidekv_cache_device_object_bytes_written_total", "Bytes of their keys and values.", |d| d.counts.object_bytes_written),
    device(Counter, "tidekv_cache_device_segment_bytes_written_total", "Bytes of segments written, with all that is around objects.", |d| d.counts.segment_bytes_written),
    device(Counter, "tidekv_cache_device_page_bytes_written_total", "Bytes of pages of the index written.", |d| d.counts.page_bytes_written),
    device(Counter, "tidekv_cache_device_metadata_bytes_written_total", "Bytes of other metadata written.", |d| d.counts.metadata_bytes_written),
    device(Counter, "tidekv_cache_device_bypassed_total", "Objects not taken because no write buffer was free.", |d| d.counts.bypassed),
    device(Counter, "tidekv_cache_device_too_large_total", "Objects not taken because they were too large.", |d| d.counts.too_large),
    device(Counter, "tidekv_cache_device_over_budget_total", "Objects not taken because too much had been written lately.", |d| d.counts.over_budget),
    device(Counter, "tidekv_cache_device_invalidations_total", "Invalidations logged.", |d| d.counts.invalidations),
    device(Counter, "tidekv_cache_device_displaced_total", "Records lost because their page of the index was full.", |d| d.counts.displaced),
    device(Counter, "tidekv_cache_device_merges_total", "Pages merged with their changes.", |d| d.counts.merges),
    device(Counter, "tidekv_cache_device_lost_pages_total", "Pages that could not be read, and were begun anew.", |d| d.counts.lost_pages),
    device(Counter, "tidekv_cache_device_segments_expired_total", "Segments that went because their records' time was over.", |d| d.counts.segments_expired),
    device(Counter, "tidekv_cache_device_segments_evicted_total", "Segments that went to make room.", |d| d.counts.segments_evicted),
    device(Counter, "tidekv_cache_device_segments_lost_total", "Segments that could not be written.", |d| d.counts.segments_lost),
    device(Counter, "tidekv_cache_device_expired_early_bytes_total", "Bytes of records that went before their deadlines, about.", |d| d.counts.bytes_expired_early),
    device(Counter, "tidekv_cache_device_overflows_total", "Times that everything was forgotten because the log of invalidations was full.", |d| d.counts.overflows),
];

/// How long lookups took that read a device, told apart by the label `device` as well.
pub(crate) const READ_TIMES: (&str, Kind, &str) = (
    "tidekv_cache_device_read_duration_seconds",
    Histogram,
    "How long lookups took that read the device, once or twice, and did not fail.",
);

/// The times that the histogram is told for are these powers of two, in nanoseconds: from 16 µs to
/// a second.
const READ_TIME_POWERS: std::ops::RangeInclusive<u32> = 14..=30;

/// Numbers by the names of their sources.
pub(crate) type Numbers = Vec<(&'static str, u64)>;

/// Counts, by the names of the sources that they are.
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

/// Everything that is counted, now.
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
        ("cache.dram_hits", cache.dram_hits),
        ("cache.flash_hits", cache.flash_hits),
        ("cache.misses", cache.misses),
        ("cache.expired", cache.expired),
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

/// The text that Prometheus reads.
pub(crate) fn text(state: &State) -> String {
    let numbers = read(state);
    let number = |name: &str| {
        numbers.iter().find(|(found, _)| *found == name).map_or(0, |(_, number)| *number)
    };
    let latency: Latency = state.latency.summary();
    let mut out = String::with_capacity(8 << 10);
    prometheus::head(&mut out, "tidekv_cache_info", Gauge, "The version.");
    out += concat!("tidekv_cache_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n");
    prometheus::write(&mut out, &CACHE_METRICS, number, |_| latency);
    write_devices(&mut out, &state.objects.cache.device_stats());
    write_tenants(&mut out, &state.objects.cache.tenant_stats());
    forecast::write_metrics(&mut out, state);
    out
}

/// Nothing, where there is nobody but the others.
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
    let path = prometheus::escaped(&device.path);
    let (times, bucket) = (&device.read_times, format!("{name}_bucket"));
    for power in READ_TIME_POWERS {
        let ns = 1u64 << power;
        let most = (ns as f64 / 1e9).to_string();
        let labels = [("device", &*path), ("le", &most)];
        prometheus::line(out, &bucket, &labels, times.at_most(ns) as f64);
    }
    let all = times.count() as f64;
    prometheus::line(out, &bucket, &[("device", &path), ("le", "+Inf")], all);
    let (own, sum_s) = ([("device", &*path)], times.sum_ns() as f64 / 1e9);
    prometheus::line(out, &format!("{name}_sum"), &own, sum_s);
    prometheus::line(out, &format!("{name}_count"), &own, all);
}

#[cfg(test)]
mod tests;
