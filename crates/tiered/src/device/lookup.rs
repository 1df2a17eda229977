//! Lookups on a device, in steps: each step returns the next read, and the caller performs it in
//! its own way and passes the result to the next step.
//!
//! ```text
//!         ┌────────────────────────── again ◄───────────────────────────┐
//!         ▼           not in DRAM                      location          │ changed meanwhile
//!  begin_lookup() ─────────────► Read, of the index ─────────────► Read, of the record
//!         │ absent, or in a buffer        │ absent                       │ the key's, or another's
//!         └───────────────────────────────┴──────────────────────────────┴────► Found, or small?
//!
//!         ┌───────── the next one ◄───────┐
//!         ▼            on flash           │ it has not the key
//!      small? ──────────────► Read, of a bucket
//!         │ in memory, or no more         │ the key's
//!         └───────────────────────────────┴────► Found, Missing
//! ```
//!
//! Guarantees: those of [`crate::device::flash_device`] for lookups. No lock is held during a read;
//! its result counts only if the index state that led to it is unchanged.

use tidekv_io::{Buffer, Result};

use crate::device::flash_device::Device;
use crate::device::small_state::{Found, location_of};
use crate::entry::{Entry, RecordLocation, SegmentId};
use crate::index::partition::DramLookup;
use crate::index::small_index::SmallLocation;
use crate::segment::bucket::{self, BUCKET_BYTES, SmallObject};
use crate::segment::layout::Name;
use crate::segment::page::{self, PAGE_BLOCK_BYTES, PAGE_BYTES, Page, PageBlock, PageId};
use crate::segment::record::{self, Kind, Mismatch, Record};
use crate::segment::segment_table::SegmentState;

/// A lookup starts over when the index changes under it; at most this often.
const TRIES: usize = 16;

/// A lookup in progress.
#[derive(Debug)]
pub(crate) struct DeviceLookup {
    name: Name,
    hash: u64,
    /// Where it may be as a small object; `None` before it has been looked for as a record.
    places: Option<std::vec::IntoIter<SmallLocation>>,
    tries: usize,
    reading: Reading,
    index_reads: u64,
    /// Buckets read that had other keys' objects only.
    wrong_buckets: u64,
    /// Whether the device was read.
    pub(crate) was_read: bool,
}

/// The pending read.
#[derive(Debug, Clone, Copy)]
enum Reading {
    Nothing,
    /// The whole page, or the block with the name.
    Index {
        version: u32,
        is_whole: bool,
    },
    Record {
        location: RecordLocation,
        id: SegmentId,
    },
    /// A bucket of small objects, by its number in the segment.
    Bucket {
        number: u32,
        id: SegmentId,
    },
}

/// The next step.
#[derive(Debug)]
pub(crate) enum Step {
    /// Read this range of the data file.
    Read {
        at: u64,
        len: usize,
    },
    /// The record of the key, and its location.
    Found(Box<Record>, RecordLocation),
    Missing,
}

/// The location of a record.
enum Located {
    There(Entry),
    Nowhere,
    /// In the page, if anywhere.
    InPage {
        version: u32,
        is_whole: bool,
    },
    /// The index has changed: start over.
    Again,
}

/// What a record that was read says.
enum Evaluated {
    Found(Step),
    Missing,
    /// It must be read again.
    Again,
}

impl Device {
    /// Begins a lookup of a key with that hash.
    pub(crate) fn begin_lookup(&self, hash: u64) -> DeviceLookup {
        let name = self.layout.name_of(hash);
        DeviceLookup {
            name,
            hash,
            places: None,
            tries: 0,
            reading: Reading::Nothing,
            index_reads: 0,
            wrong_buckets: 0,
            was_read: false,
        }
    }

    /// Advances a lookup of `key`; `read` is the result of the previous step's read.
    ///
    /// # Errors
    ///
    /// When the device failed the read; the lookup has ended.
    pub(crate) fn step(
        &self,
        lookup: &mut DeviceLookup,
        key: &[u8],
        now_s: u32,
        read: Option<Result<Buffer>>,
    ) -> Result<Step> {
        let read = read.transpose().inspect_err(|_| self.counters.errors.add(1))?;
        if lookup.places.is_none() {
            if let Some(step) = self.step_record(lookup, key, now_s, read) {
                return Ok(step);
            }
            lookup.tries = 0;
            lookup.places = Some(self.places_of(lookup));
            return Ok(self.step_small(lookup, key, now_s, None));
        }
        Ok(self.step_small(lookup, key, now_s, read))
    }

