//! Miss-ratio curves of tenants, and their output: in `stats mrc`, in `/metrics` and in
//! `/api/stats`.
//!
//! Each tenant has a curve of its last window, or of the current one if that is the first; none
//! without requests.

use std::fmt::Write;

use serde_json::Value;
use tidekv_observe::curves::FlashTime;
use tidekv_observe::mrc::Shown;
use tidekv_observe::prometheus;

use crate::state::profiling;
use crate::state::server_state::State;

/// Name and help of the metric.
pub(crate) const METRIC: (&str, &str) = (
    "tidekv_cache_tenant_predicted_miss_ratio",
    "Miss ratio of the tenant's requests in the last window with a cache of this size, DRAM and flash together, estimated from reuse distances and, without flash, from scaled-down caches.",
);

/// The curves of all tenants that have one.
fn forecasts(state: &State) -> Vec<Shown> {
    let Some(curves) = &state.curves else { return Vec::new() };
    let tenants = state.objects.cache.tenant_stats().into_iter().enumerate();
    let of = |(number, tenant): (usize, tidekv_tiered::TenantStats)| {
        let more = vec![
            ("dram_bytes_max", 0, tenant.cache.dram_bytes_max as f64),
            ("flash_dram_bytes", 0, tenant.flash_dram_bytes() as f64),
            ("flash_bytes_max", 0, tenant.flash_bytes_max as f64),
        ];
        Some(Shown { name: tenant.name, told: curves.told(number)?, more })
    };
    tenants.filter_map(of).collect()
}

/// The median latency of all requests, in microseconds, and the flash latency: the recent one, if
/// windows of curves have ended. Each is none if nothing was measured.
pub(crate) fn latencies(state: &State) -> (Option<f64>, Option<FlashTime>) {
    let requests = state.latency.summary();
    let median_us = (requests.count > 0).then(|| requests.p50_ns as f64 / 1e3);
    let flash = match &state.curves {
        Some(curves) if curves.ended() > 0 => curves.flash(),
        _ => profiling::flash_reads(&state.objects.cache).mean_us().map(FlashTime::of_mean),
    };
    (median_us, flash)
}

/// `stats mrc`.
pub(crate) fn lines(state: &State, text: &mut String) {
    let (memory_us, flash) = latencies(state);
    let flash_us = flash.map(|flash| flash.mean_us);
    for (name, us) in [("memory_us", memory_us), ("flash_us", flash_us)] {
        if let Some(us) = us {
            let _ = write!(text, "STAT {name} {us:.1}\r\n");
        }
    }
    for forecast in forecasts(state) {
        forecast.each(|name, number| {
            let _ = write!(text, "STAT {} {number}\r\n", name.join(":"));
        });
    }
}

/// Curves for `/api/stats`, in the order of tenants.
pub(crate) fn to_json(state: &State) -> Value {
    forecasts(state).iter().map(Shown::to_json).collect()
}

/// Curves for Prometheus.
pub(crate) fn write_metrics(out: &mut String, state: &State) {
    prometheus::write_curves(out, METRIC, "tenant", &forecasts(state));
}
