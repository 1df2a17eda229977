//! Compactions as jobs: picked under the structure lock, split into parts that run in parallel, and
//! installed by the part that ends last.
//!
//! Guarantees: a table is read by one compaction at a time (its busy flag); the inputs stay in the
//! view until the outputs are in the manifest; a failed compaction changes nothing.

use std::sync::Arc;
use std::time::Duration;

use tidekv_cache::Ablation;
use tidekv_io::Priority;

use crate::compaction::cache_invalidation::{self, CacheInvalidation, TrackedPointers};
use crate::compaction::hot_block_carryover::{HotBlockCarryover, Rule};
use crate::compaction::output::{Output, OutputOptions, Outputs};
use crate::compaction::picker::{self, Compaction, PickerOptions, Trigger};
use crate::compaction::reclaim_watch::QUIET;
use crate::compaction::{LevelsBelow, MergeCounts, MergePlan, merge_tables};
use crate::engine::Engine;
use crate::engine::job_state::JobKind;
use crate::error::{ErrorKind, Result};
use crate::format::LEVELS;
use crate::format::entry_location::RelocatedEntry;
use crate::format::files::table_name;
use crate::format::key::Sequence;
use crate::format::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::jobs::background::guarded;
use crate::jobs::give_way::GiveWay;
use crate::jobs::table_dropper::RETRY_AFTER_FAILURE;
use crate::read::merge::{Child, MergingCursor};
use crate::read::run_cursor::{RunCursor, Tables};
use crate::sst::table::Reading;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::version::levels::{TableHandle, Version};
use crate::version::manifest::{Change, Edit};
use crate::version::tree::Tree;

/// The minimum size of a part of a compaction: `TABLES_PER_PART` tables, or `PART_BYTES` where
/// tables are large. That is some ten milliseconds of work.
const TABLES_PER_PART: u64 = 2;
const PART_BYTES: u64 = 8 << 20;

/// The result of a merge.
type Merged = Result<(Vec<Output>, MergeCounts)>;

/// A compaction that runs in parts.
struct Parts {
    compaction: Compaction,
    tree: Arc<Tree>,
    snapshots: Vec<Sequence>,
    tombstones: RangeTombstones,
    moves: TrackedPointers,
    borders: Vec<Box<[u8]>>,
    /// By part; `None` until the part has ended.
    outcomes: Mutex<Vec<Option<Merged>>>,
    running: AtomicUsize,
    started_ns: u64,
}

impl Engine {
    pub(crate) fn picker_options(&self, tree: &Tree) -> PickerOptions {
        let options = tree.options();
        PickerOptions {
            base_bytes: self.memory.base_bytes(),
            table_bytes: self.options.table_bytes,
            last_differs: options.compression != options.compression_last,
        }
    }

    /// Starts compactions while some are needed and threads are free.
    pub(crate) fn schedule_compactions(self: &Arc<Self>) {
        let trees: Vec<Arc<Tree>> = self.trees.all();
        for tree in trees {
            while self.jobs.compactions_running() < self.executor.parallelism() {
                let picked = self.pick(&tree, |v| picker::pick(v, self.picker_options(&tree)));
                let Some(compaction) = picked else { break };
                self.start_compaction(&tree, compaction);
                // A failed compaction is retried once per call, not forever.
                if self.jobs.has_compaction_failed() {
                    return;
                }
            }
        }
    }

    /// Called when a scan begins: schedules a check for merges that seeks have paid for, if one is
    /// due.
    pub(crate) fn expect_seeks(self: &Arc<Self>) {
        let may = self.options.research.seek_compactions && !self.options.read_only;
        if !may || !self.jobs.seek_work().begin() {
            return;
        }
        let engine = Arc::downgrade(self);
        let look = move || {
            if let Some(engine) = engine.upgrade() {
                engine.look_at_seeks();
            }
        };
        self.executor.execute(Priority::Low, Box::new(look));
    }

    /// Starts a merge that the seeks of scans have paid for, if there is one and no other
    /// compaction is running or needed.
    fn look_at_seeks(self: &Arc<Self>) {
        match guarded(|| Ok(self.pick_for_seeks())) {
            Ok(Some((tree, compaction))) => {
                self.stats.seek_compactions.add(1);
                self.start_compaction(&tree, compaction);
            }
            Ok(None) | Err(_) => self.jobs.seek_work().end(),
        }
    }

