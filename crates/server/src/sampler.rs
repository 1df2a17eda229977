//! Takes a reading of everything that is counted once a second, and keeps the history.
//!
//! A reading takes the lock of every shard of the caches, so it is done on an I/O thread.
//! Safe to use from all threads; the lock is held while a sample is made or shown.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidekv::Latency;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::history::{FIELDS, READ, Reading, StoreHistory, Times, WRITE};
use crate::state::State;

/// The length of the finest sample.
const TICK: Duration = Duration::from_secs(1);

/// What the page shows of a server.
#[derive(Debug)]
pub(crate) struct Sampler {
    state: Arc<State>,
    history: Mutex<StoreHistory>,
}

impl Sampler {
    pub(crate) fn new(state: Arc<State>) -> Self {
        let history = Mutex::new(StoreHistory::new(&FIELDS, read(&state)));
        Self { state, history }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Everything that is counted, now.
    pub(crate) fn read(&self) -> Reading {
        read(&self.state)
    }

    /// What `look` makes of the history.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&StoreHistory) -> R) -> R {
        look(&self.history.lock())
    }

    /// Takes samples until `stopped` turns true.
    pub(crate) async fn run(
        self: Arc<Self>,
        stopped: watch::Receiver<bool>,
        alive: mpsc::Sender<()>,
    ) {
        let sample = move || {
            let reading = self.read();
            self.history.lock().add(reading);
        };
        every_second(sample, stopped, alive).await;
    }
}

/// Has a sample taken once a second, on an I/O thread, until `stopped` turns true.
pub(crate) async fn every_second(
    sample: impl Fn() + Send + Sync + 'static,
    mut stopped: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
) {
    let sample = Arc::new(sample);
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            _ = ticks.tick() => {}
        }
        let sample = Arc::clone(&sample);
        if tokio::task::spawn_blocking(move || sample()).await.is_err() {
            break;
        }
    }
    drop(alive);
}

fn read(state: &State) -> Reading {
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
    let counts = times.map(|(name, counts)| (name, Times::Commands(counts))).into();
    Reading {
        unix_ms: state.now_ms(),
        monotonic_ns: state.monotonic_ns(),
        policy: state.db.cache_policy(),
        counters,
        latencies,
        counts,
    }
}
