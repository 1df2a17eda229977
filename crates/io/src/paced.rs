//! Storage on which direct reads and writes take as long as on a modelled device, for experiments
//! with several devices on a machine with one.
//!
//! Guarantees:
//! 1. An operation on a file that was opened with [`Access::Direct`] returns no sooner than the
//!    model's devices have served it, in order of arrival; all others behave and perform as in the
//!    underlying storage.
//! 2. Devices serve at the rate of the model whatever the accuracy of the clock's sleep, as long as
//!    operations wait for them: a small delay leaves no device idle.
//!
//! Each file is its own device, or an [`Array`]: several devices behind one file, striped, with one
//! rotating parity part in each stripe (RAID-5). The bytes are in the underlying storage in one
//! piece; only time is modelled.
//!
//! A write to an array that covers a stripe writes it with its parity. Else it takes the cheaper
//! way: it reads the overwritten parts and the old parity, or the rest of the stripe; then it
//! writes the new parts and the new parity.

use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::buffer::Buffer;
use crate::clock::Clock;
use crate::error::Result;
use crate::storage::{Access, DirectoryEntry, File, Lock, ReadRequest, Storage};

/// Service times of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceTime {
    /// The fixed time of each operation.
    pub fixed: Duration,
    /// Bytes per second of one operation.
    pub bytes_per_s: u64,
    /// The number of concurrent operations.
    pub channels: usize,
}

impl ServiceTime {
    fn of(&self, bytes: u64) -> u64 {
        self.fixed.as_nanos() as u64 + bytes.saturating_mul(1_000_000_000) / self.bytes_per_s
    }
}

/// Devices over which a file is striped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    /// At least three; in each stripe one of them has the parity.
    pub devices: usize,
    /// Bytes of a stripe on one device.
    pub chunk_bytes: u64,
}

/// Storage with modelled devices.
#[derive(Debug)]
pub struct PacedStorage {
    inner: Arc<dyn Storage>,
    model: Arc<Model>,
    files: Mutex<HashMap<PathBuf, Arc<Devices>>>,
}

#[derive(Debug)]
struct Model {
    clock: Arc<dyn Clock>,
    service: ServiceTime,
    array: Option<Array>,
    is_on: AtomicBool,
}

/// The devices of a file: when each channel of each becomes free.
#[derive(Debug)]
struct Devices(Vec<Mutex<Vec<u64>>>);

/// The part of an operation on an array that one device does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    device: usize,
    bytes: u64,
}

/// The cost of an operation: the second part begins when the first is done.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    first: Vec<Piece>,
    then: Vec<Piece>,
}

impl PacedStorage {
    /// Wraps `inner` with this model, active at once; each direct file is a device, or an array.
    ///
    /// # Panics
    ///
    /// If the model serves nothing, or the array has fewer than three devices.
    pub fn new(
        inner: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        service: ServiceTime,
        array: Option<Array>,
    ) -> Self {
        assert!(service.bytes_per_s > 0 && service.channels > 0, "{service:?}");
        let is_array = |array: Array| array.devices >= 3 && array.chunk_bytes > 0;
        assert!(array.is_none_or(is_array), "{array:?}");
        let model = Model { clock, service, array, is_on: AtomicBool::new(true) };
        Self { inner, model: Arc::new(model), files: Mutex::new(HashMap::new()) }
    }

    /// Sets whether operations take time; preparation before a measurement need not.
    pub fn set_on(&self, on: bool) {
        self.model.is_on.store(on, Ordering::Release);
    }

    fn paced(&self, file: Arc<dyn File>, access: Access) -> Arc<dyn File> {
        if access == Access::Buffered {
            return file;
        }
        let count = self.model.array.map_or(1, |array| array.devices);
        let channels = self.model.service.channels;
        let idle = || Devices((0..count).map(|_| Mutex::new(vec![0; channels])).collect());
        let mut files = self.files.lock();
        let devices = files.entry(file.path().to_owned()).or_insert_with(|| Arc::new(idle()));
        Arc::new(PacedFile {
            inner: file,
            devices: Arc::clone(devices),
            model: Arc::clone(&self.model),
        })
    }
}

impl Array {
    /// The device with chunk `number` of a stripe's data, and the one with its parity.
    fn device_of(&self, stripe: u64, number: usize) -> usize {
        (self.parity_of(stripe) + 1 + number) % self.devices
    }

    fn parity_of(&self, stripe: u64) -> usize {
        self.devices - 1 - (stripe % self.devices as u64) as usize
    }

    /// Bytes of data in a stripe.
    fn stripe_bytes(&self) -> u64 {
        self.chunk_bytes * (self.devices as u64 - 1)
    }

