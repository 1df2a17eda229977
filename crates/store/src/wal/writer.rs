//! Appends records to a log file.
//!
//! One thread at a time uses a writer; meanwhile others may sync the appended bytes
//! ([`LogWriter::syncer`]). After an error the end of the file is unknown: [`LogWriter::append`]
//! fails, and [`LogWriter::finish`] may still end the log before the torn tail. After a failed
//! sync, on any thread, the log is lost for good (the system may have dropped its pages, and
//! reports that once).
//!
//! A caller that must not be left with a torn log on a full disk allocates the space of a record
//! before it appends it ([`LogWriter::make_space`]).
//!
//! Writers do not wait for the end of one log before they begin the next ([`LogWriter::end`]). One
//! rule keeps the logs in order: no byte of a log is synced before all of the preceding log is
//! ([`LogWriter::follow`]). The bytes on stable storage, over all logs, are therefore a prefix of
//! the appended bytes. A mark in the log confirms all preceding logs: it is written before a sync
//! is acknowledged to a waiting caller, or before the first record after another sync.

use std::sync::Arc;

use tidekv_io::File;

use super::format::{RECORD_END, RECORD_MARK, begin_frame, seal_frame};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The known state of the end of the file.
#[derive(Debug, Clone)]
enum Health {
    Good,
    /// A write failed: part of a frame may be at `offset`.
    Torn(Error),
    /// The end record is written; nothing may follow.
    Finished,
}

/// Puts a log on stable storage, from any thread.
#[derive(Debug)]
pub(crate) struct LogSyncer {
    file: Arc<dyn File>,
    /// The number of bytes on stable storage.
    synced: AtomicU64,
    /// A sync failed.
    is_lost: AtomicBool,
    /// All of the preceding log is on stable storage, or there is none: a thread that has nothing
    /// to sync needs no lock.
    is_front_synced: AtomicBool,
    /// Held during a sync of the file; otherwise one thread would see the failure and the next one
    /// a success.
    syncing: Mutex<Syncing>,
}

#[derive(Debug, Default)]
struct Syncing {
    /// The error of the sync that failed.
    failure: Option<Error>,
    /// The preceding log, while it is not on stable storage.
    in_front: Option<LogEnd>,
}

/// An ended log, up to a number of bytes.
#[derive(Debug)]
struct LogEnd {
    syncer: Arc<LogSyncer>,
    offset: u64,
}

impl LogSyncer {
    fn new(file: Arc<dyn File>) -> Self {
        Self {
            file,
            synced: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            is_front_synced: AtomicBool::new(true),
            syncing: Mutex::default(),
        }
    }

    /// Returns once the first `offset` appended bytes of the log and all preceding logs are on
    /// stable storage.
    pub(crate) fn sync_up_to(&self, offset: u64) -> Result<()> {
        let is_done = || self.is_front_synced() && self.synced() >= offset;
        if !self.is_lost() && is_done() {
            return Ok(());
        }
        let mut syncing = self.syncing.lock();
        if let Some(error) = &syncing.failure {
            return Err(error.clone());
        }
        self.sync_in_front(&mut syncing)?;
        if self.synced() >= offset {
            return Ok(());
        }
        self.file.sync().map_err(|error| self.lose(&mut syncing, failed(&error)))?;
        self.synced.store(offset, Ordering::Release);
        Ok(())
    }

    /// Returns once all of the preceding log is on stable storage.
    fn sync_front(&self) -> Result<()> {
        self.sync_in_front(&mut self.syncing.lock())
    }

    fn sync_in_front(&self, syncing: &mut Syncing) -> Result<()> {
        let Some(front) = &syncing.in_front else { return Ok(()) };
        let synced = front.syncer.sync_up_to(front.offset);
        synced.map_err(|error| self.lose(syncing, error))?;
        syncing.in_front = None;
        self.is_front_synced.store(true, Ordering::Release);
        Ok(())
    }

    /// Marks the log as lost.
    fn lose(&self, syncing: &mut Syncing, error: Error) -> Error {
        syncing.failure = Some(error.clone());
        self.is_lost.store(true, Ordering::Release);
        error
    }

    /// Asks the system to start writing a part of the log to the disk.
    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<()> {
        let started = self.file.start_writeback(offset, bytes);
        started.map_err(|error| self.lose(&mut self.syncing.lock(), failed(&error)))
    }

    /// Makes every sync wait until all of the preceding log is synced.
    fn follow(&self, front: LogEnd) {
        self.is_front_synced.store(false, Ordering::Release);
        self.syncing.lock().in_front = Some(front);
    }

    /// The number of bytes of this log on stable storage.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    fn is_front_synced(&self) -> bool {
        self.is_front_synced.load(Ordering::Acquire)
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The error of the sync that failed, if one did.
    fn failure(&self) -> Option<Error> {
        if self.is_lost() { self.syncing.lock().failure.clone() } else { None }
    }
}

