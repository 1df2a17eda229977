//! The machine's file system: O_DIRECT where it can, batches through io_uring.
//!
//! Guarantees:
//! 1. The durability contract of [`crate::storage`]: `sync` is `fdatasync`, which covers the
//!    length; `sync_dir` is `fsync` of the directory.
//! 2. A direct read may begin and end anywhere: the aligned range around it is read, and a window
//!    of it returned.
//! 3. A file system that refuses O_DIRECT, and a kernel that refuses io_uring, cost speed, never an
//!    error. Refusals of the kernel are remembered.
//! 4. No requested length allocates more than 1 MiB beyond the bytes in the file.
//!
//! Relies on the kernel for atomicity. Thread-safe; rings are taken from a pool, so there are as
//! many as concurrent batches.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the seam that the bans point to"
)]

use std::any::Any;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::buffer::{self, AlignedVec, Buffer};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::storage::{Access, DirectoryEntry, File, Lock, ReadQueue, ReadRequest, Storage};
use crate::uring::{READ_BYTES_MAX, ROUND_READS_MAX, Ring, RingDone, RingQueue, RingRead};
use crate::writeback;

/// Reads longer than this check the file's length before they allocate, so that a length from a
/// damaged file costs no memory.
const UNCHECKED_BYTES_MAX: usize = 1 << 20;

/// Bytes copied at a time for a direct write from unaligned memory.
const COPY_BYTES: usize = 1 << 20;

/// The assumed alignment of O_DIRECT where the kernel does not report it (before 6.1): no disk has
/// larger sectors.
const ALIGNMENT_UNKNOWN: usize = 4096;

/// Most concurrent reads of a queue. More would only wait in the device's own queue.
const QUEUE_READS_MAX: u32 = 256;

/// The mode of a file that only this process's user may use.
const PRIVATE_MODE: u32 = 0o600;
/// The modes of a file that other users can write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The machine's file system.
pub struct LocalStorage {
    /// Cleared permanently if the kernel refuses io_uring.
    uses_uring: AtomicBool,
    rings: Mutex<Vec<Ring>>,
}

impl LocalStorage {
    /// Batches go through io_uring where the kernel allows it.
    pub fn new() -> Self {
        Self { uses_uring: AtomicBool::new(true), rings: Mutex::default() }
    }

    /// Batches are read one by one with `pread`.
    pub fn without_uring() -> Self {
        Self { uses_uring: AtomicBool::new(false), rings: Mutex::default() }
    }

    /// Whether batches go through io_uring, as far as is known.
    pub fn uses_uring(&self) -> bool {
        self.uses_uring.load(Ordering::Relaxed)
    }

    /// A ring for this batch, if one is available.
    fn lend_ring(&self) -> Option<Ring> {
        if !self.uses_uring() {
            return None;
        }
        if let Some(ring) = self.rings.lock().pop() {
            return Some(ring);
        }
        match Ring::new() {
            Ok(ring) => Some(ring),
            Err(error) => {
                // Out of memory or descriptors may be temporary; other errors are permanent.
                let passes = [libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::EAGAIN];
                if !error.raw_os_error().is_some_and(|code| passes.contains(&code)) {
                    self.uses_uring.store(false, Ordering::Relaxed);
                }
                None
            }
        }
    }

    fn open_with(
        &self,
        operation: Operation,
        path: &Path,
        access: Access,
        options: &OpenOptions,
    ) -> Result<Arc<dyn File>> {
        let file = options.open(path).map_err(|e| Error::from_system(operation, path, e))?;
        let alignment = match access {
            Access::Direct => switch_to_direct(&file).unwrap_or(1),
            Access::Buffered => 1,
        };
        Ok(Arc::new(LocalFile { file, path: path.to_owned(), alignment }))
    }
}

impl Default for LocalStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStorage")
            .field("uses_uring", &self.uses_uring())
            .finish_non_exhaustive()
    }
}

/// Turns O_DIRECT on for an open file; returns the required alignment, or none if the file system
/// refuses. (Opening with the flag would create the file on a file system that refuses it.)
fn switch_to_direct(file: &fs::File) -> Option<usize> {
    let status = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let alignment = match status {
        Ok(status) if status.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            let (memory, offset) = (status.stx_dio_mem_align, status.stx_dio_offset_align);
            let alignment = usize::try_from(memory.max(offset)).ok()?;
            let possible = memory > 0 && offset > 0 && alignment <= buffer::ALIGNMENT;
            possible.then_some(alignment)?
        }
        _ => ALIGNMENT_UNKNOWN,
    };
    let flags = rustix::fs::fcntl_getfl(file).ok()?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
    Some(alignment)
}

