//! Commands on strings.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidekv::{KEY_BYTES_MAX, Keyspace, Snapshot};

use crate::commands::deadlines::{Clock, positive_deadline};
use crate::commands::errors::{STRING_BYTES_MAX, SYNTAX, integer, is_word, operand, wrong_arity};
use crate::data::execution::Execution;
use crate::data::long_replies::{self, Source};
use crate::data::values::{self, Value};
use crate::protocol::reply::{CommandError, CommandResult, Reply, SequenceKind};
use crate::state::keyspaces::Space;
use crate::state::server_state::Counters;

pub(crate) fn get(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let entry = values::find_string(execution, &arguments[0])?;
    Ok(Reply::bulk_or_null(entry.map(|entry| entry.value)))
}

/// The options of `SET`.
#[derive(Debug)]
struct SetOptions<'a> {
    if_missing: bool,
    if_present: bool,
    get_old: bool,
    keep_deadline: bool,
    deadline: Option<(Clock, &'a Bytes)>,
}

impl<'a> SetOptions<'a> {
    fn parse(arguments: &'a [Bytes]) -> Result<Self, CommandError> {
        let mut options = Self {
            if_missing: false,
            if_present: false,
            get_old: false,
            keep_deadline: false,
            deadline: None,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let has_deadline = options.keep_deadline || options.deadline.is_some();
            if is_word(argument, "NX") && !options.if_present {
                options.if_missing = true;
            } else if is_word(argument, "XX") && !options.if_missing {
                options.if_present = true;
            } else if is_word(argument, "GET") {
                options.get_old = true;
            } else if is_word(argument, "KEEPTTL") && options.deadline.is_none() {
                options.keep_deadline = true;
            } else if let Some(clock) = Clock::of_option(argument)
                && !has_deadline
            {
                options.deadline = Some((clock, operand(&mut arguments)?));
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

pub(crate) fn set(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (key, value) = (&arguments[0], &arguments[1]);
    let options = SetOptions::parse(&arguments[2..])?;
    let deadline = options
        .deadline
        .map(|(clock, number)| positive_deadline("set", clock, number, execution.state))
        .transpose()?;
    let is_blind =
        !(options.if_missing || options.if_present || options.get_old || options.keep_deadline);
    if is_blind {
        values::put_string(execution, key, value.clone(), deadline)?;
        return Ok(Reply::OK);
    }
    let old = match options.get_old {
        true => values::find_string(execution, key)?.map(Value::String),
        false => values::find(execution, key)?,
    };
    let writes = match &old {
        None => !options.if_present,
        Some(_) => !options.if_missing,
    };
    if writes {
        let kept = old.as_ref().and_then(Value::expires_at_ms).filter(|_| options.keep_deadline);
        values::put_string(execution, key, value.clone(), deadline.or(kept))?;
    }
    Ok(match old {
        Some(Value::String(entry)) if options.get_old => Reply::Bulk(entry.value),
        _ if options.get_old || !writes => Reply::Null,
        _ => Reply::OK,
    })
}

fn set_until(
    command: &str,
    clock: Clock,
    execution: &mut Execution<'_>,
    arguments: &[Bytes],
) -> CommandResult {
    let deadline = positive_deadline(command, clock, &arguments[1], execution.state)?;
    values::put_string(execution, &arguments[0], arguments[2].clone(), Some(deadline))?;
    Ok(Reply::OK)
}

pub(crate) fn setex(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    set_until("setex", Clock::SecondsFromNow, execution, arguments)
}

pub(crate) fn psetex(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    set_until("psetex", Clock::MillisecondsFromNow, execution, arguments)
}

pub(crate) fn setnx(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let is_missing = values::find(execution, &arguments[0])?.is_none();
    if is_missing {
        values::put_string(execution, &arguments[0], arguments[1].clone(), None)?;
    }
    Ok(Reply::flag(is_missing))
}

pub(crate) fn getset(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let old = values::find_string(execution, &arguments[0])?;
    values::put_string(execution, &arguments[0], arguments[1].clone(), None)?;
    Ok(Reply::bulk_or_null(old.map(|entry| entry.value)))
}

pub(crate) fn getdel(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let old = values::find_string(execution, &arguments[0])?;
    if old.is_some() {
        execution.delete(Space::Strings, arguments[0].clone())?;
    }
    Ok(Reply::bulk_or_null(old.map(|entry| entry.value)))
}

pub(crate) fn getex(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let key = &arguments[0];
    let now_ms = execution.state.now_ms();
    // The outer option: whether the deadline changes; the inner one: the new deadline.
    let clock = match &arguments[1..] {
        [] => None,
        [option] if is_word(option, "PERSIST") => Some(None),
        [option, number] => Some(Some((Clock::of_option(option).ok_or(SYNTAX)?, number))),
        _ => return Err(SYNTAX),
    };
    let Some(entry) = values::find_string(execution, key)? else {
        return Ok(Reply::Null);
    };
    // The number is checked after the key, as in Redis.
    let change = match clock {
        None => None,
        Some(None) => Some(None),
        Some(Some((clock, number))) => {
            Some(Some(positive_deadline("getex", clock, number, execution.state)?))
        }
    };
    match change {
        Some(Some(deadline)) if deadline <= now_ms => {
            execution.delete(Space::Strings, key.clone())?;
        }
        // For WATCH, also the same deadline is a change.
        Some(deadline) if deadline.is_some() || entry.expires_at_ms.is_some() => {
            execution.put(Space::Strings, key.clone(), entry.value.clone(), deadline)?;
        }
        _ => {}
    }
    Ok(Reply::Bulk(entry.value))
}

/// The strings of keys at a snapshot, as elements of a reply.
struct Strings {
    snapshot: Snapshot,
    keyspace: Keyspace,
    counters: Arc<Counters>,
    keys: Vec<Bytes>,
    at: usize,
}

impl Source for Strings {
    fn next(&mut self) -> Option<CommandResult> {
        let key = self.keys.get(self.at)?;
        self.at += 1;
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Some(Ok(Reply::Null));
        }
        let value = self.snapshot.get(&self.keyspace, key).map_err(CommandError::from);
        Some(value.map(|value| {
            self.counters.count_lookup(value.is_some());
            Reply::bulk_or_null(value)
        }))
    }

    fn rewind(&mut self) {
        self.at = 0;
    }
}

pub(crate) fn mget(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if let Some((snapshot, keyspace)) = execution.snapshot_of(Space::Strings) {
        let strings = Strings {
            snapshot,
            keyspace,
            counters: Arc::clone(&execution.state.counters),
            keys: arguments.to_vec(),
            at: 0,
        };
        let count = Some(arguments.len() as u64);
        return long_replies::reply(execution, SequenceKind::Array, count, strings);
    }
    let mut replies = Vec::with_capacity(arguments.len());
    let mut bytes = 0;
    for key in arguments {
        // A hash gives null, not an error, so it need not be read.
        let entry = execution.get(Space::Strings, key)?;
        bytes += entry.as_ref().map_or(0, |entry| entry.value.len());
        execution.state.memory.check_reply(bytes)?;
        replies.push(Reply::bulk_or_null(entry.map(|entry| entry.value)));
    }
    Ok(Reply::Array(replies))
}

fn put_pairs(execution: &mut Execution<'_>, pairs: &[Bytes]) -> Result<(), CommandError> {
    pairs
        .chunks_exact(2)
        .try_for_each(|pair| values::put_string(execution, &pair[0], pair[1].clone(), None))
}

pub(crate) fn mset(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if !arguments.len().is_multiple_of(2) {
        return Err(wrong_arity("mset"));
    }
    put_pairs(execution, arguments)?;
    Ok(Reply::OK)
}

pub(crate) fn msetnx(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if !arguments.len().is_multiple_of(2) {
        return Err(wrong_arity("msetnx"));
    }
    for key in arguments.iter().step_by(2).collect::<HashSet<_>>() {
        if values::find(execution, key)?.is_some() {
            return Ok(Reply::Integer(0));
        }
    }
    put_pairs(execution, arguments)?;
    Ok(Reply::Integer(1))
}

const TOO_LONG: CommandError =
    CommandError::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// Fails if a string of `bytes` is too long, or too large for the memory budget: before it is made.
fn check_length(execution: &Execution<'_>, bytes: usize) -> Result<(), CommandError> {
    if bytes > STRING_BYTES_MAX { Err(TOO_LONG) } else { execution.check_value(bytes) }
}

pub(crate) fn append(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (key, more) = (&arguments[0], &arguments[1]);
    let old = values::find_string(execution, key)?;
    let (old, deadline) =
        old.map_or((Bytes::new(), None), |entry| (entry.value, entry.expires_at_ms));
    check_length(execution, old.len() + more.len())?;
    let mut value = BytesMut::with_capacity(old.len() + more.len());
    value.extend_from_slice(&old);
    value.extend_from_slice(more);
    let len = value.len();
    execution.put(Space::Strings, key.clone(), value.freeze(), deadline)?;
    Ok(Reply::count(len))
}

pub(crate) fn strlen(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let entry = values::find_string(execution, &arguments[0])?;
    Ok(Reply::count(entry.map_or(0, |entry| entry.value.len())))
}

pub(crate) fn getrange(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (start, end) = (integer(&arguments[1])?, integer(&arguments[2])?);
    let value =
        values::find_string(execution, &arguments[0])?.map_or_else(Bytes::new, |entry| entry.value);
    let len = value.len() as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let is_backwards = start < 0 && end < 0 && start > end;
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    Ok(Reply::Bulk(if is_backwards || start > end {
        Bytes::new()
    } else {
        value.slice(start as usize..=end as usize)
    }))
}

pub(crate) fn setrange(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (key, patch) = (&arguments[0], &arguments[2]);
    let offset = usize::try_from(integer(&arguments[1])?)
        .map_err(|_| CommandError::text("ERR offset is out of range"))?;
    let old = values::find_string(execution, key)?;
    let (old, deadline) =
        old.map_or((Bytes::new(), None), |entry| (entry.value, entry.expires_at_ms));
    if patch.is_empty() {
        return Ok(Reply::count(old.len()));
    }
    let end = offset.saturating_add(patch.len());
    check_length(execution, end)?;
    let mut value = BytesMut::from(&old[..]);
    value.resize(end.max(old.len()), 0);
    value[offset..end].copy_from_slice(patch);
    let len = value.len();
    execution.put(Space::Strings, key.clone(), value.freeze(), deadline)?;
    Ok(Reply::count(len))
}
