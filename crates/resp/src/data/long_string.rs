//! Long strings: a head ([`head`](crate::data::head)), and parts of [`PART_BYTES`] bytes, whose names
//! are their numbers from 0 (4 bytes, big-endian).
//!
//! A part may be missing, or shorter than that: the bytes that it lacks are zeros. So a write of a
//! few bytes costs one part and the head, however long the string is; `APPEND` is linear in what it
//! appends, and a string that is mostly zeros takes little space. What asks for the length, the
//! deadline or the type reads the head alone.
//!
//! A string becomes long when a command makes it [`LONG_BYTES_MIN`] bytes or longer, and stays so
//! until it is set again. (The command line and imports write strings of any length in one entry.)

use std::collections::BTreeMap;
use std::ops::{Deref, Range};

use bytes::{Bytes, BytesMut};
use tidekv::{Iter, Keyspace, Snapshot};

use crate::data::execution::Execution;
use crate::data::head::{Head, HeadKind, IDENTITY_BYTES, PART_BYTES};
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::keyspaces::Space;

/// Strings of at least this many bytes are written in parts.
pub(crate) const LONG_BYTES_MIN: usize = 128 << 10;

/// What parts do not store.
static ZEROS: [u8; PART_BYTES] = [0; PART_BYTES];

/// Bytes to be written at an offset.
pub(crate) type Patch = (usize, Bytes);

/// A long string. Its length is in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LongString(pub(crate) Head);

impl Deref for LongString {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.0
    }
}

