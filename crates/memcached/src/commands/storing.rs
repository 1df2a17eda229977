//! `set` and related commands: store a value, depending on the existing object.

use bytes::{Bytes, BytesMut};
use tidekv_tiered::{CachedObject, Change, KEY_BYTES_MAX, Object, WouldBlock};

use crate::commands::execution::{Execution, Progress};
use crate::protocol::expiry::Expiry;
use crate::protocol::numerals::{unsigned_32, unsigned_64};
use crate::protocol::request::{BAD_FORMAT, Mode, value_len};
use crate::protocol::words::Line;
use crate::state::counters::Count;

/// The object is stale, and is served until it is replaced.
pub(crate) const STALE: u8 = 1;
/// A client has won the right to replace the object.
pub(crate) const WON: u8 = 2;
/// The key was sent in base64 and is returned in base64.
pub(crate) const BINARY_KEY: u8 = 4;

/// A value to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Store {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) mode: Mode,
    pub(crate) flags: u32,
    pub(crate) expiry: Expiry,
    /// The version that the existing object must have; 0 and `None` for any.
    pub(crate) compare: Option<u64>,
    /// The new version.
    pub(crate) explicit: Option<u64>,
    /// It may also replace a newer version, and is stale then.
    pub(crate) may_be_stale: bool,
    pub(crate) marks: u8,
}

/// A request of the text protocol to store a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) store: Store,
    pub(crate) is_quiet: bool,
}

/// The outcome of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Stored, with this version.
    Stored(u64),
    NotStored,
    /// The object has another version.
    Exists,
    NotFound,
}

/// Parses `set`, `add`, `replace`, `append`, `prepend` and `cas`, and the length of the value that
/// follows.
pub(crate) fn read(line: &Line) -> Result<(Set, u32), &'static str> {
    let mode = match line.word(0) {
        b"add" => Mode::Add,
        b"replace" => Mode::Replace,
        b"append" => Mode::Append,
        b"prepend" => Mode::Prepend,
        b"cas" => Mode::Cas,
        _ => Mode::Set,
    };
    let key = line.owned_word(1);
    if key.len() > KEY_BYTES_MAX {
        return Err(BAD_FORMAT);
    }
    let flags = unsigned_32(line.word(2)).ok_or(BAD_FORMAT)?;
    let expiry = Expiry::parse(line.word(3)).ok_or(BAD_FORMAT)?;
    let len = value_len(line.word(4)).ok_or(BAD_FORMAT)?;
    let compare = match mode {
        Mode::Cas => Some(unsigned_64(line.word(5)).ok_or(BAD_FORMAT)?),
        _ => None,
    };
    let store = Store {
        key,
        value: Bytes::new(),
        mode,
        flags,
        expiry,
        compare,
        explicit: None,
        may_be_stale: false,
        marks: 0,
    };
    Ok((Set { store, is_quiet: line.is_quiet() }, len))
}

impl Set {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        let Ok(outcome) = self.store.run(execution) else { return Progress::Wait };
        let line = match outcome {
            Outcome::Stored(_) => "STORED",
            Outcome::NotStored => "NOT_STORED",
            Outcome::Exists => "EXISTS",
            Outcome::NotFound => "NOT_FOUND",
        };
        execution.say_unless(self.is_quiet, line)
    }
}

impl Store {
    /// Stores the value, if the existing object allows it.
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Result<Outcome, WouldBlock> {
        let now_s = execution.state.now_s();
        let outcome = if self.mode == Mode::Set {
            // Unconditionally.
            let object = self.object(execution, now_s);
            let version = object.version;
            execution.state.objects.cache.store(&self.key, object);
            Outcome::Stored(version)
        } else {
            execution.change(&self.key, |found| self.decide(execution, found, now_s))?
        };
        let counters = &execution.state.counters;
        counters.add(Count::Sets, 1);
        match (self.mode, outcome) {
            (Mode::Cas, Outcome::Stored(_)) => counters.add(Count::CasHits, 1),
            (Mode::Cas, Outcome::Exists) => counters.add(Count::CasBadval, 1),
            (Mode::Cas, Outcome::NotFound) => counters.add(Count::CasMisses, 1),
            _ => {}
        }
        Ok(outcome)
    }

    fn object(&self, execution: &Execution<'_>, now_s: u32) -> Object {
        Object {
            value: self.value.clone(),
            flags: self.flags,
            deadline: self.expiry.deadline(now_s),
            version: self.version(execution),
            marks: self.marks,
        }
    }

    fn version(&self, execution: &Execution<'_>) -> u64 {
        self.explicit.unwrap_or_else(|| execution.state.objects.cache.next_version())
    }

    fn decide(
        &self,
        execution: &Execution<'_>,
        found: Option<&CachedObject>,
        now_s: u32,
    ) -> (Change, Outcome) {
        let Some(CachedObject { object: old, .. }) = found else {
            return match self.mode {
                Mode::Set | Mode::Add => stored(self.object(execution, now_s)),
                Mode::Cas => (Change::Keep, Outcome::NotFound),
                Mode::Replace | Mode::Append | Mode::Prepend => (Change::Keep, Outcome::NotStored),
            };
        };
        let compare = self.compare.unwrap_or(0);
        match self.mode {
            Mode::Add => (Change::Keep, Outcome::NotStored),
            Mode::Cas if compare != 0 && compare == old.version => {
                stored(self.object(execution, now_s))
            }
            Mode::Cas if compare != 0 && self.may_be_stale && compare < old.version => {
                let marks = self.marks | STALE | (old.marks & WON);
                let deadline = old.deadline;
                stored(Object { deadline, marks, ..self.object(execution, now_s) })
            }
            Mode::Cas => (Change::Keep, Outcome::Exists),
            Mode::Set | Mode::Replace => stored(self.object(execution, now_s)),
            Mode::Append | Mode::Prepend if compare != 0 && compare != old.version => {
                (Change::Keep, Outcome::Exists)
            }
            Mode::Append | Mode::Prepend => self.extend(execution, old),
        }
    }

    /// The existing value and the new one, concatenated.
    fn extend(&self, execution: &Execution<'_>, old: &Object) -> (Change, Outcome) {
        let len = old.value.len() + self.value.len();
        // The cache cannot check the size itself while it calls `decide`.
        if len as u64 > execution.state.objects.cache.object_bytes_max() {
            return (Change::Keep, Outcome::NotStored);
        }
        let (front, back) = match self.mode {
            Mode::Append => (&old.value, &self.value),
            _ => (&self.value, &old.value),
        };
        let mut value = BytesMut::with_capacity(len);
        value.extend_from_slice(front);
        value.extend_from_slice(back);
        stored(Object {
            value: value.freeze(),
            flags: old.flags,
            deadline: old.deadline,
            version: self.version(execution),
            marks: old.marks & BINARY_KEY,
        })
    }
}

fn stored(object: Object) -> (Change, Outcome) {
    let version = object.version;
    (Change::Store(object), Outcome::Stored(version))
}

/// A rejected value: larger than the maximum, or without memory to receive it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) key: Bytes,
    pub(crate) message: &'static str,
    pub(crate) count: Count,
    /// The existing object must not survive the value that should have replaced it.
    pub(crate) removes: bool,
    pub(crate) is_quiet: bool,
}

impl Refused {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        if self.removes {
            execution.state.objects.cache.remove(&self.key);
        }
        execution.state.counters.add(self.count, 1);
        execution.say_unless(self.is_quiet, self.message)
    }
}
