//! Hashes: a head ([`head`](crate::data::head)), and one part for each field: its name is that of
//! the field, its value the field's.
//!
//! This module does not read strings; [`values`](crate::data::values) does.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use tidekv::{KEY_BYTES_MAX, NextWithin};

use crate::data::execution::{Execution, prefix_end};
use crate::data::head::{Head, HeadKind, IDENTITY_BYTES};
use crate::data::walk::Walk;
use crate::protocol::reply::CommandError;
use crate::state::keyspaces::Space;

/// Fields with their values, and the field after which the next page starts, if there may be one.
type Page = (Vec<(Bytes, Bytes)>, Option<Bytes>);

/// How much one page of fields holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLimits {
    /// The number of fields, at least 1.
    pub(crate) fields: usize,
    /// Bytes of fields and values; the last field may exceed it.
    pub(crate) bytes: usize,
    /// Deleted fields that may be passed.
    pub(crate) skips_left: u64,
}

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

    /// The page of fields after `last` (or from the first) within `limits`.
    pub(crate) fn fields_behind(
        &self,
        execution: &mut Execution<'_>,
        last: Option<&[u8]>,
        mut limits: PageLimits,
    ) -> Result<Page, CommandError> {
        use std::ops::Bound;

        let start = last.map_or(Bound::Included(self.part_key(b"")), |last| {
            Bound::Excluded(self.part_key(last))
        });
        let bounds = (start, prefix_end(&self.identity));
        let mut fields: Vec<(Bytes, Bytes)> = Vec::new();
        let mut bytes = 0;
        let mut walk = execution.range(Space::Fields, bounds, false)?;
        loop {
            match walk.next_within(&mut limits.skips_left)? {
                NextWithin::Entry(..) if fields.len() == limits.fields || bytes > limits.bytes => {
                    let last = fields.last().map(|(field, _)| field.clone());
                    return Ok((fields, last));
                }
                NextWithin::Entry(key, entry) => {
                    bytes += key.len() + entry.value.len();
                    fields.push((field_of(&key), entry.value));
                }
                NextWithin::SkipLimit(key) => return Ok((fields, Some(field_of(&key)))),
                NextWithin::End => return Ok((fields, None)),
            }
        }
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
