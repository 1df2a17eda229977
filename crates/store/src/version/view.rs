//! The memtables and tables of a keyspace at one moment.
//!
//! A [`View`] is immutable except for insertions into its active memtable. A read takes the view
//! first and the visible sequence afterwards: the view then contains every version that the
//! sequence may see, because any job that dropped older versions before the view was made kept
//! those for later readers.

use std::sync::Arc;

use crate::memtable::Memtable;
use crate::version::levels::Version;

/// The parts of a keyspace at one moment.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// The active memtable.
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

    /// The first key after all keys of memtables and tables; empty if they have none.
    pub(crate) fn keys_end(&self) -> Vec<u8> {
        let largest = self.memtables().filter_map(|memtable| memtable.key_range());
        let in_memtables = largest.map(|(_, key)| [key, &[0]].concat());
        let in_tables = self.version.tables().map(|table| table.keys_end());
        in_memtables.chain(in_tables).max().unwrap_or_default()
    }
}
