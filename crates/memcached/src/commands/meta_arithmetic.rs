//! `ma`: increments or decrements a number, and can create it.

use bytes::Bytes;
use tidekv_tiered::{CachedObject, Change, Deadline, Object};

use crate::commands::arithmetic::{self, NON_NUMERIC, Step, Stepped};
use crate::commands::execution::{Execution, Progress};
use crate::commands::meta_reply::MetaReply;
use crate::commands::storing::BINARY_KEY;
use crate::protocol::expiry::Expiry;
use crate::protocol::flags::{self, Flags, OPAQUE_TOO_LONG};
use crate::protocol::words::Line;

/// A `ma` request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetaArithmetic {
    key: Bytes,
    step: Step,
    flags: Flags,
}

/// The outcome.
#[derive(Debug)]
enum Outcome {
    Counted(NumberReply),
    Made(NumberReply),
    NotFound,
    Exists,
    NonNumeric,
}

/// The attributes of a number in the reply.
#[derive(Debug)]
struct NumberReply {
    number: u64,
    version: u64,
    /// Before the request.
    deadline: Deadline,
}

/// Reads `ma`.
pub(crate) fn read(line: &Line) -> Result<MetaArithmetic, &'static str> {
    flags::check(line, 2)?;
    let (key, flags) = flags::read(line, 2).map_err(|message| match message {
        OPAQUE_TOO_LONG => message,
        _ => "CLIENT_ERROR invalid or duplicate flag",
    })?;
    let is_down = match flags.mode {
        None | Some(b'I' | b'+') => false,
        Some(b'D' | b'-') => true,
        Some(_) => return Err("CLIENT_ERROR invalid mode for ma M token"),
    };
    let step = Step { delta: flags.delta.unwrap_or(1), is_down };
    Ok(MetaArithmetic { key, step, flags })
}

impl MetaArithmetic {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        let now_s = execution.state.now_s();
        let cache = &execution.state.objects.cache;
        let next_version = || self.flags.explicit.unwrap_or_else(|| cache.next_version());
        let done = execution.change(&self.key, |found| match found {
            Some(found) => self.count(found, now_s, || {
                // A number that exists takes a version even if the client gives it one, as in
                // memcached.
                let next = cache.next_version();
                self.flags.explicit.unwrap_or(next)
            }),
            None => self.make(now_s, next_version),
        });
        let Ok(outcome) = done else { return Progress::Wait };
        let counters = &execution.state.counters;
        let code = match outcome {
            Outcome::Counted(told) => {
                self.step.count(counters, true);
                return if self.flags.is_quiet {
                    Progress::Done
                } else {
                    self.tell(execution, &told, false, now_s)
                };
            }
            Outcome::Made(_) if self.flags.is_quiet => return Progress::Done,
            Outcome::Made(told) => return self.tell(execution, &told, true, now_s),
            Outcome::NonNumeric => return execution.say(NON_NUMERIC),
            Outcome::NotFound => {
                self.step.count(counters, false);
                "NF"
            }
            Outcome::Exists => "EX",
        };
        let mut reply = MetaReply::new(code);
        reply.echo(&self.flags.asked, &self.key, self.flags.has_binary_key);
        reply.send(execution)
    }

    fn count(
        &self,
        found: &CachedObject,
        now_s: u32,
        next_version: impl FnOnce() -> u64,
    ) -> (Change, Outcome) {
        let compare = self.flags.compare.unwrap_or(0);
        match self.step.take(&found.object, compare, next_version) {
            Stepped::NonNumeric => (Change::Keep, Outcome::NonNumeric),
            Stepped::Exists => (Change::Keep, Outcome::Exists),
            Stepped::To(mut object, number) => {
                let before = object.deadline;
                if let Some(expiry) = self.flags.expiry {
                    object.deadline = expiry.deadline(now_s);
                }
                let told = NumberReply { number, version: object.version, deadline: before };
                (arithmetic::change(found, object), Outcome::Counted(told))
            }
        }
    }

    fn make(&self, now_s: u32, next_version: impl FnOnce() -> u64) -> (Change, Outcome) {
        let Some(vivify) = self.flags.vivify else { return (Change::Keep, Outcome::NotFound) };
        let number = self.flags.initial;
        // The last of both flags decides.
        let deadlines = self.flags.asked.iter().filter_map(|asked| match asked.letter {
            b'N' => Some(vivify.deadline(now_s)),
            b'T' => Some(self.flags.expiry?.deadline(now_s)),
            _ => None,
        });
        let object = Object {
            value: Bytes::from(number.to_string()),
            flags: 0,
            deadline: deadlines.last().unwrap_or(Deadline::NEVER),
            version: next_version(),
            marks: if self.flags.has_binary_key { BINARY_KEY } else { 0 },
        };
        let deadline = Deadline::NEVER;
        let told = NumberReply { number, version: object.version, deadline };
        (Change::Store(object), Outcome::Made(told))
    }

    fn tell(
        &self,
        execution: &mut Execution<'_>,
        told: &NumberReply,
        is_made: bool,
        now_s: u32,
    ) -> Progress {
        let mut text = itoa::Buffer::new();
        let digits = text.format(told.number);
        let mut reply = MetaReply::found(self.flags.wants_value.then_some(digits.len()));
        let mut deadline = told.deadline;
        let deadline_of = |expiry: Option<Expiry>| expiry.map(|expiry| expiry.deadline(now_s));
        for asked in &self.flags.asked {
            match asked.letter {
                b'c' => reply.numbered(b'c', told.version),
                b't' => reply.time_left(deadline, now_s),
                b'T' => deadline = deadline_of(self.flags.expiry).unwrap_or(deadline),
                b'N' if is_made => deadline = deadline_of(self.flags.vivify).unwrap_or(deadline),
                b'O' => reply.word(&asked.word),
                b'k' => reply.key(&self.key, self.flags.has_binary_key),
                _ => {}
            }
        }
        match self.flags.wants_value {
            true => {
                let value = Bytes::copy_from_slice(digits.as_bytes());
                reply.send_with(execution, &value)
            }
            false => reply.send(execution),
        }
    }
}
