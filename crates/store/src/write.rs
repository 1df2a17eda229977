//! The write path: from the queue to the log, the memtables and the readers.
//!
//! The leader of a group (see `queue.rs`), in this order:
//! 1. makes room: rotates full memtables, slows down or waits ([`throttle`]);
//! 2. validates conditional writes;
//! 3. appends one log record for the whole group, and syncs it if any of its writes requires that;
//! 4. inserts into the memtables;
//! 5. publishes the new `visible` sequence, all of the group at once.
//!
//! If step 3 fails, nothing is inserted and the writers get the error. A failed append leaves a
//! torn tail: the next group ends the log before it and continues in a new log, so writes resume by
//! themselves after a full disk. After a failed sync, writes fail until the store is reopened.
//!
//! [`Engine::try_write`] takes steps 2 to 5 alone, if it need not wait for anything: for threads
//! that must not block.

mod deletions;
mod open_ranges;
pub(crate) mod rotation;
mod full_disk;

use std::sync::Arc;

use hashbrown::HashSet;
use smallvec::{SmallVec, smallvec};
use tidekv_io::Priority;

use crate::batch::{Operation, Operations, WriteBatch, begin_record, is_in_range};
use crate::engine::budget::STEP_BYTES_MAX;
use crate::engine::log_set::{LogSet, Logs, RESERVE_BYTES};
use crate::engine::throttle::{self, Pace};
use crate::engine::{Attempt, Condition, Engine, Request, Written};
use crate::error::{Error, ErrorKind, Result};
use crate::format::key::{Kind, Sequence, Trailer};
use crate::format::range_tombstones::RangeTombstone;
use crate::memtable::Memtable;
use crate::options::Durability;
use crate::version::tree::Tree;
use crate::write::deletions::{Deletions, all_delete, delete_ranges};
use crate::write::full_disk::SpaceSource;

/// A group is closed at this size: larger ones would only add latency.
pub(crate) const GROUP_BYTES_MAX: usize = 1 << 20;

/// Writers check for room in memory once per this many bytes of log, because a check costs as much
/// as a small write; and once per this share of a memtable, so that small memtables do not grow far
/// beyond their limit.
const ROOM_BYTES: u64 = 16 << 10;
const ROOM_SHARE: u64 = 64;

/// One write in this many is timed.
const WRITES_PER_SAMPLE: u64 = 8;

impl Engine {
    /// Writes `batch` if the conditions hold, and waits for its `durability`.
    pub(crate) fn write(
        self: &Arc<Self>,
        mut batch: WriteBatch,
        durability: Durability,
        conditions: Vec<Condition>,
    ) -> Result<Written> {
        let drops = self.check_batch(&batch)?;
        self.start_ttls(&mut batch);
        let timer = self.write_timer();
        let weight = batch.bytes_len() + 64;
        let request = Request { batch, durability, conditions, drops };
        // If no other thread writes, the request need not be queued.
        let outcome = match self.queue.try_exclusive(|| self.lead_one(&request)) {
            Some(outcome) => outcome,
            None => self.queue.submit(request, weight, |group| self.lead(&group)),
        };
        self.stop(timer);
        outcome
    }

    /// Starts the times to live of `batch`.
    fn start_ttls(self: &Arc<Self>, batch: &mut WriteBatch) {
        if batch.has_deadlines() {
            self.note_deadline();
            batch.start_ttls(self.clock.unix_ms());
        }
    }

    /// When the write began, if it is one of those that are timed.
    fn write_timer(&self) -> Option<u64> {
        let is_timed = self.stats.write_calls.next().is_multiple_of(WRITES_PER_SAMPLE);
        is_timed.then(|| self.clock.monotonic_ns())
    }

    fn stop(&self, timer: Option<u64>) {
        if let Some(started) = timer {
            self.stats.write_ns.record(self.clock.monotonic_ns().saturating_sub(started));
        }
    }

    /// Like [`Engine::write`] without a sync, but never waits: not for other writers, for room in
    /// memory, for background work or for a disk (it passes the log record to the operating system,
    /// which keeps it in memory unless memory is short).
    pub(crate) fn try_write(
        self: &Arc<Self>,
        mut batch: WriteBatch,
        conditions: Vec<Condition>,
    ) -> Result<Attempt> {
        let drops = self.check_batch(&batch)?;
        self.start_ttls(&mut batch);
        let timer = self.write_timer();
        let request = Request { batch, durability: Durability::Buffered, conditions, drops };
        let outcome = self.queue.try_exclusive(|| self.try_lead(&request));
        let outcome = outcome.unwrap_or(Ok(Attempt::Busy));
        if matches!(outcome, Ok(Attempt::Done | Attempt::Conflict)) {
            self.stop(timer);
        }
        outcome
    }

