//! What an experiment is: points to measure, and targets to hold the result
//! against.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use tidekv_testkit::evidence::{Row, Value};

use crate::failure::Result;
use crate::harness::job::{CorpusJob, Drive, Ending, ReplayJob, ReplayPart};
use crate::load::keys::{Choice, KEY_BYTES};
use crate::scale::Scale;
use crate::subject::{Choices, FlashSettings};

/// The axes that subjects share, by name.
pub(crate) type Params = BTreeMap<String, Value>;

/// One entry of the catalogue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    /// What is done, in one sentence.
    pub(crate) about: &'static str,
    /// What the paper that it is from has found, in one sentence with its numbers; empty
    /// where there is none.
    pub(crate) paper: &'static str,
    /// What we expect, in one sentence.
    pub(crate) claim: &'static str,
    pub(crate) subjects: Subjects,
    pub(crate) points: fn(&Scale) -> Vec<Point>,
    pub(crate) targets: &'static [Target],
    /// Pictures of all points together, in place of pictures of each.
    pub(crate) figures: &'static [Figure<'static>],
    /// What the paper says of its pictures and tables, each held against all rows.
    pub(crate) statements: &'static [Statement],
}

/// A sentence of a paper, and whether it holds here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement {
    /// With its figure or table.
    pub(crate) says: &'static str,
    /// `None`: what it speaks of was not measured.
    pub(crate) ask: fn(&[&Row]) -> Option<Answer>,
}

/// What rows say of a [`Statement`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) holds: bool,
    /// What was found, in a sentence with its numbers.
    pub(crate) found: String,
}

/// A picture of all points of an experiment that differ by one or two parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure<'a> {
    pub(crate) title: &'a str,
    pub(crate) metric: &'a str,
    /// The parameter from left to right.
    pub(crate) x: &'a str,
    /// The parameter that tells lines apart, or the lines of a map; empty: there is none.
    pub(crate) y: &'a str,
    pub(crate) shape: Shape,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A picture for each subject, with a line for each value of the second parameter.
    Lines,
    /// One picture with a line for each subject.
    Subjects,
    /// A picture for each subject, with a cell for each pair of values.
    Map,
}

impl Experiment {
    /// What is usual: the default subjects, and no paper.
    pub(crate) const USUAL: Self = Self {
        name: "",
        about: "",
        paper: "",
        claim: "",
        subjects: Subjects::Default,
        points: |_| Vec::new(),
        targets: &[],
        figures: &[],
        statements: &[],
    };
}

/// Who takes part when nobody is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subjects {
    /// Those that are marked as defaults.
    Default,
    /// These as well.
    Also(&'static [&'static str]),
    /// Nobody else, also when others are named.
    Only(&'static [&'static str]),
}

impl Answer {
    /// How reports say it.
    pub(crate) fn here(&self) -> &'static str {
        if self.holds { "the same" } else { "otherwise" }
    }
}

/// One combination of parameters, measured with every subject in turns.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) params: Params,
    pub(crate) memory_bytes: u64,
    /// Of it, what caches may take; `None`: what the rest leaves.
    pub(crate) cache_bytes: Option<u64>,
    /// What the process may take in all, and the kernel for its files, where a subject reads
    /// through the kernel's cache of files; `None`: what there is.
    pub(crate) process_bytes: Option<u64>,
    pub(crate) value_bytes: u64,
    pub(crate) is_compressed: bool,
    /// Reads go through the kernel's cache of files.
    pub(crate) is_buffered: bool,
    /// What is chosen of what a subject leaves to choose.
    pub(crate) choices: Choices,
    /// The store that is there beforehand; `None`: an empty directory.
    pub(crate) store: Option<StorePlan>,
    /// The store changes, so each turn has a copy.
    pub(crate) changes_store: bool,
    pub(crate) drive: Option<Drive>,
    /// A workload of a user's own, in place of a drive and of what a store is filled with.
    pub(crate) replay: Option<ReplayPlan>,
    /// Real files, in place of either.
    pub(crate) corpus: Option<CorpusJob>,
    pub(crate) ending: Ending,
    /// How caches share their memory, in place of what the subject says.
    pub(crate) policy: Option<String>,
    /// Subjects count all they can, also where that costs time.
    pub(crate) counts_everything: bool,
    /// Operations arrive at this share of what the slowest subject bears.
    pub(crate) share_of_slowest: Option<f64>,
    pub(crate) alternations: u64,
    /// If there are any here, nobody else takes part.
    pub(crate) only: &'static [&'static str],
    /// No store is measured, but a model, as often as there are alternations.
    pub(crate) model: Option<Arc<dyn Model>>,
    /// Flash behind memory, where subjects are caches of objects.
    pub(crate) flash: Option<FlashSettings>,
    /// Nothing is measured but the drive itself.
    pub(crate) is_of_drive: bool,
}

impl Point {
    /// With one more parameter, or another value of it.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.to_owned(), value.into());
        self
    }

    /// Without some of the parameters.
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        names.iter().for_each(|name| drop(self.params.remove(*name)));
        self
    }

    /// With a drive that is changed so, if it has one.
    pub(crate) fn driven(mut self, change: impl FnOnce(&mut Drive)) -> Self {
        if let Some(drive) = &mut self.drive {
            change(drive);
        }
        self
    }

    /// Measured once, if it is of a quick run.
    pub(crate) fn once_if_quick(mut self, scale: &Scale) -> Self {
        if scale.is_quick {
            self.alternations = 1;
        }
        self
    }
}

