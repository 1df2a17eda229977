//! Repairs filters in the background, so that keys that were false positives no longer pass.
//! `filter_repair.rs` decides when, `table/repair.rs` how.
//!
//! The repairs are saved when the store is closed and restored when it is opened
//! (`repair_list.rs`).
//!
//! A job of low priority does some repairs at a time. It holds no lock while it reads, and a repair
//! takes effect at once for every lookup; a table that was merged meanwhile is skipped. A read that
//! fails is counted and repairs nothing.

use std::collections::HashMap;
use std::sync::Arc;

use tidekv_io::{Access, Priority};

use crate::engine::Engine;
use crate::error::Result;
use crate::format::files::FILTER_REPAIRS;
use crate::jobs::background::guarded;
use crate::sst::filter_repair::FalsePositive;
use crate::sst::table::{RepairOutcome, Table};
use crate::warm::repair_list::{RepairList, RepairedTable, TableIdentity};

/// The cache makes room for repairs in steps of this many, of eight bytes each.
const REPAIRS_PER_STEP: u64 = 8 << 10;

/// A list larger than this part of all memory is from a run with more memory: it is not read.
const LIST_MEMORY_SHARE: u64 = 8;

impl Engine {
    /// Called when a read has ended: schedules a repair job, if one is due.
    #[inline]
    pub(crate) fn schedule_filter_repair(self: &Arc<Self>) {
        if self.reads.repairs.begin(|| self.clock.monotonic_ns()) {
            self.start_filter_repair();
        }
    }

    #[cold]
    fn start_filter_repair(self: &Arc<Self>) {
        // A scheduled repair does not keep a store open.
        let engine = Arc::downgrade(self);
        let work = move || {
            if let Some(engine) = engine.upgrade() {
                engine.run_job(|| engine.repair_filters());
            }
        };
        self.executor.execute(Priority::Low, Box::new(work));
    }

    fn repair_filters(&self) {
        let filter_repair = &self.reads.repairs;
        let waiting = filter_repair.take();
        let before = filter_repair.counts.repairs.get();
        for found in &waiting {
            // Once the store is closed, the repairs are saved already, and another process may own
            // the files.
            if self.jobs.is_closed() {
                return;
            }
            match guarded(|| self.repair_filter(found)) {
                Ok(RepairOutcome::NotNeeded) => {}
                Ok(RepairOutcome::Repaired(buckets)) => filter_repair.counts.repairs.add(buckets),
                Ok(RepairOutcome::Impossible) => {
                    filter_repair.counts.impossible.add(1);
                    filter_repair.give_up(found);
                }
                Err(error) => {
                    filter_repair.counts.failures.add(1);
                    filter_repair.give_up(found);
                    tracing::warn!(%error, table = found.table, "a filter was not repaired");
                }
            }
        }
        let steps = |repairs: u64| repairs.div_ceil(REPAIRS_PER_STEP);
        let has_grown = steps(before) != steps(filter_repair.counts.repairs.get());
        if filter_repair.take_is_new() || has_grown {
            let _structure = self.trees.structure();
            if !self.jobs.is_closed() {
                self.rebalance_memory();
            }
        }
        filter_repair.end(waiting.len(), self.clock.monotonic_ns());
    }

    fn repair_filter(&self, found: &FalsePositive) -> Result<RepairOutcome> {
        match self.table_of(found.keyspace, found.table) {
            Some(table) => table.repair_filter(&self.reads.blocks, found.partition, found.hash),
            None => Ok(RepairOutcome::NotNeeded),
        }
    }

    /// The table with this number, if it is still live.
    fn table_of(&self, keyspace: u32, id: u64) -> Option<Arc<Table>> {
        let version = self.trees.load().get(&keyspace)?.version();
        let handle = version.tables().find(|handle| handle.meta().id == id)?;
        Some(Arc::clone(handle.table()))
    }

    // ---- Closing and opening ----

    /// Saves the repairs of all filters, in place of those of the previous run. Call it after
    /// background work has ended.
    pub(crate) fn write_filter_repairs(&self) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        if !self.options.warm_start {
            return self.put_list(FILTER_REPAIRS, None);
        }
        let store = self.trees.structure().manifest.state().store;
        let tables = self.trees.open_tables().filter_map(|table| {
            let partitions =
                table.filter_repairs().all().map(|(at, repairs)| (at as u64, repairs.to_vec()));
            let partitions: Vec<_> = partitions.collect();
            let id = identity_of(&table)?;
            (!partitions.is_empty()).then_some(RepairedTable { id, partitions })
        });
        let list = RepairList { store, tables: tables.collect() };
        let list = (!list.tables.is_empty()).then(|| list.encode());
        self.put_list(FILTER_REPAIRS, list.as_deref())
    }

    /// Restores the filter repairs of the previous run. Call it when the tables are open, before
    /// the first read.
    pub(crate) fn restore_filter_repairs(&self) {
        let list = self.options.warm_start.then(|| self.read_filter_repairs()).flatten();
        let Some(list) = list else { return };
        if list.store != self.trees.structure().manifest.state().store {
            return;
        }
        let mut repairs: HashMap<TableIdentity, _> =
            list.tables.into_iter().map(|of| (of.id, of.partitions)).collect();
        for table in self.trees.open_tables() {
            let found = identity_of(&table).and_then(|id| repairs.remove(&id));
            for (partition, repairs) in found.into_iter().flatten() {
                table.filter_repairs().restore(partition as usize, repairs);
            }
        }
    }

    /// The list of the previous run, if it exists and can be read.
    fn read_filter_repairs(&self) -> Option<RepairList> {
        let path = self.directory.join(FILTER_REPAIRS);
        let file = self.storage.open_read(&path, Access::Buffered).ok()?;
        let bytes = file.len().ok()?;
        let max = self.memory.total_bytes() / LIST_MEMORY_SHARE;
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes as u64 <= max)?;
        RepairList::decode(&file.read_at(0, bytes).ok()?)
    }
}

/// The identity of a table; `None` if it cannot be distinguished from another one.
fn identity_of(table: &Table) -> Option<TableIdentity> {
    let properties = table.properties();
    let (number, bytes, contents) = (properties.id, properties.file_bytes, properties.contents);
    (contents != 0).then_some(TableIdentity { number, bytes, contents })
}
