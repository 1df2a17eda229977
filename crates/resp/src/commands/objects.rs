//! Commands on the values of keys as objects: how they are stored, and the memory they take.
//!
//! A value is stored in one way, so `OBJECT ENCODING` says how Redis would store it: a string by
//! its content, a hash by the settings `hash-max-listpack-entries` and `-value`. `MEMORY USAGE` is
//! the memory of the value in the value cache.

use bytes::Bytes;

use crate::commands::errors::{SYNTAX, integer, is_word};
use crate::commands::redis_parameters;
use crate::data::execution::Execution;
use crate::data::hash::{Hash, PageLimits};
use crate::data::values::{self, Value};
use crate::protocol::number::parse_i64;
use crate::protocol::reply::{CommandError, CommandResult, Reply};

/// The longest string that Redis stores with its header.
const EMBEDDED_BYTES_MAX: usize = 44;

/// Memory of an entry in addition to its key and value: that of the value cache.
const ENTRY_BYTES: usize = 32;

/// Fields of a hash whose sizes `MEMORY USAGE` adds up by default; the others count as the mean.
const SAMPLES_DEFAULT: i64 = 5;

fn find(execution: &mut Execution<'_>, key: &Bytes) -> Result<Option<Value>, CommandError> {
    values::find(execution, key)
}

/// Fields are looked at up to about this many bytes.
const FIELDS_BYTES_MAX: usize = 1 << 20;

/// The number that a parameter of Redis has.
fn parameter(execution: &Execution<'_>, name: &str) -> u64 {
    let text = redis_parameters::value(&execution.state.settings, name);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The first `fields` fields, unless they are large.
fn first(fields: usize) -> PageLimits {
    PageLimits { fields, bytes: FIELDS_BYTES_MAX, skips_left: u64::MAX }
}

fn encoding_of(execution: &mut Execution<'_>, hash: &Hash) -> Result<&'static str, CommandError> {
    let entries_max = parameter(execution, "hash-max-listpack-entries");
    let bytes_max = parameter(execution, "hash-max-listpack-value") as usize;
    if hash.len > entries_max {
        return Ok("hashtable");
    }
    let (fields, _) = hash.fields_behind(execution, None, first(entries_max as usize))?;
    let is_small = |part: &Bytes| part.len() <= bytes_max;
    let are_small = fields.iter().all(|(field, value)| is_small(field) && is_small(value));
    Ok(if are_small { "listpack" } else { "hashtable" })
}

pub(crate) fn encoding(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let encoding = match find(execution, &arguments[0])? {
        None => return Ok(Reply::Null),
        Some(Value::Hash(hash)) => encoding_of(execution, &hash)?,
        Some(Value::String(string)) if parse_i64(string.number_text()).is_some() => "int",
        Some(Value::String(string)) if string.len() <= EMBEDDED_BYTES_MAX => "embstr",
        Some(Value::String(_)) => "raw",
    };
    Ok(Reply::word(encoding))
}

pub(crate) fn refcount(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    Ok(find(execution, &arguments[0])?.map_or(Reply::Null, |_| Reply::Integer(1)))
}

pub(crate) fn freq(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    match find(execution, &arguments[0])? {
        None => Ok(Reply::Null),
        Some(_) => Err(CommandError::text(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
             note that when switching between policies at runtime LRU and LFU data will take some \
             time to adjust.",
        )),
    }
}

pub(crate) fn idletime(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    match find(execution, &arguments[0])? {
        None => Ok(Reply::Null),
        Some(_) => Err(CommandError::text("ERR idle time not tracked")),
    }
}

pub(crate) fn memory_usage(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let samples = match &arguments[1..] {
        [] => SAMPLES_DEFAULT,
        [option, count] if is_word(option, "SAMPLES") => {
            let count = integer(count)?;
            if count < 0 {
                return Err(SYNTAX);
            }
            if count == 0 { i64::MAX } else { count }
        }
        _ => return Err(SYNTAX),
    };
    let key = &arguments[0];
    let bytes = match find(execution, key)? {
        None => return Ok(Reply::Null),
        Some(Value::String(string)) => key.len() + string.len() + ENTRY_BYTES,
        Some(Value::Hash(hash)) => {
            let (fields, _) = hash.fields_behind(execution, None, first(samples as usize))?;
            let of_field = |(field, value): &(Bytes, Bytes)| {
                size_of_val(&hash.identity) + field.len() + value.len() + ENTRY_BYTES
            };
            let sampled: usize = fields.iter().map(of_field).sum();
            let all =
                (sampled as u128 * u128::from(hash.len)).div_ceil(fields.len().max(1) as u128);
            key.len() + ENTRY_BYTES + usize::try_from(all).unwrap_or(usize::MAX / 2)
        }
    };
    Ok(Reply::count(bytes))
}
