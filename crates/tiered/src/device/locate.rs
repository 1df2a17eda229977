//! Finds records without reading the index on flash: location codes in the locators of partitions
//! ([`crate::index::locator`], [`crate::index::locations`]).
//!
//! If the memory budget covers nearly all page entries, locators have codes and a lookup reads only
//! the record. Otherwise there are no codes, and the memory goes to hot entries: sixteen bytes each,
//! but for the records that are looked up most. Other lookups read a block of the index first.
//!
//! Guarantee: a record is marked current ([`crate::index::locations`]) only while the page of its
//! partition has its entry. Page and marks change together under the partition's lock: when a page
//! has been read ([`Device::install`]) and when a new version replaces it ([`Device::replace`]).
//! Lookups check the partition's pending changes, which are newer than the page, first.
//!
//! After a restart upkeep loads the directories of segments, a few at a time: from the segment table
//! if all records have the same length, otherwise from the summaries. Codes come back as pages are
//! read.

use std::sync::atomic::Ordering;

use tidekv_io::Result;

use crate::device::flash_device::Device;
use crate::entry::Entry;
use crate::index::directory::Directory;
use crate::index::locations::{HOT_DIVISOR, codes_memory_bytes};
use crate::index::locator::{Code, Locator, Widths};
use crate::index::partition::Partition;
use crate::segment::buffer;
use crate::segment::layout::Name;
use crate::segment::page::Page;
use crate::segment::segment_table::{SegmentState, Slot};

/// Directories loaded in one step of upkeep.
const LOADED_SLOTS: u32 = 64;

impl Device {
    /// Resolves the code that the page's locator has for a name, if the record is current.
    pub(crate) fn entry_of(&self, name: Name, code: Code) -> Option<Entry> {
        let location = self.locations.find(name, code)?;
        let is_whole = matches!(self.live_segments.of(location), Some((_, SegmentState::Whole)));
        is_whole.then(|| Entry::record(name.fingerprint, location))
    }

    /// Builds the locator of a partition's page from its live entries.
    pub(crate) fn locator_of(&self, partition: u32, page: &Page) -> Locator {
        let widths = self.widths();
        let live = page.entries().filter_map(|entry| {
            let location = entry.location().filter(|it| self.live_segments.has(*it))?;
            let name = Name { partition, fingerprint: entry.fingerprint() };
            let has_codes = widths.code > 0;
            let code = if has_codes { self.locations.code(name, location) } else { Code::NONE };
            Some((name.fingerprint, code))
        });
        Locator::of(live, widths)
    }

    /// Whether a lookup should read the whole page, to rebuild the partition's locator.
    pub(crate) fn wants_page(&self, partition: &Partition) -> bool {
        partition.is_unknown() || self.widths().code > 0 && !partition.has_codes()
    }

    /// Bits per entry of new locators. No codes before all directories are loaded.
    fn widths(&self) -> Widths {
        let widths = self.locations.widths();
        Widths { code: if self.lacks_directories() { 0 } else { widths.code }, ..widths }
    }

    /// Installs the locator of a page that was just read and is still the partition's page.
    pub(crate) fn install(&self, partition: &mut Partition, page: &Page, locator: Locator) {
        let replay_from = self.replay_from.load(Ordering::Acquire);
        let before = partition.coded_bytes();
        partition.install(replay_from, locator);
        self.locations.count(before, partition.coded_bytes());
        self.set_current(page.entries(), true);
    }

    /// Installs the next version of a partition's page; `gone` are the entries that it dropped.
    pub(crate) fn replace(
        &self,
        partition: &mut Partition,
        (page, version): (&Page, u32),
        gone: &[Entry],
        locator: Locator,
    ) {
        let replay_from = self.replay_from.load(Ordering::Acquire);
        let before = partition.coded_bytes();
        partition.finish_merge(version, replay_from, locator);
        self.locations.count(before, partition.coded_bytes());
        self.set_current(gone.iter().copied(), false);
        self.set_current(page.entries(), true);
    }

    fn set_current(&self, entries: impl Iterator<Item = Entry>, is_current: bool) {
        if self.locations.is_on() {
            let locations = entries.filter_map(Entry::location);
            locations.for_each(|location| self.locations.set_current(location, is_current));
        }
    }

