//! Where a device's records are, as far as DRAM knows without the index on flash: codes of locations
//! in the locators of partitions ([`crate::index::locator`], [`crate::index::locations`]).
//!
//! With enough memory for nearly all of them entries of pages have codes, and a lookup reads the
//! record alone.
//! With less there are no codes but more hot entries, and other lookups read a block of the index
//! first: entries of sixteen bytes for the records that are looked up most are worth more than codes
//! for some.
//!
//! Guarantee: a record is current ([`crate::index::locations`]) only while the page of its
//! partition has its entry. Both change under the lock of the partition: when a page is read whole
//! ([`Device::install`]), and when the next one replaces it ([`Device::replace`]). What is newer than
//! the page, the partition's changes, is looked at first.
//!
//! After a restart, codes come back as pages are read, once upkeep has loaded the directories of
//! segments: from the segment table where all records have one length, else from the summaries, some
//! at a time.

use std::sync::atomic::Ordering;

use tidekv_io::Result;

use crate::device::flash_device::Device;
use crate::entry::Entry;
use crate::index::directory::Directory;
use crate::index::locator::{Code, Locator, Widths};
use crate::index::partition::Partition;
use crate::segment::buffer;
use crate::segment::layout::Name;
use crate::segment::page::Page;
use crate::segment::segment_table::{SegmentState, Slot};

/// With codes, one in this many bytes for hot entries is left to them: for records that have none
/// of the places that they chose.
const HOT_DIVISOR: usize = 32;
/// Directories that are loaded before other work has its turn.
const LOADED_SLOTS: u32 = 64;

impl Device {
    /// The entry of a name whose code the page's locator has, if its record is current.
    pub(crate) fn entry_of(&self, name: Name, code: Code) -> Option<Entry> {
        let location = self.locations.find(name, code)?;
        let is_whole = matches!(self.live_segments.of(location), Some((_, SegmentState::Whole)));
        is_whole.then(|| Entry::record(name.fingerprint, location))
    }

    /// The locator of the live entries of a partition's page.
    pub(crate) fn locator_of(&self, partition: u32, page: &Page) -> Locator {
        let widths = self.widths();
        let live = page.entries().filter_map(|entry| {
            let location = entry.location().filter(|it| self.live_segments.has(*it))?;
            let name = Name { partition, fingerprint: entry.fingerprint() };
            let is_coded = widths.code > 0;
            let code = if is_coded { self.locations.code(name, location) } else { Code::NONE };
            Some((name.fingerprint, code))
        });
        Locator::of(live, widths)
    }

    /// Whether the page of a partition should be read whole, for its locator.
    pub(crate) fn wants_page(&self, partition: &Partition) -> bool {
        partition.is_unknown() || self.widths().code > 0 && !partition.has_codes()
    }

    /// Bits of a locator's entries: codes need the directories of all segments.
    fn widths(&self) -> Widths {
        let widths = self.locations.widths();
        Widths { code: if self.lacks_directories() { 0 } else { widths.code }, ..widths }
    }

    /// Installs the locator of a partition's page that has been read whole and is still current.
    pub(crate) fn install(&self, partition: &mut Partition, page: &Page, locator: Locator) {
        let replay_from = self.replay_from.load(Ordering::Acquire);
        let before = partition.coded_bytes();
        partition.install(replay_from, locator);
        self.locations.count(before, partition.coded_bytes());
        self.set_current(page.entries(), true);
    }

    /// Replaces a partition's page by its next version; `gone` are entries that it no longer has.
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

    /// Drops the codes of partitions while `is_to_go`; they come back as pages are read.
    pub(crate) fn drop_codes(&self, is_to_go: impl Fn() -> bool) {
        for partition in self.partitions.iter().take_while(|_| is_to_go()) {
            let mut partition = partition.lock();
            let before = partition.coded_bytes();
            partition.drop_codes();
            self.locations.count(before, partition.coded_bytes());
        }
    }

    /// Divides the memory of the index anew: its limit has changed.
    pub(crate) fn divide_index_memory(&self) {
        let hot_bytes = self.limits.load().hot_bytes;
        let filters = self.partitions.len() * self.layout.filter_bytes_max() as usize;
        self.locations.set_bytes_max(filters + hot_bytes - hot_bytes / HOT_DIVISOR);
        self.choose_codes();
    }

    /// Turns codes on or off, as the memory suffices for them.
    pub(crate) fn choose_codes(&self) {
        let _one = self.locations.turning();
        let hot_bytes = self.limits.load().hot_bytes;
        let (was_on, is_on) = (self.locations.is_on(), self.locations.should_be_on());
        if is_on {
            self.hot.resize(hot_bytes / HOT_DIVISOR);
            self.locations.turn(true);
            if !was_on {
                self.directories_to_load.store(0, Ordering::Release);
            }
            self.drop_codes(|| self.locations.is_over());
        } else {
            self.locations.turn(false);
            if was_on {
                self.drop_codes(|| true);
            }
            self.hot.resize(hot_bytes);
        }
    }

    /// Whether segments may lack directories.
    pub(crate) fn lacks_directories(&self) -> bool {
        let next = self.directories_to_load.load(Ordering::Acquire);
        next < self.layout.slots && self.locations.is_on() && !self.is_broken()
    }

    /// Loads some of the directories that segments lack after a restart. A segment with a damaged
    /// summary remains without one.
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
        // Unless they have been turned off and on again.
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
        let bytes = self.data.read_at(self.layout.segment_at(slot.id.slot) + offset, len)?;
        let Some(mut summaries) = buffer::read_summary(&bytes, self.id, slot.id) else {
            return Ok(None);
        };
        summaries.sort_unstable_by_key(|summary| summary.location.offset);
        let mut offset = 0;
        let is_next = summaries.iter().all(|summary| {
            let at = std::mem::replace(&mut offset, summary.location.offset + summary.location.len);
            at == summary.location.offset
        });
        let lens: Vec<u32> = summaries.iter().map(|summary| summary.location.len).collect();
        Ok(is_next.then(|| Directory::of(slot.id, lens.into_iter())))
    }
}
