//! Real files in a cache: each is set once, then requested in random order, and every byte of every
//! response is compared.
//!
//! It guarantees:
//! 1. The same seed takes the same files of the same directories: regular ones of
//!    [`VALUE_BYTES_MIN`] to [`VALUE_BYTES_MAX`] bytes, in random order, until there are enough.
//!    Links are not followed; unreadable files are skipped.
//! 2. A response is correct if its flags are those that were set and its bytes are the current ones
//!    of the file. If the file has changed, the response must have the length and the hash of the
//!    stored value.
//! 3. A wrong response is counted and does not end the run, as their number is the result.
//!
//! Threads take files in turns from one list; each has its own buffer. No two threads use a key at
//! the same time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "files of the machine, not data of a store"
)]

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tidekv_io::{Clock, SystemClock};
use tidekv_testkit::evidence::Row;

use crate::failure::{Failure, Result};
use crate::harness::job::{CorpusCounts, CorpusJob, Job, Measurement};
use crate::load::dice::Dice;
use crate::load::keys::{KEY_BYTES, key_of, present};
use crate::machine::kernel::Kernel;
use crate::machine::latency::Latencies;
use crate::subject::Subject;

/// Smaller files are not large objects.
pub(crate) const VALUE_BYTES_MIN: u64 = 4 << 10;
/// The largest value that servers accept by default.
pub(crate) const VALUE_BYTES_MAX: u64 = 1 << 20;

/// Directories with many files: documents, programs and their parts, headers.
const DIRECTORIES: [&str; 4] = ["/usr/share", "/usr/lib", "/usr/include", "/usr/local"];
/// In a home directory: the compiler that builds this, with its documentation.
const TOOLCHAINS: &str = ".rustup/toolchains";

/// A row about TideKV goes to the proofs.
const OWN: &str = "tidekv";
const PROOF: &str = "proof-cache-corpus";

/// A stored file.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
    bytes: u64,
    /// The hash of the stored value; 0 before it is set.
    hash: AtomicU64,
}

/// All files, and the counts.
#[derive(Debug, Default)]
struct Corpus {
    entries: Vec<Entry>,
    sets: AtomicU64,
    /// Bytes of the offered values.
    bytes: AtomicU64,
    hits: AtomicU64,
    hit_bytes: AtomicU64,
    misses: AtomicU64,
    wrong_values: AtomicU64,
}

/// Executes a job and measures the gets.
pub(crate) fn run(
    corpus: &CorpusJob,
    job: &Job,
    subject: &dyn Subject,
    kernel: &Kernel,
    measurement: &mut Measurement,
) -> Result<()> {
    let found = Corpus::find(corpus, job.seed)?;
    let order: Vec<usize> = (0..found.entries.len()).collect();
    let clock = SystemClock::new();
    let begun_ns = clock.monotonic_ns();
    each(&order, corpus.threads, |at, buffer, _| found.set(at, buffer, subject))?;
    let set_ns = clock.monotonic_ns() - begun_ns;

    let order = shuffled(order, &mut Dice::of_thread(job.seed, 1));
    let (begun_ns, counts, seen) = (clock.monotonic_ns(), subject.counts()?, kernel.counts());
    let latencies = each(&order, corpus.threads, |at, buffer, latencies| {
        found.ask(at, buffer, subject, latencies)
    })?;
    measurement.seconds = (clock.monotonic_ns() - begun_ns) as f64 / 1e9;
    measurement.operations = order.len() as u64;
    measurement.latencies = latencies.quantiles();
    measurement.counts = subject.counts()?.since(&counts);
    measurement.kernel = kernel.counts().since(&seen);
    let counts = found.counts(set_ns);
    measurement.user_bytes = counts.bytes;
    (measurement.fetch_hits, measurement.fetch_misses) = (counts.hits, counts.misses);
    measurement.corpus = Some(counts);
    if job.subject.starts_with(OWN) {
        proof(corpus, job.seed, &counts).record();
    }
    Ok(())
}

/// Writes its result for the proofs.
fn proof(corpus: &CorpusJob, seed: u64, counts: &CorpusCounts) -> Row {
    Row::new(PROOF, OWN)
        .param("files", corpus.name.as_str())
        .param("objects_max", corpus.objects_max)
        .metric("objects", counts.objects)
        .metric("bytes", counts.bytes)
        .metric("sets", counts.sets)
        .metric("gets", counts.hits + counts.misses)
        .metric("hits", counts.hits)
        .metric("hit_bytes", counts.hit_bytes)
        .metric("losses", counts.wrong_values)
        .seed(seed)
}

/// Applies a function to each item of a list, with this number of threads, each of which has a
/// buffer.
fn each<F>(order: &[usize], threads: u64, work: F) -> Result<Latencies>
where
    F: Fn(usize, &mut Vec<u8>, &mut Latencies) -> Result<()> + Sync,
{
    let (next, is_broken) = (AtomicUsize::new(0), AtomicBool::new(false));
    let take = || -> Result<Latencies> {
        let (mut buffer, mut latencies) = (Vec::new(), Latencies::new());
        while !is_broken.load(Ordering::Relaxed) {
            let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            work(at, &mut buffer, &mut latencies)
                .inspect_err(|_| is_broken.store(true, Ordering::Relaxed))?;
        }
        Ok(latencies)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        let mut all = Latencies::new();
        for thread in threads {
            all.add(&thread.join().map_err(|_| Failure::new("a thread panicked"))??);
        }
        Ok(all)
    })
}

