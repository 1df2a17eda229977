//! The source of a user's workload: a trace ([`of_trace`]), or the data of a store, for which
//! requests are generated ([`of_data`]).

use std::io::BufRead;
use std::path::Path;

use tidekv::{Db, KEY_BYTES_MAX, Options, VALUE_BYTES_MAX};
use tidekv_plan::trace::{self, FORMATS, Fault, Format, Reader};

use crate::experiments::catalogue;
use crate::failure::{Failure, Result};
use crate::harness::replay::{Builder, Replay};
use crate::load::dice::Dice;
use crate::load::keys::{Choice, Picker};
use crate::load::workload::Kind;

/// The format with this name.
///
/// # Errors
/// A usage error for an unknown name.
pub(crate) fn format(name: &str) -> Result<Format> {
    let found = FORMATS.iter().find(|record| record.name == name);
    found.map(|record| record.format).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|record| record.name).collect();
        catalogue::unknown("format", name, &names)
    })
}

/// The result of reading a trace, with the skipped parts.
pub(crate) struct Traced {
    pub(crate) replay: Replay,
    /// Lines and commands without a key.
    pub(crate) left_out: u64,
    /// Requests with keys or values longer than a store accepts.
    pub(crate) refused: u64,
    pub(crate) broken: u64,
    pub(crate) first_broken: Option<String>,
    /// The trace had more requests than the limit.
    pub(crate) is_cut: bool,
}

/// Reads a trace, up to a number of requests. Its store begins with every key in it.
///
/// # Errors
/// A trace that cannot be read or whose format is unknown, a malformed line if it `is_strict`, and
/// a trace without requests.
pub(crate) fn of_trace(
    mut input: impl BufRead + Send + 'static,
    format: Option<Format>,
    requests_max: u64,
    is_strict: bool,
) -> Result<Traced> {
    let unread = |e: &dyn std::fmt::Display| Failure::new(format!("the trace: {e}"));
    let head = input.fill_buf().map_err(|e| unread(&e))?;
    let format = format
        .or_else(|| Format::of(head))
        .ok_or_else(|| Failure::usage("unknown trace format: use `--format`"))?;
    let mut reader = Reader::new(format, input).map_err(|e| unread(&e))?;
    let mut builder = Builder::default();
    let (mut broken, mut first_broken, mut refused) = (0, None, 0);
    for item in reader.by_ref() {
        match item {
            Ok(request) => {
                let kind = match request.kind {
                    trace::Kind::Get => Kind::Get,
                    trace::Kind::Put => Kind::Put,
                    trace::Kind::Delete => Kind::Delete,
                    trace::Kind::Scan => Kind::Scan,
                    // A store's workloads have no times to live.
                    trace::Kind::Expire => continue,
                };
                // No request for a store.
                let is_too_large = request.value_bytes.is_some_and(|n| n > VALUE_BYTES_MAX as u64);
                if request.key.is_empty() || request.key.len() > KEY_BYTES_MAX || is_too_large {
                    refused += 1;
                    continue;
                }
                builder.request(kind, &request.key, request.value_bytes, request.entries)?;
                if builder.requests() as u64 >= requests_max {
                    break;
                }
            }
            Err(fault @ Fault::Broken { .. }) if !is_strict => {
                broken += 1;
                first_broken.get_or_insert_with(|| fault.to_string());
            }
            Err(fault) => return Err(unread(&fault)),
        }
    }
    if builder.requests() == 0 {
        let first = first_broken.map(|fault| format!("; {fault}")).unwrap_or_default();
        return Err(Failure::new(format!("the trace has no requests{first}")));
    }
    let is_cut = builder.requests() as u64 >= requests_max && reader.next().is_some();
    let left_out = reader.skipped();
    Ok(Traced { replay: builder.build(), left_out, refused, broken, first_broken, is_cut })
}

/// The entries of a store, opened read-only, and gets of them by Zipf's law, as the store records
/// no requests.
///
/// # Errors
/// Those of the store, and an empty store.
pub(crate) fn of_data(path: &Path, requests: u64, alpha: f64, seed: u64) -> Result<Replay> {
    let options = Options::default().read_only(true).create_if_missing(false);
    let db = Db::open(path, options)?;
    let mut builder = Builder::default();
    let mut keys: Vec<Box<[u8]>> = Vec::new();
    for name in db.keyspace_names() {
        let keyspace = db.keyspace(&name)?;
        for entry in keyspace.iter() {
            let (key, entry) = entry?;
            // Keyspaces may have keys in common.
            let key: Box<[u8]> = [name.as_bytes(), &[0], &key].concat().into();
            builder.entry(&key, Some(entry.value.len() as u64))?;
            keys.push(key);
        }
    }
    db.close()?;
    if keys.is_empty() {
        return Err(Failure::new(format!("{}: the store has no entries", path.display())));
    }
    let choice = match alpha {
        0.0 => Choice::Uniform,
        alpha => Choice::Zipf { alpha, is_scattered: true },
    };
    let mut picker = Picker::new(&choice, keys.len() as u64, seed, 0, 1);
    let mut dice = Dice::new(seed);
    for _ in 0..requests {
        let at = picker.next(&mut dice);
        builder.request(Kind::Get, &keys[at as usize], None, None)?;
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_reports_its_read_and_skipped_parts() {
        let read = |text: &str, max, is_strict| {
            of_trace(std::io::Cursor::new(text.to_owned()), None, max, is_strict)
        };
        let text = "key,op,size\na,get,10\nb,put,20\nc,fly,1\na,touch,\nb,get,\n\
                    ,get,1\nd,put,999999999999\n";
        let traced = read(text, 100, false).unwrap();
        assert_eq!((traced.replay.entries(), traced.replay.requests()), (2, 3));
        assert_eq!((traced.broken, traced.left_out, traced.refused), (1, 1, 2));
        assert!(!traced.is_cut);
        assert_eq!(traced.first_broken.as_deref(), Some("line 4: \"fly\" is not an operation"));
        assert!(read(text, 2, false).unwrap().is_cut);
        assert!(read(text, 100, true).err().unwrap().message.contains("line 4"));
        assert!(read("what is this", 9, false).err().unwrap().is_usage);
        assert!(read("key,op\n", 9, false).err().unwrap().message.contains("no requests"));
    }
}
