//! The interface of a subject: a store, as narrow as experiments need it, and the record by which
//! the lab opens it.
//!
//! All subjects are used through the same calls, so that the overhead is the same for all; values
//! are passed to a closure in place, so no subject pays for a copy that its own interface does not
//! make.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};

/// Settings that all subjects of a comparison share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Memory for everything: write buffers, caches, metadata.
    pub memory_bytes: u64,
    /// The part of it for caches; `None`: the remainder.
    pub cache_bytes: Option<u64>,
    /// Compress tables with LZ4.
    pub is_compressed: bool,
    /// Reads go through the kernel's page cache, which is memory in addition to the budget.
    pub is_buffered: bool,
    /// The subject's choices, of [`SubjectRecord::choices`], by name; missing ones have their
    /// defaults.
    pub choices: Choices,
    /// Count reads and writes even where counting costs time.
    pub counts_everything: bool,
    /// The cache policy, which replaces the subject's own.
    pub policy: Option<String>,
    /// Warm start: the close writes the hot list, and the open restores the caches from it;
    /// otherwise each run begins with empty caches.
    pub warm_start: bool,
    /// A store is filled for other turns: its shape matters, not the speed.
    pub is_filling: bool,
    /// The flash tier of object caches.
    #[serde(default)]
    pub flash: Option<FlashSettings>,
}

/// The flash tier of an object cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlashSettings {
    /// The total size.
    pub bytes: u64,
    /// The number of devices, each a file in the subject's directory.
    pub devices: u64,
    /// The mean size of keys and values.
    pub object_bytes: u64,
    /// The part of memory for cached index entries and pending index changes; `None`: the subject's
    /// default.
    pub index_bytes: Option<u64>,
}

impl Settings {
    /// Defaults with this memory.
    pub fn usual(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            cache_bytes: None,
            is_compressed: false,
            is_buffered: false,
            choices: Choices::new(),
            counts_everything: true,
            policy: None,
            warm_start: false,
            is_filling: false,
            flash: None,
        }
    }
}

/// The values of a subject's choices, by name.
pub type Choices = BTreeMap<String, String>;

/// Lookups of one kind of block in the block cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockLookups {
    /// Hits.
    pub hits: u64,
    /// Misses, which read the block.
    pub reads: u64,
}

impl BlockLookups {
    fn with_each(self, earlier: Self, both: fn(u64, u64) -> u64) -> Self {
        Self { hits: both(self.hits, earlier.hits), reads: both(self.reads, earlier.reads) }
    }
}

/// Lookups of single keys that read storage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdLookups {
    /// The number of lookups with one read, two, and so on; the last: this number and more.
    pub lookups_of: [u64; Self::READS_MAX],
    /// Their reads.
    pub reads: u64,
    /// Reads of filters among them.
    pub filter_reads: u64,
    /// Reads of index and data blocks of tables without the key among them, if known.
    pub reads_in_vain: Option<u64>,
    /// By the place where they ended, if known: on levels 0 to 6, or nowhere.
    pub ends: Option<[ColdEnd; Self::ENDS]>,
}

/// Cold lookups that ended in one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdEnd {
    /// Their number.
    pub lookups: u64,
    /// Their reads.
    pub reads: u64,
}

impl ColdLookups {
    /// The number of places where lookups end.
    pub const ENDS: usize = 8;
    /// Lookups of this number of reads and more are counted together.
    pub const READS_MAX: usize = 8;

    fn with_each(&self, earlier: &Self, both: fn(u64, u64) -> u64) -> Self {
        let in_vain = |now| both(now, earlier.reads_in_vain.unwrap_or_default());
        let ends = |now: [ColdEnd; Self::ENDS]| {
            let then = earlier.ends.unwrap_or_default();
            std::array::from_fn(|end| ColdEnd {
                lookups: both(now[end].lookups, then[end].lookups),
                reads: both(now[end].reads, then[end].reads),
            })
        };
        Self {
            lookups_of: std::array::from_fn(|i| both(self.lookups_of[i], earlier.lookups_of[i])),
            reads: both(self.reads, earlier.reads),
            filter_reads: both(self.filter_reads, earlier.filter_reads),
            reads_in_vain: self.reads_in_vain.map(in_vain),
            ends: self.ends.map(ends),
        }
    }
}