/// Adds the operation and the path to the system's error.
fn system<T>(
    operation: Operation,
    path: &Path,
    answer: std::result::Result<T, impl Into<io::Error>>,
) -> Result<T> {
    answer.map_err(|error| Error::from_system(operation, path, error.into()))
}

impl Storage for LocalStorage {
    fn create(&self, path: &Path, access: Access) -> Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        self.open_with(Operation::Create, path, access, &options)
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        self.open_with(Operation::Open, path, access, &options)
    }

    fn open_private(&self, path: &Path) -> Result<Arc<dyn File>> {
        let foreign = || Error::new(ErrorKind::Foreign, Operation::Open, path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.mode(PRIVATE_MODE).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = match options.open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(foreign()),
            opened => system(Operation::Open, path, opened)?,
        };
        let metadata = system(Operation::Inspect, path, file.metadata())?;
        let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
        let is_shared = metadata.mode() & WRITABLE_BY_OTHERS != 0;
        // Another name may be in a directory that others can write.
        if !metadata.is_file() || !is_own || is_shared || metadata.nlink() > 1 {
            return Err(foreign());
        }
        // The file that was checked, not one that may be at the path by now. O_NONBLOCK, which keeps
        // a pipe from blocking the open, means nothing for it.
        Ok(Arc::new(LocalFile { file, path: path.to_owned(), alignment: 1 }))
    }

    fn open_read(&self, path: &Path, access: Access) -> Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true);
        self.open_with(Operation::Open, path, access, &options)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        system(Operation::Inspect, path, path.try_exists())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        system(Operation::Remove, path, fs::remove_file(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        system(Operation::Rename, from, fs::rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        system(Operation::Link, from, fs::hard_link(from, to))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        system(Operation::CreateDirectory, path, fs::create_dir_all(path))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        let mut entries = Vec::new();
        for entry in system(Operation::List, path, fs::read_dir(path))? {
            let entry = system(Operation::List, path, entry)?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed since its name was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return system(Operation::Inspect, &entry.path(), Err(error)),
            };
            let is_directory = metadata.is_dir();
            entries.push(DirectoryEntry {
                name: entry.file_name().to_string_lossy().into_owned(),
                bytes: if is_directory { 0 } else { metadata.len() },
                is_directory,
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let directory = system(Operation::SyncDirectory, path, fs::File::open(path))?;
        system(Operation::SyncDirectory, path, directory.sync_all())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let is_device = fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
        match is_device {
            // The kernel refuses this for a device that is mounted, or part of another one.
            true => options.custom_flags(libc::O_EXCL),
            false => options.create(true).truncate(false),
        };
        let file = match options.open(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(Error::new(ErrorKind::Locked, Operation::Lock, path));
            }
            opened => system(Operation::Lock, path, opened)?,
        };
        // The lock belongs to the open file, not to the process, so a second lock in this process
        // is refused as well.
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Box::new(LocalLock { _file: file })),
            Err(Errno::WOULDBLOCK) => Err(Error::new(ErrorKind::Locked, Operation::Lock, path)),
            Err(error) => system(Operation::Lock, path, Err(error)),
        }
    }

    fn read_batch(&self, requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        let one_by_one = || requests.iter().map(|r| r.file.read_at(r.offset, r.len)).collect();
        if requests.len() < 2 {
            return one_by_one();
        }
        let Some(mut ring) = self.lend_ring() else { return one_by_one() };
        let mut results = Vec::with_capacity(requests.len());
        for requests in requests.chunks(ROUND_READS_MAX) {
            if ring.has_failed() {
                results.extend(requests.iter().map(|r| r.file.read_at(r.offset, r.len)));
            } else {
                read_round(&mut ring, requests, &mut results);
            }
        }
        if !ring.has_failed() {
            self.rings.lock().push(ring);
        }
        results
    }

    fn read_queue(&self) -> Option<Box<dyn ReadQueue>> {
        let queue = self.uses_uring().then(|| RingQueue::new(QUEUE_READS_MAX))?.ok()?;
        let event = queue.event().try_clone_to_owned().ok()?;
        Some(Box::new(LocalQueue { queue: Mutex::new(queue), event }))
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        let status = system(Operation::Inspect, path, rustix::fs::statvfs(path))?;
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }
}

