//! `mg`: one object with its attributes; it also selects the client that must recompute the object.
//!
//! One client can win an object that is stale, about to expire or absent (`W`); until the object is
//! replaced, all others get the reply that another client has won (`Z`).

use bytes::Bytes;
use tidekv_tiered::{CachedObject, Change, Deadline, Object};

use crate::commands::execution::{Execution, Progress};
use crate::commands::meta_reply::MetaReply;
use crate::commands::storing::{BINARY_KEY, STALE, WON};
use crate::protocol::flags::{self, Flags};
use crate::protocol::words::Line;
use crate::state::counters::Count;
use crate::state::prefixes::Event;

/// A request for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetaGet {
    key: Bytes,
    flags: Flags,
}

/// Reads `mg`.
pub(crate) fn read(line: &Line) -> Result<MetaGet, &'static str> {
    flags::check(line, 2)?;
    let (key, flags) = flags::read(line, 2)?;
    Ok(MetaGet { key, flags })
}

/// The object as the reply describes it.
struct Seen {
    /// The found or created object.
    object: Object,
    was_fetched: bool,
    idle_s: u32,
    is_made: bool,
    has_won: bool,
}

impl MetaGet {
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        if self.flags.wants_value
            && let Err(missing) = execution.reserve_for(&self.key)
        {
            return missing;
        }
        let now_s = execution.state.now_s();
        let cache = &execution.state.objects.cache;
        let next_version = || self.flags.explicit.unwrap_or_else(|| cache.next_version());
        let seen = execution.change(&self.key, |found| match found {
            Some(found) => self.see(found, now_s),
            None => self.make(now_s, next_version),
        });
        let Ok(seen) = seen else { return Progress::Wait };
        self.count(execution, seen.is_some());
        match seen {
            Some(seen) => self.tell(execution, &seen, now_s),
            None if self.flags.is_quiet => Progress::Done,
            None => {
                let mut reply = MetaReply::new("EN");
                reply.echo(&self.flags.asked, &self.key, self.flags.has_binary_key);
                reply.send(execution)
            }
        }
    }

    /// The change of an existing object.
    fn see(&self, found: &CachedObject, now_s: u32) -> (Change, Option<Seen>) {
        let object = &found.object;
        let is_won = object.marks & WON != 0;
        let mut deadline = object.deadline;
        let mut has_won = false;
        for asked in &self.flags.asked {
            match (asked.letter, self.flags.expiry, self.flags.recache) {
                (b'T', Some(expiry), _) => deadline = expiry.deadline(now_s),
                (b'R', _, Some(recache)) => {
                    let limit = recache.deadline(now_s).unix_s();
                    let is_near = deadline.unix_s().is_some_and(|end| Some(end) < limit);
                    has_won |= is_near && !is_won;
                }
                _ => {}
            }
        }
        has_won |= object.marks & STALE != 0 && !is_won;
        let marks = object.marks | if has_won { WON } else { 0 };
        let is_changed = deadline != object.deadline || marks != object.marks;
        let revised = || Object { deadline, marks, ..object.clone() };
        let change = match (is_changed, self.flags.is_unseen) {
            (false, false) => Change::Fetch,
            (false, true) => Change::Keep,
            (true, false) => Change::ReviseAndFetch(revised()),
            (true, true) => Change::Revise(revised()),
        };
        let seen = Seen {
            object: object.clone(),
            was_fetched: found.was_fetched,
            idle_s: now_s.saturating_sub(found.accessed_s),
            is_made: false,
            has_won,
        };
        (change, Some(seen))
    }

    /// Creates an empty object if there is none and the client requests it.
    fn make(&self, now_s: u32, version: impl FnOnce() -> u64) -> (Change, Option<Seen>) {
        let Some(vivify) = self.flags.vivify else { return (Change::Fetch, None) };
        let binary = if self.flags.has_binary_key { BINARY_KEY } else { 0 };
        // The last of both flags decides.
        let deadlines = self.flags.asked.iter().filter_map(|asked| match asked.letter {
            b'N' => Some(vivify.deadline(now_s)),
            b'T' => Some(self.flags.expiry?.deadline(now_s)),
            _ => None,
        });
        let object = Object {
            value: Bytes::new(),
            flags: 0,
            deadline: deadlines.last().unwrap_or(Deadline::NEVER),
            version: version(),
            marks: WON | binary,
        };
        let told = Object { marks: binary, deadline: Deadline::NEVER, ..object.clone() };
        let change = match self.flags.is_unseen {
            true => Change::Store(object),
            false => Change::ReviseAndFetch(object),
        };
        let seen =
            Seen { object: told, was_fetched: false, idle_s: 0, is_made: true, has_won: true };
        (change, Some(seen))
    }

    fn count(&self, execution: &Execution<'_>, is_found: bool) {
        let counters = &execution.state.counters;
        let (all, outcome) = match (is_found, self.flags.expiry) {
            (true, None) => (Count::Gets, Count::GetHits),
            (true, Some(_)) => (Count::Touches, Count::TouchHits),
            (false, _) => (Count::Gets, Count::GetMisses),
        };
        counters.add(all, 1);
        counters.add(outcome, 1);
        execution.state.prefixes.count(&self.key, Event::Get { is_hit: is_found });
    }

    fn tell(&self, execution: &mut Execution<'_>, seen: &Seen, now_s: u32) -> Progress {
        let object = &seen.object;
        let is_binary = object.marks & BINARY_KEY != 0;
        let mut deadline = object.deadline;
        // A client that has this version needs no value.
        let has_value = self.flags.wants_value && self.flags.compare != Some(object.version);
        let mut reply = MetaReply::found(has_value.then_some(object.value.len()));
        for asked in &self.flags.asked {
            match (asked.letter, self.flags.expiry, self.flags.vivify) {
                // Later flags see the deadline that it sets.
                (b'T', Some(expiry), _) => deadline = expiry.deadline(now_s),
                (b'N', _, Some(vivify)) if seen.is_made => deadline = vivify.deadline(now_s),
                _ => {}
            }
            match asked.letter {
                b's' => reply.numbered(b's', object.value.len() as u64),
                b't' => reply.time_left(deadline, now_s),
                b'c' => reply.numbered(b'c', object.version),
                b'f' => reply.numbered(b'f', u64::from(object.flags)),
                b'l' => reply.numbered(b'l', u64::from(seen.idle_s)),
                b'h' => reply.numbered(b'h', u64::from(seen.was_fetched)),
                b'O' => reply.word(&asked.word),
                b'k' => reply.key(&self.key, is_binary),
                _ => {}
            }
        }
        // The winner does not get `Z`.
        if object.marks & WON != 0 {
            reply.flag(b'Z');
        }
        if object.marks & STALE != 0 {
            reply.flag(b'X');
        }
        if seen.has_won {
            reply.flag(b'W');
        }
        match has_value {
            true => reply.send_with(execution, &object.value),
            false => reply.send(execution),
        }
    }
}
