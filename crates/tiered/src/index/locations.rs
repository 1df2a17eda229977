//! Locations of records by codes of few bits: the slot of a segment, and by which of its choices the
//! record has its place there ([`crate::segment::arrangement`]). With 600 slots and six choices a
//! code takes twelve bits.
//!
//! Which records of a segment are *current*, that is, in the page of their partition, is known here
//! too ([`Directory`]). A name that is not in a page may still agree with a code by chance, and that
//! code may lead to a record of that very name that was replaced or removed: but such a record is
//! not current, and is not found.
//!
//! Guarantee: [`Locations::find`] returns locations of current records only, and for a code from
//! [`Locations::code`] of the same name nothing but the location that the code was made of, while
//! its segment is in the slot.
//!
//! Relies on its caller to serialise changes to current records with lookups, by partition.
//!
//! For all threads; a lock for each slot, the last in the order.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::entry::{RecordLocation, SegmentId};
use crate::index::directory::Directory;
use crate::index::locator::{Code, Widths};
use crate::segment::arrangement::Choices;
use crate::segment::layout::{DEFAULT_ENTRIES, Layout, Name};

/// A record chooses among at least this many places.
const CHOICES_MIN: u32 = 6;
const CHOICES_MAX: u32 = 8;
/// Memory of a locator, in percent of its bits.
const LOCATOR_PERCENT: usize = 106;
/// Codes are on if there is memory for these of them, in percent: more are looked up with them than
/// with hot entries. Pages of objects that are larger than expected have fewer entries.
const COVERED_PERCENT: usize = 85;

/// The directories of a device's segments, and the memory of locators with codes.
#[derive(Debug)]
pub(crate) struct Locations {
    directories: Box<[RwLock<Option<Directory>>]>,
    choices: Choices,
    widths: Widths,
    partitions: usize,
    /// The most memory that a locator without codes takes, in bytes.
    filter_bytes_max: usize,
    /// Whether locators have codes.
    is_on: AtomicBool,
    turning: Mutex<()>,
    /// Memory for locators and directories, in bytes.
    bytes_max: AtomicUsize,
    /// Memory of locators with codes, and their number.
    coded_bytes: AtomicUsize,
    coded: AtomicUsize,
    /// Memory of directories.
    directory_bytes: AtomicUsize,
    /// The most that they have taken, since the memory was last set while codes were on: without
    /// codes there are none, and they would take as much again.
    directory_bytes_seen: AtomicUsize,
}

impl Locations {
    /// No locations: they are off.
    pub(crate) fn new(layout: &Layout) -> Self {
        let codes = |choices: u32| u64::from(layout.slots) * u64::from(choices);
        let code = u64::BITS - codes(CHOICES_MIN).leading_zeros();
        let choices = ((1_u64 << code) - 1) / u64::from(layout.slots.max(1));
        Self {
            directories: (0..layout.slots).map(|_| RwLock::new(None)).collect(),
            choices: Choices((choices as u32).clamp(CHOICES_MIN, CHOICES_MAX)),
            widths: Widths { check: layout.check_bits(), code },
            partitions: layout.partitions as usize,
            filter_bytes_max: layout.filter_bytes_max() as usize,
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

    /// Bits of a locator's entries: with codes only while there is memory for them.
    pub(crate) fn widths(&self) -> Widths {
        let has_codes = self.is_on() && self.has_room();
        Widths { code: if has_codes { self.widths.code } else { 0 }, ..self.widths }
    }

    /// Whether locators have codes.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Whether there is memory for the codes of another partition, with a filter for all others.
    fn has_room(&self) -> bool {
        self.taken_bytes() < self.bytes_max.load(Ordering::Relaxed)
    }

    /// Whether locators and directories take more than their memory.
    pub(crate) fn is_over(&self) -> bool {
        self.taken_bytes() > self.bytes_max.load(Ordering::Relaxed)
    }

    fn taken_bytes(&self) -> usize {
        let others = self.partitions.saturating_sub(self.coded.load(Ordering::Relaxed));
        self.coded_bytes.load(Ordering::Relaxed)
            + others * self.filter_bytes_max
            + self.directory_bytes.load(Ordering::Relaxed)
    }

    /// Sets the memory for locators and directories, in bytes.
    pub(crate) fn set_bytes_max(&self, bytes: usize) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
        if self.is_on() {
            let taken = self.directory_bytes.load(Ordering::Relaxed);
            self.directory_bytes_seen.store(taken, Ordering::Relaxed);
        }
    }

    /// Whether the memory is sufficient for the codes of nearly all records on a full device.
    pub(crate) fn should_be_on(&self) -> bool {
        let Widths { check, code } = self.widths;
        let bits = self.partitions * DEFAULT_ENTRIES as usize * (check + code) as usize;
        let locators = bits / 8 / 100 * LOCATOR_PERCENT;
        let directories = self.directory_bytes_seen.load(Ordering::Relaxed);
        let needed = (locators + directories) / 100 * COVERED_PERCENT;
        needed <= self.bytes_max.load(Ordering::Relaxed)
    }

    /// Held by the one who turns codes on or off.
    pub(crate) fn turning(&self) -> MutexGuard<'_, ()> {
        self.turning.lock()
    }

