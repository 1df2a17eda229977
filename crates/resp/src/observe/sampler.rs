//! Takes a reading of everything that is counted once a second, and keeps the history.
//!
//! A reading takes the lock of every shard of the caches, so it is done on an I/O thread.
//! Safe to use from all threads; the lock is held while a sample is made or shown.

use std::sync::Arc;

use parking_lot::Mutex;
use tidekv::{CachePolicy, Latency};
use tidekv_observe::history::Reading;
use tidekv_observe::sampling;
use tokio::sync::{mpsc, watch};

use crate::observe::fields::{FIELDS, READ, StoreHistory, WRITE};
use crate::state::server_state::State;

/// What the page shows of a server.
#[derive(Debug)]
pub(crate) struct Sampler {
    state: Arc<State>,
    /// And how the caches shared memory at the end of it.
    history: Mutex<(StoreHistory, CachePolicy)>,
}

impl Sampler {
    pub(crate) fn new(state: Arc<State>) -> Self {
        let (reading, policy) = read(&state);
        let history = Mutex::new((StoreHistory::new(&FIELDS, reading), policy));
        Self { state, history }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Everything that is counted, and how the caches share memory, now.
    pub(crate) fn read(&self) -> (Reading, CachePolicy) {
        read(&self.state)
    }

    /// What `look` makes of the history.
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
            let (reading, policy) = self.read();
            let (history, last_policy) = &mut *self.history.lock();
            history.add(reading);
            *last_policy = policy;
        };
        sampling::every_second(sample, stopped, alive).await;
    }
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
        ("server.connected_clients", state.clients.len() as u64),
        ("server.input_bytes", counted.input_bytes.get()),
        ("server.output_bytes", counted.output_bytes.get()),
        ("server.request_buffer_bytes", state.budget.used_bytes() as u64),
        ("server.hits", counted.hits.get()),
        ("server.misses", counted.misses.get()),
        ("server.conflicts", counted.conflicts.get()),
        ("server.panics", counted.panics.get()),
    ]);
    let times = [(READ, counted.read_ns.counts()), (WRITE, counted.write_ns.counts())];
    let mut latencies: Vec<(&str, Latency)> = statistics.latencies;
    latencies.extend(times.iter().map(|(name, counts)| (*name, counts.summary())));
    let counts = times.map(|(name, counts)| (name, counts)).into();
    let reading = Reading {
        unix_ms: state.now_ms(),
        monotonic_ns: state.monotonic_ns(),
        counters,
        latencies,
        counts,
    };
    (reading, state.db.cache_policy())
}
