//! The history of a server's counters: samples of one second for the last minutes, and of ten
//! seconds for the last hours.
//!
//! A [`Reading`] contains all counters at one moment. A sample describes the interval between two
//! readings: rates per second, the state at its end, and quantiles of the latencies in between. A
//! list of fields defines the contents of a sample; it produces the page, `/api/stats` and the
//! tables of fields in the documents.
//!
//! Guarantees: each ring keeps at most [`Ring::kept`] samples, for a store some 240 KiB in all;
//! samples are numbered from 1 in order, so that a reader can request those that it does not have.
//!
//! Plain data: the caller provides the time and locks.

use std::collections::VecDeque;

use tidekv_io::{Latency, LatencyCounts};

/// Latencies since the start.
pub trait Times: Clone {
    /// The latencies since `earlier`, a previous state of the same latencies: their number, p50 and
    /// p99 in nanoseconds.
    fn since(&self, earlier: Option<&Self>) -> (u64, u64, u64);
}

impl Times for LatencyCounts {
    fn since(&self, earlier: Option<&Self>) -> (u64, u64, u64) {
        let latency = match earlier {
            Some(earlier) => self.since(earlier),
            None => self.since(&Self::default()),
        };
        (latency.count, latency.p50_ns, latency.p99_ns)
    }
}

