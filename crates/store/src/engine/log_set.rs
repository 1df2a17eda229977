//! The write-ahead logs of an open store: the current one, older ones and the next.
//!
//! Guarantees:
//! - The end record of a log names its successor, whose file name is durable by then, so a log that
//!   is missing in the middle is noticed.
//! - The last part of the space of a log ([`LogSet::reserve_bytes`]) is for deletions: a full disk
//!   that refuses other writes still accepts them. A flush or compaction that finds the disk full
//!   gets the space of the next log ([`LogSet::give_way`]), which is that of a memtable.
//! - A switch of logs does not wait for the disk: the next log is prepared in the background while
//!   the current one fills ([`NextLog`]). The end of the current log is synced together with the
//!   first sync of the next one, by a flush or for a write that requests it
//!   ([`LogWriter::follow`]). A writer that reaches the end of a log before the next one is ready
//!   waits for it.
//!
//! So a power cut may leave a log without its end, or with a torn tail, followed by a log with
//! records. None of those records was acknowledged as durable: recovery skips them, unless a frame
//! among them certifies that everything before it was synced; then the earlier log is damaged
//! (`recovery.rs`).

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use tidekv_io::{Access, Storage};

use crate::engine::store_memory::StoreMemory;
use crate::engine::throttle::Pauses;
use crate::engine::tree_set::TreeSet;
use crate::error::{ErrorKind, Result};
use crate::format::files::log_path;
use crate::stats::Counter;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::version::manifest::{Change, Edit};
use crate::wal::names::Names;
use crate::wal::{FRAMES_BYTES, LogPosition, LogWriter};

/// A log holds the writes of `MEMTABLES_PER_LOG` memtables, up to `LOG_BYTES`, but always of one
/// memtable: opening a store reads its logs to their ends.
const MEMTABLES_PER_LOG: u64 = 8;
const LOG_BYTES: u64 = 16 << 20;

/// The reserve for deletions: enough to clear a few keyspaces with the longest keys, or for ten
/// thousand other deletions. A small store has little to give back, and reserves little.
pub(crate) const RESERVE_BYTES: u64 = 1 << 20;
const SMALL_RESERVE_BYTES: u64 = 64 << 10;

/// A store whose log and tables have at most this many bytes is small.
const SMALL_LOG_BYTES: u64 = 1 << 20;
const SMALL_STORE_BYTES: u64 = 16 << 20;

/// The space that the first log after an opening begins with. When it is no longer small, it gets the
/// space of a memtable, as later logs do before they begin.
const FIRST_LOG_BYTES: u64 = 64 << 10;

/// The live logs, for the commit leader and for the thread that removes logs.
#[derive(Debug)]
pub(crate) struct Logs {
    pub(crate) current: LogWriter,
    /// Whether the preparation of the next log was requested.
    next_is_asked_for: bool,
    /// Older logs that are still live, oldest first.
    older: VecDeque<u64>,
    /// The offset in the current log up to which writers need not check for room in memory.
    pub(crate) has_room_until: u64,
    /// The pauses of slowed writers.
    pub(crate) pauses: Pauses,
    /// When a writer last retried a failed flush to get space for the log.
    pub(crate) flush_retried_at_ns: Option<u64>,
}

impl Logs {
    fn new(current: LogWriter) -> Self {
        Self {
            current,
            next_is_asked_for: false,
            older: VecDeque::new(),
            has_room_until: 0,
            pauses: Pauses::default(),
            flush_retried_at_ns: None,
        }
    }

    /// The oldest live log, if there are at least `len` older than the current one.
    pub(crate) fn oldest_of(&self, len: usize) -> Option<u64> {
        self.older.front().copied().filter(|_| self.older.len() >= len)
    }
}

/// The successor of the current log.
#[derive(Debug, Default)]
struct NextLog {
    /// Its number, once allocated: the number that the current log's end record names.
    number: Option<u64>,
    /// The writer, once the file exists under a durable name.
    ready: Option<LogWriter>,
    /// An obsolete log whose file the next log will reuse.
    spare: Option<u64>,
    /// The disk was full: no obsolete log is kept until there is space for a whole log again.
    is_disk_full: bool,
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
    /// Only the commit leader holds this lock for long; flushes take it briefly to look, and to
    /// remove logs that are obsolete.
    logs: Mutex<Option<Logs>>,
    /// Held while the next log is prepared.
    next_log: Mutex<NextLog>,
    /// The bytes of all tables.
    stored_bytes: AtomicU64,
    /// See [`LogSet::full_disk_retries`].
    full_disk_retries: Counter,
}

impl LogSet {
    /// The set of the store in `directory`, without a log yet.
    pub(crate) fn new(storage: Arc<dyn Storage>, directory: PathBuf, names: Arc<Names>) -> Self {
        Self {
            storage,
            directory,
            names,
            logs: Mutex::new(None),
            next_log: Mutex::default(),
            stored_bytes: AtomicU64::new(0),
            full_disk_retries: Counter::default(),
        }
    }

