//! The experiment `ackey-restart`: how soon a reopened store answers as many requests from memory
//! as before.
//!
//! ```text
//!   1-before ──close, open: warm──▶ 2-warm ──close, open: cold──▶ 3-cold
//! ```
//!
//! - The *hit ratio* is the share of gets in which the requesting thread read nothing from storage,
//!   by the kernel's per-thread counters; so the background reads of the warm start belong to no
//!   get. The hit ratio before the restart is that of the last quarter of `1-before`.
//! - A run is *hot* from the first of three samples that together reach 90 % of it. Samples have
//!   256 operations at first and later a twentieth of the previous total, so they have a resolution
//!   of a twentieth. A run that does not reach it counts as hot at its end.
//! - The target compares the operations that the warm run needs with those of the cold one. The
//!   warm start takes time, so a faster drive completes more operations meanwhile; `until_hot_s`
//!   gives the seconds of both.

use crate::experiment::{Experiment, Point, Rule, Subjects, Target};
use crate::experiments::ackey::caches::{Load, point, threads};
use crate::harness::job::{Drive, Measurement, Phase, Sample, Sampling, Start, WarmUp};
use crate::load::keys::data_bytes;
use crate::scale::Scale;

/// Operations before the close, and after a cold start, in entries. `adaptive` is within 5 % of its
/// final level after at most a fifth of the entries.
const BEFORE_SHARE: f64 = 0.5;
const COLD_SHARE: f64 = 0.5;
/// Operations after a warm start: many times the expected need.
const WARM_SHARE: f64 = 0.2;

/// Fraction of the hit ratio before the restart.
const HOT_SHARE: f64 = 0.9;
/// Number of samples that must reach it together.
const HOT_SAMPLES: usize = 3;

const BEFORE: &str = "1-before";
const WARM: &str = "2-warm";
const COLD: &str = "3-cold";

fn restart(scale: &Scale) -> Vec<Point> {
    let caches: &[f64] = if scale.is_quick { &[5.0] } else { &[5.0, 10.0] };
    let point = |&cache_percent: &f64| {
        let load = Load { scans: 0, ..Load::zipf(cache_percent) };
        let point = point(scale, threads(scale), &load).once_if_quick(scale).driven(|drive| {
            let phases = [
                (BEFORE, BEFORE_SHARE, Start::GoesOn),
                (WARM, WARM_SHARE, Start::Warm),
                (COLD, COLD_SHARE, Start::Cold),
            ];
            let entries = drive.workload.entries as f64;
            drive.warm_up = WarmUp::None;
            drive.phases = phases
                .map(|(name, share, start)| Phase {
                    start,
                    sampling: Sampling::Growing,
                    counts_hits: true,
                    ..Phase::new(name, drive.workload.clone(), (entries * share) as u64)
                })
                .into();
        });
        // Writes a hot list at the close.
        Point { changes_store: true, ..point }
    };
    caches.iter().map(point).collect()
}

/// The restart metrics of the phase `name` in a turn, by name.
pub(crate) fn metrics_of(
    drive: &Drive,
    name: &str,
    value_bytes: u64,
    turn: &Measurement,
) -> Vec<(&'static str, f64)> {
    let mut found = Vec::new();
    let phase = |name: &str| drive.phases.iter().position(|phase| phase.name == name);
    let (Some(before), Some(warm), Some(cold)) = (phase(BEFORE), phase(WARM), phase(COLD)) else {
        return found;
    };
    let Some(wanted) = settled_hit_ratio(&turn.samples, before).map(|ratio| HOT_SHARE * ratio)
    else {
        return found;
    };
    let until = |position| until_hot(&turn.samples, position, wanted);
    if name == WARM || name == COLD {
        let (operations, seconds) = until(if name == WARM { warm } else { cold });
        found.push(("ops_until_hot", operations as f64));
        found.push(("until_hot_s", seconds));
    }
    if name == WARM {
        let ratio = until(warm).0 as f64 / until(cold).0.max(1) as f64;
        found.push(("share_of_cold_start", ratio));
        let list = turn.samples.iter().filter(|sample| sample.phase == warm);
        let list = list.filter_map(|sample| sample.counts.hot_list_bytes).max();
        let data = data_bytes(drive.workload.entries, value_bytes);
        found.extend(list.map(|list| ("hot_list_share", list as f64 / data as f64)));
    }
    found
}

/// The counts that a sample adds.
struct Step {
    operations: u64,
    hits: u64,
    seconds: f64,
}

/// The samples of the phase at `position`.
fn steps(samples: &[Sample], position: usize) -> Vec<Step> {
    let mut before = Sample::default();
    let mut steps = Vec::new();
    for sample in samples {
        if sample.phase == position {
            steps.push(Step {
                operations: sample.operations - before.operations,
                hits: sample.hits - before.hits,
                seconds: sample.seconds - before.seconds,
            });
        }
        before = sample.clone();
    }
    steps
}

