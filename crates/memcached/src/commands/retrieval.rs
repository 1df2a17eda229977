//! `get` and related commands: the objects of one or many keys.

use bytes::Bytes;
use tidekv_tiered::{CachedObject, Change, KEY_BYTES_MAX, Object, WouldBlock};

use crate::commands::execution::{Execution, Progress};
use crate::protocol::expiry::Expiry;
use crate::protocol::request::BAD_FORMAT;
use crate::protocol::words::Line;
use crate::state::counters::{Count, Counters};
use crate::state::prefixes::Event;

/// After this many bytes, replies are sent before the request continues.
const REPLY_BYTES_MAX: usize = 256 << 10;
/// After this many keys other connections run.
const KEYS_MAX: usize = 256;

/// A request for the objects of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Get {
    /// The remaining keys, separated by spaces.
    keys: Bytes,
    has_versions: bool,
    /// The new time to live, if it changes.
    expiry: Option<Expiry>,
    /// The keys are fetched, but a longer one than possible follows them: the reply is an error.
    is_refused: bool,
}

/// Reads `get`, `gets`, `gat` and `gats`.
pub(crate) fn read(line: &Line) -> Result<Get, &'static str> {
    let name = line.word(0);
    let touches = name.starts_with(b"gat");
    let expiry = match touches {
        true => Some(Expiry::parse(line.word(1)).ok_or("CLIENT_ERROR invalid exptime argument")?),
        false => None,
    };
    let mut keys = line.rest_from(1 + usize::from(touches));
    let mut start = 0;
    let is_fine = |word: &&[u8]| word.len() <= KEY_BYTES_MAX;
    let words = keys.split(|&byte| byte == b' ');
    words.take_while(is_fine).for_each(|word| start += word.len() + 1);
    let is_refused = start < keys.len();
    keys.truncate(start);
    Ok(Get { keys, has_versions: name.ends_with(b"s"), expiry, is_refused })
}

impl Get {
    /// The remaining keys, separated by spaces.
    pub(crate) fn keys(&self) -> &[u8] {
        &self.keys
    }

    /// Looks up the keys in order, up to the limits.
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        for _ in 0..KEYS_MAX {
            let Some(key) = self.front() else {
                return execution.say(if self.is_refused { BAD_FORMAT } else { "END" });
            };
            let Ok(found) = look_up(execution, &key, self.expiry) else { return Progress::Wait };
            if !self.is_refused
                && let Some(CachedObject { object, .. }) = &found
                && let Err(missing) = execution.reserve(object.value.len())
            {
                return missing;
            }
            count(&execution.state.counters, self.expiry.is_some(), found.is_some());
            execution.state.prefixes.count(&key, Event::Get { is_hit: found.is_some() });
            self.keys = self.keys.slice_ref(&self.keys[key.len()..]);
            if !self.is_refused
                && let Some(CachedObject { object, .. }) = found
            {
                self.put(execution, &key, &object);
            }
            if execution.out.len() >= REPLY_BYTES_MAX {
                break;
            }
        }
        Progress::More
    }

    /// The next key; removes the spaces before it.
    fn front(&mut self) -> Option<Bytes> {
        let start = self.keys.iter().position(|&byte| byte != b' ')?;
        self.keys = self.keys.slice(start..);
        let end = self.keys.iter().position(|&byte| byte == b' ').unwrap_or(self.keys.len());
        Some(self.keys.slice(..end))
    }

    fn put(&self, execution: &mut Execution<'_>, key: &[u8], object: &Object) {
        execution.out.put(b"VALUE ");
        execution.out.put(key);
        execution.out.put(b" ");
        execution.put_number(u64::from(object.flags));
        execution.out.put(b" ");
        execution.put_number(object.value.len() as u64);
        if self.has_versions {
            execution.out.put(b" ");
            execution.put_number(object.version);
        }
        execution.out.put(b"\r\n");
        execution.out.put_value(&object.value);
        execution.out.put(b"\r\n");
    }
}

/// Looks up an object, and changes its time to live if there is an `expiry`.
pub(crate) fn look_up(
    execution: &Execution<'_>,
    key: &[u8],
    expiry: Option<Expiry>,
) -> Result<Option<CachedObject>, WouldBlock> {
    let Some(expiry) = expiry else { return execution.get(key) };
    let deadline = expiry.deadline(execution.state.now_s());
    execution.change(key, |found| match found {
        None => (Change::Fetch, None),
        Some(found) => {
            let object = Object { deadline, ..found.object.clone() };
            (Change::ReviseAndFetch(object), Some(found.clone()))
        }
    })
}

/// Counts a lookup, which changed the time to live if it `touches`.
pub(crate) fn count(counters: &Counters, touches: bool, is_found: bool) {
    let (all, hits, misses) = match touches {
        false => (Count::Gets, Count::GetHits, Count::GetMisses),
        true => (Count::Touches, Count::TouchHits, Count::TouchMisses),
    };
    counters.add(all, 1);
    counters.add(if is_found { hits } else { misses }, 1);
}
