//! What is measured: a store, as narrow as an experiment needs it, and the list
//! entry by which the lab opens one.
//!
//! All subjects are used through the same calls, so that what these cost
//! is the same for all; values are handed to a closure where they lie, so that no
//! subject pays for a copy that its own interface does not make.

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
    /// Of it, what caches may take; `None`: what the rest leaves.
    pub cache_bytes: Option<u64>,
    /// Compress tables with LZ4.
    pub is_compressed: bool,
    /// Reads go through the kernel's cache of files, which is memory beside the budget.
    pub is_buffered: bool,
    /// What the subject leaves to choose, as [`SubjectRecord::choices`] has it, by name; what
    /// is not here is as usual.
    pub choices: Choices,
    /// Count reads and writes even where counting costs time.
    pub counts_everything: bool,
    /// How caches share their memory, in place of what the subject says.
    pub policy: Option<String>,
    /// What was in memory when the store was closed is brought back when it is opened, and
    /// noted down when it is closed again; otherwise each life begins with empty caches.
    pub warm_start: bool,
    /// A store is filled that others will find: its shape counts, and not how soon it is there.
    pub is_filling: bool,
    /// Flash behind memory, for caches of objects.
    #[serde(default)]
    pub flash: Option<FlashSettings>,
}

/// Flash that a cache of objects has behind its memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlashSettings {
    /// How much in all.
    pub bytes: u64,
    /// On so many devices, each a file in the subject's directory.
    pub devices: u64,
    /// How large keys and values are on average.
    pub object_bytes: u64,
    /// Of the memory, what copies of index entries and changes of the index may take; `None`: as
    /// the subject has it.
    pub index_bytes: Option<u64>,
}

impl Settings {
    /// So much memory, and nothing that is special.
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

/// What is chosen of what a subject leaves to choose, by name.
pub type Choices = BTreeMap<String, String>;

/// Lookups of one kind of block in the block cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockLookups {
    /// Those that found their block.
    pub hits: u64,
    /// Those that did not, so that it was read.
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
    /// How many did one read, two, and so on; the last: so many and more.
    pub lookups_of: [u64; Self::READS_MAX],
    /// Their reads.
    pub reads: u64,
    /// Of these, those of filters.
    pub filter_reads: u64,
    /// Of these, index and data blocks of tables that do not have the key, if told apart.
    pub reads_in_vain: Option<u64>,
    /// By where they ended, if told apart: on levels 0 to 6, or nowhere.
    pub ends: Option<[ColdEnd; Self::ENDS]>,
}

/// Cold lookups that ended in one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdEnd {
    /// How many there were.
    pub lookups: u64,
    /// Their reads.
    pub reads: u64,
}

impl ColdLookups {
    /// Where lookups end.
    pub const ENDS: usize = 8;
    /// Lookups of so many reads and more are counted together.
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

/// What a cache of objects with flash behind it has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectCounts {
    /// Gets answered from memory.
    pub memory_hits: u64,
    /// Gets answered from flash.
    pub flash_hits: u64,
    /// Gets of what is not there.
    pub misses: u64,
    /// Reads of the index on flash for gets that found something.
    pub index_reads_of_hits: u64,
    /// Reads of objects on flash for them.
    pub object_reads_of_hits: u64,
    /// Reads of the index on flash for gets that found nothing.
    pub index_reads_of_misses: u64,
    /// Reads of objects on flash for them.
    pub object_reads_of_misses: u64,
    /// Bytes of keys and values that were handed to flash.
    pub object_bytes_written: u64,
    /// Bytes written to flash in all.
    pub flash_bytes_written: u64,
    /// Objects on flash now.
    pub flash_objects: u64,
    /// Memory that there is for each of them now, in all.
    pub index_bytes: u64,
    /// Flash that they take now with all that is there for them, if that is counted.
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

/// What a subject has counted since it was opened; `None`: it does not count that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Reads from storage for the sake of answers.
    pub reads: Option<u64>,
    /// Bytes of them.
    pub read_bytes: Option<u64>,
    /// Reads from storage in the background, if told apart.
    pub background_reads: Option<u64>,
    /// Bytes of them.
    pub background_read_bytes: Option<u64>,
    /// Bytes of tables written: flushes and compactions.
    pub table_written_bytes: Option<u64>,
    /// Bytes of the log written.
    pub log_bytes: Option<u64>,
    /// Lookups in the block cache that found their block.
    pub cache_hits: Option<u64>,
    /// Lookups in the block cache that did not.
    pub cache_misses: Option<u64>,
    /// Lookups in the block cache by kind of block.
    #[serde(default)]
    pub data_blocks: Option<BlockLookups>,
    /// Of indexes, and of their parts.
    #[serde(default)]
    pub index_blocks: Option<BlockLookups>,
    /// Of filters, and of their parts.
    #[serde(default)]
    pub filter_blocks: Option<BlockLookups>,
    /// Lookups of single keys that read storage.
    #[serde(default)]
    pub cold: Option<ColdLookups>,
    /// Lookups of single keys that passed a filter for nothing.
    #[serde(default)]
    pub false_positives: Option<u64>,
    /// Of the reads, those that repaired filters.
    #[serde(default)]
    pub repair_reads: Option<u64>,
    /// Bytes of all filters, and of what is kept beside them, that are there now.
    #[serde(default)]
    pub filter_bytes: Option<u64>,
    /// Lookups of single keys that the cache of values and pointers was asked for.
    pub point_lookups: Option<u64>,
    /// Of these, those that a value answered.
    pub kv_hits: Option<u64>,
    /// Of these, those that a pointer helped.
    pub kp_hits: Option<u64>,
    /// What values may take of the cache now.
    pub kv_bytes: Option<u64>,
    /// What pointers may take of it.
    pub kp_bytes: Option<u64>,
    /// What blocks may take of it.
    pub block_bytes: Option<u64>,
    /// Bytes of tables that are there now.
    pub table_bytes: Option<u64>,
    /// Bytes of the list of what was hot, which an earlier life has left.
    #[serde(default)]
    pub hot_list_bytes: Option<u64>,
    /// What a cache of objects counts.
    #[serde(default)]
    pub objects: Option<ObjectCounts>,
    /// Processor time of other processes that work for it, in nanoseconds.
    #[serde(default)]
    pub beside_cpu_ns: Option<u64>,
    /// The most memory that they had resident, in bytes.
    #[serde(default)]
    pub beside_bytes_max: Option<u64>,
}

