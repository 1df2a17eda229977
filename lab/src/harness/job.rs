//! The job of one process of the lab, and its result: plain data that passes between processes as
//! JSON.

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
    /// The directory of its store.
    pub(crate) directory: PathBuf,
    pub(crate) settings: Settings,
    /// The memory limit of the process, including the kernel's page cache for its files.
    pub(crate) process_bytes: Option<u64>,
    pub(crate) value_bytes: usize,
    pub(crate) seed: u64,
    /// The work between the open and the end; none: only the open is measured.
    pub(crate) drive: Option<Drive>,
    /// A user's workload, instead of a drive.
    pub(crate) replay: Option<ReplayJob>,
    /// Real files, in place of either.
    #[serde(default)]
    pub(crate) corpus: Option<CorpusJob>,
    /// Deletions, and the space that comes back, in place of any.
    #[serde(default)]
    pub(crate) reclaim: Option<ReclaimJob>,
    /// Long keys or large values, in place of any.
    #[serde(default)]
    pub(crate) memory: Option<MemoryJob>,
    pub(crate) ending: Ending,
}

/// The work on a [`crate::harness::replay::Replay`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayJob {
    /// Its file.
    pub(crate) file: PathBuf,
    pub(crate) part: ReplayPart,
    pub(crate) threads: u64,
}

/// Real files for a cache, for [`crate::harness::corpus`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CorpusJob {
    /// Its name in rows.
    pub(crate) name: String,
    /// Directories of files; empty: the default ones.
    pub(crate) directories: Vec<PathBuf>,
    /// The maximum number of files.
    pub(crate) objects_max: u64,
    /// Their maximum bytes.
    pub(crate) bytes_max: u64,
    pub(crate) threads: u64,
}

/// The result of a corpus in a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CorpusCounts {
    pub(crate) objects: u64,
    /// Bytes of their values.
    pub(crate) bytes: u64,
    /// The files that the cache accepted, and the time.
    pub(crate) sets: u64,
    pub(crate) set_ns: u64,
    /// Hits, and their bytes.
    pub(crate) hits: u64,
    pub(crate) hit_bytes: u64,
    /// Misses.
    pub(crate) misses: u64,
    /// Responses with wrong bytes or flags.
    pub(crate) wrong_values: u64,
}

/// Puts and gets for [`crate::harness::memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryJob {
    pub(crate) entries: u64,
    pub(crate) key_bytes: usize,
    /// The part of keys that differs.
    pub(crate) different: KeyPart,
    pub(crate) value_bytes: usize,
    /// Each entry is put first.
    pub(crate) puts: bool,
    /// Then this number of random ones is read.
    pub(crate) gets: u64,
}

/// A part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KeyPart {
    First,
    Last,
}

/// Entries of which nine in ten die, for [`crate::harness::reclaim`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReclaimJob {
    pub(crate) entries: u64,
    pub(crate) death: Death,
    /// How long entries live that expire, in seconds.
    pub(crate) life_s: f64,
    /// How long the store is watched afterwards at most, in seconds.
    pub(crate) seconds: f64,
    /// How long a load in the foreground is measured, in seconds.
    pub(crate) foreground_s: f64,
}

/// How entries die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Death {
    /// Each is deleted.
    Delete,
    /// Ranges are deleted.
    RangeDelete,
    /// Their time to live ends.
    Expire,
}

/// The sizes of a store at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReclaimLook {
    /// Since the last entry died.
    pub(crate) seconds: f64,
    pub(crate) table_bytes: u64,
    /// Of all files, logs included.
    pub(crate) file_bytes: u64,
}

/// The result of a [`ReclaimJob`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReclaimCounts {
    /// Bytes of the keys and values that are left.
    pub(crate) live_bytes: u64,
    /// Bytes of tables before anything died.
    pub(crate) full_bytes: u64,
    /// In order of time.
    pub(crate) looks: Vec<ReclaimLook>,
    /// The time of a scan at the end, and after a compaction of everything, in seconds.
    pub(crate) scan_s: f64,
    pub(crate) merged_scan_s: f64,
    #[serde(default)]
    pub(crate) foreground: ForegroundCounts,
}

/// A load on a store, without dead entries and while their space is given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ForegroundCounts {
    /// Operations per second without dead entries.
    pub(crate) clean_per_s: f64,
    /// Operations per second just before the entries died.
    #[serde(default)]
    pub(crate) before_per_s: f64,
    /// Operations per second while space was given back.
    pub(crate) busy_per_s: f64,
    /// How long it was, or was watched, in seconds.
    pub(crate) busy_s: f64,
    /// Whether all of it was given back in that time.
    pub(crate) is_back: bool,
    /// Bytes of tables: without dead entries and with them, at most, and at the end.
    pub(crate) clean_bytes: u64,
    pub(crate) dead_bytes: u64,
    pub(crate) end_bytes: u64,
}

/// The part of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReplayPart {
    /// Writes its entries.
    Load,
    /// Runs its requests.
    Requests,
}

