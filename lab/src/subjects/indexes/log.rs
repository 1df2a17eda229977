//! A log of objects in one file, for indexes that store the location of each.
//!
//! | bytes of a slot | |
//! |---|---|
//! | 0 to 2 | length of the key |
//! | 2 to 6 | length of the value |
//! | 8 and on | key, value, and zeros up to the next sector |
//!
//! All slots have the size of an average object; a larger object is rejected. A *place* is the
//! number of an append since the log began. Appends go to a buffer of [`BUFFER_BYTES`], which is
//! written at once; the file is a ring of such buffers.
//!
//! 1. An appended object is readable immediately: from the buffer, from the one being written, or
//!    from the file, with one direct read.
//! 2. An object is returned only for its own key.
//! 3. A place is dead from the start of the buffer that will overwrite it, and a read is valid only
//!    if its place is not dead afterwards.
//!
//! Any thread may use it. The content does not survive the process.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use tidekv_io::buffer::{AlignedVec, Buffer};
use tidekv_io::{Access, File, Storage};

use crate::failure::{Failure, Result};

/// The unit of writes.
pub(super) const BUFFER_BYTES: u64 = 2 << 20;

/// The minimum read of a device.
const SECTOR_BYTES: u64 = 512;

const HEADER_BYTES: usize = 8;

/// The result of reading a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// The object of the key is there, and was passed to the closure.
    pub(super) is_it: bool,
    /// It needed a read of the file.
    pub(super) is_read: bool,
}

struct Open {
    /// The place of its first slot.
    first: u64,
    buffer: AlignedVec,
    /// The previous buffer, during its write, and the place of its first slot.
    closing: Option<(u64, Arc<Buffer>)>,
}

/// The log.
pub(super) struct ObjectLog {
    file: Arc<dyn File>,
    slot_bytes: u64,
    slots_of_buffer: u64,
    /// The number of buffers in the file.
    buffers: u64,
    open: RwLock<Open>,
    /// The number of the open buffer.
    opened: AtomicU64,
    /// Held by the thread that writes a buffer to the file.
    writing: Mutex<()>,
    reads: AtomicU64,
    written_bytes: AtomicU64,
}

pub(super) fn failed(error: tidekv_io::Error) -> Failure {
    Failure::new(format!("could not use the objects of an index: {error}"))
}

/// Bytes of a slot for objects with this total of key and value bytes.
pub(super) fn slot_bytes_for(object_bytes: u64, file: &dyn File) -> u64 {
    let sector_bytes = SECTOR_BYTES.max(file.alignment() as u64);
    (HEADER_BYTES as u64 + object_bytes).next_multiple_of(sector_bytes)
}

/// A new file, which replaces an existing one.
pub(super) fn new_file(storage: &dyn Storage, path: &Path) -> Result<Arc<dyn File>> {
    if storage.exists(path).map_err(failed)? {
        storage.remove(path).map_err(failed)?;
    }
    storage.create(path, Access::Direct).map_err(failed)
}

/// Appends the slot of an object to `bytes`; `false` if it is too large.
pub(super) fn append_slot(
    bytes: &mut AlignedVec,
    slot_bytes: u64,
    key: &[u8],
    value: &[u8],
) -> bool {
    let len = HEADER_BYTES + key.len() + value.len();
    let (Ok(key_len), Ok(value_len)) = (u16::try_from(key.len()), u32::try_from(value.len()))
    else {
        return false;
    };
    if len as u64 > slot_bytes {
        return false;
    }
    let end = bytes.len() + slot_bytes as usize;
    bytes.extend_from_slice(&key_len.to_le_bytes());
    bytes.extend_from_slice(&value_len.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    bytes.resize(end, 0);
    true
}

/// The value in a slot, if it is that of `key`.
pub(super) fn value_of<'a>(slot: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let key_len = u16::from_le_bytes(*slot.first_chunk()?) as usize;
    let value_len = u32::from_le_bytes(*slot.get(2..)?.first_chunk()?) as usize;
    let (own_key, rest) = slot.get(HEADER_BYTES..)?.split_at_checked(key_len)?;
    if own_key == key { rest.get(..value_len) } else { None }
}

