//! Encodes record locations in a few bits: the slot of the segment, and which of its choices the
//! record got there ([`crate::segment::arrangement`]). With 600 slots and six choices a code takes
//! twelve bits. In a segment of few, long records the code contains the record number instead.
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
use crate::segment::arrangement::{Choices, HASHED_MAX};
use crate::segment::layout::{DEFAULT_ENTRIES, Layout, Name};

/// The fewest candidate places of a record.
const CHOICES_MIN: u32 = 6;
/// Codes contain record numbers if the expected record size is at least this, in bytes. That takes
/// four to eight more bits per record.
const NUMBERED_RECORD_BYTES: u64 = 12 << 10;
/// While codes are on, hot entries keep one byte in this many of their memory, for the few records
/// without codes.
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
    /// Whether locators have codes.
    is_on: AtomicBool,
    turning: Mutex<()>,
    /// Memory limit of locators and directories, in bytes.
    bytes_max: AtomicUsize,
    /// Size of all locators with codes in bytes, and their number.
    coded_bytes: AtomicUsize,
    coded: AtomicUsize,
    /// Heap size of all directories, in bytes.
    directory_bytes: AtomicUsize,
    /// Its maximum since the limit was last set. Kept while codes are off: directories would take as
    /// much again.
    directory_bytes_seen: AtomicUsize,
}

impl Locations {
    /// No directories; codes are off. Codes of long records contain record numbers if `memory_bytes`,
    /// the budget for codes ([`codes_memory_bytes`]), is large enough.
    pub(crate) fn new(layout: &Layout, memory_bytes: usize) -> Self {
        let check = layout.check_bits();
        let fits = |choices: &u64| {
            required_bytes(layout, check + code_bits(layout, *choices)) <= memory_bytes
        };
        let choices = numbered_choices(layout).filter(fits).unwrap_or(hashed_choices(layout));
        let code = code_bits(layout, choices);
        Self {
            directories: (0..layout.slots).map(|_| RwLock::new(None)).collect(),
            choices: Choices(choices as u32),
            widths: Widths { check, code },
            layout: *layout,
            is_on: AtomicBool::new(false),
            turning: Mutex::new(()),
            bytes_max: AtomicUsize::new(0),
            coded_bytes: AtomicUsize::new(0),
            coded: AtomicUsize::new(0),
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
        let partitions = self.layout.partitions as usize;
        let others = partitions.saturating_sub(self.coded.load(Ordering::Relaxed));
        self.coded_bytes.load(Ordering::Relaxed)
            + others * self.layout.filter_bytes_max() as usize
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
        let needed = required_bytes(&self.layout, check + code) + directories;
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

    /// Heap size of all directories, in bytes.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.directory_bytes.load(Ordering::Relaxed)
    }

    /// Memory of the slots and of directories, without the heaps of directories, in bytes.
    pub(crate) fn fixed_bytes(&self) -> usize {
        let count = self.directories.iter().filter(|it| it.read().is_some()).count();
        size_of_val(&*self.directories) + count * size_of::<Directory>()
    }
}

/// The budget for locators and directories while codes are on, in bytes: the memory of filters, and
/// that of hot entries (`hot_bytes`) except what they keep.
pub(crate) fn codes_memory_bytes(layout: &Layout, hot_bytes: usize) -> usize {
    let filters = layout.partitions as usize * layout.filter_bytes_max() as usize;
    filters + hot_bytes - hot_bytes / HOT_DIVISOR
}

/// The memory required to turn codes on, in bytes, with locators of `bits` bits per entry.
fn required_bytes(layout: &Layout, bits: u32) -> usize {
    let bits = layout.partitions as usize * DEFAULT_ENTRIES as usize * bits as usize;
    bits / 8 / 100 * LOCATOR_PERCENT / 100 * COVERED_PERCENT
}

/// The width of a code in bits, with `choices` candidates per segment.
fn code_bits(layout: &Layout, choices: u64) -> u32 {
    u64::BITS - (u64::from(layout.slots) * choices).leading_zeros()
}

/// The largest number of candidates whose codes are no wider than those of `choices` candidates.
fn round_up_choices(layout: &Layout, choices: u64) -> u64 {
    ((1_u64 << code_bits(layout, choices)) - 1) / u64::from(layout.slots.max(1))
}

/// The number of candidates, if they are chosen by hash.
fn hashed_choices(layout: &Layout) -> u64 {
    let min = CHOICES_MIN.into();
    round_up_choices(layout, min).clamp(min, HASHED_MAX.into())
}

/// The number of candidates, if codes contain record numbers; `None` if records are expected to be
/// short.
fn numbered_choices(layout: &Layout) -> Option<u64> {
    let records = u64::from(layout.partitions) * DEFAULT_ENTRIES / u64::from(layout.slots.max(1));
    let are_long = records * NUMBERED_RECORD_BYTES <= u64::from(layout.segment_bytes);
    // Half as many more, for segments of records that are shorter than expected.
    are_long.then(|| round_up_choices(layout, (records + records / 2).max(CHOICES_MIN.into())))
}

#[cfg(test)]
mod tests;
