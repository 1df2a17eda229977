//! A ghost as in AC-Key: entries evicted from a component, in eviction order (section 4.3.3:
//! fingerprints of four bytes, with size and benefit).
//!
//! ```text
//!    first chunk                            last chunk
//!   ┌─────────────┐   ┌─────────────┐   ┌─────────────┐
//!   │ ✗  r  r  ✗  │ ► │ r  r  r  r  │ ► │ r  r │ free │ ◄ new records
//!   └─────────────┘   └─────────────┘   └─────────────┘
//!
//! OFFSET  SIZE  MEANING
//!      0     4  fingerprint
//!      4     4  from the lowest bit: bytes of the entry (24 bits; 0: no record),
//!               I/Os that a hit would have saved, in halves (8 bits)
//! ```
//!
//! Records are in a queue of chunks, indexed by a table of places. The caller bounds the total
//! bytes of the recorded entries; beyond that records are evicted by E-LRU, like entries
//! ([`crate::eviction::elru`]). The oldest record takes the place of an evicted one, so that chunks
//! at the front become free.
//!
//! Guarantees: the memory is [`GhostList::charged_bytes`], and at most its bound; a record takes
//! about 15 bytes of it. A fingerprint that was not recorded is not found.
//!
//! Single-threaded. ([`crate::partition::ghost`] is the other kind: it selects by frequency.)

use std::collections::VecDeque;

use crate::eviction::elru::Efficiencies;
use crate::eviction::slot_table::SlotTable;
use crate::partition::ghost::spread;

/// Records per chunk.
const CHUNK: usize = 64;
const CHUNK_BYTES: usize = CHUNK * size_of::<Record>() + size_of::<Box<[Record; CHUNK]>>();

const SIZE_BITS: u32 = 24;
const SIZE_MAX: u32 = (1 << SIZE_BITS) - 1;

/// An evicted entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Record {
    fingerprint: u32,
    size_and_benefit: u32,
}

impl Record {
    /// A record of an entry of `size` bytes whose hits saved `halves` half I/Os.
    pub(crate) fn new(fingerprint: u32, size: usize, halves: u8) -> Self {
        let size = (size as u32).clamp(1, SIZE_MAX);
        Self { fingerprint, size_and_benefit: size | u32::from(halves) << SIZE_BITS }
    }

    fn size(self) -> usize {
        (self.size_and_benefit & SIZE_MAX) as usize
    }

    /// I/Os per byte.
    pub(crate) fn efficiency(self) -> f64 {
        f64::from(self.size_and_benefit >> SIZE_BITS) / 2.0 / self.size() as f64
    }

    fn is_none(self) -> bool {
        self.size_and_benefit == 0
    }
}

/// The entries evicted from a component.
#[derive(Debug, Default)]
pub(crate) struct GhostList {
    chunks: VecDeque<Box<[Record; CHUNK]>>,
    /// The place of the first chunk's first record; places count up and wrap around.
    base: u32,
    /// Relative to `base`: the oldest record, and the end of the newest.
    first: usize,
    end: usize,
    table: SlotTable,
    /// Total bytes of the recorded entries.
    noted_bytes: usize,
    efficiencies: Efficiencies,
    /// The bound on the memory in bytes.
    bytes_max: usize,
}

impl GhostList {
    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Total bytes of the recorded entries.
    #[cfg(test)]
    pub(crate) fn noted_bytes(&self) -> usize {
        self.noted_bytes
    }

