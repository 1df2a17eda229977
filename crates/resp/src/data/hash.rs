//! The records of a hash.
//!
//! Head, in the keyspace `hash` under the key; its deadline is the hash's:
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       16    identity: 6 bytes milliseconds since 1970, 10 bytes at random
//! 16      8     number of fields, at least 1 (little-endian)
//! ```
//!
//! Field, in `hash.fields`: the key is the identity and then the field's name, the value is the
//! field's value. Garbage, in `hash.garbage`: the key is a time (8 bytes, big-endian milliseconds
//! since 1970; 0: now), an identity, and one byte for the slot of the head's database
//! ([`keyspaces`](crate::state::keyspaces)), which is left out for slot 0; the value is the key of
//! the hash. Values on disk: do not change.
//!
//! A hash is deleted with its head, by a deletion or its deadline, even if fields remain: a new
//! hash of that key has a new identity. So deleting a hash of any size costs one write, renaming it
//! two, and setting a deadline two. Each of them writes a note to `hash.garbage`, from which
//! [`sweep`](crate::data::sweep) removes the fields later.
//!
//! Invariants: every command that changes a hash writes its head, even an unchanged one, so a
//! transaction that has read the head gets a conflict. A head with a deadline has a note for that
//! time; an identity is never reused after its head is deleted.
//!
//! This module does not read strings; [`values`](crate::data::values) does.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};
use tidekv::{Entry, KEY_BYTES_MAX};
use tidekv_io::Random;

use crate::data::execution::{Execution, prefix_end};
use crate::data::walk::Walk;
use crate::protocol::reply::CommandError;
use crate::state::keyspaces::{DATABASES, Space};

const IDENTITY_BYTES: usize = 16;
const HEAD_BYTES: usize = IDENTITY_BYTES + 8;
const NOTE_BYTES: usize = 8 + IDENTITY_BYTES + 1;

/// Maximum length of a field's name.
pub(crate) const FIELD_BYTES_MAX: usize = KEY_BYTES_MAX - IDENTITY_BYTES;

/// Unique for each hash, existing or deleted.
pub(crate) type Identity = [u8; IDENTITY_BYTES];

/// The head of a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hash {
    pub(crate) identity: Identity,
    pub(crate) len: u64,
    pub(crate) expires_at_ms: Option<u64>,
}

/// A note of garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) due_ms: u64,
    pub(crate) identity: Identity,
    /// The slot of the hash's database.
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

impl Hash {
    /// An empty hash with an identity of its own; not written yet.
    pub(crate) fn new(execution: &Execution<'_>) -> Self {
        let mut identity = [0; IDENTITY_BYTES];
        // The time prefix keeps hashes created together adjacent in storage, so bulk loading writes
        // in the order of keys.
        identity[..6].copy_from_slice(&execution.state.now_ms().to_be_bytes()[2..]);
        identity[6..14].copy_from_slice(&execution.state.random.next_u64().to_be_bytes());
        identity[14..].copy_from_slice(&execution.state.random.next_u64().to_be_bytes()[..2]);
        Self { identity, len: 0, expires_at_ms: None }
    }

    /// Reads a head.
    pub(crate) fn decode(entry: &Entry) -> Result<Self, CommandError> {
        let damaged = || CommandError::text("ERR the head of this hash is damaged");
        let (identity, len) =
            entry.value.split_first_chunk::<IDENTITY_BYTES>().ok_or_else(damaged)?;
        let len = u64::from_le_bytes(len.try_into().map_err(|_| damaged())?);
        Ok(Self { identity: *identity, len, expires_at_ms: entry.expires_at_ms })
    }

    fn encode(&self) -> Bytes {
        let mut head = BytesMut::with_capacity(HEAD_BYTES);
        head.put_slice(&self.identity);
        head.put_u64_le(self.len);
        head.freeze()
    }

    fn field_key(&self, field: &[u8]) -> Bytes {
        let mut key = BytesMut::with_capacity(IDENTITY_BYTES + field.len());
        key.put_slice(&self.identity);
        key.put_slice(field);
        key.freeze()
    }

    /// The value of `field`.
    pub(crate) fn get(
        &self,
        execution: &mut Execution<'_>,
        field: &[u8],
    ) -> Result<Option<Bytes>, CommandError> {
        let entry = execution.get(Space::Fields, &self.field_key(field))?;
        Ok(entry.map(|entry| entry.value))
    }

