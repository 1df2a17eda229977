//! The bytes of a log file: frames, one after another, from offset 0.
//!
//! ```text
//! OFFSET SIZE MEANING
//! 0      4    checksum of all that follows in the frame, seeded with the
//!             number of the log
//! 4      4    length of the payload, little-endian, at least 1
//! 8      8    how many bytes of this log were on stable storage when the
//!             frame was written, little-endian; at most the frame's offset
//! 16     n    payload; its first byte is the kind of record
//! ```
//!
//! The checksum is seeded with the log's number. Files are recycled, and the seed makes old frames
//! of an earlier log in the same file invalid. After the last frame come zeros, frames of an
//! earlier log, or a torn frame.
//!
//! The last frame of an ended log is [`RECORD_END`]. By then the log that it names exists, unless
//! the store was closed; and no byte of that log is synced before all of this one is
//! (`wal/writer.rs`).
//!
//! Values on disk: do not change.

use crate::format::checksum::checksum;

/// Bytes of a frame before its payload.
pub(crate) const HEADER_BYTES: usize = 16;

/// Record kind: end of this log; eight bytes (little-endian) contain the number of the next log.
pub(crate) const RECORD_END: u8 = 0;

/// Record kind: writes (`batch.rs` describes the layout).
pub(crate) const RECORD_WRITES: u8 = 1;

/// Record kind: an edit of the manifest (`manifest/edit.rs`).
pub(crate) const RECORD_EDIT: u8 = 2;

/// Record kind: has no content, but records the syncs before it: as many bytes of this log as its
/// header says, and all preceding logs. Damage before a mark can thus be distinguished from a torn
/// tail.
pub(crate) const RECORD_MARK: u8 = 3;

/// All kinds are below this number, including future ones. Do not change: the search after a log's
/// end ignores all other bytes.
const RECORD_KINDS: u8 = 8;

/// Payload bytes of [`RECORD_END`].
const END_BYTES: usize = 1 + size_of::<u64>();

/// Payload bytes of [`RECORD_MARK`].
const MARK_BYTES: usize = 1;

/// A position in the logs, between two frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct LogPosition {
    /// The number of the log.
    pub(crate) log: u64,
    /// In bytes from its beginning.
    pub(crate) offset: u64,
}

const _: () = assert!(HEADER_BYTES == 4 + 4 + 8);

/// Offset in the header of the number of synced bytes.
pub(crate) const SYNCED_OFFSET: usize = 8;

/// The low bytes of that number, which may be non-zero: logs stay below [`LOG_BYTES_MAX`]. The
/// other bytes are 0 in every header.
pub(crate) const SYNCED_LOW_BYTES: usize = 5;

/// Exclusive upper bound of a log's length.
pub(crate) const LOG_BYTES_MAX: u64 = 1 << (8 * SYNCED_LOW_BYTES);

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) checksum: u32,
    pub(crate) payload_len: u32,
    pub(crate) synced: u64,
}

impl Header {
    /// The header at the front of `bytes`, if it is possible at `offset` in a log of `log_len`
    /// bytes.
    pub(crate) fn decode(bytes: &[u8], offset: u64, log_len: u64) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let header = Self {
            checksum: u32::from_le_bytes(bytes[0..4].try_into().ok()?),
            payload_len: u32::from_le_bytes(bytes[4..8].try_into().ok()?),
            synced: u64::from_le_bytes(bytes[SYNCED_OFFSET..].try_into().ok()?),
        };
        let end = offset + HEADER_BYTES as u64 + u64::from(header.payload_len);
        (header.payload_len > 0 && header.synced <= offset && end <= log_len).then_some(header)
    }
}

/// Whether a payload of `payload_len` bytes may begin with `kind`.
pub(crate) fn is_possible(kind: u8, payload_len: u32) -> bool {
    match kind {
        RECORD_END => payload_len == END_BYTES as u32,
        RECORD_MARK => payload_len == MARK_BYTES as u32,
        _ => kind < RECORD_KINDS,
    }
}

/// Begins a frame in `out`: reserves space for its header.
pub(crate) fn begin_frame(out: &mut Vec<u8>) {
    out.clear();
    out.resize(HEADER_BYTES, 0);
}

/// Fills in the header of the frame in `frame`, whose payload is complete.
pub(crate) fn seal_frame(frame: &mut [u8], log_number: u64, synced: u64) {
    let payload_len =
        u32::try_from(frame.len() - HEADER_BYTES).expect("payloads are bounded below 4 GiB");
    assert!(payload_len > 0, "a record has at least its kind");
    assert!(synced < LOG_BYTES_MAX, "logs end long before that");
    frame[4..8].copy_from_slice(&payload_len.to_le_bytes());
    frame[SYNCED_OFFSET..HEADER_BYTES].copy_from_slice(&synced.to_le_bytes());
    let sum = checksum(log_number, &frame[4..]);
    frame[0..4].copy_from_slice(&sum.to_le_bytes());
}

/// Whether `frame` (header and payload) carries the right checksum.
pub(crate) fn is_intact(frame: &[u8], log_number: u64, header: Header) -> bool {
    checksum(log_number, &frame[4..]) == header.checksum
}
