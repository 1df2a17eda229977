//! Hashes: a head ([`head`](crate::data::head)), and one part for each field: its name is that of
//! the field, its value the field's.
//!
//! This module does not read strings; [`values`](crate::data::values) does.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use tidekv::KEY_BYTES_MAX;

use crate::data::execution::{Execution, prefix_end};
use crate::data::head::{Head, HeadKind, IDENTITY_BYTES};
use crate::data::walk::Walk;
use crate::protocol::reply::CommandError;
use crate::state::keyspaces::Space;

/// Maximum length of a field's name.
pub(crate) const FIELD_BYTES_MAX: usize = KEY_BYTES_MAX - IDENTITY_BYTES;

/// A hash. Its length is the number of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) Head);

impl Deref for Hash {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.0
    }
}

impl DerefMut for Hash {
    fn deref_mut(&mut self) -> &mut Head {
        &mut self.0
    }
}

impl Hash {
    /// An empty hash; not written yet.
    pub(crate) fn new(execution: &Execution<'_>) -> Self {
        Self(Head::new(execution, HeadKind::Hash))
    }

    /// The value of `field`.
    pub(crate) fn get(
        &self,
        execution: &mut Execution<'_>,
        field: &[u8],
    ) -> Result<Option<Bytes>, CommandError> {
        let entry = execution.get(Space::Fields, &self.part_key(field))?;
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

        let start = last.map_or(Bound::Included(self.part_key(b"")), |last| {
            Bound::Excluded(self.part_key(last))
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
        execution.put(Space::Fields, self.part_key(field), value, None)
    }

    /// Removes `field`. The caller counts fields and saves the head.
    pub(crate) fn delete(
        &self,
        execution: &mut Execution<'_>,
        field: &[u8],
    ) -> Result<(), CommandError> {
        execution.delete(Space::Fields, self.part_key(field))
    }

    /// Writes a copy of the hash, with a new identity, under `to` of `database`.
    pub(crate) fn copy(
        &self,
        execution: &mut Execution<'_>,
        to: &Bytes,
        database: usize,
    ) -> Result<(), CommandError> {
        let identity = Self::new(execution).identity;
        let copy = Self(Head { identity, ..self.0.clone() });
        for (field, value) in self.fields(execution)? {
            copy.put(execution, &field, value)?;
        }
        execution.within(database, |execution| copy.save_with_note(execution, to))
    }
}

/// The name of the field that [`Hash::walk`] has found under `key`.
pub(crate) fn field_of(key: &Bytes) -> Bytes {
    key.slice(IDENTITY_BYTES..)
}
