//! What all connections of a server share. Everything in it may be used from
//! any thread; what each part guards stands with the part.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidekv::{Db, Histogram};
use tidekv_io::{Clock, Random, SeededRandom, SystemClock, SystemRandom};
use tidekv_net::budget::Budget;
use tidekv_net::clients::Clients;
use tidekv_net::error::{Error, Result};
use tidekv_observe::curves::Curves;
use tokio::sync::Semaphore;

use crate::options::ServerOptions;
use crate::state::cursors::Cursors;
use crate::state::detour::Detour;
use crate::state::keyspaces::{Keyspaces, SPACES};
use crate::state::settings::Settings;
use crate::state::stripes::Stripes;

/// The shared state of a server.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) db: Db,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) settings: Settings,
    pub(crate) clients: Arc<Clients>,
    pub(crate) budget: Budget,
    pub(crate) cursors: Cursors,
    pub(crate) stripes: Stripes,
    pub(crate) detour: Detour,
    clock: SystemClock,
    /// Walks over many keys that may run at once: one I/O thread always stays
    /// free for everybody else.
    pub(crate) walks: Arc<Semaphore>,
    pub(crate) counters: Counters,
    /// What caches of other sizes would miss, if that is looked at.
    pub(crate) curves: Option<Arc<Curves>>,
    /// For choices and identities, not for secrets.
    pub(crate) random: SeededRandom,
    pub(crate) started_ms: u64,
    /// The first TCP port that is listened on; 0 without one.
    pub(crate) port: u16,
}

impl State {
    pub(crate) fn new(db: Db, options: &ServerOptions, port: u16) -> Result<Self> {
        let settings = Settings::new(options)?;
        Ok(Self {
            keyspaces: Keyspaces::open(&db, options.filter_kind).map_err(Error::store)?,
            clients: Arc::default(),
            // A request that is within its own bound must fit.
            budget: Budget::new(options.buffered_bytes_max.max(options.request_bytes_max)),
            cursors: Cursors::new(SystemRandom::new().next_u64()),
            stripes: Stripes::new(),
            detour: Detour::default(),
            clock: SystemClock::new(),
            walks: Arc::new(Semaphore::new(settings.io_threads.saturating_sub(1).max(1))),
            counters: Counters::default(),
            curves: options
                .profile_window
                .map(|window| Arc::new(Curves::new(SPACES.len(), window))),
            random: SeededRandom::new(SystemRandom::new().next_u64()),
            started_ms: db.unix_ms(),
            settings,
            port,
            db,
        })
    }

    /// Milliseconds since 1970 by the store's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.db.unix_ms()
    }

    /// Nanoseconds since some moment, by the machine's clock.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }
}

/// What the server counts; `INFO stats` shows it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: Counter,
    pub(crate) rejected_connections: Counter,
    pub(crate) commands: Counter,
    pub(crate) failed_commands: Counter,
    /// Commands answered on the event loop.
    pub(crate) loop_commands: Counter,
    pub(crate) input_bytes: Counter,
    pub(crate) output_bytes: Counter,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    /// Transactions that had to start over because of another writer.
    pub(crate) conflicts: Counter,
    pub(crate) panics: Counter,
    /// From the moment when requests were complete until their replies were made. Those
    /// that came in one piece are measured together: as writes if one of them writes, or
    /// is the `EXEC` of one that does.
    pub(crate) read_ns: Histogram,
    pub(crate) write_ns: Histogram,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
