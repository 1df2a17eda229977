//! The traits [`Storage`] (a file system) and [`File`], and the durability
//! contract that every implementation keeps and every caller relies on.
//!
//! # The durability contract
//!
//! 1. Bytes written are visible to every later read through the same storage
//!    at once, and survive the death of the process.
//! 2. They survive a loss of power only once [`File::sync`] on that file has
//!    returned `Ok`. Before that, any subset of the unsynced bytes may be on
//!    the device, torn at any byte.
//! 3. A name (created, renamed, linked or removed) survives a loss of power
//!    only once [`Storage::sync_dir`] on its directory has returned `Ok`.
//!    Before that, each unsynced change of names may or may not have happened;
//!    a rename is never seen half done.
//! 4. After a failed sync the state of the device is unknown, and callers must not retry on the
//!    same file: the system may have dropped the pages.
//!
//! All methods are thread-safe; two concurrent writes to overlapping ranges of one file are a bug
//! of the caller.

use std::path::Path;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::error::{Error, ErrorKind, Operation, Result};

/// The access mode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Past the system's page cache where the file system can (O_DIRECT), else
    /// as `Buffered`. Writes must start and end at multiples of
    /// [`File::alignment`]; reads may be anywhere.
    Direct,
    /// Through the system's page cache.
    Buffered,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name inside the directory.
    pub name: String,
    /// The file's length in bytes; 0 for a directory.
    pub bytes: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// One read of a batch.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// The file to read.
    pub file: Arc<dyn File>,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes, all of which must exist.
    pub len: usize,
}

/// Asynchronous reads: many at a time, without a waiting thread for each. Thread-safe.
pub trait ReadQueue: Send + Sync + std::fmt::Debug {
    /// Begins a read, which [`ReadQueue::ended`] returns under `tag`; returns the request if it is
    /// not for this queue, or too many reads are running.
    fn begin(&self, tag: u64, request: ReadRequest) -> std::result::Result<(), ReadRequest>;

    /// The reads that have ended since the last call, by tag; `None` for one that the queue could
    /// not complete, and that the caller must repeat in another way. Does not wait.
    fn ended(&self) -> Vec<(u64, Option<Buffer>)>;

    /// A counter of ended reads (eight bytes, the kernel's `eventfd`), which restarts at 0 when it
    /// is read. A thread that waits on it reads it before it calls [`ReadQueue::ended`].
    fn event(&self) -> std::os::fd::BorrowedFd<'_>;
}

/// An exclusive lock on a path, released on drop (or when the process dies).
pub trait Lock: Send + Sync + std::fmt::Debug {}

/// A file system. Paths are absolute or relative to the process, as given.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Creates a file that must not exist, for reading and writing.
    fn create(&self, path: &Path, access: Access) -> Result<Arc<dyn File>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn File>>;

    /// Opens the file at `path` for reading and writing through the system's page cache, or creates
    /// it, if only this process's user can write it. Fails with [`crate::ErrorKind::Foreign`] if it
    /// is a symbolic link, no regular file, another user's, or writable by others: in a directory
    /// in which every user may create files, it might be another user's trap.
    fn open_private(&self, path: &Path) -> Result<Arc<dyn File>> {
        match self.exists(path)? {
            true => self.open(path, Access::Buffered),
            false => self.create(path, Access::Buffered),
        }
    }

    /// Opens an existing file for reading only.
    fn open_read(&self, path: &Path, access: Access) -> Result<Arc<dyn File>>;

    /// Whether there is a file or directory at `path`.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Removes a file. Open handles remain usable.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Renames a file atomically, replacing any file at `to`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives the file at `from` a second name. `to` must not exist.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Creates a directory and its parents; an existing one is no error.
    fn create_dir_all(&self, path: &Path) -> Result<()>;

    /// The entries of a directory, ordered by name.
    fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>>;

    /// Makes the directory's names durable (contract, point 3).
    fn sync_dir(&self, path: &Path) -> Result<()>;

    /// Takes an exclusive lock on the file at `path`, creating it if needed. Fails with
    /// [`crate::ErrorKind::Locked`] if another holder has it.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>>;

    /// Reads many ranges, together where the system can; the results are in the order of the
    /// requests. Waits for all of them.
    fn read_batch(&self, requests: &[ReadRequest]) -> Vec<Result<Buffer>>;

    /// A queue of asynchronous reads, if the system supports it.
    fn read_queue(&self) -> Option<Box<dyn ReadQueue>> {
        None
    }

    /// Free bytes under `path`, as far as the system reports them.
    fn free_bytes(&self, path: &Path) -> Result<u64>;
}

/// An open file.
pub trait File: Send + Sync + std::fmt::Debug {
    /// The path it was opened by (for messages; it may have been renamed).
    fn path(&self) -> &Path;

    /// The file's length in bytes; a block device's size.
    fn len(&self) -> Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads exactly `len` bytes at `offset`, whatever the alignment;
    /// [`crate::ErrorKind::ShortRead`] when the file ends before.
    fn read_at(&self, offset: u64, len: usize) -> Result<Buffer>;

    /// Writes all of `data` at `offset`, growing the file as needed.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;

    /// Makes the bytes and the length durable (contract, point 2).
    fn sync(&self) -> Result<()>;

    /// Makes the system begin to write `bytes` bytes from `offset` on to the disk, so that a later
    /// [`File::sync`] has less to do. Guarantees nothing. An error is equivalent to one of a sync:
    /// the next sync may not report it again.
    fn start_writeback(&self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Reserves space so that the file is at least `bytes` long; new bytes
    /// read as zero. A system that cannot reserve only sets the length. On a full disk it fails
    /// with [`ErrorKind::Full`] and the length stays the same.
    fn allocate(&self, bytes: u64) -> Result<()>;

    /// Releases the space of `bytes` bytes from `offset` on to the file system. The file keeps its
    /// length, and reads as zeros there until it is written again, for which there may be no space
    /// then. [`crate::ErrorKind::Unsupported`] where that is impossible, as with a block device.
    fn punch_hole(&self, _offset: u64, _bytes: u64) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, Operation::PunchHole, self.path()))
    }

    /// Sets the file's length.
    fn truncate(&self, bytes: u64) -> Result<()>;

    /// Offset, length and address of a direct write must be multiples of this; 1 without
    /// restrictions.
    fn alignment(&self) -> usize;

    /// Whether it is a block device: of fixed length, and in a directory of devices.
    fn is_block_device(&self) -> bool {
        false
    }

    /// For implementations: the descriptor behind the file, if there is one.
    fn as_any(&self) -> &dyn std::any::Any;
}
