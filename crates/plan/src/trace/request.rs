//! What a trace is made of, and how a format takes one apart.

use std::{fmt, io};

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A value by its key.
    Get,
    /// A new value.
    Put,
    /// That there be no value.
    Delete,
    /// The entries that follow a key.
    Scan,
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What it asks for.
    pub kind: Kind,
    /// Of what; where a scan begins.
    pub key: Vec<u8>,
    /// Bytes of the value, where the trace says.
    pub value_bytes: Option<u64>,
    /// Seconds from a beginning of the trace's own.
    pub seconds: Option<f64>,
    /// Seconds that a new value lives, where it does not live for ever.
    pub ttl_seconds: Option<u64>,
    /// Entries that a scan asks for.
    pub entries: Option<u64>,
}

impl Request {
    /// One that says nothing but what it must.
    pub fn new(kind: Kind, key: impl Into<Vec<u8>>) -> Self {
        let (value_bytes, seconds, ttl_seconds, entries) = Default::default();
        Self { kind, key: key.into(), value_bytes, seconds, ttl_seconds, entries }
    }
}

/// Why there is no request.
#[derive(Debug)]
pub enum Fault {
    /// The trace could not be read further.
    Io(io::Error),
    /// A line, or a command of RESP by its number, that is none.
    Broken {
        /// From 1.
        line: u64,
        /// What is wrong with it.
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

/// What one line or command holds: no request where it is left out, several where it names
/// several keys.
pub(super) type Requests = Vec<Request>;

/// Takes a trace apart.
pub(super) trait Parts {
    /// The next line or command; `None`: there are no more, or none that can be told apart.
    fn next_part(&mut self) -> Option<Result<Requests, Fault>>;
}
