//! Binary traces of libCacheSim: records of one length, little-endian.
//!
//! ```text
//! ORACLE  TWR
//! 0..4    0..4    seconds
//! 4..12   4..12   object
//! 12..16  12..16  its size in bytes; of twr the lower 22 bits are the value's, the others the key's
//! 16..24          number of the next request for it (not read)
//!         16..20  the lower 24 bits are the time to live in seconds, the others the operation
//!
//! LCS 1   LCS 2   LCS 3 TO 8
//! 0..4    0..4    0..4        seconds
//! 4..12   4..12   4..12       object
//! 12..16  12..16  12..20      its size in bytes
//!         16      20          the operation; 0, unspecified, is a get
//!         17..20  21..24      tenant (not read)
//!                 24..28      the time to live in seconds
//! 16..24  20..28  28..36      number of the next request for it (not read)
//!                 36..        of 4 to 8, one, two, four, eight or sixteen features of 4 bytes (not read)
//! ```
//!
//! An lcs begins with a header of 8192 bytes: a magic number in its first and in its last 8 bytes,
//! the version in bytes 8 to 16, and statistics, which are not read.

use std::io::{BufRead, ErrorKind};

use super::request::{Fault, Kind, Parts, Request, Requests};

/// The layout of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Oracle,
    Twr,
    Lcs(LcsVersion),
}

/// A version of lcs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LcsVersion {
    /// The fields of [`Layout::Oracle`].
    Plain,
    WithOperation,
    /// With an operation as well.
    WithTtl {
        features: usize,
    },
}

impl Layout {
    fn record_bytes(self) -> usize {
        match self {
            Self::Oracle | Self::Lcs(LcsVersion::Plain) => 24,
            Self::Twr => 20,
            Self::Lcs(LcsVersion::WithOperation) => 28,
            Self::Lcs(LcsVersion::WithTtl { features }) => 36 + 4 * features,
        }
    }
}

/// Of an lcs with sixteen features.
const RECORD_BYTES_MAX: usize = 36 + 4 * 16;
/// The header of an lcs, with the magic number at both ends.
const LCS_HEAD_BYTES: usize = 8 << 10;
const LCS_MARK: [u8; 8] = 0x1234_5678_9abc_def0_u64.to_le_bytes();
/// Records at the beginning that are checked for detection.
const LOOKED_AT: usize = 8;

const VALUE_BITS: u32 = 22;
const TTL_BITS: u32 = 24;

pub(super) struct Records<R> {
    layout: Layout,
    input: R,
    count: u64,
    is_over: bool,
}

fn number<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| record[at + i])
}

fn number_32(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(record, at))
}

/// Whether bytes look like records of [`Layout::Oracle`]: rising times, and no text.
pub(super) fn is_oracle(head: &[u8]) -> bool {
    let record_bytes = Layout::Oracle.record_bytes();
    let records: Vec<&[u8]> = head.chunks_exact(record_bytes).take(LOOKED_AT).collect();
    let is_binary = head.iter().take(record_bytes * LOOKED_AT).any(|byte| *byte == 0);
    let times = records.iter().map(|record| number_32(record, 0));
    is_binary && !records.is_empty() && times.is_sorted()
}

/// Whether bytes are the beginning of an lcs.
pub(super) fn is_lcs(head: &[u8]) -> bool {
    head.starts_with(&LCS_MARK)
}

/// The version in this lcs header.
fn lcs_version(head: &[u8; LCS_HEAD_BYTES]) -> Result<LcsVersion, String> {
    if !is_lcs(head) || !head.ends_with(&LCS_MARK) {
        return Err("these are not an lcs header of 8192 bytes".to_owned());
    }
    match u64::from_le_bytes(number(head, LCS_MARK.len())) {
        1 => Ok(LcsVersion::Plain),
        2 => Ok(LcsVersion::WithOperation),
        3 => Ok(LcsVersion::WithTtl { features: 0 }),
        version @ 4..=8 => Ok(LcsVersion::WithTtl { features: 1 << (version - 4) }),
        version => Err(format!("lcs version {version} is unknown, 1 to 8 are supported")),
    }
}

