//! `/api/stats` of a cache: all counters and the data of the page, as JSON.
//! `docs/reference/memcached.md` explains each name.

use serde_json::{Map, Value, json};
use tidekv_observe::history::Ring;
use tidekv_observe::json::{about, ring, values};
use tidekv_tiered::{DeviceStats, TenantStats};

use crate::observe::fields::{CACHE_FIELDS, DEVICE_FIELDS, DeviceHistory};
use crate::observe::metrics::{self, DEVICE_METRICS};
use crate::observe::sampler::{Histories, Sampler};
use crate::observe::times::CacheTimes;
use crate::state::forecast;
use crate::state::tenants::TENANT_METRICS;

/// The current counters, and the samples after the sample `since`.
pub(crate) fn stats(sampler: &Sampler, since: u64) -> Value {
    let state = sampler.state();
    let numbers = metrics::read(state).into_iter();
    let numbers: Map<String, Value> =
        numbers.map(|(name, number)| (name.to_owned(), json!(number))).collect();
    let latency = state.latency.summary();
    let devices: Vec<Value> = state.objects.cache.device_stats().iter().map(device).collect();
    let tenants = state.objects.cache.tenant_stats();
    // A single tenant, which has the whole cache, is not listed.
    let tenants: Vec<Value> = tenants.iter().filter(|_| tenants.len() > 1).map(tenant).collect();
    let mut stats = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "unix_s": state.now_s(),
        "started_ms": sampler.started_ms,
        "numbers": numbers,
        "devices": devices,
        "tenants": tenants,
        "curves": forecast::to_json(state),
        "elastic": state.sizes.as_ref().map(|report| {
            let report = report.lock();
            json!({ "resizes": report.resizes, "last": report.last, "unix_ms": report.unix_ms })
        }),
        "latency": {
            "count": latency.count,
            "sum_ns": latency.sum_ns,
            "p50_ns": latency.p50_ns,
            "p99_ns": latency.p99_ns,
            "p999_ns": latency.p999_ns,
        },
    });
    let number = sampler.look(|histories| {
        let number = histories.cache.number;
        // A higher number is from a previous run of the server.
        let since = if since > number { 0 } else { since };
        stats["history"] = json!({
            "fine": with_devices(&histories.cache.fine, histories, since, |d| &d.fine),
            "coarse": with_devices(&histories.cache.coarse, histories, since, |d| &d.coarse),
        });
        if since == 0 {
            stats["fields"] = about(&CACHE_FIELDS);
            stats["device_fields"] = about(&DEVICE_FIELDS);
        }
        number
    });
    stats["number"] = json!(number);
    stats
}

/// Samples of a device.
type DeviceRing = Ring<{ DEVICE_FIELDS.len() }, CacheTimes>;

/// A ring of the cache, and the same samples of each device.
fn with_devices(
    of_cache: &Ring<{ CACHE_FIELDS.len() }, CacheTimes>,
    histories: &Histories,
    since: u64,
    of_device: impl Fn(&DeviceHistory) -> &DeviceRing,
) -> Value {
    let mut shown = ring(of_cache, &CACHE_FIELDS, since);
    let devices = histories.devices.iter();
    let devices = devices.map(|device| values(of_device(device), &DEVICE_FIELDS, since));
    shown["devices"] = Value::Array(devices.collect());
    shown
}

/// A tenant, with the keys of its metrics.
fn tenant(stats: &TenantStats) -> Value {
    let figures = TENANT_METRICS.iter();
    let figures = figures.map(|metric| (metric.key.to_owned(), json!((metric.read)(stats))));
    let mut shown: Map<String, Value> = figures.collect();
    shown.insert("name".into(), json!(stats.name));
    shown.insert("prefix".into(), json!(String::from_utf8_lossy(&stats.prefix)));
    Value::Object(shown)
}

/// A flash device, with the names of its metrics.
fn device(stats: &DeviceStats) -> Value {
    let figures = DEVICE_METRICS.iter().map(|metric| {
        let name = metric.name.trim_start_matches("tidekv_cache_device_");
        (name.trim_end_matches("_total").to_owned(), json!((metric.read)(stats)))
    });
    let mut shown: Map<String, Value> = figures.collect();
    let times = &stats.read_times;
    shown.insert("path".into(), json!(stats.path));
    shown.insert("state".into(), json!(stats.state.name()));
    let read_times = json!({
        "count": times.count(),
        "sum_ns": times.sum_ns(),
        "p50_ns": times.quantile_ns(0.5),
        "p99_ns": times.quantile_ns(0.99),
        "p999_ns": times.quantile_ns(0.999),
    });
    shown.insert("read_times".into(), read_times);
    Value::Object(shown)
}