    /// Turns codes on or off; without them there are no directories.
    pub(crate) fn turn(&self, is_on: bool) {
        // Directories from before may have records as current that no page has any more.
        if is_on != self.is_on.swap(is_on, Ordering::AcqRel) {
            self.discard_all();
        }
    }

    /// Counts the memory of a locator with codes that has been replaced; 0: without codes.
    pub(crate) fn count(&self, before_bytes: usize, after_bytes: usize) {
        let change = after_bytes.wrapping_sub(before_bytes);
        self.coded_bytes.fetch_add(change, Ordering::Relaxed);
        let change = usize::from(after_bytes > 0).wrapping_sub(usize::from(before_bytes > 0));
        self.coded.fetch_add(change, Ordering::Relaxed);
    }

    /// Sets the directory of a segment that is on flash. None of its records is current.
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
        let bytes = |of: &Option<Directory>| of.as_ref().map_or(0, Directory::memory_bytes);
        let mut place = self.directories[slot].write();
        let directory = directory.filter(|_| self.is_on());
        let (before, after) = (bytes(&place), bytes(&directory));
        *place = directory;
        let change = after.wrapping_sub(before);
        let all = self.directory_bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        self.directory_bytes_seen.fetch_max(all, Ordering::Relaxed);
    }

    fn directory<R>(&self, slot: u32, with: impl FnOnce(&Directory) -> Option<R>) -> Option<R> {
        self.directories.get(slot as usize)?.read().as_ref().and_then(with)
    }

    /// The code of a record at that location, if it has one.
    pub(crate) fn code(&self, name: Name, location: RecordLocation) -> Code {
        let choice = self.directory(location.slot, |directory| {
            let place = directory.place(location)?;
            self.choices.choice_of(name, place, directory.records())
        });
        choice.map_or(Code::NONE, |choice| Code(location.slot * self.choices.0 + choice + 1))
    }

    /// The location of the current record in the place of that code and name.
    pub(crate) fn find(&self, name: Name, code: Code) -> Option<RecordLocation> {
        let code = code.0.checked_sub(1)?;
        self.directory(code / self.choices.0, |directory| {
            let place = Choices::place(name, code % self.choices.0, directory.records());
            directory.is_current(place).then(|| directory.location(place))?
        })
    }

    /// Sets whether the record at a location is current.
    pub(crate) fn set_current(&self, location: RecordLocation, is_current: bool) {
        self.directory(location.slot, |directory| {
            Some(directory.set_current(location, is_current))
        });
    }

    /// No record is current any more.
    pub(crate) fn forget_current(&self) {
        for slot in 0..self.directories.len() as u32 {
            self.directory(slot, |directory| {
                directory.forget_current();
                Some(())
            });
        }
    }

    /// Memory of directories, in bytes.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.directory_bytes.load(Ordering::Relaxed)
    }

    /// Memory that is there for all slots, in bytes.
    pub(crate) fn fixed_bytes(&self) -> usize {
        size_of_val(&*self.directories)
    }
}

#[cfg(test)]
mod tests;