/// The hit ratio of the last quarter of a phase; `None`: memory answered no gets.
fn settled_hit_ratio(samples: &[Sample], position: usize) -> Option<f64> {
    let steps = steps(samples, position);
    let all: u64 = steps.iter().map(|step| step.operations).sum();
    let (mut operations, mut hits) = (0, 0);
    for step in steps.iter().rev() {
        if operations * 4 >= all {
            break;
        }
        operations += step.operations;
        hits += step.hits;
    }
    (hits > 0).then(|| hits as f64 / operations as f64)
}

/// Operations and seconds from the beginning of a phase until samples reach the `wanted` hit ratio;
/// the whole phase if they never do.
fn until_hot(samples: &[Sample], position: usize, wanted: f64) -> (u64, f64) {
    let steps = steps(samples, position);
    let mut done = (0, 0.0);
    for (at, step) in steps.iter().enumerate() {
        done = (done.0 + step.operations, done.1 + step.seconds);
        let together = &steps[at..(at + HOT_SAMPLES).min(steps.len())];
        let operations: u64 = together.iter().map(|step| step.operations).sum();
        let hits: u64 = together.iter().map(|step| step.hits).sum();
        if together.len() == HOT_SAMPLES && hits as f64 >= wanted * operations as f64 {
            break;
        }
    }
    done
}

/// The experiment.
pub(crate) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "ackey-restart",
    about: "gets until a reopened store answers 0.9 times as many of them from memory as before \
            the close, with and without a warm start",
    claim: "a warm start takes at most a twentieth of the operations of a cold start, with a hot \
            list of at most a hundredth of the data",
    subjects: Subjects::Only(&["tidekv:tide"]),
    points: restart,
    targets: &[
        Target::in_phase(WARM, "share_of_cold_start", Rule::AtMost(0.05)),
        Target::in_phase(WARM, "hot_list_share", Rule::AtMost(0.01)),
    ],
    ..Experiment::USUAL
}];

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of 100 operations with these numbers of hits, phase by phase.
    fn samples(phases: &[&[u64]]) -> Vec<Sample> {
        let (mut operations, mut hits) = (0, 0);
        let steps = phases.iter().enumerate();
        let steps = steps.flat_map(|(phase, all)| all.iter().map(move |hits| (phase, *hits)));
        let sample = |(phase, found)| {
            operations += 100;
            hits += found;
            let seconds = operations as f64;
            Sample { phase, operations, hits, seconds, ..Sample::default() }
        };
        steps.map(sample).collect()
    }

    #[test]
    fn a_run_is_hot_from_the_first_of_three_samples_on() {
        let samples = samples(&[
            &[10, 20, 30, 99, 60, 80, 80, 80],
            &[90, 0, 70, 72, 72, 72, 10],
            &[0; 5],
            &[72; 2],
        ]);
        assert_eq!(settled_hit_ratio(&samples, 0), Some(0.8));
        // 90 with the following ones is too little, as are 70, 72, 72; 72, 72, 72 are enough.
        assert_eq!(until_hot(&samples, 1, 0.72), (400, 400.0));
        // A run that never becomes hot, and one that ends too early for a result.
        assert_eq!(until_hot(&samples, 2, 0.72).0, 500);
        assert_eq!(until_hot(&samples, 3, 0.72).0, 200);
        assert_eq!(settled_hit_ratio(&samples, 2), None);
    }

    #[test]
    fn the_target_compares_the_warm_start_with_the_cold_one() {
        let mut samples = samples(&[&[80; 8], &[80; 8], &[0, 0, 0, 0, 0, 80, 80, 80, 80]]);
        samples[10].counts.hot_list_bytes = Some(58);
        let scale = Scale::new(crate::scale::Size::Quick);
        let mut drive = restart(&scale).remove(0).drive.unwrap();
        drive.workload.entries = 100;
        let turn = Measurement { samples, ..Measurement::default() };
        let warm = metrics_of(&drive, WARM, 100, &turn);
        let share = 100.0 / 600.0;
        assert_eq!(
            warm,
            [
                ("ops_until_hot", 100.0),
                ("until_hot_s", 100.0),
                ("share_of_cold_start", share),
                ("hot_list_share", 0.005),
            ]
        );
        let cold = metrics_of(&drive, COLD, 100, &turn);
        assert_eq!(cold, [("ops_until_hot", 600.0), ("until_hot_s", 600.0)]);
        assert!(metrics_of(&drive, BEFORE, 100, &turn).is_empty());
    }
}
