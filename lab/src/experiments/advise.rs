//! The settings that a user's workload needs, with their gains.
//!
//! The workload comes from `workload_source.rs`. [`search`] tries settings one by one, in the order
//! in which a subject lists them: beginning with the defaults, it measures each candidate value
//! with the best other settings so far, and keeps it if it is better by more than [`WORTH_IT`]. It
//! does not revisit a choice; all combinations would take days.
//!
//! The best of many turns is partly luck. So the result is measured against the defaults once more,
//! in alternating turns, and withdrawn if the gain is too small.

use crate::experiment::{Experiment, Point, ReplayPlan, StorePlan};
use crate::experiments::scenario::Scenario;
use crate::failure::{Failure, Result};
use crate::harness::replay::Replay;
use crate::subject::{Choices, SubjectRecord};

/// The experiment's name in rows.
pub(crate) const ADVISE: Experiment = Experiment {
    name: "advise",
    about: "a user's workload, with each setting worth trying",
    ..Experiment::USUAL
};

/// A smaller gain may be chance.
const WORTH_IT: f64 = 1.05;

/// The metric by which settings are judged, and whether more is better.
pub(crate) const METRICS: &[(&str, bool)] = &[
    ("ops_per_s", true),
    ("reads_per_op", false),
    ("read_bytes_per_op", false),
    ("p99_us", false),
    ("cpu_us_per_op", false),
];

/// A workload with one cache, with which choices are measured.
pub(crate) struct Trial<'a> {
    pub(crate) name: &'a str,
    pub(crate) replay: &'a Replay,
    pub(crate) plan: ReplayPlan,
    pub(crate) cache_bytes: u64,
    pub(crate) is_buffered: bool,
}

impl Trial<'_> {
    /// The turn with these settings; there are several in rounds.
    pub(crate) fn point(&self, usual: &Scenario, choices: &Choices, round: Option<u64>) -> Point {
        let replay = self.replay;
        let scenario = Scenario {
            entries: replay.entries(),
            value_bytes: replay.value_bytes_mean(),
            operations: replay.requests() / 2,
            threads: self.plan.threads,
            is_buffered: self.is_buffered,
            choices: choices.clone(),
            ..usual.clone()
        };
        let beside = scenario.point();
        let memory_bytes = self.cache_bytes + Scenario::BESIDE_BYTES;
        let percent = self.cache_bytes as f64 * 100.0 / replay.data_bytes().max(1) as f64;
        let percent = format!("{percent:.3e}").parse().unwrap_or(percent);
        let point = Point {
            memory_bytes,
            cache_bytes: Some(self.cache_bytes),
            store: beside.store.clone().map(|plan| StorePlan { memory_bytes, ..plan }),
            changes_store: replay.changes(),
            drive: None,
            replay: Some(self.plan.clone()),
            ..beside
        };
        let point = point
            .without(&["zipf", "value_bytes"])
            .with("cache_percent", percent)
            .with("workload", self.name)
            // Two traces with the same name must not share rows.
            .with("workload_id", format!("{:016x}", self.plan.fingerprint));
        match round {
            Some(round) => point.with("round", round),
            None => point,
        }
    }
}

/// The measurement of some choices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    /// The judged metric.
    pub(crate) metric: f64,
    /// It exceeds its memory budget, so it is not a better use of it.
    pub(crate) is_over_budget: bool,
}

/// Measures choices, in a round if there is one; `None`: failed.
pub(crate) type Measure<'a> = &'a mut dyn FnMut(&Choices, Option<u64>) -> Result<Option<Measured>>;

/// The trial of one value of a choice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) value: &'static str,
    /// The gain as a factor over the best value so far; `None`: failed.
    pub(crate) times: Option<f64>,
    pub(crate) is_over_budget: bool,
    pub(crate) is_kept: bool,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Advice {
    /// The recommended choices that differ from the defaults.
    pub(crate) choices: Choices,
    /// The metric with the defaults and with the recommendation: medians of their turns.
    pub(crate) usual: f64,
    pub(crate) best: f64,
    /// The gain over the defaults, round by round; empty if no change was kept.
    pub(crate) rounds: Vec<f64>,
    /// The median gain of the rounds was too small.
    pub(crate) is_withdrawn: bool,
    /// It exceeds its memory budget with any choices.
    pub(crate) is_over_budget: bool,
    pub(crate) steps: Vec<Step>,
}

/// The gain of one value of a metric over another.
pub(crate) fn times_as_good(new: f64, old: f64, is_more_better: bool) -> f64 {
    match is_more_better {
        true if old > 0.0 => new / old,
        false if new > 0.0 => old / new,
        // Reads are zero on one side.
        _ if new == old => 1.0,
        _ => f64::INFINITY,
    }
}

