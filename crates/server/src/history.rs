//! What was counted lately: samples of the last minutes by the second, and of the last
//! hours by ten.
//!
//! A [`Reading`] is everything that is counted, at one moment. A sample is what lies
//! between two readings: rates by the second, the state at its end, quantiles of what
//! took place in between. A list of fields says what a sample has: [`FIELDS`] those of a
//! store; the page, `/api/stats` and `docs/reference/http.md` come from it.
//!
//! Guarantees: at most [`Ring::kept`] samples of each interval are kept, of a store some
//! 240 KiB in all; samples are numbered from 1 in the order of their making, so that a reader
//! can ask for those that it has not seen.
//!
//! Plain data: the caller brings the time and locks.

use std::collections::VecDeque;

use tidekv::{CachePolicy, Latency, LatencyCounts};
use tidekv_tiered::ReadTimes;

/// How long things took, since the start.
#[derive(Debug, Clone)]
pub(crate) enum Times {
    /// Commands.
    Commands(LatencyCounts),
    /// Lookups that read a flash device.
    Reads(Box<ReadTimes>),
}

impl Times {
    /// What has come since `earlier`, times of the same thing: how many, half of them took at
    /// most so many nanoseconds, and 99 % so many.
    fn since(&self, earlier: Option<&Self>) -> (u64, u64, u64) {
        match (self, earlier) {
            (Self::Commands(later), earlier) => {
                let earlier = match earlier {
                    Some(Self::Commands(earlier)) => earlier,
                    _ => &LatencyCounts::default(),
                };
                let latency = later.since(earlier);
                (latency.count, latency.p50_ns, latency.p99_ns)
            }
            (Self::Reads(later), earlier) => {
                let times = match earlier {
                    Some(Self::Reads(earlier)) => later.since(earlier),
                    _ => ReadTimes::clone(later),
                };
                (times.count(), times.quantile_ns(0.5), times.quantile_ns(0.99))
            }
        }
    }
}

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
    pub(crate) counts: Vec<(&'static str, Times)>,
}

impl Reading {
    /// The counter called `name`; 0 when there is none.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(n, _)| *n == name).map_or(0, |&(_, value)| value)
    }

    fn sum(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.counter(name)).sum()
    }

    fn times(&self, name: &str) -> Option<&Times> {
        self.counts.iter().find(|(n, _)| *n == name).map(|(_, times)| times)
    }
}

