//! What one process of the lab is asked to do, and what it answers: plain data
//! that passes between processes as JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::load::workload::Workload;
use crate::machine::kernel::KernelCounts;
use crate::machine::latency::Quantiles;
use crate::subject::{Counts, Settings};

/// One turn of one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The subject's name.
    pub(crate) subject: String,
    /// Where its store is or will be.
    pub(crate) directory: PathBuf,
    pub(crate) settings: Settings,
    /// What the process may take, and the kernel for its files.
    pub(crate) process_bytes: Option<u64>,
    pub(crate) value_bytes: usize,
    pub(crate) seed: u64,
    /// What is done between opening and the end; nothing: opening is what counts.
    pub(crate) drive: Option<Drive>,
    /// A workload of a user's own, in place of a drive.
    pub(crate) replay: Option<ReplayJob>,
    /// Real files, in place of either.
    #[serde(default)]
    pub(crate) corpus: Option<CorpusJob>,
    pub(crate) ending: Ending,
}

/// What is done with a [`crate::harness::replay::Replay`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayJob {
    /// Where it is kept.
    pub(crate) file: PathBuf,
    pub(crate) part: ReplayPart,
    pub(crate) threads: u64,
}

/// Real files that a cache is to keep, for [`crate::harness::corpus`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CorpusJob {
    /// As rows name it.
    pub(crate) name: String,
    /// Where files are; empty: where systems have many.
    pub(crate) directories: Vec<PathBuf>,
    /// No more files than that.
    pub(crate) objects_max: u64,
    /// No more bytes of them than that.
    pub(crate) bytes_max: u64,
    pub(crate) threads: u64,
}

/// What became of a corpus in a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CorpusCounts {
    pub(crate) objects: u64,
    /// Bytes of their values.
    pub(crate) bytes: u64,
    /// Those that the cache has taken, and how long that took.
    pub(crate) sets: u64,
    pub(crate) set_ns: u64,
    /// Keys asked for that were there, and their bytes.
    pub(crate) hits: u64,
    pub(crate) hit_bytes: u64,
    /// Keys asked for that were not.
    pub(crate) misses: u64,
    /// Answers with other bytes or flags than were set.
    pub(crate) wrong_values: u64,
}

/// Which part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReplayPart {
    /// Its entries are written.
    Load,
    /// Its requests are handed over.
    Requests,
}

/// Operations against an open store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drive {
    pub(crate) workload: Workload,
    pub(crate) threads: u64,
    /// Every entry is put before the warm-up, in no order.
    #[serde(default)]
    pub(crate) fills_first: bool,
    pub(crate) warm_up: WarmUp,
    /// A warm-up that does not come to its end by then is ended.
    pub(crate) warm_up_seconds_max: f64,
    pub(crate) length: Length,
    /// One operation in so many is timed.
    pub(crate) operations_per_sample: u64,
    /// Operations arrive at this rate, whether earlier ones are done or not;
    /// `None`: each thread begins its next one when it is done.
    pub(crate) arrivals_per_s: Option<f64>,
    /// Snapshots with iterators that are open meanwhile.
    pub(crate) holds: u64,
    /// Workloads that follow one another and are measured from the first operation on;
    /// then `workload`, `warm_up` and `length` are not asked.
    pub(crate) phases: Vec<Phase>,
}

impl Drive {
    /// Half as long, to find something out beforehand.
    pub(crate) fn shorten(&mut self) {
        if let WarmUp::Operations(operations) = &mut self.warm_up {
            *operations /= 2;
        }
        self.warm_up_seconds_max /= 2.0;
        self.length = match self.length {
            Length::Seconds(seconds) => Length::Seconds(seconds / 2.0),
            Length::Operations(operations) => Length::Operations(operations.div_ceil(2)),
        };
        for phase in &mut self.phases {
            phase.operations = phase.operations.div_ceil(2);
            phase.sampling = Sampling::Even(2);
        }
    }

    /// Whether a store is to remember what was hot.
    pub(crate) fn starts_warm(&self) -> bool {
        self.phases.iter().any(|phase| phase.start == Start::Warm)
    }
}

/// Operations of one kind of load, as part of a drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// As rows name it.
    pub(crate) name: String,
    pub(crate) workload: Workload,
    pub(crate) operations: u64,
    pub(crate) sampling: Sampling,
    /// The policy that the caches are given when it begins.
    pub(crate) policy: Option<String>,
    pub(crate) start: Start,
    /// Operations that read nothing from storage are counted, which takes a call of the
    /// kernel for each.
    pub(crate) counts_hits: bool,
}

impl Phase {
    /// With nothing that is special, and counters that are read at its end.
    pub(crate) fn new(name: &str, workload: Workload, operations: u64) -> Self {
        Self {
            name: name.to_owned(),
            workload,
            operations,
            sampling: Sampling::Even(1),
            policy: None,
            start: Start::GoesOn,
            counts_hits: false,
        }
    }
}

/// When counters are read in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sampling {
    /// So often, after equal numbers of operations.
    Even(u64),
    /// After [`Sampling::FIRST`] operations, and so on until a twentieth of what has gone
    /// before is more.
    Growing,
}

impl Sampling {
    /// Operations of the first samples where they grow.
    pub(crate) const FIRST: u64 = 256;

