//! An experiment: points to measure, and targets for the results.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use tidekv_testkit::evidence::{Row, Value};

use crate::failure::Result;
use crate::harness::job::{CorpusJob, Drive, Ending, ReclaimJob, ReplayJob, ReplayPart};
use crate::load::keys::{Choice, KEY_BYTES};
use crate::scale::Scale;
use crate::subject::{Choices, FlashSettings};

/// The parameters that all subjects share, by name.
pub(crate) type Params = BTreeMap<String, Value>;

/// One entry of the catalogue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    /// The measurement, in one sentence.
    pub(crate) about: &'static str,
    /// The finding of the paper, in one sentence with its numbers; empty if there is no paper.
    pub(crate) paper: &'static str,
    /// Our expectation, in one sentence.
    pub(crate) claim: &'static str,
    pub(crate) subjects: Subjects,
    pub(crate) points: fn(&Scale) -> Vec<Point>,
    pub(crate) targets: &'static [Target],
    /// Figures over all points, instead of one for each point.
    pub(crate) figures: &'static [Figure<'static>],
    /// The paper's statements about its figures and tables, each checked against all rows.
    pub(crate) statements: &'static [Statement],
}

/// A sentence of a paper, and a check of it on our rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement {
    /// The sentence, with its figure or table.
    pub(crate) says: &'static str,
    /// Checks the sentence; `None`: its subject was not measured.
    pub(crate) ask: fn(&[&Row]) -> Option<Answer>,
}

/// The result of a [`Statement`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) holds: bool,
    /// The measurement, in a sentence with its numbers.
    pub(crate) found: String,
}

/// A figure over all points of an experiment that differ by one or two parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure<'a> {
    pub(crate) title: &'a str,
    pub(crate) metric: &'a str,
    /// The parameter on the horizontal axis.
    pub(crate) x: &'a str,
    /// The parameter that distinguishes lines, or the rows of a map; empty: none.
    pub(crate) y: &'a str,
    pub(crate) shape: Shape,
}

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One figure per subject, with one line per value of the second parameter.
    Lines,
    /// One figure with one line per subject.
    Subjects,
    /// One figure per subject, with one cell per pair of values.
    Map,
}

impl Experiment {
    /// The defaults: the default subjects, and no paper.
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

/// The subjects of an experiment if the user names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subjects {
    /// The default subjects.
    Default,
    /// The default subjects and these.
    Also(&'static [&'static str]),
    /// Only these, even if the user names others.
    Only(&'static [&'static str]),
}

impl Answer {
    /// The text in reports.
    pub(crate) fn here(&self) -> &'static str {
        if self.holds { "the same" } else { "otherwise" }
    }
}

/// One combination of parameters, measured with every subject in turns.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) params: Params,
    pub(crate) memory_bytes: u64,
    /// The part of it for caches; `None`: the remainder.
    pub(crate) cache_bytes: Option<u64>,
    /// The total memory of the process, with the kernel's page cache for its files if a subject
    /// reads through it; `None`: no limit.
    pub(crate) process_bytes: Option<u64>,
    pub(crate) value_bytes: u64,
    pub(crate) is_compressed: bool,
    /// Reads go through the kernel's page cache.
    pub(crate) is_buffered: bool,
    /// The choices for a subject's settings.
    pub(crate) choices: Choices,
    /// The initial store; `None`: an empty directory.
    pub(crate) store: Option<StorePlan>,
    /// The store changes, so each turn has a copy.
    pub(crate) changes_store: bool,
    pub(crate) drive: Option<Drive>,
    /// A user's workload, which replaces the drive and the initial store.
    pub(crate) replay: Option<ReplayPlan>,
    /// Real files, which replace either.
    pub(crate) corpus: Option<CorpusJob>,
    /// Deletions, and the space that comes back, in place of any.
    pub(crate) reclaim: Option<ReclaimJob>,
    pub(crate) ending: Ending,
    /// The cache policy, which replaces the subject's own.
    pub(crate) policy: Option<String>,
    /// Subjects maintain all counters, even if that costs time.
    pub(crate) counts_everything: bool,
    /// Operations arrive at this fraction of the slowest subject's throughput.
    pub(crate) share_of_slowest: Option<f64>,
    pub(crate) alternations: u64,
    /// If not empty, only these subjects take part.
    pub(crate) only: &'static [&'static str],
    /// A model instead of a store, run once per turn.
    pub(crate) model: Option<Arc<dyn Model>>,
    /// The flash tier, if subjects are object caches.
    pub(crate) flash: Option<FlashSettings>,
    /// Only the device is measured.
    pub(crate) is_of_drive: bool,
}

