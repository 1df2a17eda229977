//! RocksDB as a subject, configured as well as we know for one memory budget.
//!
//! The settings and their reasons:
//!
//! | setting | value | reason |
//! |---|---|---|
//! | direct reads, direct flush and compaction | on | as TideKV; the page cache would be memory outside the budget |
//! | write-ahead log | on, not synced | as TideKV: an acknowledged write survives a crash of the process |
//! | block cache | the whole budget | write buffers are charged to it, so that one number limits both |
//! | write buffers | an eighth of the budget, at most 64 MiB each; a quarter together | as TideKV |
//! | index and filters | partitioned, in the cache, with high priority, top level pinned | whole ones of large tables do not fit a small cache and evict everything else |
//! | the same, in `rocksdb:pinned` | whole, in the cache, pinned while tables are open | no lookups for them: faster where they fit |
//! | rows, in `rocksdb:row-cache` and `rocksdb:best-split` | a separate cache, whose share is taken from the block cache | one budget for both |
//! | block cache of a fixed size | minus the metadata of open tables outside of it | as TideKV |
//! | filter | Bloom, 10 bits per key | as TideKV on the last level (above it has 16) |
//! | the same, in `rocksdb:tuned` | none on the last level | for existing keys, as in most loads of the lab: such a filter never saves a read |
//! | read-ahead of scans, in `rocksdb:tuned` | 16 KiB | the bytes of the lab's scans |
//! | blocks | 4 KiB; format 6 | as TideKV; the newest format that all settings support |
//! | background jobs | one flush and as many compactions as TideKV has threads | the default of 2 is one of each |
//! | subcompactions | as many as compactions | large compactions use all threads |
//! | levels | dynamic level sizes | less space and fewer bytes written than static ones |
//! | open files | all | tables stay open, as TideKV's do |
//! | statistics | off where speed is measured without storage; only tickers elsewhere | tickers cost cached reads some percent |
//!
//! It lacks io_uring, which the crate excludes from its build, so `multi_get` reads blocks one
//! after another. Auto-tuned read-ahead of iterators is on, the default.

mod chosen;
mod cold;

use std::path::Path;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::subject::{
    BlockLookups, Caches, Counts, Hold, ROWS_POLICY, Search, Settings, Subject, SubjectRecord,
};
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BlockBasedTablePinningTier, Cache, DB,
    DBCompressionType, DBRawIterator, LruCacheOptions, Options, ReadOptions, Snapshot,
    WaitForCompactOptions, WriteBufferManager, WriteOptions, properties,
};

use self::chosen::Chosen;
use self::cold::ColdGets;

/// The baseline of ratios.
pub const LRU: SubjectRecord = SubjectRecord {
    name: "rocksdb:lru",
    about: "RocksDB configured for one budget: LRU block cache to which write buffers are \
            charged, partitioned index and filters in it, direct I/O, log on and unsynced",
    is_default: true,
    format: "rocksdb",
    uses_kernel_cache: false,
    search: Search::Nothing,
    choices: &[],
    open: |path, settings| open(path, settings, Variant::Lru),
};

/// The other way to keep metadata within the budget: faster where it fits.
pub const PINNED: SubjectRecord = SubjectRecord {
    name: "rocksdb:pinned",
    about: "the same as rocksdb:lru with whole index and filter blocks, pinned in the cache while \
            their tables are open: no lookups for them, and no room for anything else",
    is_default: true,
    format: "rocksdb-whole",
    uses_kernel_cache: false,
    search: Search::Nothing,
    choices: &[],
    open: |path, settings| open(path, settings, Variant::Pinned),
};

/// With the newer cache.
pub const HYPERCLOCK: SubjectRecord = SubjectRecord {
    name: "rocksdb:hyperclock",
    about: "the same with the HyperClock cache with automatic entry size",
    is_default: false,
    open: |path, settings| open(path, settings, Variant::HyperClock),
    ..LRU
};

/// Shows the cost of its gets.
pub const COUNTING: SubjectRecord = SubjectRecord {
    name: "rocksdb:counting",
    about: "the same as rocksdb:lru, with counters of the reads of each get, which make it \
            slower: for counts only",
    is_default: false,
    open: |path, settings| open(path, settings, Variant::Counting),
    ..LRU
};

