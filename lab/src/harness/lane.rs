//! One thread of a drive: executes the operations of its stream and checks every result. A wrong
//! result ends the run.

use std::time::Duration;

use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::load::keys::{KEY_BYTES, key_of, number_of};
use crate::load::values::Values;
use crate::load::workload::{Kind, Operation, Stream, Workload};
use crate::subject::Subject;

/// The state of one thread.
pub(crate) struct Lane<'a> {
    subject: &'a dyn Subject,
    values: &'a Values,
    stream: Stream,
    key_bytes: usize,
    scan_entries: u64,
    /// The entries of the store must be found.
    is_complete: bool,
    value: Vec<u8>,
    version: u64,
    numbers: Vec<u64>,
    keys: Vec<[u8; KEY_BYTES]>,
    fetched: Fetched,
    fetch_time: Duration,
    clock: SystemClock,
}

/// Gets of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    /// Hits.
    pub(crate) hits: u64,
    /// Misses.
    pub(crate) misses: u64,
}

impl Fetched {
    pub(crate) fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

impl<'a> Lane<'a> {
    pub(crate) fn new(
        subject: &'a dyn Subject,
        values: &'a Values,
        workload: &Workload,
        stream: Stream,
    ) -> Self {
        let loses = |kind| matches!(kind, Kind::Delete | Kind::Fetch);
        let is_complete = workload.mix.iter().all(|&(kind, _)| !loses(kind));
        Self {
            subject,
            values,
            stream,
            key_bytes: workload.key_bytes,
            scan_entries: workload.scan_entries.min(workload.entries),
            is_complete,
            value: Vec::new(),
            version: 0,
            numbers: vec![0; workload.keys_per_multi_get],
            keys: vec![[0; KEY_BYTES]; workload.keys_per_multi_get],
            fetched: Fetched::default(),
            fetch_time: Duration::from_micros(workload.fetch_us),
            clock: SystemClock::new(),
        }
    }

    /// The counts of a cache since the last call.
    pub(crate) fn take_fetched(&mut self) -> Fetched {
        std::mem::take(&mut self.fetched)
    }

    /// Executes the next operation.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<()> {
        let operation = self.stream.next_operation();
        let key = key_of(operation.number);
        let key = &key[..self.key_bytes];
        match operation.kind {
            Kind::Get => self.get(operation, key).map(drop),
            Kind::GetAbsent => match self.subject.get(key, &mut |_| ())? {
                false => Ok(()),
                true => Err(wrong(operation, "there is a value")),
            },
            Kind::MultiGet => self.multi_get(operation),
            Kind::Scan => self.scan(operation, key),
            Kind::Put | Kind::Insert => self.put(operation.number, key),
            Kind::Modify => {
                self.get(operation, key)?;
                self.put(operation.number, key)
            }
            Kind::Delete => self.subject.delete(key),
            Kind::Fetch if self.get(operation, key)? => {
                self.fetched.hits += 1;
                Ok(())
            }
            Kind::Fetch => {
                self.fetched.misses += 1;
                if !self.fetch_time.is_zero() {
                    self.clock.sleep(self.fetch_time);
                }
                self.put(operation.number, key)
            }
        }
    }

    #[inline]
    fn put(&mut self, number: u64, key: &[u8]) -> Result<()> {
        self.version += 1;
        self.values.fill(&mut self.value, number, self.version);
        self.subject.put(key, &self.value)
    }

    /// Whether it exists.
    #[inline]
    fn get(&self, operation: Operation, key: &[u8]) -> Result<bool> {
        let mut is_right = false;
        let is_there = self
            .subject
            .get(key, &mut |value| is_right = self.values.is_of(value, operation.number))?;
        match (is_there, is_right) {
            (true, true) => Ok(true),
            (false, _) if !self.is_complete => Ok(false),
            (false, _) => Err(wrong(operation, "there is no value")),
            (true, false) => Err(wrong(operation, "the value is another key's")),
        }
    }

    fn multi_get(&mut self, operation: Operation) -> Result<()> {
        for (position, number) in self.numbers.iter_mut().enumerate() {
            *number = if position == 0 { operation.number } else { self.stream.next_number() };
            self.keys[position] = key_of(*number);
        }
        let keys: Vec<&[u8]> = self.keys.iter().map(|key| &key[..self.key_bytes]).collect();
        let mut right = 0;
        let found = self.subject.multi_get(&keys, &mut |position, value| {
            right += u64::from(self.values.is_of(value, self.numbers[position]));
        })?;
        match found == right && (!self.is_complete || found == keys.len() as u64) {
            true => Ok(()),
            false => Err(wrong(operation, "not every key has its value")),
        }
    }

    fn scan(&self, operation: Operation, key: &[u8]) -> Result<()> {
        let (mut expected, mut right) = (operation.number, 0);
        let count = self.subject.scan(key, self.scan_entries, &mut |key, value| {
            let number = number_of(key).unwrap_or(u64::MAX);
            let is_next = !self.is_complete || number == expected;
            right += u64::from(is_next && self.values.is_of(value, number));
            expected += 2;
        })?;
        match count == right && (!self.is_complete || count == self.scan_entries) {
            true => Ok(()),
            false => Err(wrong(operation, "not the entries that follow")),
        }
    }
}

fn wrong(operation: Operation, what: &str) -> Failure {
    let Operation { kind, number } = operation;
    Failure::new(format!("wrong answer: {kind:?} of key number {number}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::keys::Choice;
    use crate::subject::{Settings, SubjectRecord};
    use crate::subjects::tidekv::TIDEKV_BLOCK_LRU;

    const ENTRIES: u64 = 300;

    fn store(record: &SubjectRecord, directory: &std::path::Path) -> Box<dyn Subject> {
        (record.open)(directory, &Settings::usual(8 << 20)).unwrap()
    }

    fn run(subject: &dyn Subject, kind: Kind, choice: Choice, steps: u64) -> Result<()> {
        let values = Values::new(100);
        let workload = Workload::only(kind, choice, ENTRIES);
        let mut lane = Lane::new(subject, &values, &workload, workload.stream(1, 0, 1));
        (0..steps).try_for_each(|_| lane.step())
    }

    #[test]
    fn correct_results_pass_and_wrong_ones_fail() {
        let directory = tempfile::tempdir().unwrap();
        let subject = store(&TIDEKV_BLOCK_LRU, directory.path());
        let subject = &*subject;
        run(subject, Kind::Put, Choice::Shuffled, ENTRIES).unwrap();
        let reads = [Kind::Get, Kind::GetAbsent, Kind::MultiGet, Kind::Scan];
        for kind in reads {
            run(subject, kind, Choice::Uniform, 200).unwrap();
        }

        // A value of another key, a missing key, an unexpected key.
        let mut value = Vec::new();
        Values::new(100).fill(&mut value, 0, 0);
        subject.put(&key_of(20), &value).unwrap();
        subject.delete(&key_of(40)).unwrap();
        subject.put(&key_of(61), &value).unwrap();
        for kind in reads {
            let error = run(subject, kind, Choice::Sequential, ENTRIES).unwrap_err();
            assert!(error.message.contains("wrong answer"), "{kind:?}: {error}");
        }
    }
}
