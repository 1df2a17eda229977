//! The head of a value in parts: a hash, whose parts are its fields, or a long string.
//!
//! Head, in the keyspace `hash` under the key; its deadline is the value's:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       16    identity: 6 bytes milliseconds since 1970, 10 bytes at random
//! 16      8     length, at least 1: fields of a hash, bytes of a string (little-endian)
//! 24      4     only of a string: bytes of a part, 16384 (little-endian)
//! ```
//!
//! Part, in `hash.fields`: the key is the identity and then the name of the part
//! ([`hash`](crate::data::hash), [`long_string`](crate::data::long_string)). Garbage, in
//! `hash.garbage`: the key is a time (8 bytes, big-endian milliseconds since 1970; 0: now), an
//! identity, and one byte for the slot of the head's database
//! ([`keyspaces`](crate::state::keyspaces)), which is left out for slot 0; the value is the key of
//! the head. Values on disk: do not change.
//!
//! A value is deleted with its head, by a deletion or its deadline, even if parts remain: a new
//! value of that key has a new identity. So deleting a value of any size costs one write, renaming
//! it two, and setting a deadline two. Each of them writes a note to `hash.garbage`, from which
//! [`sweep`](crate::data::sweep) removes the parts later.
//!
//! Invariants: every command that changes a part writes the head, even an unchanged one, so a
//! transaction that has read the head gets a conflict. A head with a deadline has a note for that
//! time; an identity is never reused after its head is deleted.

use bytes::{BufMut, Bytes, BytesMut};
use tidekv::Entry;
use tidekv_io::Random;

use crate::data::execution::Execution;
use crate::protocol::reply::CommandError;
use crate::state::keyspaces::{DATABASES, Space};

pub(crate) const IDENTITY_BYTES: usize = 16;
const HASH_BYTES: usize = IDENTITY_BYTES + 8;
const STRING_BYTES: usize = HASH_BYTES + 4;
const NOTE_BYTES: usize = 8 + IDENTITY_BYTES + 1;

/// Bytes of a part of a string. A write of a few bytes costs one part.
pub(crate) const PART_BYTES: usize = 16 << 10;

/// Unique for each value in parts, existing or deleted.
pub(crate) type Identity = [u8; IDENTITY_BYTES];

/// What the parts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadKind {
    Hash,
    String,
}

/// The head of a value in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) identity: Identity,
    pub(crate) kind: HeadKind,
    /// Fields of a hash, bytes of a string.
    pub(crate) len: u64,
    pub(crate) expires_at_ms: Option<u64>,
}

/// A note of garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) due_ms: u64,
    pub(crate) identity: Identity,
    /// The slot of the head's database.
    pub(crate) slot: usize,
}

impl Note {
    pub(crate) fn key(&self) -> Bytes {
        let mut key = BytesMut::with_capacity(NOTE_BYTES);
        key.put_u64(self.due_ms);
        key.put_slice(&self.identity);
        if self.slot > 0 {
            key.put_u8(self.slot as u8);
        }
        key.freeze()
    }

    /// `None` if `key` is not the key of a note.
    pub(crate) fn decode(key: &[u8]) -> Option<Self> {
        let (due, rest) = key.split_first_chunk::<8>()?;
        let (identity, rest) = rest.split_first_chunk::<IDENTITY_BYTES>()?;
        let slot = match rest {
            [] => 0,
            &[slot] if (1..DATABASES).contains(&usize::from(slot)) => usize::from(slot),
            _ => return None,
        };
        Some(Self { due_ms: u64::from_be_bytes(*due), identity: *identity, slot })
    }
}

impl Head {
    /// The head of an empty value with an identity of its own; not written yet.
    pub(crate) fn new(execution: &Execution<'_>, kind: HeadKind) -> Self {
        let mut identity = [0; IDENTITY_BYTES];
        // The time prefix keeps values created together adjacent in storage, so bulk loading writes
        // in the order of keys.
        identity[..6].copy_from_slice(&execution.state.now_ms().to_be_bytes()[2..]);
        identity[6..14].copy_from_slice(&execution.state.random.next_u64().to_be_bytes());
        identity[14..].copy_from_slice(&execution.state.random.next_u64().to_be_bytes()[..2]);
        Self { identity, kind, len: 0, expires_at_ms: None }
    }