/// With another write path.
pub const PIPELINED: SubjectRecord = SubjectRecord {
    name: "rocksdb:pipelined",
    about: "the same as rocksdb:lru with pipelined writes: the log of one group while another \
            is in the memtable",
    is_default: false,
    open: |path, settings| open(path, settings, Variant::Pipelined),
    ..LRU
};

/// With two caches in one budget.
pub const ROW_CACHE: SubjectRecord = SubjectRecord {
    name: "rocksdb:row-cache",
    about: "the same as rocksdb:lru, but half of the budget is a row cache, which RocksDB keys \
            by key and table",
    is_default: false,
    open: |path, settings| open(path, settings, Variant::Rows),
    ..LRU
};

/// With two caches and the best fixed boundary. The runner searches for it and reports it.
pub const BEST_SPLIT: SubjectRecord = SubjectRecord {
    name: "rocksdb:best-split",
    about: "the same with the share of rows, in tenths, that has the fewest reads, found by a \
            search beforehand",
    search: Search::Split(Caches::RowsBlocks),
    ..ROW_CACHE
};

/// For a load that is known in advance.
pub const TUNED: SubjectRecord = SubjectRecord {
    name: "rocksdb:tuned",
    about: "the same as rocksdb:lru, tuned for existing keys and a known scan length: no filters \
            on the last level, read-ahead of a hundred small entries",
    is_default: false,
    format: "rocksdb-hits",
    uses_kernel_cache: false,
    open: |path, settings| open(path, settings, Variant::Tuned),
    ..LRU
};

/// With its defaults.
pub const DEFAULT: SubjectRecord = SubjectRecord {
    name: "rocksdb:default",
    about: "RocksDB with its defaults, except for the size of its block cache, a Bloom filter \
            and direct I/O; index and filters are outside of the budget",
    is_default: false,
    format: "rocksdb-default",
    uses_kernel_cache: false,
    search: Search::Nothing,
    choices: &[],
    open: |path, settings| open(path, settings, Variant::Default),
};

/// With its ways to give the space of deleted entries back.
pub const RECLAIMING: SubjectRecord = SubjectRecord {
    name: "rocksdb:reclaiming",
    about: "the same as rocksdb:default, with compactions triggered by half of a window of 128 \
            entries being deletions, and by an age of a minute",
    is_default: false,
    open: |path, settings| open(path, settings, Variant::Reclaiming),
    ..DEFAULT
};

/// With the options that "Exploring Cache Policies in RocksDB" (Gallardo and Friedman) sweeps.
pub const OPTIONS: SubjectRecord = SubjectRecord {
    name: "rocksdb:options",
    about: "RocksDB's defaults, but with its index and filters in a block cache that is the \
            whole budget, and the options of its cache as choices; reads of 4 KiB blocks, Bloom \
            filters",
    is_default: false,
    format: "rocksdb-options",
    uses_kernel_cache: false,
    choices: chosen::CHOICES,
    open: |path, settings| open(path, settings, Variant::Options(Chosen::read(&settings.choices)?)),
    ..LRU
};

/// The column family that everything is in.
const COLUMN: &str = "default";

/// The rows' default share of the budget.
const ROWS_PERCENT: usize = 50;

/// TideKV has no more compaction threads either.
const COMPACTIONS_MAX: usize = 4;

const WRITE_BUFFER_BYTES_MAX: usize = 64 << 20;

/// Entries of the window in which `rocksdb:reclaiming` counts deletions.
const DELETION_WINDOW: usize = 128;

/// The age at which `rocksdb:reclaiming` compacts tables, in seconds.
const PERIODIC_S: u64 = 60;

/// Approximate bytes of the lab's scans, with entries of 116 bytes.
const SCAN_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, PartialEq)]
enum Variant {
    Lru,
    Counting,
    Pinned,
    HyperClock,
    Pipelined,
    Rows,
    Tuned,
    Default,
    Reclaiming,
    Options(Chosen),
}

