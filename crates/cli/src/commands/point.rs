//! `get`, `put` and `delete`: one operation on one key.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;

use tidekv::VALUE_BYTES_MAX;

use super::store_args::StoreArgs;
use crate::failure::{Failure, Result};
use crate::files;
use crate::formats::Record;
use crate::formats::jsonl::{parse_base64, to_json};
use crate::output;
use crate::store;

/// A key on the command line.
#[derive(Debug, clap::Args)]
pub struct KeyArgument {
    /// Key.
    #[arg(value_name = "KEY")]
    key: OsString,

    /// KEY is base64, for bytes that a command line cannot contain.
    #[arg(long)]
    key_base64: bool,
}

/// The bytes of an argument: verbatim, or decoded from base64.
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
/// Prints the raw bytes; on a terminal, control characters and bytes that are not
/// UTF-8 are escaped, and a newline follows. Exit code 1 if the key is missing. The
/// directory may be open in a server: the command sees the writes that the server has
/// acknowledged.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidekv get --data ./data greeting")]
pub struct Get {
    #[command(flatten)]
    place: StoreArgs,
    #[command(flatten)]
    key: KeyArgument,

    /// Print a JSON object with key, value and expiry time (`expires_at_ms`, Unix time in
    /// milliseconds).
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

    /// Value; `-` for standard input.
    #[arg(value_name = "VALUE")]
    value: OsString,

    /// Time to live, such as 30s, 5m, 2h or 1d [default: never expires].
    #[arg(long, value_name = "TIME", value_parser = crate::quantity::parse_duration)]
    ttl: Option<std::time::Duration>,
}

/// Delete a key; succeeds if it does not exist.
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
            let message = format!("no key \"{key}\" in keyspace {keyspace:?} of {data}");
            return Err(Failure::new(message));
        };
        if self.json {
            let record =
                Record { key: &key, value: &entry.value, expires_at_ms: entry.expires_at_ms };
            return output::line(&to_json(record));
        }
        output::bytes(&entry.value)?;
        if std::io::stdout().is_terminal() { output::bytes(b"\n") } else { Ok(()) }
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
