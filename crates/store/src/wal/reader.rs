//! Reads the records of a log file back, and distinguishes a torn tail from damage.
//!
//! A frame that is not intact at offset X ends the log. The frames themselves decide between a torn
//! tail and damage: each contains the number of bytes that were on stable storage when it was
//! written. If any intact frame after X contains more than X, then X had been synced, and the file
//! is damaged; otherwise a power loss tore the tail, and the log is cut at X. No log is synced
//! before the logs that precede it, so a frame with a number above 0 confirms those as well, and so
//! does a mark ([`damage_of_torn`]).
//!
//! The whole file is read in pieces of [`PIECE_BYTES`]; larger records are read separately.

use std::path::Path;
use std::sync::Arc;

use memchr::memmem::Finder;
use tidekv_io::{Access, Buffer, File, Storage};

use super::format::{
    HEADER_BYTES, Header, LogPosition, RECORD_END, RECORD_MARK, SYNCED_LOW_BYTES, SYNCED_OFFSET,
    is_intact, is_possible,
};
use crate::error::{Error, Result};
use crate::format::files::log_path;

/// Large enough for a sequential replay, small compared with any budget.
const PIECE_BYTES: usize = 256 << 10;

/// The search for frames after a torn tail computes checksums over at most this multiple of the
/// log's length: values can be crafted to look like headers of frames.
const SEARCH_EFFORT: u64 = 16;

/// The last bytes of every header.
const ZEROS: [u8; HEADER_BYTES - SYNCED_OFFSET - SYNCED_LOW_BYTES] =
    [0; HEADER_BYTES - SYNCED_OFFSET - SYNCED_LOW_BYTES];

/// How a log ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With an end record: the log is complete.
    Complete {
        /// The number of the next log.
        successor: u64,
    },
    /// After the last whole record; zeros or old frames follow.
    Cut {
        /// Whether the bytes after it looked like part of a frame.
        torn: bool,
    },
}

/// The reading end of a log.
#[derive(Debug)]
pub(crate) struct LogReader {
    file: Arc<dyn File>,
    number: u64,
    len: u64,
    offset: u64,
    has_mark: bool,
    piece: Buffer,
    piece_offset: u64,
    record: Vec<u8>,
    ending: Option<Ending>,
}

impl LogReader {
    /// A reader of all of log `number`.
    pub(crate) fn new(file: Arc<dyn File>, number: u64) -> Result<Self> {
        Self::starting_at(file, LogPosition { log: number, offset: 0 })
    }

    /// A reader from the frame at `start` on.
    pub(crate) fn starting_at(file: Arc<dyn File>, start: LogPosition) -> Result<Self> {
        let len = file.len()?;
        Ok(Self {
            file,
            number: start.log,
            len,
            offset: start.offset,
            has_mark: false,
            piece: Buffer::empty(),
            piece_offset: 0,
            record: Vec::new(),
            ending: None,
        })
    }

