//! The value of a key: none, a string or a hash.
//!
//! A string is in one entry, or in parts if it is long ([`long_string`](crate::data::long_string)).
//! Each function first reads the type that its caller expects, and the other type only if that is
//! absent, so the usual case costs one read.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use tidekv::Entry;

use crate::data::execution::Execution;
use crate::data::hash::Hash;
use crate::data::head::{self, Head, HeadKind};
use crate::data::long_string::{LONG_BYTES_MIN, LongString, Patch};
use crate::protocol::reply::{CommandError, CommandResult, Reply, STREAMED_BYTES, Streamed};
use crate::state::keyspaces::Space;

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    String(StringValue),
    Hash(Hash),
}

/// A string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StringValue {
    /// In one entry.
    Short(Entry),
    /// In parts.
    Long(LongString),
}

const WRONG_TYPE: CommandError =
    CommandError::text("WRONGTYPE Operation against a key holding the wrong kind of value");

impl From<Head> for Value {
    fn from(head: Head) -> Self {
        match head.kind {
            HeadKind::Hash => Self::Hash(Hash(head)),
            HeadKind::String => Self::String(StringValue::Long(LongString(head))),
        }
    }
}

impl Value {
    /// Its type, as Redis calls it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Hash(_) => "hash",
        }
    }

    pub(crate) fn expires_at_ms(&self) -> Option<u64> {
        match self {
            Self::String(string) => string.expires_at_ms(),
            Self::Hash(hash) => hash.expires_at_ms,
        }
    }
}

impl StringValue {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Short(entry) => entry.value.len(),
            Self::Long(string) => string.len as usize,
        }
    }

    pub(crate) fn expires_at_ms(&self) -> Option<u64> {
        match self {
            Self::Short(entry) => entry.expires_at_ms,
            Self::Long(string) => string.expires_at_ms,
        }
    }

    /// The text of a number; nothing if the string is longer than any number.
    pub(crate) fn number_text(&self) -> &[u8] {
        match self {
            Self::Short(entry) => &entry.value,
            Self::Long(_) => b"",
        }
    }

    /// Calls `visit` with the bytes of `range`, which is within the string, piece by piece in order,
    /// until it returns false.
    pub(crate) fn visit(
        &self,
        execution: &mut Execution<'_>,
        range: Range<usize>,
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), CommandError> {
        match self {
            Self::Short(entry) => {
                visit(&entry.value[range]);
                Ok(())
            }
            Self::Long(string) => {
                check_wait(execution, range.len())?;
                string.visit(execution, range, visit)
            }
        }
    }

    /// The bytes of `range`, which is within the string; an error if they are too many for a reply.
    pub(crate) fn read(
        &self,
        execution: &mut Execution<'_>,
        range: Range<usize>,
    ) -> Result<Bytes, CommandError> {
        if let Self::Short(entry) = self {
            return Ok(entry.value.slice(range));
        }
        check_wait(execution, range.len())?;
        execution.state.memory.check_reply(range.len())?;
        let mut bytes = BytesMut::with_capacity(range.len());
        self.visit(execution, range, |piece| {
            bytes.extend_from_slice(piece);
            true
        })?;
        Ok(bytes.freeze())
    }

    /// All bytes; an error if they are too many for a reply.
    pub(crate) fn whole(&self, execution: &mut Execution<'_>) -> Result<Bytes, CommandError> {
        self.read(execution, 0..self.len())
    }

    /// A reply with the bytes of `range`, which is within the string. It is produced while it is sent
    /// if it is long and not a part of another reply.
    pub(crate) fn reply(
        &self,
        execution: &mut Execution<'_>,
        range: Range<usize>,
    ) -> CommandResult {
        if let Self::Long(string) = self
            && range.len() > STREAMED_BYTES
            && let Some((snapshot, parts)) = execution.snapshot_of(Space::Fields)
        {
            let len = range.len() as u64;
            return Ok(Streamed::bulk(len, string.stream(&snapshot, &parts, range)));
        }
        self.read(execution, range).map(Reply::Bulk)
    }
}

/// Fails if parts with `bytes` bytes are too many to be read where others wait.
fn check_wait(execution: &Execution<'_>, bytes: usize) -> Result<(), CommandError> {
    let is_long = bytes > STREAMED_BYTES;
    if is_long && execution.must_not_wait() { Err(CommandError::WouldBlock) } else { Ok(()) }
}

/// The value of `key`.
pub(crate) fn find(
    execution: &mut Execution<'_>,
    key: &[u8],
) -> Result<Option<Value>, CommandError> {
    match execution.get(Space::Strings, key)? {
        Some(entry) => Ok(Some(Value::String(StringValue::Short(entry)))),
        None => Ok(head::find(execution, key)?.map(Value::from)),
    }
}

/// The string of `key`; an error if it has another type.
pub(crate) fn find_string(
    execution: &mut Execution<'_>,
    key: &[u8],
) -> Result<Option<StringValue>, CommandError> {
    match find(execution, key)? {
        None => Ok(None),
        Some(Value::String(string)) => Ok(Some(string)),
        Some(Value::Hash(_)) => Err(WRONG_TYPE),
    }
}