/// Where the number of a field comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// A counter as it stands at the end of the sample.
    State(&'static str),
    /// The most that a counter has been at the end of a second of the sample.
    Most(&'static str),
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
    pub(crate) origin: Origin,
}

pub(crate) const fn field(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    origin: Origin,
) -> Field {
    Field { name, unit, help, origin }
}

use Origin::{Most, P50, P99, Rate, State};

/// What each sample of a store has.
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
pub(crate) struct Sample<const N: usize> {
    pub(crate) number: u64,
    pub(crate) unix_ms: u64,
    /// In the order of the fields; `NaN` where there is nothing to say. Seven digits are more
    /// than a page shows.
    pub(crate) values: [f32; N],
}

impl<const N: usize> Sample<N> {
    /// `most` is what each field has been at most in between.
    fn between(
        fields: &[Field; N],
        earlier: &Reading,
        later: &Reading,
        most: &[u64; N],
        number: u64,
    ) -> Self {
        let ns = later.monotonic_ns.saturating_sub(earlier.monotonic_ns).max(1);
        let quantile = |name: &str, of: fn((u64, u64, u64)) -> u64| {
            let times = later.times(name).map(|times| times.since(earlier.times(name)));
            let times = times.filter(|(count, ..)| *count > 0);
            times.map_or(f64::NAN, |times| of(times) as f64 / 1000.0)
        };
        let value_of = |at: usize| match fields[at].origin {
            State(name) => later.counter(name) as f64,
            Most(_) => most[at] as f64,
            // A counter that goes back (a cache was made anew) has gained nothing.
            Rate(names) => {
                later.sum(names).saturating_sub(earlier.sum(names)) as f64 * 1e9 / ns as f64
            }
            P50(name) => quantile(name, |(_, p50_ns, _)| p50_ns),
            P99(name) => quantile(name, |(_, _, p99_ns)| p99_ns),
        };
        let values = std::array::from_fn(|at| value_of(at) as f32);
        Self { number, unix_ms: later.unix_ms, values }
    }
}

/// The last samples of one length.
#[derive(Debug)]
pub(crate) struct Ring<const N: usize> {
    /// In ticks.
    pub(crate) interval: u64,
    pub(crate) kept: usize,
    samples: VecDeque<Sample<N>>,
    /// The reading at the end of the last sample.
    last: Reading,
    /// The most that each field has been since.
    most: [u64; N],
}

impl<const N: usize> Ring<N> {
    fn new(interval: u64, kept: usize, first: &Reading) -> Self {
        let samples = VecDeque::with_capacity(kept);
        Self { interval, kept, samples, last: first.clone(), most: [0; N] }
    }

    fn add(&mut self, fields: &[Field; N], reading: &Reading, number: u64) {
        for (most, field) in self.most.iter_mut().zip(fields) {
            if let Most(name) = field.origin {
                *most = (*most).max(reading.counter(name));
            }
        }
        if !number.is_multiple_of(self.interval) {
            return;
        }
        if self.samples.len() == self.kept {
            self.samples.pop_front();
        }
        let most = std::mem::replace(&mut self.most, [0; N]);
        self.samples.push_back(Sample::between(fields, &self.last, reading, &most, number));
        self.last = reading.clone();
    }

    /// Those that were made after the sample `number`, oldest first.
    pub(crate) fn since(&self, number: u64) -> impl DoubleEndedIterator<Item = &Sample<N>> {
        self.samples.iter().filter(move |sample| sample.number > number)
    }
}

/// Samples of both lengths, and the last reading.
#[derive(Debug)]
pub(crate) struct History<const N: usize> {
    /// What each sample has.
    pub(crate) fields: &'static [Field; N],
    /// Of a second each, ten minutes back.
    pub(crate) fine: Ring<N>,
    /// Of ten seconds each, two hours back.
    pub(crate) coarse: Ring<N>,
    pub(crate) now: Reading,
    /// Of the last sample.
    pub(crate) number: u64,
}

/// The history of a store.
pub(crate) type StoreHistory = History<{ FIELDS.len() }>;

impl<const N: usize> History<N> {
    pub(crate) fn new(fields: &'static [Field; N], first: Reading) -> Self {
        Self {
            fields,
            fine: Ring::new(1, 600, &first),
            coarse: Ring::new(10, 720, &first),
            now: first,
            number: 0,
        }
    }

    /// A second after the last one.
    pub(crate) fn add(&mut self, reading: Reading) {
        self.number += 1;
        self.fine.add(self.fields, &reading, self.number);
        self.coarse.add(self.fields, &reading, self.number);
        self.now = reading;
    }

    /// The number of the field `name` in a sample.
    ///
    /// # Panics
    ///
    /// When there is no such field.
    pub(crate) fn value(&self, sample: &Sample<N>, name: &str) -> f64 {
        let at = self.fields.iter().position(|field| field.name == name);
        f64::from(sample.values[at.unwrap_or_else(|| panic!("no field is called {name}"))])
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
        let mut history = History::new(&FIELDS, reading(0, &[("io.reads", 100)]));
        history.add(reading(4, &[("io.reads", 108), ("cache.bytes_max", 7)]));
        let sample = history.fine.since(0).next().unwrap();
        let value = |name| history.value(sample, name);
        assert_eq!((value("reads"), value("cache_bytes_max")), (2.0, 7.0));
        assert!(value("read_us_p99").is_nan());
        history.add(reading(5, &[("io.reads", 3)]));
        let sample = history.fine.since(1).next().unwrap();
        assert_eq!(history.value(sample, "reads"), 0.0, "it went back");
    }

    #[test]
    fn quantiles_are_those_of_the_sample() {
        let histogram = tidekv::Histogram::default();
        let with = |second| {
            let counts = vec![(READ, Times::Commands(histogram.counts()))];
            Reading { counts, ..reading(second, &[]) }
        };
        histogram.record_many(1_000_000_000, 1000);
        let mut history = History::new(&FIELDS, with(0));
        histogram.record(2000);
        history.add(with(1));
        let p99 = history.value(history.fine.since(0).next().unwrap(), "read_us_p99");
        assert!((2.0..2.2).contains(&p99), "{p99}");
    }

    #[test]
    fn what_was_in_between_is_in_the_longer_sample_too() {
        static WORST: [Field; 1] = [field("worst", "", "the worst", Most("state"))];
        let mut history = History::new(&WORST, reading(0, &[]));
        for second in 1..=20 {
            history.add(reading(second, &[("state", if second == 4 { 3 } else { second % 2 })]));
        }
        let coarse: Vec<f32> = history.coarse.since(0).map(|sample| sample.values[0]).collect();
        assert_eq!(coarse, [3.0, 1.0]);
        let fine: Vec<f32> = history.fine.since(0).map(|sample| sample.values[0]).collect();
        assert_eq!(fine[2..6], [1.0, 3.0, 1.0, 0.0]);
    }

    #[test]
    fn both_rings_are_bounded_and_end_with_the_same_reading() {
        let mut history = History::new(&FIELDS, reading(0, &[]));
        for second in 1..=10_000 {
            history.add(reading(second, &[("io.reads", second * second)]));
        }
        assert_eq!((history.fine.since(0).count(), history.coarse.since(0).count()), (600, 720));
        let last = history.coarse.since(0).next_back().unwrap();
        assert_eq!(history.value(last, "reads"), (10_000f64.powi(2) - 9_990f64.powi(2)) / 10.0);
        assert_eq!((last.number, last.unix_ms), (10_000, 1_700_010_000_000));
        assert_eq!(history.fine.since(9_997).count(), 3);
        assert_eq!(history.fine.since(10_000).count(), 0);
        let bytes = (600 + 720) * size_of::<Sample<{ FIELDS.len() }>>();
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
