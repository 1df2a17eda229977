//! TideKV as a subject: in this process, through its public API.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidekv::{
    CachePolicy, Compression, Db, FilterKind, Iter, Keyspace, KeyspaceOptions, Options, Snapshot,
    Statistics,
};
use tidekv_cache::CachePolicy as Research;
use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};
use crate::subject::{
    BlockLookups, Caches, Choosable, ColdEnd, ColdLookups, Counts, Hold, Search, Settings, Subject,
    SubjectRecord,
};

/// How caches share their memory.
const POLICY: Choosable = Choosable {
    name: "policy",
    values: "adaptive, ac-key, block-only and the other cache policies",
    usual: "adaptive",
    tries: &["adaptive", "block-only", "ac-key"],
    is_of_tables: |_| false,
    to_set: |value| format!("cache_policy = {value:?}, of the store's options"),
};

/// The filter type, and bits per key of the last level.
const FILTER: Choosable = Choosable {
    name: "filter",
    values: "bloom-N, cuckoo-N: with N bits per key",
    usual: "bloom-10",
    tries: &["bloom-10", "cuckoo-10"],
    is_of_tables: |_| true,
    to_set: |value| {
        let (kind, bits) = value.split_once('-').unwrap_or((value, "10"));
        let kind = if kind == "cuckoo" { "Cuckoo" } else { "Bloom" };
        format!(
            "filter_kind = FilterKind::{kind}, filter_bits_per_key = {bits}, of KeyspaceOptions"
        )
    },
};

/// TideKV with its defaults.
pub const TIDEKV: SubjectRecord = SubjectRecord {
    name: "tidekv:tide",
    about: "TideKV with its defaults: one budget for memtables (at most a quarter), metadata, \
            pending reads and caches, shared by values, pointers and blocks; direct I/O for \
            tables, log on and unsynced",
    is_default: true,
    format: "tidekv",
    uses_kernel_cache: false,
    search: Search::Nothing,
    choices: &[POLICY, FILTER],
    open: |path, settings| open(path, settings, CachePolicy::Adaptive),
};

/// With a block cache only.
pub const TIDEKV_BLOCK_LRU: SubjectRecord = SubjectRecord {
    name: "tidekv:block-lru",
    about: "the same with only a block cache, with LRU eviction",
    is_default: false,
    open: |path, settings| open(path, settings, CachePolicy::BlockOnly),
    ..TIDEKV
};

/// With a value cache only: AC-Key's pure KV.
pub const TIDEKV_KV_ONLY: SubjectRecord = SubjectRecord {
    name: "tidekv:kv-only",
    about: "the same with only a value cache",
    is_default: false,
    open: |path, settings| open(path, settings, CachePolicy::Fixed { kv: 100, kp: 0 }),
    ..TIDEKV
};

/// With a pointer cache only: AC-Key's pure KP.
pub const TIDEKV_KP_ONLY: SubjectRecord = SubjectRecord {
    name: "tidekv:kp-only",
    about: "the same with only a pointer cache",
    is_default: false,
    open: |path, settings| open(path, settings, CachePolicy::Fixed { kv: 0, kp: 100 }),
    ..TIDEKV
};

/// With a block cache only, and admission to it.
pub const TIDEKV_BLOCK_ADMISSION: SubjectRecord = SubjectRecord {
    name: "tidekv:block-admission",
    about: "the same with only a block cache, with admission by access frequency",
    is_default: false,
    open: |path, settings| open(path, settings, CachePolicy::Fixed { kv: 0, kp: 0 }),
    ..TIDEKV
};

/// With AC-Key's caches and boundaries.
pub const TIDEKV_HAC: SubjectRecord = SubjectRecord {
    name: "tidekv:hac",
    about: "the same with the caches of values, pointers and blocks, and the moving boundaries, \
            of AC-Key as published",
    is_default: false,
    open: |path, settings| open(path, settings, CachePolicy::AcKey),
    ..TIDEKV
};

/// With AC-Key's caches and the best fixed boundaries: the paper's `offline`.
pub const TIDEKV_OFFLINE: SubjectRecord = SubjectRecord {
    name: "tidekv:offline",
    about: "the same with the caches of values, pointers and blocks of AC-Key as published, and \
            fixed boundaries, in tenths, with the fewest reads, found by a search beforehand",
    is_default: false,
    search: Search::Split(Caches::AcKeys),
    open: |path, settings| {
        open(path, settings, CachePolicy::Research(Research::AcKeyFixed { kv: 30, kp: 10 }))
    },
    ..TIDEKV
};

/// With a block cache only, evicting by CLOCK.
pub const TIDEKV_BLOCK_CLOCK: SubjectRecord = SubjectRecord {
    name: "tidekv:block-clock",
    about: "the same with only a block cache, with CLOCK eviction",
    is_default: false,
    open: |path, settings| open(path, settings, CachePolicy::BlockClock),
    ..TIDEKV
};

