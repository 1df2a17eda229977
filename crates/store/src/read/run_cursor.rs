//! A cursor over a sorted run: tables that do not overlap, one after another. Each level below 0 is
//! one, and so are the tables of a bulk ingest, or any single table.
//!
//! A bulk-ingested table has sequence 0 in its file and its real one in the manifest; the cursor
//! fills it in.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::format::entry_location::EntryLocation;
use crate::format::key::{Sequence, Trailer};
use crate::sst::block::BlockRef;
use crate::sst::block_address::BlockAddress;
use crate::sst::blocks::Blocks;
use crate::sst::cursor::{Cursor, Target};
use crate::sst::table::{Reading, TableCursor};
use crate::version::levels::{TableHandle, Version};

/// The entries of one table, with the sequence of an ingest filled in.
struct TableEntries {
    cursor: TableCursor,
    /// Keeps the file alive.
    _handle: Arc<TableHandle>,
    sequence_override: Sequence,
}

impl TableEntries {
    fn new(handle: Arc<TableHandle>, blocks: Arc<Blocks>, reading: Reading) -> Self {
        let cursor = TableCursor::new(Arc::clone(handle.table()), blocks, reading);
        Self { cursor, sequence_override: handle.meta().sequence_override, _handle: handle }
    }

    /// Translates the target for the file: an ingested table has one entry per key, so only the
    /// order of that entry and the target matters.
    fn in_file<'t>(&self, target: Target<'t>) -> Target<'t> {
        let place = |trailer: Trailer| match self.sequence_override {
            0 => trailer,
            number if Trailer::new(number, crate::format::key::Kind::Value) > trailer => Trailer(0),
            _ => Trailer(u64::MAX),
        };
        match target {
            Target::AtOrAfter(key, trailer) => Target::AtOrAfter(key, place(trailer)),
            Target::Before(key, trailer) => Target::Before(key, place(trailer)),
            other => other,
        }
    }
}

impl Cursor for TableEntries {
    fn seek(&mut self, target: Target<'_>) -> Result<()> {
        self.cursor.seek(self.in_file(target))
    }

    fn next(&mut self) -> Result<()> {
        self.cursor.next()
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.prev()
    }

    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    fn user_key(&self) -> &[u8] {
        self.cursor.user_key()
    }

    fn trailer(&self) -> Trailer {
        let trailer = self.cursor.trailer();
        match self.sequence_override {
            0 => trailer,
            number => Trailer::new(number, trailer.kind()),
        }
    }

    fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    fn value_bytes(&self) -> Bytes {
        self.cursor.value_bytes()
    }

    fn location(&self) -> Option<EntryLocation> {
        self.cursor.location()
    }

    fn want(&mut self, target: Target<'_>) -> Vec<BlockAddress> {
        self.cursor.want(self.in_file(target))
    }

    fn supply(&mut self, block: BlockRef) {
        self.cursor.supply(block);
    }
}

/// Tables that do not overlap, ordered by key.
pub(crate) enum Tables {
    /// Any tables.
    Chosen(Vec<Arc<TableHandle>>),
    /// A range of a level of a version. The version is shared as a whole: sharing its tables one by
    /// one would make all scanning threads write to their reference counts.
    Of(Arc<Version>, usize, Range<usize>),
}

impl std::ops::Deref for Tables {
    type Target = [Arc<TableHandle>];

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Chosen(tables) => tables,
            Self::Of(version, level, range) => &version.level(*level)[range.clone()],
        }
    }
}

/// The entries of tables that do not overlap, ordered by key.
pub(crate) struct RunCursor {
    tables: Tables,
    blocks: Arc<Blocks>,
    reading: Reading,
    /// The table that `entries` walks.
    at: usize,
    entries: Option<TableEntries>,
}

impl RunCursor {
    pub(crate) fn new(tables: Tables, blocks: Arc<Blocks>, reading: Reading) -> Self {
        Self { tables, blocks, reading, at: 0, entries: None }
    }

    /// The table in which a seek to `target` begins; `None` if it finds nothing.
    fn table_for(&self, target: Target<'_>) -> Option<usize> {
        let last = self.tables.len().checked_sub(1)?;
        match target {
            Target::First => Some(0),
            Target::Last => Some(last),
            Target::AtOrAfter(key, _) => {
                let at = self.tables.partition_point(|table| table.ends_before(key));
                (at <= last).then_some(at)
            }
            Target::Before(key, _) => {
                let after = self.tables.partition_point(|table| *table.meta().smallest <= *key);
                after.checked_sub(1)
            }
        }
    }

    fn open(&mut self, at: usize) -> &mut TableEntries {
        if self.at != at {
            self.entries = None;
        }
        self.at = at;
        self.entries.get_or_insert_with(|| {
            let table = Arc::clone(&self.tables[at]);
            TableEntries::new(table, Arc::clone(&self.blocks), self.reading.clone())
        })
    }

    /// Moves on to the first entry of the following tables while this one has none left.
    fn skip_forward(&mut self) -> Result<()> {
        while !self.valid() && self.at + 1 < self.tables.len() {
            let next = self.at + 1;
            self.open(next).seek(Target::First)?;
        }
        Ok(())
    }

    fn skip_backward(&mut self) -> Result<()> {
        while !self.valid() && self.at > 0 {
            let previous = self.at - 1;
            self.open(previous).seek(Target::Last)?;
        }
        Ok(())
    }

    fn entries(&self) -> &TableEntries {
        self.entries.as_ref().expect("valid, so a table is open")
    }

    fn entries_mut(&mut self) -> &mut TableEntries {
        self.entries.as_mut().expect("valid, so a table is open")
    }
}

impl Cursor for RunCursor {
    fn seek(&mut self, target: Target<'_>) -> Result<()> {
        let Some(at) = self.table_for(target) else {
            self.entries = None;
            return Ok(());
        };
        self.open(at).seek(target)?;
        match target {
            Target::First | Target::AtOrAfter(..) => self.skip_forward(),
            Target::Last | Target::Before(..) => self.skip_backward(),
        }
    }

    fn next(&mut self) -> Result<()> {
        self.entries_mut().next()?;
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.entries_mut().prev()?;
        self.skip_backward()
    }

    fn valid(&self) -> bool {
        self.entries.as_ref().is_some_and(TableEntries::valid)
    }

    fn user_key(&self) -> &[u8] {
        self.entries().user_key()
    }

    fn trailer(&self) -> Trailer {
        self.entries().trailer()
    }

    fn value(&self) -> &[u8] {
        self.entries().value()
    }

    fn value_bytes(&self) -> Bytes {
        self.entries().value_bytes()
    }

    fn location(&self) -> Option<EntryLocation> {
        self.entries().location()
    }

    fn want(&mut self, target: Target<'_>) -> Vec<BlockAddress> {
        self.table_for(target).map_or(Vec::new(), |at| self.open(at).want(target))
    }

    fn supply(&mut self, block: BlockRef) {
        if let Some(entries) = &mut self.entries {
            entries.supply(block);
        }
    }
}
