//! `LATENCY`: delays above a threshold, by event.
//!
//! Guarantees, as in Redis: an event has its latest 160 samples, one a second at most, which is the
//! longest of that second. Pure: the caller provides the time. May be used from any thread.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

/// Samples of an event.
const SAMPLES_MAX: usize = 160;

/// A delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// In seconds since 1970.
    pub(crate) unix_s: u64,
    pub(crate) ms: u64,
}

#[derive(Debug, Clone, Default)]
struct Event {
    /// The oldest first.
    samples: VecDeque<Sample>,
    /// The longest delay since the event was reset.
    longest_ms: u64,
}

/// The delays of all events.
#[derive(Debug, Default)]
pub(crate) struct LatencyMonitor {
    events: Mutex<BTreeMap<&'static str, Event>>,
}

impl LatencyMonitor {
    /// Records a delay.
    pub(crate) fn record(&self, event: &'static str, sample: Sample) {
        let mut events = self.events.lock();
        let event = events.entry(event).or_default();
        event.longest_ms = event.longest_ms.max(sample.ms);
        match event.samples.back_mut().filter(|last| last.unix_s == sample.unix_s) {
            Some(last) => last.ms = last.ms.max(sample.ms),
            None => {
                event.samples.push_back(sample);
                if event.samples.len() > SAMPLES_MAX {
                    event.samples.pop_front();
                }
            }
        }
    }

    /// Each event with its last sample and its longest delay.
    pub(crate) fn latest(&self) -> Vec<(&'static str, Sample, u64)> {
        let events = self.events.lock();
        let last = |(&name, event): (&&'static str, &Event)| {
            event.samples.back().map(|&sample| (name, sample, event.longest_ms))
        };
        events.iter().filter_map(last).collect()
    }

    /// The samples of `event`, the oldest first.
    pub(crate) fn history(&self, event: &str) -> Vec<Sample> {
        let events = self.events.lock();
        events.get(event).map(|event| event.samples.iter().copied().collect()).unwrap_or_default()
    }

    /// Forgets the events whose name `is_wanted` takes; returns their number.
    pub(crate) fn reset(&self, is_wanted: impl Fn(&str) -> bool) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|name, _| !is_wanted(name));
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_longest_delay_and_old_ones_are_dropped() {
        let monitor = LatencyMonitor::default();
        for (unix_s, ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            monitor.record("command", Sample { unix_s, ms });
        }
        let history = monitor.history("command");
        assert_eq!(history, [Sample { unix_s: 1, ms: 9 }, Sample { unix_s: 2, ms: 3 }]);
        assert_eq!(monitor.latest(), [("command", Sample { unix_s: 2, ms: 3 }, 9)]);
        (3..400).for_each(|unix_s| monitor.record("command", Sample { unix_s, ms: 1 }));
        assert_eq!(monitor.history("command").len(), SAMPLES_MAX);
        assert_eq!(monitor.reset(|name| name == "other"), 0);
        assert_eq!(monitor.reset(|_| true), 1);
        assert!(monitor.history("command").is_empty());
    }
}
