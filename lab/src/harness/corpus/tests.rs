//! Tests of a corpus, with a cache that can return wrong values.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::harness::job::Ending;
use crate::subject::{Counts, Hold, Settings};

/// Flags and value.
type Kept = (u32, Vec<u8>);

/// Stores values, and returns them changed by `spoil`.
struct Keeper {
    kept: Mutex<HashMap<Vec<u8>, Kept>>,
    spoil: fn(&mut u32, &mut Vec<u8>),
    /// It is full.
    bytes_max: usize,
}

impl Keeper {
    fn new(spoil: fn(&mut u32, &mut Vec<u8>)) -> Self {
        Self { kept: Mutex::default(), spoil, bytes_max: usize::MAX }
    }
}

impl Subject for Keeper {
    fn put_with_flags(&self, key: &[u8], flags: u32, value: &[u8]) -> Result<bool> {
        if value.len() > self.bytes_max {
            return Ok(false);
        }
        self.kept.lock().unwrap().insert(key.into(), (flags, value.into()));
        Ok(true)
    }

    fn get_with_flags(&self, key: &[u8], see: &mut dyn FnMut(u32, &[u8])) -> Result<bool> {
        let Some((mut flags, mut value)) = self.kept.lock().unwrap().get(key).cloned() else {
            return Ok(false);
        };
        (self.spoil)(&mut flags, &mut value);
        see(flags, &value);
        Ok(true)
    }

    fn put(&self, _: &[u8], _: &[u8]) -> Result<()> {
        unreachable!("flags are always said")
    }

    fn get(&self, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        unreachable!("flags are always asked for")
    }

    fn delete(&self, _: &[u8]) -> Result<()> {
        unreachable!("nothing is removed")
    }

    fn multi_get(&self, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        unreachable!("keys are asked for one by one")
    }

    fn scan(&self, _: &[u8], _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        unreachable!("caches do not scan")
    }

