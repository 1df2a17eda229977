//! Opening a data directory for one command.
//!
//! Commands that only read take no lock and change nothing, so they work while
//! a server has the directory open: they see the writes that it had acknowledged when
//! they opened it. If the server removes a file during the open, the open is retried.

use std::path::Path;
use std::time::Duration;

use tidekv::inspect::Inspector;
use tidekv::{Db, ErrorKind, Keyspace, MemoryBudget, Options};
use tidekv_io::{Clock, SystemClock};

use crate::failure::{Failure, Result};

/// Enough for one read or write.
const MEMORY_BYTES: u64 = 64 << 20;

/// Attempts to open a store that changes under the reader. Each takes
/// milliseconds and fails only if a compaction or log rotation ends within it.
const ATTEMPTS: u32 = 5;

const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// The keyspace that exists even before the first write.
pub const DEFAULT_KEYSPACE: &str = "default";

/// The memory budget of a server, if none is configured: a quarter of the memory that this process may
/// use.
pub fn server_memory_bytes() -> u64 {
    MemoryBudget::available_bytes() / 4
}

/// Opens the store in `directory` for reading.
pub fn open_to_read(directory: &Path) -> Result<Db> {
    let mut memory_bytes = MEMORY_BYTES;
    let mut attempt = 1;
    loop {
        match Db::open(directory, Options::default().read_only(true).memory_bytes(memory_bytes)) {
            Ok(db) => return Ok(db),
            // The writes in the log of a server with more memory.
            Err(error)
                if error.kind() == ErrorKind::OutOfMemory
                    && memory_bytes < server_memory_bytes() =>
            {
                memory_bytes = server_memory_bytes();
            }
            Err(error) if attempt < ATTEMPTS && may_pass(directory, &error) => {
                attempt += 1;
                SystemClock::new().sleep(BETWEEN_ATTEMPTS);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the store may have changed under the reader: it exists, but one of its
/// files was missing or not as expected.
fn may_pass(directory: &Path, error: &tidekv::Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unavailable)
        && Inspector::new(directory, None).is_ok()
}

/// Opens the store in `directory` for writing; creates it if missing.
pub fn open_to_write(directory: &Path, memory_bytes: Option<u64>) -> Result<Db> {
    let memory_bytes = memory_bytes.unwrap_or(MEMORY_BYTES);
    Ok(Db::open(directory, Options::default().memory_bytes(memory_bytes))?)
}

/// Opens the existing store in `directory` for writing.
pub fn open_existing(directory: &Path, memory_bytes: Option<u64>) -> Result<Db> {
    let memory_bytes = memory_bytes.unwrap_or(MEMORY_BYTES);
    let options = Options::default().create_if_missing(false).memory_bytes(memory_bytes);
    Ok(Db::open(directory, options)?)
}

/// The same for work that a server does with `command`, if it has the store open.
pub fn open_unserved(directory: &Path, memory_bytes: Option<u64>, command: &str) -> Result<Db> {
    let memory_bytes = memory_bytes.unwrap_or(MEMORY_BYTES);
    let options = Options::default().create_if_missing(false).memory_bytes(memory_bytes);
    Db::open(directory, options).map_err(|error| match error.kind() {
        ErrorKind::Locked => {
            Failure::new(format!("{error}: close it there first, or send its server {command}"))
        }
        _ => error.into(),
    })
}

/// The keyspace `name`, which must exist. `None`: the default keyspace, before its
/// first write.
pub fn existing_keyspace(db: &Db, name: &str) -> Result<Option<Keyspace>> {
    let names = db.keyspace_names();
    if names.iter().any(|known| known == name) {
        return Ok(Some(db.keyspace(name)?));
    }
    if name == DEFAULT_KEYSPACE {
        return Ok(None);
    }
    let path = db.path().display();
    let names = if names.is_empty() { "none".into() } else { names.join(", ") };
    Err(Failure::new(format!("the store in {path} has no keyspace {name:?}; it has {names}")))
}