    /// The directories whose names are durable.
    pub(crate) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// The logs; `None` before the first log has begun, and in a store that is opened for reading.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Logs>> {
        self.logs.lock()
    }

    /// Runs `look` on the logs. Only leaders hold their lock for longer.
    pub(crate) fn with<X>(&self, look: impl FnOnce(&mut Logs) -> X) -> X {
        look(self.lock().as_mut().expect("a writable store has a log"))
    }

    /// The size at which a log is ended.
    pub(crate) fn bytes_max(&self, memory: &StoreMemory) -> u64 {
        let memtable_bytes = memory.memtable_bytes();
        memtable_bytes.max(LOG_BYTES.min(MEMTABLES_PER_LOG * memtable_bytes))
    }

    /// The space of a log that only deletions may use; `logs` are the live ones.
    pub(crate) fn reserve_bytes(&self, logs: &Logs, memory: &StoreMemory) -> u64 {
        let is_small = logs.current.offset() <= SMALL_LOG_BYTES
            && logs.older.is_empty()
            && self.stored_bytes.load(Ordering::Relaxed) <= SMALL_STORE_BYTES;
        let bytes = if is_small { SMALL_RESERVE_BYTES } else { RESERVE_BYTES };
        bytes.min(memory.memtable_bytes() / 2)
    }

    /// The part of a reserve of `reserve` bytes that only range deletions may use: they are few and free
    /// the most. Enough for some of them and the end of the log; little, because the first log of a store
    /// has less space than a later reserve.
    pub(crate) fn reserve_for_ranges(reserve: u64) -> u64 {
        (2 * FRAMES_BYTES).min(reserve / 2)
    }

    /// Takes note of the bytes of all tables.
    pub(crate) fn note_stored_bytes(&self, bytes: u64) {
        self.stored_bytes.store(bytes, Ordering::Relaxed);
    }

    /// How often a write, a flush or a new log was retried because the disk was full.
    pub(crate) fn full_disk_retries(&self) -> u64 {
        self.full_disk_retries.get()
    }

    /// Counts a retry because the disk is full; its error is not reported otherwise.
    pub(crate) fn note_full_disk_retry(&self) {
        self.full_disk_retries.add(1);
    }

    /// Begins the first log after the store was opened, and returns its number.
    pub(crate) fn begin_first_log(&self, trees: &TreeSet, memory: &StoreMemory) -> Result<u64> {
        let number = trees.allocate_file();
        let bytes = FIRST_LOG_BYTES.min(memory.memtable_bytes());
        let current = self.begin_log(number, &mut None, bytes)?;
        let current = current.growing(SMALL_LOG_BYTES, memory.memtable_bytes());
        *self.logs.lock() = Some(Logs::new(current));
        Ok(number)
    }

    /// Whether it is time to prepare the next log: the current one is half full, and no preparation
    /// has been requested yet. Only while leading.
    pub(crate) fn next_is_due(&self, memory: &StoreMemory) -> bool {
        self.with(|logs| {
            let is_half_full = logs.current.offset() >= self.bytes_max(memory) / 2;
            is_half_full && !std::mem::replace(&mut logs.next_is_asked_for, true)
        })
    }

    /// Prepares the next log, if the store is still open according to `is_open`.
    pub(crate) fn prepare_next(
        &self,
        trees: &TreeSet,
        memory: &StoreMemory,
        is_open: impl FnOnce() -> bool,
    ) {
        let mut next = self.next_log.lock();
        // The thread that closes the store takes this lock afterwards.
        if is_open() {
            // `switch_log` tries again and reports the error.
            let made = self.make_ready(&mut next, trees, memory);
            if made.is_err_and(|error| error.kind() == ErrorKind::Full) {
                self.note_full_disk_retry();
            }
        }
    }

    /// Waits for the thread that prepares the next log.
    pub(crate) fn wait_for_preparation(&self) {
        drop(self.next_log.lock());
    }

    fn make_ready(&self, next: &mut NextLog, trees: &TreeSet, memory: &StoreMemory) -> Result<()> {
        if next.ready.is_none() {
            let number = next.number_of(trees);
            next.ready = Some(self.begin_log(number, &mut next.spare, memory.memtable_bytes())?);
            next.is_disk_full = false;
        }
        Ok(())
    }

    /// Ends the current log and continues in the next. It may be called again after an error. Only
    /// while leading.
    pub(crate) fn switch_log(
        &self,
        logs: &mut Logs,
        trees: &TreeSet,
        memory: &StoreMemory,
    ) -> Result<()> {
        if let Some(error) = logs.current.lost() {
            return Err(error);
        }
        let mut next = self.next_log.lock();
        match self.make_ready(&mut next, trees, memory) {
            Err(error) if error.kind() == ErrorKind::Full => {
                // Only deletions could use what this log has left. Half of it becomes the space of
                // the next log; flushes need the other half.
                let unused = logs.current.unused_bytes();
                let Some(shared) = unused.checked_sub(FRAMES_BYTES) else { return Err(error) };
                let bytes = FRAMES_BYTES + self.reserve_bytes(logs, memory).min(shared) / 2;
                logs.current.release_unused(0)?;
                let number = next.number_of(trees);
                let begun = self.begin_log(number, &mut next.spare, bytes).inspect_err(|_| {
                    // For deletions: see `reserve_bytes`.
                    let _ = logs.current.make_space(0, unused);
                })?;
                next.ready = Some(begun);
                self.note_full_disk_retry();
            }
            made => made?,
        }
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

    /// Gives back the space of logs that are prepared or kept for reuse, and what the current log has
    /// allocated beyond half of its reserve: on a full disk, a flush or a compaction needs it, and frees
    /// more. (The other half is for deletions.) Whether there was any.
    pub(crate) fn give_way(&self, memory: &StoreMemory) -> bool {
        let is_released = self.with(|logs| {
            let reserve = self.reserve_bytes(logs, memory);
            logs.current.release_unused(reserve / 2).unwrap_or(false)
        });
        self.remove_unused() || is_released
    }

    /// Removes logs that are prepared or kept for reuse; whether there were any.
    pub(crate) fn remove_unused(&self) -> bool {
        let mut next = self.next_log.lock();
        let mut is_any = false;
        let (ready, spare) = (next.ready.take(), next.spare.take());
        next.is_disk_full = true;
        let prepared = ready.map(|log| log.number());
        for number in prepared.into_iter().chain(spare) {
            is_any |= self.storage.remove(&log_path(&self.directory, number)).is_ok();
        }
        // The next log is not prepared again: a job that fails for want of space would be tried
        // again and again. It is created when it is needed.
        is_any
    }

    /// The numbers of the live logs.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let logs = self.logs.lock();
        let numbers = logs.iter().flat_map(|logs| {
            logs.older.iter().copied().chain(std::iter::once(logs.current.number()))
        });
        numbers.collect()
    }

    /// The end of what is on stable storage, as far as it is known: in the current log or the one
    /// before it.
    pub(crate) fn synced(&self) -> Option<LogPosition> {
        let logs = self.logs.lock();
        let logs = logs.as_ref()?;
        let current =
            LogPosition { log: logs.current.number(), offset: logs.current.syncer().synced() };
        let front = logs.older.back().map(|&log| {
            let offset = logs.current.synced_in_front();
            LogPosition { log, offset }
        });
        [Some(current), front].into_iter().flatten().find(|position| position.offset > 0)
    }

    /// Ends the log permanently and durably. Only while leading.
    pub(crate) fn finish_log(&self, trees: &TreeSet) -> Result<()> {
        let mut logs = self.logs.lock();
        let Some(logs) = logs.as_mut() else { return Ok(()) };
        let is_empty = logs.current.offset() == 0;
        let mut next = self.next_log.lock();
        let number = next.number_of(trees);
        logs.current.finish(number)?;
        if !is_empty {
            let position =
                LogPosition { log: logs.current.number(), offset: logs.current.offset() };
            let mut edit = Edit::default();
            edit.push(Change::LogSynced(position));
            if let Err(error) = trees.structure().manifest.commit(edit) {
                tracing::warn!(%error, "cannot record the length of the log");
            }
        }
        let trimmed = logs.current.trim();
        // Recovery would otherwise read all that its file held before.
        if next.ready.take().is_some() {
            let _ = self.storage.remove(&log_path(&self.directory, number));
        }
        trimmed
    }

    /// A new log, durable in its directory, in a recycled file if one is spare, otherwise with space
    /// for `bytes`; the rest is allocated as the log grows.
    fn begin_log(&self, number: u64, spare: &mut Option<u64>, bytes: u64) -> Result<LogWriter> {
        self.names.check()?;
        let path = log_path(&self.directory, number);
        if !self.storage.exists(&path)?
            && let Some(old) = *spare
        {
            self.storage.rename(&log_path(&self.directory, old), &path)?;
            *spare = None;
        }
        let log = if self.storage.exists(&path)? {
            let file = self.storage.open(&path, Access::Buffered)?;
            let allocated = file.len()?;
            LogWriter::recycling(file, number).with_allocated(allocated)
        } else {
            let file = self.storage.create(&path, Access::Buffered)?;
            let allocated = match file.allocate(bytes) {
                Ok(()) => bytes,
                Err(error) if error.kind() == tidekv_io::ErrorKind::Unsupported => 0,
                Err(error) => {
                    // The file could have taken all the space that was left.
                    let _ = self.storage.remove(&path);
                    return Err(error.into());
                }
            };
            LogWriter::new(file, number).with_allocated(allocated)
        };
        self.names.sync()?;
        Ok(log)
    }

    /// Removes obsolete logs, but keeps one of them for reuse.
    pub(crate) fn remove_logs_before(&self, min_log: u64) {
        let mut removable = Vec::new();
        if let Some(logs) = self.logs.lock().as_mut() {
            let count = logs.older.iter().take_while(|&&number| number < min_log).count();
            removable.extend(logs.older.drain(..count));
        }
        if removable.is_empty() {
            return;
        }
        {
            let next = &mut self.next_log.lock();
            if next.spare.is_none() && !next.is_disk_full {
                next.spare = removable.pop();
            }
        }
        for number in removable {
            let _ = self.storage.remove(&log_path(&self.directory, number));
        }
    }
}
