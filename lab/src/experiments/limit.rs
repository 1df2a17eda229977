//! The experiment `limit`: the distance from the theoretical best.
//!
//! | part | measurement | compared with |
//! |---|---|---|
//! | `reads-1`, `reads-8`, `reads-32` | cold gets, with this number of threads | the same number of threads that only read the device at random |
//! | `hits` | gets of values that are all in the cache | a concurrent hash map (feature `maps`) |
//! | `bound` | policies over a modelled tree | the fewest I/Os of any policy ([`crate::simulation::bound`]) |
//!
//! Each thread reads the device with one call at a time, as the store's gets do; a device may be
//! faster with batched submissions.

use std::sync::Arc;

use tidekv_cache::CachePolicy;

use crate::experiment::{Experiment, Found, Model, Params, Point, Rule, Subjects, Target};
use crate::experiments::ackey::caches::{Load, choices, point, threads};
use crate::experiments::engine::reading;
use crate::failure::Result;
use crate::harness::job::WarmUp;
use crate::load::keys::Choice;
use crate::load::workload::Kind;
use crate::scale::{Scale, Shape};
use crate::simulation::bound::{Fill, reads_per_op_min, reads_per_op_min_irm};
use crate::simulation::foresight::reads_per_op_foreseen;
use crate::simulation::simulator::{self, budget, simulate};

/// Threads, and pending reads, of cold gets.
const DEPTHS: [u64; 3] = [1, 8, 32];
/// Operations before the measurement of cold gets, as a fraction of the entries.
const COLD_WARM_UP_SHARE: f64 = 0.05;

/// Modelled trees are smaller than stores: a bound keeps every operation in memory.
const MODEL_ENTRIES_MAX: u64 = 1_000_000;

fn cold(scale: &Scale) -> Vec<Point> {
    let points = DEPTHS.map(|depth| {
        let shape = Shape::small(scale);
        let warm_up = WarmUp::Operations((shape.entries as f64 * COLD_WARM_UP_SHARE) as u64);
        let point = reading(scale, shape, depth, Kind::Get, WarmUp::UntilSteady)
            .driven(|drive| drive.warm_up = warm_up)
            .with("part", format!("reads-{depth}"));
        Point { only: &["tidekv:tide", "device:reads"], ..point }
    });
    points.into()
}

/// The subjects whose hits are measured.
const HITS: &[&str] = &["tidekv:tide", "map:dashmap", "cache:quick_cache"];

/// A hundredth of the keys, with room for all of their values.
fn hits(scale: &Scale) -> Vec<Point> {
    let counts = scale.threads.iter().filter(|&&threads| threads <= 2);
    let points = counts.map(|&threads| {
        let choice = Choice::Hot { entries: 0.01, operations: 1.0, run: 1 };
        let name = "hot-keys-all".to_owned();
        let load = Load { name, choice, scans: 0, cache_percent: 10.0, ..Load::usual() };
        let point = point(scale, threads, &load)
            .with("part", "hits")
            .driven(|drive| drive.operations_per_sample = 16)
            .once_if_quick(scale);
        Point { counts_everything: false, only: HITS, ..point }
    });
    points.collect()
}

/// The loads of `ackey-sweep`, over a modelled tree.
fn modelled(scale: &Scale) -> Vec<Point> {
    let (entries, percents): (u64, &[f64]) = match scale.is_quick {
        true => (scale.entries.min(MODEL_ENTRIES_MAX) / 5, &[5.0]),
        false => (scale.entries.min(MODEL_ENTRIES_MAX), &[0.1, 1.0, 5.0, 10.0]),
    };
    let mut points = Vec::new();
    for (name, choice) in choices() {
        for scans in [0u32, 50, 100] {
            for &cache_percent in percents {
                let choice = choice.clone();
                let load = Load { name: name.into(), choice, cache_percent, ..Load::usual() };
                let point = point(scale, threads(scale), &load)
                    .with("entries", entries)
                    .with("part", "bound")
                    .with("scan_percent", scans)
                    .with("threads", 1);
                let (name, choice, scans) = (name, load.choice, f64::from(scans) / 100.0);
                let load = simulator::Load { name, choice, scans };
                let model: Arc<dyn Model> = Arc::new(Policies { load, entries, cache_percent });
                points.push(Point { store: None, model: Some(model), alternations: 1, ..point });
            }
        }
    }
    points
}