/// The error of a log after a failed sync.
fn failed(error: &tidekv_io::Error) -> Error {
    Error::new(
        ErrorKind::Storage,
        format!("{error}; writes since the last sync may be lost: reopen the store"),
    )
}

/// The writing end of a log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    file: Arc<dyn File>,
    syncer: Arc<LogSyncer>,
    number: u64,
    offset: u64,
    /// The offset up to which writeback was requested.
    written_back: u64,
    /// The offset up to which the file's pages hold only bytes of this log and zeros.
    own_until: u64,
    /// The length up to which space is allocated, as far as known.
    allocated: u64,
    /// See [`LogWriter::growing`].
    growth: (u64, u64),
    /// The preceding logs whose sync no mark records yet.
    unmarked: Vec<Arc<LogSyncer>>,
    health: Health,
    frame: Vec<u8>,
}

/// Writeback is requested whenever this many bytes have accumulated: a sync then has few bytes left
/// to write, however long the log, instead of as many as the disk takes in a second.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// Space is allocated in steps of at least this size.
const ALLOCATED_BYTES: u64 = 4 << 10;

/// More than a frame adds to its payload, together with a mark, an end record, and the rest of the
/// page in a recycled file.
pub(crate) const FRAMES_BYTES: u64 = PAGE_BYTES + 256;

/// Page size of the system's page cache.
const PAGE_BYTES: u64 = 4096;

/// Frame buffers larger than this are freed after use.
const FRAME_BYTES_KEPT: usize = 4 << 20;

impl LogWriter {
    /// A writer at the start of `file`, which contains only zeros.
    pub(crate) fn new(file: Arc<dyn File>, number: u64) -> Self {
        Self {
            syncer: Arc::new(LogSyncer::new(Arc::clone(&file))),
            file,
            number,
            offset: 0,
            written_back: 0,
            own_until: u64::MAX,
            allocated: 0,
            growth: (0, 0),
            unmarked: Vec::new(),
            health: Health::Good,
            frame: Vec::new(),
        }
    }

    /// A writer at the start of `file`, which contains frames of earlier logs.
    ///
    /// When a write covers only the beginning of a page, the system reads the page from the disk
    /// first, to keep its end, and the writer waits for that. The writer therefore always fills the
    /// page, with zeros after the frame.
    pub(crate) fn recycling(file: Arc<dyn File>, number: u64) -> Self {
        Self { own_until: 0, ..Self::new(file, number) }
    }

    /// The same, with space for `bytes` allocated already.
    #[must_use]
    pub(crate) fn with_allocated(self, bytes: u64) -> Self {
        Self { allocated: bytes, ..self }
    }

    /// The same; once it needs more than `small` bytes, it allocates `full` at once.
    #[must_use]
    pub(crate) fn growing(self, small: u64, full: u64) -> Self {
        Self { growth: (small, full), ..self }
    }

    /// Whether there is space for a record of `bytes` and for `reserve` bytes after it.
    pub(crate) fn has_space(&self, bytes: u64, reserve: u64) -> bool {
        self.offset + bytes + FRAMES_BYTES + reserve <= self.allocated
    }

