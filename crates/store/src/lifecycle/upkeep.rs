//! What a user asks of a whole store or keyspace: flush, compact, ingest,
//! checkpoint, statistics.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidekv_cache::{CachePolicy, Name};

use crate::compaction::output::{Output, OutputOptions, Outputs};
use crate::compaction::picker;
use crate::engine::Engine;
use crate::engine::budget::MEMORY_BYTES_MIN;
use crate::error::{Error, ErrorKind, Result};
use crate::format::LEVELS;
use crate::format::files::table_path;
use crate::format::key::{KEY_BYTES_MAX, Kind, Trailer, VALUE_BYTES_MAX};
use crate::lifecycle::recovery::create_directory;
use crate::stats::Statistics;
use crate::sync::Mutex;
use crate::version::levels::{KeySpan, TableHandle, Version};
use crate::version::manifest::file::write_new;
use crate::version::manifest::{Change, Edit};
use crate::version::tree::Tree;
use crate::wal::LogPosition;
use crate::write::LogEnds;

const LAST: usize = LEVELS - 1;

impl Engine {
    /// Brings what `trees` hold in memory into tables.
    pub(crate) fn flush(self: &Arc<Self>, trees: &[Arc<Tree>]) -> Result<()> {
        let _gate = self.enter()?;
        self.queue.exclusive(|| self.rotate(trees, LogEnds::Now))?;
        self.wait_for_flush(trees)
    }

