//! The path of every block read: the cache, then one read, shared by all threads that need the same
//! block, then the checks that turn bytes into a block.
//!
//! Guarantees:
//! 1. A returned block has passed its checksum and its layout check (`block_address.rs`).
//! 2. Of many concurrent readers of one uncached block, one reads it; the others wait and share its
//!    block or its error. A reader that panics wakes its followers.
//! 3. No lock is held while storage is read.
//! 4. [`Blocks::cached`] never waits for storage.
//! 5. Reads for compaction leave the cache unchanged.
//! 6. A block from the tier below is the one that its table holds (`block_tier.rs`).
//!
//! **The tier**, if there is one, is read before storage by the thread that leads the read of a
//! block; a block from storage is written to the tier at once, whether the cache keeps it or not. A
//! run of several blocks that a scan reads ahead bypasses the tier both ways: it is one request to
//! storage however many of its blocks the tier has, and long scans would evict the blocks that
//! lookups need. Compactions and repairs bypass it too. The cache treats a block from the tier as
//! one that was read: more memory would have saved it too
//! (`docs/adr/0035-secondary-block-cache.md`).
//!
//! A block in the cache counts as one hit or one miss when it is requested with [`Blocks::cached`],
//! and as a hit, a miss or a skip in [`Blocks::look_for`]; the reading methods count no miss, so
//! look into the cache first.
//!
//! All methods may be called from any thread.

mod flight;
mod secondary;
mod statistics;
#[cfg(test)]
mod tests;

use std::slice;
use std::sync::Arc;

use tidekv_cache::{
    BlockId, BlockKind, BlockTag, CachePolicy, Caches, FilterLookup, FilterWorth, InsertReason,
};
use tidekv_io::{Buffer, ReadRequest, Storage};

use self::flight::{Flights, Lead, Role};
use self::secondary::{Secondary, TierUse};
use self::statistics::{BlockStatistics, InFlight};
use crate::error::{Error, Result};
use crate::format::checksum::name_hash;
use crate::sst::block::{Block, BlockHandle, BlockRef, Content, open_part, seed};
use crate::sst::block_address::{BlockAddress, TableFile};
use crate::sst::block_tier::BlockTier;
use crate::sst::seeks::SeekWork;

/// The purpose of a block read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For the seek of a scan, which is charged for it (`seeks.rs`).
    Seek,
    /// For any other operation.
    Any,
}

/// A block that was just written and is likely to be requested.
#[derive(Debug)]
pub(crate) struct HotBlock {
    pub(crate) kind: BlockKind,
    pub(crate) offset: u64,
    /// Recent accesses to its contents.
    pub(crate) times: u8,
    pub(crate) content: Box<[u8]>,
}

/// All block reads of a store.
#[derive(Debug)]
pub(crate) struct Blocks {
    storage: Arc<dyn Storage>,
    caches: Arc<Caches<BlockRef>>,
    tier: Secondary,
    flights: Flights,
    statistics: BlockStatistics,
    /// Counts the reads of seeks.
    seek_work: Arc<SeekWork>,
}

