//! The fields of a store's samples: one flat list that produces `/api/stats`, the page's figures and
//! a table in `docs/reference/http.md`.

use tidekv_observe::history::Origin::{P50, P99, Rate, State};
use tidekv_observe::history::{Field, History, field};

/// The names of the command latencies.
pub(crate) const READ: &str = "command.read";
pub(crate) const WRITE: &str = "command.write";

/// The fields of each sample.
#[rustfmt::skip]
pub(crate) static FIELDS: [Field; 41] = [
    field("operations", "1/s", "commands received from clients", Rate(&["server.commands"])),
    field("reads", "1/s", "storage reads of operations", Rate(&["io.reads"])),
    field("read_bytes", "B/s", "bytes of these reads", Rate(&["io.read_bytes"])),
    field("writes", "1/s", "entries written and deleted", Rate(&["store.writes"])),
    field("compaction_bytes", "B/s", "bytes read and written by compactions", Rate(&["compaction.read_bytes", "compaction.write_bytes"])),
    field("cache_bytes_max", "B", "memory budget of all caches together", State("cache.bytes_max")),
    field("ghost_bytes", "B", "memory of ghost caches and frequency sketches, part of that budget", State("cache.ghost_bytes")),
    field("ghost_window_bytes", "B", "additional memory that a ghost cache simulates", State("cache.ghost_window_bytes")),
    field("kv_bytes", "B", "memory of the value cache (KV)", State("cache.kv.bytes")),
    field("kp_bytes", "B", "memory of the pointer cache (KP)", State("cache.kp.bytes")),
    field("block_bytes", "B", "memory of the block cache", State("cache.block.bytes")),
    field("kv_bytes_max", "B", "memory target of the value cache", State("cache.kv.bytes_max")),
    field("kp_bytes_max", "B", "memory target of the pointer cache", State("cache.kp.bytes_max")),
    field("block_bytes_max", "B", "memory target of the block cache", State("cache.block.bytes_max")),
    field("kv_hits", "1/s", "lookups answered by a cached value", Rate(&["cache.kv.hits"])),
    field("kp_hits", "1/s", "lookups led to their block by a cached pointer", Rate(&["cache.kp.hits"])),
    field("point_misses", "1/s", "lookups that found neither value nor pointer", Rate(&["cache.point.misses"])),
    field("data_hits", "1/s", "data blocks: block cache hits", Rate(&["cache.data.hits"])),
    field("data_misses", "1/s", "data blocks: block cache misses", Rate(&["cache.data.misses"])),
    field("metadata_hits", "1/s", "index and filter blocks: block cache hits", Rate(&["cache.index.hits", "cache.filter.hits"])),
    field("metadata_misses", "1/s", "index and filter blocks: block cache misses", Rate(&["cache.index.misses", "cache.filter.misses"])),
    field("false_positives", "1/s", "lookups that passed the filter of a table without the key", Rate(&["filter.false_positives"])),
    field("repairs", "1/s", "filter buckets repaired so that a false-positive key no longer passes", Rate(&["filter.repairs"])),
    field("repair_reads", "1/s", "storage reads of filter repairs", Rate(&["filter.repair_reads"])),
    field("cold_lookups", "1/s", "point lookups that read storage", Rate(&["cold_lookups.count"])),
    field("cold_reads", "1/s", "blocks that these lookups waited for", Rate(&["cold_lookups.reads"])),
    field("cold_filter_reads", "1/s", "of these blocks, filters", Rate(&["cold_lookups.filter_reads"])),
    field("cold_wrong_table_reads", "1/s", "of these blocks, those of tables without the key", Rate(&["cold_lookups.wasted_reads"])),
    field("kv_saved", "1/s", "storage reads saved by hits of the value cache", Rate(&["cache.kv.saved_reads"])),
    field("kp_saved", "1/s", "storage reads saved by hits of the pointer cache", Rate(&["cache.kp.saved_reads"])),
    field("block_saved", "1/s", "storage reads saved by hits of the block cache", Rate(&["cache.block.saved_reads"])),
    field("kv_ghost_saved", "1/s", "storage reads that one more ghost window of values would save", Rate(&["cache.kv.ghost_saved_reads"])),
    field("kp_ghost_saved", "1/s", "storage reads that one more ghost window of pointers would save", Rate(&["cache.kp.ghost_saved_reads"])),
    field("block_ghost_saved", "1/s", "storage reads that one more ghost window of blocks would save", Rate(&["cache.block.ghost_saved_reads"])),
    field("read_us_p50", "us", "p50 latency of commands that only read", P50(READ)),
    field("read_us_p99", "us", "p99 latency of commands that only read", P99(READ)),
    field("write_us_p50", "us", "p50 latency of commands that write", P50(WRITE)),
    field("write_us_p99", "us", "p99 latency of commands that write", P99(WRITE)),
    field("memtable_bytes", "B", "memory of the memtables", State("memory.memtable_bytes")),
    field("clients", "1", "client connections open", State("server.connected_clients")),
    field("memory_bytes_max", "B", "memory budget of the store", State("memory.budget_bytes")),
];

/// The history of a store.
pub(crate) type StoreHistory = History<{ FIELDS.len() }>;

#[cfg(test)]
mod tests {
    use tidekv_observe::history::{Reading, Sample};

    use super::*;

    fn reading(second: u64, counters: &[(&'static str, u64)]) -> Reading {
        Reading {
            unix_ms: 1_700_000_000_000 + second * 1000,
            monotonic_ns: second * 1_000_000_000,
            counters: counters.to_vec(),
            ..Reading::default()
        }
    }

    #[test]
    fn both_rings_are_bounded_and_end_with_the_same_reading() {
        let mut history = History::new(&FIELDS, reading(0, &[]));
        for second in 1..=10_000 {
            history.add(reading(second, &[("io.reads", second * second)]));
        }
        assert_eq!((history.fine.since(0).count(), history.coarse.since(0).count()), (600, 720));
        let last = history.coarse.since(0).next_back().unwrap();
        assert_eq!(history.value(last, "reads"), (10_000f64.powi(2) - 9_990f64.powi(2)) / 10.0);
        assert_eq!((last.number, last.unix_ms), (10_000, 1_700_010_000_000));
        assert_eq!(history.fine.since(9_997).count(), 3);
        assert_eq!(history.fine.since(10_000).count(), 0);
        let bytes = (600 + 720) * size_of::<Sample<{ FIELDS.len() }>>();
        assert!(bytes < 250 << 10, "{bytes} bytes of samples");
    }

    #[test]
    fn fields_have_names_of_their_own() {
        let mut names: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FIELDS.len());
    }
}
