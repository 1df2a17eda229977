//! The binary format of `import` and `export`: any bytes, no escapes, and a
//! trailer that distinguishes a complete file from a truncated one.
//!
//! ```text
//! OFFSET  SIZE  MEANING                                  (little-endian)
//! 0       8     magic "TideRec1"; the last byte is the version
//! then, for each record:
//! 0       1     1: an entry; 2: an entry with an expiry time
//! 1       4     length of the key, 1 to 65536
//! 5       4     length of the value, at most 268435456
//! 9       8     only for 2: the expiry time, milliseconds since 1970
//! …       n     key, then value
//! and at the end:
//! 0       1     0: the end; nothing follows
//! 1       8     number of records
//! 9       8     XXH3-64 (seed 0) of all bytes of the file before this field
//! ```
//!
//! Values on disk: do not change.

use std::io::{BufRead, Read, Write};

use tidekv::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use xxhash_rust::xxh3::Xxh3;

use super::record::{ReadError, Record, RecordLimits, RecordReader, RecordWriter};

const MAGIC: [u8; 8] = *b"TideRec1";
const VERSION_AT: usize = 7;
const END: u8 = 0;
const ENTRY: u8 = 1;
const ENTRY_WITH_DEADLINE: u8 = 2;

/// Memory is allocated for bytes that were read, not for the announced length.
const PIECE_BYTES: u64 = 1 << 20;

/// Reads binary records.
pub struct BinaryReader<'a> {
    input: Box<dyn BufRead + 'a>,
    record_bytes_max: usize,
    hash: Xxh3,
    bytes_read: u64,
    records: u64,
    has_begun: bool,
    has_ended: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: Option<u64>,
}

impl<'a> BinaryReader<'a> {
    /// The records of `input`.
    pub fn new(input: Box<dyn BufRead + 'a>, limits: RecordLimits) -> Self {
        Self {
            input,
            record_bytes_max: limits.record_bytes,
            hash: Xxh3::new(),
            bytes_read: 0,
            records: 0,
            has_begun: false,
            has_ended: false,
            key: Vec::new(),
            value: Vec::new(),
            expires_at_ms: None,
        }
    }

    fn broken(&self, what: &str) -> ReadError {
        let (record, bytes) = (self.records, self.bytes_read);
        ReadError::Broken(format!("record {record} (before byte {bytes}) {what}"))
    }

    fn read<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                self.broken("is truncated: the file is incomplete")
            }
            _ => self.broken(&format!("cannot be read: {error}")),
        })?;
        self.bytes_read += N as u64;
        Ok(bytes)
    }

    fn read_hashed<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let bytes = self.read()?;
        self.hash.update(&bytes);
        Ok(bytes)
    }

    fn read_into(&mut self, len: u32, mut out: Vec<u8>) -> Result<Vec<u8>, ReadError> {
        out.clear();
        let mut left = u64::from(len);
        while left > 0 {
            let piece = left.min(PIECE_BYTES);
            let read = (&mut self.input).take(piece).read_to_end(&mut out);
            match read {
                Ok(bytes) if bytes as u64 == piece => {}
                Ok(_) => return Err(self.broken("is truncated: the file is incomplete")),
                Err(error) => return Err(self.broken(&format!("cannot be read: {error}"))),
            }
            self.bytes_read += piece;
            left -= piece;
        }
        self.hash.update(&out);
        Ok(out)
    }

    fn begin(&mut self) -> Result<(), ReadError> {
        let magic: [u8; 8] = self.read_hashed()?;
        self.has_begun = true;
        if magic == MAGIC {
            return Ok(());
        }
        Err(ReadError::Broken(match magic[..VERSION_AT] == MAGIC[..VERSION_AT] {
            true => "it was written by a newer version of TideKV: import it with that one".into(),
            false => "it is not in the binary format: use --format tsv or jsonl".into(),
        }))
    }

    fn end(&mut self) -> Result<(), ReadError> {
        self.has_ended = true;
        let count = u64::from_le_bytes(self.read_hashed()?);
        let digest = self.hash.digest();
        let expected = u64::from_le_bytes(self.read()?);
        if expected != digest || count != self.records {
            return Err(ReadError::Broken(format!(
                "checksum mismatch: one of its {} records is damaged",
                self.records
            )));
        }
        match self.input.fill_buf() {
            Ok([]) => Ok(()),
            _ => Err(self.broken("is the last, but more bytes follow")),
        }
    }
}

impl RecordReader for BinaryReader<'_> {
    fn advance(&mut self) -> Result<bool, ReadError> {
        if self.has_ended {
            return Ok(false);
        }
        if !self.has_begun {
            self.begin()?;
        }
        let [kind] = self.read_hashed()?;
        if kind == END {
            self.end()?;
            return Ok(false);
        }
        self.records += 1;
        if kind != ENTRY && kind != ENTRY_WITH_DEADLINE {
            return Err(self.broken(&format!("has the unknown kind {kind}")));
        }
        let key_len = u32::from_le_bytes(self.read_hashed()?);
        let value_len = u32::from_le_bytes(self.read_hashed()?);
        if key_len as usize > KEY_BYTES_MAX || value_len as usize > VALUE_BYTES_MAX {
            return Err(self.broken("exceeds the maximum length of a record"));
        }
        let (bytes, bytes_max) = (key_len as usize + value_len as usize, self.record_bytes_max);
        if bytes > bytes_max {
            return Err(self.broken(&format!(
                "has {bytes} bytes: with this memory budget the limit is {bytes_max} (raise --memory)"
            )));
        }
        self.expires_at_ms = match kind {
            ENTRY => None,
            _ => Some(u64::from_le_bytes(self.read_hashed()?)),
        };
        let (key, value) = (std::mem::take(&mut self.key), std::mem::take(&mut self.value));
        self.key = self.read_into(key_len, key)?;
        self.value = self.read_into(value_len, value)?;
        Ok(true)
    }

    fn record(&self) -> Record<'_> {
        Record { key: &self.key, value: &self.value, expires_at_ms: self.expires_at_ms }
    }

    fn place(&self) -> String {
        format!("record {}", self.records)
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}

/// Writes binary records.
pub struct BinaryWriter {
    hash: Xxh3,
    records: u64,
    head: Vec<u8>,
}

impl Default for BinaryWriter {
    fn default() -> Self {
        Self { hash: Xxh3::new(), records: 0, head: Vec::new() }
    }
}

impl BinaryWriter {
    fn put(&mut self, out: &mut dyn Write, bytes: &[u8]) -> std::io::Result<()> {
        self.hash.update(bytes);
        out.write_all(bytes)
    }
}

impl RecordWriter for BinaryWriter {
    fn begin(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        self.put(out, &MAGIC)
    }

    fn write(&mut self, out: &mut dyn Write, record: Record<'_>) -> std::io::Result<()> {
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        head.push(if record.expires_at_ms.is_some() { ENTRY_WITH_DEADLINE } else { ENTRY });
        let len =
            |bytes: &[u8]| u32::try_from(bytes.len()).expect("lengths are bounded").to_le_bytes();
        head.extend_from_slice(&len(record.key));
        head.extend_from_slice(&len(record.value));
        if let Some(deadline) = record.expires_at_ms {
            head.extend_from_slice(&deadline.to_le_bytes());
        }
        self.put(out, &head)?;
        self.head = head;
        self.put(out, record.key)?;
        self.put(out, record.value)?;
        self.records += 1;
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        self.put(out, &[END])?;
        self.put(out, &self.records.to_le_bytes())?;
        let digest = self.hash.digest();
        out.write_all(&digest.to_le_bytes())
    }
}
