//! What a group of writes deletes.

use std::sync::Arc;

use crate::batch::{Operations, WriteBatch};
use crate::format::key::Kind;
use crate::version::tree::Tree;

/// The deletions of a group.
#[derive(Default)]
pub(super) struct Deletions {
    pub(super) has_any: bool,
    /// The keyspaces in which a range with whole tables was deleted.
    pub(super) emptied: Vec<Arc<Tree>>,
}

impl Deletions {
    #[inline]
    pub(super) fn note(&mut self, kind: Kind, tree: &Arc<Tree>, key: &[u8], payload: &[u8]) {
        if !matches!(kind, Kind::Delete | Kind::RangeDelete) {
            return;
        }
        self.has_any = true;
        let is_new = || !self.emptied.iter().any(|other| other.id == tree.id);
        let holds_tables = || tree.view().version.has_table_between(key, payload);
        if kind == Kind::RangeDelete && is_new() && holds_tables() {
            self.emptied.push(Arc::clone(tree));
        }
    }
}

/// Whether there are operations, and all of them delete.
pub(super) fn all_delete(batches: &[&WriteBatch]) -> bool {
    let deletes = |batch: &&WriteBatch| {
        let mut operations = Operations::new(batch.encoded().unwrap_or_default()).flatten();
        !batch.is_empty() && operations.all(|o| matches!(o.kind, Kind::Delete | Kind::RangeDelete))
    };
    batches.iter().all(deletes)
}

/// Whether all of them delete nothing but ranges.
pub(super) fn delete_ranges(batches: &[&WriteBatch]) -> bool {
    let is_of_ranges = |batch: &&WriteBatch| {
        let mut operations = Operations::new(batch.encoded().unwrap_or_default()).flatten();
        operations.all(|operation| operation.kind == Kind::RangeDelete)
    };
    batches.iter().all(is_of_ranges)
}
