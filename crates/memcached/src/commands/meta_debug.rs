//! `me`: information about an object, for debugging.

use bytes::Bytes;
use tidekv_tiered::{CachedObject, Change, KEY_BYTES_MAX};

use crate::commands::execution::{Execution, Progress};
use crate::commands::storing::BINARY_KEY;
use crate::protocol::flags::{self, decode, encode};
use crate::protocol::request::BAD_FORMAT;
use crate::protocol::words::Line;
use crate::state::counters::Count;

/// A `me` request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetaDebug {
    key: Bytes,
}

/// Reads `me`.
pub(crate) fn read(line: &Line) -> Result<MetaDebug, &'static str> {
    let key = line.owned_word(1);
    flags::check(line, 2)?;
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(BAD_FORMAT);
    }
    let key = match line.word(2) {
        b"b" => decode(&key).ok_or(BAD_FORMAT)?,
        _ => key,
    };
    Ok(MetaDebug { key })
}

impl MetaDebug {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        let found = execution.change(&self.key, |found| (Change::Keep, found.cloned()));
        let Ok(found) = found else { return Progress::Wait };
        execution.state.counters.add(Count::MetaDebugs, 1);
        let Some(found) = found else { return execution.say("EN") };
        let now_s = execution.state.now_s();
        execution.out.put(b"ME ");
        match found.object.marks & BINARY_KEY {
            0 => execution.out.put(&self.key),
            _ => execution.out.put(encode(&self.key).as_bytes()),
        }
        execution.say(&self.describe(&found, now_s))
    }

    fn describe(&self, found: &CachedObject, now_s: u32) -> String {
        let object = &found.object;
        let expiry = object.deadline.unix_s().map_or(-1, |end| i64::from(end) - i64::from(now_s));
        format!(
            " exp={expiry} la={} cas={} fetch={} cls=1 size={}",
            now_s.saturating_sub(found.accessed_s),
            object.version,
            if found.was_fetched { "yes" } else { "no" },
            self.key.len() + object.value.len(),
        )
    }
}