    /// Reads a head.
    pub(crate) fn decode(entry: &Entry) -> Result<Self, CommandError> {
        let damaged = || CommandError::text("ERR the head of this value is damaged");
        let (identity, rest) =
            entry.value.split_first_chunk::<IDENTITY_BYTES>().ok_or_else(damaged)?;
        let (len, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let kind = match rest.split_first_chunk::<4>() {
            None if rest.is_empty() => HeadKind::Hash,
            Some((bytes, [])) if u32::from_le_bytes(*bytes) as usize == PART_BYTES => {
                HeadKind::String
            }
            _ => return Err(damaged()),
        };
        let len = u64::from_le_bytes(*len);
        Ok(Self { identity: *identity, kind, len, expires_at_ms: entry.expires_at_ms })
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut head = BytesMut::with_capacity(STRING_BYTES);
        head.put_slice(&self.identity);
        head.put_u64_le(self.len);
        if self.kind == HeadKind::String {
            head.put_u32_le(PART_BYTES as u32);
        }
        head.freeze()
    }

    /// The key of the part `name`.
    pub(crate) fn part_key(&self, name: &[u8]) -> Bytes {
        let mut key = BytesMut::with_capacity(IDENTITY_BYTES + name.len());
        key.put_slice(&self.identity);
        key.put_slice(name);
        key.freeze()
    }

    /// Writes the head under `key`; a value of length 0 is deleted.
    pub(crate) fn save(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
    ) -> Result<(), CommandError> {
        if self.len == 0 {
            return self.remove(execution, key);
        }
        execution.put(Space::Heads, key.clone(), self.encode(), self.expires_at_ms)
    }

    /// Removes the value of `key`.
    pub(crate) fn remove(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
    ) -> Result<(), CommandError> {
        execution.delete(Space::Heads, key.clone())?;
        self.forget_deadline(execution)?;
        self.note(execution, key, 0)
    }

    /// Writes a note that is due at `due_ms`.
    pub(crate) fn note(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
        due_ms: u64,
    ) -> Result<(), CommandError> {
        let note = Note { due_ms, identity: self.identity, slot: execution.slot() };
        execution.put(Space::Garbage, note.key(), key.clone(), None)
    }

    /// Changes the deadline of the value of `key`.
    pub(crate) fn set_deadline(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        self.forget_deadline(execution)?;
        Self { expires_at_ms, ..self.clone() }.save_with_note(execution, key)
    }

    /// Moves the value to the same key of `database`, which must not have it.
    pub(crate) fn move_to(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
        database: usize,
    ) -> Result<(), CommandError> {
        execution.delete(Space::Heads, key.clone())?;
        self.forget_deadline(execution)?;
        execution.within(database, |execution| self.save_with_note(execution, key))
    }

    /// Moves the value from one key to another, which must not exist.
    pub(crate) fn rename(
        &self,
        execution: &mut Execution<'_>,
        from: &Bytes,
        to: &Bytes,
    ) -> Result<(), CommandError> {
        execution.delete(Space::Heads, from.clone())?;
        self.save_with_note(execution, to)
    }

    /// Writes the head, and the note of its deadline.
    pub(crate) fn save_with_note(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
    ) -> Result<(), CommandError> {
        self.save(execution, key)?;
        match self.expires_at_ms {
            None => Ok(()),
            Some(due_ms) => self.note(execution, key, due_ms),
        }
    }

    /// Removes the note of its deadline.
    pub(crate) fn forget_deadline(
        &self,
        execution: &mut Execution<'_>,
    ) -> Result<(), CommandError> {
        match self.expires_at_ms {
            None => Ok(()),
            Some(due_ms) => {
                let note = Note { due_ms, identity: self.identity, slot: execution.slot() };
                execution.delete(Space::Garbage, note.key())
            }
        }
    }
}

/// Removes all values in parts of the database. The caller has the gate to itself, so that no
/// transaction writes any meanwhile.
pub(crate) fn remove_all(execution: &mut Execution<'_>) -> Result<(), CommandError> {
    // Own writes may have put heads into other databases.
    let may_have_own = execution.sees_own_writes();
    if may_have_own || execution.state.keyspaces.has_heads_beside(execution.slot())? {
        // Other databases have parts too: those of this one are removed by notes.
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        for item in execution.range(Space::Heads, everything, false)? {
            let (key, entry) = item?;
            let head = Head::decode(&entry)?;
            head.forget_deadline(execution)?;
            head.note(execution, &key, 0)?;
        }
    } else {
        execution.delete_space(Space::Fields)?;
        execution.delete_space(Space::Garbage)?;
    }
    execution.delete_space(Space::Heads)
}

/// The head of `key`, whether or not it also has a string in one entry.
pub(crate) fn find(
    execution: &mut Execution<'_>,
    key: &[u8],
) -> Result<Option<Head>, CommandError> {
    if !execution.state.keyspaces.heads().exist() {
        return Ok(None);
    }
    execution.get(Space::Heads, key)?.map(|entry| Head::decode(&entry)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidekv_testkit::golden::Dump;

    #[test]
    fn records_have_the_documented_bytes() {
        let hash =
            Head { identity: [7; 16], kind: HeadKind::Hash, len: 258, expires_at_ms: Some(5) };
        let string = Head { kind: HeadKind::String, ..hash.clone() };
        assert_eq!(hash.encode()[16..], [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(string.encode()[16..], [2, 1, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0]);
        for head in [hash, string] {
            let bytes = head.encode();
            assert_eq!(&bytes[..16], [7; 16]);
            let decode = |value| Head::decode(&Entry { value, expires_at_ms: Some(5) });
            assert_eq!(decode(bytes.clone()).unwrap(), head);
            for len in (0..bytes.len()).filter(|&len| len != HASH_BYTES) {
                assert!(decode(bytes.slice(..len)).is_err(), "{len}");
            }
            assert!(decode([&bytes[..], &[0]].concat().into()).is_err());
        }
        let note = Note { due_ms: 0x0102, identity: [9; 16], slot: 0 };
        assert_eq!(&note.key()[..8], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(Note::decode(&note.key()), Some(note));
        let other = Note { slot: 15, ..note };
        assert_eq!(other.key(), [&note.key()[..], &[15]].concat());
        assert_eq!(Note::decode(&other.key()), Some(other));
        assert_eq!(Note::decode(b"short"), None);
        for slot in [0, 16] {
            assert_eq!(Note::decode(&[&note.key()[..], &[slot]].concat()), None);
        }
    }

    #[test]
    fn records_have_the_released_bytes_and_they_are_still_read() {
        let identity = *b"time..randomness";
        let hash =
            Head { identity, kind: HeadKind::Hash, len: 2, expires_at_ms: Some(1_800_000_000_000) };
        let string = Head { kind: HeadKind::String, len: 200_000, ..hash.clone() };
        let note = Note { due_ms: 1_800_000_000_000, identity, slot: 0 };
        let mut dump = Dump::new(
            "The records of a value in parts, with a deadline. See crates/resp/src/data/head.rs.",
        );
        let mut add = |name: &str, bytes: Bytes, parts: &[(usize, &str)]| {
            dump.file(name);
            dump.parts(&bytes, parts);
        };
        add("head of a hash", hash.encode(), &[(16, "Identity"), (24, "Number of fields")]);
        add("key of a field", hash.part_key(b"tide"), &[(16, "Identity"), (20, "Field")]);
        add("key of a note", note.key(), &[(8, "Due"), (24, "Identity")]);
        add(
            "head of a string",
            string.encode(),
            &[(16, "Identity"), (24, "Length"), (28, "Bytes of a part")],
        );
        let name = 3_u32.to_be_bytes();
        add("key of a part", string.part_key(&name), &[(16, "Identity"), (20, "Number")]);
        let released = dump.hold_against("hash");
        let decode = |at: usize| {
            let value = Bytes::from(released[at].1.clone());
            Head::decode(&Entry { value, expires_at_ms: hash.expires_at_ms }).unwrap()
        };
        assert_eq!(decode(0), hash);
        assert_eq!(decode(3), string);
        assert_eq!(released[1].1.strip_prefix(&identity), Some(&b"tide"[..]));
        assert_eq!(Note::decode(&released[2].1), Some(note));
    }
}
