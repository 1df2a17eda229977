//! fjall as a subject.
//!
//! It reads and writes through the page cache and has no setting for direct I/O: its repeated reads
//! cost no storage reads, as kernel memory on top of the budget serves them. Its rows of cold reads
//! are therefore not comparable, as its `kernel_read_bytes_per_op` shows.

use std::path::Path;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::subject::{Counts, Hold, Search, Settings, Subject, SubjectRecord};
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{CompressionType, Database, Iter, Keyspace, KeyspaceCreateOptions, Readable, Snapshot};

/// fjall with its defaults, with the budget.
pub const FJALL: SubjectRecord = SubjectRecord {
    name: "fjall",
    about: "fjall with three quarters of the budget as its cache and an eighth as memtable; \
            through the page cache, which is outside of the budget",
    is_default: false,
    format: "fjall",
    uses_kernel_cache: true,
    search: Search::Nothing,
    choices: &[],
    open,
};

/// Compactions and flushes are done after this number of consecutive idle checks.
const IDLE_LOOKS: u32 = 15;

const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

struct Fjall {
    db: Database,
    keyspace: Keyspace,
}

fn failed(error: fjall::Error) -> Failure {
    Failure::new(format!("fjall: {error}"))
}

fn open(path: &Path, settings: &Settings) -> Result<Box<dyn Subject>> {
    let memory = settings.memory_bytes;
    let db = Database::builder(path).cache_size(memory - memory / 4).open().map_err(failed)?;
    let compression =
        if settings.is_compressed { CompressionType::Lz4 } else { CompressionType::None };
    let options = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size((memory / 8).min(64 << 20))
            .data_block_size_policy(BlockSizePolicy::all(4096))
            .data_block_compression_policy(CompressionPolicy::all(compression))
    };
    let keyspace = db.keyspace("lab", options).map_err(failed)?;
    Ok(Box::new(Fjall { db, keyspace }))
}

struct HeldSnapshot {
    _iter: Iter,
    _snapshot: Snapshot,
}

impl Subject for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value).map_err(failed)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.keyspace.remove(key).map_err(failed)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key).map_err(failed)?;
        if let Some(value) = &value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], see: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        let mut found = 0;
        for (position, key) in keys.iter().enumerate() {
            found += u64::from(self.get(key, &mut |value| see(position, value))?);
        }
        Ok(found)
    }

    fn scan(&self, start: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut count = 0;
        for entry in self.keyspace.range(start..).take(limit as usize) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            see(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn hold(&self, start: &[u8]) -> Result<Box<dyn Hold + '_>> {
        let snapshot = self.db.snapshot();
        let mut iter = snapshot.range(&self.keyspace, start..);
        iter.next().map(|entry| entry.into_inner().map_err(failed)).transpose()?;
        Ok(Box::new(HeldSnapshot { _iter: iter, _snapshot: snapshot }))
    }

    #[expect(clippy::disallowed_methods, reason = "waits for another engine, in real time")]
    fn settle(&self) -> Result<Duration> {
        self.keyspace.rotate_memtable_and_wait().map_err(failed)?;
        let mut idle_looks = 0;
        while idle_looks < IDLE_LOOKS {
            std::thread::sleep(BETWEEN_LOOKS);
            let is_idle = self.db.active_compactions() == 0 && self.db.outstanding_flushes() == 0;
            idle_looks = if is_idle { idle_looks + 1 } else { 0 };
        }
        Ok(BETWEEN_LOOKS * IDLE_LOOKS)
    }

    fn counts(&self) -> Result<Counts> {
        Ok(Counts { table_bytes: Some(self.keyspace.disk_space()), ..Counts::default() })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
