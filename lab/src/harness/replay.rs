//! A user's workload: the initial entries of a store, and a sequence of requests.
//!
//! It is made from a trace or from the data of a store, and stored in a file that worker processes
//! read (numbers little-endian; counts of 8 bytes, the others of 4 unless stated otherwise):
//!
//! ```text
//!   magic (8)  entries (8)  requests (8)
//!   of each entry:    bytes of the key, bytes of the value, key
//!   of each request:  kind (1), entry, bytes of the new value or entries of the scan
//! ```
//!
//! All threads take requests in their order; the order of concurrent ones is undefined, as it was
//! in the trace. The first half warms the caches up, the second is measured.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a file of the workshop, not data of the store"
)]

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::harness::job::{Measurement, ReplayJob, ReplayPart};
use crate::load::dice::Dice;
use crate::load::keys::{Choice, Picker};
use crate::load::values::{VALUE_BYTES_MIN, Values};
use crate::load::workload::Kind;
use crate::machine::kernel::Kernel;
use crate::machine::latency::Latencies;
use crate::subject::Subject;

const MAGIC: [u8; 8] = *b"tidelay1";

/// The default length of a value.
pub(crate) const VALUE_BYTES: u32 = 100;
/// The default number of entries of a scan.
const SCAN_ENTRIES: u32 = 100;

/// The kinds of requests, by their number in files.
const KINDS: [Kind; 4] = [Kind::Get, Kind::Put, Kind::Delete, Kind::Scan];

/// An initial entry of the store.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    key: Box<[u8]>,
    value_bytes: u32,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Request {
    kind: Kind,
    /// The number of its entry.
    entry: u32,
    /// Bytes of the new value, or entries of the scan.
    number: u32,
}

/// A workload in memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Replay {
    entries: Vec<Entry>,
    requests: Vec<Request>,
    /// Some requests delete, so others may miss.
    deletes: bool,
}

/// Builds a workload.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    replay: Replay,
    known: HashMap<Box<[u8]>, u32>,
    /// Entries whose value has a known size.
    sized: Vec<bool>,
    /// Requests without a value size.
    unsized_requests: Vec<usize>,
}

impl Builder {
    /// The number of the initial entry with this key; the first known size of its value counts.
    pub(crate) fn entry(&mut self, key: &[u8], value_bytes: Option<u64>) -> Result<u32> {
        let size = value_bytes.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        if let Some(&at) = self.known.get(key) {
            if let (false, Some(size)) = (self.sized[at as usize], size) {
                self.sized[at as usize] = true;
                self.replay.entries[at as usize].value_bytes = size;
            }
            return Ok(at);
        }
        let at = u32::try_from(self.replay.entries.len());
        let at = at.map_err(|_| Failure::new("there are more than four thousand million keys"))?;
        let key: Box<[u8]> = key.into();
        self.known.insert(key.clone(), at);
        self.sized.push(size.is_some());
        self.replay.entries.push(Entry { key, value_bytes: size.unwrap_or(0) });
        Ok(at)
    }

    /// Adds a request, whose key becomes an initial entry.
    pub(crate) fn request(
        &mut self,
        kind: Kind,
        key: &[u8],
        value_bytes: Option<u64>,
        scan_entries: Option<u64>,
    ) -> Result<()> {
        // In many traces a missed get and a delete have a size of 0, which is not the size of a
        // value.
        let value_bytes = match kind {
            Kind::Put => value_bytes,
            Kind::Get => value_bytes.filter(|bytes| *bytes > 0),
            _ => None,
        };
        let entry = self.entry(key, value_bytes)?;
        let number = match kind {
            Kind::Scan => {
                scan_entries.map_or(SCAN_ENTRIES, |n| u32::try_from(n).unwrap_or(u32::MAX))
            }
            _ => match value_bytes {
                Some(bytes) => u32::try_from(bytes).unwrap_or(u32::MAX),
                // The size is known at the end.
                None => {
                    self.unsized_requests.push(self.replay.requests.len());
                    0
                }
            },
        };
        self.replay.deletes |= kind == Kind::Delete;
        self.replay.requests.push(Request { kind, entry, number });
        Ok(())
    }