    /// All fields with their values, in the order of their names.
    pub(crate) fn fields(
        &self,
        execution: &mut Execution<'_>,
    ) -> Result<Vec<(Bytes, Bytes)>, CommandError> {
        let mut fields = Vec::new();
        let mut bytes = 0;
        for item in execution.prefix(Space::Fields, &self.identity)? {
            let (key, entry) = item?;
            bytes += key.len() + entry.value.len();
            execution.state.memory.check_reply(bytes)?;
            fields.push((field_of(&key), entry.value));
        }
        Ok(fields)
    }

    /// A walk over all fields, in the order of their names, for [`field_of`].
    pub(crate) fn walk(&self, execution: &mut Execution<'_>) -> Result<Walk, CommandError> {
        execution.prefix(Space::Fields, &self.identity)
    }

    /// Fields after `last` (or from the first), at most `count` and about `bytes_max` bytes, and
    /// whether more follow.
    pub(crate) fn fields_behind(
        &self,
        execution: &mut Execution<'_>,
        last: Option<&[u8]>,
        (count, bytes_max): (usize, usize),
    ) -> Result<(Vec<(Bytes, Bytes)>, bool), CommandError> {
        use std::ops::Bound;

        let start = last.map_or(Bound::Included(self.field_key(b"")), |last| {
            Bound::Excluded(self.field_key(last))
        });
        let bounds = (start, prefix_end(&self.identity));
        let mut fields = Vec::new();
        let mut bytes = 0;
        for item in execution.range(Space::Fields, bounds, false)? {
            let (key, entry) = item?;
            if fields.len() == count || bytes > bytes_max {
                return Ok((fields, true));
            }
            bytes += key.len() + entry.value.len();
            fields.push((field_of(&key), entry.value));
        }
        Ok((fields, false))
    }

    /// The fields at these positions, in the order of their names; walks to the last of them.
    pub(crate) fn fields_at(
        &self,
        execution: &mut Execution<'_>,
        positions: &BTreeSet<u64>,
    ) -> Result<Vec<(Bytes, Bytes)>, CommandError> {
        let mut fields = Vec::with_capacity(positions.len());
        let mut bytes = 0;
        let Some(&last) = positions.last() else { return Ok(fields) };
        for (at, item) in (0..=last).zip(execution.prefix(Space::Fields, &self.identity)?) {
            let (key, entry) = item?;
            if positions.contains(&at) {
                bytes += key.len() + entry.value.len();
                execution.state.memory.check_reply(bytes)?;
                fields.push((field_of(&key), entry.value));
            }
        }
        Ok(fields)
    }

    /// Sets `field` to `value`. The caller counts fields and saves the head.
    pub(crate) fn put(
        &self,
        execution: &mut Execution<'_>,
        field: &[u8],
        value: Bytes,
    ) -> Result<(), CommandError> {
        if field.len() > FIELD_BYTES_MAX {
            return Err(CommandError::from(format!(
                "ERR a field of {} bytes is longer than {FIELD_BYTES_MAX} bytes",
                field.len()
            )));
        }
        execution.put(Space::Fields, self.field_key(field), value, None)
    }

    /// Removes `field`. The caller counts fields and saves the head.
    pub(crate) fn delete(
        &self,
        execution: &mut Execution<'_>,
        field: &[u8],
    ) -> Result<(), CommandError> {
        execution.delete(Space::Fields, self.field_key(field))
    }

    /// Writes the head under `key`; a hash without fields is deleted.
    pub(crate) fn save(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
    ) -> Result<(), CommandError> {
        if self.len == 0 {
            return self.remove(execution, key);
        }
        execution.put(Space::Hashes, key.clone(), self.encode(), self.expires_at_ms)
    }

    /// Removes the hash of `key`.
    pub(crate) fn remove(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
    ) -> Result<(), CommandError> {
        execution.delete(Space::Hashes, key.clone())?;
        self.forget_deadline(execution)?;
        self.note(execution, key, 0)
    }

    /// Writes a note that is due at `due_ms`.
    fn note(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
        due_ms: u64,
    ) -> Result<(), CommandError> {
        let note = Note { due_ms, identity: self.identity, slot: execution.slot() };
        execution.put(Space::Garbage, note.key(), key.clone(), None)
    }

    /// Changes the deadline of the hash of `key`.
    pub(crate) fn set_deadline(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        self.forget_deadline(execution)?;
        Self { expires_at_ms, ..self.clone() }.save_with_note(execution, key)
    }

    /// Moves the hash to the same key of `database`, which must not have it.
    pub(crate) fn move_to(
        &self,
        execution: &mut Execution<'_>,
        key: &Bytes,
        database: usize,
    ) -> Result<(), CommandError> {
        execution.delete(Space::Hashes, key.clone())?;
        self.forget_deadline(execution)?;
        execution.within(database, |execution| self.save_with_note(execution, key))
    }

