//! TideKV as a subject: in this process, through its public face.

use std::path::Path;
use std::time::Duration;

use tidekv::{Compression, Db, Iter, Keyspace, KeyspaceOptions, Options, Snapshot, Statistics};
use tidekv_io::{Clock, SystemClock};

use crate::failure::Result;
use crate::subject::{Counts, Hold, Settings, Subject, SubjectRecord};

/// TideKV as it stands: one budget, of which blocks get what the rest leaves.
pub const TIDEKV_BLOCK_LRU: SubjectRecord = SubjectRecord {
    name: "tidekv:block-lru",
    about: "TideKV with its block cache; direct I/O for tables, log on and unsynced, \
            one budget for memtables (at most a quarter), metadata, reads in flight and cache",
    is_default: true,
    format: "tidekv",
    open,
};

/// The store counts as idle when nothing has moved for this long: half of it
/// passes before level 0 is merged in the quiet.
const IDLE: Duration = Duration::from_millis(1000);

/// How often it is asked.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

struct Tide {
    db: Db,
    keyspace: Keyspace,
    clock: SystemClock,
}

fn open(directory: &Path, settings: &Settings) -> Result<Box<dyn Subject>> {
    let options = Options { memory_bytes: Some(settings.memory_bytes), ..Options::default() };
    let db = Db::open(directory, options)?;
    let compression = if settings.is_compressed { Compression::Lz4 } else { Compression::None };
    let options = KeyspaceOptions {
        compression,
        compression_last: compression,
        ..KeyspaceOptions::default()
    };
    let keyspace = db.keyspace_with("lab", options)?;
    Ok(Box::new(Tide { db, keyspace, clock: SystemClock::new() }))
}

/// Counters that move while background work is under way.
fn background_work(statistics: &Statistics) -> [u64; 6] {
    [
        "flush.count",
        "flush.bytes",
        "compaction.count",
        "compaction.moves",
        "compaction.write_bytes",
        "io.compaction_reads",
    ]
    .map(|name| statistics.counter(name))
}

struct Held {
    _snapshot: Snapshot,
    _iter: Iter,
}

impl Subject for Tide {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.put(key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.keyspace.delete(key)?)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key)?;
        if let Some(value) = &value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], see: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        let mut found = 0;
        for (position, entry) in self.keyspace.multi_get(keys)?.iter().enumerate() {
            if let Some(entry) = entry {
                see(position, &entry.value);
                found += 1;
            }
        }
        Ok(found)
    }

    fn scan(&self, start: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut entries = self.keyspace.range(start..);
        let mut count = 0;
        while count < limit {
            let Some(entry) = entries.lend()? else { break };
            see(entry.key, entry.value);
            count += 1;
        }
        Ok(count)
    }

    fn hold(&self, start: &[u8]) -> Result<Box<dyn Hold + '_>> {
        let snapshot = self.db.snapshot();
        let mut iter = snapshot.range(&self.keyspace, start..);
        iter.next().transpose()?;
        Ok(Box::new(Held { _snapshot: snapshot, _iter: iter }))
    }

    fn settle(&self) -> Result<Duration> {
        self.db.flush()?;
        let mut seen = background_work(&self.db.statistics());
        let mut moved_ns = self.clock.monotonic_ns();
        while self.clock.monotonic_ns() - moved_ns < IDLE.as_nanos() as u64 {
            self.clock.sleep(BETWEEN_LOOKS);
            let now = background_work(&self.db.statistics());
            if now != seen {
                seen = now;
                moved_ns = self.clock.monotonic_ns();
            }
        }
        Ok(Duration::from_nanos(self.clock.monotonic_ns() - moved_ns))
    }

    fn counts(&self) -> Result<Counts> {
        let statistics = self.db.statistics();
        let counter = |name: &str| statistics.counter(name);
        let of_cache = |what: &str| {
            ["data", "index", "filter"]
                .map(|kind| counter(&format!("cache.{kind}.{what}")))
                .iter()
                .sum()
        };
        Ok(Counts {
            reads: Some(counter("io.reads")),
            read_bytes: Some(counter("io.read_bytes")),
            background_reads: Some(counter("io.compaction_reads")),
            background_read_bytes: Some(counter("io.compaction_read_bytes")),
            table_written_bytes: Some(counter("flush.bytes") + counter("compaction.write_bytes")),
            log_bytes: Some(counter("log.bytes")),
            cache_hits: Some(of_cache("hits")),
            cache_misses: Some(of_cache("misses")),
            table_bytes: Some(self.keyspace.storage_bytes()),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn tidekv_behaves_as_a_subject() {
        let directory = tempfile::tempdir().unwrap();
        let settings =
            Settings { memory_bytes: 8 << 20, is_compressed: true, counts_everything: true };
        conformance::check(|| (TIDEKV_BLOCK_LRU.open)(directory.path(), &settings).unwrap());
    }
}
