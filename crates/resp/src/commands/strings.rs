//! Commands on strings.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use tidekv::{KEY_BYTES_MAX, Keyspace, Snapshot};

use crate::commands::deadlines::{Clock, positive_deadline};
use crate::commands::errors::{STRING_BYTES_MAX, SYNTAX, integer, is_word, operand, wrong_arity};
use crate::data::execution::Execution;
use crate::data::head::Head;
use crate::data::long_replies::{self, Source};
use crate::data::values::{self, StringValue, Value};
use crate::protocol::reply::{CommandError, CommandResult, Reply, SequenceKind, Streamed};
use crate::state::keyspaces::Space;
use crate::state::server_state::Counters;

pub(crate) fn get(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    match values::find_string(execution, &arguments[0])? {
        None => Ok(Reply::Null),
        Some(string) => string.reply(execution, 0..string.len()),
    }
}

/// The bytes of the string that a command returns and replaces; null without one.
fn replaced(execution: &mut Execution<'_>, old: Option<&StringValue>) -> CommandResult {
    let bytes = old.map(|string| string.whole(execution)).transpose()?;
    Ok(Reply::bulk_or_null(bytes))
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
    let reply = match &old {
        Some(Value::String(string)) if options.get_old => replaced(execution, Some(string))?,
        _ if options.get_old || !writes => Reply::Null,
        _ => Reply::OK,
    };
    if writes {
        let kept = old.as_ref().and_then(Value::expires_at_ms).filter(|_| options.keep_deadline);
        values::put_string(execution, key, value.clone(), deadline.or(kept))?;
    }
    Ok(reply)
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
    let reply = replaced(execution, old.as_ref())?;
    values::put_string(execution, &arguments[0], arguments[1].clone(), None)?;
    Ok(reply)
}

pub(crate) fn getdel(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let old = values::find_string(execution, &arguments[0])?;
    let reply = replaced(execution, old.as_ref())?;
    if old.is_some() {
        values::remove(execution, &arguments[0])?;
    }
    Ok(reply)
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
    let Some(string) = values::find_string(execution, key)? else {
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
    let reply = replaced(execution, Some(&string))?;
    match change {
        Some(Some(deadline)) if deadline <= now_ms => {
            values::remove(execution, key)?;
        }
        // For WATCH, also the same deadline is a change.
        Some(deadline) if deadline.is_some() || string.expires_at_ms().is_some() => {
            values::set_deadline(execution, key, &Value::String(string), deadline)?;
        }
        _ => {}
    }
    Ok(reply)
}

/// The strings of keys at a snapshot, as elements of a reply.
struct Strings {
    snapshot: Snapshot,
    strings: Keyspace,
    /// The keyspaces of heads and parts.
    parts: [Keyspace; 2],
    counters: Arc<Counters>,
    keys: Vec<Bytes>,
    at: usize,
}

impl Strings {
    fn string(&self, key: &[u8]) -> CommandResult {
        if let Some(value) = self.snapshot.get(&self.strings, key)? {
            return Ok(Reply::Bulk(value));
        }
        let [heads, parts] = &self.parts;
        let head = self.snapshot.get_entry(heads, key)?;
        match head.map(|entry| Head::decode(&entry)).transpose()?.map(Value::from) {
            Some(Value::String(StringValue::Long(string))) => {
                let range = 0..string.len as usize;
                Ok(Streamed::bulk(string.len, string.stream(&self.snapshot, parts, range)))
            }
            _ => Ok(Reply::Null),
        }
    }
}

impl Source for Strings {
    fn next(&mut self) -> Option<CommandResult> {
        let key = self.keys.get(self.at)?;
        self.at += 1;
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Some(Ok(Reply::Null));
        }
        let reply = self.string(key);
        if let Ok(reply) = &reply {
            self.counters.count_lookup(*reply != Reply::Null);
        }
        Some(reply)
    }

    fn rewind(&mut self) {
        self.at = 0;
    }
}

pub(crate) fn mget(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    if let Some((snapshot, strings)) = execution.snapshot_of(Space::Strings)
        && let Some((_, heads)) = execution.snapshot_of(Space::Heads)
        && let Some((_, parts)) = execution.snapshot_of(Space::Fields)
    {
        let strings = Strings {
            snapshot,
            strings,
            parts: [heads, parts],
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
        // A hash gives null, not an error.
        let Some(Value::String(string)) = values::find(execution, key)? else {
            replies.push(Reply::Null);
            continue;
        };
        bytes += string.len();
        execution.state.memory.check_reply(bytes)?;
        replies.push(Reply::Bulk(string.whole(execution)?));
    }
    Ok(Reply::Array(replies))
}

fn put_pairs(execution: &mut Execution<'_>, pairs: &[Bytes]) -> Result<(), CommandError> {
    // A command does not see its own writes: of a repeated key, only the last value is written.
    let mut seen = HashSet::new();
    let last = pairs.chunks_exact(2).rev().filter(|pair| seen.insert(&pair[0]));
    last.collect::<Vec<_>>()
        .into_iter()
        .rev()
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

/// Fails if a string of `bytes` is too long.
fn check_length(bytes: usize) -> Result<(), CommandError> {
    if bytes > STRING_BYTES_MAX { Err(TOO_LONG) } else { Ok(()) }
}

pub(crate) fn append(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (key, more) = (&arguments[0], &arguments[1]);
    let old = values::find_string(execution, key)?;
    let len = old.as_ref().map_or(0, StringValue::len);
    check_length(len + more.len())?;
    let len = values::patch_string(execution, key, old, &[(len, more.clone())])?;
    Ok(Reply::count(len))
}

pub(crate) fn strlen(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let string = values::find_string(execution, &arguments[0])?;
    Ok(Reply::count(string.map_or(0, |string| string.len())))
}

pub(crate) fn getrange(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (start, end) = (integer(&arguments[1])?, integer(&arguments[2])?);
    let Some(string) = values::find_string(execution, &arguments[0])? else {
        return Ok(Reply::word(""));
    };
    let len = string.len() as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let is_backwards = start < 0 && end < 0 && start > end;
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if is_backwards || start > end {
        return Ok(Reply::word(""));
    }
    string.reply(execution, start as usize..end as usize + 1)
}

pub(crate) fn setrange(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let (key, patch) = (&arguments[0], &arguments[2]);
    let offset = usize::try_from(integer(&arguments[1])?)
        .map_err(|_| CommandError::text("ERR offset is out of range"))?;
    let old = values::find_string(execution, key)?;
    if patch.is_empty() {
        return Ok(Reply::count(old.map_or(0, |string| string.len())));
    }
    check_length(offset.saturating_add(patch.len()))?;
    let len = values::patch_string(execution, key, old, &[(offset, patch.clone())])?;
    Ok(Reply::count(len))
}