    fn hold(&self, _: &[u8]) -> Result<Box<dyn Hold + '_>> {
        unreachable!("caches have no snapshots")
    }

    fn settle(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn counts(&self) -> Result<Counts> {
        Ok(Counts::default())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Files of 4 KiB plus one more byte each, one that is too small and one that is too large.
fn files(count: usize) -> (tempfile::TempDir, CorpusJob) {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("deep/deeper");
    fs::create_dir_all(&deep).unwrap();
    for at in 0..count {
        let bytes: Vec<u8> = (0..VALUE_BYTES_MIN as usize + at).map(|b| (b * at) as u8).collect();
        let place = if at % 2 == 0 { directory.path() } else { &deep };
        fs::write(place.join(format!("file-{at}")), bytes).unwrap();
    }
    fs::write(deep.join("small"), vec![1; VALUE_BYTES_MIN as usize - 1]).unwrap();
    fs::write(deep.join("large"), vec![1; VALUE_BYTES_MAX as usize + 1]).unwrap();
    let job = CorpusJob {
        name: "given".into(),
        directories: vec![directory.path().into()],
        objects_max: 1000,
        bytes_max: 1 << 30,
        threads: 3,
    };
    (directory, job)
}

fn counts_of(corpus: &CorpusJob, subject: &Keeper) -> (CorpusCounts, Measurement) {
    let job = Job {
        subject: "keeper".into(),
        directory: PathBuf::from("."),
        settings: Settings::usual(1 << 20),
        process_bytes: None,
        value_bytes: 0,
        seed: 7,
        drive: None,
        replay: None,
        corpus: Some(corpus.clone()),
        reclaim: None,
        memory: None,
        ending: Ending::Close,
    };
    let mut measurement = Measurement::default();
    run(corpus, &job, subject, &Kernel::new(Path::new(".")), &mut measurement).unwrap();
    (measurement.corpus.unwrap(), measurement)
}

#[test]
fn every_file_of_a_valid_size_is_set_and_read() {
    let (_directory, job) = files(20);
    let (counts, measurement) = counts_of(&job, &Keeper::new(|_, _| ()));
    let bytes = 20 * VALUE_BYTES_MIN + (0..20).sum::<u64>();
    assert_eq!((counts.objects, counts.sets, counts.hits, counts.misses), (20, 20, 20, 0));
    assert_eq!((counts.bytes, counts.hit_bytes, counts.wrong_values), (bytes, bytes, 0));
    assert_eq!((measurement.operations, measurement.latencies.samples), (20, 20));
}

#[test]
fn wrong_bytes_lengths_and_flags_are_counted() {
    let (_directory, job) = files(5);
    let wrong = |spoil| counts_of(&job, &Keeper::new(spoil)).0.wrong_values;
    assert_eq!(wrong(|_, value| value[4000] ^= 1), 5);
    assert_eq!(wrong(|_, value| value.truncate(4000)), 5);
    assert_eq!(wrong(|_, value| value.push(0)), 5);
    assert_eq!(wrong(|flags, _| *flags ^= 1 << 31), 5);
}

#[test]
fn a_rejected_value_is_a_miss() {
    let (_directory, job) = files(8);
    let keeper = Keeper { bytes_max: VALUE_BYTES_MIN as usize + 2, ..Keeper::new(|_, _| ()) };
    let counts = counts_of(&job, &keeper).0;
    assert_eq!((counts.objects, counts.sets, counts.hits, counts.misses), (8, 3, 3, 5));
}

#[test]
fn a_changed_file_is_not_a_loss() {
    let (_directory, job) = files(3);
    let (honest, liar) = (Keeper::new(|_, _| ()), Keeper::new(|_, value| value[0] ^= 1));
    for (keeper, wrong_values) in [(honest, 0), (liar, 2)] {
        let corpus = Corpus::find(&job, 1).unwrap();
        let mut buffer = Vec::new();
        (0..3).for_each(|at| corpus.set(at, &mut buffer, &keeper).unwrap());
        fs::write(&corpus.entries[1].path, vec![9; corpus.entries[1].bytes as usize]).unwrap();
        fs::remove_file(&corpus.entries[2].path).unwrap();
        for at in 1..3 {
            corpus.ask(at, &mut buffer, &keeper, &mut Latencies::new()).unwrap();
        }
        let counts = corpus.counts(0);
        assert_eq!((counts.hits, counts.wrong_values), (2, wrong_values));
        fs::write(&corpus.entries[2].path, vec![3; 5000]).unwrap();
    }
}

#[test]
fn a_seed_selects_the_same_files_up_to_the_limit() {
    let (_directory, job) = files(30);
    let paths = |job: &CorpusJob, seed: u64| -> Vec<PathBuf> {
        Corpus::find(job, seed).unwrap().entries.into_iter().map(|entry| entry.path).collect()
    };
    let few = CorpusJob { objects_max: 10, ..job.clone() };
    assert_eq!(paths(&few, 1).len(), 10);
    assert_eq!(paths(&few, 1), paths(&few, 1));
    assert_ne!(paths(&few, 1), paths(&few, 2));
    let small = CorpusJob { bytes_max: 5 * VALUE_BYTES_MIN, ..job.clone() };
    assert_eq!(paths(&small, 1).len(), 4);
    let nowhere = CorpusJob { directories: vec!["/nowhere-at-all".into()], ..job };
    assert!(Corpus::find(&nowhere, 1).unwrap_err().message.contains("no files"));
}

#[test]
fn the_result_is_a_row_of_the_proofs() {
    let (_directory, job) = files(1);
    let counts = CorpusCounts { hits: 5, misses: 2, wrong_values: 1, ..CorpusCounts::default() };
    let row = proof(&job, 3, &counts);
    assert_eq!((row.number("gets"), row.number("losses")), (Some(7.0), Some(1.0)));
}
