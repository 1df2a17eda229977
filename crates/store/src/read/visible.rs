//! The entries that a user sees: the newest visible version of each key, with deletions, range
//! deletions and deadlines applied, within bounds.
//!
//! [`VisibleCursor`] takes the merged internal entries of a view and yields user entries in either
//! direction. Going forward, the newest version of a key comes first and decides; going backward it
//! comes last, so candidates are kept until the key changes.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::format::key::{Kind, Sequence, Trailer, prefix_end, split_deadline, take_deadline};
use crate::format::range_tombstones::RangeTombstones;
use crate::memtable::MemtableCursor;
use crate::read::merge::{Child, MergingCursor};
use crate::read::run_cursor::{RunCursor, Tables};
use crate::sst::blocks::Blocks;
use crate::sst::cursor::{Cursor, Target};
use crate::sst::table::Reading;
use crate::version::levels::TableHandle;
use crate::version::view::View;

/// The keys that a scan covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The first key, inclusive; `None`: the first of all.
    pub(crate) start: Option<Box<[u8]>>,
    /// The end, exclusive; `None`: after the last key.
    pub(crate) end: Option<Box<[u8]>>,
}

impl KeyRange {
    /// All keys that begin with `prefix`.
    pub(crate) fn prefix(prefix: &[u8]) -> Self {
        let end = prefix_end(prefix).map(Into::into);
        Self { start: Some(prefix.into()), end }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.start.as_ref().is_none_or(|start| **start <= *key) && !self.is_past(key)
    }

    fn is_past(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_some_and(|end| *key >= **end)
    }
}

/// Older versions that are stepped over one by one before a seek is cheaper.
const STEPS_BEFORE_SEEK: usize = 8;

enum TombstoneSource {
    Memtable(Arc<RangeTombstones>),
    Table(Arc<TableHandle>),
}

