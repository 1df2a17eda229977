//! Commands on keys of any type.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::commands::errors::{
    DB_OUT_OF_RANGE, NO_SUCH_KEY, SYNTAX, database_number, is_word, operand,
};
use crate::data::execution::Execution;
use crate::data::head;
use crate::data::values::{self, Value};
use crate::protocol::number::parse_i64;
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::keyspaces::{DATABASES, Space};

const SAME_OBJECT: CommandError =
    CommandError::text("ERR source and destination objects are the same");

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
    let value = values::find(execution, &arguments[0])?;
    Ok(Reply::Simple(value.map_or("none", |value| value.type_name())))
}

fn move_value(
    execution: &mut Execution<'_>,
    value: Value,
    from: &Bytes,
    to: &Bytes,
) -> Result<(), CommandError> {
    values::remove(execution, to)?;
    values::rename(execution, value, from, to)
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
    let (mut replaces, mut database) = (false, execution.database());
    let mut options = arguments[2..].iter();
    while let Some(option) = options.next() {
        if is_word(option, "REPLACE") {
            replaces = true;
        } else if is_word(option, "DB") {
            database = database_number(operand(&mut options)?)?;
        } else {
            return Err(SYNTAX);
        }
    }
    if from == to && database == execution.database() {
        return Err(SAME_OBJECT);
    }
    let Some(value) = values::find(execution, from)? else {
        return Ok(Reply::Integer(0));
    };
    if !replaces && execution.within(database, |execution| values::find(execution, to))?.is_some() {
        return Ok(Reply::Integer(0));
    }
    execution.within(database, |execution| values::remove(execution, to))?;
    values::copy(execution, value, to, database)?;
    Ok(Reply::Integer(1))
}

pub(crate) fn move_key(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let key = &arguments[0];
    let database = database_number(&arguments[1])?;
    if database == execution.database() {
        return Err(SAME_OBJECT);
    }
    let Some(value) = values::find(execution, key)? else {
        return Ok(Reply::Integer(0));
    };
    if execution.within(database, |execution| values::find(execution, key))?.is_some() {
        return Ok(Reply::Integer(0));
    }
    values::move_to(execution, value, key, database)?;
    Ok(Reply::Integer(1))
}

pub(crate) fn swapdb(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let invalid = [
        CommandError::text("ERR invalid first DB index"),
        CommandError::text("ERR invalid second DB index"),
    ];
    let numbers = arguments.iter().zip(invalid).map(|(argument, error)| {
        parse_i64(argument).filter(|number| i32::try_from(*number).is_ok()).ok_or(error)
    });
    let numbers = numbers.collect::<Result<Vec<i64>, _>>()?;
    let database = |number| usize::try_from(number).ok().filter(|number| *number < DATABASES);
    let (a, b) = (numbers[0], numbers[1]);
    let (a, b) = (database(a).ok_or(DB_OUT_OF_RANGE)?, database(b).ok_or(DB_OUT_OF_RANGE)?);
    if a != b {
        execution.swap_databases(a, b)?;
    }
    Ok(Reply::OK)
}

/// Checks the options of `FLUSHDB` and `FLUSHALL`.
fn check_flush(arguments: &[Bytes]) -> Result<(), CommandError> {
    match arguments {
        [] => Ok(()),
        [mode] if is_word(mode, "SYNC") || is_word(mode, "ASYNC") => Ok(()),
        _ => Err(SYNTAX),
    }
}

pub(crate) fn flushdb(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    check_flush(arguments)?;
    execution.delete_space(Space::Strings)?;
    head::remove_all(execution)?;
    Ok(Reply::OK)
}

pub(crate) fn flushall(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    check_flush(arguments)?;
    execution.delete_all()?;
    Ok(Reply::OK)
}
