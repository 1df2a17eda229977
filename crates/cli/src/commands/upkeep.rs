//! `checkpoint`, `compact` and `stats`: maintenance of a data directory.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use tidekv::Statistics;

use crate::failure::Result;
use crate::output;
use crate::progress::Progress;
use crate::quantity::{count, parse_size, show_size};
use crate::store;

/// Compactions merge large blocks of many tables at once.
const MEMORY_BYTES: u64 = 256 << 20;

/// Create a checkpoint: a separate store with the current content of this one.
///
/// On the same file system tables are hard links, so it takes almost no time and
/// space; to another one they are copied.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidekv checkpoint --data ./data ./backup-monday")]
pub struct Checkpoint {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Directory of the checkpoint, which must not exist.
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

/// Run a full compaction of a store.
///
/// Removes deleted, overwritten and expired entries from the storage.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidekv compact --data ./data")]
pub struct Compact {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Memory budget [default: 256MiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
}

/// Print the statistics of a store and the sizes of its keyspaces.
///
/// Counters start when this command opens the store; levels and sizes are those on storage.
/// The directory may be open in a server.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidekv stats --data ./data --json")]
pub struct Stats {
    /// Data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl Checkpoint {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let command = "TIDE.CHECKPOINT name (it needs serve --checkpoint-dir)";
        let db = store::open_unserved(&self.data, None, command)?;
        db.checkpoint(&self.target)?;
        Ok(db.close()?)
    }
}

impl Compact {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let memory = Some(self.memory.unwrap_or(MEMORY_BYTES));
        let db = store::open_unserved(&self.data, memory, "TIDE.COMPACT")?;
        let before = stored_bytes(&db)?;
        let mut progress = Progress::new(None);
        progress.spin("compacting");
        db.compact()?;
        let seconds = progress.seconds();
        let after = stored_bytes(&db)?;
        db.close()?;
        drop(progress);
        let (before, after) = (show_size(before), show_size(after));
        output::line(&format!("compacted {before} to {after} in {seconds:.2} s"))
    }
}

fn stored_bytes(db: &tidekv::Db) -> Result<u64> {
    let mut bytes = 0;
    for name in db.keyspace_names() {
        bytes += db.keyspace(&name)?.storage_bytes();
    }
    Ok(bytes)
}

impl Stats {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let db = store::open_to_read(&self.data)?;
        let statistics = db.statistics();
        let mut keyspaces = Map::new();
        for name in db.keyspace_names() {
            let keyspace = db.keyspace(&name)?;
            let (entries, bytes) = (keyspace.approximate_len(), keyspace.storage_bytes());
            if !self.json {
                let (about, size) = (count(entries, "entry", "entries"), show_size(bytes));
                output::line(&format!("keyspace {name:?}: about {about}, {size}"))?;
            }
            keyspaces.insert(name, json!({"approximate_entries": entries, "bytes": bytes}));
        }
        if self.json {
            let counters = object(&statistics);
            return output::line(
                &json!({"keyspaces": keyspaces, "counters": counters}).to_string(),
            );
        }
        for (name, value) in &statistics.counters {
            output::line(&format!("{name:<32} {value:>16}"))?;
        }
        Ok(())
    }
}

fn object(statistics: &Statistics) -> Value {
    statistics.counters.iter().map(|&(name, value)| (name.to_owned(), Value::from(value))).collect()
}