/// One round of a batch: as many reads as possible through the ring, the rest (files of other
/// kinds, huge reads, short reads) with `pread`.
fn read_round(ring: &mut Ring, requests: &[ReadRequest], results: &mut Vec<Result<Buffer>>) {
    let mut reads = Vec::with_capacity(requests.len());
    let mut spans = Vec::with_capacity(requests.len());
    for request in requests {
        let local = request.file.as_any().downcast_ref::<LocalFile>();
        let span = local.and_then(|file| {
            let span = file.span(request.offset, request.len).ok()?;
            (1..=READ_BYTES_MAX).contains(&span.bytes).then_some((file, span))
        });
        if let Some((file, span)) = &span {
            let buffer = AlignedVec::stale(span.bytes);
            reads.push(RingRead { file: file.file.as_fd(), offset: span.start, buffer });
        }
        spans.push(span);
    }
    let mut done = ring.round(reads).into_iter();
    for (request, span) in requests.iter().zip(spans) {
        let read = span.and_then(|span| Some((span, done.next()??)));
        results.push(match read {
            Some(((file, span), RingDone { buffer, filled })) => file.finish(span, buffer, filled),
            None => request.file.read_at(request.offset, request.len),
        });
    }
}

/// A read under way.
struct RunningRead {
    tag: u64,
    request: ReadRequest,
    span: Span,
}

impl RunningRead {
    /// The request's file, which [`LocalQueue::begin`] has checked.
    fn file(&self) -> &LocalFile {
        let file = self.request.file.as_any().downcast_ref::<LocalFile>();
        file.expect("only local files are read through a ring")
    }
}

impl AsFd for RunningRead {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().file.as_fd()
    }
}

/// Reads through their own ring.
struct LocalQueue {
    queue: Mutex<RingQueue<RunningRead>>,
    event: OwnedFd,
}

impl fmt::Debug for LocalQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalQueue(..)")
    }
}

impl ReadQueue for LocalQueue {
    fn begin(&self, tag: u64, request: ReadRequest) -> std::result::Result<(), ReadRequest> {
        let local = request.file.as_any().downcast_ref::<LocalFile>();
        let span = local.and_then(|file| file.span(request.offset, request.len).ok());
        let Some(span) = span.filter(|span| (1..=READ_BYTES_MAX).contains(&span.bytes)) else {
            return Err(request);
        };
        let (buffer, flying) = (AlignedVec::stale(span.bytes), RunningRead { tag, request, span });
        let begun = self.queue.lock().begin(flying, span.start, buffer);
        begun.map_err(|(flying, _)| flying.request)
    }

    fn ended(&self) -> Vec<(u64, Option<Buffer>)> {
        let ended = self.queue.lock().ended();
        let finish = |(RunningRead { tag, span, .. }, done): (RunningRead, Option<RingDone>)| {
            let whole = done.filter(|done| done.filled >= span.skip + span.len);
            (tag, whole.map(|done| done.buffer.into_buffer().window(span.skip, span.len)))
        };
        ended.into_iter().map(finish).collect()
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Holds the lock as long as the file is open.
#[derive(Debug)]
struct LocalLock {
    _file: fs::File,
}

impl Lock for LocalLock {}

#[derive(Debug)]
struct LocalFile {
    file: fs::File,
    path: PathBuf,
    /// 1 unless the file is open with O_DIRECT.
    alignment: usize,
}

/// The aligned range around a read.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u64,
    bytes: usize,
    /// Offset of the requested bytes in the range, and their number.
    skip: usize,
    len: usize,
}

impl LocalFile {
    fn system<T>(
        &self,
        operation: Operation,
        answer: std::result::Result<T, impl Into<io::Error>>,
    ) -> Result<T> {
        system(operation, &self.path, answer)
    }

    fn short_read(&self) -> Error {
        Error::new(ErrorKind::ShortRead, Operation::Read, &self.path)
    }

