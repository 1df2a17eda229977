//! `INFO`: sections of lines, with Redis's names where Redis has the field, and all counters of the
//! store under `# TideKV`.
//!
//! Every field of Redis 7.0 is there. A field whose subject does not exist here (dumps, replicas,
//! scripts, eviction, …) has the value that it has in a Redis without it.

use std::fmt::Write;
use std::path::Path;

use bytes::Bytes;
use tidekv::Durability;

use tidekv_net::process;

use crate::commands::command::{Command, position};
use crate::commands::errors::is_word;
use crate::commands::session::REDIS_VERSION;
use crate::data::execution::Execution;
use crate::data::samples;
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::forecast;
use crate::state::keyspaces::DATABASES;
use crate::state::server_state::State;

/// A section: its name, the function that writes its lines, and when it is part of the reply.
struct Section {
    name: &'static str,
    write: fn(&State, &mut Lines) -> Result<(), CommandError>,
    is_in: In,
}

/// The selections that a section is part of, in addition to its own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    /// `INFO`, `default`, `all` and `everything`.
    Default,
    /// `all` and `everything`.
    All,
    /// None: it is long.
    Name,
}

const fn section(
    name: &'static str,
    write: fn(&State, &mut Lines) -> Result<(), CommandError>,
    is_in: In,
) -> Section {
    Section { name, write, is_in }
}

static SECTIONS: [Section; 15] = [
    section("Server", server, In::Default),
    section("Clients", clients, In::Default),
    section("Memory", memory, In::Default),
    section("Persistence", persistence, In::Default),
    section("Stats", stats, In::Default),
    section("Replication", replication, In::Default),
    section("CPU", cpu, In::Default),
    section("Modules", |_, _| Ok(()), In::Default),
    section("Commandstats", command_statistics, In::All),
    section("Errorstats", error_statistics, In::Default),
    section("Latencystats", latency_statistics, In::All),
    section("Cluster", cluster, In::Default),
    section("Keyspace", keyspace, In::Default),
    section("TideKV", tidekv, In::Default),
    section("Mrc", curves, In::Name),
];

/// Lines of the reply. The catalogue is for the sections with a line for each command.
struct Lines {
    text: String,
    catalogue: &'static [Command],
}

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    fn add_all(&mut self, fields: &[(&str, &str)]) {
        fields.iter().for_each(|(name, value)| self.add(name, value));
    }

    /// Bytes, and the same for people.
    fn add_bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.add(&format!("{name}_human"), human(bytes));
    }
}

/// Bytes with a unit, as Redis prints them.
fn human(bytes: u64) -> String {
    let units = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut number = bytes as f64 / 1024.0;
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < units.len() {
        number /= 1024.0;
        unit += 1;
    }
    format!("{number:.2}{}", units[unit])
}

/// `catalogue` are all commands.
pub(crate) fn info(
    execution: &mut Execution<'_>,
    catalogue: &'static [Command],
    arguments: &[Bytes],
) -> CommandResult {
    let is_any = |words: &[&str]| {
        arguments.iter().any(|argument| words.iter().any(|word| is_word(argument, word)))
    };
    let is_default = arguments.is_empty() || is_any(&["default"]);
    let is_all = is_any(&["all", "everything"]);
    let mut lines = Lines { text: String::new(), catalogue };
    for section in &SECTIONS {
        let is_wanted = is_any(&[section.name])
            || match section.is_in {
                In::Default => is_default || is_all,
                In::All => is_all,
                In::Name => false,
            };
        if is_wanted {
            let gap = if lines.text.is_empty() { "" } else { "\r\n" };
            let _ = write!(lines.text, "{gap}# {}\r\n", section.name);
            (section.write)(execution.state, &mut lines)?;
        }
    }
    Ok(Reply::Verbatim(lines.text))
}

fn server(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    let uptime_s = state.now_ms().saturating_sub(state.started_ms) / 1000;
    lines.add("redis_version", REDIS_VERSION);
    lines.add_all(&[("redis_git_sha1", "00000000"), ("redis_git_dirty", "0")]);
    lines.add("redis_build_id", env!("CARGO_PKG_VERSION"));
    lines.add("redis_mode", "standalone");
    lines.add("tidekv_version", env!("CARGO_PKG_VERSION"));
    lines.add("os", std::env::consts::OS);
    lines.add("arch_bits", usize::BITS);
    lines.add_all(&[
        ("monotonic_clock", "POSIX clock_gettime"),
        ("multiplexing_api", "epoll"),
        ("atomicvar_api", "rust-atomics"),
        ("gcc_version", "0.0.0"),
    ]);
    lines.add("process_id", std::process::id());
    lines.add("process_supervised", "no");
    lines.add("run_id", &state.run_id);
    lines.add("tcp_port", state.port);
    lines.add("server_time_usec", state.now_us());
    lines.add("uptime_in_seconds", uptime_s);
    lines.add("uptime_in_days", uptime_s / 86_400);
    lines.add_all(&[("hz", "10"), ("configured_hz", "10")]);
    // Redis's clock of keys: 24 bits of seconds.
    lines.add("lru_clock", (state.now_ms() / 1000) & 0xff_ffff);
    let executable = std::env::current_exe().unwrap_or_default();
    lines.add("executable", executable.display());
    lines.add_all(&[("config_file", ""), ("io_threads_active", "1")]);
    lines.add("io_threads", state.settings.io_threads);
    Ok(())
}

