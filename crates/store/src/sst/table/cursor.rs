//! [`TableCursor`]: walks the entries of a table in both directions.
//!
//! It holds the index block and the data block of its position, so it does not depend on the cache
//! to keep them. All moves are one algorithm over blocks that a [`Fetcher`] gets; in memory-only
//! mode it determines the blocks that a seek would have to read (`want`), otherwise it reads them.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::fetch::{Fetched, Fetcher, Missing, ReadMode, Reading};
use super::reader::Table;
use crate::error::{Error, Result};
use crate::format::entry_location::EntryLocation;
use crate::format::key::Trailer;
use crate::sst::block::{BlockRef, Part};
use crate::sst::block_address::BlockAddress;
use crate::sst::blocks::Blocks;
use crate::sst::cursor::{Cursor, Target};

/// The entry at the cursor.
#[derive(Debug)]
struct CursorPosition {
    partition: usize,
    /// The index entry, in the partition's index, that refers to the block.
    in_index: usize,
    block: BlockRef,
    entry: usize,
    trailer: Trailer,
    payload: Range<usize>,
    /// The whole block, as shared by the values that were returned from it.
    shared: OnceCell<Bytes>,
}

/// Walks the entries of a table.
#[derive(Debug)]
pub(crate) struct TableCursor {
    fetcher: Fetcher,
    /// The index block of this partition.
    index: Option<(usize, BlockRef)>,
    position: Option<CursorPosition>,
    /// The user key at the position; its memory is reused.
    key: Vec<u8>,
    failed: Option<Error>,
}

impl TableCursor {
    /// A cursor without a position.
    pub(crate) fn new(table: Arc<Table>, blocks: Arc<Blocks>, reading: Reading) -> Self {
        let fetcher = Fetcher::new(table, blocks, reading);
        Self { fetcher, index: None, position: None, key: Vec::new(), failed: None }
    }

    /// Moves to `target`, as far as `mode` allows.
    fn move_to(&mut self, target: Target<'_>, mode: ReadMode) -> Fetched<()> {
        let partitions = self.fetcher.table().partitions().len();
        match target {
            Target::First => self.move_to_first_from(0, 0, mode),
            Target::Last => self.move_to_last_before(partitions, 0, mode),
            Target::AtOrAfter(user_key, trailer) => {
                let partition = self.fetcher.table().partition_of(user_key, trailer);
                if partition == partitions {
                    self.position = None;
                    return Ok(());
                }
                let index = self.index(partition, mode)?;
                let in_index = index.view().lower_bound(user_key, trailer);
                if in_index == index.view().len() {
                    return self.move_to_first_from(partition + 1, 0, mode);
                }
                let block = self.data(&index, in_index, mode)?;
                let entry = block.view().lower_bound(user_key, trailer);
                if entry == block.view().len() {
                    return self.move_to_first_from(partition, in_index + 1, mode);
                }
                self.set_position(partition, in_index, block, entry);
                Ok(())
            }
            Target::Before(user_key, trailer) => {
                let partition = self.fetcher.table().partition_of(user_key, trailer);
                if partition == partitions {
                    return self.move_to_last_before(partition, 0, mode);
                }
                let index = self.index(partition, mode)?;
                let in_index = index.view().lower_bound(user_key, trailer);
                if in_index == index.view().len() {
                    return self.move_to_last_before(partition, in_index, mode);
                }
                let block = self.data(&index, in_index, mode)?;
                match block.view().lower_bound(user_key, trailer).checked_sub(1) {
                    Some(entry) => self.set_position(partition, in_index, block, entry),
                    None => return self.move_to_last_before(partition, in_index, mode),
                }
                Ok(())
            }
        }
    }