    /// Checks that the batch can be written; returns how many keyspaces had been dropped before the
    /// check.
    fn check_batch(&self, batch: &WriteBatch) -> Result<u64> {
        self.check_writable()?;
        batch.encoded()?;
        self.check_size(batch.bytes_len() as u64)?;
        if batch.instance() != 0 && batch.instance() != self.instance {
            return Err(Error::invalid("the batch writes to keyspaces of another store"));
        }
        let drops = self.trees.drops();
        self.check_keyspaces(batch)?;
        Ok(drops)
    }

    /// Fails if a batch of `bytes` is more than memtables may take together.
    fn check_size(&self, bytes: u64) -> Result<()> {
        // Fits any budget.
        if bytes <= STEP_BYTES_MAX {
            return Ok(());
        }
        if bytes > self.memory.batch_bytes_max() {
            // Of a budget that is shared, it may get more.
            self.memory.note_full_memtables();
            self.share.review();
        }
        let (budget, bytes_max) = (self.memory.total_bytes(), self.memory.batch_bytes_max());
        if bytes <= bytes_max {
            return Ok(());
        }
        let what = format!(
            "a batch of {bytes} bytes does not fit the memory budget: with {budget} bytes, a batch may \
             have {bytes_max}; split it, or raise the budget"
        );
        Err(Error::new(ErrorKind::OutOfMemory, what))
    }

    fn check_keyspaces(&self, batch: &WriteBatch) -> Result<()> {
        let trees = self.trees.load();
        batch.keyspaces().iter().try_for_each(|id| match trees.get(id) {
            Some(tree) => tree.check_writable(),
            None => Err(Error::new(
                ErrorKind::Unavailable,
                "the batch writes to a keyspace that was dropped",
            )),
        })
    }

    fn lead(self: &Arc<Self>, group: &[Request]) -> Vec<Result<Written>> {
        let bytes: usize = group.iter().map(|r| r.batch.bytes_len()).sum();
        if let Err(error) = self.jobs.check_open().and_then(|()| self.make_room(bytes)) {
            return self.lead_deletions(group, &error);
        }
        let verdicts = self.validate_conditions(group);
        let batches: Vec<&WriteBatch> = group
            .iter()
            .zip(&verdicts)
            .filter(|(_, verdict)| matches!(verdict, Ok(Written::Done)))
            .map(|(r, _)| &r.batch)
            .collect();
        let sync = group.iter().any(|r| r.durability == Durability::Sync);
        match self.commit_when_there_is_space(&batches, sync) {
            Ok(()) => verdicts.into_vec(),
            Err(error) => self.lead_deletions(group, &error),
        }
    }

    /// Commits those writes of a group that only delete, if the others failed with `error` because
    /// the disk is full.
    fn lead_deletions(self: &Arc<Self>, group: &[Request], error: &Error) -> Vec<Result<Written>> {
        let lead = |request: &Request| match self.admits_deletion(&request.batch, error) {
            true => self.lead_validated(request),
            false => Err(error.clone()),
        };
        group.iter().map(lead).collect()
    }

    fn lead_one(self: &Arc<Self>, request: &Request) -> Result<Written> {
        self.jobs.check_open()?;
        match self.make_room(request.batch.bytes_len()) {
            Err(error) if !self.admits_deletion(&request.batch, &error) => Err(error),
            _ => self.lead_validated(request),
        }
    }

    fn lead_validated(self: &Arc<Self>, request: &Request) -> Result<Written> {
        if self.validate_one(request)? == Written::Conflict {
            return Ok(Written::Conflict);
        }
        let sync = request.durability == Durability::Sync;
        self.commit_when_there_is_space(&[&request.batch], sync)?;
        Ok(Written::Done)
    }

    fn is_log_open(&self) -> bool {
        self.logs.with(|logs| logs.current.is_open())
    }

