//! Counters and gauges by name.
//!
//! Counters are relaxed atomics; a counter that every read increments is a
//! [`tidekv_io::SpreadCounter`].

use std::sync::atomic::{AtomicU64, Ordering};

use tidekv_io::latency::{Latency, LatencyCounts};

/// A number that only grows (or is set), readable at any time.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds one and returns the previous value.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counters, gauges and latencies of a store at one moment. Counters start at zero when the
/// store is opened; names that end in `bytes` or `ns` have that unit.
///
/// Each counter is also a field of a type for its subject, for example
/// [`OperationStatistics::gets`](crate::statistics::OperationStatistics::gets).
/// [`Statistics::describe`] says what a counter counts.
///
/// ```
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
/// # let keyspace = db.keyspace("default")?;
/// keyspace.put("key", "value")?;
/// keyspace.get("key")?;
/// let statistics = db.statistics();
/// assert_eq!(statistics.operations().writes, 1);
/// assert_eq!(statistics.counter("store.gets"), 1); // the same, by name
/// assert!(statistics.memory().memtable_bytes > 0);
/// assert!(statistics.latencies.iter().any(|(name, _)| *name == "write"));
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// Name and value of every counter and gauge, in a fixed order.
    pub counters: Vec<(&'static str, u64)>,
    /// Name and summary of every latency histogram.
    pub latencies: Vec<(&'static str, Latency)>,
    /// Name and buckets of the same histograms.
    pub histograms: Vec<(&'static str, LatencyCounts)>,
}

impl Statistics {
    /// The counter or gauge `name`; 0 if there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(n, _)| *n == name).map_or(0, |&(_, value)| value)
    }
}