    /// Advances the lookup of a record; `None` if there is none.
    fn step_record(
        &self,
        lookup: &mut DeviceLookup,
        key: &[u8],
        now_s: u32,
        read: Option<Buffer>,
    ) -> Option<Step> {
        let mut located = match (std::mem::replace(&mut lookup.reading, Reading::Nothing), read) {
            (Reading::Index { version, is_whole }, Some(bytes)) => {
                self.find_in_page(lookup.name, version, is_whole, &bytes)
            }
            (Reading::Record { location, id }, Some(bytes)) => {
                let decoded = record::decode(&bytes, id, key);
                match self.evaluate(decoded, location, (id, SegmentState::Whole), now_s) {
                    Evaluated::Found(step) => return Some(step),
                    Evaluated::Missing => return None,
                    Evaluated::Again => Located::Again,
                }
            }
            _ => Located::Again,
        };
        while lookup.tries < TRIES {
            if let Located::Again = located {
                lookup.tries += 1;
                located = self.locate(lookup.name);
            }
            let entry = match std::mem::replace(&mut located, Located::Again) {
                Located::There(entry) => entry,
                Located::Nowhere => break,
                Located::InPage { version, is_whole } => {
                    return Some(self.read_index(lookup, version, is_whole));
                }
                Located::Again => continue,
            };
            let Some(location) = entry.location() else { break };
            let Some((id, life)) = self.live_segments.of(location) else { break };
            match (life, location.is_in_buffer) {
                (_, false) => return Some(self.read_record(lookup, location, id)),
                // It has just been written, and has another location.
                (SegmentState::Whole, true) => continue,
                (SegmentState::Buffered, true) => {}
            }
            // It has just been written and its buffer is gone.
            let Some(decoded) = self.read_buffered(location, id, key) else { continue };
            match self.evaluate(decoded, location, (id, life), now_s) {
                Evaluated::Found(step) => return Some(step),
                Evaluated::Missing => break,
                Evaluated::Again => {}
            }
        }
        None
    }

    /// The places that the index of small objects has for the key.
    fn places_of(&self, lookup: &DeviceLookup) -> std::vec::IntoIter<SmallLocation> {
        let places = match self.is_broken() {
            true => Vec::new(),
            false => self.small.index.find(lookup.name.tag()).collect(),
        };
        places.into_iter()
    }

    /// Advances the lookup of a small object.
    fn step_small(
        &self,
        lookup: &mut DeviceLookup,
        key: &[u8],
        now_s: u32,
        read: Option<Buffer>,
    ) -> Step {
        let reading = std::mem::replace(&mut lookup.reading, Reading::Nothing);
        if let (Reading::Bucket { number, id }, Some(bytes)) = (reading, read) {
            let location = location_of(id, number);
            if bucket::is_intact(&bytes, self.id, id, number) {
                if let Some(small) = bucket::find(&bytes, key) {
                    return self.evaluate_small(lookup, small, location, now_s, true);
                }
                self.counters.collisions.add(1);
                lookup.wrong_buckets += 1;
            } else {
                // Another segment may have taken the slot meanwhile.
                self.counters.damaged.add(self.live_segments.has(location).into());
            }
        }
        while let Some(place) = lookup.places.as_mut().and_then(Iterator::next) {
            match self.small.find(lookup.hash, key, place, &self.live_segments) {
                Found::OnFlash { bucket, id } => {
                    let location = location_of(id, bucket);
                    let at = self.layout.segment_at(id.slot) + u64::from(location.offset);
                    self.counters.object_reads.add(1);
                    self.counters.read_bytes.add(BUCKET_BYTES as u64);
                    lookup.reading = Reading::Bucket { number: bucket, id };
                    lookup.was_read = true;
                    return Step::Read { at, len: BUCKET_BYTES };
                }
                Found::InMemory(small, location) => {
                    self.counters.buffer_hits.add(1);
                    return self.evaluate_small(lookup, small, location, now_s, false);
                }
                // Once: another key's object may be there.
                Found::Moved if lookup.tries == 0 => {
                    lookup.tries += 1;
                    lookup.places = Some(self.places_of(lookup));
                }
                Found::Moved | Found::Nowhere => {}
            }
        }
        self.miss(lookup)
    }

    /// The result of a lookup that has found a small object.
    fn evaluate_small(
        &self,
        lookup: &DeviceLookup,
        SmallObject { found, epoch }: SmallObject,
        location: RecordLocation,
        now_s: u32,
        was_read: bool,
    ) -> Step {
        if found.object.deadline.has_passed(now_s) {
            self.counters.expired.add(1);
            self.counters.object_reads_of_misses.add(was_read.into());
            return self.miss(lookup);
        }
        self.counters.hits.add(1);
        Step::Found(Box::new(Record { found, kind: Kind::Whole, home: 0, epoch }), location)
    }