struct Rocks {
    db: DB,
    options: Options,
    rows: Option<Room>,
    blocks: Room,
    // Created once: the crate would otherwise create them for every call.
    reads: ReadOptions,
    writes: WriteOptions,
    has_statistics: bool,
    cold: Option<ColdGets>,
    /// The read-ahead of a scan from its first block on; 0: RocksDB's default.
    readahead_bytes: usize,
}

/// A cache and its size.
struct Room {
    cache: Cache,
    bytes_max: usize,
}

fn failed(error: rocksdb::Error) -> Failure {
    Failure::new(format!("RocksDB: {error}"))
}

fn open(path: &Path, settings: &Settings, variant: Variant) -> Result<Box<dyn Subject>> {
    let (rows, mut blocks) = rooms(settings, variant)?;
    let mut options = options(settings, variant, &blocks)?;
    if let Some(rows) = &rows {
        options.set_row_cache(&rows.cache);
    }
    if settings.counts_everything {
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    }
    let db = DB::open_cf_with_opts(&options, path, [(COLUMN, options.clone())]).map_err(failed)?;
    let is_as_it_comes =
        matches!(variant, Variant::Default | Variant::Reclaiming | Variant::Options(_));
    if settings.cache_bytes.is_some() && !is_as_it_comes {
        blocks.give_up(readers_bytes(&db)?);
    }
    let (reads, writes) = (ReadOptions::default(), WriteOptions::default());
    let has_statistics = settings.counts_everything;
    let readahead_bytes = if variant == Variant::Tuned { SCAN_BYTES } else { 0 };
    Ok(Box::new(Rocks {
        db,
        options,
        rows,
        blocks,
        reads,
        writes,
        has_statistics,
        cold: (variant == Variant::Counting).then(ColdGets::default),
        readahead_bytes,
    }))
}

/// The metadata of open tables outside the cache.
fn readers_bytes(db: &DB) -> Result<u64> {
    let bytes = db.property_int_value(properties::ESTIMATE_TABLE_READERS_MEM);
    Ok(bytes.map_err(failed)?.unwrap_or(0))
}

/// Bytes of the filters of all tables, which RocksDB reports in a text.
fn filter_bytes(db: &DB) -> Result<Option<u64>> {
    let text = db.property_value(properties::AGGREGATED_TABLE_PROPERTIES).map_err(failed)?;
    let parts = text.as_deref().unwrap_or_default().split(';');
    let part = parts.map(str::trim).find_map(|part| part.strip_prefix("filter block size="));
    Ok(part.and_then(|bytes| bytes.parse().ok()))
}

/// The row cache, if any, and the block cache, in one budget.
fn rooms(settings: &Settings, variant: Variant) -> Result<(Option<Room>, Room)> {
    // A cache of a fixed size does not include the write buffers.
    let bytes_max = settings.cache_bytes.unwrap_or(settings.memory_bytes) as usize;
    if variant == Variant::HyperClock {
        return Ok((None, Room::of_hyperclock(bytes_max, 0)));
    }
    if let Variant::Options(chosen) = variant
        && chosen.is_hyperclock
    {
        return Ok((None, Room::of_hyperclock(bytes_max, chosen.entry_bytes)));
    }
    let percent = if variant == Variant::Rows { percent_of_rows(settings)? } else { 0 };
    let of_rows = bytes_max * percent / 100;
    Ok(((of_rows > 0).then(|| Room::new(of_rows)), Room::new(bytes_max - of_rows)))
}

/// The percentage of the budget for rows.
fn percent_of_rows(settings: &Settings) -> Result<usize> {
    let Some(policy) = &settings.policy else { return Ok(ROWS_PERCENT) };
    let percent = policy.strip_prefix(ROWS_POLICY).and_then(|text| text.parse().ok());
    let percent = percent.filter(|percent| *percent <= 100);
    percent.ok_or_else(|| {
        Failure::usage(format!(
            "{policy:?} is no share of rows: {ROWS_POLICY}0 to {ROWS_POLICY}100"
        ))
    })
}