/// The hash of `key`; an error if it has another type.
pub(crate) fn find_hash(
    execution: &mut Execution<'_>,
    key: &[u8],
) -> Result<Option<Hash>, CommandError> {
    match head::find(execution, key)?.map(Value::from) {
        Some(Value::Hash(hash)) => Ok(Some(hash)),
        Some(Value::String(_)) => Err(WRONG_TYPE),
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
    if let Some(head) = head::find(execution, key)? {
        head.remove(execution, key)?;
    }
    if value.len() < LONG_BYTES_MIN {
        return execution.put(Space::Strings, key.clone(), value, expires_at_ms);
    }
    execution.delete(Space::Strings, key.clone())?;
    let mut string = LongString::new(execution, expires_at_ms);
    string.write(execution, &Bytes::new(), &[(0, value)])?;
    string.save_with_note(execution, key)
}

/// Writes `patches`, which do not overlap, over `old`, the string of `key`, which grows with zeros if
/// it must, and keeps its deadline. Returns its new length.
pub(crate) fn patch_string(
    execution: &mut Execution<'_>,
    key: &Bytes,
    old: Option<StringValue>,
    patches: &[Patch],
) -> Result<usize, CommandError> {
    let entry = match old {
        Some(StringValue::Long(mut string)) => {
            string.write(execution, &Bytes::new(), patches)?;
            string.save(execution, key)?;
            return Ok(string.len as usize);
        }
        Some(StringValue::Short(entry)) => Some(entry),
        None => None,
    };
    let is_present = entry.is_some();
    let Entry { value: before, expires_at_ms } =
        entry.unwrap_or(Entry { value: Bytes::new(), expires_at_ms: None });
    let end = patches.iter().map(|(at, bytes)| at + bytes.len()).max().unwrap_or(0);
    let len = before.len().max(end);
    if len < LONG_BYTES_MIN {
        let mut value = BytesMut::with_capacity(len);
        value.extend_from_slice(&before);
        value.resize(len, 0);
        for (at, bytes) in patches {
            value[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        execution.put(Space::Strings, key.clone(), value.freeze(), expires_at_ms)?;
        return Ok(len);
    }
    if is_present {
        execution.delete(Space::Strings, key.clone())?;
    }
    let mut string = LongString::new(execution, expires_at_ms);
    string.write(execution, &before, patches)?;
    string.save_with_note(execution, key)?;
    Ok(len)
}

/// Removes `key`; returns whether it existed.
pub(crate) fn remove(execution: &mut Execution<'_>, key: &Bytes) -> Result<bool, CommandError> {
    let string = execution.get(Space::Strings, key)?;
    if string.is_some() {
        execution.delete(Space::Strings, key.clone())?;
    }
    let head = head::find(execution, key)?;
    if let Some(head) = &head {
        head.remove(execution, key)?;
    }
    Ok(string.is_some() || head.is_some())
}

/// Changes the deadline of `key`, which has the value `value`.
pub(crate) fn set_deadline(
    execution: &mut Execution<'_>,
    key: &Bytes,
    value: &Value,
    expires_at_ms: Option<u64>,
) -> Result<(), CommandError> {
    match value {
        Value::String(StringValue::Short(entry)) => {
            execution.put(Space::Strings, key.clone(), entry.value.clone(), expires_at_ms)
        }
        Value::String(StringValue::Long(LongString(head))) | Value::Hash(Hash(head)) => {
            head.set_deadline(execution, key, expires_at_ms)
        }
    }
}

/// Moves `value` from one key to another of the same database, which has no value.
pub(crate) fn rename(
    execution: &mut Execution<'_>,
    value: Value,
    from: &Bytes,
    to: &Bytes,
) -> Result<(), CommandError> {
    match value {
        Value::String(StringValue::Short(entry)) => {
            execution.delete(Space::Strings, from.clone())?;
            execution.put(Space::Strings, to.clone(), entry.value, entry.expires_at_ms)
        }
        Value::String(StringValue::Long(LongString(head))) | Value::Hash(Hash(head)) => {
            head.rename(execution, from, to)
        }
    }
}

/// Writes a copy of `value` under `to` of `database`, which has no value.
pub(crate) fn copy(
    execution: &mut Execution<'_>,
    value: Value,
    to: &Bytes,
    database: usize,
) -> Result<(), CommandError> {
    match value {
        Value::String(StringValue::Short(entry)) => execution.within(database, |execution| {
            execution.put(Space::Strings, to.clone(), entry.value, entry.expires_at_ms)
        }),
        Value::String(StringValue::Long(string)) => string.copy(execution, to, database),
        Value::Hash(hash) => hash.copy(execution, to, database),
    }
}

/// Moves `value` of `key` to the same key of `database`, which has no value.
pub(crate) fn move_to(
    execution: &mut Execution<'_>,
    value: Value,
    key: &Bytes,
    database: usize,
) -> Result<(), CommandError> {
    match value {
        Value::String(StringValue::Short(_)) => {
            execution.delete(Space::Strings, key.clone())?;
            copy(execution, value, key, database)
        }
        Value::String(StringValue::Long(LongString(head))) | Value::Hash(Hash(head)) => {
            head.move_to(execution, key, database)
        }
    }
}
