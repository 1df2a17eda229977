//! The metrics of `/metrics`: one flat list, from which come the text for Prometheus,
//! its help and the table in `docs/reference/http.md`.
//!
//! Names follow the advice of Prometheus: base units, `_total` at the end of what only
//! grows. Each counter of the store and of the server stands in the list; a test says so.

use tidekv_observe::metric::Kind::{Counter, Gauge, Summary};
use tidekv_observe::metric::{Metric, metric};

/// All metrics, in the order in which they are shown.
#[rustfmt::skip]
pub(crate) static METRICS: [Metric; 75] = [
    // The server.
    Metric { divisor: 1e3, ..metric(Gauge, "tidekv_start_time_seconds", "When the server was started, in seconds since 1970.", "", &[("", "server.started_ms")]) },
    metric(Counter, "tidekv_commands_total", "Commands of clients.", "", &[("", "server.commands")]),
    metric(Counter, "tidekv_commands_failed_total", "Commands that were answered with an error.", "", &[("", "server.failed_commands")]),
    metric(Counter, "tidekv_commands_from_memory_total", "Commands answered on the event loop, without waiting.", "", &[("", "server.loop_commands")]),
    metric(Summary, "tidekv_command_duration_seconds", "From a whole command to its reply, by whether it writes. Commands of one pipeline are measured together: one that writes makes all of them writes.", "kind", &[("read", "command.read"), ("write", "command.write")]),
    metric(Counter, "tidekv_connections_total", "Connections that were accepted.", "", &[("", "server.connections")]),
    metric(Counter, "tidekv_connections_rejected_total", "Connections that were one too many.", "", &[("", "server.rejected_connections")]),
    metric(Gauge, "tidekv_connected_clients", "Connections at this moment.", "", &[("", "server.connected_clients")]),
    metric(Counter, "tidekv_network_bytes_total", "Bytes from clients and to them.", "direction", &[("in", "server.input_bytes"), ("out", "server.output_bytes")]),
    metric(Gauge, "tidekv_request_buffer_bytes", "Bytes of requests that are not complete.", "", &[("", "server.request_buffer_bytes")]),
    metric(Counter, "tidekv_keys_found_total", "Keys that commands asked for and that were there.", "", &[("", "server.hits")]),
    metric(Counter, "tidekv_keys_missing_total", "Keys that commands asked for and that were not there.", "", &[("", "server.misses")]),
    metric(Counter, "tidekv_transaction_retries_total", "Commands and transactions that started over because of another writer.", "", &[("", "server.conflicts")]),
    metric(Counter, "tidekv_panics_total", "Commands that hit a bug and ended their connection.", "", &[("", "server.panics")]),
    // Memory and its three components.
    metric(Gauge, "tidekv_memory_budget_bytes", "Memory that the store may take.", "", &[("", "memory.budget_bytes")]),
    metric(Gauge, "tidekv_memory_bytes", "Memory that the store takes.", "part", &[("memtables", "memory.memtable_bytes"), ("metadata", "memory.metadata_bytes"), ("caches", "memory.cache_bytes")]),
    metric(Gauge, "tidekv_cache_budget_bytes", "Memory that all caches together may take.", "", &[("", "cache.bytes_max")]),
    metric(Gauge, "tidekv_cache_target_bytes", "What each component of the caches may take: the boundaries that move.", "component", &[("kv", "cache.kv.bytes_max"), ("kp", "cache.kp.bytes_max"), ("block", "cache.block.bytes_max")]),
    metric(Gauge, "tidekv_cache_bytes", "What each component of the caches takes.", "component", &[("kv", "cache.kv.charged_bytes"), ("kp", "cache.kp.charged_bytes"), ("block", "cache.block.charged_bytes")]),
    metric(Gauge, "tidekv_cache_entries", "Entries of values and of pointers.", "component", &[("kv", "cache.kv.entries"), ("kp", "cache.kp.entries")]),
    metric(Counter, "tidekv_cache_saved_reads_total", "Reads of storage that hits have saved.", "component", &[("kv", "cache.kv.saved_reads"), ("kp", "cache.kp.saved_reads"), ("block", "cache.block.saved_reads")]),
    metric(Counter, "tidekv_cache_wanted_reads_total", "Reads that a component would have saved with a window more bytes.", "component", &[("kv", "cache.kv.wanted_reads"), ("kp", "cache.kp.wanted_reads"), ("block", "cache.block.wanted_reads")]),
    metric(Gauge, "tidekv_cache_window_bytes", "For how many more bytes of a component its ghost stands; 0: nothing is measured.", "", &[("", "cache.window_bytes")]),
    metric(Gauge, "tidekv_cache_measuring_bytes", "Bytes of sketches and ghosts.", "", &[("", "cache.measuring_bytes")]),
    metric(Counter, "tidekv_point_cache_hits_total", "Lookups that a value answered, or that a pointer led to their block.", "component", &[("kv", "cache.kv.hits"), ("kp", "cache.kp.hits")]),
    metric(Counter, "tidekv_point_cache_misses_total", "Lookups that found neither value nor pointer.", "", &[("", "cache.point.misses")]),
    metric(Counter, "tidekv_point_cache_stale_inserts_total", "Values and pointers that were not kept, for a newer version had come.", "", &[("", "cache.point.stale_inserts")]),
    metric(Counter, "tidekv_pointer_errors_total", "Pointers that did not lead to their entry.", "", &[("", "cache.kp.errors")]),
    metric(Counter, "tidekv_pointer_moves_total", "Pointers that followed their entry through a compaction.", "", &[("", "cache.kp.moves")]),
    metric(Counter, "tidekv_block_cache_hits_total", "Blocks that were in memory.", "kind", &[("data", "cache.data.hits"), ("index", "cache.index.hits"), ("filter", "cache.filter.hits")]),
    metric(Counter, "tidekv_block_cache_misses_total", "Blocks that were not in memory.", "kind", &[("data", "cache.data.misses"), ("index", "cache.index.misses"), ("filter", "cache.filter.misses")]),
    metric(Counter, "tidekv_block_cache_inserts_total", "Blocks that came in.", "kind", &[("data", "cache.data.inserts"), ("index", "cache.index.inserts"), ("filter", "cache.filter.inserts")]),
    metric(Counter, "tidekv_block_cache_evictions_total", "Blocks that left for others.", "kind", &[("data", "cache.data.evictions"), ("index", "cache.index.evictions"), ("filter", "cache.filter.evictions")]),
    metric(Counter, "tidekv_filter_skips_total", "Filters that were not in memory and not worth their read.", "", &[("", "cache.filter.skips")]),
    metric(Counter, "tidekv_cold_lookups_total", "Lookups of single keys that read storage, by the level where they ended.", "level", &[("0", "cold_lookups.level0.count"), ("1", "cold_lookups.level1.count"), ("2", "cold_lookups.level2.count"), ("3", "cold_lookups.level3.count"), ("4", "cold_lookups.level4.count"), ("5", "cold_lookups.level5.count"), ("6", "cold_lookups.level6.count"), ("absent", "cold_lookups.not_found.count")]),
    metric(Counter, "tidekv_cold_lookups_by_reads_total", "The same lookups, by how many reads each did.", "reads", &[("1", "cold_lookups.by_reads.1"), ("2", "cold_lookups.by_reads.2"), ("3", "cold_lookups.by_reads.3"), ("4", "cold_lookups.by_reads.4"), ("5", "cold_lookups.by_reads.5"), ("6", "cold_lookups.by_reads.6"), ("7", "cold_lookups.by_reads.7"), ("8_or_more", "cold_lookups.by_reads.8_or_more")]),
    metric(Counter, "tidekv_cold_reads_total", "Blocks that they waited for, each of them; a block that several wait for is read once.", "level", &[("0", "cold_lookups.level0.reads"), ("1", "cold_lookups.level1.reads"), ("2", "cold_lookups.level2.reads"), ("3", "cold_lookups.level3.reads"), ("4", "cold_lookups.level4.reads"), ("5", "cold_lookups.level5.reads"), ("6", "cold_lookups.level6.reads"), ("absent", "cold_lookups.not_found.reads")]),
    metric(Counter, "tidekv_cold_reads_beside_key_total", "Of these reads, those that did not lead to the key: of filters, and in vain in tables that do not have it.", "part", &[("filter", "cold_lookups.filter_reads"), ("in_vain", "cold_lookups.wasted_reads")]),
    metric(Gauge, "tidekv_filter_bytes", "Bytes of the filters of all tables, in memory or not, and memory of what they have unlearned.", "part", &[("filters", "filter.bytes"), ("learned", "filter.repair_bytes")]),
    metric(Counter, "tidekv_filter_false_positives_total", "Lookups that passed a filter, for a key that the table does not have.", "", &[("", "filter.false_positives")]),
    metric(Counter, "tidekv_filter_repairs_total", "Buckets of filters that were repaired, so that a key no longer passes.", "", &[("", "filter.repairs")]),
    metric(Counter, "tidekv_filter_repair_reads_total", "Reads of storage for these repairs.", "", &[("", "filter.repair_reads")]),
    metric(Counter, "tidekv_filter_repair_read_bytes_total", "Bytes of these reads.", "", &[("", "filter.repair_read_bytes")]),
    metric(Counter, "tidekv_filter_repairs_left_total", "Repairs that were not made: that failed, of keys that cannot be told from one that is there, and those for which too many waited.", "why", &[("failed", "filter.repair_failures"), ("hopeless", "filter.repairs_impossible"), ("dropped", "filter.repairs_dropped")]),
    metric(Counter, "tidekv_block_cache_compaction_prefills_total", "Of the blocks that came in, those that a compaction had just written in the place of hot ones.", "", &[("", "cache.block.compaction_prefills")]),
    metric(Counter, "tidekv_warm_start_entries_total", "What an earlier life had in memory and was brought back.", "component", &[("kv", "warm.values"), ("kp", "warm.pointers"), ("block", "warm.blocks")]),
    // Storage.
    metric(Counter, "tidekv_storage_reads_total", "Reads of storage by operations; a run of blocks is one.", "", &[("", "io.reads")]),
    metric(Counter, "tidekv_storage_read_bytes_total", "Bytes of these reads.", "", &[("", "io.read_bytes")]),
    metric(Counter, "tidekv_storage_gap_bytes_total", "Of them, bytes between two blocks that nobody asked for.", "", &[("", "io.gap_bytes")]),
    metric(Counter, "tidekv_storage_read_failures_total", "Reads that failed.", "", &[("", "io.read_failures")]),
    metric(Counter, "tidekv_storage_read_ahead_blocks_total", "Blocks that were read before they were asked for.", "", &[("", "io.read_ahead_blocks")]),
    metric(Gauge, "tidekv_storage_in_flight_bytes", "Bytes that are being read.", "", &[("", "io.in_flight_bytes")]),
    metric(Counter, "tidekv_single_flight_waits_total", "Readers that waited for another one's read of the same block.", "", &[("", "single_flight.waits")]),
    metric(Counter, "tidekv_tier_lookups_total", "Blocks that were asked of the tier under the block cache, where a program has set one up: that were there, that were not, and something else that was there in their place, which is not believed.", "outcome", &[("hit", "tier.hits"), ("miss", "tier.misses"), ("wrong", "tier.wrong")]),
    metric(Counter, "tidekv_tier_puts_total", "Blocks that went there when they had been read from storage.", "", &[("", "tier.puts")]),
    metric(Gauge, "tidekv_level_tables", "Tables of each level of the tree.", "level", &[("0", "level0.tables"), ("1", "level1.tables"), ("2", "level2.tables"), ("3", "level3.tables"), ("4", "level4.tables"), ("5", "level5.tables"), ("6", "level6.tables")]),
    metric(Gauge, "tidekv_level_bytes", "Bytes of each level of the tree.", "level", &[("0", "level0.bytes"), ("1", "level1.bytes"), ("2", "level2.bytes"), ("3", "level3.bytes"), ("4", "level4.bytes"), ("5", "level5.bytes"), ("6", "level6.bytes")]),
    // Reads and writes of the store.
    metric(Counter, "tidekv_lookups_total", "Lookups of a key in a keyspace; a command may need several.", "", &[("", "store.gets")]),
    metric(Counter, "tidekv_writes_total", "Entries written and deleted.", "", &[("", "store.writes")]),
    metric(Counter, "tidekv_write_bytes_total", "Bytes of their keys and values.", "", &[("", "store.write_bytes")]),
    metric(Counter, "tidekv_write_groups_total", "Commits; writers that come together share one.", "", &[("", "store.write_groups")]),
    metric(Counter, "tidekv_write_conflicts_total", "Conditional writes that found their keys changed.", "", &[("", "store.conflicts")]),
    Metric { divisor: 1e9, ..metric(Counter, "tidekv_write_stall_seconds_total", "Time that writers were held back.", "", &[("", "store.stall_ns")]) },
    metric(Gauge, "tidekv_last_sequence", "The sequence number of the last write that readers see.", "", &[("", "store.last_sequence")]),
    metric(Counter, "tidekv_log_bytes_total", "Bytes written to the log.", "", &[("", "log.bytes")]),
    metric(Counter, "tidekv_log_syncs_total", "Times that the log was brought to stable storage.", "", &[("", "log.syncs")]),
    metric(Counter, "tidekv_flush_bytes_total", "Bytes that flushes have written.", "", &[("", "flush.bytes")]),
    metric(Counter, "tidekv_compaction_moves_total", "Tables that went down a level as they were.", "", &[("", "compaction.moves")]),
    metric(Counter, "tidekv_seek_compactions_total", "Compactions of runs in which scans had read as much as merging them costs.", "", &[("", "compaction.for_seeks")]),
    metric(Counter, "tidekv_compaction_bytes_total", "Bytes that compactions have read and written.", "direction", &[("read", "compaction.read_bytes"), ("write", "compaction.write_bytes")]),
    metric(Counter, "tidekv_compaction_entries_total", "Entries that compactions have left out: overwritten or deleted ones, and those whose deadline had passed.", "left_out", &[("dropped", "compaction.entries_dropped"), ("expired", "compaction.entries_expired")]),
    metric(Counter, "tidekv_background_jobs_total", "Flushes and compactions that were done.", "job", &[("flush", "flush.count"), ("compaction", "compaction.count")]),
    metric(Counter, "tidekv_background_errors_total", "Flushes and compactions that failed.", "", &[("", "background.errors")]),
    metric(Summary, "tidekv_background_duration_seconds", "How long flushes and compactions took.", "job", &[("flush", "flush"), ("compaction", "compaction")]),
    metric(Summary, "tidekv_commit_duration_seconds", "How long commits took, of those that waited for their turn (sampled).", "", &[("", "write")]),
];

/// Counters that are no metric, for another one says the same.
#[cfg(test)]
pub(crate) const TWINS: [&str; 5] = [
    "memory.cache_bytes_max",
    "io.compaction_reads",
    "io.compaction_read_bytes",
    "cold_lookups.count",
    "cold_lookups.reads",
];