impl TombstoneSource {
    fn set(&self) -> &RangeTombstones {
        match self {
            Self::Memtable(set) => set,
            Self::Table(handle) => handle.range_tombstones(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Before the first move.
    Start,
    /// The merge is at the entry that was yielded (forward).
    OnEntry,
    /// The merge is before the entry that was yielded (backward).
    BeforeEntry,
    /// All versions of `key` were passed, and none was yielded (forward).
    PastKey,
    /// No more entries in this direction.
    Done,
}

/// Where a bounded move has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    ToEntry,
    /// There is no entry up to the cursor's key.
    SkipLimit,
    ToEnd,
}

/// A cursor over visible entries.
pub(crate) struct VisibleCursor {
    merge: MergingCursor,
    tombstones: Vec<TombstoneSource>,
    blocks: Arc<Blocks>,
    range: KeyRange,
    sequence: Sequence,
    now_ms: u64,
    position: Position,
    key: Vec<u8>,
    kind: Kind,
    /// The payload of an entry found going backward.
    payload: Vec<u8>,
    /// Whether an entry was passed over because it has expired.
    has_seen_expired: Cell<bool>,
}

impl VisibleCursor {
    /// A cursor over `range` of `view` as a reader at `sequence` sees it.
    pub(crate) fn new(
        view: &View,
        blocks: &Arc<Blocks>,
        range: KeyRange,
        sequence: Sequence,
        now_ms: u64,
    ) -> Self {
        let mut children: Vec<Child> = Vec::new();
        let mut tombstones = Vec::new();
        for memtable in view.memtables() {
            children.push(Box::new(MemtableCursor::new(Arc::clone(memtable))));
            let set = memtable.range_tombstones();
            if !set.is_empty() {
                tombstones.push(TombstoneSource::Memtable(set));
            }
        }
        let version = &view.version;
        let (start, end) = (range.start.as_deref(), range.end.as_deref());
        let in_reach = |table: &&Arc<TableHandle>| {
            table.overlaps(start, end) && table.meta().sequence_override <= sequence
        };
        for table in version.tombstoned().iter().filter(in_reach) {
            tombstones.push(TombstoneSource::Table(Arc::clone(table)));
        }
        let wanted =
            |table: &&Arc<TableHandle>| in_reach(table) && !is_buried(table, &tombstones, sequence);
        // In the usual case nothing can hide a table, and none has to be checked.
        let are_all_wanted = tombstones.is_empty() && version.newest_override() <= sequence;
        for (level, places) in version.runs_between(start, end) {
            let tables = if are_all_wanted {
                Tables::Of(Arc::clone(version), level, places)
            } else {
                Tables::Chosen(
                    version.level(level)[places].iter().filter(wanted).cloned().collect(),
                )
            };
            if !tables.is_empty() {
                let reading = Reading::Cached(Arc::clone(version.scan_lengths(level)));
                children.push(Box::new(RunCursor::new(tables, Arc::clone(blocks), reading)));
            }
        }
        Self {
            merge: MergingCursor::new(children),
            tombstones,
            blocks: Arc::clone(blocks),
            range,
            sequence,
            now_ms,
            position: Position::Start,
            key: Vec::new(),
            kind: Kind::Delete,
            payload: Vec::new(),
            has_seen_expired: Cell::new(false),
        }
    }

    /// The user key of the entry.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The sequence of the entry, going forward.
    pub(crate) fn entry_sequence(&self) -> Sequence {
        debug_assert_eq!(self.position, Position::OnEntry);
        self.merge.trailer().sequence()
    }

    /// The value of the entry and its deadline.
    pub(crate) fn value(&self) -> (&[u8], Option<u64>) {
        let payload = match self.position {
            Position::OnEntry => self.merge.value(),
            _ => &self.payload,
        };
        match self.kind {
            Kind::Expiring => {
                split_deadline(payload).map_or((payload, None), |(d, v)| (v, Some(d)))
            }
            _ => (payload, None),
        }
    }

    /// Like [`VisibleCursor::value`], for a caller that keeps it.
    pub(crate) fn value_bytes(&self) -> (Bytes, Option<u64>) {
        let mut payload = match self.position {
            Position::OnEntry => self.merge.value_bytes(),
            _ => Bytes::copy_from_slice(&self.payload),
        };
        if self.kind != Kind::Expiring {
            return (payload, None);
        }
        let deadline = take_deadline(&mut payload);
        (payload, deadline)
    }

    fn seek(&mut self, target: Target<'_>) -> Result<()> {
        self.merge.prefetch(target, &self.blocks)?;
        self.merge.seek(target)
    }

    /// Moves to the next entry; false at the end. A cursor moves either forward or backward.
    pub(crate) fn next(&mut self) -> Result<bool> {
        Ok(self.next_within(&mut { u64::MAX })? == Moved::ToEntry)
    }

    /// The same, but passes at most `skips_left` keys that have no visible entry, and subtracts them.
    pub(crate) fn next_within(&mut self, skips_left: &mut u64) -> Result<Moved> {
        let moved = self.try_next(skips_left);
        self.position = match moved {
            Ok(Moved::ToEntry) => Position::OnEntry,
            Ok(Moved::SkipLimit) => Position::PastKey,
            _ => Position::Done,
        };
        moved
    }

    fn try_next(&mut self, skips_left: &mut u64) -> Result<Moved> {
        match self.position {
            Position::Done => return Ok(Moved::ToEnd),
            Position::PastKey => {}
            Position::Start => match self.range.start.clone() {
                Some(start) => self.seek(Target::AtOrAfter(&start, Trailer(u64::MAX)))?,
                None => self.seek(Target::First)?,
            },
            _ => self.skip_versions()?,
        }
        while self.merge.valid() {
            if self.range.is_past(self.merge.user_key()) {
                return Ok(Moved::ToEnd);
            }
            let trailer = self.merge.trailer();
            if trailer.sequence() > self.sequence {
                self.merge.next()?;
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(self.merge.user_key());
            if self.is_live(trailer, self.merge.value()) {
                self.kind = trailer.kind();
                return Ok(Moved::ToEntry);
            }
            self.skip_versions()?;
            *skips_left = skips_left.saturating_sub(1);
            if *skips_left == 0 {
                return Ok(Moved::SkipLimit);
            }
        }
        Ok(Moved::ToEnd)
    }

    /// Moves past all versions of `key`.
    fn skip_versions(&mut self) -> Result<()> {
        for _ in 0..STEPS_BEFORE_SEEK {
            self.merge.next()?;
            if !self.merge.valid() || self.merge.user_key() != self.key {
                return Ok(());
            }
        }
        // No key lies between this one and this one followed by a zero byte.
        let mut after = self.key.clone();
        after.push(0);
        self.merge.seek(Target::AtOrAfter(&after, Trailer(u64::MAX)))
    }

    /// Moves to the previous entry; false at the beginning.
    pub(crate) fn prev(&mut self) -> Result<bool> {
        let moved = self.try_prev();
        if !matches!(moved, Ok(true)) {
            self.position = Position::Done;
        }
        moved
    }

    fn try_prev(&mut self) -> Result<bool> {
        match self.position {
            Position::Done => return Ok(false),
            Position::Start => match self.range.end.clone() {
                Some(end) => self.seek(Target::Before(&end, Trailer(u64::MAX)))?,
                None => self.seek(Target::Last)?,
            },
            _ => {}
        }
        while self.merge.valid() {
            let key = self.merge.user_key();
            if self.range.start.as_ref().is_some_and(|start| *key < **start) {
                return Ok(false);
            }
            self.key.clear();
            self.key.extend_from_slice(key);
            if self.newest_going_backward()? {
                self.position = Position::BeforeEntry;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Steps back over all versions of `key`; returns whether the newest visible one is alive, and
    /// leaves it in `kind` and `payload`.
    fn newest_going_backward(&mut self) -> Result<bool> {
        let mut newest: Option<Trailer> = None;
        while self.merge.valid() && self.merge.user_key() == self.key {
            let trailer = self.merge.trailer();
            if trailer.sequence() <= self.sequence {
                newest = Some(trailer);
                self.payload.clear();
                self.payload.extend_from_slice(self.merge.value());
            }
            self.merge.prev()?;
        }
        let Some(trailer) = newest else { return Ok(false) };
        self.kind = trailer.kind();
        Ok(self.is_live(trailer, &self.payload))
    }

    /// Whether an entry was passed over because it has expired.
    pub(crate) fn has_seen_expired(&self) -> bool {
        self.has_seen_expired.get()
    }

    fn is_live(&self, trailer: Trailer, payload: &[u8]) -> bool {
        let alive = match trailer.kind() {
            Kind::Value => true,
            Kind::Expiring => {
                let is_ahead =
                    split_deadline(payload).is_some_and(|(deadline, _)| deadline > self.now_ms);
                if !is_ahead {
                    self.has_seen_expired.set(true);
                }
                is_ahead
            }
            Kind::Delete | Kind::RangeDelete => false,
        };
        alive
            && (self.tombstones.is_empty() || {
                let over =
                    |source: &TombstoneSource| source.set().newest_over(&self.key, self.sequence);
                self.tombstones.iter().map(over).max().unwrap_or(0) <= trailer.sequence()
            })
    }
}

/// Whether one visible range tombstone hides all entries of the table.
fn is_buried(table: &Arc<TableHandle>, tombstones: &[TombstoneSource], sequence: Sequence) -> bool {
    tombstones.iter().any(|source| {
        source.set().fragment_of(&table.meta().smallest).is_some_and(|fragment| {
            table.ends_before(&fragment.end)
                && fragment.newest_at(sequence) > table.newest_sequence()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ranges_end_behind_their_last_key() {
        let range = KeyRange::prefix(b"ab\xff");
        assert_eq!(range.end.as_deref(), Some(&b"ac"[..]));
        assert!(
            range.contains(b"ab\xff")
                && range.contains(b"ab\xff\xff\xff")
                && !range.contains(b"ac")
        );
        assert_eq!(KeyRange::prefix(b"\xff\xff").end, None);
        assert_eq!(KeyRange::prefix(b"").end, None);
    }
}