/// The counters of an object cache with flash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectCounts {
    /// Gets that hit memory.
    pub memory_hits: u64,
    /// Gets that hit flash.
    pub flash_hits: u64,
    /// Gets that missed.
    pub misses: u64,
    /// Reads of the index on flash for hits.
    pub index_reads_of_hits: u64,
    /// Reads of objects on flash for them.
    pub object_reads_of_hits: u64,
    /// Reads of the index on flash for misses.
    pub index_reads_of_misses: u64,
    /// Reads of objects on flash for them.
    pub object_reads_of_misses: u64,
    /// Bytes of keys and values submitted to flash.
    pub object_bytes_written: u64,
    /// Bytes written to flash, total.
    pub flash_bytes_written: u64,
    /// Objects on flash now.
    pub flash_objects: u64,
    /// Total memory per object now.
    pub index_bytes: u64,
    /// The current flash space of the objects with all their metadata, if counted.
    #[serde(default)]
    pub flash_bytes_taken: u64,
}

impl ObjectCounts {
    fn with_each(self, earlier: Self, both: fn(u64, u64) -> u64) -> Self {
        Self {
            memory_hits: both(self.memory_hits, earlier.memory_hits),
            flash_hits: both(self.flash_hits, earlier.flash_hits),
            misses: both(self.misses, earlier.misses),
            index_reads_of_hits: both(self.index_reads_of_hits, earlier.index_reads_of_hits),
            object_reads_of_hits: both(self.object_reads_of_hits, earlier.object_reads_of_hits),
            index_reads_of_misses: both(self.index_reads_of_misses, earlier.index_reads_of_misses),
            object_reads_of_misses: both(
                self.object_reads_of_misses,
                earlier.object_reads_of_misses,
            ),
            object_bytes_written: both(self.object_bytes_written, earlier.object_bytes_written),
            flash_bytes_written: both(self.flash_bytes_written, earlier.flash_bytes_written),
            ..self
        }
    }
}

/// The counters of a subject since its open; `None`: not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Foreground reads from storage.
    pub reads: Option<u64>,
    /// Bytes of them.
    pub read_bytes: Option<u64>,
    /// Background reads from storage, if known.
    pub background_reads: Option<u64>,
    /// Bytes of them.
    pub background_read_bytes: Option<u64>,
    /// Bytes of tables written: flushes and compactions.
    pub table_written_bytes: Option<u64>,
    /// Bytes of the log written.
    pub log_bytes: Option<u64>,
    /// Hits in the block cache.
    pub cache_hits: Option<u64>,
    /// Misses in the block cache.
    pub cache_misses: Option<u64>,
    /// Lookups in the block cache by kind of block.
    #[serde(default)]
    pub data_blocks: Option<BlockLookups>,
    /// Of indexes, and of their partitions.
    #[serde(default)]
    pub index_blocks: Option<BlockLookups>,
    /// Of filters, and of their partitions.
    #[serde(default)]
    pub filter_blocks: Option<BlockLookups>,
    /// Lookups of single keys that read storage.
    #[serde(default)]
    pub cold: Option<ColdLookups>,
    /// Lookups of single keys with a false positive of a filter.
    #[serde(default)]
    pub false_positives: Option<u64>,
    /// The reads of filter repairs among them.
    #[serde(default)]
    pub repair_reads: Option<u64>,
    /// Current bytes of all filters, including their repairs.
    #[serde(default)]
    pub filter_bytes: Option<u64>,
    /// Lookups of single keys in the cache of values and pointers.
    pub point_lookups: Option<u64>,
    /// Hits of a value.
    pub kv_hits: Option<u64>,
    /// Hits of a pointer.
    pub kp_hits: Option<u64>,
    /// The current size limit of values in the cache.
    pub kv_bytes: Option<u64>,
    /// The current size limit of pointers.
    pub kp_bytes: Option<u64>,
    /// The current size limit of blocks.
    pub block_bytes: Option<u64>,
    /// Current bytes of tables.
    pub table_bytes: Option<u64>,
    /// Bytes of the hot list of the previous run.
    #[serde(default)]
    pub hot_list_bytes: Option<u64>,
    /// The counters of an object cache.
    #[serde(default)]
    pub objects: Option<ObjectCounts>,
    /// Processor time of other processes that work for it, in nanoseconds.
    #[serde(default)]
    pub beside_cpu_ns: Option<u64>,
    /// Their maximum resident memory, in bytes.
    #[serde(default)]
    pub beside_bytes_max: Option<u64>,
}