impl Corpus {
    /// Looks for files.
    fn find(job: &CorpusJob, seed: u64) -> Result<Self> {
        let mut files = Vec::new();
        match job.directories.is_empty() {
            true => usual_directories().iter().for_each(|it| walk(it, &mut files)),
            false => job.directories.iter().for_each(|it| walk(it, &mut files)),
        }
        files.sort();
        files.dedup();
        let mut corpus = Self::default();
        let mut bytes_left = job.bytes_max;
        for (path, bytes) in shuffled(files, &mut Dice::new(seed)) {
            if corpus.entries.len() as u64 == job.objects_max || bytes > bytes_left {
                break;
            }
            bytes_left -= bytes;
            corpus.entries.push(Entry { path, bytes, hash: AtomicU64::new(0) });
        }
        match corpus.entries.is_empty() {
            true => Err(Failure::new("there are no files of 4 KiB to 1 MiB in the corpus")),
            false => Ok(corpus),
        }
    }

    fn set(&self, at: usize, buffer: &mut Vec<u8>, subject: &dyn Subject) -> Result<()> {
        let entry = &self.entries[at];
        // A removed file cannot be compared either.
        if !read(&entry.path, entry.bytes, buffer) {
            return Ok(());
        }
        entry.hash.store(hash(buffer), Ordering::Relaxed);
        self.bytes.fetch_add(entry.bytes, Ordering::Relaxed);
        let is_taken = subject.put_with_flags(&key(at), flags(at), buffer)?;
        self.sets.fetch_add(is_taken.into(), Ordering::Relaxed);
        Ok(())
    }

    fn ask(
        &self,
        at: usize,
        buffer: &mut Vec<u8>,
        subject: &dyn Subject,
        latencies: &mut Latencies,
    ) -> Result<()> {
        let entry = &self.entries[at];
        let is_there = read(&entry.path, entry.bytes, buffer);
        let (mut is_right, mut bytes) = (false, 0);
        let clock = SystemClock::new();
        let begun_ns = clock.monotonic_ns();
        let is_hit = subject.get_with_flags(&key(at), &mut |found_flags, value| {
            bytes = value.len() as u64;
            is_right =
                found_flags == flags(at) && ((is_there && value == *buffer) || entry.was(value));
        })?;
        latencies.record(clock.monotonic_ns() - begun_ns);
        match is_hit {
            true => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                self.hit_bytes.fetch_add(bytes, Ordering::Relaxed);
                self.wrong_values.fetch_add((!is_right).into(), Ordering::Relaxed);
            }
            false => drop(self.misses.fetch_add(1, Ordering::Relaxed)),
        }
        Ok(())
    }

    fn counts(&self, set_ns: u64) -> CorpusCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CorpusCounts {
            objects: self.entries.len() as u64,
            bytes: of(&self.bytes),
            sets: of(&self.sets),
            set_ns,
            hits: of(&self.hits),
            hit_bytes: of(&self.hit_bytes),
            misses: of(&self.misses),
            wrong_values: of(&self.wrong_values),
        }
    }
}

impl Entry {
    /// Whether `value` is the stored one, as far as a hash can tell.
    fn was(&self, value: &[u8]) -> bool {
        value.len() as u64 == self.bytes && hash(value) == self.hash.load(Ordering::Relaxed)
    }
}

fn key(at: usize) -> [u8; KEY_BYTES] {
    key_of(present(at as u64))
}

/// Flags of all sizes, different for each file.
fn flags(at: usize) -> u32 {
    (at as u32).wrapping_mul(0x9E37_79B1)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Reads a file; whether it still has this number of bytes.
fn read(path: &Path, bytes: u64, buffer: &mut Vec<u8>) -> bool {
    buffer.clear();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(bytes + 1).read_to_end(buffer));
    read.is_ok_and(|read| read as u64 == bytes)
}

/// The default directories of files.
fn usual_directories() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(TOOLCHAINS));
    DIRECTORIES.iter().map(PathBuf::from).chain(home).collect()
}

/// Adds the files below `directory` with a valid size, and the size.
fn walk(directory: &Path, files: &mut Vec<(PathBuf, u64)>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            walk(&entry.path(), files);
            continue;
        }
        let bytes = entry.metadata().map_or(0, |about| about.len());
        if kind.is_file() && (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&bytes) {
            files.push((entry.path(), bytes));
        }
    }
}

/// Shuffles them (Fisher and Yates).
fn shuffled<T>(mut list: Vec<T>, dice: &mut Dice) -> Vec<T> {
    for at in (1..list.len()).rev() {
        list.swap(at, dice.below(at as u64 + 1) as usize);
    }
    list
}

#[cfg(test)]
mod tests;
