//! What was counted lately: samples of the last minutes by the second, and of the last
//! hours by ten.
//!
//! A [`Reading`] is everything that is counted, at one moment. A sample is what lies
//! between two readings: rates by the second, the state at its end, quantiles of what
//! took place in between. [`FIELDS`] says what a sample has; the page, `/api/stats` and
//! `docs/http.md` come from it.
//!
//! Guarantees: at most [`Ring::kept`] samples of each interval are kept, some 240 KiB in
//! all; samples are numbered from 1 in the order of their making, so that a reader
//! can ask for those that it has not seen.
//!
//! Plain data: the caller brings the time and locks.

use std::collections::VecDeque;

use tidekv::{CachePolicy, Latency, LatencyCounts};

/// Everything that is counted, at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    pub(crate) unix_ms: u64,
    pub(crate) monotonic_ns: u64,
    pub(crate) policy: CachePolicy,
    pub(crate) counters: Vec<(&'static str, u64)>,
    /// Since the start.
    pub(crate) latencies: Vec<(&'static str, Latency)>,
    /// The same where quantiles of a part are wanted.
    pub(crate) counts: Vec<(&'static str, LatencyCounts)>,
}

impl Reading {
    /// The counter called `name`; 0 when there is none.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(n, _)| *n == name).map_or(0, |&(_, value)| value)
    }

    fn sum(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.counter(name)).sum()
    }

    /// What the latency called `name` has gained since `earlier`.
    fn latency_since(&self, earlier: &Self, name: &str) -> Latency {
        let find = |reading: &Self| {
            let found = reading.counts.iter().find(|(n, _)| *n == name);
            found.map(|(_, counts)| counts.clone()).unwrap_or_default()
        };
        find(self).since(&find(earlier))
    }
}

/// Where the number of a field comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// A counter as it stands at the end of the sample.
    State(&'static str),
    /// What these counters have gained, by the second.
    Rate(&'static [&'static str]),
    /// Of the latency of that name, in µs; nothing when nothing was measured.
    P50(&'static str),
    P99(&'static str),
}

/// A number that each sample has.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) help: &'static str,
    origin: Origin,
}

const fn field(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    origin: Origin,
) -> Field {
    Field { name, unit, help, origin }
}

use Origin::{P50, P99, Rate, State};

