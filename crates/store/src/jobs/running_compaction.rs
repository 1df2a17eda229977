//! A compaction while it runs: its parts, and what it changes when it is installed.

use std::sync::Arc;

use crate::compaction::MergeCounts;
use crate::compaction::cache_invalidation::TrackedPointers;
use crate::compaction::output::Output;
use crate::compaction::picker::Compaction;
use crate::error::Result;
use crate::format::entry_location::RelocatedEntry;
use crate::format::files::table_name;
use crate::format::key::Sequence;
use crate::format::range_tombstones::RangeTombstones;
use crate::sync::Mutex;
use crate::sync::atomic::AtomicUsize;
use crate::version::levels::TableHandle;
use crate::version::manifest::{Change, Edit};
use crate::version::tree::Tree;

/// The result of a merge.
pub(crate) type Merged = Result<(Vec<Output>, MergeCounts)>;

/// A compaction that runs in parts.
pub(crate) struct Parts {
    pub(crate) compaction: Compaction,
    pub(crate) tree: Arc<Tree>,
    pub(crate) snapshots: Vec<Sequence>,
    pub(crate) tombstones: RangeTombstones,
    pub(crate) moves: TrackedPointers,
    pub(crate) borders: Vec<Box<[u8]>>,
    /// By part; `None` until the part has ended.
    pub(crate) outcomes: Mutex<Vec<Option<Merged>>>,
    pub(crate) running: AtomicUsize,
    pub(crate) started_ns: u64,
}

/// A compaction whose outputs are written.
pub(crate) struct Merge<'p> {
    pub(crate) parts: &'p Parts,
    /// The outputs with their level.
    pub(crate) added: Vec<(usize, Arc<TableHandle>)>,
    pub(crate) placed: Vec<RelocatedEntry>,
    pub(crate) counts: MergeCounts,
}

/// The names of the files whose tables are merged.
pub(crate) fn file_names(compaction: &Compaction) -> String {
    let names: Vec<String> = compaction.tables().map(|t| table_name(t.meta().file)).collect();
    names.join(", ")
}

impl Merge<'_> {
    /// The numbers of the inputs.
    pub(crate) fn removed(&self) -> Vec<u64> {
        self.parts.compaction.tables().map(|table| table.meta().id).collect()
    }

    /// Adds the change to `edit`.
    pub(crate) fn push_to(&self, edit: &mut Edit) {
        let (keyspace, compaction) = (self.parts.tree.id, &self.parts.compaction);
        let mut remove = |level: usize, table: &Arc<TableHandle>| {
            edit.push(Change::RemoveTable { keyspace, level: level as u8, id: table.meta().id });
        };
        compaction.inputs.iter().for_each(|table| remove(compaction.level, table));
        compaction.lower.iter().for_each(|table| remove(compaction.output_level, table));
        for (level, table) in &self.added {
            let table = table.shared_meta();
            edit.push(Change::AddTable { keyspace, level: *level as u8, table });
        }
    }
}
