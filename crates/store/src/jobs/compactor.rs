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
use crate::compaction::group::{Group, is_small};
use crate::compaction::hot_block_carryover::{HotBlockCarryover, Rule};
use crate::compaction::output::{Output, OutputOptions, Outputs, SharedFile};
use crate::compaction::picker::{self, Compaction, PickerOptions, Trigger};
use crate::compaction::reclaim_watch::QUIET;
use crate::compaction::{LevelsBelow, MergeCounts, MergePlan, merge_tables};
use crate::engine::Engine;
use crate::engine::job_state::JobKind;
use crate::engine::tree_set::TableChange;
use crate::error::{ErrorKind, Result};
use crate::format::LEVELS;
use crate::format::range_tombstones::{RangeTombstone, RangeTombstones};
use crate::jobs::background::guarded;
use crate::jobs::give_way::GiveWay;
use crate::jobs::running_compaction::{Merge, Merged, Parts, file_names};
use crate::jobs::table_dropper::RETRY_AFTER_FAILURE;
use crate::read::merge::{Child, MergingCursor};
use crate::read::run_cursor::{RunCursor, Tables};
use crate::sst::table::Reading;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::version::levels::Version;
use crate::version::manifest::Edit;
use crate::version::tree::Tree;

/// The minimum size of a part of a compaction: `TABLES_PER_PART` tables, or `PART_BYTES` where
/// tables are large. That is some ten milliseconds of work.
const TABLES_PER_PART: u64 = 2;
const PART_BYTES: u64 = 8 << 20;

impl Engine {
    pub(crate) fn picker_options(&self, tree: &Tree) -> PickerOptions {
        let options = tree.options();
        PickerOptions {
            base_bytes: self.memory.base_bytes(),
            table_bytes: self.options.table_bytes,
            last_differs: options.compression != options.compression_last,
            small_level0_trigger: picker::small_level0_trigger(
                self.memory.tables_bytes() as u64,
                self.memory.total_bytes(),
            ),
        }
    }

    /// Starts compactions while some are needed and threads are free. Small ones of several
    /// keyspaces are one job.
    pub(crate) fn schedule_compactions(self: &Arc<Self>) {
        let mut group = Group::default();
        for tree in self.trees.all() {
            let is_free = || self.jobs.compactions_running() < self.executor.parallelism();
            while !group.is_empty() || is_free() {
                let options = self.picker_options(&tree);
                // While a group gathers, all threads may be taken: then only what joins it.
                let mut is_needed = false;
                let pick = |version: &Version| {
                    let picked = picker::pick(version, options);
                    is_needed = picked.is_some();
                    picked.filter(|picked| is_small(picked) || is_free())
                };
                let Some(compaction) = self.pick_for(&tree, &group, pick) else {
                    let is_busy = || tree.version().tables().any(|table| table.is_busy());
                    if self.jobs.has_compaction_failed() && !is_needed && !is_busy() {
                        // One that had failed has nothing left to do.
                        self.jobs.forget_compaction_failure(tree.id);
                    }
                    break;
                };
                let is_small = is_small(&compaction);
                match is_small {
                    true => group.add(&tree, compaction),
                    false => self.start_compaction(&tree, compaction),
                }
                if group.is_full() {
                    self.start_group(std::mem::take(&mut group));
                }
                // A failed compaction is retried once per call, not forever.
                if self.jobs.has_compaction_failed() {
                    return self.start_group(group);
                }
                if is_small {
                    break;
                }
            }
        }
        self.start_group(group);
        self.schedule_rewrites();
    }

