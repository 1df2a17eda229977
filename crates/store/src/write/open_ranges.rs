//! Range deletions without an end: the leader gives them one before they go to the log, so that
//! log, memtables and recovery know only ranges with an end.
//!
//! The end is behind every key of the keyspace at that moment. Nothing is written or ingested while
//! the leader commits, so a deletion of all keys leaves none of the keys that were written before
//! it. An earlier choice, by the caller, would miss a larger key that another writer puts in
//! between.

use std::collections::HashMap;

use crate::batch::{Operation, Operations, WriteBatch};
use crate::engine::Engine;
use crate::format::key::{Kind, cut_above};

impl Engine {
    /// `batches` with an end for each range deletion, without batches that delete nothing; `None` if
    /// all range deletions have an end. Only while leading.
    pub(super) fn with_ends(&self, batches: &[&WriteBatch]) -> Option<Vec<WriteBatch>> {
        if !batches.iter().any(|batch| batch.has_open_ranges()) {
            return None;
        }
        let ends = self.ends_of_open_ranges(batches);
        let closed = batches.iter().map(|batch| batch.with_ends(|id| &ends[&id]));
        Some(closed.filter(|batch| !batch.is_empty()).collect())
    }

    /// A short key behind all keys of each keyspace with a deletion that has no end.
    fn ends_of_open_ranges(&self, batches: &[&WriteBatch]) -> HashMap<u32, Vec<u8>> {
        let mut ends: HashMap<u32, Vec<u8>> = HashMap::new();
        for open in operations(batches).filter(|o| is_open(o)) {
            ends.entry(open.keyspace).or_insert_with(|| {
                let tree = self.trees.get(open.keyspace).expect("checked before it was queued");
                tree.view().keys_end()
            });
        }
        // Those that the batches put before it; others are newer and stay.
        for put in operations(batches).filter(|o| matches!(o.kind, Kind::Value | Kind::Expiring)) {
            if let Some(end) = ends.get_mut(&put.keyspace)
                && **end <= *put.key
            {
                *end = [put.key, &[0]].concat();
            }
        }
        let shortened = |(id, end): (u32, Vec<u8>)| {
            let mut short = Vec::new();
            cut_above(&end, 0, &mut short);
            (id, short)
        };
        ends.into_iter().map(shortened).collect()
    }
}

fn is_open(operation: &Operation<'_>) -> bool {
    operation.kind == Kind::RangeDelete && operation.payload.is_empty()
}

fn operations<'a>(batches: &[&'a WriteBatch]) -> impl Iterator<Item = Operation<'a>> {
    batches.iter().flat_map(|batch| Operations::new(batch.accepted()).flatten())
}