    /// The stripes of a range, each with the chunks that it touches and the bytes of each.
    fn stripes(&self, offset: u64, len: u64) -> Vec<(u64, Vec<(usize, u64)>)> {
        let mut stripes: Vec<(u64, Vec<(usize, u64)>)> = Vec::new();
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let stripe = at / self.stripe_bytes();
            let bytes = (self.chunk_bytes - at % self.chunk_bytes).min(end - at);
            let chunk = ((at % self.stripe_bytes()) / self.chunk_bytes) as usize;
            match stripes.last_mut() {
                Some((last, chunks)) if *last == stripe => chunks.push((chunk, bytes)),
                _ => stripes.push((stripe, vec![(chunk, bytes)])),
            }
            at += bytes;
        }
        stripes
    }

    fn read(&self, offset: u64, len: u64) -> Plan {
        let stripes = self.stripes(offset, len).into_iter();
        let pieces = stripes.flat_map(|(stripe, chunks)| {
            chunks
                .into_iter()
                .map(move |(chunk, bytes)| Piece { device: self.device_of(stripe, chunk), bytes })
        });
        Plan { first: pieces.collect(), then: Vec::new() }
    }

    fn write(&self, offset: u64, len: u64) -> Plan {
        let mut plan = Plan::default();
        for (stripe, chunks) in self.stripes(offset, len) {
            let widest = chunks.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
            let written: u64 = chunks.iter().map(|(_, bytes)| *bytes).sum();
            let parity = Piece { device: self.parity_of(stripe), bytes: widest };
            let of_chunk = |(chunk, bytes)| Piece { device: self.device_of(stripe, chunk), bytes };
            plan.then.extend(chunks.iter().copied().map(of_chunk));
            plan.then.push(parity);
            if written == self.stripe_bytes() {
                continue;
            }
            let is_whole = |number: &usize| {
                chunks.iter().any(|(chunk, bytes)| chunk == number && *bytes == self.chunk_bytes)
            };
            let rest: Vec<usize> = (0..self.devices - 1).filter(|n| !is_whole(n)).collect();
            match chunks.len() < rest.len() {
                true => {
                    plan.first.extend(chunks.iter().copied().map(of_chunk));
                    plan.first.push(parity);
                }
                false => plan.first.extend(rest.into_iter().map(|n| of_chunk((n, widest)))),
            }
        }
        plan
    }
}

impl Model {
    /// Waits until the devices have executed the plan.
    fn serve(&self, devices: &Devices, plan: &Plan) {
        if !self.is_on.load(Ordering::Acquire) {
            return;
        }
        // The second part does not block the devices before it can begin.
        for pieces in [&plan.first, &plan.then] {
            let mut now = self.clock.monotonic_ns();
            let done = self.reserve(devices, pieces, now);
            while now < done {
                self.clock.sleep(Duration::from_nanos(done - now));
                now = self.clock.monotonic_ns();
            }
        }
    }

    /// The end of all pieces that begin no earlier than `from`.
    fn reserve(&self, devices: &Devices, pieces: &[Piece], from: u64) -> u64 {
        let reserve = |piece: &Piece| {
            let mut channels = devices.0[piece.device].lock();
            let free = channels.iter_mut().min().expect("a device has a channel");
            *free = (*free).max(from) + self.service.of(piece.bytes);
            *free
        };
        pieces.iter().map(reserve).max().unwrap_or(from)
    }
}

/// A file on modelled devices.
#[derive(Debug)]
struct PacedFile {
    inner: Arc<dyn File>,
    devices: Arc<Devices>,
    model: Arc<Model>,
}

impl PacedFile {
    fn serve(&self, plan_of: fn(&Array, u64, u64) -> Plan, offset: u64, len: usize) {
        let plan = match &self.model.array {
            Some(array) => plan_of(array, offset, len as u64),
            None => Plan { first: vec![Piece { device: 0, bytes: len as u64 }], then: Vec::new() },
        };
        self.model.serve(&self.devices, &plan);
    }
}

impl File for PacedFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Buffer> {
        self.serve(Array::read, offset, len);
        self.inner.read_at(offset, len)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.serve(Array::write, offset, data.len());
        self.inner.write_at(offset, data)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.start_writeback(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.inner.allocate(bytes)
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.punch_hole(offset, bytes)
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.inner.truncate(bytes)
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn is_block_device(&self) -> bool {
        self.inner.is_block_device()
    }

    // Not the underlying descriptor: operations on it directly would take no time.
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Storage for PacedStorage {
    fn create(&self, path: &Path, access: Access) -> Result<Arc<dyn File>> {
        Ok(self.paced(self.inner.create(path, access)?, access))
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn File>> {
        Ok(self.paced(self.inner.open(path, access)?, access))
    }

    fn open_private(&self, path: &Path) -> Result<Arc<dyn File>> {
        Ok(self.paced(self.inner.open_private(path)?, Access::Buffered))
    }

    fn open_read(&self, path: &Path, access: Access) -> Result<Arc<dyn File>> {
        Ok(self.paced(self.inner.open_read(path, access)?, access))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.hard_link(from, to)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.inner.create_dir_all(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.inner.list(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.inner.sync_dir(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        self.inner.lock(path)
    }

    /// One after another: batches are not modelled.
    fn read_batch(&self, requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        let read = |request: &ReadRequest| request.file.read_at(request.offset, request.len);
        requests.iter().map(read).collect()
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        self.inner.free_bytes(path)
    }
}

#[cfg(test)]
mod tests;
