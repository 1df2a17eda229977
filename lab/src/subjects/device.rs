//! The device itself as a subject: the upper bound of cold gets.
//!
//! A get reads 4 KiB of a table of a store that another subject has built, at a random position,
//! through the same I/O layer and with direct I/O like the store, and returns a generated value.
//! The number of pending reads is the number of threads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidekv_io::{Access, File, LocalStorage, Storage};

use crate::failure::{Failure, Result};
use crate::load::dice::mix;
use crate::load::keys::number_of;
use crate::load::values::Values;
use crate::subject::{Counts, Hold, Search, Settings, Subject, SubjectRecord};

/// Reads at random.
pub const DEVICE_READS: SubjectRecord = SubjectRecord {
    name: "device:reads",
    about: "no store: reads 4 KiB of its tables at random with direct I/O, one read per thread \
            at a time",
    is_default: false,
    format: "tidekv",
    uses_kernel_cache: false,
    search: Search::Nothing,
    choices: &[],
    open: |path: &Path, _: &Settings| open(path),
};

const READ_BYTES: u64 = 4096;
/// The length of values that the drive expects.
const VALUE_BYTES: usize = 100;

struct Device {
    /// With the number of whole reads in each.
    files: Vec<(Arc<dyn File>, u64)>,
    room: u64,
    reads: AtomicU64,
    value: Vec<u8>,
}

fn failed(error: tidekv_io::Error) -> Failure {
    Failure::new(format!("could not read tables: {error}"))
}

fn open(directory: &Path) -> Result<Box<dyn Subject>> {
    let storage = LocalStorage::new();
    let mut files = Vec::new();
    for entry in storage.list(directory).map_err(failed)? {
        let path = directory.join(&entry.name);
        if path.extension().is_some_and(|extension| extension == "table") {
            let file = storage.open_read(&path, Access::Direct).map_err(failed)?;
            let room = file.len().map_err(failed)? / READ_BYTES;
            files.push((file, room));
        }
    }
    let room = files.iter().map(|(_, room)| room).sum();
    if room == 0 {
        return Err(Failure::new("there are no tables to read; let TideKV build the store first"));
    }
    let mut value = Vec::new();
    Values::new(VALUE_BYTES).fill(&mut value, 0, 0);
    Ok(Box::new(Device { files, room, reads: AtomicU64::new(0), value }))
}

fn cannot(what: &str) -> Failure {
    Failure::usage(format!("device:reads only reads single keys, it cannot {what}"))
}

impl Subject for Device {
    fn put(&self, _: &[u8], _: &[u8]) -> Result<()> {
        Err(cannot("write"))
    }

    fn delete(&self, _: &[u8]) -> Result<()> {
        Err(cannot("delete"))
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let number = number_of(key).unwrap_or(0);
        let mut at = mix(number) % self.room;
        for (file, room) in &self.files {
            if at < *room {
                let read = file.read_at(at * READ_BYTES, READ_BYTES as usize).map_err(failed)?;
                std::hint::black_box(&read[..]);
                break;
            }
            at -= room;
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut value = [0; VALUE_BYTES];
        value.copy_from_slice(&self.value);
        value[..8].copy_from_slice(&number.to_le_bytes());
        see(&value);
        Ok(true)
    }

    fn multi_get(&self, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        Err(cannot("read many keys at once"))
    }

    fn scan(&self, _: &[u8], _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        Err(cannot("scan"))
    }

    fn hold(&self, _: &[u8]) -> Result<Box<dyn Hold + '_>> {
        Ok(Box::new(()))
    }

    fn settle(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn counts(&self) -> Result<Counts> {
        let reads = self.reads.load(Ordering::Relaxed);
        let read_bytes = Some(reads * READ_BYTES);
        Ok(Counts { reads: Some(reads), read_bytes, ..Counts::default() })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
