//! What flushes and compactions share: how tables are written, how an outcome is
//! noted, how others wait for it.
//!
//! Both write new tables, make the change durable in the manifest, publish a new
//! view, and only then let go of what was replaced. A job that fails leaves the
//! store as it was: its files are removed (unless the manifest may name them:
//! then the next opening decides), the error is remembered
//! (`Engine::background_errors`) and counted, and the next write or job tries
//! again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::compaction::MergeCounts;
use crate::compaction::output::{OutputOptions, Pacer};
use crate::compaction::picker;
use crate::engine::{Engine, Structure};
use crate::error::{Error, ErrorKind, Result};
use crate::format::LEVELS;
use crate::format::files::table_path;
use crate::options::{FilterKind, KeyspaceOptions};
use crate::sst::filter::{CUCKOO_BITS_MAX, CUCKOO_BITS_MIN};
use crate::sst::table::TableOptions;
use crate::sync::Mutex;
use crate::version::levels::TableHandle;
use crate::version::manifest::Edit;
use crate::version::tree::Tree;

/// Waiting for a background job, the state is looked at again this often even
/// if no job has ended.
const POLL: Duration = Duration::from_millis(20);

/// The base level aims at this many memtables; as many bytes in level 0 start a
/// compaction, as `picker::LEVEL0_TRIGGER` sorted runs do.
const BASE_MEMTABLES: u64 = 4;

/// Upper levels hold a tenth of the keys but are asked first by every read:
/// six more bits a key there make false positives rare where they add up
/// (Dayan et al., Monkey, SIGMOD 2017).
const UPPER_FILTER_BITS: u8 = 6;

const LAST: usize = LEVELS - 1;

/// Whose outcome is noted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum JobKind {
    Flush,
    Compaction,
    /// For the seeks of scans: nobody who writes depends on it.
    SeekCompaction,
}

impl std::fmt::Display for JobKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::SeekCompaction => "compaction for scans",
        })
    }
}

/// How the tables of a level are built.
pub(crate) fn table_options(tree: u32, options: &KeyspaceOptions, level: usize) -> TableOptions {
    let is_last = level == LAST;
    let bits = match options.filter_bits_per_key {
        0 => 0,
        bits if is_last => bits,
        bits => bits + UPPER_FILTER_BITS,
    };
    // So that properties of tables say what their filters have.
    let bits = match options.filter_kind {
        FilterKind::Cuckoo if bits > 0 => bits.clamp(CUCKOO_BITS_MIN, CUCKOO_BITS_MAX),
        _ => bits,
    };
    TableOptions {
        id: 0,
        keyspace: tree,
        compression: if is_last { options.compression_last } else { options.compression },
        block_bytes: options.block_bytes,
        filter_bits_per_key: bits,
        filter_kind: options.filter_kind,
    }
}

impl Engine {
    pub(crate) fn note_outcome(&self, job: JobKind, outcome: &Result<()>) {
        if let Err(error) = outcome {
            tracing::error!(%error, "a {job} failed");
            self.stats.background_errors.add(1);
        }
        let mut errors = self.background_errors.lock();
        let slot = match job {
            JobKind::Flush => &mut errors.flush,
            JobKind::Compaction => &mut errors.compaction,
            JobKind::SeekCompaction => return,
        };
        *slot = outcome.clone().err();
        errors.flush_failures += u64::from(matches!(job, JobKind::Flush) && outcome.is_err());
    }