    /// The next record; `None` at the end. Fails if the file is damaged.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>> {
        loop {
            if self.ending.is_some() {
                return Ok(None);
            }
            let Some(frame_len) = self.intact_frame_at(self.offset)? else {
                self.ending = Some(self.judge_ending()?);
                return Ok(None);
            };
            match self.record[HEADER_BYTES] {
                RECORD_END => self.ending = Some(self.complete()?),
                RECORD_MARK => {
                    self.offset += frame_len;
                    self.has_mark = true;
                }
                _ => {
                    self.offset += frame_len;
                    return Ok(Some(&self.record[HEADER_BYTES..]));
                }
            }
        }
    }

    /// Decodes the end record in `record`.
    fn complete(&self) -> Result<Ending> {
        let number = self.record.get(HEADER_BYTES + 1..).and_then(|b| b.try_into().ok());
        let Some(number) = number else {
            return Err(Error::corrupt(self.file.path(), "its end record is malformed"));
        };
        Ok(Ending::Complete { successor: u64::from_le_bytes(number) })
    }

    /// How the log ended. Only after [`Self::next`] has returned `None`.
    pub(crate) fn ending(&self) -> Ending {
        self.ending.expect("asked after the last record")
    }

    /// The offset after the last whole record other than the end record.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the frame at `offset` into `record` if it is intact; returns its length.
    fn intact_frame_at(&mut self, offset: u64) -> Result<Option<u64>> {
        let Some(header) = self.header_at(offset)? else { return Ok(None) };
        let frame_len = HEADER_BYTES + header.payload_len as usize;
        let alone;
        let frame = if frame_len <= PIECE_BYTES {
            self.fill(offset, frame_len)?;
            let start = (offset - self.piece_offset) as usize;
            &self.piece[start..start + frame_len]
        } else {
            alone = self.file.read_at(offset, frame_len)?;
            &alone[..]
        };
        let is_intact = is_intact(frame, self.number, header);
        if is_intact {
            self.record.clear();
            self.record.extend_from_slice(frame);
        }
        Ok(is_intact.then_some(frame_len as u64))
    }

    fn header_at(&mut self, offset: u64) -> Result<Option<Header>> {
        if offset + HEADER_BYTES as u64 > self.len {
            return Ok(None);
        }
        self.fill(offset, HEADER_BYTES)?;
        let start = (offset - self.piece_offset) as usize;
        Ok(Header::decode(&self.piece[start..], offset, self.len))
    }

    /// Makes `piece` hold `len` bytes from `offset`, which are within the file.
    fn fill(&mut self, offset: u64, len: usize) -> Result<()> {
        let end = self.piece_offset + self.piece.len() as u64;
        if offset >= self.piece_offset && offset + len as u64 <= end {
            return Ok(());
        }
        let wanted = (self.len - offset).min(len.max(PIECE_BYTES) as u64) as usize;
        self.piece = self.file.read_at(offset, wanted)?;
        self.piece_offset = offset;
        Ok(())
    }

    /// Whether an intact frame begins at `offset`; subtracts its length from `effort` and gives up
    /// when that is used up.
    fn is_intact_at(&mut self, offset: u64, effort: &mut u64) -> Result<bool> {
        let Some(header) = self.header_at(offset)? else { return Ok(false) };
        // The bytes one or two positions before an old frame's header look like a header as well,
        // with part of a checksum as length. Their kind is a zero byte of the real header: an end
        // record, of an impossible length.
        self.fill(offset, HEADER_BYTES + 1)?;
        let kind = self.piece[(offset - self.piece_offset) as usize + HEADER_BYTES];
        let Some(rest) = effort.checked_sub(header.payload_len.into()) else { return Ok(false) };
        if !is_possible(kind, header.payload_len) {
            return Ok(false);
        }
        *effort = rest;
        Ok(self.intact_frame_at(offset)?.is_some())
    }

    /// The first offset from `from` on, in the piece that holds its header, where a header would
    /// say that more than `cut` bytes were on stable storage; otherwise the first offset to check
    /// in the next piece. `zeros` finds [`ZEROS`].
    ///
    /// The bytes after the end of a log mostly come from earlier logs in the same file and are many
    /// times longer than the log, so this loop takes a large part of the time to open a store.
    /// Instead of checking every offset it searches for the high bytes of the number in a header:
    ///
    /// 1. Find the next run of at least that many zeros; it begins at `at`.
    /// 2. The number is not 0, so it begins before the run, and the run begins within its low bytes
    ///    or right after them: check those offsets.
    /// 3. Continue after the run.
    fn next_synced_header(&self, from: u64, cut: u64, zeros: &Finder<'_>) -> (u64, bool) {
        let bytes = &self.piece[(from - self.piece_offset) as usize..];
        let places = bytes.len() - HEADER_BYTES + 1;
        let says_more = |place: &usize| {
            let synced = bytes[place + SYNCED_OFFSET..].first_chunk();
            let synced = synced.map_or(0, |bytes| u64::from_le_bytes(*bytes));
            synced > cut && synced <= from + *place as u64
        };
        let mut at = SYNCED_OFFSET + SYNCED_LOW_BYTES;
        while let Some(found) = zeros.find(&bytes[at..]) {
            at += found;
            let first = at - SYNCED_OFFSET - SYNCED_LOW_BYTES;
            if let Some(place) = (first..places.min(first + SYNCED_LOW_BYTES)).find(says_more) {
                return (from + place as u64, true);
            }
            at += zeros_at_start(&bytes[at..]) - ZEROS.len() + 1;
        }
        (from + places as u64, false)
    }

    fn judge_ending(&mut self) -> Result<Ending> {
        let cut = self.offset;
        let mut torn = false;
        if cut + HEADER_BYTES as u64 <= self.len {
            // Zeros are the usual end; other bytes are a torn frame or an earlier log.
            self.fill(cut, HEADER_BYTES)?;
            let start = (cut - self.piece_offset) as usize;
            torn = self.piece[start..].iter().take(HEADER_BYTES + 1).any(|&byte| byte != 0);
        }
        match self.synced_beyond(cut)? {
            None => Ok(Ending::Cut { torn }),
            Some(synced) => {
                let what = format!(
                    "the record at offset {cut} is not intact, but {synced} bytes were on stable \
                     storage"
                );
                Err(Error::corrupt(self.file.path(), what))
            }
        }
    }

    /// The number of synced bytes in the first intact frame after `cut` that contains more than
    /// `cut`.
    fn synced_beyond(&mut self, cut: u64) -> Result<Option<u64>> {
        let mut at = cut;
        let mut effort = SEARCH_EFFORT * self.len;
        let zeros = Finder::new(&ZEROS);
        while at + HEADER_BYTES as u64 <= self.len {
            self.fill(at, HEADER_BYTES)?;
            let is_witness;
            (at, is_witness) = self.next_synced_header(at, cut, &zeros);
            if !is_witness {
                continue;
            }
            let synced = self.header_at(at)?.map(|header| header.synced).filter(|&s| s > cut);
            if synced.is_some() && self.is_intact_at(at, &mut effort)? {
                return Ok(synced);
            }
            at += 1;
        }
        Ok(None)
    }
}

