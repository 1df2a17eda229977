//! Reads all counters and histograms once a second and keeps the history.
//!
//! A reading locks every shard of the caches, so it runs on an I/O thread. All threads may use a
//! sampler; its lock is held while a sample is added or rendered.

use std::sync::Arc;

use parking_lot::Mutex;
use tidekv::{CachePolicy, Latency};
use tidekv_observe::history::Reading;
use tidekv_observe::sampling;
use tokio::sync::{mpsc, watch};

use crate::observe::fields::{FIELDS, READ, StoreHistory, WRITE};
use crate::state::server_state::State;

/// The counters of a server, now and in the past.
#[derive(Debug)]
pub(crate) struct Sampler {
    state: Arc<State>,
    /// With the cache policy at the time of its last sample.
    history: Mutex<(StoreHistory, CachePolicy)>,
}

impl Sampler {
    pub(crate) fn new(state: Arc<State>) -> Self {
        let (reading, policy) = read(&state);
        let history = StoreHistory::new(&FIELDS, for_history(reading));
        let history = Mutex::new((history, policy));
        Self { state, history }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// All counters and histograms, and the cache policy, now.
    pub(crate) fn read(&self) -> (Reading, CachePolicy) {
        read(&self.state)
    }

    /// Calls `look` with the history and the policy at the time of its last sample.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&StoreHistory, CachePolicy) -> R) -> R {
        let (history, policy) = &*self.history.lock();
        look(history, *policy)
    }

    /// Takes samples until `stopped` turns true.
    pub(crate) async fn run(
        self: Arc<Self>,
        stopped: watch::Receiver<bool>,
        alive: mpsc::Sender<()>,
    ) {
        let sample = move || {
            // Writes retry failed background work; where none come, this does.
            if self.state.db.health().is_err() {
                let _ = self.state.db.resume();
            }
            let (reading, policy) = self.read();
            let (history, last_policy) = &mut *self.history.lock();
            history.add(for_history(reading));
            *last_policy = policy;
        };
        sampling::every_second(sample, stopped, alive).await;
    }
}

/// Without the histograms of which samples have no quantiles.
fn for_history(mut reading: Reading) -> Reading {
    reading.counts.retain(|(name, _)| [READ, WRITE].contains(name));
    reading
}

fn read(state: &State) -> (Reading, CachePolicy) {
    let statistics = state.db.statistics();
    let counted = &state.counters;
    let mut counters = statistics.counters;
    counters.extend([
        ("server.started_ms", state.started_ms),
        ("server.commands", counted.commands.get()),
        ("server.failed_commands", counted.failed_commands.get()),
        ("server.loop_commands", counted.loop_commands.get()),
        ("server.connections", counted.connections.get()),
        ("server.rejected_connections", counted.rejected_connections.get()),
        ("server.closed_strangers", state.clients.closed_strangers()),
        ("server.failed_authentications", state.guesses.failures()),
        ("server.connected_clients", state.clients.len() as u64),
        ("server.input_bytes", counted.input_bytes.get()),
        ("server.output_bytes", counted.output_bytes.get()),
        ("server.request_buffer_bytes", state.memory.used_bytes() as u64),
        ("server.discarded_requests", counted.discarded_requests.get()),
        ("server.output_limit_disconnections", counted.output_limit_disconnections.get()),
        ("server.hits", counted.hits.get()),
        ("server.misses", counted.misses.get()),
        ("server.conflicts", counted.conflicts.get()),
        ("server.panics", counted.panics.get()),
    ]);
    let times = [(READ, counted.read_ns.counts()), (WRITE, counted.write_ns.counts())];
    let mut latencies: Vec<(&str, Latency)> = statistics.latencies;
    latencies.extend(times.iter().map(|(name, counts)| (*name, counts.summary())));
    let counts = times.into_iter().chain(statistics.histograms).collect();
    let reading = Reading {
        unix_ms: state.now_ms(),
        monotonic_ns: state.monotonic_ns(),
        counters,
        latencies,
        counts,
    };
    (reading, state.db.cache_policy())
}
