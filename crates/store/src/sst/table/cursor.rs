//! [`TableCursor`]: walks the entries of a table in both directions.
//!
//! It holds the index block and the data block that it stands in, so it does
//! not depend on the cache to keep them. All moves are one algorithm over
//! blocks that a [`Fetcher`] gets; asked for memory only, it finds out which
//! blocks a seek would have to read (`want`), else it reads them.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::fetch::{Ask, Fetched, Fetcher, Missing, Reading};
use super::reader::Table;
use crate::error::{Error, Result};
use crate::format::key::Trailer;
use crate::format::places::Place;
use crate::sst::block::{BlockRef, Part};
use crate::sst::block_address::BlockAddress;
use crate::sst::blocks::Blocks;
use crate::sst::cursor::{Cursor, Target};

/// The entry that the cursor stands on.
#[derive(Debug)]
struct Spot {
    partition: usize,
    /// Which entry of the partition's index leads to the block.
    in_index: usize,
    block: BlockRef,
    entry: usize,
    trailer: Trailer,
    payload: Range<usize>,
    /// The whole block, as the values that were handed out share it.
    shared: OnceCell<Bytes>,
}

/// Walks the entries of a table.
#[derive(Debug)]
pub(crate) struct TableCursor {
    fetcher: Fetcher,
    /// The index block of this partition.
    index: Option<(usize, BlockRef)>,
    spot: Option<Spot>,
    /// The user key at the spot; its memory is reused.
    key: Vec<u8>,
    failed: Option<Error>,
}

impl TableCursor {
    /// A cursor that stands nowhere yet.
    pub(crate) fn new(table: Arc<Table>, blocks: Arc<Blocks>, reading: Reading) -> Self {
        let fetcher = Fetcher::new(table, blocks, reading);
        Self { fetcher, index: None, spot: None, key: Vec::new(), failed: None }
    }

    /// Moves to `target`, as far as `ask` allows.
    fn place(&mut self, target: Target<'_>, ask: Ask) -> Fetched<()> {
        let partitions = self.fetcher.table().partitions().len();
        match target {
            Target::First => self.stand_at_first_from(0, 0, ask),
            Target::Last => self.stand_at_last_before(partitions, 0, ask),
            Target::AtOrAfter(user_key, trailer) => {
                let partition = self.fetcher.table().partition_of(user_key, trailer);
                if partition == partitions {
                    self.spot = None;
                    return Ok(());
                }
                let index = self.index(partition, ask)?;
                let in_index = index.view().lower_bound(user_key, trailer);
                if in_index == index.view().len() {
                    return self.stand_at_first_from(partition + 1, 0, ask);
                }
                let block = self.data(&index, in_index, ask)?;
                let entry = block.view().lower_bound(user_key, trailer);
                if entry == block.view().len() {
                    return self.stand_at_first_from(partition, in_index + 1, ask);
                }
                self.stand(partition, in_index, block, entry);
                Ok(())
            }
            Target::Before(user_key, trailer) => {
                let partition = self.fetcher.table().partition_of(user_key, trailer);
                if partition == partitions {
                    return self.stand_at_last_before(partition, 0, ask);
                }
                let index = self.index(partition, ask)?;
                let in_index = index.view().lower_bound(user_key, trailer);
                if in_index == index.view().len() {
                    return self.stand_at_last_before(partition, in_index, ask);
                }
                let block = self.data(&index, in_index, ask)?;
                match block.view().lower_bound(user_key, trailer).checked_sub(1) {
                    Some(entry) => self.stand(partition, in_index, block, entry),
                    None => return self.stand_at_last_before(partition, in_index, ask),
                }
                Ok(())
            }
        }
    }

    /// Stands on the first entry of the first block at or after this place.
    fn stand_at_first_from(
        &mut self,
        mut partition: usize,
        mut in_index: usize,
        ask: Ask,
    ) -> Fetched<()> {
        while partition < self.fetcher.table().partitions().len() {
            let index = self.index(partition, ask)?;
            while in_index < index.view().len() {
                let block = self.data(&index, in_index, ask)?;
                // An empty block is odd and harmless.
                if block.view().len() > 0 {
                    self.stand(partition, in_index, block, 0);
                    return Ok(());
                }
                in_index += 1;
            }
            (partition, in_index) = (partition + 1, 0);
        }
        self.spot = None;
        Ok(())
    }

    /// Stands on the last entry of the last block before this place.
    fn stand_at_last_before(
        &mut self,
        mut partition: usize,
        mut in_index: usize,
        ask: Ask,
    ) -> Fetched<()> {
        loop {
            if in_index == 0 {
                if partition == 0 {
                    self.spot = None;
                    return Ok(());
                }
                partition -= 1;
                in_index = self.index(partition, ask)?.view().len();
                continue;
            }
            in_index -= 1;
            let index = self.index(partition, ask)?;
            let block = self.data(&index, in_index, ask)?;
            if let Some(last) = block.view().len().checked_sub(1) {
                self.stand(partition, in_index, block, last);
                return Ok(());
            }
        }
    }

