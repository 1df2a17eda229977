//! What each sample of a store has: a flat list, from which come `/api/stats`, what the page draws
//! and a table in `docs/reference/http.md`.

use tidekv_observe::history::Origin::{P50, P99, Rate, State};
use tidekv_observe::history::{Field, History, field};

/// The names of the latencies of commands.
pub(crate) const READ: &str = "command.read";
pub(crate) const WRITE: &str = "command.write";

/// What each sample of a store has.
#[rustfmt::skip]
pub(crate) static FIELDS: [Field; 41] = [
    field("operations", "1/s", "commands of clients", Rate(&["server.commands"])),
    field("reads", "1/s", "reads of storage for them", Rate(&["io.reads"])),
    field("read_bytes", "B/s", "bytes of these reads", Rate(&["io.read_bytes"])),
    field("writes", "1/s", "entries written and deleted", Rate(&["store.writes"])),
    field("compaction_bytes", "B/s", "bytes that compactions read and write", Rate(&["compaction.read_bytes", "compaction.write_bytes"])),
    field("cache_bytes_max", "B", "memory that all caches together may take", State("cache.bytes_max")),
    field("measuring_bytes", "B", "of it, what sketches and ghosts take", State("cache.measuring_bytes")),
    field("window_bytes", "B", "for how many more bytes a ghost stands", State("cache.window_bytes")),
    field("kv_bytes", "B", "values (KV): what they take", State("cache.kv.charged_bytes")),
    field("kp_bytes", "B", "pointers (KP): what they take", State("cache.kp.charged_bytes")),
    field("block_bytes", "B", "blocks: what they take", State("cache.block.charged_bytes")),
    field("kv_bytes_max", "B", "values: what they may take", State("cache.kv.bytes_max")),
    field("kp_bytes_max", "B", "pointers: what they may take", State("cache.kp.bytes_max")),
    field("block_bytes_max", "B", "blocks: what they may take", State("cache.block.bytes_max")),
    field("kv_hits", "1/s", "lookups that a value answered", Rate(&["cache.kv.hits"])),
    field("kp_hits", "1/s", "lookups that a pointer led to their block", Rate(&["cache.kp.hits"])),
    field("point_misses", "1/s", "lookups that knew neither", Rate(&["cache.point.misses"])),
    field("data_hits", "1/s", "data blocks found in memory", Rate(&["cache.data.hits"])),
    field("data_misses", "1/s", "data blocks not in memory", Rate(&["cache.data.misses"])),
    field("metadata_hits", "1/s", "index and filter blocks found", Rate(&["cache.index.hits", "cache.filter.hits"])),
    field("metadata_misses", "1/s", "index and filter blocks not in memory", Rate(&["cache.index.misses", "cache.filter.misses"])),
    field("false_positives", "1/s", "lookups that passed a filter for nothing", Rate(&["filter.false_positives"])),
    field("repairs", "1/s", "repairs of filters, so that a key no longer passes", Rate(&["filter.repairs"])),
    field("repair_reads", "1/s", "reads of storage for repairs", Rate(&["filter.repair_reads"])),
    field("cold_lookups", "1/s", "lookups of single keys that read storage", Rate(&["cold_lookups.count"])),
    field("cold_reads", "1/s", "blocks that they waited for", Rate(&["cold_lookups.reads"])),
    field("cold_filter_reads", "1/s", "of these blocks, filters", Rate(&["cold_lookups.filter_reads"])),
    field("cold_reads_in_vain", "1/s", "of these blocks, those of tables that do not have the key", Rate(&["cold_lookups.wasted_reads"])),
    field("kv_saved", "1/s", "reads that values saved", Rate(&["cache.kv.saved_reads"])),
    field("kp_saved", "1/s", "reads that pointers saved", Rate(&["cache.kp.saved_reads"])),
    field("block_saved", "1/s", "reads that blocks saved", Rate(&["cache.block.saved_reads"])),
    field("kv_wanted", "1/s", "reads that a window more of values would save", Rate(&["cache.kv.wanted_reads"])),
    field("kp_wanted", "1/s", "reads that a window more of pointers would save", Rate(&["cache.kp.wanted_reads"])),
    field("block_wanted", "1/s", "reads that a window more of blocks would save", Rate(&["cache.block.wanted_reads"])),
    field("read_us_p50", "us", "half of the commands that only read took at most", P50(READ)),
    field("read_us_p99", "us", "99 % of the commands that only read took at most", P99(READ)),
    field("write_us_p50", "us", "half of the commands that write took at most", P50(WRITE)),
    field("write_us_p99", "us", "99 % of the commands that write took at most", P99(WRITE)),
    field("memtable_bytes", "B", "what was written last and is not in a file yet", State("memory.memtable_bytes")),
    field("clients", "1", "connections of clients", State("server.connected_clients")),
    field("memory_bytes_max", "B", "memory that the store may take", State("memory.budget_bytes")),
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
