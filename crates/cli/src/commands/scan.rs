//! `scan`: the entries of a range of keys.

use std::ffi::OsString;
use std::io::Write;
use std::ops::Bound;

use tidekv::Keyspace;

use super::point::bytes_of;
use super::store_args::StoreArgs;
use crate::failure::Result;
use crate::files::Output;
use crate::formats::{Format, Record, jsonl, tsv};
use crate::store;

/// Print the entries of a range of keys in order.
///
/// One line per entry: key, tab, value, with tab, newline, carriage return and
/// backslash as \t \n \r \\; on a terminal, other control characters and bytes that are not
/// UTF-8 as \xNN. The directory may be open in a server: the scan sees the
/// writes that the server had acknowledged when it began.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidekv scan --data ./data --prefix user: --limit 10")]
pub struct Scan {
    #[command(flatten)]
    place: StoreArgs,

    /// Only keys that begin with this.
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,

    /// First key of the range (inclusive).
    #[arg(long, value_name = "KEY")]
    start: Option<OsString>,

    /// End of the range (exclusive).
    #[arg(long, value_name = "KEY")]
    end: Option<OsString>,

    /// --prefix, --start and --end are base64.
    #[arg(long)]
    key_base64: bool,

    /// Maximum number of entries to print [default: all].
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Scan in descending order.
    #[arg(long)]
    reverse: bool,

    /// Print keys without values.
    #[arg(long)]
    keys_only: bool,

    /// Print one JSON object per entry.
    #[arg(long)]
    json: bool,
}

/// The bounds of the keys that begin with `prefix` and are in `[start, end)`.
pub fn bounds(
    prefix: Option<Vec<u8>>,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let behind = prefix.as_deref().and_then(tidekv::prefix_end);
    // `None` sorts first, which is right for the start and wrong for the end.
    let start = start.max(prefix);
    let end = match (end, behind) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let is_empty = matches!((&start, &end), (Some(start), Some(end)) if start >= end);
    match (start, end) {
        (Some(start), _) if is_empty => (Bound::Included(start.clone()), Bound::Excluded(start)),
        (start, end) => (
            start.map_or(Bound::Unbounded, Bound::Included),
            end.map_or(Bound::Unbounded, Bound::Excluded),
        ),
    }
}

impl Scan {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let bytes = |name: &str, key: &Option<OsString>| {
            key.as_ref().map(|key| bytes_of(name, key, self.key_base64)).transpose()
        };
        let range = bounds(
            bytes("--prefix", &self.prefix)?,
            bytes("--start", &self.start)?,
            bytes("--end", &self.end)?,
        );
        let db = store::open_to_read(&self.place.data)?;
        let mut out = Output::standard();
        if let Some(keyspace) = store::existing_keyspace(&db, &self.place.keyspace)? {
            self.walk(&keyspace, range, &mut out)?;
        }
        out.finish().map(drop)
    }

    fn walk(
        &self,
        keyspace: &Keyspace,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        out: &mut Output,
    ) -> Result<()> {
        let mut iter = keyspace.range(range);
        if self.keys_only {
            iter = iter.keys_only();
        }
        let mut writer = Format::Tsv.writer();
        let mut line = Vec::new();
        let mut left = self.limit.unwrap_or(u64::MAX);
        while left > 0 {
            let item = if self.reverse { iter.next_back() } else { iter.next() };
            let Some((key, entry)) = item.transpose()? else { break };
            let record =
                Record { key: &key, value: &entry.value, expires_at_ms: entry.expires_at_ms };
            let written = match (self.json, self.keys_only) {
                (true, true) => writeln!(out, "{}", jsonl::key_to_json(&key)),
                (true, false) => writeln!(out, "{}", jsonl::to_json(record)),
                (false, true) => {
                    line.clear();
                    tsv::escape(&key, &mut line);
                    line.push(b'\n');
                    out.write_all(&line)
                }
                (false, false) => writer.write(out, record),
            };
            written.map_err(|error| out.failure(&error))?;
            left -= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_the_narrowest() {
        let some = |text: &str| Some(text.as_bytes().to_vec());
        let included = |text: &str| Bound::Included(text.as_bytes().to_vec());
        let excluded = |text: &str| Bound::Excluded(text.as_bytes().to_vec());
        assert_eq!(bounds(None, None, None), (Bound::Unbounded, Bound::Unbounded));
        assert_eq!(bounds(some("ab"), None, None), (included("ab"), excluded("ac")));
        assert_eq!(bounds(some("a"), some("ab"), some("b")), (included("ab"), excluded("b")));
        assert_eq!(bounds(some("a"), some("A"), some("az")), (included("a"), excluded("az")));
        assert_eq!(bounds(None, some("b"), some("a")), (included("b"), excluded("b")));
        let high = Some(vec![0xff]);
        assert_eq!(
            bounds(high.clone(), None, None),
            (Bound::Included(vec![0xff]), Bound::Unbounded)
        );
        assert_eq!(bounds(None, None, high), (Bound::Unbounded, Bound::Excluded(vec![0xff])));
    }
}