    /// The range to read for `len` bytes at `offset`; an error if the file cannot be that long, or
    /// is checked and is shorter.
    fn span(&self, offset: u64, len: usize) -> Result<Span> {
        let end = offset.checked_add(len as u64).filter(|end| *end < i64::MAX as u64);
        let end = end.ok_or_else(|| self.short_read())?;
        if len > UNCHECKED_BYTES_MAX && end > self.len()? {
            return Err(self.short_read());
        }
        let skip = offset % self.alignment as u64;
        let start = offset - skip;
        let bytes = (end - start).next_multiple_of(self.alignment as u64);
        let fits = |number: u64| usize::try_from(number).map_err(|_| self.short_read());
        Ok(Span { start, bytes: fits(bytes)?, skip: fits(skip)?, len })
    }

    /// Reads the rest of the span after its first `filled` bytes.
    fn finish(&self, span: Span, mut buffer: AlignedVec, mut filled: usize) -> Result<Buffer> {
        let wanted = span.skip + span.len;
        while filled < wanted {
            // A direct read that ended off the alignment restarts on it.
            let from = filled - filled % self.alignment;
            match rustix::io::pread(&self.file, &mut buffer[from..], span.start + from as u64) {
                // No new byte: end of file.
                Ok(got) if from + got <= filled => return Err(self.short_read()),
                Ok(got) => filled = from + got,
                Err(Errno::INTR) => {}
                Err(error) => return self.system(Operation::Read, Err(error)),
            }
        }
        Ok(buffer.into_buffer().window(span.skip, span.len))
    }

    /// Writes all of `data`, whose address is aligned for the file.
    fn write_suited(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut written = 0;
        while written < data.len() {
            let from = written - written % self.alignment;
            let failed = match rustix::io::pwrite(&self.file, &data[from..], offset + from as u64) {
                Ok(got) if from + got > written => {
                    written = from + got;
                    continue;
                }
                Ok(_) => io::ErrorKind::WriteZero.into(),
                Err(Errno::INTR) => continue,
                Err(error) => io::Error::from(error),
            };
            return self.system(Operation::Write, Err(failed));
        }
        Ok(())
    }
}

impl File for LocalFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        if self.is_block_device() {
            // The metadata of a device contains 0. No read or write uses the position that this
            // leaves.
            let end = (&self.file).seek(SeekFrom::End(0));
            return self.system(Operation::Inspect, end);
        }
        self.system(Operation::Inspect, self.file.metadata()).map(|metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Buffer> {
        let span = self.span(offset, len)?;
        self.finish(span, AlignedVec::stale(span.bytes), 0)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let aligned = offset.is_multiple_of(self.alignment as u64)
            && data.len().is_multiple_of(self.alignment);
        let (path, len) = (self.path.display(), data.len());
        assert!(aligned, "direct write of {len} bytes at {offset} of {path} is not aligned");
        if data.as_ptr().addr().is_multiple_of(self.alignment) {
            return self.write_suited(offset, data);
        }
        let mut copy = AlignedVec::with_capacity(data.len().min(COPY_BYTES));
        let mut offset = offset;
        for piece in data.chunks(COPY_BYTES) {
            copy.clear();
            copy.extend_from_slice(piece);
            self.write_suited(offset, &copy)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.system(Operation::Sync, self.file.sync_data())
    }

    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<()> {
        self.system(Operation::Sync, writeback::start(self.file.as_fd(), offset, bytes))
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let before = self.len()?;
        loop {
            let answer = rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes);
            return match answer {
                Err(Errno::INTR) => continue,
                Err(Errno::NOSPC | Errno::DQUOT) => {
                    // On ENOSPC, ext4 keeps the blocks that it has allocated, and the longer file.
                    if !self.is_block_device() && self.len()? > before {
                        self.system(Operation::Allocate, self.file.set_len(before))?;
                    }
                    self.system(Operation::Allocate, answer)
                }
                Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.len()? < bytes => {
                    self.system(Operation::Allocate, self.file.set_len(bytes))
                }
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
                answer => self.system(Operation::Allocate, answer),
            };
        }
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        if self.is_block_device() {
            // The kernel passes this on to the device.
            return Err(Error::new(ErrorKind::Unsupported, Operation::PunchHole, &self.path));
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        loop {
            return match rustix::fs::fallocate(&self.file, flags, offset, bytes) {
                Err(Errno::INTR) => continue,
                answer => self.system(Operation::PunchHole, answer),
            };
        }
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.system(Operation::Truncate, self.file.set_len(bytes))
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn is_block_device(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