impl Counts {
    /// The difference from `earlier`; current sizes unchanged.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with_each(earlier, u64::saturating_sub)
    }

    /// The sum with `earlier`; current sizes unchanged.
    #[must_use]
    pub fn and(&self, earlier: &Self) -> Self {
        self.with_each(earlier, u64::saturating_add)
    }

    fn with_each(&self, earlier: &Self, both: fn(u64, u64) -> u64) -> Self {
        let each =
            |now: Option<u64>, then: Option<u64>| now.map(|now| both(now, then.unwrap_or(0)));
        let blocks = |now: Option<BlockLookups>, then: Option<BlockLookups>| {
            now.map(|now| now.with_each(then.unwrap_or_default(), both))
        };
        Self {
            reads: each(self.reads, earlier.reads),
            read_bytes: each(self.read_bytes, earlier.read_bytes),
            background_reads: each(self.background_reads, earlier.background_reads),
            background_read_bytes: each(self.background_read_bytes, earlier.background_read_bytes),
            table_written_bytes: each(self.table_written_bytes, earlier.table_written_bytes),
            log_bytes: each(self.log_bytes, earlier.log_bytes),
            cache_hits: each(self.cache_hits, earlier.cache_hits),
            cache_misses: each(self.cache_misses, earlier.cache_misses),
            data_blocks: blocks(self.data_blocks, earlier.data_blocks),
            index_blocks: blocks(self.index_blocks, earlier.index_blocks),
            filter_blocks: blocks(self.filter_blocks, earlier.filter_blocks),
            cold: self.cold.map(|now| now.with_each(&earlier.cold.unwrap_or_default(), both)),
            false_positives: each(self.false_positives, earlier.false_positives),
            repair_reads: each(self.repair_reads, earlier.repair_reads),
            point_lookups: each(self.point_lookups, earlier.point_lookups),
            kv_hits: each(self.kv_hits, earlier.kv_hits),
            kp_hits: each(self.kp_hits, earlier.kp_hits),
            objects: self
                .objects
                .map(|now| now.with_each(earlier.objects.unwrap_or_default(), both)),
            beside_cpu_ns: each(self.beside_cpu_ns, earlier.beside_cpu_ns),
            ..*self
        }
    }
}

/// A resource that an open subject keeps for the caller, such as a snapshot.
pub trait Hold: Send {}

impl<T: Send> Hold for T {}

/// An open store. Writes are acknowledged once the operating system has them: the log is on and not
/// synced.
pub trait Subject: Send + Sync {
    /// Sets `key` to `value`.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Deletes `key`.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Deletes every key from `start` to `end` (exclusive).
    fn delete_range(&self, _start: &[u8], _end: &[u8]) -> Result<()> {
        Err(Failure::usage("this subject deletes no ranges"))
    }

    /// Sets `key` to `value`, which expires after `ttl`.
    fn put_with_ttl(&self, _key: &[u8], _value: &[u8], _ttl: Duration) -> Result<()> {
        Err(Failure::usage("the entries of this subject do not expire"))
    }

    /// Passes the value of `key` to `see`; whether it exists.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Sets `key` to `value` with the flags of a client; whether it was accepted.
    fn put_with_flags(&self, _key: &[u8], _flags: u32, _value: &[u8]) -> Result<bool> {
        Err(Failure::usage("this subject keeps no flags with a value"))
    }

    /// Passes flags and value of `key` to `see`; whether it exists.
    fn get_with_flags(&self, _key: &[u8], _see: &mut dyn FnMut(u32, &[u8])) -> Result<bool> {
        Err(Failure::usage("this subject keeps no flags with a value"))
    }

    /// Passes the values of many keys with their positions; returns the number of existing ones.
    fn multi_get(&self, keys: &[&[u8]], see: &mut dyn FnMut(usize, &[u8])) -> Result<u64>;

