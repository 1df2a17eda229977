//! Requests of a trace, and the interface of a format's parser.

use std::{fmt, io};

/// Bytes of the number of an object.
const OBJECT_NUMBER_BYTES: u64 = 8;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads a value by its key.
    Get,
    /// Writes a value.
    Put,
    /// Deletes a value.
    Delete,
    /// Reads the entries that follow a key.
    Scan,
    /// Changes the time to live of an existing value to that of the request.
    Expire,
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its kind.
    pub kind: Kind,
    /// Its key; the start of a scan.
    pub key: Vec<u8>,
    /// The length of the key in a cache, if the trace records it: its own keys may be other names.
    pub key_bytes: Option<u64>,
    /// Bytes of the value, if the trace records them.
    pub value_bytes: Option<u64>,
    /// Seconds from an arbitrary start of the trace.
    pub seconds: Option<f64>,
    /// Time to live in seconds of a new value, or of the existing one ([`Kind::Expire`]); `None` for
    /// ever.
    pub ttl_seconds: Option<u64>,
    /// Entries requested by a scan.
    pub entries: Option<u64>,
}

impl Request {
    /// A request with only a kind and a key.
    pub fn new(kind: Kind, key: impl Into<Vec<u8>>) -> Self {
        let (key_bytes, value_bytes, seconds, ttl_seconds, entries) = Default::default();
        Self { kind, key: key.into(), key_bytes, value_bytes, seconds, ttl_seconds, entries }
    }

    /// A request for an object of which a trace records the bytes of key and value together: of its
    /// key only a number is left, which counts as the key.
    pub(super) fn with_whole_bytes(self, bytes: u64) -> Self {
        let key_bytes = bytes.min(OBJECT_NUMBER_BYTES);
        Self { key_bytes: Some(key_bytes), value_bytes: Some(bytes - key_bytes), ..self }
    }

    /// The length of its key in a cache.
    pub fn cached_key_bytes(&self) -> u64 {
        self.key_bytes.unwrap_or(self.key.len() as u64)
    }
}

/// The reason why there is no request.
#[derive(Debug)]
pub enum Fault {
    /// The trace could not be read further.
    Io(io::Error),
    /// An invalid line, or RESP command by its number.
    Broken {
        /// From 1.
        line: u64,
        /// The error.
        what: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Broken { line, what } => write!(f, "line {line}: {what}"),
        }
    }
}

impl std::error::Error for Fault {}

/// The requests of one line or command: none if it is skipped, several if it has several keys.
pub(super) type Requests = Vec<Request>;

/// Parses a trace.
pub(super) trait Parts {
    /// The next line or command; `None` at the end, or if the rest cannot be parsed.
    fn next_part(&mut self) -> Option<Result<Requests, Fault>>;

    /// What a reader of the results must know about how the trace was understood, so far.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
