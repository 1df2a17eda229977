//! A keyspace inside the engine: its view, and the rules for changing it.
//!
//! Readers load the view with one atomic load. It is changed under `view_lock`, by the commit
//! leader (rotation of a full memtable) and by the installers of flushes, compactions and ingests.
//! A dropped keyspace has an empty view; running jobs install nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::format::key::Sequence;
use crate::memtable::Memtable;
use crate::memtable::sorted_list::Splice;
use crate::options::KeyspaceOptions;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{ArcSwap, Guard, Mutex};
use crate::version::levels::{ARC_BYTES, TableHandle, Version};
use crate::version::manifest::KeyspaceState;
use crate::version::view::View;
use crate::wal::LogPosition;

/// Values of [`Tree::drop_state`].
const LIVE: u32 = 0;
/// The drop failed, and it is unknown whether the manifest contains it.
const IN_DOUBT: u32 = 1;
const DROPPED: u32 = 2;

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
    drop_state: AtomicU32,
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
            drop_state: AtomicU32::new(LIVE),
            is_flushing: AtomicBool::new(false),
            flushed: AtomicU64::new(flushed),
        }
    }

    /// Bytes of DRAM that the keyspace takes, apart from the content of its memtables and from its
    /// tables: its parts, and its record in the manifest.
    pub(crate) fn charge(&self) -> usize {
        let view = self.view();
        let memtables = (1 + view.immutables.len()) * (size_of::<Memtable>() + ARC_BYTES);
        let versions = size_of::<View>() + view.version.charge() + 2 * ARC_BYTES;
        let parts = size_of::<Self>() + size_of::<KeyspaceOptions>() + 2 * ARC_BYTES;
        // Two maps refer to it, whose pages are half full at worst.
        let maps = 2 * (size_of::<KeyspaceState>() + size_of::<Arc<Self>>() + 2 * size_of::<u32>());
        parts + versions + memtables + maps + 2 * self.name.len()
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

    #[inline]
    pub(crate) fn is_dropped(&self) -> bool {
        self.drop_state.load(Ordering::Acquire) == DROPPED
    }

    /// Fails if the keyspace was dropped.
    #[inline]
    pub(crate) fn check_exists(&self) -> Result<()> {
        if self.is_dropped() {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("the keyspace `{}` was dropped", self.name),
            ));
        }
        Ok(())
    }

    /// Fails if the keyspace was dropped, or may have been.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.drop_state.load(Ordering::Acquire) == IN_DOUBT {
            return Err(Error::new(
                ErrorKind::Storage,
                format!(
                    "it is unknown whether the keyspace `{}` was dropped, because the manifest \
                     could not be written: drop it again, or call `resume` to keep it; reopening \
                     the store also settles it, one way or the other",
                    self.name
                ),
            ));
        }
        self.check_exists()
    }

    /// Refuses writes as long as it is unknown whether the keyspace was dropped. The caller holds
    /// `structure`, and leads if it sets this.
    pub(crate) fn set_in_doubt(&self, in_doubt: bool) {
        self.drop_state.store(if in_doubt { IN_DOUBT } else { LIVE }, Ordering::Release);
    }

    /// Refuses reads and writes from now on, and releases memtables and tables, whose files can be
    /// removed once no reader uses them. Only the commit leader, while holding `structure`, when
    /// the manifest no longer names the keyspace.
    pub(crate) fn mark_dropped(&self) {
        // Before the view: readers check it after they have loaded the view.
        self.drop_state.store(DROPPED, Ordering::Release);
        *self.splice.lock() = Splice::default();
        self.update(|view| {
            view.version.tables().for_each(|table| table.retire());
            View {
                memtable: Arc::new(Memtable::new(0, view.memtable.created_at())),
                immutables: Vec::new(),
                version: Arc::default(),
            }
        });
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
