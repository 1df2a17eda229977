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

use std::sync::Arc;

use tidekv_io::{Access, Priority};

use crate::engine::{Engine, Logs, NextLog};
use crate::error::Result;
use crate::format::files::log_path;
use crate::sync::atomic::Ordering;
use crate::wal::LogWriter;

/// A log takes the writes of so many memtables, or of one if that is more than this
/// many bytes: an opening reads the log to its end.
const MEMTABLES_PER_LOG: u64 = 8;
const LOG_BYTES: u64 = 16 << 20;

impl Engine {
    /// From how many bytes on a log is ended.
    pub(crate) fn log_bytes(&self) -> u64 {
        let memtable_bytes = self.shares.load().memtable_bytes;
        memtable_bytes.max(LOG_BYTES.min(MEMTABLES_PER_LOG * memtable_bytes))
    }

    /// Begins the first log of this life; its number.
    pub(crate) fn begin_first_log(&self) -> Result<u64> {
        let number = self.structure.lock().manifest.allocate_file();
        let current = self.begin_log(number, &mut None)?;
        *self.logs.lock() = Some(Logs::new(current));
        Ok(number)
    }

    /// Has the next log made ready, in the background, when the current one is half
    /// full. Only while leading.
    pub(crate) fn ask_for_next_log(self: &Arc<Self>) {
        let is_due = {
            let mut logs = self.logs.lock();
            let logs = logs.as_mut().expect("a writable store has a log");
            let is_half_full = logs.current.offset() >= self.log_bytes() / 2;
            is_half_full && !std::mem::replace(&mut logs.next_is_asked_for, true)
        };
        if is_due {
            let engine = Arc::clone(self);
            let prepare = move || {
                let mut next = engine.next_log.lock();
                // Whoever closes the store comes by this lock afterwards.
                if !engine.is_closed.load(Ordering::Acquire) {
                    // Whoever switches tries again, and is told of an error.
                    let _ = engine.make_ready(&mut next);
                }
            };
            self.executor.execute(Priority::High, Box::new(prepare));
        }
    }

    fn make_ready(&self, next: &mut NextLog) -> Result<()> {
        if next.ready.is_none() {
            let number = self.number_of(next);
            next.ready = Some(self.begin_log(number, &mut next.spare)?);
        }
        Ok(())
    }

    fn number_of(&self, next: &mut NextLog) -> u64 {
        *next.number.get_or_insert_with(|| self.structure.lock().manifest.allocate_file())
    }

    /// Ends the current log and goes on in the next. After an error it may be called
    /// again. Only while leading.
    pub(crate) fn switch_log(&self, logs: &mut Logs) -> Result<()> {
        if let Some(error) = logs.current.lost() {
            return Err(error);
        }
        let mut next = self.next_log.lock();
        self.make_ready(&mut next)?;
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
    pub(crate) fn finish_log(&self) -> Result<()> {
        let mut logs = self.logs.lock();
        let Some(logs) = logs.as_mut() else { return Ok(()) };
        let mut next = self.next_log.lock();
        let number = self.number_of(&mut next);
        logs.current.finish(number)?;
        // An opening would look through all that its file held before.
        if next.ready.take().is_some() {
            let _ = self.storage.remove(&log_path(&self.directory, number));
        }
        Ok(())
    }

    /// A new log, durable in its directory, in a recycled file if there is one.
    fn begin_log(&self, number: u64, spare: &mut Option<u64>) -> Result<LogWriter> {
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
            let bytes = self.shares.load().memtable_bytes;
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