    /// Evaluates a record that was read.
    fn evaluate(
        &self,
        decoded: std::result::Result<Record, Mismatch>,
        location: RecordLocation,
        (id, life): (SegmentId, SegmentState),
        now_s: u32,
    ) -> Evaluated {
        let counters = &self.counters;
        let of_miss = match decoded {
            Ok(record) if record.found.object.deadline.has_passed(now_s) => &counters.expired,
            Ok(record) => {
                counters.hits.add(1);
                return Evaluated::Found(Step::Found(Box::new(record), location));
            }
            Err(Mismatch::OtherKey) => &counters.collisions,
            // Another segment has taken the slot meanwhile, unless it is still the same.
            Err(Mismatch::Damaged) if self.live_segments.of(location) == Some((id, life)) => {
                counters.damaged.add(1);
                return Evaluated::Missing;
            }
            Err(Mismatch::Damaged) => return Evaluated::Again,
        };
        of_miss.add(1);
        counters.object_reads_of_misses.add(u64::from(life == SegmentState::Whole));
        Evaluated::Missing
    }

    fn miss(&self, lookup: &DeviceLookup) -> Step {
        self.counters.misses.add(1);
        self.counters.index_reads_of_misses.add(lookup.index_reads);
        self.counters.object_reads_of_misses.add(lookup.wrong_buckets);
        Step::Missing
    }

    /// The location of a name's record, from DRAM.
    fn locate(&self, name: Name) -> Located {
        if self.is_broken() {
            return Located::Nowhere;
        }
        let partition = self.partition(name).lock();
        match partition.find(name.fingerprint, &self.live_segments) {
            DramLookup::Absent => return Located::Nowhere,
            DramLookup::Entry(entry) => return Located::There(entry),
            DramLookup::Page(_) if !partition.has_page() => return Located::Nowhere,
            DramLookup::Page(code) => {
                if let Some(entry) = self.entry_of(name, code) {
                    return Located::There(entry);
                }
            }
        }
        match self.hot.find(name) {
            Some(entry) => Located::There(entry),
            None => Located::InPage {
                version: partition.version(),
                is_whole: self.wants_page(&partition),
            },
        }
    }

    fn read_index(&self, lookup: &mut DeviceLookup, version: u32, is_whole: bool) -> Step {
        let name = lookup.name;
        let page_at = self.layout.page_at(name.partition, version);
        let (at, len) = match is_whole {
            true => (page_at, PAGE_BYTES),
            false => {
                let number = page::block_of(name.fingerprint);
                (page_at + (number * PAGE_BLOCK_BYTES) as u64, PAGE_BLOCK_BYTES)
            }
        };
        lookup.index_reads += 1;
        self.counters.index_reads.add(1);
        self.counters.read_bytes.add(len as u64);
        (lookup.reading, lookup.was_read) = (Reading::Index { version, is_whole }, true);
        Step::Read { at, len }
    }

    fn read_record(
        &self,
        lookup: &mut DeviceLookup,
        location: RecordLocation,
        id: SegmentId,
    ) -> Step {
        let (at, len) = (
            self.layout.segment_at(location.slot) + u64::from(location.offset),
            location.len as usize,
        );
        self.counters.object_reads.add(1);
        self.counters.read_bytes.add(len as u64);
        (lookup.reading, lookup.was_read) = (Reading::Record { location, id }, true);
        Step::Read { at, len }
    }

    /// The entry of a name in that part of the page, if the page is still current.
    fn find_in_page(&self, name: Name, version: u32, is_whole: bool, bytes: &[u8]) -> Located {
        let id = PageId { device: self.id, partition: name.partition, version };
        let entry_and_page = match is_whole {
            true => Page::decode(bytes, id).map(|page| {
                let locator = self.locator_of(name.partition, &page);
                (page.find(name.fingerprint), Some((page, locator)))
            }),
            false => PageBlock::decode(bytes, id, page::block_of(name.fingerprint))
                .map(|block| (block.find(name.fingerprint), None)),
        };
        self.counters.damaged.add(entry_and_page.is_none().into());
        let mut partition = self.partition(name).lock();
        if partition.version() != version
            || !matches!(partition.find(name.fingerprint, &self.live_segments), DramLookup::Page(_))
        {
            return Located::Again;
        }
        // Damaged, or misread: its contents are unknown until it is replaced.
        let Some((entry, page)) = entry_and_page else { return Located::Nowhere };
        if let Some((page, locator)) = page
            && self.wants_page(&partition)
        {
            self.install(&mut partition, &page, locator);
        }
        let is_live = |entry: &Entry| {
            entry.location().is_some_and(|location| self.live_segments.has(location))
        };
        let Some(entry) = entry.filter(is_live) else { return Located::Nowhere };
        self.hot.insert(name.partition, entry);
        Located::There(entry)
    }

    /// The record, if it is still in a buffer.
    fn read_buffered(
        &self,
        location: RecordLocation,
        id: SegmentId,
        key: &[u8],
    ) -> Option<std::result::Result<Record, Mismatch>> {
        let segment = self.buffers.read().get(&location.slot).cloned()?;
        let segment = segment.read();
        let bytes = segment.read(location)?;
        self.counters.buffer_hits.add(1);
        Some(record::decode(bytes, id, key))
    }
}
