//! `bench`: measures a store on this machine, in a new directory.
//!
//! Phases run in this order: `fill` writes every entry once, in random order; `get` reads random
//! entries; `scan` reads a short range from a random key on; `mixed` reads and overwrites random
//! entries. Each is a closed loop: a thread starts its next operation when the last one has
//! returned. Every value that is read is compared with the value that was written.
//!
//! After `fill` the command waits until flushes and compactions are done, so that the phases that
//! read start from a store at rest. The directory is removed at the end, also after an error and
//! after Ctrl-C.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod directory;
mod host;
mod load;
mod phase;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidekv::{Db, Durability, Options};

use self::directory::Directory;
use self::host::Host;
use self::load::{VALUE_BYTES_MIN, Values};
use self::phase::{Measured, Phase, Workload};
use self::report::Settings;
use crate::daemon::Signals;
use crate::failure::{Failure, Result};
use crate::output;
use crate::progress::Progress;
use crate::quantity::parse_size;
use crate::store::{self, DEFAULT_KEYSPACE};

/// Entries of a store with buffered writes: about 400 MB with values of the default size.
const ENTRIES: u64 = 1_000_000;

/// Entries of a store that syncs each write, which takes a millisecond or more.
const ENTRIES_SYNCED: u64 = 10_000;

/// Longer values do not fit the write buffer of a small store.
const VALUE_BYTES_MAX: u64 = 16 << 20;

/// Measure the speed of a store on this machine.
///
/// Fills a new store, reads it, and prints throughput, latency percentiles and storage I/O of
/// each phase. Verifies every value that it reads. The default run takes one to two minutes and
/// 1 GB of storage. With the default memory the data fits the caches; to measure the storage,
/// choose less memory than data.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv bench\n  \
    tidekv bench --data /mnt/nvme/bench --memory 64MiB --entries 5000000\n  \
    tidekv bench --phases fill,mixed --durability sync --json")]
pub struct Bench {
    /// Directory of the store: missing or empty, and again so at the end [default: a new
    /// directory in the current one].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Number of entries that `fill` writes [default: 1000000; with --durability sync 10000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    entries: Option<u64>,

    /// Length of a value, 16 bytes to 16MiB. Half of it is compressible.
    #[arg(long, value_name = "BYTES", default_value = "400", value_parser = value_bytes)]
    value_size: usize,

    /// Client threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,

    /// Memory budget of the store for caches, memtables and metadata, such as 64MiB [default: a
    /// quarter of the machine's memory].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,

    /// When a write returns: `buffered` once the operating system has it (it survives a process
    /// crash), `sync` once it is on stable storage (it survives a power cut).
    #[arg(long, value_name = "WHEN", default_value = "buffered", value_parser = durability)]
    durability: Durability,

    /// Duration of each of the phases `get`, `scan` and `mixed`, in seconds.
    #[arg(long, value_name = "N", default_value = "10", value_parser = seconds)]
    seconds: f64,

    /// Percentage of gets in `mixed`; the other operations are puts of existing keys.
    #[arg(long, value_name = "PERCENT", default_value_t = 50,
        value_parser = clap::value_parser!(u64).range(0..=100))]
    get_percent: u64,

    /// Phases to report; the store is filled even without `fill`.
    #[arg(
        long,
        value_enum,
        value_name = "PHASE,...",
        value_delimiter = ',',
        default_value = "fill,get,scan,mixed"
    )]
    phases: Vec<Phase>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn value_bytes(text: &str) -> std::result::Result<usize, String> {
    let bytes = parse_size(text)?;
    match (VALUE_BYTES_MIN as u64..=VALUE_BYTES_MAX).contains(&bytes) {
        true => Ok(bytes as usize),
        false => Err(format!("{text} is out of range: a value has 16 bytes to 16MiB")),
    }
}

fn durability(text: &str) -> std::result::Result<Durability, String> {
    match text {
        "buffered" => Ok(Durability::Buffered),
        "sync" => Ok(Durability::Sync),
        _ => Err(format!("{text:?} is not a durability: use buffered or sync")),
    }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| format!("{text:?} is out of range: use 0.01 to 86400 seconds"))
}

impl Bench {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let mut signals = Signals::new()?;
        let stop = signals.stop_flag();
        let directory = Directory::new(self.data.as_deref())?;
        // No warm start: the store is removed at the end.
        let mut options = Options::default().durability(self.durability).warm_start(false);
        options.memory_bytes = Some(self.memory.unwrap_or_else(store::server_memory_bytes));
        let db = Db::open(directory.path(), options)?;
        let settings = self.settings(&db);
        let host = Host::of(directory.path());
        let measured = self.measure(&db, &settings, &stop);
        let closed = db.close();
        drop(db);
        directory.remove()?;
        let measured = measured?;
        closed?;
        match self.json {
            true => output::line(&report::json(&host, &settings, &measured).to_string())?,
            false => output::line(&report::table(&host, &settings, &measured))?,
        }
        let (wrong, checked) = measured.iter().fold((0, 0), |(wrong, checked), phase| {
            (wrong + phase.wrong_values, checked + phase.values_checked)
        });
        match wrong {
            0 => Ok(()),
            _ => {
                Err(Failure::new(format!("{wrong} of {checked} values read were missing or wrong")))
            }
        }
    }

    fn settings(&self, db: &Db) -> Settings {
        let is_synced = self.durability == Durability::Sync;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        Settings {
            entries: self.entries.unwrap_or(if is_synced { ENTRIES_SYNCED } else { ENTRIES }),
            value_bytes: self.value_size,
            threads: self.threads.unwrap_or(cores),
            memory_bytes: db.memory_bytes(),
            is_synced,
            seconds: self.seconds,
            get_percent: self.get_percent,
        }
    }

    /// Runs the phases; returns only the requested ones.
    fn measure(
        &self,
        db: &Db,
        settings: &Settings,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<Measured>> {
        let workload = Workload {
            db,
            keyspace: db.keyspace(DEFAULT_KEYSPACE)?,
            entries: settings.entries,
            threads: settings.threads,
            seconds: settings.seconds,
            get_percent: settings.get_percent,
            values: Values::new(settings.value_bytes),
            stop: Arc::clone(stop),
        };
        let mut measured = Vec::new();
        for phase in Phase::ALL {
            let is_reported = self.phases.contains(&phase);
            if !is_reported && phase != Phase::Fill {
                continue;
            }
            let mut progress = Progress::new(None);
            progress.spin(phase.name());
            let done = workload.measure(phase)?;
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::new("stopped by a signal; the store was removed"));
            }
            if is_reported {
                measured.push(done);
            }
        }
        Ok(measured)
    }
}
