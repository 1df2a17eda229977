//! A keyspace inside the engine: its view, and who may change it.
//!
//! Readers load the view with one atomic load. It is changed under
//! `view_lock`, by the commit leader (a full memtable is put aside) and by the
//! installers of flushes, compactions and ingests.

use std::sync::Arc;
use std::time::Duration;

use crate::format::key::Sequence;
use crate::memtable::Memtable;
use crate::memtable::sorted_list::Splice;
use crate::options::KeyspaceOptions;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{ArcSwap, Guard, Mutex};
use crate::version::levels::{TableHandle, Version};
use crate::version::view::View;
use crate::wal::LogPosition;

/// A keyspace.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) id: u32,
    pub(crate) name: Box<str>,
    options: ArcSwap<KeyspaceOptions>,
    view: ArcSwap<View>,
    view_lock: Mutex<()>,
    /// For the commit leader, the only one who inserts.
    pub(crate) splice: Mutex<Splice>,
    /// A flush of this tree is queued or running.
    pub(crate) is_flushing: AtomicBool,
    /// Writes up to here have left the memtables: memtables cannot tell any
    /// more whether a key was written before.
    flushed: AtomicU64,
}

impl Tree {
    pub(crate) fn new(
        id: u32,
        name: &str,
        options: KeyspaceOptions,
        view: View,
        flushed: Sequence,
    ) -> Self {
        Self {
            id,
            name: name.into(),
            options: ArcSwap::from_pointee(options),
            view: ArcSwap::from_pointee(view),
            view_lock: Mutex::new(()),
            splice: Mutex::new(Splice::default()),
            is_flushing: AtomicBool::new(false),
            flushed: AtomicU64::new(flushed),
        }
    }

    /// The view, for a read that is soon over.
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// The view, to be kept.
    pub(crate) fn view_full(&self) -> Arc<View> {
        self.view.load_full()
    }

    pub(crate) fn options(&self) -> Arc<KeyspaceOptions> {
        self.options.load_full()
    }

    /// Of its options, without holding on to them: every write asks.
    pub(crate) fn default_ttl(&self) -> Option<Duration> {
        self.options.load().default_ttl
    }

    pub(crate) fn set_options(&self, options: KeyspaceOptions) {
        self.options.store(Arc::new(options));
    }

    pub(crate) fn flushed(&self) -> Sequence {
        self.flushed.load(Ordering::Acquire)
    }

    fn update(&self, change: impl FnOnce(&View) -> View) {
        let _lock = self.view_lock.lock();
        let next = change(&self.view.load());
        self.view.store(Arc::new(next));
    }

    /// Puts the memtable aside and begins a new one. Only the commit leader.
    /// `log_end` is where the logs end now.
    pub(crate) fn rotate(
        &self,
        target_bytes: usize,
        last_sequence: Sequence,
        log_end: LogPosition,
    ) {
        // A splice points into the memtable it was made for.
        *self.splice.lock() = Splice::default();
        self.update(|view| {
            let mut immutables = Vec::with_capacity(view.immutables.len() + 1);
            immutables.push(Arc::clone(&view.memtable));
            immutables.extend_from_slice(&view.immutables);
            View {
                memtable: Arc::new(
                    Memtable::new(target_bytes, last_sequence).beginning_at(log_end),
                ),
                immutables,
                version: Arc::clone(&view.version),
            }
        });
    }

    /// Takes `memtable` in place of the one that takes the writes, whose entries
    /// were written to tables that are not published yet. Only while opening,
    /// before anybody reads.
    pub(crate) fn reset_memtable(&self, memtable: Memtable) {
        *self.splice.lock() = Splice::default();
        self.update(|view| View {
            memtable: Arc::new(memtable),
            immutables: view.immutables.clone(),
            version: Arc::clone(&view.version),
        });
    }

    /// Publishes the tables of a flush and lets go of what it flushed, in one
    /// step.
    pub(crate) fn install_flush(
        &self,
        flushed: &[Arc<Memtable>],
        tables: &[(usize, Arc<TableHandle>)],
        up_to: Sequence,
    ) {
        // First: whoever asks the memtables about older writes must know that
        // they cannot tell.
        self.flushed.fetch_max(up_to, Ordering::AcqRel);
        self.update(|view| View {
            memtable: Arc::clone(&view.memtable),
            immutables: view
                .immutables
                .iter()
                .filter(|memtable| !flushed.iter().any(|f| Arc::ptr_eq(f, memtable)))
                .cloned()
                .collect(),
            version: Arc::new(changed(&view.version, &[], tables)),
        });
    }

    /// Publishes what a compaction or ingest did to the tables.
    pub(crate) fn install_tables(&self, removed: &[u64], added: &[(usize, Arc<TableHandle>)]) {
        self.update(|view| View {
            memtable: Arc::clone(&view.memtable),
            immutables: view.immutables.clone(),
            version: Arc::new(changed(&view.version, removed, added)),
        });
    }

    pub(crate) fn note_ingest(&self, sequence: Sequence) {
        self.flushed.fetch_max(sequence, Ordering::AcqRel);
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        Arc::clone(&self.view().version)
    }
}

/// A change that was tried before it went into the manifest.
fn changed(version: &Version, removed: &[u64], added: &[(usize, Arc<TableHandle>)]) -> Version {
    version.with(removed, added).expect("tried under the same lock before it was made durable")
}