    /// Starts a job that rewrites the tables of files of several that are mostly dead: such a file
    /// gives no space back before the last of its tables is gone.
    fn schedule_rewrites(self: &Arc<Self>) {
        let mut group = Group::default();
        let files = self.trees.files().mostly_dead();
        if files.is_empty() || self.jobs.compactions_running() >= self.executor.parallelism() {
            return;
        }
        for tree in self.trees.all() {
            let options = self.picker_options(&tree);
            let is_free = || self.jobs.compactions_running() < self.executor.parallelism();
            let pick = |version: &Version| {
                let picked = picker::pick_in_files(version, options, &files);
                picked.filter(|picked| is_small(picked) || is_free())
            };
            if pick(&tree.version()).is_none() {
                continue;
            }
            if let Some(compaction) = self.pick_for(&tree, &group, pick) {
                match is_small(&compaction) {
                    true => group.add(&tree, compaction),
                    false => self.start_compaction(&tree, compaction),
                }
            }
            if group.is_full() {
                break;
            }
        }
        self.start_group(group);
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
                engine.run_job(|| engine.look_at_seeks());
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
        let tree = Arc::clone(tree);
        self.submit(Priority::Low, move |engine| engine.begin_compaction(&tree, compaction));
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
                engine.run_job(|| engine.look_for_quiet());
            }
        };
        self.executor.execute_later(delay, Box::new(look));
    }

    fn look_for_quiet(self: &Arc<Self>) {
        if let Some(delay) = self.jobs.idle().look(self.clock.monotonic_ns()) {
            return self.look_later(delay);
        }
        let mut group = Group::default();
        for tree in self.trees.all() {
            let options = self.picker_options(&tree);
            let picked = self.pick_for(&tree, &group, |version| {
                let spare = self.jobs.idle().spare_bytes();
                let picked = picker::pick_idle(version, options, spare)?;
                self.jobs.idle().spend(picked.cost_bytes());
                Some(picked)
            });
            match picked {
                Some(compaction) if is_small(&compaction) => group.add(&tree, compaction),
                Some(compaction) => self.start_compaction(&tree, compaction),
                None => {}
            }
            if group.is_full() {
                self.start_group(std::mem::take(&mut group));
            }
        }
        self.start_group(group);
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
        self.pick_for(tree, &Group::default(), pick)
    }

    /// Like [`Engine::pick`]; a small compaction is not counted if it joins others in `group`.
    fn pick_for(
        &self,
        tree: &Tree,
        group: &Group,
        pick: impl FnOnce(&Version) -> Option<Compaction>,
    ) -> Option<Compaction> {
        self.claim(tree, |version| {
            let is_open = !self.jobs.is_closed();
            let compaction = is_open.then(|| pick(version)).flatten()?;
            if group.is_empty() || !is_small(&compaction) {
                self.jobs.compaction_begins();
            }
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
            self.end_compaction(vec![parts], outcome);
            return;
        }
        for part in 1..=parts.borders.len() {
            let parts = Arc::clone(&parts);
            self.submit(Priority::Low, move |engine| engine.run_part(parts, part));
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
            let (outputs, counts) = self.merge_part(&parts, 0, None)?;
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
        let outcome = guarded(|| self.merge_part(&parts, part, None));
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
                self.trees.remove_tables(&outputs.iter().map(|o| o.meta.file).collect::<Vec<_>>());
                Err(error)
            }
        };
        self.end_compaction(vec![parts], outcome);
    }

    /// Merges a part of a compaction into tables of their own files, or of `shared`.
    fn merge_part(&self, parts: &Parts, part: usize, shared: Option<&SharedFile>) -> Merged {
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
            is_flush: false,
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
        let next_table = || match shared {
            None => self.trees.new_table(&made),
            Some(_) => self.trees.new_table_in_shared_file(),
        };
        let grandparents = compaction.grandparents.clone();
        let options =
            self.output_options(&parts.tree, compaction.output_level, grandparents, &next_table);
        let options = OutputOptions { pacer: self.compaction_pacer(), shared, ..options };
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
        let made: Vec<u64> = outputs.iter().map(|output| output.meta.file).collect();
        self.install_merges(vec![(parts, (outputs, counts))])
            .inspect_err(|_| self.trees.discard_tables(made))
    }

    /// Installs the outputs of compactions, with one edit of the manifest; not those of a keyspace
    /// that was dropped meanwhile.
    fn install_merges(&self, merges: Vec<(&Parts, (Vec<Output>, MergeCounts))>) -> Result<()> {
        self.logs.names().sync()?;
        let mut merged = Vec::with_capacity(merges.len());
        for (parts, (outputs, counts)) in merges {
            let level = parts.compaction.output_level;
            let (mut added, mut placed) = (Vec::new(), Vec::new());
            for output in outputs {
                placed.extend(output.placed);
                added.push((level, self.open_table(output.meta)?));
            }
            let tables: Vec<_> = added.iter().map(|(_, table)| table).collect();
            parts.compaction.transfer_seek_bytes(&tables);
            merged.push(Merge { parts, added, placed, counts });
        }
        let (installed, refused) = self.install_edits(merged)?;
        if !refused.is_empty() {
            self.discard_refused(refused.into_iter().flat_map(|merge| merge.added).collect());
        }
        for merge in installed {
            self.finish_merge(&merge);
        }
        Ok(())
    }

    /// Called after the outputs were installed: releases the inputs.
    fn finish_merge(&self, Merge { parts, added, counts, .. }: &Merge<'_>) {
        let compaction = &parts.compaction;
        if self.memory.caches().policy().disables(Ablation::Repair) {
            let is_gone = |id| compaction.tables().any(|table| table.meta().id == id);
            self.memory.caches().point().forget(|_| false, is_gone);
        }
        compaction.tables().for_each(|table| table.retire());
        self.count_merge(*counts);
        let written: u64 = added.iter().map(|(_, table)| table.meta().bytes).sum();
        if let Trigger::Space { dead_bytes } = compaction.trigger
            && compaction.output_level == LEVELS - 1
        {
            // Above the last level, what tombstones hide may be further down.
            let freed = compaction.input_bytes().saturating_sub(written);
            self.jobs.reclaim().note_freed(dead_bytes, freed, self.clock.monotonic_ns());
        }
        self.stats.compactions.add(1);
        self.stats.compaction_read_bytes.add(compaction.input_bytes());
        self.stats.compaction_write_bytes.add(written);
    }

    /// Moves tables a level down without touching their files.
    fn install_move(&self, parts: &Parts) -> Result<()> {
        let inputs = &parts.compaction.inputs;
        let level = parts.compaction.output_level;
        let added = inputs.iter().map(|table| (level, Arc::new(table.moved()))).collect();
        let (placed, counts) = (Vec::new(), MergeCounts::default());
        let (installed, _) = self.install_edits(vec![Merge { parts, added, placed, counts }])?;
        if !installed.is_empty() {
            self.stats.compaction_moves.add(inputs.len() as u64);
        }
        Ok(())
    }

    /// Replaces inputs by outputs; returns the compactions whose keyspaces exist, and those whose
    /// keyspaces were dropped meanwhile, of which nothing is installed.
    fn install_edits<'p>(
        &self,
        merges: Vec<Merge<'p>>,
    ) -> Result<(Vec<Merge<'p>>, Vec<Merge<'p>>)> {
        let point = self.memory.caches().point();
        let mut structure = self.trees.structure();
        let exists = |merge: &Merge<'_>| self.trees.get(merge.parts.tree.id).is_some();
        let (installed, refused): (Vec<_>, Vec<_>) = merges.into_iter().partition(exists);
        if installed.is_empty() {
            return Ok((installed, refused));
        }
        let mut edit = Edit::default();
        installed.iter().for_each(|merge| merge.push_to(&mut edit));
        let removed: Vec<Vec<u64>> = installed.iter().map(Merge::removed).collect();
        let changes: Vec<_> = installed
            .iter()
            .zip(&removed)
            .map(|(Merge { parts, added, .. }, removed)| TableChange {
                tree: &parts.tree,
                removed,
                added,
            })
            .collect();
        self.trees.commit_all(&mut structure, edit, &changes)?;
        for (Merge { parts, added, placed, .. }, removed) in installed.iter().zip(&removed) {
            // Before the tables leave the view: whoever waits for that finds a healthy store.
            if parts.compaction.trigger == Trigger::Size {
                self.jobs.forget_compaction_failure(parts.tree.id);
            }
            // Before anything else is installed: an ingest removes the pointers into tables of the
            // version that it finds, and none of them may be restored afterwards.
            cache_invalidation::relocate(point, placed, parts.compaction.output_level);
            parts.tree.install_tables(removed, added);
        }
        drop(structure);
        self.after_install();
        Ok((installed, refused))
    }

    /// Called when a job with these compactions, which have one trigger, has ended.
    fn end_compaction(self: &Arc<Self>, group: Vec<Arc<Parts>>, outcome: Result<()>) {
        {
            let _structure = self.trees.structure();
            let tables = group.iter().flat_map(|parts| parts.compaction.tables());
            tables.for_each(|table| table.set_busy(false));
        }
        self.jobs.compaction_ends();
        let Some(first) = group.first() else { return };
        let trigger = first.compaction.trigger;
        if trigger == Trigger::Seeks {
            self.jobs.seek_work().end();
        }
        self.stats.compaction_ns.record(self.clock.monotonic_ns() - first.started_ns);
        let job = match trigger {
            Trigger::Size => JobKind::Compaction,
            Trigger::Seeks => JobKind::SeekCompaction,
            Trigger::Idle => JobKind::IdleCompaction,
            Trigger::Space { .. } => JobKind::SpaceCompaction,
        };
        let trees: Vec<_> = group.iter().map(|parts| Arc::clone(&parts.tree)).collect();
        self.note_outcome(job, &trees, &outcome);
        // The inputs' files can be removed once no view holds them.
        drop(group);
        self.remove_obsolete_tables();
        self.jobs.signal_progress();
        let is_full = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full);
        if is_full && trigger == Trigger::Size && self.logs.remove_unused() {
            // Once more, with the space of the next log.
            self.schedule_compactions();
        }
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

    // ---- Groups ----

    /// Schedules the compactions of `group`, which count as one that is running.
    pub(crate) fn start_group(self: &Arc<Self>, group: Group) {
        match group.len() {
            0 => {}
            1 => {
                let (tree, compaction) = group.compactions().next().expect("it has one");
                self.start_compaction(&tree, compaction);
            }
            _ => self.submit(Priority::Low, move |engine| engine.run_group(group)),
        }
    }

    fn run_group(self: &Arc<Self>, group: Group) {
        let parts: Vec<_> = group
            .compactions()
            .map(|(tree, compaction)| Arc::new(self.plan_parts(&tree, compaction)))
            .collect();
        let outcome = guarded(|| self.merge_group(&parts));
        self.end_compaction(parts, outcome);
    }

    /// Merges each compaction of a group into a table of one file.
    fn merge_group(&self, group: &[Arc<Parts>]) -> Result<()> {
        let made = Mutex::new(Vec::new());
        let written = self.write_group(group, &made).and_then(|merged| {
            let merges = group.iter().map(|parts| &**parts).zip(merged).collect();
            self.install_merges(merges)
        });
        written.inspect_err(|_| self.trees.discard_tables(made.into_inner()))
    }

    fn write_group(
        &self,
        group: &[Arc<Parts>],
        made: &Mutex<Vec<u64>>,
    ) -> Result<Vec<(Vec<Output>, MergeCounts)>> {
        let shared = self.create_shared_file(made)?;
        let merge = |parts: &Arc<Parts>| self.merge_part(parts, 0, Some(&shared));
        let merged = group.iter().map(merge).collect::<Result<Vec<_>>>()?;
        let number = shared.number();
        shared.finish()?;
        if merged.iter().all(|(outputs, _)| outputs.is_empty()) {
            self.trees.remove_tables(&[number]);
        }
        Ok(merged)
    }
}