    /// Positions the cursor on the first entry of the first block at or after this place.
    fn move_to_first_from(
        &mut self,
        mut partition: usize,
        mut in_index: usize,
        mode: ReadMode,
    ) -> Fetched<()> {
        while partition < self.fetcher.table().partitions().len() {
            let index = self.index(partition, mode)?;
            while in_index < index.view().len() {
                let block = self.data(&index, in_index, mode)?;
                // An empty block is unusual but harmless.
                if block.view().len() > 0 {
                    self.set_position(partition, in_index, block, 0);
                    return Ok(());
                }
                in_index += 1;
            }
            (partition, in_index) = (partition + 1, 0);
        }
        self.position = None;
        Ok(())
    }

    /// Positions the cursor on the last entry of the last block before this place.
    fn move_to_last_before(
        &mut self,
        mut partition: usize,
        mut in_index: usize,
        mode: ReadMode,
    ) -> Fetched<()> {
        loop {
            if in_index == 0 {
                if partition == 0 {
                    self.position = None;
                    return Ok(());
                }
                partition -= 1;
                in_index = self.index(partition, mode)?.view().len();
                continue;
            }
            in_index -= 1;
            let index = self.index(partition, mode)?;
            let block = self.data(&index, in_index, mode)?;
            if let Some(last) = block.view().len().checked_sub(1) {
                self.set_position(partition, in_index, block, last);
                return Ok(());
            }
        }
    }

    /// Moves to a random entry: all are about equally likely. The cursor has no position if the
    /// choice failed. `random` returns a number below its argument. Reads at most an index block
    /// and a data block.
    pub(crate) fn move_to_random(&mut self, random: &mut dyn FnMut(usize) -> usize) -> Result<()> {
        self.fetcher.prepare_seek(false);
        let moved = self.try_random(random);
        self.fetcher.settle(None);
        self.finish(moved)
    }

    /// Partitions are chosen by their bytes, their blocks with equal chances, and an entry among
    /// twice as many as blocks have on average: so a block with half as many entries is rejected
    /// more often.
    fn try_random(&mut self, random: &mut dyn FnMut(usize) -> usize) -> Fetched<()> {
        self.position = None;
        let table = Arc::clone(self.fetcher.table());
        let Some(last) = table.partitions().last() else { return Ok(()) };
        let offset = random(last.index.end() as usize) as u64;
        let partition = table.partitions().partition_point(|part| part.index.end() <= offset);
        let index = self.index(partition, ReadMode::Storage)?;
        if index.view().len() == 0 {
            return Ok(());
        }
        let in_index = random(index.view().len());
        let block = self.data(&index, in_index, ReadMode::Storage)?;
        let properties = table.properties();
        let usual = properties.entries.div_ceil(properties.data_blocks.max(1)) as usize;
        let entry = random(block.view().len().max(2 * usual));
        if entry < block.view().len() {
            self.set_position(partition, in_index, block, entry);
        }
        Ok(())
    }

    fn index(&mut self, partition: usize, mode: ReadMode) -> Fetched<BlockRef> {
        if let Some((of, index)) = &self.index
            && *of == partition
        {
            // The seek needs the same blocks as `want`.
            if mode == ReadMode::Memory {
                self.fetcher.hold(index.clone());
            }
            return Ok(index.clone());
        }
        let index = self.fetcher.index(partition, mode)?;
        self.index = Some((partition, index.clone()));
        Ok(index)
    }

    fn data(&mut self, index: &BlockRef, in_index: usize, mode: ReadMode) -> Fetched<BlockRef> {
        if let Some(position) = &self.position {
            let handle = self.fetcher.table().data_handle(index, in_index)?;
            if position.block.offset() == handle.offset {
                if mode == ReadMode::Memory {
                    self.fetcher.hold(position.block.clone());
                } else {
                    self.fetcher.count_block();
                }
                return Ok(position.block.clone());
            }
        }
        self.fetcher.data(index, in_index, mode)
    }

    fn set_position(&mut self, partition: usize, in_index: usize, block: BlockRef, entry: usize) {
        let view = block.view();
        view.key_into(entry, &mut self.key);
        let found = view.entry(entry);
        let (trailer, payload) = (found.trailer, found.payload_range());
        self.position = Some(CursorPosition {
            partition,
            in_index,
            block,
            entry,
            trailer,
            payload,
            shared: OnceCell::new(),
        });
    }