    /// Memory in bytes.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES + self.table.bytes()
    }

    /// Changes the bound on the memory.
    pub(crate) fn set_bytes_max(&mut self, bytes: usize) {
        self.bytes_max = bytes;
        while self.charged_bytes() > bytes {
            match self.len() > 0 {
                true => self.forget_one(),
                false => *self = Self { bytes_max: bytes, ..Self::default() },
            }
            if self.table.is_sparse() {
                let (chunks, base) = (&self.chunks, self.base);
                self.table.shrink(|place| hash_at(chunks, base, place));
            }
        }
    }

    /// Records an evicted entry. Older records are dropped until the recorded entries total at most
    /// `bytes`.
    pub(crate) fn note(&mut self, record: Record, bytes: usize) {
        self.take(record.fingerprint);
        let bytes_before = bytes.saturating_sub(record.size());
        self.fit(bytes_before);
        if record.size() > bytes || !self.make_room() {
            return;
        }
        let place = self.place(self.end);
        *self.at_mut(self.end) = record;
        self.end += 1;
        self.table.insert(spread(record.fingerprint), place);
        self.noted_bytes += record.size();
        self.efficiencies.add(record.efficiency());
    }

    /// Drops records until the recorded entries total at most `bytes`.
    pub(crate) fn fit(&mut self, bytes: usize) {
        while self.noted_bytes > bytes {
            self.forget_one();
        }
    }

    /// Drops one record, if there is any.
    pub(crate) fn forget_one(&mut self) {
        let records = (self.first..self.end).map(|at| (at, self.at(at)));
        let living = records.filter(|(_, record)| !record.is_none());
        let victim = self.efficiencies.victim(living.map(|(at, record)| (at, record.efficiency())));
        let Some(victim) = victim else { return };
        self.clear(victim);
        if victim != self.first {
            // The oldest one takes its place: the front becomes free.
            let oldest = std::mem::take(self.at_mut(self.first));
            let (from, to) = (self.place(self.first), self.place(victim));
            self.table.replace(spread(oldest.fingerprint), from, to);
            *self.at_mut(victim) = oldest;
        }
        self.pass();
    }

    /// Removes and returns the record of `fingerprint`.
    pub(crate) fn take(&mut self, fingerprint: u32) -> Option<Record> {
        let matches = |place| self.at(self.index(place)).fingerprint == fingerprint;
        let place = self.table.find(spread(fingerprint), matches)?;
        let index = self.index(place);
        let record = self.at(index);
        self.clear(index);
        self.pass();
        Some(record)
    }

    /// Makes room for a record; false if none is allowed.
    fn make_room(&mut self) -> bool {
        loop {
            let chunk = if self.end == self.chunks.len() * CHUNK { CHUNK_BYTES } else { 0 };
            let table =
                if self.table.is_full() { self.table.bytes_grown() } else { self.table.bytes() };
            if self.chunks.len() * CHUNK_BYTES + chunk + table <= self.bytes_max {
                break;
            }
            if self.len() == 0 {
                return false;
            }
            self.forget_one();
        }
        if self.end == self.chunks.len() * CHUNK {
            self.chunks.push_back(Box::new([Record::default(); CHUNK]));
        }
        if self.table.is_full() {
            let (chunks, base) = (&self.chunks, self.base);
            self.table.grow(|place| hash_at(chunks, base, place));
        }
        true
    }

    /// Removes an existing record.
    fn clear(&mut self, index: usize) {
        let (chunks, base) = (&self.chunks, self.base);
        let record = self.at(index);
        let hash = spread(record.fingerprint);
        self.table.remove(hash, self.place(index), |place| hash_at(chunks, base, place));
        self.noted_bytes -= record.size();
        self.efficiencies.remove(record.efficiency());
        *self.at_mut(index) = Record::default();
    }

    /// Skips empty places at the front.
    fn pass(&mut self) {
        while self.first < self.end && self.at(self.first).is_none() {
            self.first += 1;
        }
        while self.first >= CHUNK {
            self.chunks.pop_front();
            self.base = self.base.wrapping_add(CHUNK as u32);
            self.first -= CHUNK;
            self.end -= CHUNK;
        }
    }

    fn place(&self, index: usize) -> u32 {
        self.base.wrapping_add(index as u32)
    }

    fn index(&self, place: u32) -> usize {
        place.wrapping_sub(self.base) as usize
    }

    fn at(&self, index: usize) -> Record {
        self.chunks[index / CHUNK][index % CHUNK]
    }

    fn at_mut(&mut self, index: usize) -> &mut Record {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

fn hash_at(chunks: &VecDeque<Box<[Record; CHUNK]>>, base: u32, place: u32) -> u64 {
    let index = place.wrapping_sub(base) as usize;
    spread(chunks[index / CHUNK][index % CHUNK].fingerprint)
}

#[cfg(test)]
mod tests;
