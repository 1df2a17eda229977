//! The memory settings of an open store, and its statistics.

use tidekv_cache::CachePolicy;

use crate::engine::Engine;
use crate::format::LEVELS;
use crate::stats::Statistics;

impl Engine {
    #[cfg(any(test, feature = "research"))]
    pub(crate) fn set_cache_bytes_max(&self, bytes: u64) {
        self.memory.set_cache_bytes_max(bytes);
        self.after_install();
    }

    pub(crate) fn set_cache_policy(&self, policy: CachePolicy) {
        self.memory.caches().set_policy(policy);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let stats = &self.stats;
        let mut counters = vec![
            ("store.gets", stats.gets.get()),
            ("store.writes", stats.writes.get()),
            ("store.write_bytes", stats.write_bytes.get()),
            ("store.write_groups", stats.write_groups.get()),
            ("store.conflicts", stats.conflicts.get()),
            ("store.stall_ns", stats.stall_ns.get()),
            ("store.last_sequence", self.snapshots.visible()),
            ("log.bytes", stats.log_bytes.get()),
            ("log.syncs", stats.log_syncs.get()),
            ("flush.count", stats.flushes.get()),
            ("flush.bytes", stats.flush_bytes.get()),
            ("compaction.count", stats.compactions.get()),
            ("compaction.trivial_moves", stats.compaction_moves.get()),
            ("compaction.seek_triggered", stats.seek_compactions.get()),
            ("compaction.space_triggered", stats.space_compactions.get()),
            ("compaction.expired_tables_dropped", stats.expired_tables_dropped.get()),
            ("compaction.covered_tables_dropped", stats.covered_tables_dropped.get()),
            ("compaction.dropped_bytes", stats.dropped_bytes.get()),
            ("compaction.read_bytes", stats.compaction_read_bytes.get()),
            ("compaction.write_bytes", stats.compaction_write_bytes.get()),
            ("compaction.entries_dropped", stats.entries_dropped.get()),
            ("compaction.entries_expired", stats.entries_expired.get()),
            ("background.errors", stats.background_errors.get()),
            ("background.full_disk_retries", self.logs.full_disk_retries()),
            ("warm_start.blocks", stats.warm_blocks.get()),
            ("warm_start.values", stats.warm_values.get()),
            ("warm_start.pointers", stats.warm_pointers.get()),
            ("memory.budget_bytes", self.memory.total_bytes()),
            ("memory.memtable_bytes", self.trees.memtables_bytes()),
            ("memory.metadata_bytes", self.memory.metadata_bytes() as u64),
            ("memory.reserved_bytes", self.memory.reserved_bytes()),
            ("memory.cache_bytes", self.memory.caches().charged_bytes() as u64),
            ("memory.cache_bytes_max", self.memory.caches().budget() as u64),
        ];
        let files = self.trees.files();
        counters
            .extend([("files.open", files.open_files() as u64), ("files.opened", files.opened())]);
        counters.extend(self.reads.counters());
        let (mut filters, mut repairs) = (0, self.reads.repairs.charge() as u64);
        for table in self.trees.open_tables() {
            filters += table.filter_bytes();
            repairs += table.filter_repairs().charge() as u64;
        }
        counters.extend([("filter.bytes", filters), ("filter.repair_bytes", repairs)]);
        for (level, (tables, bytes)) in LEVEL_NAMES.iter().enumerate() {
            let versions: Vec<_> = self.trees.all().iter().map(|tree| tree.version()).collect();
            counters.push((tables, versions.iter().map(|v| v.level(level).len() as u64).sum()));
            counters.push((bytes, versions.iter().map(|v| v.level_bytes(level)).sum()));
        }
        let histograms = vec![
            ("get", stats.get_ns.counts()),
            ("write", stats.write_ns.counts()),
            ("flush", stats.flush_ns.counts()),
            ("compaction", stats.compaction_ns.counts()),
        ];
        let latencies = histograms.iter().map(|(name, counts)| (*name, counts.summary())).collect();
        Statistics { counters, latencies, histograms }
    }
}

const LEVEL_NAMES: [(&str, &str); LEVELS] = [
    ("level0.tables", "level0.bytes"),
    ("level1.tables", "level1.bytes"),
    ("level2.tables", "level2.bytes"),
    ("level3.tables", "level3.bytes"),
    ("level4.tables", "level4.bytes"),
    ("level5.tables", "level5.bytes"),
    ("level6.tables", "level6.bytes"),
];