    fn pick_for_seeks(&self) -> Option<(Arc<Tree>, Compaction)> {
        let trees = self.trees.all();
        let is_needed =
            |tree: &Arc<Tree>| picker::pick(&tree.version(), self.picker_options(tree)).is_some();
        if self.jobs.compactions_running() > 0 || trees.iter().any(is_needed) {
            return None;
        }
        trees.into_iter().find_map(|tree| {
            let options = self.picker_options(&tree);
            let is_paid = |version: &Version| picker::pick_for_seeks(version, options);
            // Usually there is none, and then the structure lock is not taken.
            is_paid(&tree.version())?;
            let compaction =
                self.pick(&tree, |version| is_paid(version).inspect(Compaction::spend_seek_bytes))?;
            Some((tree, Compaction { trigger: Trigger::Seeks, ..compaction }))
        })
    }

    /// Schedules a compaction that was picked.
    pub(crate) fn start_compaction(self: &Arc<Self>, tree: &Arc<Tree>, compaction: Compaction) {
        let (engine, tree) = (Arc::clone(self), Arc::clone(tree));
        let job = move || engine.begin_compaction(&tree, compaction);
        self.executor.execute(Priority::Low, Box::new(job));
    }

    /// Records that level 0 has changed, and that `bytes` were added to it: it is compacted when it
    /// stays unchanged for a while.
    pub(crate) fn expect_quiet(self: &Arc<Self>, bytes: u64) {
        if let Some(delay) = self.jobs.idle().note_change(bytes, self.clock.monotonic_ns()) {
            self.look_later(delay);
        }
    }

    fn look_later(self: &Arc<Self>, delay: Duration) {
        // A scheduled check does not keep a store open.
        let engine = Arc::downgrade(self);
        let look = move || {
            if let Some(engine) = engine.upgrade() {
                engine.look_for_quiet();
            }
        };
        self.executor.execute_later(delay, Box::new(look));
    }

    fn look_for_quiet(self: &Arc<Self>) {
        if let Some(delay) = self.jobs.idle().look(self.clock.monotonic_ns()) {
            return self.look_later(delay);
        }
        let trees: Vec<Arc<Tree>> = self.trees.all();
        for tree in trees {
            let options = self.picker_options(&tree);
            let picked = self.pick(&tree, |version| {
                let spare = self.jobs.idle().spare_bytes();
                let picked = picker::pick_idle(version, options, spare)?;
                self.jobs.idle().spend(picked.cost_bytes());
                Some(picked)
            });
            if let Some(compaction) = picked {
                self.start_compaction(&tree, compaction);
            }
        }
        self.expect_dead_data(Duration::ZERO);
    }

    /// Picks a compaction for a background job and counts it as running, both under the structure
    /// lock: the thread that closes the store takes that lock once, and then either sees the job or
    /// knows that none will start (`Engine::stop_background`).
    pub(crate) fn pick(
        &self,
        tree: &Tree,
        pick: impl FnOnce(&Version) -> Option<Compaction>,
    ) -> Option<Compaction> {
        self.claim(tree, |version| {
            let is_open = !self.jobs.is_closed();
            let compaction = is_open.then(|| pick(version)).flatten()?;
            self.jobs.compaction_begins();
            Some(compaction)
        })
    }

    /// Picks a compaction and marks its tables, so that no other compaction takes them.
    pub(crate) fn claim(
        &self,
        tree: &Tree,
        pick: impl FnOnce(&Version) -> Option<Compaction>,
    ) -> Option<Compaction> {
        let _structure = self.trees.structure();
        let compaction = pick(&tree.version())?;
        compaction.tables().for_each(|table| table.set_busy(true));
        Some(compaction)
    }

    /// Runs a compaction: a move at once, a merge in parts, each part as a job. The part that ends
    /// last installs the result.
    fn begin_compaction(self: &Arc<Self>, tree: &Arc<Tree>, compaction: Compaction) {
        let parts = Arc::new(self.plan_parts(tree, compaction));
        if parts.compaction.is_move {
            let outcome = guarded(|| self.install_move(&parts));
            self.end_compaction(parts, outcome);
            return;
        }
        for part in 1..=parts.borders.len() {
            let (engine, parts) = (Arc::clone(self), Arc::clone(&parts));
            let job = move || engine.run_part(parts, part);
            self.executor.execute(Priority::Low, Box::new(job));
        }
        self.run_part(parts, 0);
    }