    /// Where a merge writes tables for `level` of `tree`.
    pub(crate) fn output_options<'a>(
        &'a self,
        tree: &Tree,
        level: usize,
        grandparents: Vec<Arc<TableHandle>>,
        next_table: &'a dyn Fn() -> (u64, std::path::PathBuf),
    ) -> OutputOptions<'a> {
        OutputOptions {
            storage: &self.storage,
            executor: &self.executor,
            access: self.table_access(),
            next_table,
            table: table_options(tree.id, &tree.options(), level),
            table_bytes: if level == 0 { u64::MAX } else { self.options.table_bytes },
            grandparents,
            pacer: Pacer::new(None, &*self.clock),
            blocks: &self.blocks,
        }
    }

    /// Holds compactions and ingests to the rate that is set; writers wait for
    /// flushes, which are never held back.
    pub(crate) fn compaction_pacer(&self) -> Pacer {
        Pacer::new(self.options.compaction_bytes_per_s, &*self.clock)
    }

    /// A number and path for a new table, noted in `made` so that the file can
    /// be removed if the merge fails.
    pub(crate) fn new_table(&self, made: &Mutex<Vec<u64>>) -> (u64, std::path::PathBuf) {
        let id = self.structure.lock().manifest.allocate_file();
        made.lock().push(id);
        (id, table_path(&self.directory, id))
    }

    /// Makes a change of `tree`'s tables durable, once it is sure that it can be
    /// made at all. Publishing it is the caller's, under the same lock.
    pub(crate) fn commit_tables(
        &self,
        structure: &mut Structure,
        tree: &Tree,
        edit: Edit,
        removed: &[u64],
        added: &[(usize, Arc<TableHandle>)],
    ) -> Result<()> {
        tree.version().with(removed, added).map_err(|overlap| {
            Error::new(ErrorKind::Storage, format!("a change was refused, because {overlap}"))
        })?;
        match structure.manifest.commit(edit) {
            Ok(()) => {
                self.remove_tables(&std::mem::take(&mut structure.orphans));
                Ok(())
            }
            Err(error) => {
                let made = added.iter().map(|(_, table)| table.meta().id);
                structure.orphans.extend(made.filter(|id| !removed.contains(id)));
                Err(error)
            }
        }
    }

    /// Removes tables of a job that failed, but not those that the manifest may
    /// name because their edit was on its way.
    pub(crate) fn discard_tables(&self, ids: impl IntoIterator<Item = u64>) {
        let structure = self.structure.lock();
        let gone: Vec<u64> = ids.into_iter().filter(|id| !structure.orphans.contains(id)).collect();
        drop(structure);
        self.remove_tables(&gone);
    }

    pub(crate) fn remove_tables(&self, ids: &[u64]) {
        for &id in ids {
            let _ = self.storage.remove(&table_path(&self.directory, id));
        }
    }

    pub(crate) fn count_merge(&self, counts: MergeCounts) {
        self.stats.entries_dropped.add(counts.entries_dropped);
        self.stats.entries_expired.add(counts.entries_expired);
    }

    /// After tables have come or gone: what the cache may hold and what writers
    /// must wait for follows from them.
    pub(crate) fn after_install(&self) {
        // Under the lock, so that of two callers the later stores what both did.
        let _structure = self.structure.lock();
        self.rebalance_memory();
        let (mut runs, mut debt) = (0, 0);
        for tree in self.trees.load().values() {
            let version = tree.version();
            runs = runs.max(version.runs().len());
            debt = debt.max(picker::debt_bytes(&version, self.base_bytes()));
        }
        self.level0_runs.store(runs, Ordering::Relaxed);
        self.debt_bytes.store(debt, Ordering::Relaxed);
    }

    /// Target size of the base level.
    pub(crate) fn base_bytes(&self) -> u64 {
        BASE_MEMTABLES * self.shares.load().memtable_bytes
    }

    /// Waits for the jobs that run and lets no more begin.
    pub(crate) fn stop_background(&self) {
        if self.options.environment.executor.is_none() {
            self.executor.shutdown();
            return;
        }
        // Whoever picks a compaction or makes a log ready from here on sees that the store
        // is closed.
        drop(self.structure.lock());
        drop(self.next_log.lock());
        let is_busy = || {
            self.compactions_running.load(Ordering::Acquire) > 0
                || self.trees.load().values().any(|tree| tree.is_flushing.load(Ordering::Acquire))
        };
        while is_busy() {
            let seen = *self.progress.0.lock();
            self.wait_for_progress(seen);
        }
    }

    /// Waits until a background job has ended after `seen` was read.
    pub(crate) fn wait_for_progress(&self, seen: u64) {
        let mut progress = self.progress.0.lock();
        if *progress == seen {
            self.progress.1.wait_for(&mut progress, POLL);
        }
    }
}

/// Turns a panic of background work, a bug, into an error: the work's
/// bookkeeping is done as for any failure, so nobody waits for it for ever.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Storage,
            "background work panicked, which is a bug: reopen the store",
        ))
    })
}
