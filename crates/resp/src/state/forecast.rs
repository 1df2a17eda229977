//! What a store with other caches would read, by keyspace: curves of what commands ask for, and how
//! they are told: in `INFO mrc`, in `/metrics` and in `/api/stats`.
//!
//! A curve is that of a cache of values by their keys that evicts the least recently used. What a store
//! keeps in memory are blocks and pointers as well, so that it is about what it reads, not what it
//! would read. A value that is read comes into the cache; who asks for what there is not, for which filters
//! suffice, asks for nothing.

use std::sync::Arc;

use serde_json::Value;
use tidekv::Entry;
use tidekv_net::error::{Error, Result};
use tidekv_observe::curves::{self, AccessKind, Curves, Source, TimeSum};
use tidekv_observe::mrc::Shown;
use tokio::sync::watch::Receiver;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::state::keyspaces::{SPACES, Space};
use crate::state::server_state::State;

/// What an entry takes in memory beside its key and value, about.
const ENTRY_BYTES: usize = 32;

/// The metric.
pub(crate) const METRIC: (&str, &str) = (
    "tidekv_keyspace_predicted_miss_ratio",
    "Miss ratio of the keyspace's reads in the last window with a value cache of this size, estimated from reuse distances.",
);

impl State {
    /// That an entry was read.
    pub(crate) fn record_read(&self, Read { space, hash, bytes }: Read) {
        self.record(space, hash, AccessKind::Load(bytes));
    }

    /// That an entry was written.
    pub(crate) fn record_write(
        &self,
        space: Space,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) {
        let left_ms = expires_at_ms.map(|at_ms| at_ms.saturating_sub(self.now_ms()));
        self.record(
            space,
            hash_of(space, key),
            AccessKind::Store(taken_bytes(key, value), left_ms),
        );
    }

    /// That an entry was removed.
    pub(crate) fn record_removal(&self, space: Space, key: &[u8]) {
        self.record(space, hash_of(space, key), AccessKind::Remove);
    }

    fn record(&self, space: Space, hash: u64, kind: AccessKind) {
        if let Some(curves) = &self.curves {
            curves.record(space as usize, hash, kind, || self.now_ms());
        }
    }
}

/// An entry that was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    space: Space,
    hash: u64,
    bytes: u64,
}

/// What is told of an entry that was read.
pub(crate) fn read(space: Space, key: &[u8], entry: &Entry) -> Read {
    Read { space, hash: hash_of(space, key), bytes: taken_bytes(key, &entry.value) }
}

fn hash_of(space: Space, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, space as u64)
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

    /// They are few beside what a command takes.
    fn report_hits(&self, _tenant: usize, _is_wanted: bool) {}

    fn flash_reads(&self) -> TimeSum {
        TimeSum::default()
    }
}

/// Begins to make the curves that `state` wants, until `stopped` turns true.
///
/// # Errors
/// When there can be no more threads.
pub(crate) fn start(state: &State, stopped: &Receiver<bool>) -> Result<()> {
    let Some(curves) = &state.curves else { return Ok(()) };
    let source = Reads { curves: Arc::clone(curves), bytes_max: state.db.memory_bytes() };
    let (curves, stopped) = (Arc::clone(curves), stopped.clone());
    tidekv_io::threads::spawn_behind("tide-curves", move || {
        curves::run(&curves, &source, &stopped)
    })
    .map_err(|error| Error::unavailable("a thread for curves", error))?;
    Ok(())
}

/// Keyspaces that were read. Where it is one alone, all caches are its own.
pub(crate) fn forecasts(state: &State) -> Vec<Shown> {
    let Some(curves) = &state.curves else { return Vec::new() };
    let of = |(space, name): (Space, &str)| {
        let told = curves.told(space as usize)?;
        Some(Shown { name: name.to_owned(), told, more: Vec::new() })
    };
    let mut shown: Vec<Shown> = SPACES.into_iter().filter_map(of).collect();
    if let [one] = &mut shown[..] {
        let bytes = state.db.statistics().counter("cache.bytes_max");
        one.more.push(("dram_bytes_max", 0, bytes as f64));
    }
    shown
}

/// All that is known, by names with points in between.
pub(crate) fn each(state: &State, mut tell: impl FnMut(&str, String)) {
    for forecast in forecasts(state) {
        forecast.each(|name, number| tell(&name.join("/"), number));
    }
}

/// Curves for `/api/stats`.
pub(crate) fn to_json(state: &State) -> Value {
    forecasts(state).iter().map(Shown::to_json).collect()
}