    /// Runs a whole compaction in this thread.
    pub(crate) fn compact_here(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        compaction: Compaction,
    ) -> Result<()> {
        let mut parts = self.plan_parts(tree, compaction);
        parts.borders.clear();
        parts.outcomes = Mutex::new(vec![None]);
        let outcome = guarded(|| {
            let (outputs, counts) = self.merge_part(&parts, 0)?;
            self.install_or_discard(&parts, outputs, counts)
        });
        parts.compaction.tables().for_each(|table| table.set_busy(false));
        drop(parts);
        self.remove_obsolete_tables();
        self.jobs.signal_progress();
        outcome
    }

    fn plan_parts(&self, tree: &Arc<Tree>, compaction: Compaction) -> Parts {
        let snapshots = self.snapshots.sequences();
        let tombstones: Vec<RangeTombstone> = compaction
            .tables()
            .flat_map(|t| t.range_tombstones().tombstones().collect::<Vec<_>>())
            .collect();
        // One that gives way to users takes one thread.
        let is_whole = compaction.is_move || matches!(compaction.trigger, Trigger::Space { .. });
        let borders = if is_whole { Vec::new() } else { self.borders(&compaction) };
        let follows =
            !compaction.is_move && !self.memory.caches().policy().disables(Ablation::Repair);
        let moves = match follows {
            false => TrackedPointers::default(),
            true => {
                let inputs: Vec<u64> = compaction.tables().map(|t| t.meta().id).collect();
                let pointers_max =
                    self.memory.caches().budget() / cache_invalidation::BUDGET_PER_POINTER;
                TrackedPointers::of(self.memory.caches().point(), &inputs, pointers_max)
            }
        };
        Parts {
            moves,
            tree: Arc::clone(tree),
            tombstones: RangeTombstones::newest(&tombstones, &snapshots),
            snapshots,
            outcomes: Mutex::new((0..=borders.len()).map(|_| None).collect()),
            running: AtomicUsize::new(borders.len() + 1),
            borders,
            compaction,
            started_ns: self.clock.monotonic_ns(),
        }
    }

    /// The keys at which a compaction is split into parts that can run in parallel.
    fn borders(&self, compaction: &Compaction) -> Vec<Box<[u8]>> {
        let part_bytes = (TABLES_PER_PART * self.options.table_bytes).clamp(1, PART_BYTES);
        let worth = compaction.input_bytes() / part_bytes;
        let parts = worth.min(self.executor.parallelism() as u64) as usize;
        // Level 0 gets one table: several would be several sorted runs to search.
        let may_split = compaction.output_level > 0 && !self.executor.is_inline();
        if parts < 2 || !may_split {
            return Vec::new();
        }
        let mut keys: Vec<Box<[u8]>> =
            compaction.tables().flat_map(|t| t.table().separators()).collect();
        keys.sort_unstable();
        keys.dedup();
        let step = keys.len() / parts;
        (1..parts).filter_map(|part| keys.get(part * step).cloned()).filter(|_| step > 0).collect()
    }

    fn run_part(self: &Arc<Self>, parts: Arc<Parts>, part: usize) {
        let outcome = guarded(|| self.merge_part(&parts, part));
        parts.outcomes.lock()[part] = Some(outcome);
        if parts.running.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let outcomes = std::mem::take(&mut *parts.outcomes.lock());
        let mut outputs = Vec::new();
        let mut counts = MergeCounts::default();
        let mut failed = None;
        for outcome in outcomes.into_iter().flatten() {
            match outcome {
                Ok((more, count)) => {
                    outputs.extend(more);
                    counts.entries_dropped += count.entries_dropped;
                    counts.entries_expired += count.entries_expired;
                }
                Err(error) => failed = Some(error),
            }
        }
        let outcome = match failed {
            None => guarded(|| self.install_or_discard(&parts, outputs, counts)),
            Some(error) => {
                self.trees.remove_tables(&outputs.iter().map(|o| o.meta.id).collect::<Vec<_>>());
                Err(error)
            }
        };
        self.end_compaction(parts, outcome);
    }

