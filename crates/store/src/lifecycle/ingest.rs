//! Bulk ingest: sorted entries become tables without going through the log and memtables.
//!
//! Guarantee: all of them become visible at once, with one sequence that is newer than every
//! earlier write.

use std::collections::HashSet;
use std::sync::Arc;

use tidekv_cache::Name;

use crate::compaction::output::{Output, OutputOptions, Outputs};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::LEVELS;
use crate::format::key::{KEY_BYTES_MAX, Kind, Trailer, VALUE_BYTES_MAX};
use crate::sync::Mutex;
use crate::version::levels::{KeySpan, Version};
use crate::version::manifest::{Change, Edit};
use crate::version::tree::Tree;
use crate::write::rotation::LogEnds;

const LAST: usize = LEVELS - 1;

impl Engine {
    /// Writes sorted entries straight into tables, which become visible all at once. Returns the
    /// number of entries.
    pub(crate) fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        deadline_ms: Option<u64>,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let _gate = self.enter()?;
        tree.check_writable()?;
        // An ingest is subject to the same write stalls as writes.
        self.queue.exclusive(|| self.wait_for_merges())?;
        let made = Mutex::new(Vec::new());
        let ingested = self.write_ingest(tree, deadline_ms, sorted, &made);
        let ingested = ingested.and_then(|(outputs, count)| {
            if !outputs.is_empty() {
                self.queue.exclusive(|| self.install_ingest(tree, outputs))?;
            }
            Ok(count)
        });
        let count = ingested.inspect_err(|_| self.trees.discard_tables(made.into_inner()))?;
        if count > 0 {
            self.after_install();
            self.schedule_compactions();
            self.expect_quiet(0);
        }
        Ok(count)
    }

    fn write_ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        deadline_ms: Option<u64>,
        sorted: impl IntoIterator<Item = (K, V)>,
        made: &Mutex<Vec<u64>>,
    ) -> Result<(Vec<Output>, u64)> {
        self.logs.names().check()?;
        let next_table = || self.trees.new_table(made);
        let options = self.output_options(tree, LAST, Vec::new(), &next_table);
        let options = OutputOptions { pacer: self.compaction_pacer(), ..options };
        let mut outputs = Outputs::new(options);
        let mut last: Option<Vec<u8>> = None;
        let mut count = 0u64;
        let mut expiring = Vec::new();
        for (key, value) in sorted {
            let (key, value) = (key.as_ref(), value.as_ref());
            check_ingested(last.as_deref(), key, value, count)?;
            // Sequence 0 in the file; the manifest has the real one.
            match deadline_ms {
                None => {
                    let trailer = Trailer::new(0, Kind::Value);
                    outputs.add(key, trailer, value, None, &*self.clock)?;
                }
                Some(deadline) => {
                    expiring.clear();
                    expiring.extend_from_slice(&deadline.to_le_bytes());
                    expiring.extend_from_slice(value);
                    let trailer = Trailer::new(0, Kind::Expiring);
                    outputs.add(key, trailer, &expiring, None, &*self.clock)?;
                }
            }
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            count += 1;
        }
        let outputs = outputs.finish()?;
        self.logs.names().sync()?;
        Ok((outputs, count))
    }

    /// Publishes ingested tables. Only while leading: nothing is written between the choice of the
    /// sequence and the moment it becomes visible.
    fn install_ingest(self: &Arc<Self>, tree: &Arc<Tree>, outputs: Vec<Output>) -> Result<()> {
        self.jobs.check_open()?;
        tree.check_writable()?;
        let span = KeySpan {
            smallest: outputs[0].meta.smallest.clone(),
            largest: outputs[outputs.len() - 1].meta.largest.clone(),
        };
        // Memtables are searched before tables, so none may contain entries of these keys.
        if tree.view().memtables().any(|memtable| memtable.may_touch(&span.smallest, &span.largest))
        {
            self.rotate(std::slice::from_ref(tree), LogEnds::Now)?;
            self.wait_for_flush(std::slice::from_ref(tree))?;
        }
        // The tables are durable; earlier writes must be durable too, or a power cut would leave a
        // hole.
        self.make_log_durable()?;
        let sequence = self.snapshots.last_sequence() + 1;
        let mut structure = self.trees.structure();
        let version = tree.version();
        let is_free = (0..LEVELS).all(|level| version.overlapping(level, &span).is_empty());
        // A running compaction may be about to fill the gap.
        let level =
            if is_free && version.tables().all(|table| !table.is_busy()) { LAST } else { 0 };
        // The new versions are not visible yet: values that are read until they are must not be
        // cached.
        let change = self.memory.caches().point().begin_change();
        self.forget_span(tree, &version, &span);
        let mut edit = Edit::default();
        let mut added = Vec::new();
        for output in outputs {
            let mut meta = output.meta;
            meta.sequence_override = sequence;
            let meta = Arc::new(meta);
            edit.push(Change::AddTable {
                keyspace: tree.id,
                level: level as u8,
                table: Arc::clone(&meta),
            });
            added.push((level, self.open_table(meta)?));
        }
        edit.push(Change::LastSequence(sequence));
        let committed = self.trees.commit(&mut structure, tree, edit, &[], &added);
        if matches!(committed, Ok(true)) {
            // Memtables do not contain these writes.
            tree.note_ingest(sequence);
            tree.install_tables(&[], &added);
        }
        // Used up either way: an edit that failed may have reached the disk, and no later write may
        // share its sequence.
        self.snapshots.use_up_to(sequence);
        self.snapshots.publish(sequence);
        drop(change);
        if committed? { Ok(()) } else { tree.check_exists() }
    }

    /// Removes the entries for the keys of `span` from the point cache.
    fn forget_span(&self, tree: &Tree, version: &Version, span: &KeySpan) {
        let overlapping = (0..LEVELS).flat_map(|level| version.overlapping(level, span));
        let tables: HashSet<u64> = overlapping.map(|table| table.meta().id).collect();
        let is_in_span = |name: Name<'_>| {
            name.keyspace == tree.id && *span.smallest <= *name.key && *name.key <= *span.largest
        };
        self.memory.caches().point().forget(is_in_span, |table| tables.contains(&table));
    }
}

fn check_ingested(last: Option<&[u8]>, key: &[u8], value: &[u8], count: u64) -> Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let len = key.len();
        return Err(Error::invalid(format!(
            "key {count} has {len} bytes; 1 to {KEY_BYTES_MAX} are allowed"
        )));
    }
    if value.len() > VALUE_BYTES_MAX {
        let len = value.len();
        return Err(Error::invalid(format!(
            "value {count} has {len} bytes; the most is {VALUE_BYTES_MAX}"
        )));
    }
    if last.is_some_and(|last| last >= key) {
        return Err(Error::invalid(format!("key {count} is not greater than the key before it")));
    }
    Ok(())
}
