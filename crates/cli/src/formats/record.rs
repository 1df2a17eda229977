//! The common part of all formats: records, and the traits that read them from
//! and write them to a stream.

use std::io::Write;

/// An entry of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Expiry time, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
}

/// Why the next record cannot be read. The sentences name the position, not the
/// file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// This record is malformed; the next one may be fine.
    Bad(String),
    /// Nothing more can be read.
    Broken(String),
}

/// How much memory a record may take while it is read.
#[derive(Debug, Clone, Copy)]
pub struct RecordLimits {
    /// Maximum bytes of a record: key and value.
    pub record_bytes: usize,
    /// Maximum bytes of a line that holds a record as text, with its escapes.
    pub line_bytes: usize,
}

impl RecordLimits {
    /// The limits for a memory budget, which must also hold the record in a batch and in a memtable:
    /// an eighth of it for a record, a quarter for a line.
    pub fn of_budget(bytes: u64) -> Self {
        let part = |divisor| usize::try_from(bytes / divisor).unwrap_or(usize::MAX);
        Self { record_bytes: part(8), line_bytes: part(4) }
    }
}

/// Reads records from a stream.
pub trait RecordReader {
    /// Advances to the next record; false at the end. May be called again
    /// after [`ReadError::Bad`].
    fn advance(&mut self) -> Result<bool, ReadError>;

    /// The record to which [`RecordReader::advance`] has advanced.
    fn record(&self) -> Record<'_>;

    /// The position of that record, such as "line 7".
    fn place(&self) -> String;

    /// Bytes read from the stream so far.
    fn bytes_read(&self) -> u64;
}

/// Writes records to a stream.
pub trait RecordWriter {
    /// Writes the header of the format.
    fn begin(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// Writes one record.
    fn write(&mut self, out: &mut dyn Write, record: Record<'_>) -> std::io::Result<()>;

    /// Writes the trailer of the format.
    fn end(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }
}