impl Counts {
    /// What has come on top since `earlier`; bytes that are there now as they are.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with_each(earlier, u64::saturating_sub)
    }

    /// Together with what came `earlier`; bytes that are there now as they are.
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

/// Something that an open subject keeps for us, such as a snapshot.
pub trait Hold: Send {}

impl<T: Send> Hold for T {}

/// An open store. Writes are acknowledged once the operating system has them: the
/// log is on and not synced.
pub trait Subject: Send + Sync {
    /// Sets `key` to `value`.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes `key`.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Shows the value of `key` to `see`; whether there is one.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Sets `key` to `value` with the flags of a client; whether it was taken.
    fn put_with_flags(&self, _key: &[u8], _flags: u32, _value: &[u8]) -> Result<bool> {
        Err(Failure::usage("this subject keeps no flags with a value"))
    }

    /// Shows flags and value of `key` to `see`; whether there is one.
    fn get_with_flags(&self, _key: &[u8], _see: &mut dyn FnMut(u32, &[u8])) -> Result<bool> {
        Err(Failure::usage("this subject keeps no flags with a value"))
    }

    /// Shows the values of many keys with their positions; how many there are.
    fn multi_get(&self, keys: &[&[u8]], see: &mut dyn FnMut(usize, &[u8])) -> Result<u64>;

    /// Shows up to `limit` entries from `start` on; how many there were.
    fn scan(&self, start: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64>;

    /// Takes a snapshot and an iterator on it that has read the entry at `start`,
    /// and keeps both until the answer is dropped.
    fn hold(&self, start: &[u8]) -> Result<Box<dyn Hold + '_>>;

    /// Brings everything written into tables and waits until no background work
    /// is left. Returns how long ago the last of it ended, for subjects that can
    /// only be watched.
    fn settle(&self) -> Result<Duration>;

    /// Merges everything into one sorted run, as far as it can be told to: no chance of how
    /// merges went is left in it. To be followed by [`Subject::settle`].
    fn merge(&self) -> Result<()> {
        Ok(())
    }

    /// From now on the caches share their memory by this policy. Subjects that know no
    /// policies go on as they are.
    fn turn_to(&self, policy: &str) -> Result<()> {
        let _ = policy;
        Ok(())
    }

    /// Bytes that its caches take now, with what it keeps of open tables beside them;
    /// `None`: it cannot say.
    fn cache_bytes_taken(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// What it has counted.
    fn counts(&self) -> Result<Counts>;

    /// Closes the store in order.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Caches that share a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caches {
    /// TideKV's; [`Settings::policy`] is `fixed:` with the hundredths of each.
    ValuesPointersBlocks,
    /// AC-Key's; [`Settings::policy`] is `offline:` with the hundredths of each.
    AcKeys,
    /// RocksDB's; [`Settings::policy`] is [`ROWS_POLICY`] with the hundredths of rows.
    RowsBlocks,
}

/// How [`Settings::policy`] begins where rows and blocks share a budget.
pub const ROWS_POLICY: &str = "rows:";

/// What is looked for before a subject is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Nothing.
    Nothing,
    /// The boundaries that read the least.
    Split(Caches),
    /// Those of each phase.
    SplitOfPhase(Caches),
}

/// One thing that a subject leaves to choose.
#[derive(Debug, Clone, Copy)]
pub struct Choosable {
    /// As `--vary` and rows have it.
    pub name: &'static str,
    /// The values that there are, as people read them.
    pub values: &'static str,
    /// Where nothing is chosen.
    pub usual: &'static str,
    /// Values that are worth a try for whoever looks for the best; none where a user would not
    /// choose.
    pub tries: &'static [&'static str],
    /// Whether stores that were written with this value, which is not the usual one, are other
    /// stores.
    pub is_of_tables: fn(&str) -> bool,
    /// What a user of the engine sets to choose a value, in the engine's own words.
    pub to_set: fn(&str) -> String,
}

/// How the lab knows a subject.
#[derive(Debug, Clone, Copy)]
pub struct SubjectRecord {
    /// The engine, then the setting, as in `rocksdb:lru`.
    pub name: &'static str,
    /// What is set, and why that is fair; and what is not.
    pub about: &'static str,
    /// Runs when no subjects are named.
    pub is_default: bool,
    /// Subjects with the same one can open each other's stores.
    pub format: &'static str,
    /// It reads through the kernel's cache of files, which is memory beside its budget.
    pub uses_kernel_cache: bool,
    /// What is looked for before it is measured.
    pub search: Search,
    /// What it leaves to choose.
    pub choices: &'static [Choosable],
    /// Opens or creates a store in a directory.
    pub open: fn(&Path, &Settings) -> Result<Box<dyn Subject>>,
}

/// What the subjects that ratios are to begin with. There may be several in a run,
/// so that nobody is compared with a setting that suits an experiment badly: a
/// target holds against each.
pub const BASELINES: &str = "rocksdb:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_apart_by_name() {
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