impl Point {
    /// Adds or replaces a parameter.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.to_owned(), value.into());
        self
    }

    /// Removes some of the parameters.
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        names.iter().for_each(|name| drop(self.params.remove(*name)));
        self
    }

    /// Changes the drive, if there is one.
    pub(crate) fn driven(mut self, change: impl FnOnce(&mut Drive)) -> Self {
        if let Some(drive) = &mut self.drive {
            change(drive);
        }
        self
    }

    /// One turn in a quick run.
    pub(crate) fn once_if_quick(mut self, scale: &Scale) -> Self {
        if scale.is_quick {
            self.alternations = 1;
        }
        self
    }
}

/// A [`crate::harness::replay::Replay`] and its threads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReplayPlan {
    pub(crate) file: PathBuf,
    /// Distinguishes it from others.
    pub(crate) fingerprint: u64,
    pub(crate) threads: u64,
}

impl ReplayPlan {
    pub(crate) fn job(&self, part: ReplayPart) -> ReplayJob {
        ReplayJob { file: self.file.clone(), part, threads: self.threads }
    }
}

/// A measurement without a worker process: a model of a subject, or of its environment.
pub(crate) trait Model: Debug + Send + Sync {
    /// The results with this seed, subject by subject.
    fn run(&self, seed: u64) -> Result<Vec<Found>>;
}

/// The result of a [`Model`] for one subject.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) subject: &'static str,
    /// In addition to those of the point, such as `t` or `phase`.
    pub(crate) params: Params,
    /// By their fixed names.
    pub(crate) metrics: Vec<(&'static str, f64)>,
}

/// The end of building a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreEnd {
    /// Waits for background work.
    Settled,
    /// Compacts everything into one run.
    Merged,
    /// Kills the process.
    Killed,
}

/// A store that is built once and then used by several turns.
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
    /// Its directory name.
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
            // The second order with this name: stores of the first one were filled by popularity.
            _ => "shuffled2",
        };
        format!("{entries}x{key}{value_bytes}-{compression}-{order}-{memory_bytes}-{end}")
    }
}

/// A target for a metric of TideKV.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Target {
    /// The metric.
    pub(crate) of: &'static str,
    pub(crate) rule: Rule,
    /// The phase, or the part of the experiment; empty: none.
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

/// The kinds of targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// The ratio of TideKV with its defaults to the baseline is at least this.
    RatioAtLeast(f64),
    /// The same, at most this.
    RatioAtMost(f64),
    /// The metric itself is at most this.
    AtMost(f64),
    /// The metric itself is at least this.
    AtLeast(f64),
    /// The ratio to the same subject at the point where the parameter has this value is at least
    /// this.
    RatioToPointAtLeast(&'static str, u64, f64),
    /// The same, at most this.
    RatioToPointAtMost(&'static str, u64, f64),
    /// The ratio to the same subject at the point where the parameter has this name is at least
    /// this.
    RatioToNamedPointAtLeast(&'static str, &'static str, f64),
    /// The same, at most this.
    RatioToNamedPointAtMost(&'static str, &'static str, f64),
    /// The ratio to the same subject at the point with the next smaller value of the parameter is
    /// at most this.
    RatioToNextBelowAtMost(&'static str, f64),
    /// The ratio of TideKV with its defaults to this subject is at least this.
    RatioToSubjectAtLeast(&'static str, f64),
    /// The same, at most this.
    RatioToSubjectAtMost(&'static str, f64),
}

impl Rule {
    /// The bound, and whether it is a lower bound.
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

    /// Whether `value` meets the target.
    pub(crate) fn is_kept(&self, value: f64) -> bool {
        let (bound, is_from_below) = self.bound();
        if is_from_below { value >= bound } else { value <= bound }
    }

    /// Whether the target bounds a ratio.
    pub(crate) fn is_of_ratio(&self) -> bool {
        !matches!(self, Self::AtMost(_) | Self::AtLeast(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_limits_its_side() {
        assert!(Rule::RatioAtLeast(1.2).is_kept(1.2) && !Rule::RatioAtLeast(1.2).is_kept(1.19));
        assert!(Rule::AtMost(1.02).is_kept(1.02) && !Rule::AtMost(1.02).is_kept(1.03));
        assert!(Rule::RatioAtMost(1.0).is_kept(0.5) && !Rule::RatioAtMost(1.0).is_kept(1.1));
    }
}
