//! `CONFIG GET` and `CONFIG SET`: the settings under Redis's names, as one flat list of records; a
//! settable one has a function that sets it.

use std::time::Duration;

use bytes::Bytes;
use tidekv::Durability;
use tidekv_net::password::Password;

use crate::commands::errors::{is_word, wrong_arity};
use crate::data::execution::Execution;
use crate::protocol::glob;
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

/// The parameters in the order of the output. `save`, `appendonly` and `databases` express fixed
/// properties in Redis's terms: no dumps, always a log, a number of databases.
static PARAMETERS: [Parameter; 11] = [
    Parameter { name: "appendfsync", get: |state| sync_word(state).into(), set: Some(set_sync) },
    Parameter { name: "appendonly", get: |_| "yes".into(), set: None },
    Parameter { name: "databases", get: |_| DATABASES.to_string(), set: None },
    Parameter { name: "io-threads", get: |state| state.settings.io_threads.to_string(), set: None },
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
    Parameter { name: "save", get: |_| String::new(), set: None },
    Parameter {
        name: "timeout",
        get: |state| state.settings.idle_timeout().map_or(0, |t| t.as_secs()).to_string(),
        set: Some(set_timeout),
    },
];

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

fn set_memory(value: &str) -> Result<Apply, String> {
    let bytes = number(value, 8 << 20, u64::MAX)?;
    Ok(Box::new(move |state| state.memory.set_total_bytes(bytes)))
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
    let number: u64 = value.parse().map_err(|_| "argument couldn't be parsed into an integer")?;
    match (low..=high).contains(&number) {
        true => Ok(number),
        false => Err(format!("argument must be between {low} and {high} inclusive")),
    }
}

pub(crate) fn get(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let patterns: Vec<_> = arguments.iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    let is_wanted = |parameter: &&Parameter| {
        patterns.iter().any(|pattern| glob::matches(pattern, parameter.name.as_bytes()))
    };
    let pair = |parameter: &Parameter| {
        (Reply::word(parameter.name), Reply::text((parameter.get)(execution.state)))
    };
    Ok(Reply::Map(PARAMETERS.iter().filter(is_wanted).map(pair).collect()))
}

/// Sets all of the parameters, or none if one value is rejected.
pub(crate) fn set(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if !arguments.len().is_multiple_of(2) {
        return Err(wrong_arity("config|set"));
    }
    let mut changes = Vec::new();
    for pair in arguments.chunks_exact(2) {
        let name = String::from_utf8_lossy(&pair[0]);
        let Some(parameter) = PARAMETERS.iter().find(|known| is_word(&pair[0], known.name)) else {
            return Err(CommandError::from(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )));
        };
        let refuse = |why: &str| {
            CommandError::from(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
            ))
        };
        let set = parameter.set.ok_or_else(|| refuse("can't set immutable config"))?;
        let value = std::str::from_utf8(&pair[1]).map_err(|_| refuse("argument is no text"))?;
        changes.push(set(value).map_err(|why| refuse(&why))?);
    }
    for apply in changes {
        apply(execution.state);
    }
    Ok(Reply::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sorted() {
        assert!(PARAMETERS.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn values_out_of_bounds_are_rejected() {
        for (set, value) in [
            (set_sync as Check, "everysec"),
            (set_connections_max, "0"),
            (set_memory, "1"),
            (set_timeout, "-1"),
            (set_timeout, "soon"),
        ] {
            assert!(set(value).is_err(), "{value}");
        }
        assert!(set_password(&"x".repeat(513)).is_err());
    }
}