/// The name of the part with this number.
fn name_of(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

/// The stretches of `range` in each part: its number, and the stretch within it.
fn stretches(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let parts = range.start / PART_BYTES..range.end.div_ceil(PART_BYTES);
    parts.map(move |number| {
        let start = number * PART_BYTES;
        let within = |at: usize| at.clamp(start, start + PART_BYTES) - start;
        (number, within(range.start)..within(range.end))
    })
}

/// The bytes of a stretch of a part: those that are stored, and the number of zeros behind them.
fn split(part: &Bytes, stretch: Range<usize>) -> (Bytes, usize) {
    let stored = stretch.start.min(part.len())..stretch.end.min(part.len());
    let zeros = stretch.len() - stored.len();
    (part.slice(stored), zeros)
}

impl LongString {
    /// An empty string; not written yet.
    pub(crate) fn new(execution: &Execution<'_>, expires_at_ms: Option<u64>) -> Self {
        Self(Head { expires_at_ms, ..Head::new(execution, HeadKind::String) })
    }

    fn part(&self, execution: &mut Execution<'_>, number: usize) -> Result<Bytes, CommandError> {
        let part = execution.get(Space::Fields, &self.part_key(&name_of(number)))?;
        Ok(part.map_or_else(Bytes::new, |part| part.value))
    }

    /// Calls `visit` with the bytes of `range`, which is within the string, piece by piece in order,
    /// until it returns false.
    pub(crate) fn visit(
        &self,
        execution: &mut Execution<'_>,
        range: Range<usize>,
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), CommandError> {
        for (number, stretch) in stretches(range) {
            let (stored, zeros) = split(&self.part(execution, number)?, stretch);
            if !visit(&stored) || !visit(&ZEROS[..zeros]) {
                break;
            }
        }
        Ok(())
    }

    /// Writes `patches`, which do not overlap; the string grows if it must. The caller saves the head.
    ///
    /// `before`: the content of a new string before the patches.
    pub(crate) fn write(
        &mut self,
        execution: &mut Execution<'_>,
        before: &Bytes,
        patches: &[Patch],
    ) -> Result<(), CommandError> {
        let mut parts: BTreeMap<usize, Vec<Patch>> = BTreeMap::new();
        for (number, _) in stretches(0..before.len()) {
            parts.entry(number).or_default();
        }
        let mut end = self.len as usize;
        for (offset, bytes) in patches {
            let mut rest = bytes.clone();
            for (number, stretch) in stretches(*offset..offset + bytes.len()) {
                let piece = rest.split_to(stretch.len());
                parts.entry(number).or_default().push((stretch.start, piece));
            }
            end = end.max(offset + bytes.len());
        }
        let end = end.max(before.len());
        for (number, patches) in parts {
            let start = number * PART_BYTES;
            let len = PART_BYTES.min(end - start);
            let part = match &patches[..] {
                [(0, whole)] if whole.len() == len => whole.clone(),
                patches => {
                    let old = if start < before.len() {
                        before.slice(start..before.len().min(start + PART_BYTES))
                    } else if start < self.len as usize {
                        self.part(execution, number)?
                    } else {
                        Bytes::new()
                    };
                    patched(&old, patches)
                }
            };
            execution.put(Space::Fields, self.part_key(&name_of(number)), part, None)?;
        }
        self.0.len = end as u64;
        Ok(())
    }

    /// Writes a copy of the string, with a new identity, under `to` of `database`.
    pub(crate) fn copy(
        &self,
        execution: &mut Execution<'_>,
        to: &Bytes,
        database: usize,
    ) -> Result<(), CommandError> {
        let mut copy = Self::new(execution, self.expires_at_ms);
        for (number, _) in stretches(0..self.len as usize) {
            let part = self.part(execution, number)?;
            if !part.is_empty() {
                execution.put(Space::Fields, copy.part_key(&name_of(number)), part, None)?;
            }
        }
        copy.0.len = self.len;
        execution.within(database, |execution| copy.save_with_note(execution, to))
    }

    /// The bytes of `range` at a snapshot, to be sent as a reply. `parts` is the keyspace of
    /// [`Space::Fields`].
    pub(crate) fn stream(
        &self,
        snapshot: &Snapshot,
        parts: &Keyspace,
        range: Range<usize>,
    ) -> StoredBytes {
        let key = |at: usize| self.part_key(&name_of(at));
        let keys = key(range.start / PART_BYTES)..key(range.end.div_ceil(PART_BYTES));
        let walk = snapshot.range::<Bytes>(parts, keys);
        StoredBytes { walk, next: None, is_at_end: false, range }
    }
}

/// A part with patches.
fn patched(old: &[u8], patches: &[Patch]) -> Bytes {
    let end = patches.iter().map(|(at, bytes)| at + bytes.len()).max().unwrap_or(0);
    let mut part = BytesMut::with_capacity(old.len().max(end));
    part.extend_from_slice(old);
    part.resize(old.len().max(end), 0);
    for (at, bytes) in patches {
        part[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    part.freeze()
}

/// The bytes of a range of a long string, in pieces.
pub(crate) struct StoredBytes {
    walk: Iter,
    /// The stored part that comes next, with its number, if it was read.
    next: Option<(usize, Bytes)>,
    is_at_end: bool,
    /// The bytes that were not returned.
    range: Range<usize>,
}

impl StoredBytes {
    /// The number and the bytes of the next part that is stored.
    fn stored(&mut self) -> Result<Option<&(usize, Bytes)>, CommandError> {
        if self.next.is_none() && !self.is_at_end {
            match self.walk.next().transpose()? {
                None => self.is_at_end = true,
                Some((key, part)) => {
                    let name = key.get(IDENTITY_BYTES..).and_then(|name| name.try_into().ok());
                    let number = name.map(u32::from_be_bytes).ok_or(DAMAGED)?;
                    self.next = Some((number as usize, part.value));
                }
            }
        }
        Ok(self.next.as_ref())
    }
}

const DAMAGED: CommandError = CommandError::text("ERR a part of this string has no number");

impl Iterator for StoredBytes {
    type Item = CommandResult;

    fn next(&mut self) -> Option<CommandResult> {
        let at = self.range.start;
        if at >= self.range.end {
            return None;
        }
        let number = at / PART_BYTES;
        let within = at % PART_BYTES;
        let stored = match self.stored() {
            Err(error) => return Some(Err(error)),
            Ok(Some((stored, part))) if *stored == number => part.slice(within.min(part.len())..),
            Ok(_) => Bytes::new(),
        };
        let len = (PART_BYTES - within).min(self.range.end - at);
        let piece = if stored.is_empty() {
            Bytes::from_static(&ZEROS[..len])
        } else {
            stored.slice(..len.min(stored.len()))
        };
        self.range.start += piece.len();
        if self.range.start / PART_BYTES != number
            && self.next.as_ref().is_some_and(|n| n.0 == number)
        {
            self.next = None;
        }
        Some(Ok(Reply::Bulk(piece)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_cover_a_range_once() {
        for (start, end) in
            [(0, 0), (0, 1), (5, PART_BYTES), (5, PART_BYTES + 1), (PART_BYTES, 3 * PART_BYTES + 7)]
        {
            let covered: Vec<usize> = stretches(start..end)
                .flat_map(|(number, stretch)| stretch.map(move |at| number * PART_BYTES + at))
                .collect();
            assert_eq!(covered, (start..end).collect::<Vec<_>>());
        }
        assert_eq!(split(&Bytes::from_static(b"abc"), 1..5), (Bytes::from_static(b"bc"), 2));
        assert_eq!(split(&Bytes::from_static(b"abc"), 4..6), (Bytes::new(), 2));
    }
}