/// What each sample has.
#[rustfmt::skip]
pub(crate) static FIELDS: [Field; 41] = [
    field("operations", "1/s", "commands of clients", Rate(&["server.commands"])),
    field("reads", "1/s", "reads of storage for them", Rate(&["io.reads"])),
    field("read_bytes", "B/s", "bytes of these reads", Rate(&["io.read_bytes"])),
    field("writes", "1/s", "entries written and deleted", Rate(&["store.writes"])),
    field("compaction_bytes", "B/s", "bytes that compactions read and write", Rate(&["compaction.read_bytes", "compaction.write_bytes"])),
    field("cache_bytes_max", "B", "memory that all caches together may take", State("cache.bytes_max")),
    field("measuring_bytes", "B", "of it, what sketches and ghosts take", State("cache.measuring_bytes")),
    field("window_bytes", "B", "for how many more bytes a ghost stands", State("cache.window_bytes")),
    field("kv_bytes", "B", "values (KV): what they take", State("cache.kv.charged_bytes")),
    field("kp_bytes", "B", "pointers (KP): what they take", State("cache.kp.charged_bytes")),
    field("block_bytes", "B", "blocks: what they take", State("cache.block.charged_bytes")),
    field("kv_bytes_max", "B", "values: what they may take", State("cache.kv.bytes_max")),
    field("kp_bytes_max", "B", "pointers: what they may take", State("cache.kp.bytes_max")),
    field("block_bytes_max", "B", "blocks: what they may take", State("cache.block.bytes_max")),
    field("kv_hits", "1/s", "lookups that a value answered", Rate(&["cache.kv.hits"])),
    field("kp_hits", "1/s", "lookups that a pointer led to their block", Rate(&["cache.kp.hits"])),
    field("point_misses", "1/s", "lookups that knew neither", Rate(&["cache.point.misses"])),
    field("data_hits", "1/s", "data blocks found in memory", Rate(&["cache.data.hits"])),
    field("data_misses", "1/s", "data blocks not in memory", Rate(&["cache.data.misses"])),
    field("metadata_hits", "1/s", "index and filter blocks found", Rate(&["cache.index.hits", "cache.filter.hits"])),
    field("metadata_misses", "1/s", "index and filter blocks not in memory", Rate(&["cache.index.misses", "cache.filter.misses"])),
    field("false_positives", "1/s", "lookups that passed a filter for nothing", Rate(&["filter.false_positives"])),
    field("repairs", "1/s", "repairs of filters, so that a key no longer passes", Rate(&["filter.repairs"])),
    field("repair_reads", "1/s", "reads of storage for repairs", Rate(&["filter.repair_reads"])),
    field("cold_lookups", "1/s", "lookups of single keys that read storage", Rate(&["cold.lookups"])),
    field("cold_reads", "1/s", "blocks that they waited for", Rate(&["cold.reads"])),
    field("cold_filter_reads", "1/s", "of these blocks, filters", Rate(&["cold.filter_reads"])),
    field("cold_reads_in_vain", "1/s", "of these blocks, those of tables that do not have the key", Rate(&["cold.reads_in_vain"])),
    field("kv_saved", "1/s", "reads that values saved", Rate(&["cache.kv.saved_reads"])),
    field("kp_saved", "1/s", "reads that pointers saved", Rate(&["cache.kp.saved_reads"])),
    field("block_saved", "1/s", "reads that blocks saved", Rate(&["cache.block.saved_reads"])),
    field("kv_wanted", "1/s", "reads that a window more of values would save", Rate(&["cache.kv.wanted_reads"])),
    field("kp_wanted", "1/s", "reads that a window more of pointers would save", Rate(&["cache.kp.wanted_reads"])),
    field("block_wanted", "1/s", "reads that a window more of blocks would save", Rate(&["cache.block.wanted_reads"])),
    field("read_us_p50", "us", "half of the commands that only read took at most", P50(READ)),
    field("read_us_p99", "us", "99 % of the commands that only read took at most", P99(READ)),
    field("write_us_p50", "us", "half of the commands that write took at most", P50(WRITE)),
    field("write_us_p99", "us", "99 % of the commands that write took at most", P99(WRITE)),
    field("memtable_bytes", "B", "what was written last and is not in a file yet", State("memory.memtable_bytes")),
    field("clients", "1", "connections of clients", State("server.connected_clients")),
    field("memory_bytes_max", "B", "memory that the store may take", State("memory.budget_bytes")),
];

/// The names of the latencies of commands.
pub(crate) const READ: &str = "command.read";
pub(crate) const WRITE: &str = "command.write";

/// What lies between two readings.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) number: u64,
    pub(crate) unix_ms: u64,
    /// In the order of [`FIELDS`]; `NaN` where there is nothing to say. Seven digits are more
    /// than a page shows.
    pub(crate) values: [f32; FIELDS.len()],
}

impl Sample {
    fn between(earlier: &Reading, later: &Reading, number: u64) -> Self {
        let ns = later.monotonic_ns.saturating_sub(earlier.monotonic_ns).max(1);
        let quantile = |name: &str, of: fn(&Latency) -> u64| {
            let latency = later.latency_since(earlier, name);
            if latency.count == 0 { f64::NAN } else { of(&latency) as f64 / 1000.0 }
        };
        let value_of = |field: &Field| match field.origin {
            State(name) => later.counter(name) as f64,
            // A counter that goes back (a cache was made anew) has gained nothing.
            Rate(names) => {
                later.sum(names).saturating_sub(earlier.sum(names)) as f64 * 1e9 / ns as f64
            }
            P50(name) => quantile(name, |latency| latency.p50_ns),
            P99(name) => quantile(name, |latency| latency.p99_ns),
        };
        let values = std::array::from_fn(|at| value_of(&FIELDS[at]) as f32);
        Self { number, unix_ms: later.unix_ms, values }
    }

    /// The number of the field `name`.
    ///
    /// # Panics
    ///
    /// When there is no such field.
    pub(crate) fn value(&self, name: &str) -> f64 {
        let at = FIELDS.iter().position(|field| field.name == name);
        f64::from(self.values[at.unwrap_or_else(|| panic!("no field is called {name}"))])
    }
}

