//! Increments and decrements: `incr` and `decr`, and the code shared with `ma`.

use bytes::Bytes;
use tidekv_tiered::{CachedObject, Change, KEY_BYTES_MAX, Object};

use crate::commands::execution::{Execution, Progress};
use crate::commands::storing::BINARY_KEY;
use crate::protocol::numerals::{digits_64, unsigned_64};
use crate::protocol::request::BAD_FORMAT;
use crate::protocol::words::Line;
use crate::state::counters::{Count, Counters};

/// Longer values are not numbers.
const NUMBER_BYTES_MAX: usize = 512 << 10;

/// The value is not a number.
pub(crate) const NON_NUMERIC: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) delta: u64,
    pub(crate) is_down: bool,
}

/// The outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// The object with the new number, and the number.
    To(Object, u64),
    NonNumeric,
    /// The object has another version.
    Exists,
}

impl Step {
    /// The outcome for an object; `compare` is the version that it must have, 0 for any.
    pub(crate) fn take(
        self,
        old: &Object,
        compare: u64,
        next_version: impl FnOnce() -> u64,
    ) -> Stepped {
        if old.value.is_empty() || old.value.len() > NUMBER_BYTES_MAX {
            return Stepped::NonNumeric;
        }
        if compare != 0 && compare != old.version {
            return Stepped::Exists;
        }
        let Some(number) = unsigned_64(&old.value) else { return Stepped::NonNumeric };
        let number = match self.is_down {
            true => number.saturating_sub(self.delta),
            false => number.wrapping_add(self.delta),
        };
        let mut text = itoa::Buffer::new();
        let digits = text.format(number).as_bytes();
        // A number keeps its previous length, as in memcached.
        let mut value = digits.to_vec();
        value.resize(digits.len().max(old.value.len()), b' ');
        let marks = if fits(digits, old) { old.marks } else { old.marks & BINARY_KEY };
        let object = Object {
            value: value.into(),
            flags: old.flags,
            deadline: old.deadline,
            version: next_version(),
            marks,
        };
        Stepped::To(object, number)
    }

    /// Counts a hit or a miss.
    pub(crate) fn count(self, counters: &Counters, is_hit: bool) {
        counters.add(
            match (self.is_down, is_hit) {
                (false, true) => Count::IncrHits,
                (false, false) => Count::IncrMisses,
                (true, true) => Count::DecrHits,
                (true, false) => Count::DecrMisses,
            },
            1,
        );
    }
}

fn fits(digits: &[u8], old: &Object) -> bool {
    digits.len() <= old.value.len()
}

/// The change that replaces `found` by `object`: if the length is unchanged, the object is updated
/// in place.
pub(crate) fn change(found: &CachedObject, object: Object) -> Change {
    match object.value.len() == found.object.value.len() {
        true => Change::Revise(object),
        false => Change::Store(object),
    }
}

/// An increment or decrement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arithmetic {
    key: Bytes,
    step: Step,
    is_quiet: bool,
}

/// Reads `incr` and `decr`.
pub(crate) fn read(line: &Line) -> Result<Arithmetic, &'static str> {
    let key = line.owned_word(1);
    if key.len() > KEY_BYTES_MAX {
        return Err(BAD_FORMAT);
    }
    let delta = digits_64(line.word(2)).ok_or("CLIENT_ERROR invalid numeric delta argument")?;
    let step = Step { delta, is_down: line.word(0) == b"decr" };
    Ok(Arithmetic { key, step, is_quiet: line.is_quiet() })
}

impl Arithmetic {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        let cache = &execution.state.objects.cache;
        let stepped = execution.change(&self.key, |found| {
            let Some(found) = found else { return (Change::Keep, None) };
            match self.step.take(&found.object, 0, || cache.next_version()) {
                Stepped::To(object, number) => (change(found, object), Some(Ok(number))),
                _ => (Change::Keep, Some(Err(()))),
            }
        });
        let Ok(stepped) = stepped else { return Progress::Wait };
        let counters = &execution.state.counters;
        match stepped {
            None => {
                self.step.count(counters, false);
                execution.say_unless(self.is_quiet, "NOT_FOUND")
            }
            Some(Err(())) => execution.say_unless(self.is_quiet, NON_NUMERIC),
            Some(Ok(number)) => {
                self.step.count(counters, true);
                execution.say_unless(self.is_quiet, itoa::Buffer::new().format(number))
            }
        }
    }
}