/// Whether log `number` begins with a whole frame. A log without one may still contain some.
pub(crate) fn begins_with_a_frame(file: Arc<dyn File>, number: u64) -> Result<bool> {
    Ok(LogReader::new(file, number)?.intact_frame_at(0)?.is_some())
}

/// The damage in log `number`, which breaks off at `cut` although the logs `behind` follow it;
/// `None` if a power loss explains it: then no write after the cut was acknowledged as durable.
pub(crate) fn damage_of_torn(
    storage: &dyn Storage,
    directory: &Path,
    number: u64,
    cut: u64,
    behind: &[u64],
) -> Result<Option<Error>> {
    for &later_log in behind {
        let file = storage.open_read(&log_path(directory, later_log), Access::Buffered)?;
        if vouches_for_logs_in_front(file, later_log)? {
            let what = format!(
                "it ends at offset {cut} without an end record, but was on stable storage \
                 before any of log {later_log} was"
            );
            return Ok(Some(Error::corrupt(&log_path(directory, number), what)));
        }
    }
    Ok(None)
}

fn vouches_for_logs_in_front(file: Arc<dyn File>, number: u64) -> Result<bool> {
    let mut reader = LogReader::new(file, number)?;
    while reader.next()?.is_some() {}
    Ok(reader.has_mark || reader.synced_beyond(0)?.is_some())
}

/// The number of zeros at the start of `bytes`.
fn zeros_at_start(bytes: &[u8]) -> usize {
    let whole = bytes.chunks_exact(32).take_while(|chunk| **chunk == [0; 32]).count() * 32;
    whole + bytes[whole..].iter().take_while(|&&byte| byte == 0).count()
}

#[cfg(test)]
mod tests;