/// Searches the settings of a subject. `measure` measures some choices, in a round if there is one;
/// `None` if that fails. The kept choices are measured again in `rounds` rounds. Choices that
/// exceed the memory budget are not kept, unless the defaults exceed it too.
///
/// # Errors
/// Those of `measure`; a subject that fails with its defaults.
/// Those of `measure`; a subject that fails as it usually is.
pub(crate) fn search(
    record: &SubjectRecord,
    is_more_better: bool,
    rounds: u64,
    measure: Measure<'_>,
) -> Result<Advice> {
    let mut choices = Choices::new();
    let fails = || Failure::new(format!("{} fails with what is usual", record.name));
    let found = measure(&choices, None)?.ok_or_else(fails)?;
    let Measured { metric: usual, is_over_budget: is_always_over } = found;
    let (mut best, mut steps) = (usual, Vec::new());
    for choice in record.choices {
        let before = best;
        let mut kept = None;
        for value in choice.tries.iter().copied().filter(|value| *value != choice.usual) {
            let mut tried = choices.clone();
            tried.insert(choice.name.to_owned(), value.to_owned());
            let found = measure(&tried, None)?;
            let times = found.map(|found| times_as_good(found.metric, before, is_more_better));
            let is_over_budget = found.is_some_and(|found| found.is_over_budget);
            if let Some(found) = found
                && (is_always_over || !is_over_budget)
                && times_as_good(found.metric, best, is_more_better) > WORTH_IT
            {
                (best, kept) = (found.metric, Some(steps.len()));
            }
            let name = choice.name;
            steps.push(Step { name, value, times, is_over_budget, is_kept: false });
        }
        if let Some(at) = kept {
            steps[at].is_kept = true;
            choices.insert(choice.name.to_owned(), steps[at].value.to_owned());
        }
    }
    let (mut ratios, mut of_usual, mut of_chosen) = (Vec::new(), Vec::new(), Vec::new());
    for round in (0..rounds).filter(|_| !choices.is_empty()) {
        let usual = measure(&Choices::new(), Some(round))?.ok_or_else(fails)?.metric;
        let chosen = measure(&choices, Some(round))?.ok_or_else(fails)?.metric;
        ratios.push(times_as_good(chosen, usual, is_more_better));
        of_usual.push(usual);
        of_chosen.push(chosen);
    }
    let is_withdrawn = median(&ratios).is_some_and(|times| times <= WORTH_IT);
    let usual = median(&of_usual).unwrap_or(usual);
    let best = median(&of_chosen).filter(|_| !is_withdrawn).unwrap_or(usual);
    let is_over_budget = is_always_over;
    Ok(Advice { choices, usual, best, rounds: ratios, is_withdrawn, is_over_budget, steps })
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Choosable;
    use crate::subjects::tidekv::TIDEKV;

    const fn choice(name: &'static str, tries: &'static [&'static str]) -> Choosable {
        Choosable {
            name,
            values: "",
            usual: tries[0],
            tries,
            is_of_tables: |_| false,
            to_set: str::to_owned,
        }
    }

    const CHOICES: &[Choosable] = &[
        choice("metadata", &["cache", "parts", "beside"]),
        choice("pinning", &["none", "all"]),
        Choosable { tries: &[], ..choice("build", &["1"]) },
        choice("shards", &["auto", "0", "2"]),
    ];

    #[test]
    fn a_better_choice_is_kept_and_the_others_are_tried_with_it() {
        let record = SubjectRecord { choices: CHOICES, ..TIDEKV };
        let mut asked = Vec::new();
        let advice = search(&record, false, 3, &mut |choices, _| {
            asked.push(choices.clone());
            let is = |name: &str, value: &str| choices.get(name).is_some_and(|it| it == value);
            if is("pinning", "all") {
                return Ok(None);
            }
            let of_metadata = match choices.get("metadata").map(String::as_str) {
                Some("parts") => 1.0,
                Some("beside") => 1.5,
                _ => 2.0,
            };
            let of_metadata = if is("shards", "2") { 0.1 } else { of_metadata };
            let metric = if is("shards", "0") { of_metadata * 0.99 } else { of_metadata };
            Ok(Some(Measured { metric, is_over_budget: is("shards", "2") }))
        });
        let advice = advice.unwrap();
        let parts = Choices::from([("metadata".to_owned(), "parts".to_owned())]);
        assert_eq!((&advice.choices, advice.usual, advice.best), (&parts, 2.0, 1.0));
        let steps: Vec<_> =
            advice.steps.iter().map(|it| (it.value, it.is_kept, it.times)).collect();
        let times = [Some(2.0), Some(2.0 / 1.5), None, Some(1.0 / 0.99)];
        assert_eq!(
            steps[..3],
            [("parts", true, times[0]), ("beside", false, times[1]), ("all", false, times[2]),]
        );
        assert!(!steps[3].1 && (steps[3].2.unwrap() - times[3].unwrap()).abs() < 1e-9);
        assert!(steps[4] == ("2", false, Some(10.0)) && advice.steps[4].is_over_budget);
        assert_eq!((advice.rounds, advice.is_withdrawn), (vec![2.0; 3], false));
        // Both, three times.
        assert_eq!(asked.len(), 6 + 2 * 3);
        assert!(asked[3..6].iter().all(|choices| choices["metadata"] == "parts"));
    }

    #[test]
    fn a_choice_that_was_only_lucky_is_withdrawn() {
        let record = SubjectRecord { choices: CHOICES, ..TIDEKV };
        let advice = search(&record, true, 3, &mut |choices, round| {
            let is_lucky = choices.contains_key("metadata") && round != Some(0) && round != Some(1);
            let metric = if is_lucky { 2.0 } else { 1.0 };
            Ok(Some(Measured { metric, is_over_budget: false }))
        });
        let advice = advice.unwrap();
        assert_eq!((advice.rounds, advice.is_withdrawn), (vec![1.0, 1.0, 2.0], true));
        assert_eq!((advice.usual, advice.best), (1.0, 1.0));
    }

    #[test]
    fn a_subject_that_fails_with_its_defaults_ends_the_search() {
        let error = search(&TIDEKV, true, 1, &mut |_, _| Ok(None)).unwrap_err();
        assert!(error.message.contains("tidekv:tide fails"), "{error}");
    }

    #[test]
    fn the_metric_determines_which_value_is_better() {
        assert_eq!(times_as_good(2.0, 1.0, true), 2.0);
        assert_eq!(times_as_good(1.0, 2.0, false), 2.0);
        assert_eq!(times_as_good(0.0, 0.0, false), 1.0);
        assert_eq!(times_as_good(0.0, 1.0, false), f64::INFINITY);
    }
}