impl Room {
    /// An LRU cache, with its default number of shards for the size.
    fn new(bytes_max: usize) -> Self {
        let mut options = LruCacheOptions::default();
        options.set_capacity(bytes_max);
        options.set_num_shard_bits(-1);
        Self { cache: Cache::new_lru_cache_opts(&options), bytes_max }
    }

    /// A HyperClock cache with an estimated block size; 0: automatic.
    fn of_hyperclock(bytes_max: usize, entry_bytes: usize) -> Self {
        Self { cache: Cache::new_hyper_clock_cache(bytes_max, entry_bytes), bytes_max }
    }

    fn give_up(&mut self, bytes: u64) {
        self.bytes_max = self.bytes_max.saturating_sub(bytes as usize);
        self.cache.set_capacity(self.bytes_max);
    }
}

fn options(settings: &Settings, variant: Variant, blocks: &Room) -> Result<Options> {
    let cache = &blocks.cache;
    let memory = settings.memory_bytes as usize;
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_block_size(4096);
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_use_direct_reads(!settings.is_buffered);
    options.set_use_direct_io_for_flush_and_compaction(!settings.is_buffered);
    let compression =
        if settings.is_compressed { DBCompressionType::Lz4 } else { DBCompressionType::None };
    options.set_compression_type(compression);
    if let Variant::Options(chosen) = variant {
        chosen.set_tables(&mut table, &mut options, settings.is_filling);
    } else if variant == Variant::Reclaiming {
        options.add_compact_on_deletion_collector_factory(
            DELETION_WINDOW,
            DELETION_WINDOW / 2,
            0.5,
        );
        options.set_periodic_compaction_seconds(PERIODIC_S);
    } else if variant != Variant::Default {
        table.set_format_version(6);
        table.set_cache_index_and_filter_blocks(true);
        if variant == Variant::Pinned {
            table.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
        } else {
            table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
            table.set_partition_filters(true);
            table.set_metadata_block_size(4096);
            table.set_cache_index_and_filter_blocks_with_high_priority(true);
            table.set_pin_top_level_index_and_filter(true);
        }
        let buffers = match settings.cache_bytes {
            Some(_) => WriteBufferManager::new_write_buffer_manager(memory / 4, false),
            None => WriteBufferManager::new_write_buffer_manager_with_cache(
                memory / 4,
                false,
                cache.clone(),
            ),
        };
        options.set_write_buffer_manager(&buffers);
        options.set_write_buffer_size((memory / 8).min(WRITE_BUFFER_BYTES_MAX));
        options.set_max_write_buffer_number(4);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let compactions = cores.min(COMPACTIONS_MAX);
        options.increase_parallelism(compactions as i32 + 1);
        options.set_max_subcompactions(compactions as u32);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_max_open_files(-1);
        options.set_bytes_per_sync(1 << 20);
        options.set_enable_pipelined_write(variant == Variant::Pipelined);
        options.set_optimize_filters_for_hits(variant == Variant::Tuned);
    }
    options.set_block_based_table_factory(&table);
    match variant {
        Variant::Options(chosen) if !chosen.is_hyperclock => {
            chosen.with_lru(options, blocks.bytes_max).map_err(failed)
        }
        _ => Ok(options),
    }
}

struct HeldSnapshot<'a> {
    // Before the snapshot that it reads.
    _iter: DBRawIterator<'a>,
    _snapshot: Snapshot<'a>,
}