/// Operations on an open store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drive {
    pub(crate) workload: Workload,
    pub(crate) threads: u64,
    /// Every entry is put before the warm-up, in random order.
    #[serde(default)]
    pub(crate) fills_first: bool,
    pub(crate) warm_up: WarmUp,
    /// The maximum length of the warm-up.
    pub(crate) warm_up_seconds_max: f64,
    pub(crate) length: Length,
    /// One in this number of operations is timed.
    pub(crate) operations_per_sample: u64,
    /// Operations arrive at this rate, regardless of the completion of earlier ones; `None`: each
    /// thread begins its next one when the last is done.
    pub(crate) arrivals_per_s: Option<f64>,
    /// Snapshots with iterators that are open meanwhile.
    pub(crate) holds: u64,
    /// Consecutive workloads, measured from the first operation on; `workload`, `warm_up` and
    /// `length` are then ignored.
    pub(crate) phases: Vec<Phase>,
}

impl Drive {
    /// Half as long, for a trial run.
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

    /// Whether a store keeps a hot list for a warm start.
    pub(crate) fn starts_warm(&self) -> bool {
        self.phases.iter().any(|phase| phase.start == Start::Warm)
    }
}

/// Operations of one kind of load, as part of a drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// Its name in rows.
    pub(crate) name: String,
    pub(crate) workload: Workload,
    pub(crate) operations: u64,
    pub(crate) sampling: Sampling,
    /// The policy of the caches from its beginning.
    pub(crate) policy: Option<String>,
    pub(crate) start: Start,
    /// Counts operations that read nothing from storage, with one system call for each.
    pub(crate) counts_hits: bool,
}

impl Phase {
    /// A phase with defaults, whose counters are read at its end.
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

/// The times at which counters are read in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sampling {
    /// This number of times, after equal numbers of operations.
    Even(u64),
    /// After [`Sampling::FIRST`] operations, and again after the same number until a twentieth of
    /// the previous total is larger.
    Growing,
}

impl Sampling {
    /// Operations of the first samples if they grow.
    pub(crate) const FIRST: u64 = 256;

    /// The operations of each sample of a phase of this length.
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

/// The share of `part` of `parts` in `whole`.
pub(crate) fn share(whole: u64, part: u64, parts: u64) -> u64 {
    whole / parts + u64::from(part < whole % parts)
}

/// The state of the store at the beginning of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Start {
    /// As at the end of the previous phase.
    GoesOn,
    /// Reopened with empty caches.
    Cold,
    /// Reopened with a warm start.
    Warm,
}

/// All counters since the beginning of the first phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// The phase of the sample.
    pub(crate) phase: usize,
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) counts: Counts,
    pub(crate) kernel: KernelCounts,
    /// Operations so far that read nothing from storage, if counted.
    pub(crate) hits: u64,
    /// The current memory of caches and open tables.
    pub(crate) cache_bytes_taken: Option<u64>,
}

/// The beginning of the measurement: after a number of operations, or after a scan of everything.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WarmUp {
    /// Immediately.
    None,
    /// When storage is nearly idle, after a scan of everything.
    UntilCached,
    /// After this number of operations.
    Operations(u64),
    /// When the bytes read exceed the memory, and the reads per operation are stable.
    UntilSteady,
}

/// The end of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Length {
    Seconds(f64),
    Operations(u64),
}

/// The step after the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ending {
    Close,
    /// Waits for background work.
    Settle,
    /// Compacts everything into one run first.
    Merge,
    /// The process waits to be killed.
    AwaitKill,
}

/// The result of one turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// Operations of the measured part, and its duration.
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    pub(crate) latencies: Quantiles,
    /// The counters of the subject and the kernel in the measured part.
    pub(crate) counts: Counts,
    pub(crate) kernel: KernelCounts,
    /// The same from the open until background work was done.
    pub(crate) life: Counts,
    pub(crate) life_kernel: KernelCounts,
    pub(crate) open_seconds: f64,
    pub(crate) warm_up_seconds: f64,
    /// From the last operation until background work was done.
    pub(crate) settle_seconds: f64,
    /// Bytes of keys and values that were written.
    pub(crate) user_bytes: u64,
    pub(crate) rss_bytes_max: u64,
    /// The maximum memory of caches and open tables while no reads were running.
    #[serde(default)]
    pub(crate) cache_bytes_taken: Option<u64>,
    /// Operations that read nothing from storage, if counted.
    #[serde(default)]
    pub(crate) hits: Option<u64>,
    /// Hits and misses of a cache.
    #[serde(default)]
    pub(crate) fetch_hits: u64,
    #[serde(default)]
    pub(crate) fetch_misses: u64,
    /// The result of a corpus.
    #[serde(default)]
    pub(crate) corpus: Option<CorpusCounts>,
    /// The space after deletions.
    #[serde(default)]
    pub(crate) reclaim: Option<ReclaimCounts>,
    /// Reads can be compared with those of a block device.
    pub(crate) has_device: bool,
    /// The results of consecutive phases.
    #[serde(default)]
    pub(crate) samples: Vec<Sample>,
}

impl Measurement {
    /// Reads per operation; for a single phase in two halves those of the second, when the previous
    /// cache content is evicted.
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
    fn warm_up_operations_do_not_count_for_a_split() {
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
    fn growing_samples_have_a_resolution_of_a_twentieth() {
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