impl Blocks {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        caches: Arc<Caches<BlockRef>>,
        seek_work: Arc<SeekWork>,
    ) -> Self {
        Self {
            storage,
            caches,
            tier: Secondary::default(),
            flights: Flights::default(),
            statistics: BlockStatistics::default(),
            seek_work,
        }
    }

    /// Blocks of `storage`, with `bytes` bytes of block cache and no other cache.
    pub(crate) fn standalone(storage: Arc<dyn Storage>, bytes: usize) -> Self {
        let caches = Caches::new(name_hash, bytes, 1, CachePolicy::BlockOnly);
        // No merge follows.
        let seek_work = Arc::new(SeekWork::of_tables(u64::MAX));
        Self::new(storage, Arc::new(caches), seek_work)
    }

    /// The same, over a tier.
    pub(crate) fn with_tier(self, tier: BlockTier) -> Self {
        Self { tier: Secondary(Some(tier)), ..self }
    }

    #[cfg(test)]
    pub(crate) fn caches(&self) -> &Arc<Caches<BlockRef>> {
        &self.caches
    }

    /// The block if it is in memory; counts a hit or a miss.
    pub(crate) fn cached(&self, address: &BlockAddress) -> Option<BlockRef> {
        self.cached_at(&address.file, address.handle, address.kind)
    }

    /// Like [`Blocks::cached`], without building an address.
    #[inline]
    pub(crate) fn cached_at(
        &self,
        file: &TableFile,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Option<BlockRef> {
        let block = self.caches.blocks().get(file.id_of(handle), file.tag_of(kind))?;
        // A damaged index could refer to a block as if it were of another kind.
        (block.kind() == kind).then_some(block)
    }

    /// The result of `look` on a filter in memory, or whether to read it
    /// ([`BlockCache::look_for`](tidekv_cache::BlockCache::look_for)). Only for a short check: it
    /// does not count a reference to the block, which threads would contend for.
    #[inline]
    pub(crate) fn look_for<R>(
        &self,
        file: &TableFile,
        handle: BlockHandle,
        worth: &FilterWorth,
        look: impl FnOnce(&Block) -> R,
    ) -> (FilterLookup<R>, bool) {
        let look = |block: &BlockRef| look(block);
        let (id, tag) = (file.id_of(handle), file.tag_of(BlockKind::Filter));
        self.caches.blocks().look_for(id, tag, (worth, handle.len as usize), look)
    }

    /// Bytes read for users' operations and for warm start.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.statistics.read_bytes.get()
    }

    /// Reads a block that was not in memory.
    pub(crate) fn read(&self, address: &BlockAddress) -> Result<BlockRef> {
        self.read_as(address, Purpose::Any)
    }

    /// Reads a block that was not in memory.
    pub(crate) fn read_as(&self, address: &BlockAddress, purpose: Purpose) -> Result<BlockRef> {
        let lead = match self.join(address) {
            Role::Lead(lead) => lead,
            Role::Follow(flight) => {
                self.statistics.single_flight_waits.add(1);
                return flight.wait();
            }
        };
        let landed = self.landed_or_noted(address);
        let reads = u32::from(landed.is_none());
        let result = match landed.or_else(|| self.tier.get(TierUse::Use, address)) {
            Some(block) => Ok(block),
            None => {
                self.note_purpose(address, purpose);
                self.read_alone(address, TierUse::Use)
            }
        };
        self.publish(address, lead, InsertReason::Alone, result.clone());
        self.caches.note_reads(reads);
        result
    }

    /// Reads many blocks that were not in memory, in one batch; returns each block or its error, in
    /// the order of the addresses, which may repeat.
    pub(crate) fn try_read_many(&self, addresses: &[BlockAddress]) -> Vec<Result<BlockRef>> {
        self.gather(addresses, TierUse::Use, |_| Purpose::Any).0
    }

    /// Like [`Blocks::try_read_many`], with the purpose of each address by its index.
    pub(crate) fn try_read_many_as(
        &self,
        addresses: &[BlockAddress],
        purpose: impl Fn(usize) -> Purpose,
    ) -> Vec<Result<BlockRef>> {
        self.gather(addresses, TierUse::Use, purpose).0
    }

    /// Like [`Blocks::try_read_many`], with the first error for all of them.
    #[cfg(test)]
    pub(crate) fn read_many(&self, addresses: &[BlockAddress]) -> Result<Vec<BlockRef>> {
        self.try_read_many(addresses).into_iter().collect()
    }

    /// Reads the first block, which was not in memory, together with the following ones of the same
    /// table, in the order of the file. Blocks in memory are skipped. An error after the first
    /// block ends the run before it; the reader that needs that block will get the error. The
    /// purpose applies to the first block only.
    pub(crate) fn read_run(&self, run: &[BlockAddress], purpose: Purpose) -> Result<Vec<BlockRef>> {
        let of = |at| if at == 0 { purpose } else { Purpose::Any };
        let tier_use = if run.len() == 1 { TierUse::Use } else { TierUse::Bypass };
        let (read, led) = self.gather(run, tier_use, of);
        self.statistics.read_ahead_blocks.add(led.saturating_sub(1) as u64);
        let mut blocks = Vec::with_capacity(run.len());
        for block in read {
            match block {
                Ok(block) => blocks.push(block),
                Err(error) if blocks.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(blocks)
    }

    /// The blocks at `addresses`, in their order, and the number of blocks that this thread has
    /// read.
    fn gather(
        &self,
        addresses: &[BlockAddress],
        tier_use: TierUse,
        purpose: impl Fn(usize) -> Purpose,
    ) -> (Vec<Result<BlockRef>>, usize) {
        let mut slots: Vec<Option<Result<BlockRef>>> = vec![None; addresses.len()];
        let mut leads = Vec::with_capacity(addresses.len());
        let mut follows = Vec::new();
        let mut from_tier = 0;
        for (i, address) in addresses.iter().enumerate() {
            match self.join(address) {
                Role::Follow(flight) => follows.push((i, flight)),
                Role::Lead(lead) => {
                    if let Some(block) = self.landed_before(address) {
                        slots[i] = Some(Ok(block.clone()));
                        lead.publish(Ok(block));
                    } else if let Some(block) = self.tier.get(tier_use, address) {
                        from_tier += 1;
                        self.note_read(slice::from_ref(address));
                        slots[i] = Some(Ok(block.clone()));
                        self.publish(address, lead, InsertReason::Alone, Ok(block));
                    } else {
                        self.note_purpose(address, purpose(i));
                        leads.push((i, lead));
                    }
                }
            }
        }
        let led = leads.len();
        self.read_led(addresses, tier_use, leads, &mut slots);
        self.caches.note_reads(led as u32 + from_tier);
        // Only now that all flights of this thread have landed may it wait: another thread may be
        // waiting for one of them.
        for (i, flight) in follows {
            self.statistics.single_flight_waits.add(1);
            slots[i] = Some(flight.wait());
        }
        let blocks = slots.into_iter().map(|slot| slot.expect("every address was led or followed"));
        (blocks.collect(), led)
    }

    /// Reads a run of blocks past the cache, in one read.
    pub(crate) fn read_past_cache(&self, run: &[BlockAddress]) -> Result<Vec<BlockRef>> {
        if run.is_empty() {
            return Ok(Vec::new());
        }
        let disk = self.read_span(run)?;
        run.iter().map(|address| part_of(&disk, run, address)).collect()
    }

    /// Puts the block at `offset` of a table that is being written into the cache, with the access
    /// count of its contents.
    pub(crate) fn keep(&self, table: u64, keyspace: u32, block: HotBlock) {
        let HotBlock { kind, offset, times, content } = block;
        let content = Content::Exact(content);
        let block = Block::new(content, kind, offset).expect("a block that was just built");
        let id = BlockId { table, offset };
        let charge = block.charge();
        let blocks = self.caches.blocks();
        blocks.insert_prefilled(id, BlockTag { keyspace, kind }, Arc::new(block), charge, times);
    }

    /// Charges the read to a seek; called before this thread reads the block from storage.
    fn note_purpose(&self, address: &BlockAddress, purpose: Purpose) {
        if purpose == Purpose::Seek {
            let bytes = u64::from(address.handle.len);
            address.file.seek_bytes().note(bytes);
            self.seek_work.note(bytes);
        }
    }

    /// Drops the blocks of tables that are `dead`.
    pub(crate) fn evict_tables(&self, dead: &dyn Fn(u64) -> bool) {
        self.caches.blocks().evict_tables(dead);
    }

    /// Reads of storage to repair filters, those that failed included, and their bytes.
    pub(crate) fn repair_reads(&self) -> (u64, u64) {
        (self.statistics.repair_reads.get(), self.statistics.repair_read_bytes.get())
    }

    /// Name and value of every counter of reads, in a fixed order.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.statistics.counters()
    }

    /// Those of the tier.
    pub(crate) fn tier_counters(&self) -> [(&'static str, u64); 4] {
        self.tier.counters()
    }

    fn join(&self, address: &BlockAddress) -> Role<'_> {
        self.flights.join((address.file.id_of(address.handle), address.kind))
    }

    /// The block, if another reader cached it between this reader's cache lookup and its flight.
    /// Counts a hit only then.
    fn landed_before(&self, address: &BlockAddress) -> Option<BlockRef> {
        let here = self.caches.blocks().contains(address.file.id_of(address.handle));
        if here { self.cached(address) } else { None }
    }

    /// Like [`Blocks::landed_before`], for a block that is read alone: if it did not land, the
    /// cache is notified of the read.
    fn landed_or_noted(&self, address: &BlockAddress) -> Option<BlockRef> {
        let file = &address.file;
        let (id, tag) = (file.id_of(address.handle), file.tag_of(address.kind));
        let block = self.caches.blocks().get_or_note_read(id, tag)?;
        // A damaged index could refer to a block as if it were of another kind.
        (block.kind() == address.kind).then_some(block)
    }

    /// Puts a block into the cache and wakes the threads that wait for it.
    fn publish(
        &self,
        address: &BlockAddress,
        lead: Lead<'_>,
        arrival: InsertReason,
        result: Result<BlockRef>,
    ) {
        if let Ok(block) = &result {
            let file = &address.file;
            let (id, tag) = (file.id_of(address.handle), file.tag_of(address.kind));
            self.caches.blocks().insert_read(id, tag, block.clone(), block.charge(), arrival);
        }
        lead.publish(result);
    }

    /// Notifies the cache that these blocks are about to be read at once.
    fn note_read(&self, run: &[BlockAddress]) {
        let ids = run.iter().map(|address| address.file.id_of(address.handle));
        self.caches.blocks().note_read(ids);
    }

    fn failed(&self, address: &BlockAddress, error: tidekv_io::Error) -> Error {
        self.statistics.read_failures.add(1);
        let offset = address.file.in_file(address.handle.offset);
        Error::from(error).context(format_args!("block at offset {offset}"))
    }

    fn read_alone(&self, address: &BlockAddress, tier_use: TierUse) -> Result<BlockRef> {
        address.file.check(address.handle)?;
        let (offset, len) = (address.handle.offset, address.handle.len as usize);
        let _in_flight = InFlight::new(&self.statistics, len as u64);
        self.statistics.reads.add(1);
        self.statistics.read_bytes.add(len as u64);
        let disk = address.file.read_at(offset, len).map_err(|e| self.failed(address, e))?;
        self.opened(address, tier_use, disk)
    }

    /// The block out of what was read for it alone.
    fn opened(&self, address: &BlockAddress, tier_use: TierUse, disk: Buffer) -> Result<BlockRef> {
        // The block takes the memory of what was read.
        let pending = self.tier.prepare_put(address, tier_use, &disk);
        let block = address.block_of(disk)?;
        self.tier.put(pending);
        Ok(block)
    }

    /// Opens a block from a buffer that was read for `run`.
    fn opened_part(
        &self,
        address: &BlockAddress,
        tier_use: TierUse,
        disk: &[u8],
        run: &[BlockAddress],
    ) -> Result<BlockRef> {
        let block = part_of(disk, run, address)?;
        if let Ok(envelope) = envelope_of(disk, run, address) {
            self.tier.put(self.tier.prepare_put(address, tier_use, envelope));
        }
        Ok(block)
    }

    /// Reads the blocks that this thread leads, in one batch.
    fn read_led(
        &self,
        addresses: &[BlockAddress],
        tier_use: TierUse,
        mut leads: Vec<(usize, Lead<'_>)>,
        slots: &mut [Option<Result<BlockRef>>],
    ) {
        leads.sort_unstable_by_key(|(i, _)| addresses[*i].file.id_of(addresses[*i].handle));
        // Adjacent or close blocks are one request.
        let mut runs: Vec<Vec<(usize, Lead<'_>)>> = Vec::with_capacity(leads.len());
        let mut requests: Vec<ReadRequest> = Vec::with_capacity(leads.len());
        for (i, lead) in leads {
            let address = &addresses[i];
            let refused = address.file.check(address.handle).err();
            if refused.is_none()
                && let (Some(run), Some(request)) = (runs.last_mut(), requests.last_mut())
                && let (Some((first, _)), Some((before, _))) = (run.first(), run.last())
                && let start = addresses[*first].handle.offset
                && let Some(gap) = addresses[*before].gap_before(address, start)
            {
                self.statistics.gap_bytes.add(gap);
                request.len = (address.handle.end() - start) as usize;
                run.push((i, lead));
                continue;
            }
            let request = match refused {
                Some(error) => Err(error),
                None => address.request().map_err(|error| self.failed(address, error)),
            };
            match request {
                Ok(request) => {
                    requests.push(request);
                    runs.push(vec![(i, lead)]);
                }
                Err(error) => {
                    slots[i] = Some(Err(error.clone()));
                    lead.publish(Err(error));
                }
            }
        }
        if requests.is_empty() {
            return;
        }
        let bytes = requests.iter().map(|r| r.len as u64).sum();
        let in_flight = InFlight::new(&self.statistics, bytes);
        self.statistics.reads.add(requests.len() as u64);
        self.statistics.read_bytes.add(bytes);
        let read = self.storage.read_batch(&requests);
        drop(in_flight);
        for (run, disk) in runs.into_iter().zip(read) {
            let (indices, leads): (Vec<_>, Vec<_>) = run.into_iter().unzip();
            let span: Vec<_> = indices.iter().map(|&i| addresses[i].clone()).collect();
            self.note_read(&span);
            let disk = disk.map_err(|e| self.failed(&span[0], e));
            for (i, block) in indices.into_iter().zip(self.land(&span, tier_use, leads, disk)) {
                slots[i] = Some(block);
            }
        }
    }

    /// Opens and publishes the blocks of `run`, which this thread leads, from the buffer that was
    /// read for it.
    fn land(
        &self,
        run: &[BlockAddress],
        tier_use: TierUse,
        leads: Vec<Lead<'_>>,
        disk: Result<Buffer>,
    ) -> Vec<Result<BlockRef>> {
        let arrival = InsertReason::of_read(run.len());
        if let ([address], Ok(_)) = (run, &disk) {
            let block = disk.and_then(|disk| self.opened(address, tier_use, disk));
            for lead in leads {
                self.publish(address, lead, arrival, block.clone());
            }
            return vec![block];
        }
        let blocks = run.iter().zip(leads).map(|(address, lead)| {
            let block = match &disk {
                Ok(disk) => self.opened_part(address, tier_use, disk, run),
                // One block of the run may be unreadable while the others are not.
                Err(_) if run.len() > 1 => self.read_alone(address, tier_use),
                Err(error) => Err(error.clone()),
            };
            self.publish(address, lead, arrival, block.clone());
            block
        });
        blocks.collect()
    }

    /// Reads a block past the cache, to repair a filter.
    pub(crate) fn read_to_repair(&self, address: &BlockAddress) -> Result<BlockRef> {
        address.file.check(address.handle)?;
        let (offset, len) = (address.handle.offset, address.handle.len);
        let _in_flight = InFlight::new(&self.statistics, u64::from(len));
        self.statistics.repair_reads.add(1);
        self.statistics.repair_read_bytes.add(u64::from(len));
        let disk = address.file.read_at(offset, len as usize);
        address.block_of(disk.map_err(|e| self.failed(address, e))?)
    }

    /// The block if it is in memory; does not count a miss.
    pub(crate) fn cached_without_miss(&self, address: &BlockAddress) -> Option<BlockRef> {
        let id = address.file.id_of(address.handle);
        self.caches.blocks().contains(id).then(|| self.cached(address)).flatten()
    }

    /// Reads from the first block of a run to its last, for a compaction.
    fn read_span(&self, run: &[BlockAddress]) -> Result<Buffer> {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        for address in run {
            address.file.check(address.handle)?;
        }
        let start = first.handle.offset;
        let len = last.handle.end().saturating_sub(start);
        let _in_flight = InFlight::new(&self.statistics, len);
        self.statistics.compaction_reads.add(1);
        self.statistics.compaction_read_bytes.add(len);
        first.file.read_at(start, len as usize).map_err(|e| self.failed(first, e))
    }
}

/// Opens the block at `address` from a buffer that was read for `run`.
fn part_of(disk: &[u8], run: &[BlockAddress], address: &BlockAddress) -> Result<BlockRef> {
    let envelope = envelope_of(disk, run, address)?;
    address.admit(open_part(envelope, seed(address.file.id, address.handle.offset)))
}

/// The envelope of the block at `address` in that buffer.
fn envelope_of<'d>(
    disk: &'d [u8],
    run: &[BlockAddress],
    address: &BlockAddress,
) -> Result<&'d [u8]> {
    let offset = address.handle.offset;
    offset
        .checked_sub(run[0].handle.offset)
        .and_then(|start| disk.get(start as usize..)?.get(..address.handle.len as usize))
        .ok_or_else(|| address.file.corrupt(offset, "it does not follow the preceding block"))
}