/// The last samples of one length.
#[derive(Debug)]
pub(crate) struct Ring {
    /// In ticks.
    pub(crate) interval: u64,
    pub(crate) kept: usize,
    samples: VecDeque<Sample>,
    /// The reading at the end of the last sample.
    last: Reading,
}

impl Ring {
    fn new(interval: u64, kept: usize, first: &Reading) -> Self {
        Self { interval, kept, samples: VecDeque::with_capacity(kept), last: first.clone() }
    }

    fn add(&mut self, reading: &Reading, number: u64) {
        if !number.is_multiple_of(self.interval) {
            return;
        }
        if self.samples.len() == self.kept {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample::between(&self.last, reading, number));
        self.last = reading.clone();
    }

    /// Those that were made after the sample `number`, oldest first.
    pub(crate) fn since(&self, number: u64) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.number > number)
    }
}

/// Samples of both lengths, and the last reading.
#[derive(Debug)]
pub(crate) struct History {
    /// Of a second each, ten minutes back.
    pub(crate) fine: Ring,
    /// Of ten seconds each, two hours back.
    pub(crate) coarse: Ring,
    pub(crate) now: Reading,
    /// Of the last sample.
    pub(crate) number: u64,
}

impl History {
    pub(crate) fn new(first: Reading) -> Self {
        Self {
            fine: Ring::new(1, 600, &first),
            coarse: Ring::new(10, 720, &first),
            now: first,
            number: 0,
        }
    }

    /// A second after the last one.
    pub(crate) fn add(&mut self, reading: Reading) {
        self.number += 1;
        self.fine.add(&reading, self.number);
        self.coarse.add(&reading, self.number);
        self.now = reading;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(second: u64, counters: &[(&'static str, u64)]) -> Reading {
        Reading {
            unix_ms: 1_700_000_000_000 + second * 1000,
            monotonic_ns: second * 1_000_000_000,
            counters: counters.to_vec(),
            ..Reading::default()
        }
    }

    #[test]
    fn rates_are_by_the_second_however_long_the_sample_took() {
        let mut history = History::new(reading(0, &[("io.reads", 100)]));
        history.add(reading(4, &[("io.reads", 108), ("cache.bytes_max", 7)]));
        let sample = history.fine.since(0).next().unwrap().clone();
        assert_eq!((sample.value("reads"), sample.value("cache_bytes_max")), (2.0, 7.0));
        assert!(sample.value("read_us_p99").is_nan());
        history.add(reading(5, &[("io.reads", 3)]));
        assert_eq!(history.fine.since(1).next().unwrap().value("reads"), 0.0, "it went back");
    }

    #[test]
    fn quantiles_are_those_of_the_sample() {
        let histogram = tidekv::Histogram::default();
        let with =
            |second| Reading { counts: vec![(READ, histogram.counts())], ..reading(second, &[]) };
        histogram.record_many(1_000_000_000, 1000);
        let mut history = History::new(with(0));
        histogram.record(2000);
        history.add(with(1));
        let p99 = history.fine.since(0).next().unwrap().value("read_us_p99");
        assert!((2.0..2.2).contains(&p99), "{p99}");
    }

    #[test]
    fn both_rings_are_bounded_and_end_with_the_same_reading() {
        let mut history = History::new(reading(0, &[]));
        for second in 1..=10_000 {
            history.add(reading(second, &[("io.reads", second * second)]));
        }
        let count = |ring: &Ring| ring.since(0).count();
        assert_eq!((count(&history.fine), count(&history.coarse)), (600, 720));
        let last = history.coarse.since(0).next_back().unwrap();
        assert_eq!(last.value("reads"), (10_000f64.powi(2) - 9_990f64.powi(2)) / 10.0);
        assert_eq!((last.number, last.unix_ms), (10_000, 1_700_010_000_000));
        assert_eq!(history.fine.since(9_997).count(), 3);
        assert_eq!(history.fine.since(10_000).count(), 0);
        let bytes = (600 + 720) * size_of::<Sample>();
        assert!(bytes < 250 << 10, "{bytes} bytes of samples");
    }

    #[test]
    fn fields_have_names_of_their_own() {
        let mut names: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FIELDS.len());
    }
}