impl Subject for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(key, value, &self.writes).map_err(failed)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete_opt(key, &self.writes).map_err(failed)
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        let column = self.db.cf_handle(COLUMN).expect("it was opened with this column");
        self.db.delete_range_cf_opt(&column, start, end, &self.writes).map_err(failed)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let get = || self.db.get_pinned_opt(key, &self.reads);
        let value = match &self.cold {
            None => get(),
            Some(cold) => cold.counted(get),
        };
        let value = value.map_err(failed)?;
        if let Some(value) = &value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], see: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        let column = self.db.cf_handle(COLUMN).expect("it was opened with this column");
        let mut found = 0;
        let values =
            self.db.batched_multi_get_cf_opt(&column, keys.iter().copied(), false, &self.reads);
        for (position, value) in values.into_iter().enumerate() {
            if let Some(value) = value.map_err(failed)? {
                see(position, &value);
                found += 1;
            }
        }
        Ok(found)
    }

    fn scan(&self, start: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut options = ReadOptions::default();
        options.set_readahead_size(self.readahead_bytes);
        let mut iter = self.db.raw_iterator_opt(options);
        iter.seek(start);
        let mut count = 0;
        while count < limit {
            let Some((key, value)) = iter.item() else { break };
            see(key, value);
            count += 1;
            if count < limit {
                iter.next();
            }
        }
        iter.status().map_err(failed)?;
        Ok(count)
    }

    fn hold(&self, start: &[u8]) -> Result<Box<dyn Hold + '_>> {
        let snapshot = self.db.snapshot();
        let mut options = ReadOptions::default();
        options.set_snapshot(&snapshot);
        let mut iter = self.db.raw_iterator_opt(options);
        iter.seek(start);
        iter.status().map_err(failed)?;
        Ok(Box::new(HeldSnapshot { _iter: iter, _snapshot: snapshot }))
    }

    fn merge(&self) -> Result<()> {
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        Ok(())
    }

    fn settle(&self) -> Result<Duration> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db.wait_for_compact(&options).map_err(failed)?;
        Ok(Duration::ZERO)
    }

    fn cache_bytes_taken(&self) -> Result<Option<u64>> {
        // Pinned entries count as used.
        let blocks = self.db.property_int_value(properties::BLOCK_CACHE_USAGE).map_err(failed)?;
        let rows = self.rows.as_ref().map_or(0, |rows| rows.cache.get_usage() as u64);
        Ok(Some(readers_bytes(&self.db)? + blocks.unwrap_or(0) + rows))
    }

    fn counts(&self) -> Result<Counts> {
        let ticker = |ticker| self.has_statistics.then(|| self.options.get_ticker_count(ticker));
        let sum = |one, other| Some(ticker(one)? + ticker(other)?);
        let lookups = |hit, miss| Some(BlockLookups { hits: ticker(hit)?, reads: ticker(miss)? });
        let bytes = self.db.property_int_value(properties::TOTAL_SST_FILES_SIZE);
        Ok(Counts {
            // Including those of compactions: RocksDB does not distinguish them here.
            reads: sum(Ticker::LastLevelReadCount, Ticker::NonLastLevelReadCount),
            read_bytes: sum(Ticker::LastLevelReadBytes, Ticker::NonLastLevelReadBytes),
            background_reads: None,
            background_read_bytes: None,
            table_written_bytes: sum(Ticker::FlushWriteBytes, Ticker::CompactWriteBytes),
            log_bytes: ticker(Ticker::WalFileBytes),
            data_blocks: lookups(Ticker::BlockCacheDataHit, Ticker::BlockCacheDataMiss),
            index_blocks: lookups(Ticker::BlockCacheIndexHit, Ticker::BlockCacheIndexMiss),
            filter_blocks: lookups(Ticker::BlockCacheFilterHit, Ticker::BlockCacheFilterMiss),
            cold: self
                .cold
                .as_ref()
                .and_then(|cold| Some(cold.counts(ticker(Ticker::BlockCacheFilterMiss)?))),
            false_positives: match (
                ticker(Ticker::BloomFilterFullPositive),
                ticker(Ticker::BloomFilterFullTruePositive),
            ) {
                (Some(passed), Some(there)) => Some(passed.saturating_sub(there)),
                _ => None,
            },
            filter_bytes: filter_bytes(&self.db)?,
            cache_hits: ticker(Ticker::BlockCacheHit),
            cache_misses: ticker(Ticker::BlockCacheMiss),
            table_bytes: bytes.map_err(failed)?,
            point_lookups: self.rows.as_ref().and_then(|_| ticker(Ticker::NumberKeysRead)),
            kv_hits: self.rows.as_ref().and_then(|_| ticker(Ticker::RowCacheHit)),
            kv_bytes: self.rows.as_ref().map(|rows| rows.bytes_max as u64),
            block_bytes: Some(self.blocks.bytes_max as u64),
            ..Counts::default()
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