    /// Positions the cursor on another entry of the same block.
    fn move_within_block(&mut self, entry: usize) {
        let position = self.position.as_mut().expect("the caller has seen the position");
        let view = position.block.view();
        let found = view.entry(entry);
        self.key.truncate(view.prefix().len());
        self.key.extend_from_slice(found.suffix);
        (position.entry, position.trailer, position.payload) =
            (entry, found.trailer, found.payload_range());
    }

    /// Ends a move: a cursor that failed has no position.
    fn finish(&mut self, moved: Fetched<()>) -> Result<()> {
        let Err(missing) = moved else {
            self.failed = None;
            return Ok(());
        };
        let error = match missing {
            Missing::Failed(error) => error,
            Missing::Unread(_) => unreachable!("only `want` asks for memory alone"),
        };
        self.position = None;
        self.failed = Some(error.clone());
        Err(error)
    }

    fn position(&self) -> &CursorPosition {
        self.position.as_ref().expect("the cursor is valid")
    }
}

fn goes_forward(target: Target<'_>) -> bool {
    matches!(target, Target::First | Target::AtOrAfter(..))
}

impl Cursor for TableCursor {
    fn seek(&mut self, target: Target<'_>) -> Result<()> {
        self.fetcher.prepare_seek(goes_forward(target));
        let moved = self.move_to(target, ReadMode::Storage);
        self.fetcher.settle(self.position.as_ref().map(|position| &*position.block));
        self.finish(moved)
    }

    fn next(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let position = self.position();
        let (partition, in_index, entry) =
            (position.partition, position.in_index, position.entry + 1);
        if entry < position.block.view().len() {
            self.move_within_block(entry);
            return Ok(());
        }
        let moved = self.move_to_first_from(partition, in_index + 1, ReadMode::Forward);
        self.finish(moved)
    }

    fn prev(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let position = self.position();
        let (partition, in_index) = (position.partition, position.in_index);
        if let Some(entry) = position.entry.checked_sub(1) {
            self.move_within_block(entry);
            return Ok(());
        }
        self.fetcher.prepare_prev();
        let moved = self.move_to_last_before(partition, in_index, ReadMode::Storage);
        self.finish(moved)
    }

    fn valid(&self) -> bool {
        self.position.is_some()
    }

    fn user_key(&self) -> &[u8] {
        self.position();
        &self.key
    }

    fn trailer(&self) -> Trailer {
        self.position().trailer
    }

    fn value(&self) -> &[u8] {
        let position = self.position();
        &position.block.bytes()[position.payload.clone()]
    }

    fn value_bytes(&self) -> Bytes {
        let position = self.position();
        if !position.block.may_share(position.payload.len()) {
            return Bytes::copy_from_slice(self.value());
        }
        let whole =
            || Part::new(Arc::clone(&position.block), 0..position.block.bytes().len()).into_bytes();
        let whole = position.shared.get_or_init(whole);
        whole.slice(position.payload.clone())
    }

    fn location(&self) -> Option<EntryLocation> {
        let position = self.position();
        let table = self.fetcher.table().properties().id;
        let (offset, entries) = (position.block.offset(), position.block.view().len() as u32);
        Some(EntryLocation { table, offset, position: position.entry as u32, entries })
    }

    fn want(&mut self, target: Target<'_>) -> Vec<BlockAddress> {
        self.fetcher.prepare_seek(goes_forward(target));
        match self.move_to(target, ReadMode::Memory) {
            Err(Missing::Unread(run)) => run,
            // The seek will report any error.
            Ok(()) | Err(Missing::Failed(_)) => Vec::new(),
        }
    }

    fn supply(&mut self, block: BlockRef) {
        self.fetcher.hold(block);
    }
}
