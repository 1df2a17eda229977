//! The log: records in checksummed frames, appended to one file after another.
//! The write-ahead log and the manifest are both logs.
//!
//! Guarantees: a record that was appended and synced is read back whole and in order; of records
//! that were only appended, a prefix is read back; damage is distinguished from a torn tail
//! ([`reader`]).

pub(crate) mod names;

pub(crate) mod format;
pub(crate) mod writer;
pub(crate) mod reader;
#[cfg(test)]
mod tests;

pub(crate) use format::LogPosition;
pub(crate) use reader::{Ending, LogReader, begins_with_a_frame, damage_of_torn};
pub(crate) use writer::{FRAMES_BYTES, LogWriter};
