//! `set` and related commands: store a value, depending on the existing object.

use bytes::{Bytes, BytesMut};
use tidekv_tiered::{CachedObject, Change, KEY_BYTES_MAX, Object, WouldBlock};

use crate::commands::execution::{Execution, Progress};
use crate::protocol::expiry::Expiry;
use crate::protocol::numerals::{digits_64, unsigned_32};
use crate::protocol::request::{BAD_FORMAT, Mode, NO_MEMORY};
use crate::protocol::words::Line;
use crate::state::counters::Count;
use crate::state::prefixes::Event;

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
    /// An append or a prepend creates an object if there is none.
    pub(crate) creates: bool,
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

/// The stored object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) version: u64,
    /// The length of its value.
    pub(crate) len: usize,
}

/// The outcome of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Stored(Stored),
    NotStored,
    /// The object has another version.
    Exists,
    NotFound,
    /// It has no room, and nothing may be evicted for it.
    NoMemory,
}

/// Parses `set`, `add`, `replace`, `append`, `prepend` and `cas`.
pub(crate) fn read(line: &Line) -> Result<Set, &'static str> {
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
    let expiry = Expiry::parse_leniently(line.word(3)).ok_or(BAD_FORMAT)?;
    let compare = match mode {
        Mode::Cas => Some(digits_64(line.word(5)).ok_or(BAD_FORMAT)?),
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
        creates: false,
        may_be_stale: false,
        marks: 0,
    };
    Ok(Set { store, is_quiet: line.is_quiet() })
}

impl Set {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        let Ok(outcome) = self.store.run(execution) else { return Progress::Wait };
        let line = match outcome {
            Outcome::Stored(_) => "STORED",
            Outcome::NotStored => "NOT_STORED",
            Outcome::Exists => "EXISTS",
            Outcome::NotFound => "NOT_FOUND",
            Outcome::NoMemory => NO_MEMORY,
        };
        execution.say_unless(self.is_quiet, line)
    }
}

impl Store {
    /// Stores the value, if the existing object allows it.
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Result<Outcome, WouldBlock> {
        let now_s = execution.state.now_s();
        // An attempt takes a version whether it succeeds or not, as in memcached.
        let next_version = || execution.state.objects.cache.next_version();
        // If it must wait, it continues with the same one.
        let next = *self.explicit.get_or_insert_with(next_version);
        let cache = &execution.state.objects.cache;
        let outcome = if self.mode == Mode::Set && cache.evicts() {
            // Unconditionally.
            let (object, stored) = stored(self.object(next, now_s));
            cache.store(&self.key, object);
            Outcome::Stored(stored)
        } else {
            let bytes_max = cache.object_bytes_max();
            let has_room = |len, old_len| cache.has_free_room_for(&self.key, len, old_len);
            execution.change(&self.key, |found| {
                let decided = self.decide(found, next, now_s, bytes_max);
                self.unless_full(decided, found, has_room)
            })?
        };
        let counters = &execution.state.counters;
        counters.add(Count::Sets, 1);
        execution.state.prefixes.count(&self.key, Event::Set);
        match (self.mode, outcome) {
            (Mode::Cas, Outcome::Stored(_)) => counters.add(Count::CasHits, 1),
            (Mode::Cas, Outcome::Exists) => counters.add(Count::CasBadval, 1),
            (Mode::Cas, Outcome::NotFound) => counters.add(Count::CasMisses, 1),
            (_, Outcome::NoMemory) => counters.add(Count::NoMemory, 1),
            _ => {}
        }
        Ok(outcome)
    }

    fn object(&self, version: u64, now_s: u32) -> Object {
        Object {
            value: self.value.clone(),
            flags: self.flags,
            deadline: self.expiry.deadline(now_s),
            version,
            marks: self.marks,
        }
    }

    /// The change of the `found` object; `next` is the version of a new one.
    fn decide(
        &self,
        found: Option<&CachedObject>,
        next: u64,
        now_s: u32,
        bytes_max: u64,
    ) -> (Change, Outcome) {
        let object = || self.object(next, now_s);
        let Some(CachedObject { object: old, .. }) = found else {
            return match self.mode {
                Mode::Set | Mode::Add => store(object()),
                Mode::Cas => (Change::Keep, Outcome::NotFound),
                Mode::Append | Mode::Prepend if self.creates => store(object()),
                Mode::Replace | Mode::Append | Mode::Prepend => (Change::Keep, Outcome::NotStored),
            };
        };
        let compare = self.compare.unwrap_or(0);
        match self.mode {
            Mode::Add => (Change::Keep, Outcome::NotStored),
            Mode::Cas if compare != 0 && compare == old.version => store(object()),
            Mode::Cas if compare != 0 && self.may_be_stale && compare < old.version => {
                let marks = self.marks | STALE | (old.marks & WON);
                store(Object { deadline: old.deadline, marks, ..object() })
            }
            Mode::Cas => (Change::Keep, Outcome::Exists),
            Mode::Set | Mode::Replace => store(object()),
            Mode::Append | Mode::Prepend if compare != 0 && compare != old.version => {
                (Change::Keep, Outcome::Exists)
            }
            Mode::Append | Mode::Prepend => self.extend(old, next, bytes_max),
        }
    }

    /// The change, unless it stores an object without room: then a `set` removes the old one.
    fn unless_full(
        &self,
        (change, outcome): (Change, Outcome),
        found: Option<&CachedObject>,
        has_room: impl Fn(usize, Option<usize>) -> bool,
    ) -> (Change, Outcome) {
        let old_len = found.map(|found| found.object.value.len());
        match &change {
            Change::Store(object) if !has_room(object.value.len(), old_len) => {
                let change = if self.mode == Mode::Set { Change::Remove } else { Change::Keep };
                (change, Outcome::NoMemory)
            }
            _ => (change, outcome),
        }
    }

    /// The existing value and the new one, concatenated.
    fn extend(&self, old: &Object, next: u64, bytes_max: u64) -> (Change, Outcome) {
        let len = old.value.len() + self.value.len();
        // The cache cannot check the size itself while it calls `decide`.
        if len as u64 > bytes_max {
            return (Change::Keep, Outcome::NotStored);
        }
        let (front, back) = match self.mode {
            Mode::Append => (&old.value, &self.value),
            _ => (&self.value, &old.value),
        };
        let mut value = BytesMut::with_capacity(len);
        value.extend_from_slice(front);
        value.extend_from_slice(back);
        store(Object {
            value: value.freeze(),
            flags: old.flags,
            deadline: old.deadline,
            version: next,
            marks: old.marks & BINARY_KEY,
        })
    }
}

fn stored(object: Object) -> (Object, Stored) {
    let stored = Stored { version: object.version, len: object.value.len() };
    (object, stored)
}

fn store(object: Object) -> (Change, Outcome) {
    let (object, stored) = stored(object);
    (Change::Store(object), Outcome::Stored(stored))
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
