//! Writing a file from its start to its end in large aligned pieces, which is
//! how tables are written past the page cache.
//!
//! Guarantee: when [`AppendFile::finish`] has returned `Ok`, the file holds
//! exactly the bytes that were appended, and they are durable (its name is
//! not: that is the directory's affair). After an error the file is to be
//! removed; nothing more can be appended to it.
//!
//! Owned by one thread at a time.

use std::sync::Arc;

use crate::buffer::AlignedVec;
use crate::error::Result;
use crate::storage::File;

/// Collects bytes and writes them in pieces of a fixed, aligned size.
#[derive(Debug)]
pub struct AppendFile {
    file: Arc<dyn File>,
    pending: AlignedVec,
    piece_bytes: usize,
    written: u64,
    failed: bool,
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
            written: 0,
            failed: false,
        }
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

    /// How many bytes were appended so far.
    pub fn offset(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// The file behind.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Writes what is left, cuts the padding off, makes the file durable and
    /// returns its length.
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
        if self.file.len()? != len {
            self.file.truncate(len)?;
        }
        self.file.sync()?;
        Ok(len)
    }

    fn write_pending(&mut self) -> Result<()> {
        self.failed = true;
        self.file.write_at(self.written, &self.pending)?;
        self.failed = false;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