    /// Drops the codes of one partition after another while `should_drop` returns true. Codes come
    /// back as pages are read.
    pub(crate) fn drop_codes(&self, should_drop: impl Fn() -> bool) {
        for partition in self.partitions.iter().take_while(|_| should_drop()) {
            let mut partition = partition.lock();
            let before = partition.coded_bytes();
            partition.drop_codes();
            self.locations.count(before, partition.coded_bytes());
        }
    }

    /// Applies a new memory limit of the index.
    pub(crate) fn divide_index_memory(&self) {
        let hot_bytes = self.limits.load().hot_bytes;
        self.locations.set_bytes_max(codes_memory_bytes(&self.layout, hot_bytes));
        self.choose_codes();
    }

    /// Turns codes on if the memory covers them, otherwise off.
    pub(crate) fn choose_codes(&self) {
        let _one = self.locations.turning();
        let hot_bytes = self.limits.load().hot_bytes;
        let (was_on, is_on) = (self.locations.is_on(), self.locations.should_be_on());
        if is_on {
            self.hot.resize(hot_bytes / HOT_DIVISOR);
            if !was_on {
                // First: no locator may be built before directories are loaded.
                self.directories_to_load.store(0, Ordering::Release);
            }
            self.locations.turn(true);
            self.drop_codes(|| self.locations.is_over());
        } else {
            self.locations.turn(false);
            if was_on {
                self.drop_codes(|| true);
            }
            self.hot.resize(hot_bytes);
        }
    }

    /// Whether directories remain to be loaded.
    pub(crate) fn lacks_directories(&self) -> bool {
        let next = self.directories_to_load.load(Ordering::Acquire);
        next < self.layout.slots && self.locations.is_on() && !self.is_broken()
    }

    /// Loads the next few directories that are missing after a restart. A segment with a damaged
    /// summary gets none.
    ///
    /// # Errors
    ///
    /// When the device fails.
    pub(crate) fn load_directories(&self) -> Result<()> {
        if !self.lacks_directories() {
            return Ok(());
        }
        let first = self.directories_to_load.load(Ordering::Acquire);
        let next = first.saturating_add(LOADED_SLOTS);
        let loaded = (first..next).try_for_each(|slot| {
            let slot = self.write_state.lock().slots.whole_in(slot);
            let Some(slot) = slot.filter(|it| !it.is_small && !self.locations.has(it.id)) else {
                return Ok(());
            };
            if let Some(directory) = self.directory_of(&slot)? {
                self.locations.put(directory);
                if !self.live_segments.holds(slot.id) {
                    // It was evicted meanwhile.
                    self.locations.discard(slot.id);
                }
            }
            Ok(())
        });
        // Fails if codes were turned off and on meanwhile: loading starts over.
        let [first, next] = [first, next].map(|slot| slot.min(self.layout.slots));
        let (done, fail) = (Ordering::AcqRel, Ordering::Acquire);
        _ = self.directories_to_load.compare_exchange(first, next, done, fail);
        if self.locations.is_on() && !self.locations.should_be_on() {
            self.choose_codes();
        }
        loaded
    }

    fn directory_of(&self, slot: &Slot) -> Result<Option<Directory>> {
        if slot.record_bytes > 0 {
            let directory = Directory::of_equal(slot.id, slot.records, slot.record_bytes);
            return Ok(Some(directory));
        }
        let (offset, len) = buffer::summary_range(slot);
        let at = self.layout.segment_at(slot.id.slot) + offset;
        let bytes = self.data.read_at(at, len).inspect_err(|_| self.counters.errors.add(1))?;
        let Some(mut summaries) = buffer::read_summary(&bytes, self.id, slot.id) else {
            return Ok(None);
        };
        summaries.sort_unstable_by_key(|summary| summary.location.offset);
        let mut offset = 0;
        let is_contiguous = summaries.iter().all(|summary| {
            let at = std::mem::replace(&mut offset, summary.location.offset + summary.location.len);
            at == summary.location.offset
        });
        let lens: Vec<u32> = summaries.iter().map(|summary| summary.location.len).collect();
        Ok(is_contiguous.then(|| Directory::of(slot.id, lens.into_iter())))
    }
}
