//! What a keyspace consists of at one moment.
//!
//! A [`View`] is immutable but for insertions into its active memtable. A read
//! takes the view first and the visible sequence afterwards: then every
//! version that the sequence may see is in the view, because whatever dropped
//! older versions before the view was made kept those for later readers.

use std::sync::Arc;

use crate::memtable::Memtable;
use crate::version::levels::Version;

/// The parts of a keyspace at one moment.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Takes the writes.
    pub(crate) memtable: Arc<Memtable>,
    /// Full memtables that wait for their flush, newest first.
    pub(crate) immutables: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
}

impl View {
    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.memtable).chain(&self.immutables)
    }
}