impl ObjectLog {
    /// A log of at most `bytes` in a new file, for objects of this size.
    pub(super) fn new(
        storage: &dyn Storage,
        path: &Path,
        bytes: u64,
        object_bytes: u64,
    ) -> Result<Self> {
        let file = new_file(storage, path)?;
        let slot_bytes = slot_bytes_for(object_bytes, &*file);
        let slots_of_buffer = (BUFFER_BYTES / slot_bytes).max(1);
        let buffers = bytes / (slots_of_buffer * slot_bytes);
        if buffers < 2 {
            return Err(Failure::usage(format!("a log of {bytes} bytes has no room for objects")));
        }
        file.allocate(buffers * slots_of_buffer * slot_bytes).map_err(failed)?;
        let buffer = AlignedVec::with_capacity((slots_of_buffer * slot_bytes) as usize);
        Ok(Self {
            file,
            slot_bytes,
            slots_of_buffer,
            buffers,
            open: RwLock::new(Open { first: 0, buffer, closing: None }),
            opened: AtomicU64::new(0),
            writing: Mutex::new(()),
            reads: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        })
    }

    /// The capacity in objects.
    pub(super) fn slots(&self) -> u64 {
        self.buffers * self.slots_of_buffer
    }

    /// Reads of the file, and bytes of them.
    pub(super) fn reads(&self) -> (u64, u64) {
        let reads = self.reads.load(Ordering::Relaxed);
        (reads, reads * self.slot_bytes)
    }

    /// Bytes that were written to the file.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Whether the append at `place` is not overwritten, and is not about to be.
    pub(super) fn is_alive(&self, place: u64) -> bool {
        place / self.slots_of_buffer + self.buffers > self.opened.load(Ordering::Acquire)
    }

    /// Appends an object; returns its place.
    pub(super) fn append(&self, key: &[u8], value: &[u8]) -> Result<u64> {
        loop {
            {
                let mut open = self.open.write().expect("nobody panics with it");
                let used = open.buffer.len() as u64 / self.slot_bytes;
                if used < self.slots_of_buffer {
                    return match append_slot(&mut open.buffer, self.slot_bytes, key, value) {
                        true => Ok(open.first + used),
                        false => Err(Failure::usage("an object is larger than all were to be")),
                    };
                }
            }
            self.write_buffer()?;
        }
    }

    /// Writes the open buffer, if it is full. Other threads append to the next one meanwhile.
    fn write_buffer(&self) -> Result<()> {
        let _writing = self.writing.lock().expect("nobody panics with it");
        let buffer_bytes = self.slots_of_buffer * self.slot_bytes;
        let (first, buffer) = {
            let mut open = self.open.write().expect("nobody panics with it");
            if (open.buffer.len() as u64) < buffer_bytes {
                return Ok(());
            }
            let next = AlignedVec::with_capacity(buffer_bytes as usize);
            let full = Arc::new(std::mem::replace(&mut open.buffer, next).into_buffer());
            let first = open.first;
            open.first += self.slots_of_buffer;
            open.closing = Some((first, Arc::clone(&full)));
            self.opened.store(open.first / self.slots_of_buffer, Ordering::Release);
            (first, full)
        };
        self.file.write_at(self.offset_of(first), &buffer).map_err(failed)?;
        self.written_bytes.fetch_add(buffer_bytes, Ordering::Relaxed);
        self.open.write().expect("nobody panics with it").closing = None;
        Ok(())
    }

    fn offset_of(&self, place: u64) -> u64 {
        place % self.slots() * self.slot_bytes
    }

    /// Passes the value at `place` to a closure, if the object there is that of `key`.
    pub(super) fn look(&self, place: u64, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<Look> {
        let mut show = |slot: &[u8]| value_of(slot, key).map(&mut *see).is_some();
        {
            let open = self.open.read().expect("nobody panics with it");
            let closing = open.closing.as_ref().map(|(first, buffer)| (*first, &buffer[..]));
            for (first, bytes) in [(open.first, &open.buffer[..])].into_iter().chain(closing) {
                let at = place.checked_sub(first).map(|slot| (slot * self.slot_bytes) as usize);
                if let Some(slot) = at.and_then(|at| bytes.get(at..at + self.slot_bytes as usize)) {
                    return Ok(Look { is_it: show(slot), is_read: false });
                }
            }
        }
        if !self.is_alive(place) {
            return Ok(Look { is_it: false, is_read: false });
        }
        let read = self.file.read_at(self.offset_of(place), self.slot_bytes as usize);
        let slot = read.map_err(failed)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(Look { is_it: self.is_alive(place) && show(&slot), is_read: true })
    }
}
