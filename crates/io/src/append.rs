//! Writes a file from its start to its end in large aligned pieces; tables are written this way
//! past the page cache.
//!
//! Guarantee: when [`AppendFile::finish`] has returned `Ok`, the file holds exactly the appended
//! bytes, and they are durable (its name is not: the caller syncs the directory). After an error
//! the caller must remove the file; nothing more can be appended to it. Pieces are written one
//! after another, in their order.
//!
//! With a helper ([`AppendFile::with_helper`]) a piece is written while the next one is filled. No
//! thread waits for the helper to begin: if it has not taken a piece when the next one is ready,
//! the owner writes it.
//!
//! Owned by one thread at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::buffer::AlignedVec;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::storage::File;
use crate::threads::{Executor, Priority};

/// Collects bytes and writes them in pieces of a fixed, aligned size.
#[derive(Debug)]
pub struct AppendFile {
    file: Arc<dyn File>,
    pending: AlignedVec,
    piece_bytes: usize,
    /// Bytes that were written or passed to the helper.
    handed: u64,
    failed: bool,
    helper: Option<Helper>,
}

impl AppendFile {
    /// Appends to `file`, which is empty, in pieces of `buffer_bytes` rounded
    /// up to the file's alignment.
    pub fn new(file: Arc<dyn File>, buffer_bytes: usize) -> Self {
        let piece_bytes = buffer_bytes.max(1).next_multiple_of(file.alignment());
        Self {
            file,
            pending: AlignedVec::with_capacity(piece_bytes),
            piece_bytes,
            handed: 0,
            failed: false,
            helper: None,
        }
    }

    /// Makes `executor` write pieces while the next ones are filled, at the cost of memory for a
    /// second piece. An error is then reported one piece later.
    #[must_use]
    pub fn with_helper(mut self, executor: Arc<dyn Executor>) -> Self {
        self.helper = Some(Helper { executor, piece: Arc::default() });
        self
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    ///
    /// After an earlier call failed.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        assert!(!self.failed, "appended to {} after a write failed", self.file.path().display());
        while !bytes.is_empty() {
            let room = self.piece_bytes - self.pending.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.pending.extend_from_slice(now);
            bytes = later;
            if self.pending.len() == self.piece_bytes {
                self.write_pending()?;
            }
        }
        Ok(())
    }

    /// The number of bytes appended so far.
    pub fn offset(&self) -> u64 {
        self.handed + self.pending.len() as u64
    }

    /// The underlying file.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Writes the remaining bytes, cuts the padding off, makes the file durable and returns its
    /// length in bytes.
    ///
    /// # Panics
    ///
    /// After an earlier call failed.
    pub fn finish(mut self) -> Result<u64> {
        assert!(!self.failed, "finished {} after a write failed", self.file.path().display());
        let len = self.offset();
        let padded = self.pending.len().next_multiple_of(self.file.alignment());
        if padded > 0 {
            self.pending.resize(padded, 0);
            self.write_pending()?;
        }
        if let Some(helper) = &self.helper {
            helper.piece.settle()?;
        }
        if self.file.len()? != len {
            self.file.truncate(len)?;
        }
        self.file.sync()?;
        Ok(len)
    }

    fn write_pending(&mut self) -> Result<()> {
        self.failed = true;
        let len = self.pending.len() as u64;
        match &self.helper {
            None => {
                self.file.write_at(self.handed, &self.pending)?;
                self.pending.clear();
            }
            Some(helper) => {
                let memory = helper.piece.settle()?;
                let memory = memory.unwrap_or_else(|| AlignedVec::with_capacity(self.piece_bytes));
                let bytes = std::mem::replace(&mut self.pending, memory);
                helper.hand(Piece { file: Arc::clone(&self.file), offset: self.handed, bytes });
            }
        }
        self.failed = false;
        self.handed += len;
        Ok(())
    }
}

/// Drops an unwritten piece and waits for one that is being written: nothing touches the file after
/// the drop.
impl Drop for AppendFile {
    fn drop(&mut self) {
        if let Some(helper) = &self.helper {
            helper.piece.abandon();
        }
    }
}

/// The executor that writes pieces in the background, and the current piece.
#[derive(Debug)]
struct Helper {
    executor: Arc<dyn Executor>,
    piece: Arc<HandOver>,
}

impl Helper {
    fn hand(&self, piece: Piece) {
        *self.piece.stage.lock() = Stage::Waiting(piece);
        let handed = Arc::clone(&self.piece);
        // After all jobs that their owner cannot do.
        self.executor.execute(Priority::Low, Box::new(move || handed.write()));
    }
}

#[derive(Debug)]
struct Piece {
    file: Arc<dyn File>,
    offset: u64,
    bytes: AlignedVec,
}

/// The state of a piece.
#[derive(Debug, Default)]
enum Stage {
    /// There is none.
    #[default]
    Idle,
    Waiting(Piece),
    Writing,
    /// Written, with its memory.
    Written(Result<AlignedVec>),
}

/// The hand-over of a piece. The thread that takes it first writes it.
#[derive(Debug, Default)]
struct HandOver {
    stage: Mutex<Stage>,
    written: Condvar,
}

impl HandOver {
    /// Writes the piece, if no thread has taken it yet.
    fn write(&self) {
        let piece = {
            let mut stage = self.stage.lock();
            match std::mem::replace(&mut *stage, Stage::Writing) {
                Stage::Waiting(piece) => piece,
                other => {
                    *stage = other;
                    return;
                }
            }
        };
        let attempt = || piece.file.write_at(piece.offset, &piece.bytes);
        let attempt = catch_unwind(AssertUnwindSafe(attempt));
        let (outcome, panic) = match attempt {
            Ok(outcome) => (outcome, None),
            Err(panic) => {
                let path = piece.file.path();
                (Err(Error::new(ErrorKind::Failed, Operation::Write, path)), Some(panic))
            }
        };
        *self.stage.lock() = Stage::Written(outcome.map(|()| piece.bytes));
        self.written.notify_all();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Waits until the piece, if there is one, is written, and returns its memory, emptied.
    fn settle(&self) -> Result<Option<AlignedVec>> {
        self.write();
        let mut stage = self.stage.lock();
        while matches!(*stage, Stage::Writing) {
            self.written.wait(&mut stage);
        }
        match std::mem::take(&mut *stage) {
            Stage::Written(outcome) => outcome.map(|mut memory| {
                memory.clear();
                Some(memory)
            }),
            _ => Ok(None),
        }
    }

    fn abandon(&self) {
        let mut stage = self.stage.lock();
        if matches!(*stage, Stage::Waiting(_)) {
            *stage = Stage::Idle;
        }
        while matches!(*stage, Stage::Writing) {
            self.written.wait(&mut stage);
        }
    }
}
