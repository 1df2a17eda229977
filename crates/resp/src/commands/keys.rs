//! Commands on keys of any type.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::commands::errors::{DB_OUT_OF_RANGE, NO_SUCH_KEY, SYNTAX, integer, is_word, operand};
use crate::data::execution::Execution;
use crate::data::values::{self, Value};
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::keyspaces::Space;

pub(crate) fn del(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let mut removed = 0;
    // A command does not see its own writes: a repeated key must not count twice.
    for key in arguments.iter().collect::<BTreeSet<_>>() {
        removed += usize::from(values::remove(execution, key)?);
    }
    Ok(Reply::count(removed))
}

pub(crate) fn exists(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let mut found = 0;
    for key in arguments {
        found += usize::from(values::find(execution, key)?.is_some());
    }
    Ok(Reply::count(found))
}

pub(crate) fn type_of(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    Ok(Reply::Simple(match values::find(execution, &arguments[0])? {
        None => "none",
        Some(Value::String(_)) => "string",
        Some(Value::Hash(_)) => "hash",
    }))
}

fn move_value(
    execution: &mut Execution<'_>,
    value: Value,
    from: &Bytes,
    to: &Bytes,
) -> Result<(), CommandError> {
    values::remove(execution, to)?;
    match value {
        Value::String(entry) => {
            execution.delete(Space::Strings, from.clone())?;
            execution.put(Space::Strings, to.clone(), entry.value, entry.expires_at_ms)
        }
        Value::Hash(hash) => hash.rename(execution, from, to),
    }
}

pub(crate) fn rename(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (from, to) = (&arguments[0], &arguments[1]);
    let value = values::find(execution, from)?.ok_or(NO_SUCH_KEY)?;
    if from != to {
        move_value(execution, value, from, to)?;
    }
    Ok(Reply::OK)
}

pub(crate) fn renamenx(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (from, to) = (&arguments[0], &arguments[1]);
    let value = values::find(execution, from)?.ok_or(NO_SUCH_KEY)?;
    if values::find(execution, to)?.is_some() {
        return Ok(Reply::Integer(0));
    }
    move_value(execution, value, from, to)?;
    Ok(Reply::Integer(1))
}

pub(crate) fn copy(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (from, to) = (&arguments[0], &arguments[1]);
    let mut replaces = false;
    let mut options = arguments[2..].iter();
    while let Some(option) = options.next() {
        if is_word(option, "REPLACE") {
            replaces = true;
        } else if is_word(option, "DB") {
            if integer(operand(&mut options)?)? != 0 {
                return Err(DB_OUT_OF_RANGE);
            }
        } else {
            return Err(SYNTAX);
        }
    }
    if from == to {
        return Err(CommandError::text("ERR source and destination objects are the same"));
    }
    let Some(value) = values::find(execution, from)? else {
        return Ok(Reply::Integer(0));
    };
    if !replaces && values::find(execution, to)?.is_some() {
        return Ok(Reply::Integer(0));
    }
    values::remove(execution, to)?;
    match value {
        Value::String(entry) => {
            execution.put(Space::Strings, to.clone(), entry.value, entry.expires_at_ms)?;
        }
        Value::Hash(hash) => hash.copy(execution, to)?,
    }
    Ok(Reply::Integer(1))
}

fn flush(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    match arguments {
        [] => {}
        [mode] if is_word(mode, "SYNC") || is_word(mode, "ASYNC") => {}
        _ => return Err(SYNTAX),
    }
    execution.delete_all()?;
    Ok(Reply::OK)
}

pub(crate) fn flushdb(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    flush(execution, arguments)
}

pub(crate) fn flushall(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    flush(execution, arguments)
}
