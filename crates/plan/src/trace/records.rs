//! Binary traces of libCacheSim: records of one length, little-endian.
//!
//! ```text
//! ORACLE  TWR     MEANING
//! 0..4    0..4    seconds
//! 4..12   4..12   object
//! 12..16  12..16  its size in bytes; of twr the lower 22 bits are that of the value, the others of the key
//! 16..24          number of the next request for it (not read)
//!         16..20  the lower 24 bits are the time to live in seconds, the others the operation
//! ```

use std::io::{BufRead, ErrorKind};

use super::request::{Fault, Kind, Parts, Request, Requests};

/// What a record looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Oracle,
    Twr,
}

impl Layout {
    fn record_bytes(self) -> usize {
        match self {
            Self::Oracle => 24,
            Self::Twr => 20,
        }
    }
}

const RECORD_BYTES_MAX: usize = 24;
/// Records of the beginning that are looked at.
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

/// Whether bytes look like records of [`Layout::Oracle`]: times that rise, and no text.
pub(super) fn is_begun(head: &[u8]) -> bool {
    let records: Vec<&[u8]> = head.chunks_exact(RECORD_BYTES_MAX).take(LOOKED_AT).collect();
    let is_binary = head.iter().take(RECORD_BYTES_MAX * LOOKED_AT).any(|byte| *byte == 0);
    let times = records.iter().map(|record| number_32(record, 0));
    is_binary && !records.is_empty() && times.is_sorted()
}

/// What an operation of twr asks for: get, gets, set, add, cas, replace, append, prepend, delete,
/// incr, decr, from 1.
fn kind_of(operation: u32) -> Option<Kind> {
    match operation {
        1 | 2 => Some(Kind::Get),
        3..=8 | 10 | 11 => Some(Kind::Put),
        9 => Some(Kind::Delete),
        _ => None,
    }
}

fn request(layout: Layout, record: &[u8]) -> Result<Request, String> {
    let seconds = Some(f64::from(number_32(record, 0)));
    let size = number_32(record, 12);
    let object = number::<8>(record, 4);
    if layout == Layout::Oracle {
        let value_bytes = Some(u64::from(size).saturating_sub(object.len() as u64));
        return Ok(Request { seconds, value_bytes, ..Request::new(Kind::Get, object) });
    }
    let last = number_32(record, 16);
    let (operation, ttl) = (last >> TTL_BITS, last & ((1 << TTL_BITS) - 1));
    let kind = kind_of(operation).ok_or_else(|| format!("{operation} is no operation"))?;
    let (key_bytes, value_bytes) = (size >> VALUE_BITS, size & ((1 << VALUE_BITS) - 1));
    // Of the key there is only a number.
    let value_bytes = u64::from(key_bytes + value_bytes).saturating_sub(object.len() as u64);
    Ok(Request {
        seconds,
        value_bytes: Some(value_bytes),
        ttl_seconds: Some(u64::from(ttl)).filter(|ttl| *ttl > 0),
        ..Request::new(kind, object)
    })
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(layout: Layout, input: R) -> Self {
        Self { layout, input, count: 0, is_over: false }
    }

    /// Nothing comes behind that.
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
                let what = "the record is cut off".to_owned();
                return self.end(Fault::Broken { line, what });
            }
            Err(error) => return self.end(Fault::Io(error)),
        }
        let request = request(self.layout, record);
        Some(request.map(|request| vec![request]).map_err(|what| Fault::Broken { line, what }))
    }
}