/// With a block cache only, evicting by S3-FIFO.
pub const TIDEKV_BLOCK_S3_FIFO: SubjectRecord = SubjectRecord {
    name: "tidekv:block-s3-fifo",
    about: "the same with only a block cache, with S3-FIFO eviction",
    is_default: false,
    open: |path, settings| open(path, settings, CachePolicy::BlockS3Fifo),
    ..TIDEKV
};

/// With the best fixed boundaries. The runner searches for them and reports them.
pub const TIDEKV_BEST_SPLIT: SubjectRecord = SubjectRecord {
    name: "tidekv:best-split",
    about: "the same with fixed boundaries, in tenths, with the fewest reads, found by a search \
            beforehand",
    is_default: false,
    search: Search::Split(Caches::ValuesPointersBlocks),
    open: |path, settings| open(path, settings, CachePolicy::Fixed { kv: 30, kp: 0 }),
    ..TIDEKV
};

/// With the best fixed boundaries of each phase.
pub const TIDEKV_BEST_AT_SWITCH: SubjectRecord = SubjectRecord {
    name: "tidekv:best-at-switch",
    about: "the same with the best fixed boundaries of each phase, in tenths, with the fewest \
            reads in it, found by a search beforehand",
    is_default: false,
    search: Search::SplitOfPhase(Caches::ValuesPointersBlocks),
    ..TIDEKV_BEST_SPLIT
};

/// The store is idle after this time without changes: half of it passes before an idle compaction
/// of level 0.
const IDLE: Duration = Duration::from_millis(1000);

/// The polling period.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The file of the store's hot list.
const HOT_LIST: &str = "HOT";

struct TideKv {
    db: Db,
    keyspace: Keyspace,
    hot_list: PathBuf,
    clock: SystemClock,
}

fn open(
    directory: &Path,
    settings: &Settings,
    cache_policy: CachePolicy,
) -> Result<Box<dyn Subject>> {
    let chosen = settings.policy.as_deref().or(settings.choices.get(POLICY.name).map(|p| &**p));
    let cache_policy = chosen.map_or(Ok(cache_policy), policy_of)?;
    let memory_bytes = Some(settings.memory_bytes);
    let cache_bytes_max = settings.cache_bytes.unwrap_or(u64::MAX);
    let warm_start = settings.warm_start;
    let options = {
        let mut options = Options::default()
            .cache_policy(cache_policy)
            .warm_start(warm_start)
            .direct_io(!settings.is_buffered)
            // Caches are compared on one tree, which does not change: no seek compactions.
            .with_research(|research| {
                research.cache_bytes_max = cache_bytes_max;
                research.seek_compactions = settings.cache_bytes.is_none();
            });
        options.memory_bytes = memory_bytes;
        options
    };
    let db = Db::open(directory, options)?;
    let compression = if settings.is_compressed { Compression::Lz4 } else { Compression::None };
    let (filter_kind, filter_bits_per_key) = filter_of(settings)?;
    let options = KeyspaceOptions::default()
        .compression(compression)
        .compression_last(compression)
        .filter_kind(filter_kind)
        .filter_bits_per_key(filter_bits_per_key);
    let keyspace = db.keyspace_with("lab", options)?;
    if let Some(bytes) = settings.cache_bytes {
        // Metadata of open tables counts as ours, as other engines keep it in their caches.
        let metadata = db.statistics().counter("memory.metadata_bytes");
        db.set_cache_bytes_max(bytes.saturating_sub(metadata));
    }
    let hot_list = directory.join(HOT_LIST);
    Ok(Box::new(TideKv { db, keyspace, hot_list, clock: SystemClock::new() }))
}

/// The policy with this name.
fn policy_of(text: &str) -> Result<CachePolicy> {
    text.parse().map_err(|e| Failure::usage(format!("{e}")))
}

/// The chosen filter.
fn filter_of(settings: &Settings) -> Result<(FilterKind, u8)> {
    let chosen = settings.choices.get(FILTER.name).map_or(FILTER.usual, String::as_str);
    let unknown = || {
        let Choosable { name, values, .. } = FILTER;
        Failure::usage(format!("{name} cannot be {chosen:?}: {values}"))
    };
    let (kind, bits) = chosen.split_once('-').ok_or_else(unknown)?;
    let kind = match kind {
        "bloom" => FilterKind::Bloom,
        "cuckoo" => FilterKind::Cuckoo,
        _ => return Err(unknown()),
    };
    Ok((kind, bits.parse().map_err(|_| unknown())?))
}

/// The size of a file, if it exists.
#[expect(clippy::disallowed_methods, reason = "looks at a store from outside")]
fn bytes_of(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|metadata| metadata.len())
}

