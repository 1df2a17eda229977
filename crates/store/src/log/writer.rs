//! Appends records to a log file.
//!
//! A writer is used by one thread at a time; others may put what it has appended on
//! stable storage meanwhile ([`LogWriter::syncer`]). After an error the end of the
//! file is not known: [`LogWriter::append`] refuses, and [`LogWriter::finish`] may
//! still end the log in front of the torn place. After a failed sync, whoever did it,
//! nothing brings a log back (the system may have dropped its pages, and says so
//! once).

use std::sync::Arc;

use tidekv_io::File;

use super::format::{RECORD_END, RECORD_MARK, begin_frame, seal_frame};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is known of the end of the file.
#[derive(Debug, Clone)]
enum Health {
    Good,
    /// A write failed: part of a frame may stand at `offset`.
    Torn(Error),
    /// The end record stands; nothing may follow.
    Finished,
}

/// Puts a log on stable storage, from any thread.
#[derive(Debug)]
pub(crate) struct LogSyncer {
    file: Arc<dyn File>,
    /// So many bytes are on stable storage.
    synced: AtomicU64,
    /// A sync failed.
    is_lost: AtomicBool,
    /// Held while the file is synced, or a failure would be told to one thread and
    /// the next one would hear that all is well. The error of the sync that failed.
    failure: Mutex<Option<Error>>,
}

impl LogSyncer {
    /// Returns once the first `offset` bytes of the log, which were appended, are
    /// on stable storage.
    pub(crate) fn sync_up_to(&self, offset: u64) -> Result<()> {
        if !self.is_lost() && self.synced() >= offset {
            return Ok(());
        }
        let mut failure = self.failure.lock();
        if let Some(error) = &*failure {
            return Err(error.clone());
        }
        if self.synced() >= offset {
            return Ok(());
        }
        match self.file.sync() {
            Ok(()) => {
                self.synced.store(offset, Ordering::Release);
                Ok(())
            }
            Err(error) => Err(self.lose(&mut failure, &error)),
        }
    }

    /// Ends the log for good.
    fn lose(&self, failure: &mut Option<Error>, error: &tidekv_io::Error) -> Error {
        let error = Error::new(
            ErrorKind::Storage,
            format!("{error}; what was written since the last sync may be lost: reopen the store"),
        );
        *failure = Some(error.clone());
        self.is_lost.store(true, Ordering::Release);
        error
    }

    /// Has the system begin to write a part of the log to the disk.
    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<()> {
        let started = self.file.start_writeback(offset, bytes);
        started.map_err(|error| self.lose(&mut self.failure.lock(), &error))
    }

    fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The error of the sync that failed, if one did.
    fn failure(&self) -> Option<Error> {
        if self.is_lost() { self.failure.lock().clone() } else { None }
    }
}

/// The writing end of a log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    file: Arc<dyn File>,
    syncer: Arc<LogSyncer>,
    number: u64,
    offset: u64,
    /// Up to where the system was asked to write to the disk.
    written_back: u64,
    health: Health,
    frame: Vec<u8>,
}

/// The system is asked to write to the disk whenever there is so much: a log that
/// is ended then waits for little, whatever the size of its memtable, and not
/// for as much as the disk takes in a second.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// Frame buffers larger than this are given back after use.
const FRAME_BYTES_KEPT: usize = 4 << 20;

impl LogWriter {
    /// A writer at the start of `file`, whose bytes so far (if it is recycled)
    /// belong to other logs.
    pub(crate) fn new(file: Arc<dyn File>, number: u64) -> Self {
        let syncer = LogSyncer {
            file: Arc::clone(&file),
            synced: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            failure: Mutex::new(None),
        };
        Self {
            file,
            syncer: Arc::new(syncer),
            number,
            offset: 0,
            written_back: 0,
            health: Health::Good,
            frame: Vec::new(),
        }
    }

    /// The log's number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes appended so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends one record, whose payload is what `fill` adds to the buffer, and
    /// hands it to the operating system.
    pub(crate) fn append(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if let Some(error) = self.lost() {
            return Err(error);
        }
        match &self.health {
            Health::Good => self.write_frame(fill),
            Health::Torn(error) => Err(error.clone()),
            Health::Finished => {
                unreachable!("a finished log is followed by another, not appended to")
            }
        }
    }

    fn write_frame(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        begin_frame(&mut self.frame);
        fill(&mut self.frame);
        seal_frame(&mut self.frame, self.number, self.syncer.synced());
        let written = self.file.write_at(self.offset, &self.frame);
        let len = self.frame.len() as u64;
        if self.frame.capacity() > FRAME_BYTES_KEPT {
            self.frame = Vec::new();
        }
        match written {
            Ok(()) => {
                self.offset += len;
                let bytes = self.offset - self.written_back;
                if bytes >= WRITEBACK_BYTES {
                    self.syncer.start_writeback(self.written_back, bytes)?;
                    self.written_back = self.offset;
                }
                Ok(())
            }
            Err(error) => {
                let error = Error::from(error);
                self.health = Health::Torn(error.clone());
                Err(error)
            }
        }
    }

    /// Puts everything appended on stable storage.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.syncer.sync_up_to(self.offset)
    }

    /// For other threads: what puts the bytes appended so far, up to
    /// [`LogWriter::offset`], on stable storage.
    pub(crate) fn syncer(&self) -> &Arc<LogSyncer> {
        &self.syncer
    }

    /// Appends a record that says nothing but vouches for what was synced. It
    /// reaches the disk some time; nothing depends on it.
    pub(crate) fn mark(&mut self) -> Result<()> {
        self.append(|out| out.push(RECORD_MARK))
    }

    /// Whether records can be appended; otherwise [`Self::finish`] it and go on
    /// in a successor.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.health, Health::Good) && !self.syncer.is_lost()
    }

    /// The error that ended this log for good, if one did.
    pub(crate) fn lost(&self) -> Option<Error> {
        self.syncer.failure()
    }

    /// Ends the log behind its last whole record, names its successor and
    /// syncs it; afterwards the successor may begin. May be called again after
    /// an error, with the same successor.
    pub(crate) fn finish(&mut self, successor: u64) -> Result<()> {
        if let Some(error) = self.lost() {
            return Err(error);
        }
        match &self.health {
            Health::Finished => {}
            Health::Good | Health::Torn(_) => {
                // First what stands there: then the end record can say that all
                // of it is on stable storage, and damage to any of it is told
                // from a torn end.
                self.sync()?;
                self.write_frame(|out| {
                    out.push(RECORD_END);
                    out.extend_from_slice(&successor.to_le_bytes());
                })?;
                self.health = Health::Finished;
            }
        }
        self.sync()
    }
}