    fn try_lead(self: &Arc<Self>, request: &Request) -> Result<Attempt> {
        self.jobs.check_open()?;
        // After a torn log a new one is created, with a sync of the directory.
        if !self.is_log_open() {
            return Ok(Attempt::WouldBlock);
        }
        let bytes = request.batch.bytes_len() as u64;
        if bytes > STEP_BYTES_MAX {
            // Its memory is pushed out of the caches first.
            return Ok(Attempt::WouldBlock);
        }
        if !self.has_room(bytes) {
            if !self.full_trees().is_empty() || self.pace() != Pace::Free {
                return Ok(Attempt::WouldBlock);
            }
            self.memory.follow_memtables(&self.trees, 0);
            self.note_room();
        }
        if self.validate_one(request)? == Written::Conflict {
            return Ok(Attempt::Conflict);
        }
        match self.commit(&[&request.batch], false) {
            // Nothing was written, and to free space may take long.
            Err(error) if error.kind() == ErrorKind::Full && self.is_log_open() => {
                Ok(Attempt::WouldBlock)
            }
            committed => committed.map(|_| Attempt::Done),
        }
    }

    /// Commits; if the disk is full, again once space was freed.
    fn commit_when_there_is_space(
        self: &Arc<Self>,
        batches: &[&WriteBatch],
        sync: bool,
    ) -> Result<()> {
        let mut committed = self.commit(batches, sync);
        for source in SpaceSource::ALL {
            match &committed {
                Err(error) if error.kind() == ErrorKind::Full => {}
                _ => break,
            }
            if self.free_space_for_log(source) {
                self.logs.note_full_disk_retry();
                committed = self.commit(batches, sync);
            }
        }
        if committed? {
            self.rotate_deletions(false);
        }
        Ok(())
    }

    /// Returns whether it has deleted something.
    fn commit(self: &Arc<Self>, batches: &[&WriteBatch], sync: bool) -> Result<bool> {
        match self.with_ends(batches) {
            None => self.commit_closed(batches, sync),
            Some(closed) => self.commit_closed(&closed.iter().collect::<Vec<_>>(), sync),
        }
    }

    /// Commits batches of which every range deletion has an end; returns whether it has deleted
    /// something.
    fn commit_closed(self: &Arc<Self>, batches: &[&WriteBatch], sync: bool) -> Result<bool> {
        let first = self.snapshots.last_sequence() + 1;
        let count: usize = batches.iter().map(|batch| batch.len()).sum();
        let last = first + count as u64 - 1;
        let log = {
            let mut logs = self.logs.lock();
            let logs = logs.as_mut().expect("a writable store has a log");
            if count == 0 {
                // Even if there is nothing to write: the log may hold writes that were reported as
                // failed.
                logs.current.lost().map_or(Ok(()), Err)?;
                if !logs.current.is_open() {
                    self.logs.switch_log(logs, &self.trees, &self.memory)?;
                }
            } else {
                self.append(logs, first, batches, sync).inspect_err(|_| {
                    // It may be in the log all the same: its sequences are not used again.
                    self.snapshots.use_up_to(last);
                    self.snapshots.publish(last);
                })?;
            }
            if sync {
                self.stats.log_syncs.add(1);
                logs.current.sync()?;
            }
            logs.current.number()
        };
        let mut deletions = Deletions::default();
        if count > 0 {
            let bytes: usize = batches.iter().map(|batch| batch.bytes_len()).sum();
            if bytes as u64 >= ROOM_BYTES {
                self.memory.follow_memtables(&self.trees, bytes as u64);
            }
            deletions = self.insert(first, batches, log);
            self.snapshots.use_up_to(last);
            self.snapshots.publish(last);
            self.stats.writes.add(count as u64);
            self.stats.write_groups.add(1);
            if deletions.has_any {
                self.note_deletions(&deletions.emptied);
            }
        }
        Ok(deletions.has_any)
    }

    fn append(
        &self,
        logs: &mut Logs,
        first: Sequence,
        batches: &[&WriteBatch],
        sync: bool,
    ) -> Result<()> {
        if let Some(error) = logs.current.lost() {
            return Err(error);
        }
        if !logs.current.is_open() {
            self.logs.switch_log(logs, &self.trees, &self.memory)?;
        }
        self.make_log_space(logs, batches)?;
        if sync {
            logs.current.sync_front_and_mark()?;
        }
        let before = logs.current.offset();
        logs.current.append(|out| {
            begin_record(out, first);
            for batch in batches {
                out.extend_from_slice(batch.encoded().expect("checked before it was queued"));
            }
        })?;
        self.stats.log_bytes.add(logs.current.offset() - before);
        Ok(())
    }