fn clients(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    lines.add("connected_clients", state.clients.len());
    lines.add("cluster_connections", 0);
    lines.add("maxclients", state.settings.connections_max());
    lines.add_all(&[
        ("client_recent_max_input_buffer", "0"),
        ("client_recent_max_output_buffer", "0"),
        ("blocked_clients", "0"),
        ("tracking_clients", "0"),
        ("clients_in_timeout_table", "0"),
    ]);
    lines.add("tidekv_request_buffer_bytes", state.memory.used_bytes());
    Ok(())
}

fn memory(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    let statistics = state.db.statistics();
    let of = |name| statistics.counter(name);
    let caches = of("memory.cache_bytes");
    let overhead = of("memory.memtable_bytes") + of("memory.metadata_bytes");
    let used = caches + overhead;
    let percent = |part: u64, of: u64| format!("{:.2}%", part as f64 * 100.0 / of.max(1) as f64);
    let ratio = |part: u64, of: u64| format!("{:.2}", part as f64 / of.max(1) as f64);
    let process = process::usage();
    let (resident, peak) = (process.resident_bytes, process.peak_bytes);
    lines.add_bytes("used_memory", used);
    lines.add_bytes("used_memory_rss", resident);
    lines.add_bytes("used_memory_peak", peak);
    lines.add("used_memory_peak_perc", percent(resident, peak));
    lines.add("used_memory_overhead", overhead);
    lines.add("used_memory_startup", 0);
    lines.add("used_memory_dataset", caches);
    lines.add("used_memory_dataset_perc", percent(caches, used));
    lines.add("allocator_allocated", used);
    lines.add("allocator_active", used);
    lines.add("allocator_resident", resident);
    lines.add_bytes("total_system_memory", process.machine_bytes);
    lines.add_all(&[("used_memory_lua", "0"), ("used_memory_vm_eval", "0")]);
    lines.add_all(&[("used_memory_lua_human", "0B"), ("used_memory_scripts_eval", "0")]);
    lines.add_all(&[
        ("number_of_cached_scripts", "0"),
        ("number_of_functions", "0"),
        ("number_of_libraries", "0"),
        ("used_memory_vm_functions", "0"),
        ("used_memory_vm_total", "0"),
        ("used_memory_vm_total_human", "0B"),
        ("used_memory_functions", "0"),
        ("used_memory_scripts", "0"),
        ("used_memory_scripts_human", "0B"),
    ]);
    lines.add_bytes("maxmemory", state.db.memory_bytes());
    lines.add_all(&[
        ("maxmemory_policy", "noeviction"),
        ("allocator_frag_ratio", "1.00"),
        ("allocator_frag_bytes", "0"),
        ("allocator_rss_ratio", "1.00"),
        ("allocator_rss_bytes", "0"),
        ("rss_overhead_ratio", "1.00"),
        ("rss_overhead_bytes", "0"),
    ]);
    lines.add("mem_fragmentation_ratio", ratio(resident, used));
    lines.add("mem_fragmentation_bytes", resident as i64 - used as i64);
    lines.add_all(&[
        ("mem_not_counted_for_evict", "0"),
        ("mem_replication_backlog", "0"),
        ("mem_total_replication_buffers", "0"),
        ("mem_clients_slaves", "0"),
    ]);
    lines.add("mem_clients_normal", state.memory.used_bytes());
    lines.add_all(&[
        ("mem_cluster_links", "0"),
        ("mem_aof_buffer", "0"),
        ("mem_allocator", "libc"),
        ("active_defrag_running", "0"),
        ("lazyfree_pending_objects", "0"),
        ("lazyfreed_objects", "0"),
    ]);
    Ok(())
}