    pub(crate) fn requests(&self) -> usize {
        self.replay.requests.len()
    }

    /// Finishes. Values of unknown size get the mean size of the others.
    pub(crate) fn build(self) -> Replay {
        let Self { mut replay, sized, unsized_requests, .. } = self;
        let count = sized.iter().filter(|is_sized| **is_sized).count() as u64;
        let bytes: u64 = replay.entries.iter().map(|entry| u64::from(entry.value_bytes)).sum();
        let usual = bytes.checked_div(count).map_or(VALUE_BYTES, |mean| mean as u32);
        let entries = replay.entries.iter_mut().zip(sized);
        entries.filter(|(_, is_sized)| !is_sized).for_each(|(entry, _)| entry.value_bytes = usual);
        for at in unsized_requests {
            let request = &mut replay.requests[at];
            request.number = replay.entries[request.entry as usize].value_bytes;
        }
        replay
    }
}

impl Replay {
    pub(crate) fn entries(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Bytes of all keys and values of the initial entries.
    pub(crate) fn data_bytes(&self) -> u64 {
        let bytes = |entry: &Entry| entry.key.len() as u64 + u64::from(entry.value_bytes);
        self.entries.iter().map(bytes).sum()
    }

    pub(crate) fn value_bytes_mean(&self) -> u64 {
        let bytes: u64 = self.entries.iter().map(|entry| u64::from(entry.value_bytes)).sum();
        bytes / self.entries().max(1)
    }

    fn value_bytes_max(&self) -> u32 {
        let of_requests = self.requests.iter().filter(|request| request.kind != Kind::Scan);
        let of_requests = of_requests.map(|request| request.number);
        self.entries.iter().map(|entry| entry.value_bytes).chain(of_requests).max().unwrap_or(0)
    }

    /// Requests of a kind.
    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.requests.iter().filter(|request| request.kind == kind).count() as u64
    }

    pub(crate) fn changes(&self) -> bool {
        self.requests.iter().any(|request| request.kind.changes())
    }

    /// Writes it to a file in `directory`: returns the path, and the fingerprint that identifies it
    /// and is part of its name.
    pub(crate) fn write(&self, directory: &Path) -> Result<(PathBuf, u64)> {
        let unnamed = directory.join("workload.new");
        let mut out = Hashed {
            inner: BufWriter::new(file(&unnamed, |path| File::create(path))?),
            hasher: DefaultHasher::new(),
        };
        self.write_to(&mut out)
            .and_then(|()| out.flush())
            .map_err(|e| Failure::system(format!("could not write {}", unnamed.display()), e))?;
        let fingerprint = out.hasher.finish();
        let path = directory.join(format!("workload-{fingerprint:016x}"));
        std::fs::rename(&unnamed, &path)
            .map_err(|e| Failure::system(format!("could not write {}", path.display()), e))?;
        Ok((path, fingerprint))
    }

    fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        out.write_all(&MAGIC)?;
        out.write_all(&self.entries().to_le_bytes())?;
        out.write_all(&self.requests().to_le_bytes())?;
        for Entry { key, value_bytes } in &self.entries {
            out.write_all(&(key.len() as u32).to_le_bytes())?;
            out.write_all(&value_bytes.to_le_bytes())?;
            out.write_all(key)?;
        }
        for Request { kind, entry, number } in &self.requests {
            let kind = KINDS.iter().position(|known| known == kind).unwrap_or_default();
            out.write_all(&[kind as u8])?;
            out.write_all(&entry.to_le_bytes())?;
            out.write_all(&number.to_le_bytes())?;
        }
        Ok(())
    }

    /// Reads the output of [`Self::write`].
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let mut input = BufReader::with_capacity(1 << 20, file(path, |path| File::open(path))?);
        Self::read_from(&mut input)
            .map_err(|e| Failure::system(format!("could not read {}", path.display()), e))
    }

    fn read_from(input: &mut impl Read) -> std::io::Result<Self> {
        let wrong = || std::io::Error::other("it is no workload of the lab");
        let mut replay = Self::default();
        let [magic, entries, requests] = [eight(input)?, eight(input)?, eight(input)?];
        if magic != MAGIC {
            return Err(wrong());
        }
        for _ in 0..u64::from_le_bytes(entries) {
            let [key_bytes, value_bytes] = [four(input)?, four(input)?];
            let mut key = Vec::new();
            let read = input.take(u64::from(key_bytes)).read_to_end(&mut key)?;
            if read < key_bytes as usize {
                return Err(wrong());
            }
            replay.entries.push(Entry { key: key.into(), value_bytes });
        }
        for _ in 0..u64::from_le_bytes(requests) {
            let mut kind = [0];
            input.read_exact(&mut kind)?;
            let kind = *KINDS.get(usize::from(kind[0])).ok_or_else(wrong)?;
            let [entry, number] = [four(input)?, four(input)?];
            if u64::from(entry) >= replay.entries() {
                return Err(wrong());
            }
            replay.deletes |= kind == Kind::Delete;
            replay.requests.push(Request { kind, entry, number });
        }
        Ok(replay)
    }

    /// Executes a job.
    pub(crate) fn run(
        job: &ReplayJob,
        seed: u64,
        subject: &dyn Subject,
        kernel: &Kernel,
        measurement: &mut Measurement,
    ) -> Result<()> {
        let replay = Self::read(&job.file)?;
        match job.part {
            ReplayPart::Load => replay.load(subject, seed),
            ReplayPart::Requests => replay.serve(subject, job.threads, kernel, measurement),
        }
    }

    /// Writes all entries, in random order.
    fn load(&self, subject: &dyn Subject, seed: u64) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let values = Values::new(self.value_bytes_max() as usize);
        let mut order = Picker::new(&Choice::Shuffled, self.entries(), seed, 0, 1);
        let (mut dice, mut value) = (Dice::new(seed), Vec::new());
        for _ in 0..self.entries() {
            let at = order.next(&mut dice);
            let Entry { key, value_bytes } = &self.entries[at as usize];
            values.fill_part(&mut value, at, 0, *value_bytes as usize);
            subject.put(key, &value)?;
        }
        Ok(())
    }

    /// Runs all requests with this number of threads; the second half is measured.
    fn serve(
        &self,
        subject: &dyn Subject,
        threads: u64,
        kernel: &Kernel,
        measurement: &mut Measurement,
    ) -> Result<()> {
        let values = Values::new(self.value_bytes_max() as usize);
        let (first, second) = self.requests.split_at(self.requests.len() / 2);
        self.serve_part(first, 0, subject, threads, &values)?;
        let clock = SystemClock::new();
        let (begun_ns, counts, seen) = (clock.monotonic_ns(), subject.counts()?, kernel.counts());
        let latencies = self.serve_part(second, first.len(), subject, threads, &values)?;
        measurement.seconds = (clock.monotonic_ns() - begun_ns) as f64 / 1e9;
        measurement.operations = second.len() as u64;
        measurement.latencies = latencies.quantiles();
        measurement.counts = subject.counts()?.since(&counts);
        measurement.kernel = kernel.counts().since(&seen);
        measurement.cache_bytes_taken = subject.cache_bytes_taken()?;
        let puts = second.iter().filter(|request| request.kind == Kind::Put);
        let bytes =
            |it: &Request| self.entries[it.entry as usize].key.len() as u64 + u64::from(it.number);
        measurement.user_bytes = puts.map(bytes).sum();
        Ok(())
    }

    fn serve_part(
        &self,
        requests: &[Request],
        versions_from: usize,
        subject: &dyn Subject,
        threads: u64,
        values: &Values,
    ) -> Result<Latencies> {
        let (next, is_broken) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || -> Result<Latencies> {
            let (clock, mut latencies, mut value) =
                (SystemClock::new(), Latencies::new(), Vec::new());
            while !is_broken.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(request) = requests.get(at) else { break };
                let begun = clock.monotonic_ns();
                let version = (versions_from + at) as u64 + 1;
                self.serve_one(request, version, subject, values, &mut value)
                    .inspect_err(|_| is_broken.store(true, Ordering::Relaxed))?;
                latencies.record(clock.monotonic_ns() - begun);
            }
            Ok(latencies)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut all = Latencies::new();
            for thread in threads {
                let found = thread.join().map_err(|_| Failure::new("a thread panicked"))?;
                all.add(&found?);
            }
            Ok(all)
        })
    }

    fn serve_one(
        &self,
        request: &Request,
        version: u64,
        subject: &dyn Subject,
        values: &Values,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let number = u64::from(request.entry);
        let key = &self.entries[request.entry as usize].key;
        match request.kind {
            Kind::Put => {
                values.fill_part(value, number, version, request.number as usize);
                subject.put(key, value)
            }
            Kind::Delete => subject.delete(key),
            Kind::Scan => subject.scan(key, u64::from(request.number), &mut |_, _| ()).map(|_| ()),
            _ => {
                let mut is_right = true;
                let is_there = subject.get(key, &mut |value| {
                    is_right =
                        value.len() < VALUE_BYTES_MIN || value.starts_with(&number.to_le_bytes());
                })?;
                match (is_there, is_right) {
                    (true, false) => Err(Failure::new("wrong answer: the value is another key's")),
                    // Every key is an initial entry of the store.
                    (false, _) if !self.deletes => Err(Failure::new("wrong answer: no value")),
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Hashes the bytes written.
struct Hashed<W> {
    inner: W,
    hasher: DefaultHasher,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.write(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}

fn file(path: &Path, open: fn(&Path) -> std::io::Result<File>) -> Result<File> {
    open(path).map_err(|e| Failure::system(format!("could not open {}", path.display()), e))
}

fn eight(input: &mut impl Read) -> std::io::Result<[u8; 8]> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes).map(|()| bytes)
}

fn four(input: &mut impl Read) -> std::io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes).map(|()| u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay() -> Replay {
        let mut builder = Builder::default();
        builder.request(Kind::Get, b"a", None, None).unwrap();
        builder.request(Kind::Put, b"b", Some(30), None).unwrap();
        builder.request(Kind::Get, b"c", Some(10), None).unwrap();
        builder.request(Kind::Put, b"b", None, None).unwrap();
        builder.request(Kind::Scan, b"a", None, Some(7)).unwrap();
        builder.request(Kind::Delete, b"a", None, None).unwrap();
        assert_eq!(builder.requests(), 6);
        builder.build()
    }

    #[test]
    fn unknown_value_sizes_are_the_mean_of_the_known_ones() {
        let replay = replay();
        let sizes: Vec<u32> = replay.entries.iter().map(|entry| entry.value_bytes).collect();
        assert_eq!(sizes, [20, 30, 10]);
        assert_eq!((replay.data_bytes(), replay.value_bytes_mean()), (63, 20));
        let numbers: Vec<u32> = replay.requests.iter().map(|request| request.number).collect();
        assert_eq!(numbers[1..5], [30, 10, 30, 7]);
        assert!(replay.changes() && replay.count(Kind::Get) == 2);
    }

    #[test]
    fn missed_gets_and_deletes_give_no_value_size() {
        let mut builder = Builder::default();
        builder.request(Kind::Get, b"a", Some(0), None).unwrap();
        builder.request(Kind::Delete, b"a", Some(0), None).unwrap();
        builder.request(Kind::Put, b"a", Some(1024), None).unwrap();
        builder.request(Kind::Put, b"b", Some(0), None).unwrap();
        let sizes: Vec<u32> = builder.build().entries.iter().map(|it| it.value_bytes).collect();
        assert_eq!(sizes, [1024, 0]);
    }

    #[test]
    fn a_file_is_read_back_and_a_truncated_one_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let replay = replay();
        let (path, one) = replay.write(directory.path()).unwrap();
        assert_eq!(Replay::read(&path).unwrap(), replay);
        assert_eq!(replay.write(directory.path()).unwrap(), (path.clone(), one));
        assert_ne!(Replay::default().write(directory.path()).unwrap().0, path);
        let bytes = std::fs::read(&path).unwrap();
        for end in 0..bytes.len() {
            assert!(Replay::read_from(&mut &bytes[..end]).is_err(), "{end}");
        }
    }
}