    /// Makes everything acknowledged durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let _gate = self.enter()?;
        self.queue.exclusive(|| match self.logs.lock().as_mut() {
            Some(logs) => logs.current.sync(),
            None => Ok(()),
        })
    }

    pub(crate) fn all_trees(&self) -> Vec<Arc<Tree>> {
        self.trees.load().values().cloned().collect()
    }

    // ---- Compaction of a range ----

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
        // Those that are there now: under steady writes more keep coming. Tables of
        // level 0 may be merged into another one of it meanwhile.
        let overlapping = |table: &&Arc<TableHandle>| table.overlaps(start, end);
        let (tables, newest): (Vec<u64>, _) = {
            // Not held on to: that would keep the files of what is compacted.
            let version = tree.version();
            let found = || version.level(level).iter().filter(overlapping);
            let newest = found().map(|table| table.newest_sequence()).max();
            (found().map(|table| table.meta().id).collect(), newest)
        };
        loop {
            self.check_open()?;
            let seen = *self.progress.0.lock();
            let is_left = |table: &Arc<TableHandle>| match level {
                0 => overlapping(&table) && Some(table.newest_sequence()) <= newest,
                _ => tables.contains(&table.meta().id),
            };
            if !tree.version().level(level).iter().any(is_left) {
                return Ok(());
            }
            let claimed = self.claim(tree, |version| {
                let output_level = match level {
                    0 => picker::targets(version, self.base_bytes()).base_level,
                    _ => level + 1,
                };
                // Not what has come since: in front of those that are left it would keep
                // coming.
                picker::pick_wanted(version, level, output_level, is_left)
            });
            match claimed {
                Some(compaction) => self.compact_here(tree, compaction)?,
                None => self.wait_for_progress(seen),
            }
        }
    }

    /// Rewrites tables of the last level that hold what nobody can see.
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
                picker::rewrite(table)
            });
            if let Some(compaction) = rewrite {
                self.compact_here(tree, compaction)?;
            }
        }
        Ok(())
    }

    // ---- Bulk ingest ----

    /// Writes sorted entries straight into tables, which become visible all at
    /// once. Returns how many there were.
    pub(crate) fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        deadline_ms: Option<u64>,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let _gate = self.enter()?;
        // What is ingested waits to be merged as what is written does.
        self.queue.exclusive(|| self.wait_for_merges())?;
        let made = Mutex::new(Vec::new());
        let ingested = self.write_ingest(tree, deadline_ms, sorted, &made);
        let ingested = ingested.and_then(|(outputs, count)| {
            if !outputs.is_empty() {
                self.queue.exclusive(|| self.install_ingest(tree, outputs))?;
            }
            Ok(count)
        });
        let count = ingested.inspect_err(|_| self.discard_tables(made.into_inner()))?;
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
        self.names.check()?;
        let next_table = || self.new_table(made);
        let options = self.output_options(tree, LAST, Vec::new(), &next_table);
        let options = OutputOptions { pacer: self.compaction_pacer(), ..options };
        let mut outputs = Outputs::new(options);
        let mut last: Option<Vec<u8>> = None;
        let mut count = 0u64;
        let mut expiring = Vec::new();
        for (key, value) in sorted {
            let (key, value) = (key.as_ref(), value.as_ref());
            check_ingested(last.as_deref(), key, value, count)?;
            // Sequence 0 in the file; the manifest gives the real one.
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
        self.names.sync()?;
        Ok((outputs, count))
    }

    /// Publishes ingested tables. Only while leading: nothing is written
    /// between the choice of the sequence and its becoming visible.
    fn install_ingest(self: &Arc<Self>, tree: &Arc<Tree>, outputs: Vec<Output>) -> Result<()> {
        self.check_open()?;
        let span = KeySpan {
            smallest: outputs[0].meta.smallest.clone(),
            largest: outputs[outputs.len() - 1].meta.largest.clone(),
        };
        // Memtables are asked before tables, so nothing of these keys may stay
        // in one.
        if tree.view().memtables().any(|memtable| memtable.may_touch(&span.smallest, &span.largest))
        {
            self.rotate(std::slice::from_ref(tree), LogEnds::Now)?;
            self.wait_for_flush(std::slice::from_ref(tree))?;
        }
        // The tables are durable; what was written before them must be too, or a
        // power cut would leave a hole.
        if let Some(logs) = self.logs.lock().as_mut() {
            // What was reported as failed may stand whole where the log is torn, and would
            // come back over what is ingested.
            if !logs.current.is_open() {
                self.switch_log(logs)?;
            }
            logs.current.sync()?;
        }
        let sequence = self.last_sequence.load(Ordering::Relaxed) + 1;
        let mut structure = self.structure.lock();
        let version = tree.version();
        let is_free = (0..LEVELS).all(|level| version.overlapping(level, &span).is_empty());
        // A compaction under way may be about to fill the gap.
        let level =
            if is_free && version.tables().all(|table| !table.is_busy()) { LAST } else { 0 };
        // Nobody sees the new versions yet: what is found until they are is not kept.
        let change = self.caches.point().begin_change();
        self.forget_span(tree, &version, &span);
        let mut edit = Edit::default();
        let mut added = Vec::new();
        for output in outputs {
            let mut meta = output.meta;
            meta.sequence_override = sequence;
            edit.push(Change::AddTable {
                keyspace: tree.id,
                level: level as u8,
                table: meta.clone(),
            });
            added.push((level, self.open_table(meta)?));
        }
        edit.push(Change::LastSequence(sequence));
        let committed = self.commit_tables(&mut structure, tree, edit, &[], &added);
        if committed.is_ok() {
            // Memtables do not know of these writes.
            tree.note_ingest(sequence);
            tree.install_tables(&[], &added);
        }
        // Used up either way: an edit that failed may have reached the disk, and
        // no later write may share its sequence.
        self.last_sequence.store(sequence, Ordering::Relaxed);
        self.visible.store(sequence, Ordering::Release);
        drop(change);
        committed
    }

    /// Has the point cache forget what it holds of the keys of `span`.
    fn forget_span(&self, tree: &Tree, version: &Version, span: &KeySpan) {
        let overlapping = (0..LEVELS).flat_map(|level| version.overlapping(level, span));
        let tables: HashSet<u64> = overlapping.map(|table| table.meta().id).collect();
        let is_in_span = |name: Name<'_>| {
            name.keyspace == tree.id && *span.smallest <= *name.key && *name.key <= *span.largest
        };
        self.caches.point().forget(is_in_span, |table| tables.contains(&table));
    }

    // ---- Checkpoint ----

    /// Makes a store of its own in `target` that holds what this one holds now:
    /// tables are shared by hard links. Writers wait meanwhile.
    pub(crate) fn checkpoint(self: &Arc<Self>, target: &Path) -> Result<()> {
        let _gate = self.enter()?;
        if self.storage.exists(target)? && !self.storage.list(target)?.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("{} is not empty: give a directory that does not exist", target.display()),
            ));
        }
        let (state, _keep) = self.queue.exclusive(|| {
            let trees = self.all_trees();
            self.rotate(&trees, LogEnds::Now)?;
            self.wait_for_flush(&trees)?;
            let structure = self.structure.lock();
            let mut state = structure.manifest.state().clone();
            let last = self.last_sequence.load(Ordering::Relaxed);
            state.last_sequence = last;
            state.min_log = 0;
            state.log_passed = LogPosition::default();
            state.keyspaces.values_mut().for_each(|keyspace| keyspace.flushed = last);
            // The versions keep their files in place until they are linked.
            let versions: Vec<_> = trees.iter().map(|tree| tree.version()).collect();
            Ok::<_, Error>((state, versions))
        })?;
        create_directory(&*self.storage, target, |parent| self.names.sync_in(parent))?;
        for id in state.table_ids() {
            self.storage.hard_link(&table_path(&self.directory, id), &table_path(target, id))?;
        }
        self.names.sync_in(target)?;
        write_new(&self.storage, target, state)
    }

    // ---- Memory and statistics ----

    /// Changes the budget; caches shrink at once, memtables as they are
    /// flushed.
    pub(crate) fn set_memory_bytes(self: &Arc<Self>, bytes: u64) {
        self.memory_bytes.store(bytes.max(MEMORY_BYTES_MIN), Ordering::Relaxed);
        self.after_install();
    }

    pub(crate) fn set_cache_bytes_max(self: &Arc<Self>, bytes: u64) {
        self.cache_bytes_max.store(bytes, Ordering::Relaxed);
        self.after_install();
    }

    pub(crate) fn set_cache_policy(&self, policy: CachePolicy) {
        self.caches.set_policy(policy);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let stats = &self.stats;
        let mut counters = vec![
            ("store.gets", stats.gets.get()),
            ("store.writes", stats.writes.get()),
            ("store.write_bytes", stats.write_bytes.get()),
            ("store.write_groups", stats.write_groups.get()),
            ("store.conflicts", stats.conflicts.get()),
            ("store.stall_ns", stats.stall_ns.get()),
            ("store.last_sequence", self.visible()),
            ("log.bytes", stats.log_bytes.get()),
            ("log.syncs", stats.log_syncs.get()),
            ("flush.count", stats.flushes.get()),
            ("flush.bytes", stats.flush_bytes.get()),
            ("compaction.count", stats.compactions.get()),
            ("compaction.moves", stats.compaction_moves.get()),
            ("compaction.for_seeks", stats.seek_compactions.get()),
            ("compaction.read_bytes", stats.compaction_read_bytes.get()),
            ("compaction.write_bytes", stats.compaction_write_bytes.get()),
            ("compaction.entries_dropped", stats.entries_dropped.get()),
            ("compaction.entries_expired", stats.entries_expired.get()),
            ("background.errors", stats.background_errors.get()),
            ("warm.blocks", stats.warm_blocks.get()),
            ("warm.values", stats.warm_values.get()),
            ("warm.pointers", stats.warm_pointers.get()),
            ("memory.budget_bytes", self.memory_bytes.load(Ordering::Relaxed)),
            ("memory.memtable_bytes", self.memtables_bytes()),
            ("memory.metadata_bytes", self.metadata_bytes.load(Ordering::Relaxed) as u64),
            ("memory.cache_bytes", self.caches.charged_bytes() as u64),
            ("memory.cache_bytes_max", self.caches.budget() as u64),
        ];
        counters.extend(self.blocks.counters());
        let (mut filters, mut learned) = (0, self.blocks.unlearning().charge() as u64);
        for table in self.open_tables() {
            filters += table.filter_bytes();
            learned += table.learned().charge() as u64;
        }
        counters.extend([("filter.bytes", filters), ("filter.learned_bytes", learned)]);
        for (level, (tables, bytes)) in LEVEL_NAMES.iter().enumerate() {
            let versions: Vec<_> = self.all_trees().iter().map(|tree| tree.version()).collect();
            counters.push((tables, versions.iter().map(|v| v.level(level).len() as u64).sum()));
            counters.push((bytes, versions.iter().map(|v| v.level_bytes(level)).sum()));
        }
        let histograms = vec![
            ("get", stats.get_ns.counts()),
            ("write", stats.write_ns.counts()),
            ("flush", stats.flush_ns.counts()),
            ("compaction", stats.compaction_ns.counts()),
        ];
        let latencies = histograms.iter().map(|(name, counts)| (*name, counts.summary())).collect();
        Statistics { counters, latencies, histograms }
    }
}

const LEVEL_NAMES: [(&str, &str); LEVELS] = [
    ("level0.tables", "level0.bytes"),
    ("level1.tables", "level1.bytes"),
    ("level2.tables", "level2.bytes"),
    ("level3.tables", "level3.bytes"),
    ("level4.tables", "level4.bytes"),
    ("level5.tables", "level5.bytes"),
    ("level6.tables", "level6.bytes"),
];

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