fn persistence(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    lines.add_all(&[
        ("loading", "0"),
        ("async_loading", "0"),
        ("current_cow_peak", "0"),
        ("current_cow_size", "0"),
        ("current_cow_size_age", "0"),
        ("current_fork_perc", "0.00"),
        ("current_save_keys_processed", "0"),
        ("current_save_keys_total", "0"),
        ("rdb_changes_since_last_save", "0"),
    ]);
    let saves = state.checkpoints.saves();
    let seconds = |seconds: Option<u64>| seconds.map_or("-1".into(), |seconds| seconds.to_string());
    let lasts_s = saves.began_s.map(|began_s| (state.now_us() / 1_000_000).saturating_sub(began_s));
    lines.add("rdb_bgsave_in_progress", u8::from(saves.began_s.is_some()));
    lines.add("rdb_last_save_time", saves.last_save_s);
    lines.add("rdb_last_bgsave_status", if saves.is_ok { "ok" } else { "err" });
    lines.add("rdb_last_bgsave_time_sec", seconds(saves.last_took_s));
    lines.add("rdb_current_bgsave_time_sec", seconds(lasts_s));
    lines.add("rdb_saves", saves.count);
    let directory = state.checkpoints.directory();
    lines.add("tidekv_checkpoint_directory", directory.unwrap_or(Path::new("")).display());
    lines.add_all(&[
        ("rdb_last_cow_size", "0"),
        ("rdb_last_load_keys_expired", "0"),
        ("rdb_last_load_keys_loaded", "0"),
        ("aof_enabled", "1"),
        ("aof_rewrite_in_progress", "0"),
        ("aof_rewrite_scheduled", "0"),
        ("aof_last_rewrite_time_sec", "-1"),
        ("aof_current_rewrite_time_sec", "-1"),
        ("aof_last_bgrewrite_status", "ok"),
        ("aof_rewrites", "0"),
        ("aof_rewrites_consecutive_failures", "0"),
    ]);
    // Failed flushes and compactions stop writes.
    let is_healthy = state.db.health().is_ok();
    lines.add("aof_last_write_status", if is_healthy { "ok" } else { "err" });
    lines.add_all(&[
        ("aof_last_cow_size", "0"),
        ("module_fork_in_progress", "0"),
        ("module_fork_last_cow_size", "0"),
    ]);
    lines.add(
        "tidekv_durability",
        match state.settings.durability() {
            Durability::Buffered => "buffered",
            Durability::Sync => "sync",
        },
    );
    Ok(())
}

fn stats(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    let counters = &state.counters;
    lines.add("total_connections_received", counters.connections.since_reset());
    lines.add("total_commands_processed", counters.commands.since_reset());
    lines.add("instantaneous_ops_per_sec", 0);
    lines.add("total_net_input_bytes", counters.input_bytes.since_reset());
    lines.add("total_net_output_bytes", counters.output_bytes.since_reset());
    lines.add_all(&[
        ("total_net_repl_input_bytes", "0"),
        ("total_net_repl_output_bytes", "0"),
        ("instantaneous_input_kbps", "0.00"),
        ("instantaneous_output_kbps", "0.00"),
        ("instantaneous_input_repl_kbps", "0.00"),
        ("instantaneous_output_repl_kbps", "0.00"),
    ]);
    lines.add("rejected_connections", counters.rejected_connections.since_reset());
    lines.add("tidekv_failed_authentications", state.guesses.failures());
    lines.add("tidekv_unauthenticated_disconnections", state.clients.closed_strangers());
    lines.add_all(&[("sync_full", "0"), ("sync_partial_ok", "0"), ("sync_partial_err", "0")]);
    lines.add("expired_keys", state.db.statistics().counter("compaction.entries_expired"));
    lines.add_all(&[
        ("expired_stale_perc", "0.00"),
        ("expired_time_cap_reached_count", "0"),
        ("expire_cycle_cpu_milliseconds", "0"),
        ("evicted_keys", "0"),
        ("evicted_clients", "0"),
        ("total_eviction_exceeded_time", "0"),
        ("current_eviction_exceeded_time", "0"),
    ]);
    lines.add("keyspace_hits", counters.hits.since_reset());
    lines.add("keyspace_misses", counters.misses.since_reset());
    lines.add_all(&[
        ("pubsub_channels", "0"),
        ("pubsub_patterns", "0"),
        ("pubsubshard_channels", "0"),
        ("latest_fork_usec", "0"),
        ("total_forks", "0"),
        ("migrate_cached_sockets", "0"),
        ("slave_expires_tracked_keys", "0"),
        ("active_defrag_hits", "0"),
        ("active_defrag_misses", "0"),
        ("active_defrag_key_hits", "0"),
        ("active_defrag_key_misses", "0"),
        ("total_active_defrag_time", "0"),
        ("current_active_defrag_time", "0"),
        ("tracking_total_keys", "0"),
        ("tracking_total_items", "0"),
        ("tracking_total_prefixes", "0"),
    ]);
    lines.add("unexpected_error_replies", counters.panics.since_reset());
    lines.add("total_error_replies", counters.failed_commands.since_reset());
    lines.add_all(&[
        ("dump_payload_sanitizations", "0"),
        ("total_reads_processed", "0"),
        ("total_writes_processed", "0"),
        ("io_threaded_reads_processed", "0"),
        ("io_threaded_writes_processed", "0"),
        ("reply_buffer_shrinks", "0"),
        ("reply_buffer_expands", "0"),
    ]);
    lines.add("tidekv_commands_from_memory", counters.loop_commands.since_reset());
    lines.add("tidekv_transaction_retries", counters.conflicts.since_reset());
    lines.add("tidekv_panics", counters.panics.since_reset());
    Ok(())
}

