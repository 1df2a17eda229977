//! Commands that increment and decrement numbers in strings.

use bytes::Bytes;

use crate::commands::errors::{NOT_AN_INTEGER, OVERFLOW, integer};
use crate::data::execution::Execution;
use crate::data::values;
use crate::protocol::number::{Decimal, integer_text, parse_i64};
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::keyspaces::Space;

pub(crate) const NOT_A_FLOAT: CommandError = CommandError::text("ERR value is not a valid float");
pub(crate) const NOT_FINITE: CommandError =
    CommandError::text("ERR increment would produce NaN or Infinity");

fn add(execution: &mut Execution<'_>, key: &Bytes, delta: i64) -> CommandResult {
    let string = values::find_string(execution, key)?;
    let (number, deadline) = match &string {
        None => (0, None),
        Some(string) => {
            (parse_i64(string.number_text()).ok_or(NOT_AN_INTEGER)?, string.expires_at_ms())
        }
    };
    let sum = number.checked_add(delta).ok_or(OVERFLOW)?;
    execution.put(Space::Strings, key.clone(), integer_text(sum), deadline)?;
    Ok(Reply::Integer(sum))
}

pub(crate) fn incr(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    add(execution, &arguments[0], 1)
}

pub(crate) fn decr(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    add(execution, &arguments[0], -1)
}

pub(crate) fn incrby(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    add(execution, &arguments[0], integer(&arguments[1])?)
}

pub(crate) fn decrby(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let delta = integer(&arguments[1])?
        .checked_neg()
        .ok_or(CommandError::text("ERR decrement would overflow"))?;
    add(execution, &arguments[0], delta)
}

pub(crate) fn incrbyfloat(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let key = &arguments[0];
    let string = values::find_string(execution, key)?;
    let (number, deadline) = match &string {
        None => (Decimal::Fixed(0), None),
        Some(string) => {
            (Decimal::parse(string.number_text()).ok_or(NOT_A_FLOAT)?, string.expires_at_ms())
        }
    };
    let delta = Decimal::parse(&arguments[1]).ok_or(NOT_A_FLOAT)?;
    let sum = number.checked_add(delta).ok_or(NOT_FINITE)?.to_string();
    let sum = Bytes::from(sum);
    execution.put(Space::Strings, key.clone(), sum.clone(), deadline)?;
    Ok(Reply::Bulk(sum))
}
