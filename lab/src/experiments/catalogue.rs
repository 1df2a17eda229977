//! All experiments, found by name or pattern.

use crate::experiment::Experiment;
use crate::experiments::ackey::caches;
use crate::experiments::ackey::changing;
use crate::experiments::ackey::restart;
use crate::experiments::bigkv;
use crate::experiments::elcached;
use crate::experiments::engine;
use crate::experiments::limit;
use crate::experiments::memory;
use crate::experiments::policy;
use crate::experiments::space;
use crate::experiments::spotkv;
use crate::failure::{Failure, Result};

/// All experiments, in the order in which they run.
pub(crate) fn all() -> impl Iterator<Item = &'static Experiment> {
    engine::EXPERIMENTS
        .iter()
        .chain(caches::EXPERIMENTS)
        .chain(changing::EXPERIMENTS)
        .chain(restart::EXPERIMENTS)
        .chain(limit::EXPERIMENTS)
        .chain(space::EXPERIMENTS)
        .chain(memory::EXPERIMENTS)
        .chain(policy::EXPERIMENTS)
        .chain(spotkv::EXPERIMENTS)
        .chain(bigkv::EXPERIMENTS)
        .chain(elcached::EXPERIMENTS)
}

/// The experiment with this name.
pub(crate) fn find(name: &str) -> Option<&'static Experiment> {
    all().find(|experiment| experiment.name == name)
}

/// The experiments whose names match any of `patterns`, where `*` matches any text.
pub(crate) fn select(patterns: &[String]) -> Result<Vec<&'static Experiment>> {
    for pattern in patterns {
        if !all().any(|experiment| matches(pattern, experiment.name)) {
            let names: Vec<&str> = all().map(|experiment| experiment.name).collect();
            return Err(unknown("experiment", pattern, &names));
        }
    }
    let is_chosen =
        |experiment: &&Experiment| patterns.iter().any(|pattern| matches(pattern, experiment.name));
    Ok(all().filter(is_chosen).collect())
}

/// Whether `name` matches `pattern`, in which `*` matches any text.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|tail| {
            (0..=tail.len()).any(|skip| tail.get(skip..).is_some_and(|tail| matches(rest, tail)))
        }),
    }
}

/// The error for a missing `kind` with this name: lists the existing ones, nearest first.
pub(crate) fn unknown(kind: &str, name: &str, known: &[&str]) -> Failure {
    let mut near: Vec<&str> = known.to_vec();
    near.sort_by_key(|candidate| distance(name, candidate));
    near.truncate(3);
    let near = near.join(", ");
    Failure::usage(format!(
        "there is no {kind} {name:?}; near it are {near}; `tidekv-lab list` has all of them"
    ))
}

/// The edit distance (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::{Scale, Size};

    #[test]
    fn patterns_match() {
        assert!(matches("engine-*", "engine-open") && matches("*", "") && matches("a*c*", "abcd"));
        assert!(!matches("engine-*", "drive-overhead") && !matches("a*c", "abd"));
        let names = |patterns: &[&str]| -> Vec<&str> {
            let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
            select(&patterns).unwrap().iter().map(|e| e.name).collect()
        };
        assert_eq!(names(&["engine-fill-*"]), ["engine-fill-random", "engine-fill-seq"]);
        assert_eq!(names(&["engine-open", "engine-open"]), ["engine-open"]);
    }

    #[test]
    fn near_names_are_offered() {
        let error = select(&["engine-get-clod".into()]).unwrap_err();
        assert!(error.is_usage);
        assert!(error.message.contains("near it are engine-get-cold,"), "{error}");
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn points_of_an_experiment_differ_in_their_parameters() {
        for size in [Size::Quick, Size::Usual, Size::Full] {
            for experiment in all() {
                let points = (experiment.points)(&Scale::new(size));
                assert!(!points.is_empty(), "{}", experiment.name);
                for (i, point) in points.iter().enumerate() {
                    let twin = points[..i].iter().find(|other| other.params == point.params);
                    assert!(twin.is_none(), "{}: {:?}", experiment.name, point.params);
                    assert_eq!(point.params["value_bytes"], point.value_bytes);
                }
            }
        }
    }
}