fn replication(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    lines.add_all(&[
        ("role", "master"),
        ("connected_slaves", "0"),
        ("master_failover_state", "no-failover"),
    ]);
    lines.add("master_replid", &state.run_id);
    lines.add_all(&[
        ("master_replid2", "0000000000000000000000000000000000000000"),
        ("master_repl_offset", "0"),
        ("second_repl_offset", "-1"),
        ("repl_backlog_active", "0"),
        ("repl_backlog_size", "1048576"),
        ("repl_backlog_first_byte_offset", "0"),
        ("repl_backlog_histlen", "0"),
    ]);
    Ok(())
}

/// All threads count as the main one.
fn cpu(_: &State, lines: &mut Lines) -> Result<(), CommandError> {
    let used = process::usage();
    for (name, user_s, system_s) in [
        ("", used.user_s, used.system_s),
        ("_children", 0.0, 0.0),
        ("_main_thread", used.user_s, used.system_s),
    ] {
        lines.add(&format!("used_cpu_sys{name}"), format_args!("{system_s:.6}"));
        lines.add(&format!("used_cpu_user{name}"), format_args!("{user_s:.6}"));
    }
    Ok(())
}

fn cluster(_: &State, lines: &mut Lines) -> Result<(), CommandError> {
    lines.add("cluster_enabled", 0);
    Ok(())
}

fn command_statistics(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    for command in lines.catalogue {
        let Some(number) = position(lines.catalogue, command) else { continue };
        let counted = state.command_statistics.counted(number);
        if counted.calls + counted.rejected > 0 {
            let per_call = counted.total_us as f64 / counted.calls.max(1) as f64;
            lines.add(
                &format!("cmdstat_{}", command.name),
                format_args!(
                    "calls={},usec={},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
                    counted.calls, counted.total_us, counted.rejected, counted.failed
                ),
            );
        }
    }
    Ok(())
}

fn latency_statistics(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    for command in lines.catalogue {
        let Some(number) = position(lines.catalogue, command) else { continue };
        let counted = state.command_statistics.counted(number);
        if counted.calls > 0 {
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| counted.quantile_us(share));
            lines.add(
                &format!("latency_percentiles_usec_{}", command.name),
                format_args!("p50={p50}.000,p99={p99}.000,p99.9={p999}.000"),
            );
        }
    }
    Ok(())
}

fn error_statistics(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    for (code, count) in &*state.counters.errors.lock() {
        lines.add(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
    Ok(())
}

/// Small databases are counted; the numbers of larger ones are estimates from random entries, at
/// most ten seconds old. `DBSIZE` is exact.
fn keyspace(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    let map = state.keyspaces.slot_map();
    for database in 0..DATABASES {
        let size = samples::size(state, map.slot(database))?;
        if size.keys > 0 {
            lines.add(
                &format!("db{database}"),
                format_args!(
                    "keys={},expires={},avg_ttl={}",
                    size.keys, size.expires, size.mean_ttl_ms
                ),
            );
        }
    }
    Ok(())
}

fn tidekv(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    let statistics = state.db.statistics();
    for (name, value) in &statistics.counters {
        lines.add(name, value);
    }
    for (name, latency) in &statistics.latencies {
        lines.add(
            name,
            format_args!(
                "count={},mean_ns={},p50_ns={},p99_ns={},p999_ns={}",
                latency.count, latency.mean_ns, latency.p50_ns, latency.p99_ns, latency.p999_ns
            ),
        );
    }
    Ok(())
}

fn curves(state: &State, lines: &mut Lines) -> Result<(), CommandError> {
    forecast::each(state, |name, number| lines.add(name, number));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_in_redis() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (966_448, "943.80K"),
            (25_276_514_304, "23.54G"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
