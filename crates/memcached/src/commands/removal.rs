//! `delete`, `touch` and `flush_all`: removal and expiry of objects.

use bytes::Bytes;
use tidekv_tiered::{Change, KEY_BYTES_MAX, Object, WouldBlock};

use crate::commands::execution::{Execution, Progress};
use crate::protocol::expiry::Expiry;
use crate::protocol::numerals::signed_digits_32;
use crate::protocol::request::BAD_FORMAT;
use crate::protocol::words::Line;
use crate::state::counters::Count;
use crate::state::prefixes::Event;

/// A request to remove an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delete {
    key: Bytes,
    is_quiet: bool,
}

/// Reads `delete`.
pub(crate) fn read_delete(line: &Line) -> Result<Delete, &'static str> {
    let key = line.owned_word(1);
    if key.len() > KEY_BYTES_MAX {
        return Err(BAD_FORMAT);
    }
    Ok(Delete { key, is_quiet: line.is_quiet() })
}

impl Delete {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        let removed = execution.change(&self.key, |found| (Change::Remove, found.is_some()));
        let Ok(is_removed) = removed else { return Progress::Wait };
        let (count, line) = match is_removed {
            true => (Count::DeleteHits, "DELETED"),
            false => (Count::DeleteMisses, "NOT_FOUND"),
        };
        execution.state.counters.add(count, 1);
        execution.state.prefixes.count(&self.key, Event::Delete);
        execution.say_unless(self.is_quiet, line)
    }
}

/// A request to change the time to live of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Touch {
    key: Bytes,
    expiry: Expiry,
    is_quiet: bool,
}

/// Reads `touch`.
pub(crate) fn read_touch(line: &Line) -> Result<Touch, &'static str> {
    let key = line.owned_word(1);
    if key.len() > KEY_BYTES_MAX {
        return Err(BAD_FORMAT);
    }
    let expiry = Expiry::parse(line.word(2)).ok_or("CLIENT_ERROR invalid exptime argument")?;
    Ok(Touch { key, expiry, is_quiet: line.is_quiet() })
}

impl Touch {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        let deadline = self.expiry.deadline(execution.state.now_s());
        let touched = execution.change(&self.key, |found| match found {
            None => (Change::Keep, false),
            Some(found) => {
                let object = Object { deadline, ..found.object.clone() };
                (Change::ReviseAndFetch(object), true)
            }
        });
        let Ok(is_touched) = touched else { return Progress::Wait };
        let (count, line) = match is_touched {
            true => (Count::TouchHits, "TOUCHED"),
            false => (Count::TouchMisses, "NOT_FOUND"),
        };
        execution.state.counters.add(Count::Touches, 1);
        execution.state.counters.add(count, 1);
        execution.say_unless(self.is_quiet, line)
    }
}

/// A request to remove all objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flush {
    /// The delay; `None`: at once.
    delay: Option<Expiry>,
    is_quiet: bool,
}

/// Reads `flush_all`.
pub(crate) fn read_flush(line: &Line) -> Result<Flush, &'static str> {
    let is_quiet = line.is_quiet();
    if line.len() == 1 + usize::from(is_quiet) {
        return Ok(Flush { delay: None, is_quiet });
    }
    let delay_s = signed_digits_32(line.word(1)).ok_or("CLIENT_ERROR invalid exptime argument")?;
    let delay = if delay_s > 0 { Expiry::parse(line.word(1)) } else { None };
    Ok(Flush { delay, is_quiet })
}

impl Flush {
    /// A flush at once, or after a delay.
    pub(crate) fn after(delay: Option<Expiry>) -> Self {
        Self { delay, is_quiet: false }
    }

    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        match self.apply(execution) {
            Ok(true) => execution.say_unless(self.is_quiet, "OK"),
            Ok(false) => {
                // It counts nevertheless, as in memcached.
                execution.state.counters.add(Count::Flushes, 1);
                execution.say_unless(self.is_quiet, "CLIENT_ERROR flush_all not allowed")
            }
            Err(WouldBlock) => Progress::Wait,
        }
    }

    /// Removes all objects, or schedules that; returns whether it is allowed.
    pub(crate) fn apply(&self, execution: &Execution<'_>) -> Result<bool, WouldBlock> {
        if !execution.state.options.allows_flush {
            return Ok(false);
        }
        if !execution.may_wait {
            // Freeing many objects takes long.
            return Err(WouldBlock);
        }
        let cache = &execution.state.objects.cache;
        let now_s = execution.state.now_s();
        let due_s = self.delay.and_then(|delay| delay.deadline(now_s).unix_s()).unwrap_or(now_s);
        execution.state.counters.add(Count::Flushes, 1);
        if self.delay.is_some() && due_s <= execution.state.started_s {
            // No object is as old as that, as in memcached: it only replaces a scheduled flush.
            cache.clear_at(u32::MAX);
            return Ok(true);
        }
        // It also replaces a scheduled flush.
        cache.clear_at(due_s);
        if due_s <= now_s {
            // Another thread may be flushing concurrently.
            cache.clear();
        }
        Ok(true)
    }
}
