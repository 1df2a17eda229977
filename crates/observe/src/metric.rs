//! What a metric of `/metrics` is: its name, kind, help and series.

/// What a metric may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the server ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Quantiles since the start, with count and sum.
    Summary,
    /// How many took at most so long since the start, for some times, with count and sum.
    Histogram,
}

impl Kind {
    /// Its name in the text for Prometheus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it may do.
    pub kind: Kind,
    /// What it is, a sentence.
    pub help: &'static str,
    /// The label that tells its series apart; empty when there is one.
    pub label: &'static str,
    /// What the label says, and which counter or latency the series shows.
    pub series: &'static [(&'static str, &'static str)],
    /// What the counter is divided by, so that it is in the unit of the name.
    pub divisor: f64,
}

/// A metric of which each series is in the unit of its name.
pub const fn metric(
    kind: Kind,
    name: &'static str,
    help: &'static str,
    label: &'static str,
    series: &'static [(&'static str, &'static str)],
) -> Metric {
    Metric { name, kind, help, label, series, divisor: 1.0 }
}
