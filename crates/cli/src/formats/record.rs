//! What all formats have in common: records, and how they are taken from a
//! stream and put into one.

use std::io::Write;

/// An entry on its way from or to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Milliseconds since 1970 at which it is gone.
    pub expires_at_ms: Option<u64>,
}

/// Why the next record cannot be had. The sentences name the place, not the
/// file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// This record is malformed; the next one may be fine.
    Bad(String),
    /// Nothing more can be read.
    Broken(String),
}

/// Takes records from a stream.
pub trait RecordReader {
    /// Goes to the next record; whether there is one. May be called again
    /// after [`ReadError::Bad`].
    fn advance(&mut self) -> Result<bool, ReadError>;

    /// The record that [`RecordReader::advance`] has gone to.
    fn record(&self) -> Record<'_>;

    /// Where that record stands, such as "line 7".
    fn place(&self) -> String;

    /// Bytes taken from the stream so far.
    fn bytes_read(&self) -> u64;
}

/// Puts records into a stream.
pub trait RecordWriter {
    /// Writes what stands before the first record.
    fn begin(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }

    /// Writes one record.
    fn write(&mut self, out: &mut dyn Write, record: Record<'_>) -> std::io::Result<()>;

    /// Writes what stands behind the last record.
    fn end(&mut self, _out: &mut dyn Write) -> std::io::Result<()> {
        Ok(())
    }
}
