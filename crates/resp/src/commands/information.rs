//! `INFO`: sections of lines, with Redis's names where Redis has the field, and all counters of the
//! store under `# TideKV`.

use std::fmt::Write;

use bytes::Bytes;
use tidekv::Durability;

use crate::commands::errors::is_word;
use crate::commands::session::REDIS_VERSION;
use crate::data::execution::Execution;
use crate::protocol::reply::{CommandResult, Reply};
use crate::state::forecast;
use crate::state::keyspaces::{DATABASES, Space};
use crate::state::server_state::State;

/// A section: its name and the function that writes its lines.
type Section = (&'static str, fn(&State, &mut Lines));

static SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Keyspace", keyspace),
    ("TideKV", tidekv),
];

/// Long, so it is returned only if requested by name.
const CURVES: Section = ("Mrc", curves);

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.0, "{name}:{value}\r\n");
    }
}

pub(crate) fn info(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let everything = ["all", "default", "everything"];
    let is_wanted = |name: &str| {
        arguments.is_empty()
            || arguments.iter().any(|argument| {
                is_word(argument, name) || everything.iter().any(|all| is_word(argument, all))
            })
    };
    let mut lines = Lines::default();
    let is_named = |name: &str| arguments.iter().any(|argument| is_word(argument, name));
    let long =
        [CURVES].into_iter().filter(|(name, _)| is_named(name)).map(|section| (section, true));
    let all = SECTIONS.into_iter().map(|section| (section, is_wanted(section.0)));
    for ((name, write_lines), is_wanted) in all.chain(long) {
        if is_wanted {
            let gap = if lines.0.is_empty() { "" } else { "\r\n" };
            let _ = write!(lines.0, "{gap}# {name}\r\n");
            write_lines(execution.state, &mut lines);
        }
    }
    Ok(Reply::Verbatim(lines.0))
}

fn server(state: &State, lines: &mut Lines) {
    let uptime_s = state.now_ms().saturating_sub(state.started_ms) / 1000;
    lines.add("redis_version", REDIS_VERSION);
    lines.add("redis_mode", "standalone");
    lines.add("tidekv_version", env!("CARGO_PKG_VERSION"));
    lines.add("os", std::env::consts::OS);
    lines.add("arch_bits", usize::BITS);
    lines.add("process_id", std::process::id());
    lines.add("tcp_port", state.port);
    lines.add("uptime_in_seconds", uptime_s);
    lines.add("uptime_in_days", uptime_s / 86_400);
    lines.add("io_threads", state.settings.io_threads);
}

fn clients(state: &State, lines: &mut Lines) {
    lines.add("connected_clients", state.clients.len());
    lines.add("maxclients", state.settings.connections_max());
    lines.add("blocked_clients", 0);
    lines.add("tidekv_request_buffer_bytes", state.memory.budget().used_bytes());
}

fn memory(state: &State, lines: &mut Lines) {
    let statistics = state.db.statistics();
    let parts = ["memory.memtable_bytes", "memory.metadata_bytes", "memory.cache_bytes"];
    lines.add("used_memory", parts.iter().map(|part| statistics.counter(part)).sum::<u64>());
    lines.add("maxmemory", state.db.memory_bytes());
    lines.add("maxmemory_policy", "noeviction");
}

fn persistence(state: &State, lines: &mut Lines) {
    lines.add("loading", 0);
    lines.add("aof_enabled", 1);
    lines.add("rdb_bgsave_in_progress", 0);
    lines.add(
        "tidekv_durability",
        match state.settings.durability() {
            Durability::Buffered => "buffered",
            Durability::Sync => "sync",
        },
    );
}

fn stats(state: &State, lines: &mut Lines) {
    let counters = &state.counters;
    lines.add("total_connections_received", counters.connections.get());
    lines.add("total_commands_processed", counters.commands.get());
    lines.add("total_net_input_bytes", counters.input_bytes.get());
    lines.add("total_net_output_bytes", counters.output_bytes.get());
    lines.add("rejected_connections", counters.rejected_connections.get());
    lines.add("keyspace_hits", counters.hits.get());
    lines.add("keyspace_misses", counters.misses.get());
    lines.add("total_error_replies", counters.failed_commands.get());
    lines.add("tidekv_commands_from_memory", counters.loop_commands.get());
    lines.add("tidekv_transaction_retries", counters.conflicts.get());
    lines.add("tidekv_panics", counters.panics.get());
}

fn replication(_: &State, lines: &mut Lines) {
    lines.add("role", "master");
    lines.add("connected_slaves", 0);
}

/// The number of keys is the store's estimate: overwritten and deleted entries
/// count until they are compacted. `DBSIZE` is exact.
fn keyspace(state: &State, lines: &mut Lines) {
    let map = state.keyspaces.slot_map();
    for database in 0..DATABASES {
        let len = |space| {
            let keyspace = state.keyspaces.get(map.slot(database), space);
            keyspace.map_or(0, tidekv::Keyspace::approximate_len)
        };
        let keys = len(Space::Strings) + len(Space::Hashes);
        if keys > 0 {
            lines.add(&format!("db{database}"), format_args!("keys={keys},expires=0,avg_ttl=0"));
        }
    }
}

fn tidekv(state: &State, lines: &mut Lines) {
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
}

fn curves(state: &State, lines: &mut Lines) {
    forecast::each(state, |name, number| lines.add(name, number));
}
