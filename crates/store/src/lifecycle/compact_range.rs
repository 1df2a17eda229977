//! Compaction of a range of keys, in the caller's thread.

use std::sync::Arc;

use crate::compaction::picker;
use crate::engine::Engine;
use crate::error::Result;
use crate::format::LEVELS;
use crate::version::levels::TableHandle;
use crate::version::tree::Tree;

const LAST: usize = LEVELS - 1;

impl Engine {
    /// Compacts all tables that may hold keys of `[start, end)`, level by level
    /// to the deepest, in this thread.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let _gate = self.enter()?;
        for level in 0..LAST {
            self.compact_level(tree, level, start, end)?;
        }
        self.rewrite_last(tree, start, end)
    }

    fn compact_level(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        level: usize,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        // Only the current tables: under steady writes more keep coming. Meanwhile, tables of level
        // 0 may be merged into another table of level 0.
        let overlapping = |table: &&Arc<TableHandle>| table.overlaps(start, end);
        let (tables, newest): (Vec<u64>, _) = {
            // Dropped at once: it would keep the files of compacted tables alive.
            let version = tree.version();
            let found = || version.level(level).iter().filter(overlapping);
            let newest = found().map(|table| table.newest_sequence()).max();
            (found().map(|table| table.meta().id).collect(), newest)
        };
        loop {
            self.check_writable()?;
            let seen = self.jobs.progress();
            let is_left = |table: &Arc<TableHandle>| match level {
                0 => overlapping(&table) && Some(table.newest_sequence()) <= newest,
                _ => tables.contains(&table.meta().id),
            };
            if !tree.version().level(level).iter().any(is_left) {
                return Ok(());
            }
            let claimed = self.claim(tree, |version| {
                let output_level = match level {
                    0 => picker::targets(version, self.memory.base_bytes()).base_level,
                    _ => level + 1,
                };
                // Only the tables that are left, not newer ones before them, of which more would
                // keep coming.
                picker::pick_wanted(version, level, output_level, is_left)
            });
            match claimed {
                Some(compaction) => self.compact_here(tree, compaction)?,
                None => self.jobs.wait_for_progress(seen),
            }
        }
    }

    /// Rewrites tables of the last level that contain entries that no reader can see.
    fn rewrite_last(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let now_ms = self.clock.unix_ms();
        let has_garbage = |table: &&Arc<TableHandle>| {
            let meta = table.meta();
            let expired = meta.earliest_deadline_ms > 0 && meta.earliest_deadline_ms <= now_ms;
            meta.tombstones + meta.range_tombstones > 0
                || expired
                || meta.sequence_override == 0 && meta.largest_sequence > 0
        };
        let tables: Vec<u64> = tree
            .version()
            .level(LAST)
            .iter()
            .filter(|table| table.overlaps(start, end))
            .filter(has_garbage)
            .map(|table| table.meta().id)
            .collect();
        for id in tables {
            let rewrite = self.claim(tree, |version| {
                let table = version.level(LAST).iter().find(|table| table.meta().id == id)?;
                picker::rewrite(LAST, table)
            });
            if let Some(compaction) = rewrite {
                self.compact_here(tree, compaction)?;
            }
        }
        Ok(())
    }
}