    /// Allocates space for a record of `bytes` and for `reserve` bytes after it, unless there is.
    /// If the disk is full, this fails and leaves the log as it is.
    pub(crate) fn make_space(&mut self, bytes: u64, reserve: u64) -> Result<()> {
        if self.has_space(bytes, reserve) {
            return Ok(());
        }
        let needed = self.offset + bytes + FRAMES_BYTES + reserve;
        let mut allocate = |until: u64| -> tidekv_io::Result<()> {
            self.file.allocate(until)?;
            self.allocated = until;
            Ok(())
        };
        let (small, full) = self.growth;
        let wanted = needed + reserve.max(ALLOCATED_BYTES);
        let wanted = if needed > small { wanted.max(full) } else { wanted };
        match allocate(wanted).or_else(|_| allocate(needed)) {
            Err(error) if error.kind() == tidekv_io::ErrorKind::Full => Err(error.into()),
            // A system that cannot allocate: the record itself may fail.
            _ => Ok(()),
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

    /// Appends one record, whose payload `fill` appends to the buffer, and passes it to the
    /// operating system.
    pub(crate) fn append(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        if let Some(error) = self.lost() {
            return Err(error);
        }
        match &self.health {
            Health::Good => {
                // Without its lock: another thread may be syncing this log now.
                if self.syncer.is_front_synced() {
                    self.record_front_sync()?;
                }
                self.write_frame(fill)
            }
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
        let end = self.offset + self.frame.len() as u64;
        let mut own_until = self.own_until;
        if end > own_until {
            own_until = end.next_multiple_of(PAGE_BYTES);
            self.frame.resize((own_until - self.offset) as usize, 0);
        }
        let written = self.file.write_at(self.offset, &self.frame);
        if self.frame.capacity() > FRAME_BYTES_KEPT {
            self.frame = Vec::new();
        }
        match written {
            Ok(()) => {
                self.own_until = own_until;
                self.offset = end;
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

    /// Puts all appended bytes on stable storage, with a mark that the preceding logs are.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let vouched = match self.health {
            Health::Finished => Ok(()),
            // A mark may overwrite the torn tail, like the end record.
            Health::Good | Health::Torn(_) => self.sync_front_and_mark(),
        };
        self.syncer.sync_up_to(self.offset)?;
        vouched
    }

    /// Syncs the preceding logs and records that in this one: before a record that is acknowledged
    /// as synced, because that record cannot be taken back if a mark after it fails.
    pub(crate) fn sync_front_and_mark(&mut self) -> Result<()> {
        if !self.unmarked.is_empty() {
            self.syncer.sync_front()?;
        }
        self.record_front_sync()
    }

    /// Records that the preceding log is on stable storage.
    fn record_front_sync(&mut self) -> Result<()> {
        if !self.unmarked.is_empty() {
            self.write_frame(|out| out.push(RECORD_MARK))?;
            self.unmarked.clear();
        }
        Ok(())
    }

    /// The handle with which other threads sync the bytes appended so far, up to
    /// [`LogWriter::offset`].
    pub(crate) fn syncer(&self) -> &Arc<LogSyncer> {
        &self.syncer
    }

    /// The bytes of the preceding log that are on stable storage, as far as it is known.
    pub(crate) fn synced_in_front(&self) -> u64 {
        self.unmarked.last().map_or(0, |front| front.synced())
    }

    /// Appends a record without content that records the syncs so far. Unless the log is synced, it
    /// reaches the disk at some later time.
    pub(crate) fn mark(&mut self) -> Result<()> {
        self.append(|out| out.push(RECORD_MARK))
    }

    /// Whether records can be appended; otherwise [`Self::end`] the log and continue in a
    /// successor.
    pub(crate) fn is_open(&self) -> bool {
        let mut all = std::iter::once(&self.syncer).chain(&self.unmarked);
        matches!(self.health, Health::Good) && !all.any(|syncer| syncer.is_lost())
    }

    /// The error that made this log or a preceding one unusable, if any.
    pub(crate) fn lost(&self) -> Option<Error> {
        let mut all = std::iter::once(&self.syncer).chain(&self.unmarked);
        all.find_map(|syncer| syncer.failure())
    }

    /// Ends the log after its last whole record and names its successor, whose file name must be
    /// durable: the end record may reach the disk at any time from here on. May be called again
    /// after an error, with the same successor.
    pub(crate) fn end(&mut self, successor: u64) -> Result<()> {
        if let Some(error) = self.lost() {
            return Err(error);
        }
        match &self.health {
            Health::Finished => Ok(()),
            Health::Good | Health::Torn(_) => {
                self.write_frame(|out| {
                    out.push(RECORD_END);
                    out.extend_from_slice(&successor.to_le_bytes());
                })?;
                self.health = Health::Finished;
                Ok(())
            }
        }
    }

    /// Like [`Self::end`] for a log without a successor for now, and syncs it.
    pub(crate) fn finish(&mut self, successor: u64) -> Result<()> {
        if !matches!(self.health, Health::Finished) {
            // First sync the existing records: the end record can then say that all of them are on
            // stable storage, and damage to any of them can be distinguished from a torn tail. A
            // log with a successor does not need this: a mark in the successor says it.
            self.sync()?;
        }
        self.end(successor)?;
        self.syncer.sync_up_to(self.offset)
    }

    /// Allocated bytes behind the last record, without those reserved for the end record.
    pub(crate) fn unused_bytes(&self) -> u64 {
        self.allocated.saturating_sub(self.offset + FRAMES_BYTES)
    }

    /// Gives back all but `kept` of [`Self::unused_bytes`]; whether there were more.
    pub(crate) fn release_unused(&mut self, kept: u64) -> Result<bool> {
        let needed = self.offset + FRAMES_BYTES + kept;
        if needed >= self.allocated {
            return Ok(false);
        }
        self.file.truncate(needed)?;
        self.allocated = needed;
        Ok(true)
    }

    /// Gives back the space behind the end of a finished log.
    pub(crate) fn trim(&self) -> Result<()> {
        Ok(self.file.truncate(self.offset)?)
    }

    /// Makes this log, which is empty, the successor of `front`, which was ended.
    pub(crate) fn follow(&mut self, front: &Self) {
        debug_assert!(matches!(front.health, Health::Finished) && self.offset == 0);
        let end = LogEnd { syncer: Arc::clone(&front.syncer), offset: front.offset };
        self.syncer.follow(end);
        self.unmarked.clone_from(&front.unmarked);
        self.unmarked.push(Arc::clone(&front.syncer));
    }
}
