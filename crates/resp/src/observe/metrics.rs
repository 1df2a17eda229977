//! The metrics of `/metrics`: one flat list that produces the Prometheus text, its help and the
//! table in `docs/reference/http.md`.
//!
//! Names follow the Prometheus conventions: the prefix `tidekv_`, base units, `_total` for
//! counters. Tests check the names, and that every counter of the store and of the server is in
//! the list.

use tidekv_observe::metric::Kind::{Counter, Gauge, Histogram};
use tidekv_observe::metric::{JOB_SECONDS, Metric, metric};

/// All metrics, in the order in which they are written.
#[rustfmt::skip]
pub(crate) static METRICS: [Metric; 85] = [
    // The server.
    Metric { divisor: 1e3, ..metric(Gauge, "tidekv_start_time_seconds", "Start time of the server, in seconds since the Unix epoch.", "", &[("", "server.started_ms")]) },
    metric(Counter, "tidekv_commands_total", "Commands received from clients.", "", &[("", "server.commands")]),
    metric(Counter, "tidekv_commands_failed_total", "Commands answered with an error.", "", &[("", "server.failed_commands")]),
    metric(Counter, "tidekv_commands_from_memory_total", "Commands answered from memory on the event loop, without an I/O thread.", "", &[("", "server.loop_commands")]),
    metric(Histogram, "tidekv_command_duration_seconds", "Time from a complete command to its reply. The commands of one pipeline are measured together; if one of them writes, all count as writes.", "kind", &[("read", "command.read"), ("write", "command.write")]),
    metric(Counter, "tidekv_connections_total", "Client connections accepted.", "", &[("", "server.connections")]),
    metric(Counter, "tidekv_connections_rejected_total", "Client connections rejected: connection limit.", "", &[("", "server.rejected_connections")]),
    metric(Counter, "tidekv_unauthenticated_disconnections_total", "Client connections closed that had not authenticated: too late, or in favour of others.", "", &[("", "server.closed_strangers")]),
    metric(Counter, "tidekv_authentications_failed_total", "Wrong passwords of clients.", "", &[("", "server.failed_authentications")]),
    metric(Gauge, "tidekv_connected_clients", "Client connections open now.", "", &[("", "server.connected_clients")]),
    metric(Counter, "tidekv_network_bytes_total", "Bytes received from clients (in) and sent to them (out).", "direction", &[("in", "server.input_bytes"), ("out", "server.output_bytes")]),
    metric(Gauge, "tidekv_request_buffer_bytes", "Memory of requests and replies of all connections.", "", &[("", "server.request_buffer_bytes")]),
    metric(Counter, "tidekv_keyspace_hits_total", "Keys that commands looked up and found.", "", &[("", "server.hits")]),
    metric(Counter, "tidekv_keyspace_misses_total", "Keys that commands looked up and did not find.", "", &[("", "server.misses")]),
    metric(Counter, "tidekv_discarded_requests_total", "Requests that were discarded because they were too large or there was no memory for them.", "", &[("", "server.discarded_requests")]),
    metric(Counter, "tidekv_output_limit_disconnections_total", "Clients closed because they did not read replies whose memory was needed.", "", &[("", "server.output_limit_disconnections")]),
    metric(Counter, "tidekv_transaction_retries_total", "Commands and transactions retried after a conflict with another writer.", "", &[("", "server.conflicts")]),
    metric(Counter, "tidekv_panics_total", "Commands that hit a bug and closed their connection.", "", &[("", "server.panics")]),
    // Memory and the three caches.
    metric(Gauge, "tidekv_memory_budget_bytes", "Memory budget of the store.", "", &[("", "memory.budget_bytes")]),
    metric(Gauge, "tidekv_memory_bytes", "Memory of the store in use, by part.", "part", &[("memtables", "memory.memtable_bytes"), ("metadata", "memory.metadata_bytes"), ("reserved", "memory.reserved_bytes"), ("caches", "memory.cache_bytes")]),
    metric(Gauge, "tidekv_caches_budget_bytes", "Memory budget of all caches together.", "", &[("", "cache.bytes_max")]),
    metric(Gauge, "tidekv_caches_target_bytes", "Memory target of each cache: values (kv), pointers (kp) and blocks. Adaptive policies move it.", "cache", &[("kv", "cache.kv.bytes_max"), ("kp", "cache.kp.bytes_max"), ("block", "cache.block.bytes_max")]),
    metric(Gauge, "tidekv_caches_bytes", "Memory of each cache in use.", "cache", &[("kv", "cache.kv.bytes"), ("kp", "cache.kp.bytes"), ("block", "cache.block.bytes")]),
    metric(Gauge, "tidekv_caches_entries", "Entries in the value cache (kv) and the pointer cache (kp).", "cache", &[("kv", "cache.kv.entries"), ("kp", "cache.kp.entries")]),
    metric(Counter, "tidekv_caches_saved_reads_total", "Storage reads saved by cache hits.", "cache", &[("kv", "cache.kv.saved_reads"), ("kp", "cache.kp.saved_reads"), ("block", "cache.block.saved_reads")]),
    metric(Counter, "tidekv_caches_ghost_saved_reads_total", "Storage reads that each cache would also have saved with one more ghost window of memory.", "cache", &[("kv", "cache.kv.ghost_saved_reads"), ("kp", "cache.kp.ghost_saved_reads"), ("block", "cache.block.ghost_saved_reads")]),
    metric(Gauge, "tidekv_caches_ghost_window_bytes", "Size of the ghost window: the additional memory that a ghost cache simulates. 0 if nothing is measured.", "", &[("", "cache.ghost_window_bytes")]),
    metric(Gauge, "tidekv_caches_ghost_bytes", "Memory of ghost caches and frequency sketches.", "", &[("", "cache.ghost_bytes")]),
    metric(Counter, "tidekv_point_cache_hits_total", "Point lookups answered by a cached value (kv), or led to their block by a cached pointer (kp).", "cache", &[("kv", "cache.kv.hits"), ("kp", "cache.kp.hits")]),
    metric(Counter, "tidekv_point_cache_misses_total", "Point lookups that found neither a cached value nor a cached pointer.", "", &[("", "cache.point.misses")]),
    metric(Counter, "tidekv_point_cache_stale_inserts_total", "Values and pointers not inserted because a newer version existed.", "", &[("", "cache.point.stale_inserts")]),
    metric(Counter, "tidekv_kp_cache_errors_total", "Cached pointers that did not lead to their entry.", "", &[("", "cache.kp.errors")]),
    metric(Counter, "tidekv_kp_cache_relocations_total", "Cached pointers updated because a compaction moved their entry.", "", &[("", "cache.kp.relocations")]),
    metric(Counter, "tidekv_block_cache_hits_total", "Block cache hits.", "kind", &[("data", "cache.data.hits"), ("index", "cache.index.hits"), ("filter", "cache.filter.hits")]),
    metric(Counter, "tidekv_block_cache_misses_total", "Block cache misses.", "kind", &[("data", "cache.data.misses"), ("index", "cache.index.misses"), ("filter", "cache.filter.misses")]),
    metric(Counter, "tidekv_block_cache_inserts_total", "Blocks inserted into the block cache.", "kind", &[("data", "cache.data.inserts"), ("index", "cache.index.inserts"), ("filter", "cache.filter.inserts")]),
    metric(Counter, "tidekv_block_cache_evictions_total", "Blocks evicted from the block cache.", "kind", &[("data", "cache.data.evictions"), ("index", "cache.index.evictions"), ("filter", "cache.filter.evictions")]),
    metric(Counter, "tidekv_block_cache_compaction_prefills_total", "Blocks inserted by compactions in place of the hot blocks that they rewrote.", "", &[("", "cache.block.compaction_prefills")]),
    metric(Counter, "tidekv_warm_start_entries_total", "Entries restored by warm start.", "cache", &[("kv", "warm_start.values"), ("kp", "warm_start.pointers"), ("block", "warm_start.blocks")]),
    // Filters and lookups that read storage.
    metric(Counter, "tidekv_filter_skips_total", "Filters not in memory that lookups skipped because reading them costs more than it saves.", "", &[("", "cache.filter.skips")]),
    metric(Counter, "tidekv_cold_lookups_total", "Point lookups that read storage, by the level at which they ended.", "level", &[("0", "cold_lookups.level0.count"), ("1", "cold_lookups.level1.count"), ("2", "cold_lookups.level2.count"), ("3", "cold_lookups.level3.count"), ("4", "cold_lookups.level4.count"), ("5", "cold_lookups.level5.count"), ("6", "cold_lookups.level6.count"), ("not_found", "cold_lookups.not_found.count")]),
    metric(Counter, "tidekv_cold_lookups_by_reads_total", "Point lookups that read storage, by the number of their reads.", "reads", &[("1", "cold_lookups.by_reads.1"), ("2", "cold_lookups.by_reads.2"), ("3", "cold_lookups.by_reads.3"), ("4", "cold_lookups.by_reads.4"), ("5", "cold_lookups.by_reads.5"), ("6", "cold_lookups.by_reads.6"), ("7", "cold_lookups.by_reads.7"), ("8_or_more", "cold_lookups.by_reads.8_or_more")]),
    metric(Counter, "tidekv_cold_lookup_reads_total", "Blocks that these lookups waited for, by the level at which they ended. A block that several lookups wait for is read once and counted for each.", "level", &[("0", "cold_lookups.level0.reads"), ("1", "cold_lookups.level1.reads"), ("2", "cold_lookups.level2.reads"), ("3", "cold_lookups.level3.reads"), ("4", "cold_lookups.level4.reads"), ("5", "cold_lookups.level5.reads"), ("6", "cold_lookups.level6.reads"), ("not_found", "cold_lookups.not_found.reads")]),
    metric(Counter, "tidekv_cold_lookup_overhead_reads_total", "Of these blocks, filters (filter) and blocks of tables without the key (wrong_table).", "kind", &[("filter", "cold_lookups.filter_reads"), ("wrong_table", "cold_lookups.wasted_reads")]),
    metric(Gauge, "tidekv_filter_bytes", "Size of the filters of all tables, in memory or not (filters), and memory of their repairs (repairs).", "part", &[("filters", "filter.bytes"), ("repairs", "filter.repair_bytes")]),
    metric(Counter, "tidekv_filter_false_positives_total", "Lookups that passed the filter of a table without the key.", "", &[("", "filter.false_positives")]),
    metric(Counter, "tidekv_filter_repairs_total", "Filter buckets repaired so that a false-positive key no longer passes.", "", &[("", "filter.repairs")]),
    metric(Counter, "tidekv_filter_repair_reads_total", "Storage reads of filter repairs.", "", &[("", "filter.repair_reads")]),
    metric(Counter, "tidekv_filter_repair_read_bytes_total", "Bytes read from storage by filter repairs.", "", &[("", "filter.repair_read_bytes")]),
    metric(Counter, "tidekv_filter_repairs_skipped_total", "Filter repairs not made: failed, impossible because a stored key has the same fingerprint, or dropped because the queue was full.", "reason", &[("failed", "filter.repair_failures"), ("impossible", "filter.repairs_impossible"), ("queue_full", "filter.repairs_dropped")]),
    // Storage.
    metric(Counter, "tidekv_storage_reads_total", "Storage reads of operations; one read may cover several adjacent blocks.", "", &[("", "io.reads")]),
    metric(Counter, "tidekv_storage_read_bytes_total", "Bytes read from storage by operations.", "", &[("", "io.read_bytes")]),
    metric(Counter, "tidekv_storage_gap_bytes_total", "Bytes read between two requested blocks and discarded.", "", &[("", "io.gap_bytes")]),
    metric(Counter, "tidekv_storage_read_failures_total", "Storage reads that failed.", "", &[("", "io.read_failures")]),
    metric(Counter, "tidekv_storage_read_ahead_blocks_total", "Blocks read ahead of scans.", "", &[("", "io.read_ahead_blocks")]),
    metric(Gauge, "tidekv_storage_in_flight_bytes", "Bytes of storage reads in flight.", "", &[("", "io.in_flight_bytes")]),
    metric(Counter, "tidekv_single_flight_waits_total", "Readers that waited for another reader's read of the same block.", "", &[("", "io.single_flight_waits")]),
    metric(Counter, "tidekv_secondary_cache_lookups_total", "Lookups in the secondary block cache, if one is configured, by outcome; mismatch: it returned another block, which was discarded.", "outcome", &[("hit", "secondary_cache.hits"), ("miss", "secondary_cache.misses"), ("mismatch", "secondary_cache.mismatches")]),
    metric(Counter, "tidekv_secondary_cache_inserts_total", "Blocks inserted into the secondary block cache after a storage read.", "", &[("", "secondary_cache.inserts")]),
    metric(Gauge, "tidekv_level_tables", "Tables at each level of the tree.", "level", &[("0", "level0.tables"), ("1", "level1.tables"), ("2", "level2.tables"), ("3", "level3.tables"), ("4", "level4.tables"), ("5", "level5.tables"), ("6", "level6.tables")]),
    metric(Gauge, "tidekv_level_bytes", "Size of the tables at each level of the tree.", "level", &[("0", "level0.bytes"), ("1", "level1.bytes"), ("2", "level2.bytes"), ("3", "level3.bytes"), ("4", "level4.bytes"), ("5", "level5.bytes"), ("6", "level6.bytes")]),
    metric(Gauge, "tidekv_open_table_files", "Table files that are open.", "", &[("", "files.open")]),
    metric(Counter, "tidekv_table_file_opens_total", "How often a table file was opened.", "", &[("", "files.opened")]),
    // Reads and writes of the store.
    metric(Counter, "tidekv_lookups_total", "Point lookups in keyspaces; one command may need several.", "", &[("", "store.gets")]),
    metric(Counter, "tidekv_writes_total", "Entries written and deleted.", "", &[("", "store.writes")]),
    metric(Counter, "tidekv_write_bytes_total", "Bytes of the keys and values written.", "", &[("", "store.write_bytes")]),
    metric(Counter, "tidekv_write_groups_total", "Commits to the log; concurrent writers share one (group commit).", "", &[("", "store.write_groups")]),
    metric(Counter, "tidekv_write_conflicts_total", "Conditional writes that failed because another writer had changed their keys.", "", &[("", "store.conflicts")]),
    Metric { divisor: 1e9, ..metric(Counter, "tidekv_write_stall_seconds_total", "Time that writers were stalled by flushes or compactions.", "", &[("", "store.stall_ns")]) },
    metric(Gauge, "tidekv_last_sequence", "Sequence number of the last write that readers see.", "", &[("", "store.last_sequence")]),
    metric(Counter, "tidekv_wal_bytes_total", "Bytes written to the write-ahead log.", "", &[("", "log.bytes")]),
    metric(Counter, "tidekv_wal_syncs_total", "Syncs of the write-ahead log to stable storage.", "", &[("", "log.syncs")]),
    metric(Histogram, "tidekv_commit_duration_seconds", "Duration of commits that waited in the write queue (sampled).", "", &[("", "write")]),
    metric(Counter, "tidekv_flush_bytes_total", "Bytes written by flushes.", "", &[("", "flush.bytes")]),
    metric(Counter, "tidekv_compaction_bytes_total", "Bytes read and written by compactions.", "direction", &[("read", "compaction.read_bytes"), ("write", "compaction.write_bytes")]),
    metric(Counter, "tidekv_compaction_dropped_entries_total", "Entries dropped by compactions: overwritten or deleted (obsolete), or expired.", "reason", &[("obsolete", "compaction.entries_dropped"), ("expired", "compaction.entries_expired")]),
    metric(Counter, "tidekv_compaction_trivial_moves_total", "Tables moved down a level without being rewritten.", "", &[("", "compaction.trivial_moves")]),
    metric(Counter, "tidekv_seek_compactions_total", "Seek-triggered compactions: scans had read as much from the runs as merging them costs.", "", &[("", "compaction.seek_triggered")]),
    metric(Counter, "tidekv_space_compactions_total", "Compactions that gave the space of deleted and expired data back.", "", &[("", "compaction.space_triggered")]),
    metric(Counter, "tidekv_dropped_tables_total", "Tables dropped unread: all entries had expired or were deletions (expired), or range deletions covered them (covered).", "reason", &[("expired", "compaction.expired_tables_dropped"), ("covered", "compaction.covered_tables_dropped")]),
    metric(Counter, "tidekv_dropped_table_bytes_total", "Bytes of tables dropped unread.", "", &[("", "compaction.dropped_bytes")]),
    metric(Counter, "tidekv_background_jobs_total", "Flushes and compactions completed.", "job", &[("flush", "flush.count"), ("compaction", "compaction.count")]),
    metric(Counter, "tidekv_background_errors_total", "Flushes, compactions and checks for missing files that failed.", "", &[("", "background.errors")]),
    metric(Counter, "tidekv_full_disk_retries_total", "Writes, flushes and log creations that were retried because the disk was full.", "", &[("", "background.full_disk_retries")]),
    Metric { bounds_s: &JOB_SECONDS, ..metric(Histogram, "tidekv_background_duration_seconds", "Duration of flushes and compactions.", "job", &[("flush", "flush"), ("compaction", "compaction")]) },
];

/// Counters without a metric, because another metric has the same number.
#[cfg(test)]
pub(crate) const DUPLICATES: [&str; 5] = [
    "memory.cache_bytes_max",
    "io.compaction_reads",
    "io.compaction_read_bytes",
    "cold_lookups.count",
    "cold_lookups.reads",
];
