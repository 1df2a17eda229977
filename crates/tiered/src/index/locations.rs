//! Encodes record locations in a few bits: the slot of the segment, and which of its choices the
//! record got there ([`crate::segment::arrangement`]). With 600 slots and six choices a code takes
//! twelve bits. Where segments have few records, the code has the number of the record instead.
//!
//! The directory of a segment ([`Directory`]) also marks its *current* records: those whose entries
//! are in the pages of their partitions. A locator returns an arbitrary code for a few names that
//! are not in the page. Such a code can point to an old record of the same key, which was replaced
//! or removed; because that record is not current, it is not found.
//!
//! Guarantee: [`Locations::find`] returns only current records. For a name and the code that
//! [`Locations::code`] made for it, it returns that location or nothing, as long as the segment is
//! in its slot.
//!
//! Relies on the caller to serialise marks and lookups of a partition.
//!
//! For all threads; a lock for each slot, the last in the order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::entry::{RecordLocation, SegmentId};
use crate::index::directory::Directory;
use crate::index::locator::{Code, Widths};
use crate::segment::arrangement::Choices;
use crate::segment::layout::{DEFAULT_ENTRIES, Layout, Name};

/// Candidate places of a record.
const CHOICES_MIN: u32 = 6;
const CHOICES_MAX: u32 = 8;
/// If the expected size of records is at least this, in bytes, all places of a segment are candidates.
/// That takes four to eight more bits for each.
const NUMBERED_RECORD_BYTES: u64 = 12 << 10;
/// While codes are on, hot entries get one in this many bytes of their memory: for the few records
/// that could not be placed by choice.
pub(crate) const HOT_DIVISOR: usize = 32;
/// Size of a locator in percent of the bits that it encodes.
const LOCATOR_PERCENT: usize = 106;
/// Codes are on if the memory covers this share of them, in percent, on a device full of objects of
/// the expected size.
const COVERED_PERCENT: usize = 85;

/// The directories of a device's segments, and the memory accounting of codes.
#[derive(Debug)]
pub(crate) struct Locations {
    directories: Box<[RwLock<Option<Box<Directory>>>]>,
    choices: Choices,
    widths: Widths,
    layout: Layout,
    partitions: usize,
    /// The largest size of a locator without codes, in bytes.
    filter_bytes_max: usize,
    /// Whether locators have codes.
    is_on: AtomicBool,
    turning: Mutex<()>,
    /// Memory limit of locators and directories, in bytes.
    bytes_max: AtomicUsize,
    /// Size of all locators with codes in bytes, and their number.
    coded_bytes: AtomicUsize,
    coded: AtomicUsize,
    /// The number of directories, and the size of their heaps, in bytes.
    directories_count: AtomicUsize,
    directory_bytes: AtomicUsize,
    /// Its maximum since the limit was last set. Kept while codes are off: directories would take as
    /// much again.
    directory_bytes_seen: AtomicUsize,
}

impl Locations {
    /// No directories; codes are off. Long records are numbered if `bytes`, the memory for codes,
    /// covers that.
    pub(crate) fn new(layout: &Layout, bytes: usize) -> Self {
        let check = layout.check_bits();
        let numbered = numbered(layout)
            .filter(|choices| covered_bytes(layout, check + code_bits(layout, *choices)) <= bytes);
        let choices = numbered.unwrap_or_else(|| hashed(layout));
        let code = code_bits(layout, choices);
        Self {
            directories: (0..layout.slots).map(|_| RwLock::new(None)).collect(),
            choices: Choices(choices as u32),
            widths: Widths { check, code },
            layout: *layout,
            partitions: layout.partitions as usize,
            filter_bytes_max: layout.filter_bytes_max() as usize,
            is_on: AtomicBool::new(false),
            turning: Mutex::new(()),
            bytes_max: AtomicUsize::new(0),
            coded_bytes: AtomicUsize::new(0),
            coded: AtomicUsize::new(0),
            directories_count: AtomicUsize::new(0),
            directory_bytes: AtomicUsize::new(0),
            directory_bytes_seen: AtomicUsize::new(0),
        }
    }

