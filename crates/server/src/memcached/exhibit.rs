//! What the HTTP address of a cache answers: `/metrics` for Prometheus and `/api/stats`, the
//! same figures as JSON. A page that draws them would stand beside these.
//!
//! Guarantees: those of a [`Site`](crate::site); where clients must be one of the known users,
//! so must whoever asks here.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::http::request::Parts;
use serde_json::{Map, Value, json};
use tidekv_tiered::DeviceStats;

use crate::memcached::metrics::{self, DEVICE_METRICS};
use crate::memcached::state::State;
use crate::prometheus;
use crate::site::{self, Answer, Site, refuse, respond};

/// Answers requests.
#[derive(Debug)]
pub(crate) struct Exhibit {
    pub(crate) state: Arc<State>,
    /// The host of the address, as the operator has written it.
    pub(crate) host: String,
}

impl Site for Exhibit {
    async fn answer(&self, head: Parts, local: IpAddr) -> Answer {
        let users = self.state.options.users.as_ref();
        let knows = users.map(|users| |user: &[u8], password: &[u8]| users.know(user, password));
        if let Err(refusal) = site::admit(&head, local, &self.host, knows) {
            return *refusal;
        }
        // Both take the lock of each shard once, for as long as it takes to read a few numbers.
        match head.uri.path() {
            "/metrics" => {
                let text = metrics::text(&self.state);
                respond(StatusCode::OK, prometheus::CONTENT_TYPE, text.into())
            }
            "/api/stats" => {
                let text = stats(&self.state).to_string();
                respond(StatusCode::OK, "application/json", text.into())
            }
            _ => refuse(StatusCode::NOT_FOUND, "there are /metrics and /api/stats"),
        }
    }
}

fn stats(state: &State) -> Value {
    let numbers = metrics::read(state).into_iter();
    let numbers: Map<String, Value> =
        numbers.map(|(name, number)| (name.to_owned(), json!(number))).collect();
    let latency = state.latency.summary();
    let devices: Vec<Value> = state.objects.cache.device_stats().iter().map(device).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "unix_s": state.now_s(),
        "numbers": numbers,
        "devices": devices,
        "latency": {
            "count": latency.count,
            "sum_ns": latency.sum_ns,
            "p50_ns": latency.p50_ns,
            "p99_ns": latency.p99_ns,
            "p999_ns": latency.p999_ns,
        },
    })
}

/// A flash device, under the names of its metrics.
fn device(stats: &DeviceStats) -> Value {
    let figures = DEVICE_METRICS.iter().map(|metric| {
        let name = metric.name.trim_start_matches("tidekv_cache_device_");
        (name.trim_end_matches("_total").to_owned(), json!((metric.read)(stats)))
    });
    let mut shown: Map<String, Value> = figures.collect();
    shown.insert("path".into(), json!(stats.path));
    shown.insert("state".into(), json!(stats.state.name()));
    Value::Object(shown)
}
