//! Statistics by subject: a type for each subject, with a field and a sentence for every counter.
//!
//! [`Statistics`] returns them: `db.statistics().memory().memtable_bytes`.

// One list makes the types, the descriptions of the counters and the table in
// `docs/reference/statistics.md`. A test compares it with the counters of an open store.

use super::counters::Statistics;

/// The name of a counter and what it counts.
type Described = (&'static str, &'static str);

macro_rules! groups {
    ($(
        $(#[doc = $about:literal])+
        $method:ident: $group:ident {
            $( $(#[doc = $help:literal])+ $field:ident = $counter:literal, )+
        }
    )+) => {
        $(
            $(#[doc = $about])+
            ///
            /// Counters start at zero when the store is opened, gauges show the current value; fields
            /// that end in `bytes` or `ns` have that unit.
            #[non_exhaustive]
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
            pub struct $group {
                $(
                    $(#[doc = $help])+
                    #[doc = concat!("\n\nThe counter `", $counter, "`.")]
                    pub $field: u64,
                )+
            }
        )+

        impl Statistics {
            $(
                $(#[doc = $about])+
                pub fn $method(&self) -> $group {
                    $group { $( $field: self.counter($counter), )+ }
                }
            )+
        }

        /// All counters of the groups, by group.
        pub(super) const DESCRIBED: &[(&str, &[Described])] = &[
            $( (
                concat!($($about),+),
                &[ $( ($counter, concat!($($help),+)), )+ ],
            ), )+
        ];
    };
}

groups! {
    /// Reads and writes by the application.
    operations: OperationStatistics {
        /// Point lookups; `multi_get` counts each key.
        gets = "store.gets",
        /// Entries written and deleted.
        writes = "store.writes",
        /// Bytes of the keys and values written.
        write_bytes = "store.write_bytes",
        /// Commits to the log; concurrent writers share one (group commit).
        write_groups = "store.write_groups",
        /// Conditional writes that failed because another writer had changed their keys.
        conflicts = "store.conflicts",
        /// Time for which writers were stalled by flushes or compactions.
        stall_ns = "store.stall_ns",
        /// Sequence number of the last write that readers see.
        last_sequence = "store.last_sequence",
    }

    /// The write-ahead log.
    log: LogStatistics {
        /// Bytes written to the log.
        bytes = "log.bytes",
        /// Syncs of the log to stable storage.
        syncs = "log.syncs",
    }

    /// Flushes and compactions.
    background: BackgroundStatistics {
        /// Flushes whose table was written.
        flushes = "flush.count",
        /// Bytes of the tables that flushes wrote.
        flush_bytes = "flush.bytes",
        /// Compactions completed that rewrote tables.
        compactions = "compaction.count",
        /// Tables moved down a level without being rewritten.
        trivial_moves = "compaction.trivial_moves",
        /// Compactions triggered by scans that had read as much as the compaction costs.
        seek_compactions = "compaction.seek_triggered",
        /// Compactions triggered by the space of deleted and expired data.
        space_compactions = "compaction.space_triggered",
        /// Tables dropped unread because all their entries had expired or were deletions.
        expired_tables_dropped = "compaction.expired_tables_dropped",
        /// Tables dropped unread because range deletions covered them.
        covered_tables_dropped = "compaction.covered_tables_dropped",
        /// Bytes of the tables that were dropped unread.
        dropped_bytes = "compaction.dropped_bytes",
        /// Bytes of the tables that compactions read.
        compaction_read_bytes = "compaction.read_bytes",
        /// Bytes of the tables that compactions wrote.
        compaction_write_bytes = "compaction.write_bytes",
        /// Overwritten and deleted entries that flushes and compactions dropped.
        entries_dropped = "compaction.entries_dropped",
        /// Expired entries that flushes and compactions dropped.
        entries_expired = "compaction.entries_expired",
        /// Flushes, compactions and checks for missing files that failed.
        errors = "background.errors",
        /// Writes, flushes and log creations that were retried because the disk was full.
        full_disk_retries = "background.full_disk_retries",
    }

    /// Entries that a warm start restored.
    warm_start: WarmStartStatistics {
        /// Blocks read back into the block cache.
        blocks = "warm_start.blocks",
        /// Values restored in the value cache.
        values = "warm_start.values",
        /// Pointers restored in the pointer cache.
        pointers = "warm_start.pointers",
    }

    /// Memory, as counted toward the budget.
    memory: MemoryStatistics {
        /// The memory budget, or the store's part of one that it shares.
        budget_bytes = "memory.budget_bytes",
        /// Memory of memtables.
        memtable_bytes = "memory.memtable_bytes",
        /// Memory of keyspaces, of the metadata of open tables, and of filter repairs.
        metadata_bytes = "memory.metadata_bytes",
        /// Memory that the program uses itself (`Db::set_reserved_memory_bytes`).
        reserved_bytes = "memory.reserved_bytes",
        /// Memory of all caches.
        cache_bytes = "memory.cache_bytes",
        /// Memory that the caches may use now.
        cache_bytes_max = "memory.cache_bytes_max",
    }

    /// Reads of storage. A read may cover several adjacent blocks.
    storage: StorageStatistics {
        /// Reads by user operations.
        reads = "io.reads",
        /// Bytes read by user operations.
        read_bytes = "io.read_bytes",
        /// Bytes read between two requested blocks and discarded.
        gap_bytes = "io.gap_bytes",
        /// Reads that failed.
        read_failures = "io.read_failures",
        /// Blocks read ahead of scans.
        read_ahead_blocks = "io.read_ahead_blocks",
        /// Bytes of the reads in flight now.
        in_flight_bytes = "io.in_flight_bytes",
        /// Reads of compactions.
        compaction_reads = "io.compaction_reads",
        /// Bytes read by compactions.
        compaction_read_bytes = "io.compaction_read_bytes",
        /// Readers that waited for another reader's read of the same block.
        single_flight_waits = "io.single_flight_waits",
    }

    /// The block cache.
    block_cache: BlockCacheStatistics {
        /// Data blocks found.
        data_hits = "cache.data.hits",
        /// Data blocks not found.
        data_misses = "cache.data.misses",
        /// Data blocks inserted.
        data_inserts = "cache.data.inserts",
        /// Data blocks evicted.
        data_evictions = "cache.data.evictions",
        /// Index blocks found.
        index_hits = "cache.index.hits",
        /// Index blocks not found.
        index_misses = "cache.index.misses",
        /// Index blocks inserted.
        index_inserts = "cache.index.inserts",
        /// Index blocks evicted.
        index_evictions = "cache.index.evictions",
        /// Filters found.
        filter_hits = "cache.filter.hits",
        /// Filters not found.
        filter_misses = "cache.filter.misses",
        /// Filters inserted.
        filter_inserts = "cache.filter.inserts",
        /// Filters evicted.
        filter_evictions = "cache.filter.evictions",
        /// Filters not in memory that lookups skipped because reading them costs more than it saves.
        filter_skips = "cache.filter.skips",
        /// Blocks inserted by compactions in place of the hot blocks that they rewrote.
        compaction_prefills = "cache.block.compaction_prefills",
        /// Memory in use.
        bytes = "cache.block.bytes",
        /// Memory target; the cache policy adjusts it.
        bytes_max = "cache.block.bytes_max",
        /// Storage reads saved by hits.
        saved_reads = "cache.block.saved_reads",
        /// Storage reads that one more ghost window of memory would also have saved.
        ghost_saved_reads = "cache.block.ghost_saved_reads",
    }

    /// The caches of values (KV) and of pointers to values (KP).
    point_caches: PointCacheStatistics {
        /// Lookups answered by a cached value.
        kv_hits = "cache.kv.hits",
        /// Values in the cache.
        kv_entries = "cache.kv.entries",
        /// Memory of values in use.
        kv_bytes = "cache.kv.bytes",
        /// Memory target of values; the cache policy adjusts it.
        kv_bytes_max = "cache.kv.bytes_max",
        /// Storage reads saved by cached values.
        kv_saved_reads = "cache.kv.saved_reads",
        /// Storage reads that values would also have saved with one more ghost window of memory.
        kv_ghost_saved_reads = "cache.kv.ghost_saved_reads",
        /// Lookups led to their block by a cached pointer.
        kp_hits = "cache.kp.hits",
        /// Cached pointers that did not lead to their entry.
        kp_errors = "cache.kp.errors",
        /// Cached pointers updated because a compaction moved their entry.
        kp_relocations = "cache.kp.relocations",
        /// Pointers in the cache.
        kp_entries = "cache.kp.entries",
        /// Memory of pointers in use.
        kp_bytes = "cache.kp.bytes",
        /// Memory target of pointers; the cache policy adjusts it.
        kp_bytes_max = "cache.kp.bytes_max",
        /// Storage reads saved by cached pointers.
        kp_saved_reads = "cache.kp.saved_reads",
        /// Storage reads that pointers would also have saved with one more ghost window of memory.
        kp_ghost_saved_reads = "cache.kp.ghost_saved_reads",
        /// Lookups that found neither a cached value nor a cached pointer.
        misses = "cache.point.misses",
        /// Values and pointers not inserted because a newer version existed.
        stale_inserts = "cache.point.stale_inserts",
    }

    /// The budget of all caches together, and the memory of the ghost caches.
    caches: CacheBudgetStatistics {
        /// Memory budget of the block, value and pointer caches together.
        bytes_max = "cache.bytes_max",
        /// Memory of ghost caches and frequency sketches.
        ghost_bytes = "cache.ghost_bytes",
        /// Size of the ghost window: the additional memory that a ghost cache simulates; 0 if nothing
        /// is measured.
        ghost_window_bytes = "cache.ghost_window_bytes",
    }

    /// The files of tables.
    files: FileStatistics {
        /// Files that are open.
        open = "files.open",
        /// How many times a file was opened.
        opened = "files.opened",
    }

    /// Filters of tables, and their repairs.
    filters: FilterStatistics {
        /// Size of the filters of all tables, in memory or not.
        bytes = "filter.bytes",
        /// Memory of filter repairs.
        repair_bytes = "filter.repair_bytes",
        /// Lookups that passed the filter of a table without the key.
        false_positives = "filter.false_positives",
        /// Filter buckets repaired so that a false-positive key no longer passes.
        repairs = "filter.repairs",
        /// Storage reads of filter repairs.
        repair_reads = "filter.repair_reads",
        /// Bytes read by filter repairs.
        repair_read_bytes = "filter.repair_read_bytes",
        /// Repairs that failed.
        repair_failures = "filter.repair_failures",
        /// Repairs that are impossible because a stored key has the same fingerprint.
        repairs_impossible = "filter.repairs_impossible",
        /// Repairs dropped because their queue was full.
        repairs_dropped = "filter.repairs_dropped",
    }

    /// Point lookups that read storage. A block that several lookups wait for is read once and
    /// counted for each.
    cold_lookups: ColdLookupStatistics {
        /// Lookups that read storage.
        count = "cold_lookups.count",
        /// Blocks that they waited for.
        reads = "cold_lookups.reads",
        /// Of these blocks, filters.
        filter_reads = "cold_lookups.filter_reads",
        /// Of these blocks, blocks of tables without the key.
        wasted_reads = "cold_lookups.wasted_reads",
        /// Lookups that read storage and found nothing.
        not_found_count = "cold_lookups.not_found.count",
        /// Blocks that these lookups waited for.
        not_found_reads = "cold_lookups.not_found.reads",
        /// Lookups with one read.
        with_1_read = "cold_lookups.by_reads.1",
        /// Lookups with two reads.
        with_2_reads = "cold_lookups.by_reads.2",
        /// Lookups with three reads.
        with_3_reads = "cold_lookups.by_reads.3",
        /// Lookups with four reads.
        with_4_reads = "cold_lookups.by_reads.4",
        /// Lookups with five reads.
        with_5_reads = "cold_lookups.by_reads.5",
        /// Lookups with six reads.
        with_6_reads = "cold_lookups.by_reads.6",
        /// Lookups with seven reads.
        with_7_reads = "cold_lookups.by_reads.7",
        /// Lookups with eight reads or more.
        with_8_or_more_reads = "cold_lookups.by_reads.8_or_more",
    }

    /// The secondary block cache, if the environment has one.
    secondary_cache: SecondaryCacheStatistics {
        /// Blocks found.
        hits = "secondary_cache.hits",
        /// Blocks not found.
        misses = "secondary_cache.misses",
        /// Blocks discarded because they were not the requested ones.
        mismatches = "secondary_cache.mismatches",
        /// Blocks inserted after a storage read.
        inserts = "secondary_cache.inserts",
    }
}

/// A level of the tree, of all keyspaces together.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LevelStatistics {
    /// Tables at the level. The counter `levelN.tables`.
    pub tables: u64,
    /// Bytes of these tables. The counter `levelN.bytes`.
    pub bytes: u64,
    /// Point lookups that read storage and ended at the level. The counter
    /// `cold_lookups.levelN.count`.
    pub cold_lookups: u64,
    /// Blocks that these lookups waited for. The counter `cold_lookups.levelN.reads`.
    pub cold_lookup_reads: u64,
}

/// The counters of each level, with `N` for its number.
pub(super) const DESCRIBED_BY_LEVEL: [Described; 4] = [
    ("levelN.tables", "Tables at level N."),
    ("levelN.bytes", "Bytes of these tables."),
    ("cold_lookups.levelN.count", "Point lookups that read storage and ended at level N."),
    ("cold_lookups.levelN.reads", "Blocks that these lookups waited for."),
];

impl Statistics {
    /// The levels of the tree, from level 0 on.
    pub fn levels(&self) -> Vec<LevelStatistics> {
        let level = |n: usize| LevelStatistics {
            tables: self.counter(&format!("level{n}.tables")),
            bytes: self.counter(&format!("level{n}.bytes")),
            cold_lookups: self.counter(&format!("cold_lookups.level{n}.count")),
            cold_lookup_reads: self.counter(&format!("cold_lookups.level{n}.reads")),
        };
        (0..crate::format::LEVELS).map(level).collect()
    }

    /// What the counter or gauge `name` counts, in a sentence.
    ///
    /// ```
    /// use tidekv::Statistics;
    ///
    /// assert_eq!(Statistics::describe("store.writes"), Some("Entries written and deleted."));
    /// assert_eq!(Statistics::describe("unknown"), None);
    /// ```
    pub fn describe(name: &str) -> Option<&'static str> {
        let digits = |c: char| c.is_ascii_digit();
        let general = match name.split_once("level") {
            Some((before, after)) => format!("{before}levelN{}", after.trim_start_matches(digits)),
            None => name.to_owned(),
        };
        let groups = DESCRIBED.iter().flat_map(|(_, counters)| counters.iter());
        let mut all = groups.chain(&DESCRIBED_BY_LEVEL);
        all.find(|(counter, _)| *counter == general).map(|(_, help)| help.trim_start())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the document is in the source tree")]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use super::*;
    use crate::api::db::Db;
    use crate::options::{Environment, Options};

    const DOCUMENT: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/statistics.md");
    const BEGIN: &str = "<!-- Generated by the tests of crates/store/src/stats/groups.rs. -->\n";

    fn statistics() -> Statistics {
        let disk = std::sync::Arc::new(tidekv_io::MemoryStorage::new());
        let environment = Environment::default().storage(disk);
        Db::open("data", Options::new().environment(environment)).unwrap().statistics()
    }

    fn described() -> impl Iterator<Item = &'static Described> {
        DESCRIBED.iter().flat_map(|(_, counters)| counters.iter())
    }

    #[test]
    fn every_counter_is_in_one_group() {
        let statistics = statistics();
        let of_store: BTreeSet<&str> = statistics.counters.iter().map(|(name, _)| *name).collect();
        assert_eq!(of_store.len(), statistics.counters.len(), "a name occurs twice");
        let of_levels = |name: &&str| name.contains("level") || name.contains("cold_lookups.level");
        let in_groups: BTreeSet<&str> = described().map(|(name, _)| *name).collect();
        assert_eq!(in_groups.len(), described().count(), "a counter is in two groups");
        let others: BTreeSet<&str> = of_store.iter().filter(|n| !of_levels(n)).copied().collect();
        assert_eq!(others, in_groups);
        for (name, _) in &statistics.counters {
            let help = Statistics::describe(name).unwrap_or_else(|| panic!("{name}: no sentence"));
            assert!(help.ends_with('.') && help.len() > 10, "{name}: {help}");
        }
        let of_level = of_store.iter().filter(|n| of_levels(n)).count();
        assert_eq!(of_level, statistics.levels().len() * DESCRIBED_BY_LEVEL.len());
    }

    #[test]
    fn documentation_lists_every_counter() {
        let mut table = String::from(BEGIN);
        let section = |table: &mut String, about: &str, counters: &[Described]| {
            let _ =
                write!(table, "\n{}\n\n| Counter | What it counts |\n|---|---|\n", about.trim());
            for (name, help) in counters {
                let _ = writeln!(table, "| `{name}` | {} |", help.trim());
            }
        };
        for (about, counters) in DESCRIBED {
            section(&mut table, about, counters);
        }
        section(&mut table, "The levels of the tree, N from 0 to 6.", &DESCRIBED_BY_LEVEL);
        let text = std::fs::read_to_string(DOCUMENT).unwrap();
        let (head, found) = text.split_once(BEGIN).expect("the beginning of the table");
        let found = format!("{BEGIN}{found}");
        if found != table && std::env::var_os("TIDEKV_BLESS").is_some() {
            std::fs::write(DOCUMENT, format!("{head}{table}")).unwrap();
            return;
        }
        assert!(found == table, "{DOCUMENT} is out of date: run this test with TIDEKV_BLESS=1");
    }
}