    /// Allocates space for a record of `batches`. The last part of a log's space is for deletions, with
    /// which a full disk can be emptied, and the last part of that for range deletions.
    fn make_log_space(&self, logs: &mut Logs, batches: &[&WriteBatch]) -> Result<()> {
        let bytes: usize = batches.iter().map(|batch| batch.bytes_len()).sum();
        if logs.current.has_space(bytes as u64, RESERVE_BYTES) {
            return Ok(());
        }
        let reserve = self.logs.reserve_bytes(logs, &self.memory);
        match logs.current.make_space(bytes as u64, reserve) {
            Err(full) if full.kind() == ErrorKind::Full && all_delete(batches) => {
                let kept = match delete_ranges(batches) {
                    true => 0,
                    false => LogSet::reserve_for_ranges(reserve),
                };
                logs.current.make_space(bytes as u64, kept)
            }
            made => made,
        }
    }

    fn insert(&self, first: Sequence, batches: &[&WriteBatch], log: u64) -> Deletions {
        let mut deletions = Deletions::default();
        let mut sequence = first;
        let mut last_tree: Option<Arc<Tree>> = None;
        for batch in batches {
            self.stats.write_bytes.add(batch.bytes_len() as u64);
            for operation in Operations::new(batch.encoded().expect("checked before it was queued"))
            {
                let operation = operation.expect("batches encode what they were given");
                let tree = match last_tree.take() {
                    Some(tree) if tree.id == operation.keyspace => tree,
                    _ => self.trees.get(operation.keyspace).expect("checked before it was queued"),
                };
                apply(&tree, operation.kind, operation.key, operation.payload, sequence, log);
                deletions.note(operation.kind, &tree, operation.key, operation.payload);
                sequence += 1;
                last_tree = Some(tree);
            }
        }
        deletions
    }

    fn validate_one(&self, request: &Request) -> Result<Written> {
        // Most writes have no conditions.
        if request.is_free(self.trees.drops()) {
            return Ok(Written::Done);
        }
        let verdicts = self.validate_conditions(std::slice::from_ref(request));
        verdicts.into_iter().next().expect("one verdict for each request")
    }