    fn merge_part(&self, parts: &Parts, part: usize) -> Result<(Vec<Output>, MergeCounts)> {
        if parts.tree.is_dropped() {
            // The outputs would be refused.
            return Ok((Vec::new(), MergeCounts::default()));
        }
        self.logs.names().check()?;
        let compaction = &parts.compaction;
        let start = part.checked_sub(1).map(|before| &*parts.borders[before]);
        let end = parts.borders.get(part).map(|border| &**border);
        let mut children: Vec<Child> = Vec::new();
        for run in compaction.runs() {
            let of_part = run.iter().filter(|table| table.overlaps(start, end)).cloned();
            let tables = Tables::Chosen(of_part.collect());
            if !tables.is_empty() {
                let blocks = Arc::clone(&self.reads.blocks);
                children.push(Box::new(RunCursor::new(tables, blocks, Reading::Compaction)));
            }
        }
        let gives_way =
            matches!(compaction.trigger, Trigger::Space { .. }).then(|| self.give_way());
        let pause = || gives_way.iter().for_each(GiveWay::pause);
        let plan = MergePlan {
            pause: &pause,
            snapshots: &parts.snapshots,
            now_ms: self.clock.unix_ms(),
            tombstones: &parts.tombstones,
            start,
            end,
            below: Some(LevelsBelow::new(&parts.tree.version(), compaction.output_level)),
            invalidation: CacheInvalidation::relocations(
                &parts.moves,
                self.memory.caches().point(),
                parts.tree.id,
            ),
            heat: self.heat_rule().and_then(|rule| {
                HotBlockCarryover::new(self.memory.caches().blocks(), compaction.tables(), rule)
            }),
        };
        let made = Mutex::new(Vec::new());
        let next_table = || self.trees.new_table(&made);
        let grandparents = compaction.grandparents.clone();
        let options =
            self.output_options(&parts.tree, compaction.output_level, grandparents, &next_table);
        let options = OutputOptions { pacer: self.compaction_pacer(), ..options };
        merge_tables(MergingCursor::new(children), plan, Outputs::new(options), &*self.clock)
            .inspect_err(|_| self.trees.remove_tables(&made.lock()))
            .map_err(|error| match error.kind() {
                ErrorKind::Corrupt => error.context(format!("merging {}", file_names(compaction))),
                _ => error,
            })
    }

    /// How the blocks that a compaction writes replace those that it reads in the cache: not at all
    /// under policies with only a block cache, as in other stores.
    fn heat_rule(&self) -> Option<Rule> {
        match self.memory.caches().policy() {
            policy if policy.is_of_ac_key() => Some(Rule::Overlap),
            policy if policy.is_of_blocks() || policy.disables(Ablation::Repair) => None,
            _ => Some(Rule::HotBlockCarryover),
        }
    }

    fn install_or_discard(
        &self,
        parts: &Parts,
        outputs: Vec<Output>,
        counts: MergeCounts,
    ) -> Result<()> {
        let made: Vec<u64> = outputs.iter().map(|output| output.meta.id).collect();
        self.install_merge(parts, outputs, counts).inspect_err(|_| self.trees.discard_tables(made))
    }

    fn install_merge(
        &self,
        parts: &Parts,
        outputs: Vec<Output>,
        counts: MergeCounts,
    ) -> Result<()> {
        let (compaction, tree) = (&parts.compaction, &parts.tree);
        self.logs.names().sync()?;
        let written: u64 = outputs.iter().map(|o| o.meta.bytes).sum();
        let mut edit = Edit::default();
        push_removals(&mut edit, tree, compaction);
        let mut added = Vec::new();
        let level = compaction.output_level;
        let mut placed = Vec::new();
        for output in outputs {
            placed.extend(output.placed);
            edit.push(Change::AddTable {
                keyspace: tree.id,
                level: level as u8,
                table: output.meta.clone(),
            });
            added.push((level, self.open_table(output.meta)?));
        }
        compaction.transfer_seek_bytes(&added.iter().map(|(_, table)| table).collect::<Vec<_>>());
        if !self.install_edit(parts, edit, &added, &placed)? {
            self.discard_refused(added);
            return Ok(());
        }
        if self.memory.caches().policy().disables(Ablation::Repair) {
            let is_gone = |id| compaction.tables().any(|table| table.meta().id == id);
            self.memory.caches().point().forget(|_| false, is_gone);
        }
        compaction.tables().for_each(|table| table.retire());
        self.count_merge(counts);
        if let Trigger::Space { dead_bytes } = compaction.trigger
            && level == LEVELS - 1
        {
            // Above the last level, what tombstones hide may be further down.
            let freed = compaction.input_bytes().saturating_sub(written);
            self.jobs.reclaim().note_freed(dead_bytes, freed, self.clock.monotonic_ns());
        }
        self.stats.compactions.add(1);
        self.stats.compaction_read_bytes.add(compaction.input_bytes());
        self.stats.compaction_write_bytes.add(written);
        Ok(())
    }

