//! `get` and related commands: the objects of one or many keys.

use bytes::Bytes;
use tidekv_tiered::{CachedObject, Change, KEY_BYTES_MAX, Object, WouldBlock};

use crate::commands::execution::{Execution, Progress};
use crate::protocol::expiry::Expiry;
use crate::protocol::request::BAD_FORMAT;
use crate::protocol::words::{Line, words_of};
use crate::state::counters::Count;

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
}

/// Reads `get`, `gets`, `gat`, `gats` and `bget`.
pub(crate) fn read(line: &Line) -> Result<Get, &'static str> {
    let name = line.word(0);
    let touches = name.starts_with(b"gat");
    let expiry = match touches {
        true => Some(Expiry::parse(line.word(1)).ok_or("CLIENT_ERROR invalid exptime argument")?),
        false => None,
    };
    let keys = line.rest_from(1 + usize::from(touches));
    if words_of(&keys).any(|key| key.len() > KEY_BYTES_MAX) {
        return Err(BAD_FORMAT);
    }
    Ok(Get { keys, has_versions: name.ends_with(b"s"), expiry })
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
                return execution.say("END");
            };
            let Ok(found) = look_up(execution, &key, self.expiry) else { return Progress::Wait };
            self.keys = self.keys.slice_ref(&self.keys[key.len()..]);
            if let Some(CachedObject { object, .. }) = found {
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

/// Looks up an object, changes its time to live if there is an `expiry`, and counts the outcome.
pub(crate) fn look_up(
    execution: &Execution<'_>,
    key: &[u8],
    expiry: Option<Expiry>,
) -> Result<Option<CachedObject>, WouldBlock> {
    let (found, all, hits, misses) = match expiry {
        None => (execution.get(key)?, Count::Gets, Count::GetHits, Count::GetMisses),
        Some(expiry) => {
            let deadline = expiry.deadline(execution.state.now_s());
            let found = execution.change(key, |found| match found {
                None => (Change::Fetch, None),
                Some(found) => {
                    let object = Object { deadline, ..found.object.clone() };
                    (Change::ReviseAndFetch(object), Some(found.clone()))
                }
            })?;
            (found, Count::Touches, Count::TouchHits, Count::TouchMisses)
        }
    };
    let counters = &execution.state.counters;
    counters.add(all, 1);
    counters.add(if found.is_some() { hits } else { misses }, 1);
    Ok(found)
}