/// All counters at one moment.
#[derive(Debug, Clone, Default)]
pub struct Reading<T = LatencyCounts> {
    /// The time, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The time of a monotonic clock, in nanoseconds.
    pub monotonic_ns: u64,
    /// Every counter, by name.
    pub counters: Vec<(&'static str, u64)>,
    /// Summaries of latencies since the start.
    pub latencies: Vec<(&'static str, Latency)>,
    /// Histograms since the start: for metrics, and for quantiles of a sample.
    pub counts: Vec<(&'static str, T)>,
}

impl<T> Reading<T> {
    /// The counter called `name`; 0 if there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(n, _)| *n == name).map_or(0, |&(_, value)| value)
    }

    fn sum(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.counter(name)).sum()
    }

    fn times(&self, name: &str) -> Option<&T> {
        self.counts.iter().find(|(n, _)| *n == name).map(|(_, times)| times)
    }
}

/// The source of a field.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// The value of a counter at the end of the sample.
    State(&'static str),
    /// The maximum of a counter over the seconds of the sample.
    Most(&'static str),
    /// The increase of the sum of these counters, per second.
    Rate(&'static [&'static str]),
    /// The median of the latency of that name, in µs; `NaN` if nothing was measured.
    P50(&'static str),
    /// The 99th percentile of the latency of that name, in µs; `NaN` if nothing was measured.
    P99(&'static str),
}

/// A field of each sample.
#[derive(Debug)]
pub struct Field {
    /// Its name in `/api/stats`.
    pub name: &'static str,
    /// Its unit; `1` for a count.
    pub unit: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Its source.
    pub origin: Origin,
}

/// A field; the order of arguments is that of the lists.
pub const fn field(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    origin: Origin,
) -> Field {
    Field { name, unit, help, origin }
}

use Origin::{Most, P50, P99, Rate, State};

/// The interval between two readings.
#[derive(Debug, Clone)]
pub struct Sample<const N: usize> {
    /// Its number, from 1 in order.
    pub number: u64,
    /// When it ended, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The values in the order of the fields; `NaN` where there is none. `f32` has seven digits,
    /// more than a page shows.
    pub values: [f32; N],
}

impl<const N: usize> Sample<N> {
    /// `most` is the maximum of each field in between.
    fn between<T: Times>(
        fields: &[Field; N],
        earlier: &Reading<T>,
        later: &Reading<T>,
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
            // A counter that went back (a cache was created again) has no increase.
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

/// The last samples of one interval.
#[derive(Debug)]
pub struct Ring<const N: usize, T = LatencyCounts> {
    /// The interval in ticks.
    pub interval: u64,
    /// The maximum number of samples.
    pub kept: usize,
    samples: VecDeque<Sample<N>>,
    /// The reading at the end of the last sample.
    last: Reading<T>,
    /// The maximum of each field since then.
    most: [u64; N],
}

impl<const N: usize, T: Times> Ring<N, T> {
    fn new(interval: u64, kept: usize, first: &Reading<T>) -> Self {
        let samples = VecDeque::with_capacity(kept);
        Self { interval, kept, samples, last: first.clone(), most: [0; N] }
    }

    fn add(&mut self, fields: &[Field; N], reading: &Reading<T>, number: u64) {
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

    /// The samples after the sample `number`, oldest first.
    pub fn since(&self, number: u64) -> impl DoubleEndedIterator<Item = &Sample<N>> {
        self.samples.iter().filter(move |sample| sample.number > number)
    }
}

/// The samples of both intervals, and the last reading.
#[derive(Debug)]
pub struct History<const N: usize, T = LatencyCounts> {
    /// The fields of each sample.
    pub fields: &'static [Field; N],
    /// Samples of one second, for ten minutes.
    pub fine: Ring<N, T>,
    /// Samples of ten seconds, for two hours.
    pub coarse: Ring<N, T>,
    /// The last reading.
    pub now: Reading<T>,
    /// The number of the last sample.
    pub number: u64,
}

impl<const N: usize, T: Times> History<N, T> {
    /// Starts with the reading `first`, which has no sample.
    pub fn new(fields: &'static [Field; N], first: Reading<T>) -> Self {
        Self {
            fields,
            fine: Ring::new(1, 600, &first),
            coarse: Ring::new(10, 720, &first),
            now: first,
            number: 0,
        }
    }

    /// Adds a reading; to be called once a second.
    pub fn add(&mut self, reading: Reading<T>) {
        self.number += 1;
        self.fine.add(self.fields, &reading, self.number);
        self.coarse.add(self.fields, &reading, self.number);
        self.now = reading;
    }

    /// The value of the field `name` in a sample.
    ///
    /// # Panics
    ///
    /// If there is no such field.
    pub fn value(&self, sample: &Sample<N>, name: &str) -> f64 {
        let at = self.fields.iter().position(|field| field.name == name);
        f64::from(sample.values[at.unwrap_or_else(|| panic!("no field is called {name}"))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static FIELDS: [Field; 3] = [
        field("reads", "1/s", "reads of storage", Rate(&["io.reads"])),
        field("cache_bytes_max", "B", "memory of caches", State("cache.bytes_max")),
        field("read_us_p99", "us", "99 % of reads took at most", P99("command.read")),
    ];

    fn reading(second: u64, counters: &[(&'static str, u64)]) -> Reading {
        Reading {
            unix_ms: 1_700_000_000_000 + second * 1000,
            monotonic_ns: second * 1_000_000_000,
            counters: counters.to_vec(),
            ..Reading::default()
        }
    }

    #[test]
    fn rates_are_per_second_for_any_length_of_a_sample() {
        let mut history = History::new(&FIELDS, reading(0, &[("io.reads", 100)]));
        history.add(reading(4, &[("io.reads", 108), ("cache.bytes_max", 7)]));
        let sample = history.fine.since(0).next().unwrap();
        let value = |name| history.value(sample, name);
        assert_eq!((value("reads"), value("cache_bytes_max")), (2.0, 7.0));
        assert!(value("read_us_p99").is_nan());
        history.add(reading(5, &[("io.reads", 3)]));
        let sample = history.fine.since(1).next().unwrap();
        assert_eq!(history.value(sample, "reads"), 0.0, "the counter went back");
    }

    #[test]
    fn quantiles_cover_the_sample_alone() {
        let histogram = tidekv_io::Histogram::default();
        let with = |second| {
            let counts = vec![("command.read", histogram.counts())];
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
    fn the_longer_sample_has_the_maximum_in_between() {
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
}
