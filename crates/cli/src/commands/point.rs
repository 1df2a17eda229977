//! `get`, `put` and `delete`: one operation on one key.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;

use tidekv::VALUE_BYTES_MAX;

use super::store_args::StoreArgs;
use crate::failure::{Failure, Result};
use crate::files;
use crate::formats::Record;
use crate::formats::jsonl::{parse_base64, to_json};
use crate::store;

/// A key on the command line.
#[derive(Debug, clap::Args)]
pub struct KeyArgument {
    /// The key.
    #[arg(value_name = "KEY")]
    key: OsString,

    /// KEY is base64, for bytes that a command line cannot hold.
    #[arg(long)]
    key_base64: bool,
}

/// The bytes of an argument, which stand as they are unless they are base64.
pub fn bytes_of(name: &str, argument: &OsStr, is_base64: bool) -> Result<Vec<u8>> {
    let bytes = argument.as_bytes();
    if !is_base64 {
        return Ok(bytes.to_vec());
    }
    parse_base64(bytes)
        .map_err(|what| Failure::usage(format!("{name} {}: {what}", argument.display())))
}

impl KeyArgument {
    fn bytes(&self) -> Result<Vec<u8>> {
        bytes_of("the key", &self.key, self.key_base64)
    }
}

/// Print the value of a key.
///
/// Prints the bytes as they are, with a newline behind them only on a terminal.
/// A missing key is exit code 1. The directory may be open in a server: what it
/// has acknowledged is seen.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidekv get --data ./data greeting")]
pub struct Get {
    #[command(flatten)]
    place: StoreArgs,
    #[command(flatten)]
    key: KeyArgument,

    /// Print an object with key, value and deadline.
    #[arg(long)]
    json: bool,
}

/// Set a key to a value.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv put --data ./data greeting hello\n  \
    tidekv put --data ./data picture - < picture.jpg")]
pub struct Put {
    #[command(flatten)]
    place: StoreArgs,
    #[command(flatten)]
    key: KeyArgument,

    /// The value; `-` for standard input.
    #[arg(value_name = "VALUE")]
    value: OsString,

    /// How long it is kept, such as 30s, 5m, 2h or 1d.
    #[arg(long, value_name = "TIME", value_parser = crate::quantity::parse_duration)]
    ttl: Option<std::time::Duration>,
}

/// Remove a key; no error when it is not there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidekv delete --data ./data greeting")]
pub struct Delete {
    #[command(flatten)]
    place: StoreArgs,
    #[command(flatten)]
    key: KeyArgument,
}

impl Get {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let key = self.key.bytes()?;
        let db = store::open_to_read(&self.place.data)?;
        let keyspace = store::existing_keyspace(&db, &self.place.keyspace)?;
        let entry = match keyspace {
            Some(keyspace) => keyspace.get_entry(&key)?,
            None => None,
        };
        let Some(entry) = entry else {
            let (key, place) = (key.escape_ascii(), &self.place);
            let (keyspace, data) = (&place.keyspace, place.data.display());
            let message = format!("there is no key \"{key}\" in keyspace {keyspace:?} of {data}");
            return Err(Failure::new(message));
        };
        let mut out = std::io::stdout().lock();
        let written = if self.json {
            let record =
                Record { key: &key, value: &entry.value, expires_at_ms: entry.expires_at_ms };
            writeln!(out, "{}", to_json(record))
        } else {
            let end: &[u8] = if out.is_terminal() { b"\n" } else { b"" };
            out.write_all(&entry.value).and_then(|()| out.write_all(end))
        };
        written.and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
    }
}

impl Put {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let key = self.key.bytes()?;
        let value = match self.value.as_bytes() {
            b"-" => files::read_input(VALUE_BYTES_MAX)?,
            bytes => bytes.to_vec(),
        };
        let db = store::open_to_write(&self.place.data, None)?;
        let keyspace = db.keyspace(&self.place.keyspace)?;
        match self.ttl {
            Some(ttl) => keyspace.put_with_ttl(key, value, ttl)?,
            None => keyspace.put(key, value)?,
        }
        Ok(db.close()?)
    }
}

impl Delete {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let key = self.key.bytes()?;
        let db = store::open_existing(&self.place.data, None)?;
        if let Some(keyspace) = store::existing_keyspace(&db, &self.place.keyspace)? {
            keyspace.delete(key)?;
        }
        Ok(db.close()?)
    }
}