    /// Moves the hash from one key to another, which must not exist.
    pub(crate) fn rename(
        &self,
        execution: &mut Execution<'_>,
        from: &Bytes,
        to: &Bytes,
    ) -> Result<(), CommandError> {
        execution.delete(Space::Hashes, from.clone())?;
        self.save_with_note(execution, to)
    }

    /// Writes a copy of the hash, with a new identity, under `to` of `database`.
    pub(crate) fn copy(
        &self,
        execution: &mut Execution<'_>,
        to: &Bytes,
        database: usize,
    ) -> Result<(), CommandError> {
        let copy = Self { identity: Self::new(execution).identity, ..self.clone() };
        for (field, value) in self.fields(execution)? {
            copy.put(execution, &field, value)?;
        }
        execution.within(database, |execution| copy.save_with_note(execution, to))
    }

    fn save_with_note(
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

    fn forget_deadline(&self, execution: &mut Execution<'_>) -> Result<(), CommandError> {
        match self.expires_at_ms {
            None => Ok(()),
            Some(due_ms) => {
                let note = Note { due_ms, identity: self.identity, slot: execution.slot() };
                execution.delete(Space::Garbage, note.key())
            }
        }
    }
}

/// The name of the field that [`Hash::walk`] has found under `key`.
pub(crate) fn field_of(key: &Bytes) -> Bytes {
    key.slice(IDENTITY_BYTES..)
}

/// Removes all hashes of the database. The caller has the gate to itself, so that no transaction
/// writes hashes meanwhile.
pub(crate) fn remove_all(execution: &mut Execution<'_>) -> Result<(), CommandError> {
    // Own writes may have put hashes into other databases.
    let may_have_own = execution.sees_own_writes();
    if may_have_own || execution.state.keyspaces.has_hashes_beside(execution.slot())? {
        // Other databases have fields too: those of this one are removed by notes.
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        for item in execution.range(Space::Hashes, everything, false)? {
            let (key, entry) = item?;
            let hash = Hash::decode(&entry)?;
            hash.forget_deadline(execution)?;
            hash.note(execution, &key, 0)?;
        }
    } else {
        execution.delete_space(Space::Fields)?;
        execution.delete_space(Space::Garbage)?;
    }
    execution.delete_space(Space::Hashes)
}

/// The hash of `key`, whether or not it also has a string.
pub(crate) fn find(
    execution: &mut Execution<'_>,
    key: &[u8],
) -> Result<Option<Hash>, CommandError> {
    if !execution.state.keyspaces.hashes().exist() {
        return Ok(None);
    }
    execution.get(Space::Hashes, key)?.map(|entry| Hash::decode(&entry)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidekv_testkit::golden::Dump;

    #[test]
    fn records_have_the_documented_bytes() {
        let hash = Hash { identity: [7; 16], len: 258, expires_at_ms: Some(5) };
        let head = hash.encode();
        assert_eq!(&head[..16], [7; 16]);
        assert_eq!(&head[16..], [2, 1, 0, 0, 0, 0, 0, 0]);
        let entry = Entry { value: head.clone(), expires_at_ms: Some(5) };
        assert_eq!(Hash::decode(&entry).unwrap(), hash);
        for len in 0..head.len() {
            let entry = Entry { value: head.slice(..len), expires_at_ms: None };
            assert!(Hash::decode(&entry).is_err());
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
        let hash = Hash { identity, len: 2, expires_at_ms: Some(1_800_000_000_000) };
        let note = Note { due_ms: 1_800_000_000_000, identity, slot: 0 };
        let mut dump = Dump::new(
            "The records of a hash with a deadline, fields apart. See crates/resp/src/data/hash.rs.",
        );
        let mut add = |name: &str, bytes: Bytes, parts: &[(usize, &str)]| {
            dump.file(name);
            dump.parts(&bytes, parts);
        };
        add("head", hash.encode(), &[(16, "Identity"), (24, "Number of fields")]);
        add("key of a field", hash.field_key(b"tide"), &[(16, "Identity"), (20, "Field")]);
        add("key of a note", note.key(), &[(8, "Due"), (24, "Identity")]);
        let released = dump.hold_against("hash");
        let value = Bytes::from(released[0].1.clone());
        let entry = Entry { value, expires_at_ms: hash.expires_at_ms };
        assert_eq!(Hash::decode(&entry).unwrap(), hash);
        assert_eq!(released[1].1.strip_prefix(&identity), Some(&b"tide"[..]));
        assert_eq!(Note::decode(&released[2].1), Some(note));
    }
}
