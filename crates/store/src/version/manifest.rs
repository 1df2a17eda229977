//! The manifest: what the store consists of (keyspaces, tables and their
//! levels, which logs still count), as a log of edits.
//!
//! [`edit`] is the format, [`state`] what the edits add up to, [`file`] how
//! they get to stable storage.

pub(crate) mod edit;
pub(crate) mod state;
pub(crate) mod file;
#[cfg(test)]
mod tests;

pub(crate) use edit::{Change, Edit, TableMeta};
pub(crate) use file::Manifest;
pub(crate) use state::{KeyspaceState, State};
