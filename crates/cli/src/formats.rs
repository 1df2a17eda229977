//! The file formats of `import`, `export` and `scan`: each a reader and a
//! writer of records. All preserve every byte of keys and values.
//!
//! Modules, bottom-up.

pub mod record;
mod lines;
pub mod tsv;
pub mod jsonl;
mod binary;
#[cfg(test)]
mod tests;

use std::io::BufRead;

pub use record::{ReadError, Record, RecordLimits, RecordReader, RecordWriter};

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Lines `key<TAB>value`; tab, newline, carriage return and backslash as
    /// \t \n \r \\. Without expiry times.
    Tsv,
    /// Lines {"key": …, "value": …}; bytes that are not UTF-8 as key_base64
    /// and value_base64; expires_at_ms if the entry expires.
    Jsonl,
    /// Length-prefixed bytes, with a checksum at the end.
    Binary,
}

impl Format {
    /// Reads records of this format from `input`.
    pub fn reader<'a>(
        self,
        input: Box<dyn BufRead + 'a>,
        limits: RecordLimits,
    ) -> Box<dyn RecordReader + 'a> {
        match self {
            Self::Tsv => Box::new(tsv::TsvReader::new(input, limits)),
            Self::Jsonl => Box::new(jsonl::JsonlReader::new(input, limits)),
            Self::Binary => Box::new(binary::BinaryReader::new(input, limits)),
        }
    }

    /// Writes records in this format.
    pub fn writer(self) -> Box<dyn RecordWriter> {
        match self {
            Self::Tsv => Box::<tsv::TsvWriter>::default(),
            Self::Jsonl => Box::<jsonl::JsonlWriter>::default(),
            Self::Binary => Box::<binary::BinaryWriter>::default(),
        }
    }
}
