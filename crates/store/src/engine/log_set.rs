//! The write-ahead logs of an open store: which there are, and how one follows another.
//!
//! Guarantees:
//! - The end record of a log that is followed names one whose name is durable, so a log
//!   that is missing in the middle is noticed.
//! - Nobody waits for the disk because one log follows another: the next one is made
//!   ready in the background while the current one is filled ([`NextLog`]), and the
//!   end of the current one is synced when something of the next is, by a flush or for
//!   a write that asks for it ([`LogWriter::follow`]). A writer that comes to the end of
//!   a log before the next one is ready waits for it.
//!
//! So a power cut may leave a log without its end, or torn, and records of the next one
//! behind it. Nothing of those was promised then: recovery passes them over, unless a
//! frame there vouches for what was in front; then that is damaged (`recovery.rs`).

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use tidekv_io::{Access, Storage};

use crate::engine::memory_budget::MemoryBudget;
use crate::engine::throttle::Pauses;
use crate::engine::tree_set::TreeSet;
use crate::error::Result;
use crate::format::files::log_path;
use crate::sync::{Mutex, MutexGuard};
use crate::wal::LogWriter;
use crate::wal::names::Names;

/// A log takes the writes of so many memtables, or of one if that is more than this
/// many bytes: an opening reads the log to its end.
const MEMTABLES_PER_LOG: u64 = 8;
const LOG_BYTES: u64 = 16 << 20;

/// The logs that count, for the commit leader and for the thread that removes them.
#[derive(Debug)]
pub(crate) struct Logs {
    pub(crate) current: LogWriter,
    /// Whether somebody was asked to make the next one ready.
    next_is_asked_for: bool,
    /// Older logs that still count, oldest first.
    older: VecDeque<u64>,
    /// Up to where in the current log writes that do not wait need not look
    /// whether there is room for them.
    pub(crate) has_room_until: u64,
    /// Of slowed writers.
    pub(crate) pauses: Pauses,
}

impl Logs {
    fn new(current: LogWriter) -> Self {
        Self {
            current,
            next_is_asked_for: false,
            older: VecDeque::new(),
            has_room_until: 0,
            pauses: Pauses::default(),
        }
    }

    /// The oldest log that counts, if there are at least so many beside the current one.
    pub(crate) fn oldest_of(&self, len: usize) -> Option<u64> {
        self.older.front().copied().filter(|_| self.older.len() >= len)
    }
}

/// The log behind the current one.
#[derive(Debug, Default)]
struct NextLog {
    /// Its number, once it has one: that which the current log's end record names.
    number: Option<u64>,
    /// It is there, under a durable name.
    ready: Option<LogWriter>,
    /// A log that counts no more, whose file the next one takes over.
    spare: Option<u64>,
}

impl NextLog {
    fn number_of(&mut self, trees: &TreeSet) -> u64 {
        *self.number.get_or_insert_with(|| trees.allocate_file())
    }
}

/// All logs of a store, and the names of its files.
#[derive(Debug)]
pub(crate) struct LogSet {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    names: Arc<Names>,
    /// Kept locked by the commit leader only: flushes look, and take off logs that do not
    /// count any more.
    logs: Mutex<Option<Logs>>,
    /// Kept locked while the next log is made ready.
    next_log: Mutex<NextLog>,
}

impl LogSet {
    /// No log yet, of the store in `directory`.
    pub(crate) fn new(storage: Arc<dyn Storage>, directory: PathBuf, names: Arc<Names>) -> Self {
        Self { storage, directory, names, logs: Mutex::new(None), next_log: Mutex::default() }
    }

