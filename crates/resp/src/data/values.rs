//! The value of a key: none, a string or a hash.
//!
//! Each function first reads the type that its caller expects, and the other type only if that is
//! absent, so the usual case costs one read.

use bytes::Bytes;
use tidekv::Entry;

use crate::data::execution::Execution;
use crate::data::hash::{self, Hash};
use crate::protocol::reply::CommandError;
use crate::state::keyspaces::Space;

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    String(Entry),
    Hash(Hash),
}

const WRONG_TYPE: CommandError =
    CommandError::text("WRONGTYPE Operation against a key holding the wrong kind of value");

impl Value {
    pub(crate) fn expires_at_ms(&self) -> Option<u64> {
        match self {
            Self::String(entry) => entry.expires_at_ms,
            Self::Hash(hash) => hash.expires_at_ms,
        }
    }
}

/// The value of `key`.
pub(crate) fn find(
    execution: &mut Execution<'_>,
    key: &[u8],
) -> Result<Option<Value>, CommandError> {
    match execution.get(Space::Strings, key)? {
        Some(entry) => Ok(Some(Value::String(entry))),
        None => Ok(hash::find(execution, key)?.map(Value::Hash)),
    }
}

/// The string of `key`; an error if it has another type.
pub(crate) fn find_string(
    execution: &mut Execution<'_>,
    key: &[u8],
) -> Result<Option<Entry>, CommandError> {
    match find(execution, key)? {
        None => Ok(None),
        Some(Value::String(entry)) => Ok(Some(entry)),
        Some(Value::Hash(_)) => Err(WRONG_TYPE),
    }
}

/// The hash of `key`; an error if it has another type.
pub(crate) fn find_hash(
    execution: &mut Execution<'_>,
    key: &[u8],
) -> Result<Option<Hash>, CommandError> {
    match hash::find(execution, key)? {
        Some(hash) => Ok(Some(hash)),
        None => match execution.get(Space::Strings, key)? {
            None => Ok(None),
            Some(_) => Err(WRONG_TYPE),
        },
    }
}

/// Sets `key` to a string, whatever its previous type.
pub(crate) fn put_string(
    execution: &mut Execution<'_>,
    key: &Bytes,
    value: Bytes,
    expires_at_ms: Option<u64>,
) -> Result<(), CommandError> {
    if let Some(hash) = hash::find(execution, key)? {
        hash.remove(execution, key)?;
    }
    execution.put(Space::Strings, key.clone(), value, expires_at_ms)
}

/// Removes `key`; returns whether it existed.
pub(crate) fn remove(execution: &mut Execution<'_>, key: &Bytes) -> Result<bool, CommandError> {
    let string = execution.get(Space::Strings, key)?;
    if string.is_some() {
        execution.delete(Space::Strings, key.clone())?;
    }
    let hash = hash::find(execution, key)?;
    if let Some(hash) = &hash {
        hash.remove(execution, key)?;
    }
    Ok(string.is_some() || hash.is_some())
}

/// Changes the deadline of `key`, which has the value `value`.
pub(crate) fn set_deadline(
    execution: &mut Execution<'_>,
    key: &Bytes,
    value: &Value,
    expires_at_ms: Option<u64>,
) -> Result<(), CommandError> {
    match value {
        Value::String(entry) => {
            execution.put(Space::Strings, key.clone(), entry.value.clone(), expires_at_ms)
        }
        Value::Hash(hash) => hash.set_deadline(execution, key, expires_at_ms),
    }
}
