//! A metric of `/metrics`: name, kind, help, and series.

/// The kind of a metric, as Prometheus defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the server ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations since the start: cumulative counts by upper bound, with sum and count.
    Histogram,
}

impl Kind {
    /// Its name in the Prometheus text format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Upper bounds of the buckets of request durations, in seconds: 10 µs to 10 s.
pub const REQUEST_SECONDS: [f64; 19] = [
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Upper bounds of the buckets of background jobs' durations, in seconds: 1 ms to 10 minutes.
pub const JOB_SECONDS: [f64; 18] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0, 600.0,
];

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name, with its unit and, for a counter, `_total`.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its help text, a sentence.
    pub help: &'static str,
    /// The label of its series; empty if it has one series.
    pub label: &'static str,
    /// The value of the label, and the counter or histogram, of each series.
    pub series: &'static [(&'static str, &'static str)],
    /// Converts the counter to the unit of the name: the counter is divided by it.
    pub divisor: f64,
    /// Upper bounds of the buckets of a histogram, in seconds, ascending.
    pub bounds_s: &'static [f64],
}

/// A metric whose counters are in the unit of its name; a histogram has [`REQUEST_SECONDS`].
pub const fn metric(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    label: &'static str,
    series: &'static [(&'static str, &'static str)],
) -> Metric {
    Metric { name, kind, help, label, series, divisor: 1.0, bounds_s: &REQUEST_SECONDS }
}
