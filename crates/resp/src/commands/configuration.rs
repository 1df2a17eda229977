//! `CONFIG GET` and `CONFIG SET`: the settings under Redis's names, as one flat list of records; a
//! settable one has a function that sets it. Parameters of Redis without an effect here:
//! [`redis_parameters`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use tidekv::Durability;
use tidekv_net::password::Password;

use crate::commands::errors::SYNTAX;
use crate::commands::redis_parameters::{self, REDIS_PARAMETERS, Takes, parse_memory};
use crate::data::execution::Execution;
use crate::protocol::glob;
use crate::protocol::number::parse_i64;
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::keyspaces::DATABASES;
use crate::state::server_state::State;

/// Applies a checked value to the settings.
type Apply = Box<dyn FnOnce(&State)>;

/// Checks a value; the error is the reason of a rejection.
type Check = fn(&str) -> Result<Apply, String>;

struct Parameter {
    name: &'static str,
    get: fn(&State) -> String,
    /// `None`: read-only.
    set: Option<Check>,
}

/// The parameters with an effect, in the order of names. `save`, `appendonly` and `databases`
/// express fixed properties in Redis's terms: no dumps, always a log, a number of databases.
/// `checkpoint-dir` has the name of its flag, as Redis has none for it. It cannot be set: a client
/// that could would write where it likes.
static PARAMETERS: [Parameter; 15] = [
    Parameter { name: "appendfsync", get: |state| sync_word(state).into(), set: Some(set_sync) },
    Parameter { name: "appendonly", get: |_| "yes".into(), set: Some(set_log) },
    Parameter { name: "checkpoint-dir", get: checkpoint_directory, set: None },
    Parameter { name: "databases", get: |_| DATABASES.to_string(), set: None },
    Parameter { name: "io-threads", get: |state| state.settings.io_threads.to_string(), set: None },
    Parameter {
        name: "latency-monitor-threshold",
        get: |state| state.settings.latency_threshold_ms().to_string(),
        set: Some(set_latency_threshold),
    },
    Parameter {
        name: "maxclients",
        get: |state| state.settings.connections_max().to_string(),
        set: Some(set_connections_max),
    },
    Parameter {
        name: "maxmemory",
        get: |state| state.db.memory_bytes().to_string(),
        set: Some(set_memory),
    },
    Parameter { name: "port", get: |state| state.port.to_string(), set: None },
    Parameter {
        name: "proto-max-bulk-len",
        get: |state| state.memory.request_bytes_max().to_string(),
        set: None,
    },
    // The client has authenticated, but must not learn a password that may be used elsewhere.
    Parameter { name: "requirepass", get: |_| String::new(), set: Some(set_password) },
    Parameter { name: "save", get: |_| String::new(), set: Some(set_dumps) },
    Parameter {
        name: "slowlog-log-slower-than",
        get: |state| state.settings.slow_log_us().to_string(),
        set: Some(set_slow_log_us),
    },
    Parameter {
        name: "slowlog-max-len",
        get: |state| state.settings.slow_log_len().to_string(),
        set: Some(set_slow_log_len),
    },
    Parameter {
        name: "timeout",
        get: |state| state.settings.idle_timeout().map_or(0, |t| t.as_secs()).to_string(),
        set: Some(set_timeout),
    },
];

const NO_INTEGER: &str = "argument couldn't be parsed into an integer";

/// The smallest memory budget of a store.
const MEMORY_BYTES_MIN: u64 = 8 << 20;

/// Empty: there are no checkpoints.
fn checkpoint_directory(state: &State) -> String {
    state.checkpoints.directory().map_or(String::new(), |path| path.display().to_string())
}

fn sync_word(state: &State) -> &'static str {
    match state.settings.durability() {
        Durability::Sync => "always",
        Durability::Buffered => "no",
    }
}

fn set_sync(value: &str) -> Result<Apply, String> {
    let durability = match value {
        "always" => Durability::Sync,
        "no" => Durability::Buffered,
        _ => return Err("argument(s) must be one of the following: always, no".into()),
    };
    Ok(Box::new(move |state| state.settings.set_durability(durability)))
}

fn set_connections_max(value: &str) -> Result<Apply, String> {
    let connections = number(value, 1, u64::from(u32::MAX))? as usize;
    Ok(Box::new(move |state| state.settings.set_connections_max(connections)))
}

/// A budget below the smallest one of a store becomes that; 0, no limit in Redis, changes nothing.
fn set_memory(value: &str) -> Result<Apply, String> {
    let bytes = parse_memory(value).ok_or("argument must be a memory value")?;
    Ok(Box::new(move |state| match bytes {
        0 => tracing::info!("CONFIG SET maxmemory 0 has no effect: a store has a memory budget"),
        1..MEMORY_BYTES_MIN => {
            tracing::warn!("CONFIG SET maxmemory {bytes}: the budget is {MEMORY_BYTES_MIN} bytes");
            state.memory.set_total_bytes(MEMORY_BYTES_MIN);
        }
        _ => state.memory.set_total_bytes(bytes),
    }))
}

fn set_log(value: &str) -> Result<Apply, String> {
    let value = Takes::YesNo.check(value)?;
    Ok(Box::new(move |_| {
        if value == "no" {
            tracing::info!("CONFIG SET appendonly no has no effect: writes are always logged");
        }
    }))
}

fn set_dumps(value: &str) -> Result<Apply, String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let are_numbers = words.iter().all(|word| word.parse::<u32>().is_ok());
    if !are_numbers || !words.len().is_multiple_of(2) {
        return Err("Invalid save parameters".into());
    }
    Ok(Box::new(move |_| {
        tracing::info!("CONFIG SET save has no effect: the store writes no dumps");
    }))
}

