//! The state shared by all connections of a server. All of it may be used from any thread; each
//! part documents its own locking.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidekv::{Db, Histogram};
use tidekv_io::{Clock, Random, SeededRandom, SystemClock, SystemRandom};
use tidekv_net::clients::Clients;
use tidekv_net::error::{Error, Result};
use tidekv_net::guesses::Guesses;
use tidekv_net::tls::Tls;
use tidekv_observe::curves::Curves;
use tokio::sync::Semaphore;

use crate::options::ServerOptions;
use crate::state::checkpoints::Checkpoints;
use crate::state::command_statistics::CommandStatistics;
use crate::state::cursors::Cursors;
use crate::state::keyspaces::{CURVES, DATABASES, Keyspaces};
use crate::state::latency_monitor::LatencyMonitor;
use crate::state::memory::Memory;
use crate::state::monitors::Monitors;
use crate::state::pause::Pause;
use crate::state::settings::Settings;
use crate::state::slow_disk_breaker::SlowDiskBreaker;
use crate::state::slow_log::SlowLog;
use crate::state::stripes::Stripes;

/// The shared state of a server.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) db: Db,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) settings: Settings,
    pub(crate) clients: Arc<Clients>,
    pub(crate) guesses: Guesses,
    pub(crate) memory: Memory,
    pub(crate) cursors: Cursors,
    pub(crate) stripes: Stripes,
    pub(crate) slow_disk_breaker: SlowDiskBreaker,
    /// The certificate, if the server has TLS.
    pub(crate) tls: Option<Arc<Tls>>,
    clock: SystemClock,
    /// Permits of walks over many keys: one I/O thread always remains free for other work.
    pub(crate) walks: Arc<Semaphore>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) command_statistics: CommandStatistics,
    pub(crate) slow_log: SlowLog,
    pub(crate) latency_monitor: LatencyMonitor,
    pub(crate) monitors: Monitors,
    pub(crate) pause: Pause,
    pub(crate) checkpoints: Arc<Checkpoints>,
    /// The sizes of the databases by slot, as `INFO keyspace` last estimated them.
    pub(crate) estimates: Mutex<[Option<Estimate>; DATABASES]>,
    /// Miss-ratio curves, if they are on.
    pub(crate) curves: Option<Arc<Curves>>,
    /// For random choices and identities, not for secrets.
    pub(crate) random: SeededRandom,
    pub(crate) started_ms: u64,
    /// Forty hexadecimal digits that no other run of a server has.
    pub(crate) run_id: String,
    /// The first TCP port; 0 if there is none.
    pub(crate) port: u16,
}

impl State {
    pub(crate) fn new(db: Db, options: &ServerOptions, port: u16) -> Result<Self> {
        let settings = Settings::new(options)?;
        Ok(Self {
            keyspaces: Keyspaces::open(&db, options.filter_kind).map_err(Error::store)?,
            clients: Arc::default(),
            guesses: Guesses::default(),
            memory: Memory::new(
                db.clone(),
                options.request_bytes_max,
                options.buffered_bytes_max.max(options.request_bytes_max),
            ),
            cursors: Cursors::new(SystemRandom::new().next_u64()),
            stripes: Stripes::new(),
            slow_disk_breaker: SlowDiskBreaker::default(),
            tls: None,
            clock: SystemClock::new(),
            walks: Arc::new(Semaphore::new(settings.io_threads.saturating_sub(1).max(1))),
            counters: Arc::default(),
            command_statistics: CommandStatistics::default(),
            slow_log: SlowLog::default(),
            latency_monitor: LatencyMonitor::default(),
            monitors: Monitors::default(),
            pause: Pause::default(),
            checkpoints: Arc::new(Checkpoints::new(
                db.clone(),
                options.checkpoint_directory.as_deref(),
            )?),
            estimates: Mutex::default(),
            curves: options
                .profile_window
                .map(|window| Arc::new(Curves::new(CURVES.len(), window))),
            random: SeededRandom::new(SystemRandom::new().next_u64()),
            started_ms: db.unix_ms(),
            run_id: run_id(&SystemRandom::new()),
            settings,
            port,
            db,
        })
    }

    /// Milliseconds since 1970, by the store's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        self.db.unix_ms()
    }

    /// The machine's time of day in microseconds since 1970. The microseconds within a millisecond
    /// grow with the machine's monotonic clock.
    pub(crate) fn now_us(&self) -> u64 {
        let ms = self.now_ms().saturating_add_signed(self.db.clock_offset_ms());
        ms * 1000 + self.monotonic_ns() / 1000 % 1000
    }

    /// Nanoseconds of the machine's monotonic clock.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }
}

fn run_id(random: &SystemRandom) -> String {
    let mut id: String = (0..3).map(|_| format!("{:016x}", random.next_u64())).collect();
    id.truncate(40);
    id
}

/// An estimate of the size of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) keys: u64,
    /// Keys with a deadline.
    pub(crate) expires: u64,
    /// Mean remaining time of these.
    pub(crate) mean_ttl_ms: u64,
    /// When it was made, by the monotonic clock.
    pub(crate) made_ns: u64,
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
    /// Error replies by their code, for `INFO errorstats`.
    pub(crate) errors: Mutex<BTreeMap<String, u64>>,
    /// Time from complete requests to their replies. Requests received together are measured
    /// together: as writes if one of them writes, or is the `EXEC` of a write.
    pub(crate) read_ns: Histogram,
    pub(crate) write_ns: Histogram,
}

/// Codes of errors that are told apart.
const ERROR_CODES_MAX: usize = 128;

impl Counters {
    /// Counts a lookup of a key.
    pub(crate) fn count_lookup(&self, is_found: bool) {
        if is_found { &self.hits } else { &self.misses }.add(1);
    }

    /// Counts an error reply.
    pub(crate) fn add_error(&self, message: &str) {
        self.failed_commands.add(1);
        let code = message.split(' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        if errors.len() < ERROR_CODES_MAX || errors.contains_key(code) {
            *errors.entry(code.to_owned()).or_default() += 1;
        }
    }
}

impl State {
    /// Makes `INFO` and the statistics of commands count from now on: `CONFIG RESETSTAT`.
    pub(crate) fn reset_counters(&self) {
        let all = &self.counters;
        for counter in [
            &all.connections,
            &all.rejected_connections,
            &all.commands,
            &all.failed_commands,
            &all.loop_commands,
            &all.input_bytes,
            &all.output_bytes,
            &all.hits,
            &all.misses,
            &all.conflicts,
            &all.panics,
            &all.output_limit_disconnections,
            &all.discarded_requests,
        ] {
            counter.reset();
        }
        all.errors.lock().clear();
        self.command_statistics.reset();
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    total: AtomicU64,
    /// The number at the last reset.
    at_reset: AtomicU64,
}

impl Counter {
    pub(crate) fn add(&self, n: usize) {
        self.total.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// The number since the server was started.
    pub(crate) fn get(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The number since the last reset, or since the server was started.
    pub(crate) fn since_reset(&self) -> u64 {
        self.get().saturating_sub(self.at_reset.load(Ordering::Relaxed))
    }

    fn reset(&self) {
        self.at_reset.store(self.get(), Ordering::Relaxed);
    }
}
