//! `elcached-shrink`: a memcached that releases pages, and the choice of these pages (ElCached §6).
//!
//! A model of its slabs ([`crate::experiments::elcached::slabs`]) with pages for half of the data
//! processes half of a workload's requests. During the last eighth of those it counts the accessed
//! items of each page. Then it releases pages, a share of each class, and continues.
//!
//! | subject | released pages |
//! |---|---|
//! | `tidekv:least-active` | those with the fewest accessed items, by HyperLogLog |
//! | `random` | any |
//! | `oldest` | those that the class got first |
//!
//! | phase | counted requests |
//! |---|---|
//! | `at-once` | the first thirty-second of all requests after that |
//! | `settled` | the last quarter of all requests |
//!
//! `relative_error` is the difference of its miss ratio from that of slabs that never had more than
//! the remaining pages, for the same requests, by their distances in each class; as a fraction of
//! the latter.

use std::sync::Arc;

use tidekv_plan::{Access, Action, ClassProfiler, Expiry, GROWTH, PAGE_BYTES, SlabClasses};
use tidekv_testkit::evidence::Value;

use crate::experiment::{Experiment, Found, Model, Params, Point, Rule, Subjects, Target};
use crate::experiments::elcached::cost::modelled;
use crate::experiments::elcached::slabs::Slabs;
use crate::experiments::elcached::workload::{self, Law, Sizes};
use crate::failure::Result;
use crate::load::dice::{Dice, mix};
use crate::scale::Scale;

/// By the number of accessed items.
const LEAST_ACTIVE: &str = "tidekv:least-active";
const SUBJECTS: [&str; 3] = [LEAST_ACTIVE, "random", "oldest"];

const AT_ONCE: &str = "at-once";
const SETTLED: &str = "settled";

/// The fraction of remaining pages.
const KEPT: [f64; 3] = [0.75, 0.5, 0.25];

#[derive(Debug)]
struct Shrinking {
    law: Law,
    shrink: u64,
    kept: f64,
}

/// The phases, in requests.
#[derive(Debug, Clone, Copy)]
struct Times {
    watch: usize,
    shrink: usize,
    at_once: usize,
    settled: usize,
    end: usize,
}

impl Times {
    fn of(requests: usize) -> Self {
        let (half, part) = (requests / 2, requests / 32);
        Self {
            watch: half - requests / 16,
            shrink: half,
            at_once: half + part,
            settled: requests - requests / 4,
            end: requests,
        }
    }
}

/// A request: a hash of its key, and the bytes of the item.
type Request = (u64, u64);

impl Shrinking {
    fn requests(&self, seed: u64) -> Vec<Request> {
        let request = |key| {
            let Sizes { key_bytes, value_bytes } = workload::sizes_of(key);
            (mix(key), SlabClasses::item_bytes(key_bytes, value_bytes))
        };
        workload::keys(self.law, self.shrink, seed).map(request).collect()
    }

    /// The misses of a subject at once and when settled, and the remaining pages of its classes.
    fn of_subject(
        &self,
        subject: &str,
        requests: &[Request],
        pages: u64,
        seed: u64,
    ) -> ([f64; 2], Vec<u64>) {
        let times = Times::of(requests.len());
        let mut slabs = Slabs::new(SlabClasses::of_growth(GROWTH), pages);
        let missed = |slabs: &mut Slabs, from: usize, to: usize| {
            let asked = &requests[from..to];
            let missed = asked.iter().filter(|(key, bytes)| !slabs.ask(*key, *bytes)).count();
            missed as f64 / asked.len().max(1) as f64
        };
        missed(&mut slabs, 0, times.watch);
        slabs.watch();
        missed(&mut slabs, times.watch, times.shrink);
        let mut dice = Dice::new(mix(seed));
        let worth: &mut dyn FnMut(usize, f64) -> f64 = match subject {
            LEAST_ACTIVE => &mut |_, active| active,
            "random" => &mut |_, _| dice.unit(),
            _ => &mut |number, _| number as f64,
        };
        slabs.shrink((pages as f64 * self.kept).round() as u64, worth);
        let at_once = missed(&mut slabs, times.shrink, times.at_once);
        missed(&mut slabs, times.at_once, times.settled);
        let settled = missed(&mut slabs, times.settled, times.end);
        ([at_once, settled], slabs.pages_of_classes())
    }

