//! Commands on hashes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tidekv_io::Random;

use crate::commands::counters::{NOT_A_FLOAT, NOT_FINITE};
use crate::commands::errors::{OVERFLOW, SYNTAX, integer, is_word, wrong_arity};
use crate::data::execution::Execution;
use crate::data::hash::{Hash, field_of};
use crate::data::long_replies::{self, Source};
use crate::data::values;
use crate::data::walk::Walk;
use crate::protocol::number::{Decimal, integer_text, parse_i64};
use crate::protocol::reply::{CommandError, CommandResult, Protocol, Reply, SequenceKind};

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
        execution.state.memory.check_reply(bytes)?;
        replies.push(Reply::bulk_or_null(value));
    }
    Ok(Reply::Array(replies))
}

/// The fields of a hash, as elements of a reply.
struct Fields {
    walk: Walk,
    names: bool,
    values: bool,
    /// The value of the field whose name was the last element.
    value: Option<Bytes>,
}

impl Source for Fields {
    fn next(&mut self) -> Option<CommandResult> {
        if let Some(value) = self.value.take() {
            return Some(Ok(Reply::Bulk(value)));
        }
        let (key, entry) = match self.walk.next()? {
            Ok(item) => item,
            Err(error) => return Some(Err(error)),
        };
        if !self.names {
            return Some(Ok(Reply::Bulk(entry.value)));
        }
        self.value = self.values.then_some(entry.value);
        Some(Ok(Reply::Bulk(field_of(&key))))
    }

    fn rewind(&mut self) {
        self.walk.rewind();
        self.value = None;
    }
}

/// The names of the fields of `key`, their values, or both.
fn fields(
    execution: &mut Execution<'_>,
    key: &Bytes,
    (names, values): (bool, bool),
) -> CommandResult {
    let kind = if names && values { SequenceKind::Map } else { SequenceKind::Array };
    match values::find_hash(execution, key)? {
        None => Ok(kind.reply(Vec::new())),
        Some(hash) => {
            let count = hash.len.saturating_mul(u64::from(names) + u64::from(values));
            let walk = hash.walk(execution)?;
            let fields = Fields { walk, names, values, value: None };
            long_replies::reply(execution, kind, Some(count), fields)
        }
    }
}

pub(crate) fn hgetall(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    fields(execution, &arguments[0], (true, true))
}

pub(crate) fn hkeys(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    fields(execution, &arguments[0], (true, false))
}

pub(crate) fn hvals(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    fields(execution, &arguments[0], (false, true))
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
    if !delta.is_finite() {
        return Err(CommandError::text("ERR value is NaN or Infinity"));
    }
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

/// The range of counts that Redis takes: one less than that of 64 bits.
const COUNT_MAX: i64 = i64::MAX;

/// Memory for each position that `HRANDFIELD` chooses.
const POSITION_BYTES: usize = 32;

pub(crate) fn hrandfield(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (count, with_values) = match &arguments[1..] {
        [] => (None, false),
        [count, options @ ..] => {
            let number = integer(count)?;
            if number < -COUNT_MAX {
                return Err(CommandError::from(format!(
                    "ERR value is out of range, value must between {} and {COUNT_MAX}",
                    -COUNT_MAX
                )));
            }
            match options {
                [] => (Some(number), false),
                [option] if is_word(option, "WITHVALUES") => {
                    if number.unsigned_abs() > COUNT_MAX as u64 / 2 {
                        return Err(CommandError::text("ERR value is out of range"));
                    }
                    (Some(number), true)
                }
                _ => return Err(SYNTAX),
            }
        }
    };
    let Some(hash) = values::find_hash(execution, &arguments[0])? else {
        return Ok(if count.is_some() { Reply::Array(Vec::new()) } else { Reply::Null });
    };
    let Some(count) = count else {
        let one = below(execution, hash.len);
        let found = hash.fields_at(execution, &BTreeSet::from([one]))?;
        return Ok(Reply::bulk_or_null(found.into_iter().next().map(|(field, _)| field)));
    };
    let times = if count < 0 { count.unsigned_abs() } else { hash.len.min(count as u64) };
    // Before the positions are chosen.
    let bytes = usize::try_from(times).unwrap_or(usize::MAX).saturating_mul(POSITION_BYTES);
    execution.state.memory.check_reply(bytes)?;
    let chosen = if count < 0 {
        (0..times).map(|_| below(execution, hash.len)).collect()
    } else {
        different(execution, hash.len, times)
    };
    let positions: BTreeSet<u64> = chosen.iter().copied().collect();
    let fields = hash.fields_at(execution, &positions)?;
    let by_position: BTreeMap<u64, &(Bytes, Bytes)> = positions.into_iter().zip(&fields).collect();
    let mut bytes = 0;
    let mut replies = Vec::new();
    let is_in_pairs = execution.session.protocol() == Protocol::Three;
    for position in chosen {
        let Some((field, value)) = by_position.get(&position) else { continue };
        bytes += field.len() + if with_values { value.len() } else { 0 };
        execution.state.memory.check_reply(bytes)?;
        let (field, value) = (Reply::Bulk(field.clone()), Reply::Bulk(value.clone()));
        match with_values {
            false => replies.push(field),
            true if is_in_pairs => replies.push(Reply::Array(vec![field, value])),
            true => replies.extend([field, value]),
        }
    }
    Ok(Reply::Array(replies))
}

/// A random number below `end`.
fn below(execution: &Execution<'_>, end: u64) -> u64 {
    ((u128::from(execution.state.random.next_u64()) * u128::from(end)) >> 64) as u64
}

/// `count` different random numbers below `end`, or all of them if there are no more (Floyd's
/// algorithm).
fn different(execution: &Execution<'_>, end: u64, count: u64) -> Vec<u64> {
    let mut chosen = BTreeSet::new();
    for last in end.saturating_sub(count)..end {
        let one = below(execution, last + 1);
        if !chosen.insert(one) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().collect()
}