/// Policies over a modelled tree, with a cache that knows the future and the bounds.
#[derive(Debug)]
struct Policies {
    load: simulator::Load,
    entries: u64,
    cache_percent: f64,
}

impl Model for Policies {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        Ok(with_gaps(&self.reads(seed)))
    }
}

impl Policies {
    /// Reads per operation, by subject.
    fn reads(&self, seed: u64) -> Vec<(&'static str, f64)> {
        let Self { load, entries, cache_percent } = self;
        let (bytes, operations) = (budget(*entries, *cache_percent), *entries);
        let policies = [
            (SIM_TIDE, CachePolicy::Adaptive),
            ("sim:hac", CachePolicy::AC_KEY),
            (SIM_LRU, CachePolicy::BlockOnly),
        ];
        let reads = policies.map(|(name, policy)| {
            (name, simulate(policy, load, *entries, bytes, operations, seed).reads_per_op)
        });
        let bounds = [(SIM_BOUND, Fill::Demand), ("sim:bound-free-fill", Fill::Free)];
        let bounds = bounds.map(|(name, fill)| {
            (name, reads_per_op_min(load, *entries, bytes, operations, seed, fill))
        });
        let foreseen = reads_per_op_foreseen(load, *entries, bytes, operations, seed);
        let of_independent = reads_per_op_min_irm(load, *entries, bytes, operations, seed);
        let beside = [("sim:foresight", foreseen), ("sim:bound-irm", of_independent)];
        reads.into_iter().chain(beside).chain(bounds).collect()
    }
}

/// Reads, with the fraction of the gap between LRU block caching and the bound that each closes.
fn with_gaps(reads: &[(&'static str, f64)]) -> Vec<Found> {
    let of = |name| reads.iter().find(|one| one.0 == name).map_or(f64::NAN, |one| one.1);
    let (lru, bound) = (of(SIM_LRU), of(SIM_BOUND));
    let found = |&(subject, reads): &(&'static str, f64)| {
        let gap = (lru > bound).then(|| ("gap_closed", (lru - reads) / (lru - bound)));
        let metrics = [("reads_per_op", reads)].into_iter().chain(gap).collect();
        Found { subject, params: Params::new(), metrics }
    };
    reads.iter().map(found).collect()
}

/// The two subjects of a model that define the gap.
pub(crate) const SIM_TIDE: &str = "sim:tide";
const SIM_LRU: &str = "sim:block-lru";
const SIM_BOUND: &str = "sim:bound";

fn parts(scale: &Scale) -> Vec<Point> {
    [modelled(scale), cold(scale), hits(scale)].concat()
}

/// The experiment.
pub(crate) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "limit",
    about: "the distance from the theoretical best: cold gets compared with the device, hits \
            with a hash map and a cache, reads with the minimum for requests known in advance",
    claim: "0.90 of the device's reads with one thread and 0.95 with more; half as fast as a \
            hash map and as a cache; closes a third or more of the gap between an LRU block \
            cache and the bound",
    subjects: Subjects::Also(&["device:reads", "map:dashmap", "cache:quick_cache"]),
    points: parts,
    targets: &[
        Target::in_phase("bound", "gap_closed", Rule::AtLeast(0.33)),
        Target::in_phase(
            "reads-1",
            "reads_per_s",
            Rule::RatioToSubjectAtLeast("device:reads", 0.90),
        ),
        Target::in_phase(
            "reads-8",
            "reads_per_s",
            Rule::RatioToSubjectAtLeast("device:reads", 0.95),
        ),
        Target::in_phase(
            "reads-32",
            "reads_per_s",
            Rule::RatioToSubjectAtLeast("device:reads", 0.95),
        ),
        Target::in_phase("hits", "ops_per_s", Rule::RatioToSubjectAtLeast("map:dashmap", 0.5)),
        Target::in_phase(
            "hits",
            "ops_per_s",
            Rule::RatioToSubjectAtLeast("cache:quick_cache", 0.5),
        ),
    ],
    ..Experiment::USUAL
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_is_that_between_lru_and_the_bound() {
        let found = with_gaps(&[(SIM_LRU, 5.0), (SIM_TIDE, 2.0), (SIM_BOUND, 1.0)]);
        let closed: Vec<_> = found.iter().map(|found| found.metrics[1]).collect();
        assert_eq!(closed, [0.0, 0.75, 1.0].map(|share| ("gap_closed", share)));
    }
}