    /// Decides which writes of the group proceed: those whose keyspaces still exist and whose
    /// conditions hold, given the contents of memtables and the earlier writes of the group.
    fn validate_conditions(&self, group: &[Request]) -> SmallVec<[Result<Written>; 8]> {
        let drops = self.trees.drops();
        if group.iter().all(|request| request.is_free(drops)) {
            return smallvec![Ok(Written::Done); group.len()];
        }
        let mut written: HashSet<(u32, &[u8])> = HashSet::new();
        let mut ranges: Vec<Operation<'_>> = Vec::new();
        let mut verdicts = SmallVec::with_capacity(group.len());
        for request in group {
            if request.drops != drops
                && let Err(dropped) = self.check_keyspaces(&request.batch)
            {
                verdicts.push(Err(dropped));
                continue;
            }
            let holds = request.conditions.iter().all(|condition| {
                let (id, key) = (condition.tree.id, &*condition.key);
                let covers = |range: &Operation<'_>| {
                    range.keyspace == id && is_in_range(key, range.key, range.payload)
                };
                !written.contains(&(id, key))
                    && (condition.ignores_range_deletions || !ranges.iter().any(covers))
                    && is_unchanged(condition)
            });
            if !holds {
                self.stats.conflicts.add(1);
                verdicts.push(Ok(Written::Conflict));
                continue;
            }
            for operation in Operations::new(request.batch.encoded().unwrap_or_default()).flatten()
            {
                if operation.kind == Kind::RangeDelete {
                    ranges.push(operation);
                } else {
                    written.insert((operation.keyspace, operation.key));
                }
            }
            verdicts.push(Ok(Written::Done));
        }
        verdicts
    }

    /// Rotates full memtables and waits as the backlog demands. Only while leading.
    fn make_room(self: &Arc<Self>, bytes: usize) -> Result<()> {
        if self.has_room(bytes as u64) {
            return Ok(());
        }
        self.memory.follow_memtables(&self.trees, 0);
        self.rotate_full()?;
        self.ask_for_next_log();
        let mut pace = self.pace();
        if pace == Pace::Free {
            self.note_room();
            return Ok(());
        }
        let started = self.clock.monotonic_ns();
        if pace == Pace::Stop {
            self.rotate_deletions(true);
        }
        while pace == Pace::Stop {
            let seen = self.jobs.progress();
            self.rotate_full()?;
            self.push_background_work();
            self.jobs.background_failure()?;
            self.after_install();
            pace = self.pace();
            if pace != Pace::Stop || self.executor.is_inline() {
                break;
            }
            self.jobs.wait_for_progress(seen);
            self.check_writable()?;
            pace = self.pace();
        }
        if let Pace::Slow(bytes_per_s) = pace {
            let bytes = self.note_room().max(bytes as u64);
            let now_ns = self.clock.monotonic_ns();
            let pause = self.logs.with(|logs| logs.pauses.after(bytes, bytes_per_s, now_ns));
            if let Some(pause) = pause {
                self.clock.sleep(pause);
            }
        }
        self.stats.stall_ns.add(self.clock.monotonic_ns().saturating_sub(started));
        Ok(())
    }

    /// Schedules the preparation of the next log when the current one is half full. Only while
    /// leading.
    fn ask_for_next_log(self: &Arc<Self>) {
        if self.logs.next_is_due(&self.memory) {
            self.submit(Priority::High, |engine| {
                let is_open = || !engine.jobs.is_closed();
                engine.logs.prepare_next(&engine.trees, &engine.memory, is_open);
            });
        }
    }

    /// Waits as a writer would, even if too little was written lately for a check: an ingest writes
    /// no log. Only while leading.
    pub(crate) fn wait_for_merges(self: &Arc<Self>) -> Result<()> {
        self.logs.with(|logs| logs.has_room_until = 0);
        self.make_room(0)
    }

    /// Whether so little was written since room was found that no new check is needed for `bytes` more.
    fn has_room(&self, bytes: u64) -> bool {
        bytes < ROOM_BYTES && self.logs.with(|logs| logs.current.offset() < logs.has_room_until)
    }

    /// Lets writers continue for some bytes of log, and returns that number.
    fn note_room(&self) -> u64 {
        let room = (self.memory.memtable_bytes() / ROOM_SHARE).min(ROOM_BYTES);
        self.logs.with(|logs| logs.has_room_until = logs.current.offset() + room);
        room
    }

    fn pace(&self) -> Pace {
        let backlog = self.memory.backlog(&self.trees);
        throttle::decide(match self.jobs.compactions_running() {
            // Nobody would end the wait.
            0 => backlog.without_stop_for_merges(),
            _ => backlog,
        })
    }

    /// Retries failed work and starts work that is due.
    pub(crate) fn push_background_work(self: &Arc<Self>) {
        let trees: Vec<Arc<Tree>> = self.trees.all();
        self.schedule_flushes(&trees);
        self.schedule_compactions();
    }

    /// Why writes cannot continue, if they cannot: the store is closed, a writer has panicked, the
    /// log was lost, or the last flush or compaction that writes depend on has failed.
    pub(crate) fn health(&self) -> Result<()> {
        self.jobs.check_open()?;
        if let Some(reason) = self.jobs.write_refusal() {
            return Err(reason.clone());
        }
        if self.options.read_only {
            return Ok(());
        }
        if self.queue.is_broken() {
            let why = "an earlier write panicked: reopen the store";
            return Err(Error::new(ErrorKind::Unavailable, why));
        }
        match self.logs.with(|logs| logs.current.lost()) {
            Some(error) => Err(error),
            None => self.trees.check_drops_in_doubt().and_then(|()| self.jobs.background_failure()),
        }
    }

    /// Retries failed background work.
    pub(crate) fn resume(self: &Arc<Self>) -> Result<()> {
        // Inside the gate, so that no job is started after the store was closed.
        let _gate = self.enter()?;
        let kept = self.trees.resolve_drops_in_doubt();
        if self.jobs.background_failure().is_err() {
            self.push_background_work();
        }
        kept
    }
}

/// Whether the condition's key has not been written since, nor its keyspace dropped. The view is
/// taken before `flushed`: a flush raises `flushed` before its memtables leave the view.
fn is_unchanged(condition: &Condition) -> bool {
    let view = condition.tree.view();
    let newest_in = |memtable: &Arc<Memtable>| match condition.ignores_range_deletions {
        true => memtable.newest_entry(&condition.key),
        false => memtable.newest_write(&condition.key),
    };
    let newest = view.memtables().map(newest_in).max();
    newest.unwrap_or(0) <= condition.unchanged_since
        && !condition.tree.is_dropped()
        && condition.tree.flushed() <= condition.unchanged_since
}

/// Inserts one operation into the memtable of its tree.
pub(crate) fn apply(
    tree: &Tree,
    kind: Kind,
    key: &[u8],
    payload: &[u8],
    sequence: Sequence,
    log: u64,
) {
    let view = tree.view();
    if kind == Kind::RangeDelete {
        view.memtable.insert_tombstone(RangeTombstone::new(key, payload, sequence), log);
    } else {
        let mut splice = tree.splice.lock();
        view.memtable.insert(key, Trailer::new(sequence, kind), payload, log, &mut splice);
    }
}
