//! The manifest: the contents of the store (keyspaces, tables and their levels, the first required
//! log), as a log of edits.
//!
//! [`edit`] is the format, [`state`] the sum of the edits, [`file`] writes them to stable storage.

pub(crate) mod edit;
pub(crate) mod state;
pub(crate) mod file;
#[cfg(test)]
mod tests;

pub(crate) use edit::{Change, Edit, TableMeta};
pub(crate) use file::Manifest;
pub(crate) use state::{KEYSPACE_MAX, KeyspaceState, State};
