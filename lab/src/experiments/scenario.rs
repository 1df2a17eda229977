//! One scenario for a store: a load, a cache, and values for a subject's choices. Sweeps are grids
//! of scenarios.
//!
//! A scenario begins with an empty cache and counts a fixed number of operations from the first one
//! on, so that totals can be compared between scenarios.

use tidekv_testkit::evidence::Value;

use crate::experiment::{Params, Point, StorePlan};
use crate::experiments::engine::settled;
use crate::harness::job::{Drive, Ending, Length, WarmUp};
use crate::load::keys::{Choice, SHORT_KEY_BYTES};
use crate::load::workload::{Kind, Workload};
use crate::scale::Shape;
use crate::subject::Choices;

/// The scenario.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scenario {
    /// Entries of the store, with keys of [`SHORT_KEY_BYTES`].
    pub(crate) entries: u64,
    pub(crate) value_bytes: u64,
    pub(crate) operations: u64,
    pub(crate) threads: u64,
    /// The cache in percent of the data.
    pub(crate) cache_percent: f64,
    /// The exponent of Zipf's law, popular keys scattered; 0: uniform keys.
    pub(crate) zipf: f64,
    /// Operation kinds in percent; gets are the rest.
    pub(crate) mix: Vec<(Kind, u32)>,
    /// Reads go through the kernel's page cache.
    pub(crate) is_buffered: bool,
    pub(crate) choices: Choices,
}

impl Scenario {
    /// Memory in addition to the cache.
    pub(crate) const BESIDE_BYTES: u64 = 64 << 20;

    pub(crate) fn choosing(mut self, name: &str, value: impl ToString) -> Self {
        self.choices.insert(name.to_owned(), value.to_string());
        self
    }

    /// Bytes of all keys and values.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.entries * (SHORT_KEY_BYTES as u64 + self.value_bytes)
    }

    /// The kinds of operations with their weights.
    fn whole_mix(&self) -> Vec<(Kind, u32)> {
        let others: u32 = self.mix.iter().map(|(_, weight)| weight).sum();
        let all = [(Kind::Get, 100u32.saturating_sub(others))].into_iter();
        all.chain(self.mix.iter().copied()).filter(|(_, weight)| *weight > 0).collect()
    }

    pub(crate) fn point(&self) -> Point {
        let Self { entries, value_bytes, threads, .. } = *self;
        let shape = Shape { entries, value_bytes, is_compressed: false };
        let cache_bytes = (self.data_bytes() as f64 * self.cache_percent / 100.0) as u64;
        let choice = match self.zipf {
            0.0 => Choice::Uniform,
            alpha => Choice::Zipf { alpha, is_scattered: true },
        };
        let workload = Workload {
            mix: self.whole_mix(),
            key_bytes: SHORT_KEY_BYTES,
            ..Workload::only(Kind::Get, choice, entries)
        };
        Point {
            params: self.params(),
            memory_bytes: cache_bytes + Self::BESIDE_BYTES,
            process_bytes: None,
            cache_bytes: Some(cache_bytes),
            value_bytes,
            is_compressed: false,
            is_buffered: self.is_buffered,
            choices: self.choices.clone(),
            store: Some(StorePlan { key_bytes: SHORT_KEY_BYTES, ..settled(shape) }),
            changes_store: self.mix.iter().any(|(kind, weight)| *weight > 0 && kind.changes()),
            drive: Some(Drive {
                workload,
                threads,
                fills_first: false,
                warm_up: WarmUp::None,
                warm_up_seconds_max: 0.0,
                length: Length::Operations(self.operations),
                operations_per_sample: 1,
                arrivals_per_s: None,
                holds: 0,
                phases: Vec::new(),
            }),
            replay: None,
            corpus: None,
            reclaim: None,
            ending: Ending::Close,
            policy: None,
            counts_everything: true,
            share_of_slowest: None,
            // Counts hardly differ between turns.
            alternations: 1,
            only: &[],
            model: None,
            flash: None,
            is_of_drive: false,
        }
    }

    fn params(&self) -> Params {
        let mut params: Params = [
            ("entries", Value::from(self.entries)),
            ("value_bytes", self.value_bytes.into()),
            ("cache_percent", self.cache_percent.into()),
            ("zipf", self.zipf.into()),
            ("io", if self.is_buffered { "buffered" } else { "direct" }.into()),
            ("operations", self.operations.into()),
            ("threads", self.threads.into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for (kind, weight) in &self.mix {
            params.insert(format!("{}_percent", kind.name()), (*weight).into());
        }
        params.extend(self.choices.iter().map(|(name, value)| (name.clone(), as_value(value))));
        params
    }
}

/// A number, if it is one.
fn as_value(text: &str) -> Value {
    match (text.parse::<u64>(), text.parse::<f64>()) {
        (Ok(number), _) => number.into(),
        (_, Ok(number)) if number.is_finite() => number.into(),
        _ => text.into(),
    }
}
