//! `ms`: stores a value, in one of the modes of the text protocol.

use bytes::Bytes;

use crate::commands::execution::{Execution, Progress};
use crate::commands::meta_reply::MetaReply;
use crate::commands::storing::{BINARY_KEY, Outcome, Store, Stored};
use crate::protocol::flags::{self, Flags};
use crate::protocol::request::{BAD_FORMAT, Mode, NO_MEMORY, value_len};
use crate::protocol::words::Line;

/// An `ms` request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetaSet {
    pub(crate) store: Store,
    flags: Flags,
}

/// Parses the length of the value of an `ms`, without which the rest of the stream is undefined.
pub(crate) fn read_len(line: &Line) -> Result<u32, &'static str> {
    flags::check(line, 3)?;
    value_len(line.word(2)).ok_or(BAD_FORMAT)
}

/// Reads the rest of it.
pub(crate) fn read(line: &Line) -> Result<MetaSet, &'static str> {
    let (key, flags) = flags::read(line, 3)?;
    let mode = match flags.mode {
        None | Some(b'S') => Mode::Set,
        Some(b'E') => Mode::Add,
        Some(b'A') => Mode::Append,
        Some(b'P') => Mode::Prepend,
        Some(b'R') => Mode::Replace,
        Some(_) => return Err("CLIENT_ERROR invalid mode for ms M token"),
    };
    let compares = flags.compare.is_some() && matches!(mode, Mode::Set | Mode::Replace);
    // Of an append the time to live only counts for an object that it creates.
    let creation = flags.vivify.filter(|_| matches!(mode, Mode::Append | Mode::Prepend));
    let store = Store {
        key,
        value: Bytes::new(),
        mode: if compares { Mode::Cas } else { mode },
        flags: flags.client_flags,
        expiry: creation.or(flags.expiry).unwrap_or_default(),
        compare: flags.compare,
        explicit: flags.explicit,
        creates: creation.is_some(),
        may_be_stale: flags.invalidates,
        marks: if flags.has_binary_key { BINARY_KEY } else { 0 },
    };
    Ok(MetaSet { store, flags })
}

impl MetaSet {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        let Ok(outcome) = self.store.run(execution) else { return Progress::Wait };
        let none = Stored { version: 0, len: self.store.value.len() };
        let (code, stored) = match outcome {
            Outcome::Stored(_) if self.flags.is_quiet => return Progress::Done,
            Outcome::Stored(stored) => ("HD", stored),
            Outcome::Exists => ("EX", none),
            Outcome::NotFound => ("NF", none),
            Outcome::NotStored => ("NS", none),
            Outcome::NoMemory => return execution.say(NO_MEMORY),
        };
        let mut reply = MetaReply::new(code);
        for asked in &self.flags.asked {
            match asked.letter {
                b'O' => reply.word(&asked.word),
                b'k' => reply.key(&self.store.key, self.flags.has_binary_key),
                b's' => reply.numbered(b's', stored.len as u64),
                b'c' => reply.numbered(b'c', stored.version),
                _ => {}
            }
        }
        reply.send(execution)
    }
}
