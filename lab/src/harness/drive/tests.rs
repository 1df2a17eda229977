//! The counted operations, and that a failure ends every thread.

use std::path::PathBuf;

use super::*;
use crate::harness::job::Ending;
use crate::load::keys::Choice;
use crate::load::workload::{Kind, Workload};
use crate::subject::{Hold, Settings};

const ENTRIES: u64 = 1000;
const VALUE_BYTES: usize = 100;

/// Has every key, counts each get as a read, and fails after a number of gets.
struct Reading {
    values: Values,
    gets: AtomicU64,
    fails_from: u64,
}

impl Subject for Reading {
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if self.gets.fetch_add(1, Ordering::Relaxed) >= self.fails_from {
            return Err(Failure::new("it is broken"));
        }
        let mut value = Vec::new();
        self.values.fill(&mut value, crate::load::keys::number_of(key).unwrap(), 0);
        see(&value);
        Ok(true)
    }

    fn counts(&self) -> Result<Counts> {
        let reads = Some(self.gets.load(Ordering::Relaxed));
        Ok(Counts { reads, ..Counts::default() })
    }

    fn put(&self, _: &[u8], _: &[u8]) -> Result<()> {
        unreachable!("nothing is written")
    }

    fn delete(&self, _: &[u8]) -> Result<()> {
        unreachable!("nothing is written")
    }

    fn multi_get(&self, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        unreachable!("one key is read at a time")
    }

    fn scan(&self, _: &[u8], _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        unreachable!("one key is read at a time")
    }

    fn hold(&self, _: &[u8]) -> Result<Box<dyn Hold + '_>> {
        unreachable!("nothing is held")
    }

    fn settle(&self) -> Result<Duration> {
        unreachable!("nothing is written")
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn measure(warm_up: WarmUp, operations: u64, fails_from: u64) -> Result<Measurement> {
    let drive = Drive {
        workload: Workload::only(Kind::Get, Choice::Uniform, ENTRIES),
        threads: 3,
        fills_first: false,
        warm_up,
        warm_up_seconds_max: 0.0,
        length: Length::Operations(operations),
        operations_per_sample: 1,
        arrivals_per_s: None,
        holds: 0,
        phases: Vec::new(),
    };
    let job = Job {
        subject: "reading".into(),
        directory: PathBuf::new(),
        settings: Settings::usual(0),
        process_bytes: None,
        value_bytes: VALUE_BYTES,
        seed: 1,
        drive: Some(drive.clone()),
        replay: None,
        corpus: None,
        reclaim: None,
        memory: None,
        ending: Ending::Close,
    };
    let subject = Reading { values: Values::new(VALUE_BYTES), gets: AtomicU64::new(0), fails_from };
    let mut measurement = Measurement::default();
    let kernel = Kernel::new(&job.directory);
    run(&job, &drive, &subject, &kernel, &mut measurement)?;
    Ok(measurement)
}

/// `spotkv-admission` had a warm-up of half a million operations that never ran, so its ratios were
/// those of empty caches.
#[test]
fn warm_up_operations_run_before_the_measured_ones() {
    for (warm_up, operations) in [(0, 500), (1000, 500), (2, 500), (1000, 1)] {
        let found = measure(WarmUp::Operations(warm_up), operations, u64::MAX).unwrap();
        assert_eq!(found.operations, operations, "behind {warm_up}");
        assert_eq!(found.counts.reads, Some(operations), "behind {warm_up}");
        assert!(found.latencies.samples <= operations, "behind {warm_up}");
    }
    assert_eq!(measure(WarmUp::None, 500, u64::MAX).unwrap().counts.reads, Some(500));
}

#[test]
fn a_failure_ends_every_thread() {
    for fails_from in [0, 10, 999, 1200] {
        assert!(measure(WarmUp::Operations(1000), 500, fails_from).is_err(), "{fails_from}");
    }
}
