//! `md`: removes an object, marks it as stale, or empties it.

use bytes::Bytes;
use tidekv_tiered::{CachedObject, Change, Deadline, Object};

use crate::commands::execution::{Execution, Progress};
use crate::commands::meta_reply::MetaReply;
use crate::commands::storing::{BINARY_KEY, STALE, WON};
use crate::protocol::flags::{self, Flags};
use crate::protocol::words::Line;
use crate::state::counters::Count;
use crate::state::prefixes::Event;

/// A request to remove an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetaDelete {
    key: Bytes,
    flags: Flags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Removed,
    Kept,
    NotFound,
    Exists,
}

/// Reads `md`.
pub(crate) fn read(line: &Line) -> Result<MetaDelete, &'static str> {
    flags::check(line, 2)?;
    let (key, flags) = flags::read(line, 2)?;
    Ok(MetaDelete { key, flags })
}

impl MetaDelete {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        let now_s = execution.state.now_s();
        let cache = &execution.state.objects.cache;
        let next_version = || self.flags.explicit.unwrap_or_else(|| cache.next_version());
        let done = execution.change(&self.key, |found| match found {
            None => (Change::Keep, Outcome::NotFound),
            Some(found) => self.decide(found, now_s, next_version),
        });
        let Ok(outcome) = done else { return Progress::Wait };
        let counters = &execution.state.counters;
        let code = match outcome {
            Outcome::Removed => {
                counters.add(Count::DeleteHits, 1);
                "HD"
            }
            Outcome::Kept => "HD",
            Outcome::NotFound => {
                counters.add(Count::DeleteMisses, 1);
                "NF"
            }
            Outcome::Exists => {
                counters.add(Count::DeleteMisses, 1);
                "EX"
            }
        };
        execution.state.prefixes.count(&self.key, Event::Delete);
        if code == "HD" && self.flags.is_quiet {
            return Progress::Done;
        }
        let mut reply = MetaReply::new(code);
        reply.echo(&self.flags.asked, &self.key, self.flags.has_binary_key);
        reply.send(execution)
    }

    fn decide(
        &self,
        found: &CachedObject,
        now_s: u32,
        next_version: impl FnOnce() -> u64,
    ) -> (Change, Outcome) {
        let old = &found.object;
        if self.flags.compare.is_some_and(|version| version != old.version) {
            return (Change::Keep, Outcome::Exists);
        }
        if !self.flags.invalidates && !self.flags.drops_value {
            return (Change::Remove, Outcome::Removed);
        }
        let mut object = old.clone();
        if self.flags.drops_value {
            // A new object, which has the old version.
            object = Object {
                value: Bytes::new(),
                flags: self.flags.client_flags,
                deadline: self
                    .flags
                    .expiry
                    .map_or(Deadline::NEVER, |expiry| expiry.deadline(now_s)),
                version: self.flags.explicit.unwrap_or(old.version),
                marks: old.marks & BINARY_KEY,
            };
        }
        if !self.flags.invalidates {
            return (Change::Store(object), Outcome::Removed);
        }
        if let Some(expiry) = self.flags.expiry {
            object.deadline = expiry.deadline(now_s);
        }
        // The next client can win.
        object.marks = object.marks & !WON | STALE;
        object.version = next_version();
        // A new object has not been fetched.
        let change = if self.flags.drops_value { Change::Store } else { Change::Revise };
        (change(object), Outcome::Kept)
    }
}
