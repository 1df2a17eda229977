//! Miss-ratio curves of the reads of commands, by keyspace, and their output: in `INFO mrc`, in
//! `/metrics` and in `/api/stats`.
//!
//! A curve is that of an LRU cache of values. A store also caches blocks and pointers, so the curve
//! describes the requests, not the storage reads that the store would do. A value that is read
//! enters the cache; lookups of absent keys, which filters answer, are not counted.

use std::sync::Arc;

use serde_json::Value;
use tidekv::Entry;
use tidekv_io::threads::{restarting, spawn_behind};
use tidekv_net::error::{Error, Result};
use tidekv_observe::curves::{self, AccessKind, Curves, Source, TimeSum};
use tidekv_observe::mrc::Shown;
use tokio::sync::watch::Receiver;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::state::keyspaces::{CURVES, curve_of};
use crate::state::server_state::State;

/// The approximate memory of an entry in addition to its key and value.
const ENTRY_BYTES: usize = 32;

/// Name and help of the metric.
pub(crate) const METRIC: (&str, &str) = (
    "tidekv_keyspace_predicted_miss_ratio",
    "Miss ratio of the keyspace's reads in the last window with a value cache of this size, estimated from reuse distances.",
);

impl State {
    /// Records a read of an entry.
    pub(crate) fn record_read(&self, Read { keyspace, hash, bytes }: Read) {
        self.record(keyspace, hash, AccessKind::Load(bytes));
    }

    /// Records a write of an entry of the keyspace with this index.
    pub(crate) fn record_write(
        &self,
        keyspace: usize,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) {
        let left_ms = expires_at_ms.map(|at_ms| at_ms.saturating_sub(self.now_ms()));
        self.record(
            keyspace,
            hash_of(keyspace, key),
            AccessKind::Store(taken_bytes(key, value), left_ms),
        );
    }

    /// Records a removal of an entry.
    pub(crate) fn record_removal(&self, keyspace: usize, key: &[u8]) {
        self.record(keyspace, hash_of(keyspace, key), AccessKind::Remove);
    }

    fn record(&self, keyspace: usize, hash: u64, kind: AccessKind) {
        if let Some(curves) = &self.curves {
            curves.record(curve_of(keyspace), hash, kind, || self.now_ms());
        }
    }
}

/// An entry that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    /// By [`index_of`](crate::state::keyspaces::index_of).
    keyspace: usize,
    hash: u64,
    bytes: u64,
}

/// The record of an entry that was read.
pub(crate) fn read(keyspace: usize, key: &[u8], entry: &Entry) -> Read {
    Read { keyspace, hash: hash_of(keyspace, key), bytes: taken_bytes(key, &entry.value) }
}

fn hash_of(keyspace: usize, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, keyspace as u64)
}

fn taken_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len() + ENTRY_BYTES) as u64
}

struct Reads {
    curves: Arc<Curves>,
    bytes_max: u64,
}

impl Source for Reads {
    fn lookups(&self) -> Vec<u64> {
        self.curves.loads()
    }

    fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The cost is small compared with that of a command, so hits are always recorded.
    fn report_hits(&self, _tenant: usize, _is_wanted: bool) {}

    fn flash_reads(&self) -> TimeSum {
        TimeSum::default()
    }
}

/// Starts the thread that computes the curves of `state`, until `stopped` becomes true.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn start(state: &State, stopped: &Receiver<bool>) -> Result<()> {
    let Some(curves) = &state.curves else { return Ok(()) };
    let source = Reads { curves: Arc::clone(curves), bytes_max: state.db.memory_bytes() };
    let (curves, stopped) = (Arc::clone(curves), stopped.clone());
    spawn_behind("tide-curves", move || {
        _ = restarting(|| curves::run(&curves, &source, &stopped));
    })
    .map_err(|error| Error::unavailable("a thread for curves", error))?;
    Ok(())
}

/// The curves of all keyspaces that were read. If there is only one, it has all the caches.
pub(crate) fn forecasts(state: &State) -> Vec<Shown> {
    let Some(curves) = &state.curves else { return Vec::new() };
    let of = |(curve, name): (usize, &str)| {
        let told = curves.told(curve)?;
        Some(Shown { name: name.to_owned(), told, more: Vec::new() })
    };
    let mut shown: Vec<Shown> = CURVES.into_iter().enumerate().filter_map(of).collect();
    if let [one] = &mut shown[..] {
        let bytes = state.db.statistics().counter("cache.bytes_max");
        one.more.push(("dram_bytes_max", 0, bytes as f64));
    }
    shown
}

/// Calls `tell` for every figure, by its name with `/` between the parts.
pub(crate) fn each(state: &State, mut tell: impl FnMut(&str, String)) {
    for forecast in forecasts(state) {
        forecast.each(|name, number| tell(&name.join("/"), number));
    }
}

/// Curves for `/api/stats`.
pub(crate) fn to_json(state: &State) -> Value {
    forecasts(state).iter().map(Shown::to_json).collect()
}