fn set_slow_log_us(value: &str) -> Result<Apply, String> {
    let us = integer(value, -1)?;
    Ok(Box::new(move |state| state.settings.set_slow_log_us(us)))
}

fn set_slow_log_len(value: &str) -> Result<Apply, String> {
    let len = usize::try_from(integer(value, 0)?).unwrap_or(usize::MAX);
    Ok(Box::new(move |state| state.settings.set_slow_log_len(len)))
}

fn set_latency_threshold(value: &str) -> Result<Apply, String> {
    let ms = integer(value, 0)? as u64;
    Ok(Box::new(move |state| state.settings.set_latency_threshold_ms(ms)))
}

/// An integer of at least `low`.
fn integer(value: &str, low: i64) -> Result<i64, String> {
    let number = parse_i64(value.as_bytes()).ok_or(NO_INTEGER)?;
    match number >= low {
        true => Ok(number),
        false => Err(format!("argument must be between {low} and {} inclusive", i64::MAX)),
    }
}

fn set_password(value: &str) -> Result<Apply, String> {
    let password = match value {
        "" => None,
        text => Some(Password::new(text).ok_or("a password has at most 512 bytes")?),
    };
    Ok(Box::new(move |state| state.settings.set_password(password)))
}

fn set_timeout(value: &str) -> Result<Apply, String> {
    let seconds = number(value, 0, u64::from(u32::MAX))?;
    let timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
    Ok(Box::new(move |state| state.settings.set_idle_timeout(timeout)))
}

fn number(value: &str, low: u64, high: u64) -> Result<u64, String> {
    let number = parse_i64(value.as_bytes()).ok_or(NO_INTEGER)?;
    match u64::try_from(number).ok().filter(|number| (low..=high).contains(number)) {
        Some(number) => Ok(number),
        None => Err(format!("argument must be between {low} and {high} inclusive")),
    }
}

pub(crate) fn get(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let patterns: Vec<_> = arguments.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    let is_wanted =
        |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes()));
    let state = execution.state;
    let mut found: BTreeMap<&'static str, String> = BTreeMap::new();
    for (name, _, _) in REDIS_PARAMETERS.iter().filter(|known| is_wanted(known.0)) {
        found.insert(name, redis_parameters::value(&state.settings, name).unwrap_or_default());
    }
    for parameter in PARAMETERS.iter().filter(|known| is_wanted(known.name)) {
        found.insert(parameter.name, (parameter.get)(state));
    }
    let pair = |(name, value)| (Reply::word(name), Reply::text(value));
    Ok(Reply::Map(found.into_iter().map(pair).collect()))
}

fn find(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

fn is_known(name: &str) -> bool {
    find(name).is_some() || redis_parameters::find(name).is_some()
}

/// Checks a new value of the known parameter `name`; returns how to apply it.
fn change(name: &str, value: &str) -> Result<Apply, String> {
    const FIXED: &str = "can't set immutable config";
    if let Some(parameter) = find(name) {
        return parameter.set.ok_or(FIXED)?(value);
    }
    let &(name, _, takes) = redis_parameters::find(name).ok_or(FIXED)?;
    let apply = |value: String| -> Apply {
        Box::new(move |state| {
            tracing::info!("CONFIG SET {name} is accepted and has no effect");
            state.settings.set_without_effect(name, value);
        })
    };
    takes.check(value).map(apply)
}

/// Sets all of the parameters, or none if one value is rejected.
pub(crate) fn set(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if !arguments.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let names = || arguments.iter().step_by(2).map(|name| String::from_utf8_lossy(name));
    let refuse = |name: &str, why: &str| {
        CommandError::from(format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
        ))
    };
    let mut seen = BTreeSet::new();
    for name in names() {
        if !is_known(&name) {
            return Err(CommandError::from(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )));
        }
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err(refuse(&name, "duplicate parameter"));
        }
    }
    let mut changes = Vec::new();
    for (name, value) in names().zip(arguments.iter().skip(1).step_by(2)) {
        let value = std::str::from_utf8(value).map_err(|_| refuse(&name, "argument is no text"))?;
        changes.push(change(&name, value).map_err(|why| refuse(&name, &why))?);
    }
    for apply in changes {
        apply(execution.state);
    }
    Ok(Reply::OK)
}

pub(crate) fn resetstat(execution: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    execution.state.reset_counters();
    Ok(Reply::OK)
}

pub(crate) fn rewrite(_: &mut Execution<'_>, _: &[Bytes]) -> CommandResult {
    Err(CommandError::text("ERR The server is running without a config file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sorted() {
        assert!(PARAMETERS.is_sorted_by(|a, b| a.name < b.name));
        let fixed = ["port", "proto-max-bulk-len"];
        let is_twice = |known: &&Parameter| redis_parameters::find(known.name).is_some();
        let twice: Vec<_> = PARAMETERS.iter().filter(is_twice).map(|known| known.name).collect();
        assert!(twice.iter().all(|name| fixed.contains(name)), "{twice:?}");
    }

    #[test]
    fn values_out_of_bounds_are_rejected() {
        for (set, value) in [
            (set_sync as Check, "everysec"),
            (set_connections_max, "0"),
            (set_memory, "much"),
            (set_timeout, "-1"),
            (set_timeout, "soon"),
        ] {
            assert!(set(value).is_err(), "{value}");
        }
        assert!(set_password(&"x".repeat(513)).is_err());
    }
}
