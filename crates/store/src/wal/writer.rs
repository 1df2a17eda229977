//! Appends records to a log file.
//!
//! A writer is used by one thread at a time; others may put what it has appended on
//! stable storage meanwhile ([`LogWriter::syncer`]). After an error the end of the
//! file is not known: [`LogWriter::append`] refuses, and [`LogWriter::finish`] may
//! still end the log in front of the torn place. After a failed sync, whoever did it,
//! nothing brings a log back (the system may have dropped its pages, and says so
//! once).
//!
//! Writers do not wait for the end of one log before they begin the next
//! ([`LogWriter::end`]). What keeps the logs in their order is this: nothing of a log
//! is synced before all of the one in front of it is ([`LogWriter::follow`]). So what
//! is on stable storage of all logs is a prefix of what was appended. And a mark in the
//! log vouches for every log in front: it stands there before a sync is acknowledged that
//! somebody waits for, or in front of the first record behind another sync.

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
    /// All of the log in front is on stable storage, or there is none: who finds nothing
    /// left to sync needs no lock.
    is_front_synced: AtomicBool,
    /// Held while the file is synced, or a failure would be told to one thread and
    /// the next one would hear that all is well.
    syncing: Mutex<Syncing>,
}

#[derive(Debug, Default)]
struct Syncing {
    /// The error of the sync that failed.
    failure: Option<Error>,
    /// The log in front of this one, while it is not on stable storage.
    in_front: Option<LogEnd>,
}

/// The whole of a log that was ended, up to a number of bytes.
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

    /// Returns once the first `offset` bytes of the log, which were appended, are
    /// on stable storage, and every log in front of it.
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

    /// Returns once all of the log in front is on stable storage.
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

    /// Ends the log for good.
    fn lose(&self, syncing: &mut Syncing, error: Error) -> Error {
        syncing.failure = Some(error.clone());
        self.is_lost.store(true, Ordering::Release);
        error
    }

    /// Has the system begin to write a part of the log to the disk.
    fn start_writeback(&self, offset: u64, bytes: u64) -> Result<()> {
        let started = self.file.start_writeback(offset, bytes);
        started.map_err(|error| self.lose(&mut self.syncing.lock(), failed(&error)))
    }

    /// Nothing is synced before all of the log in front is.
    fn follow(&self, front: LogEnd) {
        self.is_front_synced.store(false, Ordering::Release);
        self.syncing.lock().in_front = Some(front);
    }

    fn synced(&self) -> u64 {
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

/// What a sync that failed means for a log.
fn failed(error: &tidekv_io::Error) -> Error {
    Error::new(
        ErrorKind::Storage,
        format!("{error}; what was written since the last sync may be lost: reopen the store"),
    )
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
    /// Up to where the file's pages hold bytes of this log and zeros.
    own_until: u64,
    /// The logs in front of which no mark says yet that they were synced.
    unvouched: Vec<Arc<LogSyncer>>,
    health: Health,
    frame: Vec<u8>,
}

/// The system is asked to write to the disk whenever there is so much: a sync then
/// waits for little, however long the log, and not for as much as the disk takes in a
/// second.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// What the system keeps of a file in one piece.
const PAGE_BYTES: u64 = 4096;

/// Frame buffers larger than this are given back after use.
const FRAME_BYTES_KEPT: usize = 4 << 20;

impl LogWriter {
    /// A writer at the start of `file`, which holds nothing but zeros.
    pub(crate) fn new(file: Arc<dyn File>, number: u64) -> Self {
        Self {
            syncer: Arc::new(LogSyncer::new(Arc::clone(&file))),
            file,
            number,
            offset: 0,
            written_back: 0,
            own_until: u64::MAX,
            unvouched: Vec::new(),
            health: Health::Good,
            frame: Vec::new(),
        }
    }

    /// A writer at the start of `file`, whose bytes so far belong to other logs.
    ///
    /// Where only the beginning of a page is written, the system reads the page from the
    /// disk first, for its end, and the writer waits for that. So whoever comes to a page
    /// writes all of it, zeros behind the frame.
    pub(crate) fn recycling(file: Arc<dyn File>, number: u64) -> Self {
        Self { own_until: 0, ..Self::new(file, number) }
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
            Health::Good => {
                // Without its lock: somebody may be syncing this log now.
                if self.syncer.is_front_synced() {
                    self.vouch_for_front()?;
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

    /// Puts everything appended on stable storage, with a witness that the logs in
    /// front are.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let vouched = match self.health {
            Health::Finished => Ok(()),
            // A mark may take the torn place, as the end record may.
            Health::Good | Health::Torn(_) => self.vouch(),
        };
        self.syncer.sync_up_to(self.offset)?;
        vouched
    }

    /// Syncs the logs in front, and says so in this one: in front of a record that is
    /// acknowledged as synced, as it cannot be taken back if a mark behind it fails.
    pub(crate) fn vouch(&mut self) -> Result<()> {
        if !self.unvouched.is_empty() {
            self.syncer.sync_front()?;
        }
        self.vouch_for_front()
    }

    /// Says of the log in front, which is on stable storage, that it is.
    fn vouch_for_front(&mut self) -> Result<()> {
        if !self.unvouched.is_empty() {
            self.write_frame(|out| out.push(RECORD_MARK))?;
            self.unvouched.clear();
        }
        Ok(())
    }

    /// For other threads: what puts the bytes appended so far, up to
    /// [`LogWriter::offset`], on stable storage.
    pub(crate) fn syncer(&self) -> &Arc<LogSyncer> {
        &self.syncer
    }

    /// Appends a record that says nothing but vouches for what was synced. Unless the
    /// log is synced, it reaches the disk some time.
    pub(crate) fn mark(&mut self) -> Result<()> {
        self.append(|out| out.push(RECORD_MARK))
    }

    /// Whether records can be appended; otherwise [`Self::end`] it and go on in a
    /// successor.
    pub(crate) fn is_open(&self) -> bool {
        let mut all = std::iter::once(&self.syncer).chain(&self.unvouched);
        matches!(self.health, Health::Good) && !all.any(|syncer| syncer.is_lost())
    }

    /// The error that ended this log for good, if one did, or one in front.
    pub(crate) fn lost(&self) -> Option<Error> {
        let mut all = std::iter::once(&self.syncer).chain(&self.unvouched);
        all.find_map(|syncer| syncer.failure())
    }

    /// Ends the log behind its last whole record and names its successor, whose name
    /// must be durable: the end may come to the disk at any time from here on. May be
    /// called again after an error, with the same successor.
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

    /// Like [`Self::end`] for a log that nothing follows for now, and syncs it.
    pub(crate) fn finish(&mut self, successor: u64) -> Result<()> {
        if !matches!(self.health, Health::Finished) {
            // First what stands there: then the end record can say that all of it is
            // on stable storage, and damage to any of it is told from a torn end. A log
            // that is followed needs none of this: a mark in the follower says so.
            self.sync()?;
        }
        self.end(successor)?;
        self.syncer.sync_up_to(self.offset)
    }

    /// Makes this log, to which nothing was appended, the one behind `front`, which
    /// was ended.
    pub(crate) fn follow(&mut self, front: &Self) {
        debug_assert!(matches!(front.health, Health::Finished) && self.offset == 0);
        let end = LogEnd { syncer: Arc::clone(&front.syncer), offset: front.offset };
        self.syncer.follow(end);
        self.unvouched.clone_from(&front.unvouched);
        self.unvouched.push(Arc::clone(&front.syncer));
    }
}
