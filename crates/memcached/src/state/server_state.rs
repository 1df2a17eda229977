//! The state shared by all connections of a cache's server. All of it may be used from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidekv_io::{Clock, Histogram, SystemClock};
use tidekv_net::address::Address;
use tidekv_net::budget::Budget;
use tidekv_net::clients::Clients;
use tidekv_net::guesses::Guesses;
use tidekv_net::reads::Reads;
use tidekv_net::tls::Tls;
use tidekv_observe::curves::Curves;
use tidekv_tiered::{Cache, Stats};

use crate::settings::options::CacheServerOptions;
use crate::settings::sizes::Report;
use crate::state::counters::{Counters, Counts};
use crate::state::objects::Objects;
use crate::state::prefixes::Prefixes;

/// Bytes of requests, and of replies, that do not count in the memory of all clients.
pub(crate) const FREE_BYTES: usize = 8 << 10;
/// Room beside a value in these: for what has been received together with it, and for lines.
const LINES_BYTES: usize = 256 << 10;

/// The counters at the last `stats reset`.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    pub(crate) counts: Counts,
    pub(crate) cache: Stats,
}

/// The shared state of a server.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) objects: Objects,
    pub(crate) options: CacheServerOptions,
    /// The bound addresses.
    pub(crate) addresses: Vec<Address>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) guesses: Guesses,
    /// The memory of incomplete requests.
    pub(crate) budget: Budget,
    /// The memory of replies that clients have not received.
    pub(crate) replies: Budget,
    pub(crate) counters: Counters,
    /// The counters by prefix of keys.
    pub(crate) prefixes: Prefixes,
    /// Time from complete requests to their replies; requests received together are measured
    /// together.
    pub(crate) latency: Histogram,
    pub(crate) started_s: u32,
    /// The baseline of `stats`.
    pub(crate) baseline: Mutex<Baseline>,
    /// Number of event-loop threads.
    pub(crate) event_loops: usize,
    /// Asynchronous flash reads.
    pub(crate) reads: Reads,
    /// Miss-ratio curves, if they are on.
    pub(crate) curves: Option<Arc<Curves>>,
    /// The results of automatic resizing, if it is on.
    pub(crate) sizes: Option<Mutex<Report>>,
    /// The certificate, if the server has TLS.
    pub(crate) tls: Option<Arc<Tls>>,
    clock: SystemClock,
    /// Set by clients; has no effect.
    verbosity: AtomicU32,
}

impl State {
    pub(crate) fn new(
        cache: Cache,
        options: CacheServerOptions,
        addresses: Vec<Address>,
        event_loops: usize,
        curves: Option<Arc<Curves>>,
    ) -> Self {
        let largest = usize::try_from(cache.object_bytes_max()).unwrap_or(usize::MAX);
        // A request within its own limit must fit, and the reply with it.
        let least = largest.saturating_add(LINES_BYTES);
        let budget = |bytes: usize| Budget::with_free_bytes(bytes.max(least), FREE_BYTES);
        Self {
            clients: Arc::default(),
            guesses: Guesses::default(),
            budget: budget(options.buffered_bytes_max),
            replies: budget(options.unread_bytes_max),
            counters: Counters::default(),
            prefixes: Prefixes::new(options.prefix_delimiter),
            latency: Histogram::default(),
            started_s: cache.now_s(),
            baseline: Mutex::default(),
            event_loops,
            curves,
            reads: Reads::new(
                (0..event_loops).filter_map(|_| cache.read_queue()),
                cache.object_bytes_max(),
            ),
            sizes: options.elastic.as_ref().map(|_| Mutex::default()),
            tls: None,
            clock: SystemClock::new(),
            verbosity: AtomicU32::new(options.verbosity),
            objects: Objects::new(cache),
            options,
            addresses,
        }
    }

    /// The current second, by the cache's clock.
    pub(crate) fn now_s(&self) -> u32 {
        self.objects.cache.now_s()
    }

    /// Waits.
    pub(crate) fn pause(&self, time: Duration) {
        self.clock.sleep(time);
    }

    /// Nanoseconds of the machine's monotonic clock.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    /// Milliseconds since 1970, by the machine's clock.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// Sets the baseline of `stats` to the current counters, and forgets the prefixes.
    pub(crate) fn reset(&self) {
        let (counts, cache) = (self.counters.all(), self.objects.cache.stats());
        *self.baseline.lock() = Baseline { counts, cache };
        self.prefixes.clear();
    }

    pub(crate) fn verbosity(&self) -> u32 {
        self.verbosity.load(Ordering::Relaxed)
    }

    pub(crate) fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level, Ordering::Relaxed);
    }
}
