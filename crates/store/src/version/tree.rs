//! A keyspace inside the engine: its view, and the rules for changing it.
//!
//! Readers load the view with one atomic load. It is changed under `view_lock`, by the commit
//! leader (rotation of a full memtable) and by the installers of flushes, compactions and ingests.

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
    /// For the commit leader, the only inserter.
    pub(crate) splice: Mutex<Splice>,
    /// A flush of this tree is queued or running.
    pub(crate) is_flushing: AtomicBool,
    /// Writes up to this sequence may have left the memtables: the memtables no longer show whether
    /// a key was written before it.
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

    /// The view, for a short read.
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// The view, for longer use.
    pub(crate) fn view_full(&self) -> Arc<View> {
        self.view.load_full()
    }

    pub(crate) fn options(&self) -> Arc<KeyspaceOptions> {
        self.options.load_full()
    }

    /// The default TTL of its options, without a reference to them: every write needs it.
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

    /// Rotates the memtable and begins a new one. Only the commit leader. `log_end` is the current
    /// end of the logs.
    pub(crate) fn rotate(
        &self,
        target_bytes: usize,
        last_sequence: Sequence,
        log_end: LogPosition,
    ) {
        // A splice points into its memtable.
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

    /// Replaces the active memtable, whose entries were written to tables that are not published
    /// yet. Only while opening, before any read.
    pub(crate) fn reset_memtable(&self, memtable: Memtable) {
        *self.splice.lock() = Splice::default();
        self.update(|view| View {
            memtable: Arc::new(memtable),
            immutables: view.immutables.clone(),
            version: Arc::clone(&view.version),
        });
    }

    /// Publishes the tables of a flush and drops the flushed memtables, in one step.
    pub(crate) fn install_flush(
        &self,
        flushed: &[Arc<Memtable>],
        tables: &[(usize, Arc<TableHandle>)],
        up_to: Sequence,
    ) {
        // First: a caller that checks the memtables for older writes must see that they no longer
        // show them.
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

    /// Publishes the changes of a compaction or ingest to the tables.
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

/// Applies a change that was validated before it was committed to the manifest.
fn changed(version: &Version, removed: &[u64], added: &[(usize, Arc<TableHandle>)]) -> Version {
    version.with(removed, added).expect("tried under the same lock before it was made durable")
}
