//! Walks over all objects in DRAM: `lru_crawler metadump` and `mgdump`, `stats cachedump`.
//!
//! Guarantees: a walk holds no lock for long, and only a part of its reply in memory; an object
//! that exists all the time is returned once.

use std::fmt::Write;

use tidekv_tiered::{CachedObject, Cursor};

use crate::commands::execution::{Execution, Progress};
use crate::commands::storing::BINARY_KEY;
use crate::protocol::flags::encode;
use crate::protocol::numerals::{digits_32, unsigned_32};
use crate::protocol::request::{BAD_FORMAT, NO_COMMAND};
use crate::protocol::words::Line;

/// Slots visited under one lock.
pub(crate) const PLACES_AT_ONCE: usize = 256;
/// Size classes that memcached may have. Only the first exists here.
const CLASSES: u32 = 64;
/// Maximum bytes of `stats cachedump`, as in memcached.
const CACHEDUMP_BYTES_MAX: usize = 2 << 20;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// A line of metadata for each object.
    Metadata,
    /// A request for each object.
    Requests,
    /// The format of `stats cachedump`, at most this many objects.
    Items(u32),
}

/// A walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walk {
    /// The position; `None` at the end.
    cursor: Option<Cursor>,
    format: Format,
    shown_bytes: usize,
}

/// Reads `lru_crawler`.
pub(crate) fn read_crawler(line: &Line) -> Result<Walk, &'static str> {
    let format = match (line.word(1), line.len()) {
        (b"metadump", 3) => Format::Metadata,
        (b"mgdump", 3) => Format::Requests,
        (b"crawl" | b"tocrawl" | b"sleep", 3) | (b"enable" | b"disable", 2) => {
            return Err("CLIENT_ERROR lru crawler disabled");
        }
        _ => return Err(NO_COMMAND),
    };
    let mut has_ours = false;
    match line.word(2) {
        b"all" | b"hash" => has_ours = true,
        classes => {
            for class in classes.split(|&byte| byte == b',').filter(|class| !class.is_empty()) {
                let class = unsigned_32(class).filter(|class| (1..CLASSES).contains(class));
                has_ours |= class.ok_or("BADCLASS invalid class id")? == 1;
            }
        }
    }
    Ok(Walk { cursor: has_ours.then(Cursor::default), format, shown_bytes: 0 })
}

/// Reads `stats cachedump`.
pub(crate) fn read_cachedump(line: &Line) -> Result<Walk, &'static str> {
    if line.len() < 4 {
        return Err("CLIENT_ERROR bad command line");
    }
    let class = digits_32(line.word(2)).ok_or(BAD_FORMAT)?;
    let limit = digits_32(line.word(3)).ok_or(BAD_FORMAT)?;
    if class >= CLASSES {
        return Err("CLIENT_ERROR Illegal slab id");
    }
    let format = Format::Items(if limit == 0 { u32::MAX } else { limit });
    Ok(Walk { cursor: (class == 1).then(Cursor::default), format, shown_bytes: 0 })
}

impl Walk {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>) -> Progress {
        if !execution.state.options.allows_dumps {
            return execution.say(match self.format {
                Format::Metadata => "ERROR metadump not allowed",
                Format::Requests => "ERROR key dump not allowed",
                Format::Items(_) => "CLIENT_ERROR stats cachedump not allowed",
            });
        }
        let Some(from) = self.cursor else {
            return execution.say(if self.format == Format::Requests { "EN" } else { "END" });
        };
        let mut text = String::new();
        let cache = &execution.state.objects.cache;
        self.cursor = cache.visit(from, PLACES_AT_ONCE, |key, found| {
            self.format.show(&mut text, key, found);
        });
        self.shown_bytes += text.len();
        let is_over = match self.format {
            Format::Items(left) => left == 0 || self.shown_bytes > CACHEDUMP_BYTES_MAX,
            _ => false,
        };
        if is_over {
            self.cursor = None;
        }
        execution.out.put(text.as_bytes());
        Progress::More
    }
}

impl Format {
    fn show(&mut self, text: &mut String, key: &[u8], found: &CachedObject) {
        let object = &found.object;
        // Writing to a `String` cannot fail.
        let _ = match self {
            Self::Metadata => writeln!(
                text,
                "key={} exp={} la={} cas={} fetch={} cls=1 size={}",
                percent_encoded(key),
                object.deadline.unix_s().map_or(-1, i64::from),
                found.accessed_s,
                object.version,
                if found.was_fetched { "yes" } else { "no" },
                key.len() + object.value.len(),
            ),
            Self::Requests if object.marks & BINARY_KEY != 0 => {
                write!(text, "mg {} b\r\n", encode(key))
            }
            Self::Requests => write!(text, "mg {}\r\n", String::from_utf8_lossy(key)),
            Self::Items(0) => Ok(()),
            Self::Items(left) => {
                *left -= 1;
                let name = String::from_utf8_lossy(key);
                let deadline_s = object.deadline.unix_s().unwrap_or(0);
                write!(text, "ITEM {name} [{} b; {deadline_s} s]\r\n", object.value.len())
            }
        };
    }
}

/// A percent-encoded key.
fn percent_encoded(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for &byte in key {
        match byte {
            b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn classes_are_parsed_as_in_memcached() {
        let read = |text: &str| {
            let line = Line::new(Bytes::copy_from_slice(text.as_bytes()));
            read_crawler(&line).map(|walk| walk.cursor.is_some())
        };
        assert_eq!(read("lru_crawler metadump all"), Ok(true));
        assert_eq!(read("lru_crawler mgdump hash"), Ok(true));
        assert_eq!(read("lru_crawler metadump 3,1"), Ok(true));
        assert_eq!(read("lru_crawler metadump 3"), Ok(false));
        for text in ["0", "64", "x", "1,x"] {
            let refused = read(&format!("lru_crawler metadump {text}"));
            assert_eq!(refused, Err("BADCLASS invalid class id"));
        }
        assert_eq!(read("lru_crawler metadump"), Err(NO_COMMAND));
        assert_eq!(read("lru_crawler"), Err(NO_COMMAND));
        assert_eq!(percent_encoded(b"a b%\xff~"), "a%20b%25%FF~");
    }
}
