//! Objects at locations computed from their numbers: the upper bound of an object cache.
//!
//! The object of key number *n* is in slot *n* of a file, or in another computed one if there are
//! fewer slots. A put is a write of that slot, a get is a direct read of it. Keys are compared, so
//! an overwritten object is a miss. A concurrent get and put of one object are not ordered: such a
//! get may return parts of both. Any thread may use it. The content does not survive the process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidekv_io::buffer::AlignedVec;
use tidekv_io::{File, LocalStorage};

use crate::failure::{Failure, Result};
use crate::load::keys::number_of;
use crate::subject::{Counts, Hold, ObjectCounts, Settings, Subject};
use crate::subjects::indexes::log::{append_slot, failed, new_file, slot_bytes_for, value_of};
use crate::subjects::indexes::lookup::hash_of;
use crate::subjects::tiered::{cannot, flash_of};

struct NoIndex {
    file: Arc<dyn File>,
    slot_bytes: u64,
    slots: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    object_bytes_written: AtomicU64,
    writes: AtomicU64,
}

/// Opens it in a directory.
pub(super) fn open(directory: &Path, settings: &Settings) -> Result<Box<dyn Subject>> {
    let flash = flash_of(settings)?;
    let file = new_file(&LocalStorage::new(), &directory.join("objects"))?;
    let slot_bytes = slot_bytes_for(flash.object_bytes, &*file);
    let slots = flash.bytes / slot_bytes;
    if slots == 0 {
        return Err(Failure::usage("there is no room for an object"));
    }
    file.allocate(slots * slot_bytes).map_err(failed)?;
    Ok(Box::new(NoIndex {
        file,
        slot_bytes,
        slots,
        hits: AtomicU64::new(0),
        misses: AtomicU64::new(0),
        object_bytes_written: AtomicU64::new(0),
        writes: AtomicU64::new(0),
    }))
}

impl NoIndex {
    fn offset_of(&self, key: &[u8]) -> u64 {
        // Every other number is an absent key.
        let number = number_of(key).map_or_else(|| hash_of(key), |number| number / 2);
        number % self.slots * self.slot_bytes
    }
}

impl Subject for NoIndex {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut slot = AlignedVec::with_capacity(self.slot_bytes as usize);
        if !append_slot(&mut slot, self.slot_bytes, key, value) {
            return Err(Failure::usage("an object is larger than all were to be"));
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.object_bytes_written.fetch_add((key.len() + value.len()) as u64, Ordering::Relaxed);
        self.file.write_at(self.offset_of(key), &slot).map_err(failed)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut is_there = false;
        self.get(key, &mut |_| is_there = true)?;
        if is_there {
            let nothing = AlignedVec::zeroed(self.slot_bytes as usize);
            self.file.write_at(self.offset_of(key), &nothing).map_err(failed)?;
        }
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let read = self.file.read_at(self.offset_of(key), self.slot_bytes as usize);
        let slot = read.map_err(failed)?;
        let is_there = value_of(&slot, key).map(see).is_some();
        if is_there { &self.hits } else { &self.misses }.fetch_add(1, Ordering::Relaxed);
        Ok(is_there)
    }

    fn multi_get(&self, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        Err(cannot("read many keys at once"))
    }

    fn scan(&self, _: &[u8], _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        Err(cannot("scan"))
    }

    fn hold(&self, _: &[u8]) -> Result<Box<dyn Hold + '_>> {
        Err(cannot("take a snapshot"))
    }

    fn settle(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn counts(&self) -> Result<Counts> {
        let [hits, misses, object_bytes_written, writes] =
            [&self.hits, &self.misses, &self.object_bytes_written, &self.writes]
                .map(|count| count.load(Ordering::Relaxed));
        let objects = ObjectCounts {
            flash_hits: hits,
            misses,
            object_reads_of_hits: hits,
            object_reads_of_misses: misses,
            object_bytes_written,
            flash_bytes_written: writes * self.slot_bytes,
            ..ObjectCounts::default()
        };
        Ok(Counts {
            reads: Some(hits + misses),
            read_bytes: Some((hits + misses) * self.slot_bytes),
            objects: Some(objects),
            ..Counts::default()
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