fn cold_lookups(statistics: &Statistics) -> ColdLookups {
    let of_end = |end: usize| {
        let place = match end + 1 {
            ColdLookups::ENDS => "not_found".to_owned(),
            _ => format!("level{end}"),
        };
        let counter = |what: &str| statistics.counter(&format!("cold_lookups.{place}.{what}"));
        ColdEnd { lookups: counter("count"), reads: counter("reads") }
    };
    let of_reads = |reads: usize| match reads {
        ColdLookups::READS_MAX => {
            statistics.counter(&format!("cold_lookups.by_reads.{reads}_or_more"))
        }
        reads => statistics.counter(&format!("cold_lookups.by_reads.{reads}")),
    };
    let ends: [ColdEnd; ColdLookups::ENDS] = std::array::from_fn(of_end);
    ColdLookups {
        lookups_of: std::array::from_fn(|at| of_reads(at + 1)),
        reads: ends.iter().map(|end| end.reads).sum(),
        filter_reads: statistics.counter("cold_lookups.filter_reads"),
        reads_in_vain: Some(statistics.counter("cold_lookups.wasted_reads")),
        ends: Some(ends),
    }
}

/// Counters that change during background work.
fn background_work(statistics: &Statistics) -> [u64; 6] {
    [
        "flush.count",
        "flush.bytes",
        "compaction.count",
        "compaction.trivial_moves",
        "compaction.write_bytes",
        "io.compaction_reads",
    ]
    .map(|name| statistics.counter(name))
}

thread_local! {
    /// The buffer for a thread's values.
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct HeldSnapshot {
    _snapshot: Snapshot,
    _iter: Iter,
}

impl Subject for TideKv {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.put(key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.keyspace.delete(key)?)
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        Ok(self.keyspace.delete_range(start, end)?)
    }

    fn put_with_ttl(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<()> {
        Ok(self.keyspace.put_with_ttl(key, value, ttl)?)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        VALUE.with_borrow_mut(|value| {
            let is_there = self.keyspace.get_into(key, value)?;
            if is_there {
                see(value);
            }
            Ok(is_there)
        })
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
            let Some(entry) = entries.next_ref()? else { break };
            see(entry.key, entry.value);
            count += 1;
        }
        Ok(count)
    }

    fn hold(&self, start: &[u8]) -> Result<Box<dyn Hold + '_>> {
        let snapshot = self.db.snapshot();
        let mut iter = snapshot.range(&self.keyspace, start..);
        iter.next().transpose()?;
        Ok(Box::new(HeldSnapshot { _snapshot: snapshot, _iter: iter }))
    }

    fn merge(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.compact()?)
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

    fn turn_to(&self, policy: &str) -> Result<()> {
        self.db.set_cache_policy(policy_of(policy)?);
        Ok(())
    }

    fn cache_bytes_taken(&self) -> Result<Option<u64>> {
        let statistics = self.db.statistics();
        let metadata = statistics.counter("memory.metadata_bytes");
        Ok(Some(statistics.counter("memory.cache_bytes") + metadata))
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
        let lookups = |kind: &str| BlockLookups {
            hits: counter(&format!("cache.{kind}.hits")),
            reads: counter(&format!("cache.{kind}.misses")),
        };
        Ok(Counts {
            reads: Some(counter("io.reads") + counter("filter.repair_reads")),
            cold: Some(cold_lookups(&statistics)),
            false_positives: Some(counter("filter.false_positives")),
            repair_reads: Some(counter("filter.repair_reads")),
            filter_bytes: Some(counter("filter.bytes") + counter("filter.repair_bytes")),
            read_bytes: Some(counter("io.read_bytes") + counter("filter.repair_read_bytes")),
            background_reads: Some(counter("io.compaction_reads")),
            background_read_bytes: Some(counter("io.compaction_read_bytes")),
            table_written_bytes: Some(counter("flush.bytes") + counter("compaction.write_bytes")),
            log_bytes: Some(counter("log.bytes")),
            data_blocks: Some(lookups("data")),
            index_blocks: Some(lookups("index")),
            filter_blocks: Some(lookups("filter")),
            cache_hits: Some(of_cache("hits")),
            cache_misses: Some(of_cache("misses")),
            point_lookups: Some(
                counter("cache.kv.hits") + counter("cache.kp.hits") + counter("cache.point.misses"),
            ),
            kv_hits: Some(counter("cache.kv.hits")),
            kp_hits: Some(counter("cache.kp.hits")),
            kv_bytes: Some(counter("cache.kv.bytes_max")),
            kp_bytes: Some(counter("cache.kp.bytes_max")),
            block_bytes: Some(counter("cache.block.bytes_max")),
            table_bytes: Some(self.keyspace.storage_bytes()),
            hot_list_bytes: bytes_of(&self.hot_list),
            ..Counts::default()
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::conformance;

    #[test]
    fn tidekv_behaves_as_a_subject() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings { is_compressed: true, ..Settings::usual(8 << 20) };
        conformance::check(|| (TIDEKV_BLOCK_LRU.open)(directory.path(), &settings).unwrap());
    }
}