    fn index(&mut self, partition: usize, ask: Ask) -> Fetched<BlockRef> {
        if let Some((of, index)) = &self.index
            && *of == partition
        {
            // What `want` passes by, the seek passes by again.
            if ask == Ask::Memory {
                self.fetcher.hold(index.clone());
            }
            return Ok(index.clone());
        }
        let index = self.fetcher.index(partition, ask)?;
        self.index = Some((partition, index.clone()));
        Ok(index)
    }

    fn data(&mut self, index: &BlockRef, in_index: usize, ask: Ask) -> Fetched<BlockRef> {
        if let Some(spot) = &self.spot {
            let handle = self.fetcher.table().data_handle(index, in_index)?;
            if spot.block.offset() == handle.offset {
                if ask == Ask::Memory {
                    self.fetcher.hold(spot.block.clone());
                } else {
                    self.fetcher.walk_on();
                }
                return Ok(spot.block.clone());
            }
        }
        self.fetcher.data(index, in_index, ask)
    }

    fn stand(&mut self, partition: usize, in_index: usize, block: BlockRef, entry: usize) {
        let view = block.view();
        view.key_into(entry, &mut self.key);
        let found = view.entry(entry);
        let (trailer, payload) = (found.trailer, found.payload_range());
        self.spot = Some(Spot {
            partition,
            in_index,
            block,
            entry,
            trailer,
            payload,
            shared: OnceCell::new(),
        });
    }

    /// Stands on another entry of the same block.
    fn stand_within(&mut self, entry: usize) {
        let spot = self.spot.as_mut().expect("the caller has seen the spot");
        let view = spot.block.view();
        let found = view.entry(entry);
        self.key.truncate(view.prefix().len());
        self.key.extend_from_slice(found.suffix);
        (spot.entry, spot.trailer, spot.payload) = (entry, found.trailer, found.payload_range());
    }

    /// Ends a move: a cursor that failed stands nowhere.
    fn finish(&mut self, moved: Fetched<()>) -> Result<()> {
        let Err(missing) = moved else {
            self.failed = None;
            return Ok(());
        };
        let error = match missing {
            Missing::Failed(error) => error,
            Missing::Unread(_) => unreachable!("only `want` asks for memory alone"),
        };
        self.spot = None;
        self.failed = Some(error.clone());
        Err(error)
    }

    fn spot(&self) -> &Spot {
        self.spot.as_ref().expect("the cursor is valid")
    }
}

fn goes_forward(target: Target<'_>) -> bool {
    matches!(target, Target::First | Target::AtOrAfter(..))
}

impl Cursor for TableCursor {
    fn seek(&mut self, target: Target<'_>) -> Result<()> {
        self.fetcher.aim(goes_forward(target));
        let moved = self.place(target, Ask::Storage);
        self.fetcher.settle(self.spot.as_ref().map(|spot| &*spot.block));
        self.finish(moved)
    }

    fn next(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let spot = self.spot();
        let (partition, in_index, entry) = (spot.partition, spot.in_index, spot.entry + 1);
        if entry < spot.block.view().len() {
            self.stand_within(entry);
            return Ok(());
        }
        let moved = self.stand_at_first_from(partition, in_index + 1, Ask::Forward);
        self.finish(moved)
    }

    fn prev(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let spot = self.spot();
        let (partition, in_index) = (spot.partition, spot.in_index);
        if let Some(entry) = spot.entry.checked_sub(1) {
            self.stand_within(entry);
            return Ok(());
        }
        self.fetcher.turn_back();
        let moved = self.stand_at_last_before(partition, in_index, Ask::Storage);
        self.finish(moved)
    }

    fn valid(&self) -> bool {
        self.spot.is_some()
    }

    fn user_key(&self) -> &[u8] {
        self.spot();
        &self.key
    }

    fn trailer(&self) -> Trailer {
        self.spot().trailer
    }

    fn value(&self) -> &[u8] {
        let spot = self.spot();
        &spot.block.bytes()[spot.payload.clone()]
    }

    fn value_bytes(&self) -> Bytes {
        let spot = self.spot();
        if !spot.block.may_share(spot.payload.len()) {
            return Bytes::copy_from_slice(self.value());
        }
        let whole = || Part::new(Arc::clone(&spot.block), 0..spot.block.bytes().len()).into_bytes();
        let whole = spot.shared.get_or_init(whole);
        whole.slice(spot.payload.clone())
    }

    fn place(&self) -> Option<Place> {
        let spot = self.spot();
        let table = self.fetcher.table().properties().id;
        let (offset, entries) = (spot.block.offset(), spot.block.view().len() as u32);
        Some(Place { table, offset, position: spot.entry as u32, entries })
    }

    fn want(&mut self, target: Target<'_>) -> Vec<BlockAddress> {
        self.fetcher.aim(goes_forward(target));
        match self.place(target, Ask::Memory) {
            Err(Missing::Unread(run)) => run,
            // Whatever is wrong, the seek will say.
            Ok(()) | Err(Missing::Failed(_)) => Vec::new(),
        }
    }

    fn supply(&mut self, block: BlockRef) {
        self.fetcher.hold(block);
    }
}
