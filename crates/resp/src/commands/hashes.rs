//! Commands on hashes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::commands::counters::{NOT_A_FLOAT, NOT_FINITE};
use crate::commands::errors::{OVERFLOW, integer, wrong_arity};
use crate::data::execution::{Execution, check_reply_bytes};
use crate::data::hash::Hash;
use crate::data::values;
use crate::protocol::number::{Decimal, integer_text, parse_i64};
use crate::protocol::reply::{CommandError, CommandResult, Reply};

/// The hash of `key`, or a new one.
fn find_or_new(execution: &mut Execution<'_>, key: &Bytes) -> Result<Hash, CommandError> {
    match values::find_hash(execution, key)? {
        Some(hash) => Ok(hash),
        None => Ok(Hash::new(execution)),
    }
}

/// Sets fields (the last value of each counts) and returns the number of new ones.
fn put_fields(
    execution: &mut Execution<'_>,
    key: &Bytes,
    pairs: &[Bytes],
) -> Result<usize, CommandError> {
    let mut hash = find_or_new(execution, key)?;
    let was_empty = hash.len == 0;
    let mut added = 0;
    let pairs: BTreeMap<&Bytes, &Bytes> = pairs.chunks_exact(2).map(|p| (&p[0], &p[1])).collect();
    for (field, value) in pairs {
        added += usize::from(was_empty || hash.get(execution, field)?.is_none());
        hash.put(execution, field, value.clone())?;
    }
    hash.len += added as u64;
    hash.save(execution, key)?;
    Ok(added)
}

pub(crate) fn hset(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if arguments.len().is_multiple_of(2) {
        return Err(wrong_arity("hset"));
    }
    Ok(Reply::count(put_fields(execution, &arguments[0], &arguments[1..])?))
}

pub(crate) fn hmset(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if arguments.len().is_multiple_of(2) {
        return Err(wrong_arity("hmset"));
    }
    put_fields(execution, &arguments[0], &arguments[1..])?;
    Ok(Reply::OK)
}

pub(crate) fn hsetnx(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if let Some(hash) = values::find_hash(execution, &arguments[0])?
        && hash.get(execution, &arguments[1])?.is_some()
    {
        return Ok(Reply::Integer(0));
    }
    put_fields(execution, &arguments[0], &arguments[1..])?;
    Ok(Reply::Integer(1))
}

/// The value of one field of `key`.
fn find_field(
    execution: &mut Execution<'_>,
    key: &Bytes,
    field: &Bytes,
) -> Result<Option<Bytes>, CommandError> {
    match values::find_hash(execution, key)? {
        None => Ok(None),
        Some(hash) => hash.get(execution, field),
    }
}

pub(crate) fn hget(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    Ok(Reply::bulk_or_null(find_field(execution, &arguments[0], &arguments[1])?))
}

pub(crate) fn hexists(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    Ok(Reply::flag(find_field(execution, &arguments[0], &arguments[1])?.is_some()))
}

pub(crate) fn hstrlen(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let value = find_field(execution, &arguments[0], &arguments[1])?;
    Ok(Reply::count(value.map_or(0, |value| value.len())))
}

pub(crate) fn hmget(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let hash = values::find_hash(execution, &arguments[0])?;
    let mut replies = Vec::with_capacity(arguments.len() - 1);
    let mut bytes = 0;
    for field in &arguments[1..] {
        let value = match &hash {
            None => None,
            Some(hash) => hash.get(execution, field)?,
        };
        bytes += value.as_ref().map_or(0, Bytes::len);
        check_reply_bytes(bytes)?;
        replies.push(Reply::bulk_or_null(value));
    }
    Ok(Reply::Array(replies))
}

/// All fields of `key` with their values.
fn find_fields(
    execution: &mut Execution<'_>,
    key: &Bytes,
) -> Result<Vec<(Bytes, Bytes)>, CommandError> {
    match values::find_hash(execution, key)? {
        None => Ok(Vec::new()),
        Some(hash) => hash.fields(execution),
    }
}

pub(crate) fn hgetall(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let fields = find_fields(execution, &arguments[0])?;
    let pair = |(field, value)| (Reply::Bulk(field), Reply::Bulk(value));
    Ok(Reply::Map(fields.into_iter().map(pair).collect()))
}

pub(crate) fn hkeys(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let fields = find_fields(execution, &arguments[0])?;
    Ok(Reply::Array(fields.into_iter().map(|(field, _)| Reply::Bulk(field)).collect()))
}

pub(crate) fn hvals(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let fields = find_fields(execution, &arguments[0])?;
    Ok(Reply::Array(fields.into_iter().map(|(_, value)| Reply::Bulk(value)).collect()))
}

pub(crate) fn hlen(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let hash = values::find_hash(execution, &arguments[0])?;
    Ok(Reply::Integer(hash.map_or(0, |hash| i64::try_from(hash.len).unwrap_or(i64::MAX))))
}

pub(crate) fn hdel(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let key = &arguments[0];
    let Some(mut hash) = values::find_hash(execution, key)? else {
        return Ok(Reply::Integer(0));
    };
    let mut removed = 0;
    for field in arguments[1..].iter().collect::<BTreeSet<_>>() {
        if hash.get(execution, field)?.is_some() {
            hash.delete(execution, field)?;
            removed += 1;
        }
    }
    if removed > 0 {
        hash.len = hash.len.saturating_sub(removed);
        hash.save(execution, key)?;
    }
    Ok(Reply::count(removed as usize))
}

/// Replaces the value of one field by the result of `change`.
fn change_field(
    execution: &mut Execution<'_>,
    key: &Bytes,
    field: &Bytes,
    change: impl FnOnce(Option<Bytes>) -> Result<Bytes, CommandError>,
) -> Result<(), CommandError> {
    let mut hash = find_or_new(execution, key)?;
    let old = hash.get(execution, field)?;
    hash.len += u64::from(old.is_none());
    hash.put(execution, field, change(old)?)?;
    hash.save(execution, key)
}

pub(crate) fn hincrby(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let delta = integer(&arguments[2])?;
    let mut sum = 0;
    change_field(execution, &arguments[0], &arguments[1], |old| {
        let not_an_integer = CommandError::text("ERR hash value is not an integer");
        let number = old.map_or(Some(0), |old| parse_i64(&old)).ok_or(not_an_integer)?;
        sum = number.checked_add(delta).ok_or(OVERFLOW)?;
        Ok(integer_text(sum))
    })?;
    Ok(Reply::Integer(sum))
}

pub(crate) fn hincrbyfloat(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let delta = Decimal::parse(&arguments[2]).ok_or(NOT_A_FLOAT)?;
    let mut text = Bytes::new();
    change_field(execution, &arguments[0], &arguments[1], |old| {
        let not_a_float = CommandError::text("ERR hash value is not a float");
        let number =
            old.map_or(Some(Decimal::Fixed(0)), |old| Decimal::parse(&old)).ok_or(not_a_float)?;
        text = Bytes::from(number.checked_add(delta).ok_or(NOT_FINITE)?.to_string());
        Ok(text.clone())
    })?;
    Ok(Reply::Bulk(text))
}