    pub(crate) fn choices(&self) -> Choices {
        self.choices
    }

    /// Bits per entry of new locators; without codes if they are off or the memory is used up.
    pub(crate) fn widths(&self) -> Widths {
        let has_codes = self.is_on() && self.has_room();
        Widths { code: if has_codes { self.widths.code } else { 0 }, ..self.widths }
    }

    /// Whether codes are on.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Whether the memory has room for the codes of another partition. Partitions without codes count
    /// with the largest filter.
    fn has_room(&self) -> bool {
        self.taken_bytes() < self.bytes_max.load(Ordering::Relaxed)
    }

    /// Whether locators and directories exceed the memory limit.
    pub(crate) fn is_over(&self) -> bool {
        self.taken_bytes() > self.bytes_max.load(Ordering::Relaxed)
    }

    fn taken_bytes(&self) -> usize {
        let others = self.partitions.saturating_sub(self.coded.load(Ordering::Relaxed));
        self.coded_bytes.load(Ordering::Relaxed)
            + others * self.filter_bytes_max
            + self.directory_bytes.load(Ordering::Relaxed)
    }

    /// Sets the memory limit of locators and directories, in bytes.
    pub(crate) fn set_bytes_max(&self, bytes: usize) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
        if self.is_on() {
            let taken = self.directory_bytes.load(Ordering::Relaxed);
            self.directory_bytes_seen.store(taken, Ordering::Relaxed);
        }
    }

    /// Whether the memory limit covers enough codes ([`COVERED_PERCENT`]).
    pub(crate) fn should_be_on(&self) -> bool {
        let Widths { check, code } = self.widths;
        let directories = self.directory_bytes_seen.load(Ordering::Relaxed) / 100 * COVERED_PERCENT;
        let needed = covered_bytes(&self.layout, check + code) + directories;
        needed <= self.bytes_max.load(Ordering::Relaxed)
    }

    /// Serialises turning codes on and off.
    pub(crate) fn turning(&self) -> MutexGuard<'_, ()> {
        self.turning.lock()
    }

    /// Turns codes on or off. There are no directories while they are off.
    pub(crate) fn turn(&self, is_on: bool) {
        // Marks are not maintained while codes are off.
        if is_on != self.is_on.swap(is_on, Ordering::AcqRel) {
            self.discard_all();
        }
    }

    /// Accounts for the replacement of a locator: sizes with codes in bytes, 0 without codes.
    pub(crate) fn count(&self, before_bytes: usize, after_bytes: usize) {
        let change = after_bytes.wrapping_sub(before_bytes);
        self.coded_bytes.fetch_add(change, Ordering::Relaxed);
        let change = usize::from(after_bytes > 0).wrapping_sub(usize::from(before_bytes > 0));
        self.coded.fetch_add(change, Ordering::Relaxed);
    }

    /// Sets the directory of a segment that has been written. No record is current yet.
    pub(crate) fn put(&self, directory: Directory) {
        self.replace(directory.id().slot as usize, Some(directory));
    }

    /// Whether there is a directory for that segment.
    pub(crate) fn has(&self, id: SegmentId) -> bool {
        let directory = self.directories[id.slot as usize].read();
        directory.as_ref().is_some_and(|directory| directory.id() == id)
    }

    /// Drops the directories of all segments.
    pub(crate) fn discard_all(&self) {
        (0..self.directories.len()).for_each(|slot| self.replace(slot, None));
    }

    /// Drops the directory of that segment.
    pub(crate) fn discard(&self, id: SegmentId) {
        if self.has(id) {
            self.replace(id.slot as usize, None);
        }
    }

    fn replace(&self, slot: usize, directory: Option<Directory>) {
        let directory = directory.map(Box::new);
        let bytes = |of: &Option<Box<Directory>>| of.as_ref().map_or(0, |it| it.memory_bytes());
        let mut place = self.directories[slot].write();
        let directory = directory.filter(|_| self.is_on());
        let (before, after) = (bytes(&place), bytes(&directory));
        let change = usize::from(directory.is_some()).wrapping_sub(usize::from(place.is_some()));
        self.directories_count.fetch_add(change, Ordering::Relaxed);
        *place = directory;
        let change = after.wrapping_sub(before);
        let all = self.directory_bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        self.directory_bytes_seen.fetch_max(all, Ordering::Relaxed);
    }

    fn directory<R>(&self, slot: u32, with: impl FnOnce(&Directory) -> Option<R>) -> Option<R> {
        self.directories.get(slot as usize)?.read().as_deref().and_then(with)
    }

    /// The code for the location of a record; [`Code::NONE`] if the record is not in a place of its
    /// choice or there is no directory.
    pub(crate) fn code(&self, name: Name, location: RecordLocation) -> Code {
        let choice = self.directory(location.slot, |directory| {
            let place = directory.place(location)?;
            self.choices.choice_of(name, place, directory.records())
        });
        choice.map_or(Code::NONE, |choice| Code(location.slot * self.choices.0 + choice + 1))
    }

    /// The location that a name and its code stand for, if the record there is current.
    pub(crate) fn find(&self, name: Name, code: Code) -> Option<RecordLocation> {
        let code = code.0.checked_sub(1)?;
        self.directory(code / self.choices.0, |directory| {
            let place = self.choices.place(name, code % self.choices.0, directory.records())?;
            directory.is_current(place).then(|| directory.location(place))?
        })
    }

    /// Marks a record as current or not.
    pub(crate) fn set_current(&self, location: RecordLocation, is_current: bool) {
        self.directory(location.slot, |directory| {
            Some(directory.set_current(location, is_current))
        });
    }

    /// Marks all records as not current.
    pub(crate) fn forget_current(&self) {
        for slot in 0..self.directories.len() as u32 {
            self.directory(slot, |directory| {
                directory.forget_current();
                Some(())
            });
        }
    }

    /// Size of the heaps of all directories, in bytes.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.directory_bytes.load(Ordering::Relaxed)
    }

    /// Size of the slots and of the directories without their heaps, in bytes.
    pub(crate) fn fixed_bytes(&self) -> usize {
        let count = self.directories_count.load(Ordering::Relaxed);
        size_of_val(&*self.directories) + count * size_of::<Directory>()
    }
}