/// The kind of a twr operation: get, gets, set, add, cas, replace, append, prepend, delete, incr,
/// decr, from 1.
fn kind_of(operation: u32) -> Option<Kind> {
    match operation {
        1 | 2 => Some(Kind::Get),
        3..=8 | 10 | 11 => Some(Kind::Put),
        9 => Some(Kind::Delete),
        _ => None,
    }
}

/// The kind of an lcs operation: those of twr, none, and read, write and update of a block.
fn kind_of_lcs(operation: u8) -> Option<Kind> {
    match operation {
        0 | 12 => Some(Kind::Get),
        13 | 14 => Some(Kind::Put),
        operation => kind_of(u32::from(operation)),
    }
}

fn request(layout: Layout, record: &[u8]) -> Result<Request, String> {
    let seconds = Some(f64::from(number_32(record, 0)));
    let object = number::<8>(record, 4);
    let size = number_32(record, 12);
    let no_operation = |operation: u32| format!("{operation} is not an operation");
    let of = |kind: Kind, ttl: u32| Request {
        seconds,
        ttl_seconds: Some(u64::from(ttl)).filter(|ttl| *ttl > 0),
        ..Request::new(kind, object)
    };
    Ok(match layout {
        Layout::Oracle | Layout::Lcs(LcsVersion::Plain) => {
            of(Kind::Get, 0).with_whole_bytes(size.into())
        }
        Layout::Twr => {
            let last = number_32(record, 16);
            let (operation, ttl) = (last >> TTL_BITS, last & ((1 << TTL_BITS) - 1));
            let kind = kind_of(operation).ok_or_else(|| no_operation(operation))?;
            let (key, value) = (size >> VALUE_BITS, size & ((1 << VALUE_BITS) - 1));
            let (key_bytes, value_bytes) = (Some(key.into()), Some(value.into()));
            Request { key_bytes, value_bytes, ..of(kind, ttl) }
        }
        Layout::Lcs(LcsVersion::WithOperation) => {
            let kind = kind_of_lcs(record[16]).ok_or_else(|| no_operation(record[16].into()))?;
            of(kind, 0).with_whole_bytes(size.into())
        }
        Layout::Lcs(LcsVersion::WithTtl { .. }) => {
            let size = i64::from_le_bytes(number(record, 12));
            let size = u64::try_from(size).map_err(|_| format!("{size} bytes are not a size"))?;
            let kind = kind_of_lcs(record[20]).ok_or_else(|| no_operation(record[20].into()))?;
            of(kind, number_32(record, 24)).with_whole_bytes(size)
        }
    })
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(layout: Layout, input: R) -> Self {
        Self { layout, input, count: 0, is_over: false }
    }

    /// The records of an lcs, after its header.
    ///
    /// # Errors
    /// When it cannot be read, or has no valid header of a known version.
    pub(super) fn of_lcs(mut input: R) -> Result<Self, Fault> {
        let mut head = [0; LCS_HEAD_BYTES];
        input.read_exact(&mut head).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => {
                Fault::Broken { line: 1, what: "the lcs header is truncated".to_owned() }
            }
            _ => Fault::Io(error),
        })?;
        let version = lcs_version(&head).map_err(|what| Fault::Broken { line: 1, what })?;
        Ok(Self::new(Layout::Lcs(version), input))
    }

    /// Ends the trace with this fault.
    fn end(&mut self, fault: Fault) -> Option<Result<Requests, Fault>> {
        self.is_over = true;
        Some(Err(fault))
    }
}

impl<R: BufRead> Parts for Records<R> {
    fn next_part(&mut self) -> Option<Result<Requests, Fault>> {
        if self.is_over {
            return None;
        }
        match self.input.fill_buf() {
            Ok([]) => return None,
            Ok(_) => {}
            Err(error) => return self.end(Fault::Io(error)),
        }
        self.count += 1;
        let line = self.count;
        let mut record = [0; RECORD_BYTES_MAX];
        let record = &mut record[..self.layout.record_bytes()];
        match self.input.read_exact(record) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                let what = "the record is truncated".to_owned();
                return self.end(Fault::Broken { line, what });
            }
            Err(error) => return self.end(Fault::Io(error)),
        }
        let request = request(self.layout, record);
        Some(request.map(|request| vec![request]).map_err(|what| Fault::Broken { line, what }))
    }
}