    /// Passes up to `limit` entries from `start` on; returns their number.
    fn scan(&self, start: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64>;

    /// Takes a snapshot and an iterator on it that has read the entry at `start`, and keeps both
    /// until the result is dropped.
    fn hold(&self, start: &[u8]) -> Result<Box<dyn Hold + '_>>;

    /// Flushes all writes to tables and waits for all background work. Returns the time since the
    /// last of it ended, for subjects that can only be polled.
    fn settle(&self) -> Result<Duration>;

    /// Compacts everything into one sorted run, as far as it can be controlled, so that the result
    /// does not depend on the order of compactions. To be followed by [`Subject::settle`].
    fn merge(&self) -> Result<()> {
        Ok(())
    }

    /// Changes the cache policy. Subjects without policies ignore it.
    fn turn_to(&self, policy: &str) -> Result<()> {
        let _ = policy;
        Ok(())
    }

    /// Current bytes of its caches, including metadata of open tables outside them; `None`:
    /// unknown.
    fn cache_bytes_taken(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Its counters.
    fn counts(&self) -> Result<Counts>;

    /// Closes the store cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Caches that share a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caches {
    /// TideKV's; [`Settings::policy`] is `fixed:` with the percentage of each.
    ValuesPointersBlocks,
    /// AC-Key's; [`Settings::policy`] is `ac-key-fixed:` with the percentage of each.
    AcKeys,
    /// RocksDB's; [`Settings::policy`] is [`ROWS_POLICY`] with the percentage of rows.
    RowsBlocks,
}

/// The prefix of [`Settings::policy`] if rows and blocks share a budget.
pub const ROWS_POLICY: &str = "rows:";

/// The search before a subject is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// None.
    Nothing,
    /// For the boundaries with the fewest reads.
    Split(Caches),
    /// For those of each phase.
    SplitOfPhase(Caches),
}

/// A choice of a subject.
#[derive(Debug, Clone, Copy)]
pub struct Choosable {
    /// The name in `--vary` and rows.
    pub name: &'static str,
    /// The possible values, as text.
    pub values: &'static str,
    /// The default.
    pub usual: &'static str,
    /// Values to try in a search for the best; empty if a user would not choose.
    pub tries: &'static [&'static str],
    /// Whether stores written with a non-default value differ from others.
    pub is_of_tables: fn(&str) -> bool,
    /// The setting of the engine that selects a value, in the engine's own terms.
    pub to_set: fn(&str) -> String,
}

/// The record of a subject in the lab.
#[derive(Debug, Clone, Copy)]
pub struct SubjectRecord {
    /// The engine, then the setting, as in `rocksdb:lru`.
    pub name: &'static str,
    /// The configuration, and its fairness.
    pub about: &'static str,
    /// Runs if no subjects are named.
    pub is_default: bool,
    /// Subjects with the same format can open each other's stores.
    pub format: &'static str,
    /// It reads through the kernel's page cache, which is memory in addition to its budget.
    pub uses_kernel_cache: bool,
    /// The search before it is measured.
    pub search: Search,
    /// Its choices.
    pub choices: &'static [Choosable],
    /// Opens or creates a store in a directory.
    pub open: fn(&Path, &Settings) -> Result<Box<dyn Subject>>,
}

/// The prefixes of the baselines of ratios. There may be several in a run, so that no comparison
/// uses a setting that suits an experiment badly: a target must hold against each.
pub const BASELINES: &str = "rocksdb:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_subtract_and_add_by_field() {
        let earlier = Counts { reads: Some(3), table_bytes: Some(5), ..Counts::default() };
        let later = Counts {
            reads: Some(10),
            log_bytes: Some(4),
            table_bytes: Some(7),
            ..Counts::default()
        };
        let between = later.since(&earlier);
        assert_eq!(between.reads, Some(7));
        assert_eq!(between.log_bytes, Some(4));
        assert_eq!(between.table_bytes, Some(7));
        assert_eq!(between.cache_hits, None);
        let together = between.and(&earlier);
        assert_eq!((together.reads, together.table_bytes), (Some(10), Some(7)));
    }
}
