//! Commands that show what the server does: `SLOWLOG`, `LATENCY`, `MEMORY` and `TIME`.

use bytes::Bytes;

use crate::commands::command::{Command, position};
use crate::commands::errors::is_word;
use crate::data::execution::Execution;
use crate::protocol::number::parse_i64;
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::keyspaces::{DATABASES, Space};
use crate::state::latency_monitor::Sample;
use crate::state::slow_log::SlowCommand;

/// The default number of entries of `SLOWLOG GET`.
const SLOW_COMMANDS_DEFAULT: i64 = 10;

pub(crate) fn time(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    let now_us = execution.state.now_us();
    let text = |number: u64| Reply::text(number.to_string());
    Ok(Reply::Array(vec![text(now_us / 1_000_000), text(now_us % 1_000_000)]))
}

pub(crate) fn slowlog_get(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let count = match arguments.first() {
        None => SLOW_COMMANDS_DEFAULT,
        Some(count) => parse_i64(count)
            .filter(|&count| count >= -1)
            .ok_or(CommandError::text("ERR count should be greater than or equal to -1"))?,
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let entry = |slow: SlowCommand| {
        Reply::Array(vec![
            number(slow.id),
            number(slow.unix_s),
            number(slow.took_us),
            Reply::Array(slow.arguments.into_iter().map(Reply::Bulk).collect()),
            Reply::text(slow.address),
            Reply::Bulk(slow.name),
        ])
    };
    Ok(Reply::Array(execution.state.slow_log.newest(count).into_iter().map(entry).collect()))
}

pub(crate) fn slowlog_len(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    Ok(Reply::count(execution.state.slow_log.count()))
}

pub(crate) fn slowlog_reset(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    execution.state.slow_log.reset();
    Ok(Reply::OK)
}

fn number(number: u64) -> Reply {
    Reply::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn name_of(event: &Bytes) -> String {
    String::from_utf8_lossy(event).into_owned()
}

pub(crate) fn latency_latest(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    let latest = execution.state.latency_monitor.latest().into_iter();
    let event = |(name, last, longest_ms): (&'static str, Sample, u64)| {
        let numbers = [last.unix_s, last.ms, longest_ms].map(number);
        Reply::Array([Reply::word(name)].into_iter().chain(numbers).collect())
    };
    Ok(Reply::Array(latest.map(event).collect()))
}

pub(crate) fn latency_history(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let samples = execution.state.latency_monitor.history(&name_of(&arguments[0]));
    let pair = |sample: Sample| Reply::Array(vec![number(sample.unix_s), number(sample.ms)]);
    Ok(Reply::Array(samples.into_iter().map(pair).collect()))
}

pub(crate) fn latency_reset(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let is_named = |name: &str| arguments.iter().any(|event| is_word(event, name));
    let forgotten =
        execution.state.latency_monitor.reset(|name| arguments.is_empty() || is_named(name));
    Ok(Reply::count(forgotten))
}

pub(crate) fn latency_doctor(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    let state = execution.state;
    let threshold_ms = state.settings.latency_threshold_ms();
    if threshold_ms == 0 {
        return Ok(Reply::Verbatim(
            "The latency monitor is off. Switch it on with CONFIG SET latency-monitor-threshold \
             <milliseconds>.\n"
                .into(),
        ));
    }
    let mut report = format!("Delays of at least {threshold_ms} ms:\n");
    let latest = state.latency_monitor.latest();
    if latest.is_empty() {
        report = format!("No delay of {threshold_ms} ms or more was seen.\n");
    }
    for (name, last, longest_ms) in latest {
        let samples = state.latency_monitor.history(name);
        let mean =
            samples.iter().map(|sample| sample.ms).sum::<u64>() / samples.len().max(1) as u64;
        report += &format!(
            "- {name}: {} samples, mean {mean} ms, longest {longest_ms} ms, last {} ms at {}\n",
            samples.len(),
            last.ms,
            last.unix_s
        );
    }
    report +=
        "SLOWLOG GET shows the slow commands, INFO TideKV the reads and stalls of the store.\n";
    Ok(Reply::Verbatim(report))
}

pub(crate) fn latency_histogram(
    execution: &mut Execution<'_>,
    catalogue: &'static [Command],
    arguments: &[Bytes],
) -> CommandResult {
    let is_wanted = |command: &&Command| {
        arguments.is_empty()
            || arguments.iter().any(|name| {
                let container = command.name.split('|').next().unwrap_or_default();
                is_word(name, command.name) || is_word(name, container)
            })
    };
    let histogram = |command: &'static Command| {
        let number_of = position(catalogue, command)?;
        let counted = execution.state.command_statistics.counted(number_of);
        let buckets = counted.cumulative().into_iter().map(|(us, n)| (number(us), number(n)));
        let facts = vec![
            (Reply::word("calls"), number(counted.calls)),
            (Reply::word("histogram_usec"), Reply::Map(buckets.collect())),
        ];
        (counted.calls > 0).then(|| (Reply::word(command.name), Reply::Map(facts)))
    };
    Ok(Reply::Map(catalogue.iter().filter(is_wanted).filter_map(histogram).collect()))
}

pub(crate) fn memory_doctor(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    let statistics = execution.state.db.statistics();
    let parts = ["memory.memtable_bytes", "memory.metadata_bytes", "memory.cache_bytes"];
    let used: u64 = parts.iter().map(|part| statistics.counter(part)).sum();
    let budget = execution.state.db.memory_bytes();
    let metadata = statistics.counter("memory.metadata_bytes");
    let mut report = format!("The store uses {used} of {budget} bytes.\n");
    if used > budget {
        report += "That is more than its budget: the metadata of open tables and the memtables \
                   need it. Raise maxmemory.\n";
    } else if metadata > budget / 2 {
        report += "More than half of the budget is metadata of open tables: little is left for \
                   caches. Raise maxmemory.\n";
    } else {
        report += "No problem was found.\n";
    }
    Ok(Reply::Verbatim(report))
}

pub(crate) fn memory_stats(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    let state = execution.state;
    let statistics = state.db.statistics();
    let of = |name| statistics.counter(name);
    let caches = of("memory.cache_bytes");
    let overhead = of("memory.memtable_bytes") + of("memory.metadata_bytes");
    let requests = state.memory.used_bytes() as u64;
    let keys: u64 = (0..DATABASES)
        .filter_map(|database| {
            let slot = state.keyspaces.slot_map().slot(database);
            state.keyspaces.get(slot, Space::Strings)
        })
        .map(tidekv::Keyspace::approximate_len)
        .sum();
    let total = caches + overhead;
    let facts = [
        ("peak.allocated", total),
        ("total.allocated", total),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", requests),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", 0),
        ("functions.caches", 0),
        ("overhead.total", overhead),
        ("keys.count", keys),
        ("dataset.bytes", caches),
    ];
    let pairs = facts.into_iter().map(|(name, value)| (Reply::word(name), number(value)));
    Ok(Reply::Map(pairs.collect()))
}

pub(crate) fn memory_purge(_: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    // As Redis without jemalloc: the allocator is not the server's.
    Ok(Reply::OK)
}

pub(crate) fn memory_malloc_stats(_: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    Ok(Reply::Verbatim("Stats not supported for the current allocator".into()))
}