    /// Which directories have durable names.
    pub(crate) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// The logs; there are none before the first one has begun, or where nobody writes.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Logs>> {
        self.logs.lock()
    }

    /// Runs `look` on the logs. Only leaders keep their lock for longer.
    pub(crate) fn with<X>(&self, look: impl FnOnce(&mut Logs) -> X) -> X {
        look(self.lock().as_mut().expect("a writable store has a log"))
    }

    /// From how many bytes on a log is ended.
    pub(crate) fn bytes_max(&self, memory: &MemoryBudget) -> u64 {
        let memtable_bytes = memory.memtable_bytes();
        memtable_bytes.max(LOG_BYTES.min(MEMTABLES_PER_LOG * memtable_bytes))
    }

    /// Begins the first log of this life; its number.
    pub(crate) fn begin_first_log(&self, trees: &TreeSet, memory: &MemoryBudget) -> Result<u64> {
        let number = trees.allocate_file();
        let current = self.begin_log(number, &mut None, memory)?;
        *self.logs.lock() = Some(Logs::new(current));
        Ok(number)
    }

    /// Whether it is time to make the next log ready: the current one is half full, and
    /// nobody was asked yet. Only while leading.
    pub(crate) fn next_is_due(&self, memory: &MemoryBudget) -> bool {
        self.with(|logs| {
            let is_half_full = logs.current.offset() >= self.bytes_max(memory) / 2;
            is_half_full && !std::mem::replace(&mut logs.next_is_asked_for, true)
        })
    }

    /// Makes the next log ready, if the store `is_open` still.
    pub(crate) fn prepare_next(
        &self,
        trees: &TreeSet,
        memory: &MemoryBudget,
        is_open: impl FnOnce() -> bool,
    ) {
        let mut next = self.next_log.lock();
        // Whoever closes the store comes by this lock afterwards.
        if is_open() {
            // Whoever switches tries again, and is told of an error.
            let _ = self.make_ready(&mut next, trees, memory);
        }
    }

    /// Waits for the thread that prepares the next log.
    pub(crate) fn wait_for_preparation(&self) {
        drop(self.next_log.lock());
    }

    fn make_ready(&self, next: &mut NextLog, trees: &TreeSet, memory: &MemoryBudget) -> Result<()> {
        if next.ready.is_none() {
            let number = next.number_of(trees);
            next.ready = Some(self.begin_log(number, &mut next.spare, memory)?);
        }
        Ok(())
    }

    /// Ends the current log and goes on in the next. After an error it may be called
    /// again. Only while leading.
    pub(crate) fn switch_log(
        &self,
        logs: &mut Logs,
        trees: &TreeSet,
        memory: &MemoryBudget,
    ) -> Result<()> {
        if let Some(error) = logs.current.lost() {
            return Err(error);
        }
        let mut next = self.next_log.lock();
        self.make_ready(&mut next, trees, memory)?;
        let NextLog { number: Some(number), ready, .. } = &mut *next else {
            unreachable!("what is ready has a number");
        };
        logs.current.end(*number)?;
        let mut follower = ready.take().expect("it was made ready");
        next.number = None;
        follower.follow(&logs.current);
        logs.older.push_back(logs.current.number());
        logs.current = follower;
        logs.next_is_asked_for = false;
        logs.has_room_until = 0;
        Ok(())
    }

    /// Ends the log for good, durably. Only while leading.
    pub(crate) fn finish_log(&self, trees: &TreeSet) -> Result<()> {
        let mut logs = self.logs.lock();
        let Some(logs) = logs.as_mut() else { return Ok(()) };
        let mut next = self.next_log.lock();
        let number = next.number_of(trees);
        logs.current.finish(number)?;
        // An opening would look through all that its file held before.
        if next.ready.take().is_some() {
            let _ = self.storage.remove(&log_path(&self.directory, number));
        }
        Ok(())
    }

    /// A new log, durable in its directory, in a recycled file if there is one.
    fn begin_log(
        &self,
        number: u64,
        spare: &mut Option<u64>,
        memory: &MemoryBudget,
    ) -> Result<LogWriter> {
        self.names.check()?;
        let path = log_path(&self.directory, number);
        if !self.storage.exists(&path)?
            && let Some(old) = *spare
        {
            self.storage.rename(&log_path(&self.directory, old), &path)?;
            *spare = None;
        }
        let log = if self.storage.exists(&path)? {
            LogWriter::recycling(self.storage.open(&path, Access::Buffered)?, number)
        } else {
            let file = self.storage.create(&path, Access::Buffered)?;
            // A memtable's worth of log; the rest is allocated as it comes.
            let bytes = memory.memtable_bytes();
            match file.allocate(bytes) {
                Err(error) if error.kind() != tidekv_io::ErrorKind::Unsupported => {
                    return Err(error.into());
                }
                _ => LogWriter::new(file, number),
            }
        };
        self.names.sync()?;
        Ok(log)
    }

    /// Logs that do not count any more are removed, one of them kept for reuse.
    pub(crate) fn remove_logs_before(&self, min_log: u64) {
        let mut removable = Vec::new();
        if let Some(logs) = self.logs.lock().as_mut() {
            while let Some(number) = logs.older.pop_front_if(|&mut number| number < min_log) {
                removable.push(number);
            }
        }
        if removable.is_empty() {
            return;
        }
        {
            let spare = &mut self.next_log.lock().spare;
            if spare.is_none() {
                *spare = removable.pop();
            }
        }
        for number in removable {
            let _ = self.storage.remove(&log_path(&self.directory, number));
        }
    }
}