    /// The misses, at once and when settled, of slabs with these pages from the beginning.
    fn predicted(&self, requests: &[Request], pages: &[u64]) -> [f64; 2] {
        let times = Times::of(requests.len());
        let mut profiler = ClassProfiler::new(SlabClasses::of_growth(GROWTH), Expiry::Ignored);
        let mut predicted = |from: usize, to: usize| {
            profiler.reset_counts();
            for (key, bytes) in &requests[from..to] {
                profiler.record(&Access::new(*key, Action::Load(*bytes)));
            }
            profiler.miss_ratio_of_pages(pages)
        };
        predicted(0, times.shrink);
        let at_once = predicted(times.shrink, times.at_once);
        predicted(times.at_once, times.settled);
        [at_once, predicted(times.settled, times.end)]
    }
}

impl Model for Shrinking {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let requests = self.requests(seed);
        let mut profiler = ClassProfiler::new(SlabClasses::of_growth(GROWTH), Expiry::Ignored);
        for (key, bytes) in &requests {
            profiler.record(&Access::new(*key, Action::Load(*bytes)));
        }
        let pages = profiler.bytes_max() / PAGE_BYTES / 2;
        drop(profiler);
        let mut all = Vec::new();
        for subject in SUBJECTS {
            let (missed, kept) = self.of_subject(subject, &requests, pages, seed);
            let predicted = self.predicted(&requests, &kept);
            for (phase, (missed, predicted)) in
                [AT_ONCE, SETTLED].into_iter().zip(missed.into_iter().zip(predicted))
            {
                let params = Params::from([("phase".to_owned(), Value::from(phase))]);
                let error = (missed - predicted).abs() / predicted;
                let metrics = vec![
                    ("predicted_miss_ratio", predicted),
                    ("miss_ratio", missed),
                    ("relative_error", error),
                    ("pages", kept.iter().sum::<u64>() as f64),
                ];
                all.push(Found { subject, params, metrics });
            }
        }
        Ok(all)
    }
}

fn points(scale: &Scale) -> Vec<Point> {
    let laws = Law::ALL.into_iter().flat_map(|law| KEPT.map(|kept| (law, kept)));
    let point = |(law, kept): (Law, f64)| {
        // With the exponential law there are fewer objects, and classes must have pages to release.
        let shrink = match (scale.is_quick, law) {
            (true, _) => 1_000,
            (false, Law::Zipf) => 100,
            (false, Law::Exponential) => 20,
        };
        let model = Arc::new(Shrinking { law, shrink, kept });
        modelled(scale, law.name(), shrink, model).with("kept", kept)
    };
    laws.map(point).collect()
}

pub(super) const SHRINK: Experiment = Experiment {
    name: "elcached-shrink",
    about: "a model of memcached's slabs that releases a part of its pages, chosen by the number \
            of their accessed items, at random or by age (ElCached, section 6)",
    paper: "the least active slabs are chosen by HyperLogLog counters (no numbers)",
    claim: "once it has settled, its misses are within a hundredth of the curve at its new size",
    subjects: Subjects::Default,
    points,
    targets: &[Target::in_phase(SETTLED, "relative_error", Rule::AtMost(0.01))],
    ..Experiment::USUAL
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_slabs_miss_as_the_curve_predicts() {
        for law in Law::ALL {
            let found = Shrinking { law, shrink: 4_000, kept: 0.5 }.run(1).expect("nothing fails");
            assert_eq!(found.len(), 6);
            for found in found {
                let metric = |name: &str| {
                    found.metrics.iter().find(|metric| metric.0 == name).expect("it is there").1
                };
                // Large items are so few here that some have long reuse times.
                let most = if found.params["phase"] == SETTLED { 0.02 } else { 0.5 };
                assert!(metric("relative_error") < most, "{law:?}: {found:?}");
            }
        }
    }
}