/// A [`crate::harness::replay::Replay`] and how it is asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReplayPlan {
    pub(crate) file: PathBuf,
    /// Tells it from others.
    pub(crate) fingerprint: u64,
    pub(crate) threads: u64,
}

impl ReplayPlan {
    pub(crate) fn job(&self, part: ReplayPart) -> ReplayJob {
        ReplayJob { file: self.file.clone(), part, threads: self.threads }
    }
}

/// What is found without a worker's turn: by a model of a subject, or of what is around it.
pub(crate) trait Model: Debug + Send + Sync {
    /// What it finds with that seed, subject by subject.
    fn run(&self, seed: u64) -> Result<Vec<Found>>;
}

/// What a [`Model`] found of a subject.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) subject: &'static str,
    /// Beside those of the point, such as `t` or `phase`.
    pub(crate) params: Params,
    /// By their fixed names.
    pub(crate) metrics: Vec<(&'static str, f64)>,
}

/// What is done behind the last write to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreEnd {
    /// Background work is waited for.
    Settled,
    /// All is merged into one run.
    Merged,
    /// The process is killed.
    Killed,
}

/// A store that is built once and then used by many turns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StorePlan {
    pub(crate) entries: u64,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: u64,
    pub(crate) is_compressed: bool,
    pub(crate) choice: Choice,
    pub(crate) memory_bytes: u64,
    pub(crate) end: StoreEnd,
}

impl StorePlan {
    /// A name for its directory.
    pub(crate) fn name(&self) -> String {
        let Self { entries, value_bytes, memory_bytes, .. } = self;
        let key = match self.key_bytes {
            KEY_BYTES => String::new(),
            key_bytes => format!("{key_bytes}+"),
        };
        let compression = if self.is_compressed { "lz4" } else { "plain" };
        let end = match self.end {
            StoreEnd::Settled => "settled",
            StoreEnd::Merged => "merged",
            StoreEnd::Killed => "killed",
        };
        let order = match self.choice {
            Choice::Sequential => "sequential",
            // The second order that had this name: stores of the first were filled by popularity.
            _ => "shuffled2",
        };
        format!("{entries}x{key}{value_bytes}-{compression}-{order}-{memory_bytes}-{end}")
    }
}

/// A bound that a metric of TideKV must keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Target {
    /// The metric.
    pub(crate) of: &'static str,
    pub(crate) rule: Rule,
    /// The phase, or the part of the experiment; empty: what has neither.
    pub(crate) phase: &'static str,
}

impl Target {
    pub(crate) const fn new(of: &'static str, rule: Rule) -> Self {
        Self { of, rule, phase: "" }
    }

    pub(crate) const fn in_phase(phase: &'static str, of: &'static str, rule: Rule) -> Self {
        Self { of, rule, phase }
    }
}

/// Kinds of bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// The ratio of TideKV as it comes to the baseline is at least this.
    RatioAtLeast(f64),
    /// The same, at most this.
    RatioAtMost(f64),
    /// The metric itself is at most this.
    AtMost(f64),
    /// The metric itself is at least this.
    AtLeast(f64),
    /// The ratio to the same subject at the point where the parameter has this value is
    /// at least this.
    RatioToPointAtLeast(&'static str, u64, f64),
    /// The same, at most this.
    RatioToPointAtMost(&'static str, u64, f64),
    /// The ratio to the same subject at the point where the parameter has this name is at
    /// least this.
    RatioToNamedPointAtLeast(&'static str, &'static str, f64),
    /// The same, at most this.
    RatioToNamedPointAtMost(&'static str, &'static str, f64),
    /// The ratio to the same subject at the point with the next smaller value of the parameter
    /// is at most this.
    RatioToNextBelowAtMost(&'static str, f64),
    /// The ratio of TideKV as it comes to this subject is at least this.
    RatioToSubjectAtLeast(&'static str, f64),
    /// The same, at most this.
    RatioToSubjectAtMost(&'static str, f64),
}

impl Rule {
    /// The bound, and whether it is one from below.
    pub(crate) fn bound(&self) -> (f64, bool) {
        match *self {
            Self::AtLeast(bound)
            | Self::RatioAtLeast(bound)
            | Self::RatioToPointAtLeast(_, _, bound)
            | Self::RatioToNamedPointAtLeast(_, _, bound)
            | Self::RatioToSubjectAtLeast(_, bound) => (bound, true),
            Self::RatioAtMost(bound)
            | Self::AtMost(bound)
            | Self::RatioToPointAtMost(_, _, bound)
            | Self::RatioToNamedPointAtMost(_, _, bound)
            | Self::RatioToNextBelowAtMost(_, bound)
            | Self::RatioToSubjectAtMost(_, bound) => (bound, false),
        }
    }

    /// Whether `value` keeps the bound.
    pub(crate) fn is_kept(&self, value: f64) -> bool {
        let (bound, is_from_below) = self.bound();
        if is_from_below { value >= bound } else { value <= bound }
    }

    /// Whether it bounds a ratio.
    pub(crate) fn is_of_ratio(&self) -> bool {
        !matches!(self, Self::AtMost(_) | Self::AtLeast(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_bound_from_their_side() {
        assert!(Rule::RatioAtLeast(1.2).is_kept(1.2) && !Rule::RatioAtLeast(1.2).is_kept(1.19));
        assert!(Rule::AtMost(1.02).is_kept(1.02) && !Rule::AtMost(1.02).is_kept(1.03));
        assert!(Rule::RatioAtMost(1.0).is_kept(0.5) && !Rule::RatioAtMost(1.0).is_kept(1.1));
    }
}
