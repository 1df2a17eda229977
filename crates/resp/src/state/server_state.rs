//! The state shared by all connections of a server. All of it may be used from any thread; each
//! part documents its own locking.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidekv::{Db, Histogram};
use tidekv_io::{Clock, Random, SeededRandom, SystemClock, SystemRandom};
use tidekv_net::clients::Clients;
use tidekv_net::error::{Error, Result};
use tidekv_observe::curves::Curves;
use tokio::sync::Semaphore;

use crate::options::ServerOptions;
use crate::state::cursors::Cursors;
use crate::state::keyspaces::{CURVES, Keyspaces};
use crate::state::memory::Memory;
use crate::state::settings::Settings;
use crate::state::slow_disk_breaker::SlowDiskBreaker;
use crate::state::stripes::Stripes;

/// The shared state of a server.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) db: Db,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) settings: Settings,
    pub(crate) clients: Arc<Clients>,
    pub(crate) memory: Memory,
    pub(crate) cursors: Cursors,
    pub(crate) stripes: Stripes,
    pub(crate) slow_disk_breaker: SlowDiskBreaker,
    clock: SystemClock,
    /// Permits of walks over many keys: one I/O thread always remains free for other work.
    pub(crate) walks: Arc<Semaphore>,
    pub(crate) counters: Arc<Counters>,
    /// Miss-ratio curves, if they are on.
    pub(crate) curves: Option<Arc<Curves>>,
    /// For random choices and identities, not for secrets.
    pub(crate) random: SeededRandom,
    pub(crate) started_ms: u64,
    /// The first TCP port; 0 if there is none.
    pub(crate) port: u16,
}

impl State {
    pub(crate) fn new(db: Db, options: &ServerOptions, port: u16) -> Result<Self> {
        let settings = Settings::new(options)?;
        Ok(Self {
            keyspaces: Keyspaces::open(&db, options.filter_kind).map_err(Error::store)?,
            clients: Arc::default(),
            memory: Memory::new(
                db.clone(),
                options.request_bytes_max,
                options.buffered_bytes_max.max(options.request_bytes_max),
            ),
            cursors: Cursors::new(SystemRandom::new().next_u64()),
            stripes: Stripes::new(),
            slow_disk_breaker: SlowDiskBreaker::default(),
            clock: SystemClock::new(),
            walks: Arc::new(Semaphore::new(settings.io_threads.saturating_sub(1).max(1))),
            counters: Arc::default(),
            curves: options
                .profile_window
                .map(|window| Arc::new(Curves::new(CURVES.len(), window))),
            random: SeededRandom::new(SystemRandom::new().next_u64()),
            started_ms: db.unix_ms(),
            settings,
            port,
            db,
        })
    }

    /// Milliseconds since 1970, by the store's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.db.unix_ms()
    }

    /// Nanoseconds of the machine's monotonic clock.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }
}

/// The counters of the server, for `INFO stats`.
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
    /// Transactions retried after a conflict with another writer.
    pub(crate) conflicts: Counter,
    pub(crate) panics: Counter,
    /// Connections closed because their clients did not read replies whose memory was needed.
    pub(crate) output_limit_disconnections: Counter,
    /// Requests discarded because they were too large or there was no room for them.
    pub(crate) discarded_requests: Counter,
    /// Time from complete requests to their replies. Requests received together are measured
    /// together: as writes if one of them writes, or is the `EXEC` of a write.
    pub(crate) read_ns: Histogram,
    pub(crate) write_ns: Histogram,
}

impl Counters {
    /// Counts a lookup of a key.
    pub(crate) fn count_lookup(&self, is_found: bool) {
        if is_found { &self.hits } else { &self.misses }.add(1);
    }
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