    /// The operations of each sample of a phase of so many.
    pub(crate) fn shares(self, operations: u64) -> Vec<u64> {
        match self {
            Self::Even(parts) => (0..parts).map(|part| share(operations, part, parts)).collect(),
            Self::Growing => {
                let (mut shares, mut done) = (Vec::new(), 0);
                while done < operations {
                    let next = (done / 20).max(Self::FIRST).min(operations - done);
                    shares.push(next);
                    done += next;
                }
                shares
            }
        }
    }
}

/// What falls to `part` of so many `parts` of `whole`.
pub(crate) fn share(whole: u64, part: u64, parts: u64) -> u64 {
    whole / parts + u64::from(part < whole % parts)
}

/// How a phase finds the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Start {
    /// As the phase before has left it.
    GoesOn,
    /// Closed and opened again, with nothing in memory.
    Cold,
    /// Closed and opened again, with what it remembers.
    Warm,
}

/// What all counters have come to since the first phase began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Which phase it belongs to.
    pub(crate) phase: usize,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) counts: Counts,
    pub(crate) kernel: KernelCounts,
    /// Operations so far that read nothing from storage, where they are counted.
    pub(crate) hits: u64,
    /// What caches and open tables take at that moment.
    pub(crate) cache_bytes_taken: Option<u64>,
}

/// When the measurement begins. Before so many measured operations there may be so many others,
/// or a walk over everything.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WarmUp {
    /// At once.
    None,
    /// Once storage is hardly read any more, after a walk over everything.
    UntilCached,
    /// Once so many operations are done.
    Operations(u64),
    /// Once as much has been read as there is memory, and the reads an operation
    /// have stopped changing.
    UntilSteady,
}

/// When the measurement ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Length {
    Seconds(f64),
    Operations(u64),
}

/// What happens behind the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ending {
    Close,
    /// Background work is waited for.
    Settle,
    /// All is merged into one run before.
    Merge,
    /// The process waits to be killed.
    AwaitKill,
}

/// What one turn found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// Operations of the measured part, and how long it took.
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) latencies: Quantiles,
    /// What the subject and the kernel counted in the measured part.
    pub(crate) counts: Counts,
    pub(crate) kernel: KernelCounts,
    /// The same from opening until background work was done.
    pub(crate) life: Counts,
    pub(crate) life_kernel: KernelCounts,
    pub(crate) open_seconds: f64,
    pub(crate) warm_up_seconds: f64,
    /// From the last operation until background work was done.
    pub(crate) settle_seconds: f64,
    /// Bytes of keys and values that were written.
    pub(crate) user_bytes: u64,
    pub(crate) rss_bytes_max: u64,
    /// The most that caches and open tables were seen to take while nothing was read.
    #[serde(default)]
    pub(crate) cache_bytes_taken: Option<u64>,
    /// Operations that read nothing from storage, where they were counted.
    #[serde(default)]
    pub(crate) hits: Option<u64>,
    /// Keys that a cache was asked for and had, and did not have.
    #[serde(default)]
    pub(crate) fetch_hits: u64,
    #[serde(default)]
    pub(crate) fetch_misses: u64,
    /// Of a corpus.
    #[serde(default)]
    pub(crate) corpus: Option<CorpusCounts>,
    /// Reads can be held against a block device.
    pub(crate) has_device: bool,
    /// Of a drive in phases, one after another.
    #[serde(default)]
    pub(crate) samples: Vec<Sample>,
}

impl Measurement {
    /// Reads of an operation; of a single phase in two halves those of the second, when
    /// what was in memory before has gone.
    pub(crate) fn settled_reads_per_op(&self) -> Option<f64> {
        let all = (self.counts.reads?, self.operations);
        let (reads, operations) = match &self.samples[..] {
            [first, _] => (all.0 - first.counts.reads?, all.1 - first.operations),
            _ => all,
        };
        Some(reads as f64 / operations.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_caches_counts_for_no_split() {
        let counts = |reads| Counts { reads: Some(reads), ..Counts::default() };
        let sample =
            |operations, reads| Sample { operations, counts: counts(reads), ..Sample::default() };
        let whole = Measurement { operations: 100, counts: counts(80), ..Default::default() };
        assert_eq!(whole.settled_reads_per_op(), Some(0.8));
        let samples = vec![sample(50, 60), sample(100, 80)];
        let halves = Measurement { samples, ..whole };
        assert_eq!(halves.settled_reads_per_op(), Some(0.4));
    }

    #[test]
    fn shares_make_the_whole() {
        for (whole, parts) in [(10, 3), (0, 2), (7, 7), (3, 8)] {
            assert_eq!(Sampling::Even(parts).shares(whole).iter().sum::<u64>(), whole);
        }
    }

    #[test]
    fn samples_that_grow_tell_a_twentieth_apart() {
        let shares = Sampling::Growing.shares(1_000_000);
        assert_eq!(shares.iter().sum::<u64>(), 1_000_000);
        assert!(shares.len() < 200 && shares[..20] == [Sampling::FIRST; 20]);
        let mut done = 0;
        for share in shares {
            assert!(share <= (done / 20).max(Sampling::FIRST));
            done += share;
        }
    }
}
