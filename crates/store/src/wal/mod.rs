//! The log: records in checksummed frames, appended to one file after another.
//! The write-ahead log and the manifest are both logs.
//!
//! What a log promises: a record that was appended and synced comes back whole
//! and in order; of those that were only appended a prefix comes back; damage
//! is told from a torn end ([`reader`]).

pub(crate) mod names;

pub(crate) mod format;
pub(crate) mod writer;
pub(crate) mod reader;
#[cfg(test)]
mod tests;

pub(crate) use format::LogPosition;
pub(crate) use reader::{Ending, LogReader, begins_with_a_frame, damage_of_torn};
pub(crate) use writer::LogWriter;