    /// Moves tables a level down without touching their files.
    fn install_move(&self, parts: &Parts) -> Result<()> {
        let (compaction, tree) = (&parts.compaction, &parts.tree);
        let mut edit = Edit::default();
        push_removals(&mut edit, tree, compaction);
        let level = compaction.output_level;
        let mut added = Vec::new();
        for table in &compaction.inputs {
            let meta = table.meta().clone();
            edit.push(Change::AddTable {
                keyspace: tree.id,
                level: level as u8,
                table: meta.clone(),
            });
            added.push((level, Arc::new(table.moved())));
        }
        if self.install_edit(parts, edit, &added, &[])? {
            self.stats.compaction_moves.add(compaction.inputs.len() as u64);
        }
        Ok(())
    }

    /// False if the keyspace was dropped meanwhile: then nothing is installed.
    fn install_edit(
        &self,
        parts: &Parts,
        edit: Edit,
        added: &[(usize, Arc<TableHandle>)],
        placed: &[RelocatedEntry],
    ) -> Result<bool> {
        let removed: Vec<u64> = parts.compaction.tables().map(|table| table.meta().id).collect();
        let point = self.memory.caches().point();
        let mut structure = self.trees.structure();
        if !self.trees.commit(&mut structure, &parts.tree, edit, &removed, added)? {
            return Ok(false);
        }
        // Before anything else is installed: an ingest removes the pointers into tables of the
        // version that it finds, and none of them may be restored afterwards.
        cache_invalidation::relocate(point, placed, parts.compaction.output_level);
        parts.tree.install_tables(&removed, added);
        drop(structure);
        self.after_install();
        Ok(true)
    }

    fn end_compaction(self: &Arc<Self>, parts: Arc<Parts>, outcome: Result<()>) {
        {
            let _structure = self.trees.structure();
            parts.compaction.tables().for_each(|table| table.set_busy(false));
        }
        self.jobs.compaction_ends();
        if parts.compaction.trigger == Trigger::Seeks {
            self.jobs.seek_work().end();
        }
        self.stats.compaction_ns.record(self.clock.monotonic_ns() - parts.started_ns);
        let job = match parts.compaction.trigger {
            Trigger::Size => JobKind::Compaction,
            Trigger::Seeks => JobKind::SeekCompaction,
            Trigger::Idle => JobKind::IdleCompaction,
            Trigger::Space { .. } => JobKind::SpaceCompaction,
        };
        self.note_outcome(job, std::slice::from_ref(&parts.tree), &outcome);
        // The inputs' files can be removed once no view holds them.
        drop(parts);
        self.remove_obsolete_tables();
        self.jobs.signal_progress();
        if outcome.is_ok() {
            self.schedule_compactions();
            // A check made meanwhile has found the tables busy.
            self.expect_quiet(0);
        }
        let is_for_space = matches!(job, JobKind::SpaceCompaction);
        self.expect_dead_data(match (is_for_space, outcome.is_ok()) {
            (_, false) => RETRY_AFTER_FAILURE,
            (true, true) => Duration::ZERO,
            (false, true) => QUIET,
        });
    }
}

/// The file names of the tables that are merged.
fn file_names(compaction: &Compaction) -> String {
    let names: Vec<String> = compaction.tables().map(|t| table_name(t.meta().id)).collect();
    names.join(", ")
}

fn push_removals(edit: &mut Edit, tree: &Tree, compaction: &Compaction) {
    let mut remove = |level: usize, table: &Arc<TableHandle>| {
        edit.push(Change::RemoveTable {
            keyspace: tree.id,
            level: level as u8,
            id: table.meta().id,
        });
    };
    compaction.inputs.iter().for_each(|table| remove(compaction.level, table));
    compaction.lower.iter().for_each(|table| remove(compaction.output_level, table));
}