/// The memory for codes and directories, in bytes, where hot entries and codes have `hot_bytes`: that
/// of filters too.
pub(crate) fn codes_bytes(layout: &Layout, hot_bytes: usize) -> usize {
    let filters = layout.partitions as usize * layout.filter_bytes_max() as usize;
    filters + hot_bytes - hot_bytes / HOT_DIVISOR
}

/// The memory that locators with so many bits for each entry have to have, in bytes.
fn covered_bytes(layout: &Layout, bits: u32) -> usize {
    let bits = layout.partitions as usize * DEFAULT_ENTRIES as usize * bits as usize;
    bits / 8 / 100 * LOCATOR_PERCENT / 100 * COVERED_PERCENT
}

/// Bits of the codes of so many candidates in each segment.
fn code_bits(layout: &Layout, choices: u64) -> u32 {
    u64::BITS - (u64::from(layout.slots) * choices).leading_zeros()
}

/// As many candidates as the bits of `at_least` allow.
fn most_choices(layout: &Layout, at_least: u64) -> u64 {
    ((1_u64 << code_bits(layout, at_least)) - 1) / u64::from(layout.slots.max(1))
}

/// The number of candidates in each segment, by hash.
fn hashed(layout: &Layout) -> u64 {
    let min = CHOICES_MIN.into();
    most_choices(layout, min).clamp(min, CHOICES_MAX.into())
}

/// The number of candidates where long records are numbered; `None` if the expected records are not
/// long.
fn numbered(layout: &Layout) -> Option<u64> {
    let records = u64::from(layout.partitions) * DEFAULT_ENTRIES / u64::from(layout.slots.max(1));
    let are_long = records * NUMBERED_RECORD_BYTES <= u64::from(layout.segment_bytes);
    // Segments with more records than expected should not have to be arranged.
    are_long.then(|| most_choices(layout, (records + records / 2).max(CHOICES_MIN.into())))
}

#[cfg(test)]
mod tests;
