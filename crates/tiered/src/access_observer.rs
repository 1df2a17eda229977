//! Notifies an observer, such as a profiler, of the accesses to a cache.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::object::Deadline;

/// An access to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A lookup found the object.
    Hit {
        /// Its charge in DRAM, in bytes: key, value and overhead.
        bytes: u64,
        /// When the object expires.
        deadline: Deadline,
    },
    /// A lookup found no object.
    Miss,
    /// An object was stored.
    Stored {
        /// Its charge in DRAM, in bytes: key, value and overhead.
        bytes: u64,
        /// When the object expires.
        deadline: Deadline,
    },
    /// The key was removed, whether it was present or not.
    Removed,
}

/// Receives all accesses of clients to keys.
pub trait AccessObserver: fmt::Debug + Send + Sync {
    /// Called under the lock of the key's shard: it must be quick, must not block and must not use
    /// the cache. `tenant` is the index in [`crate::Cache::tenant_stats`], `hash` the key's hash,
    /// all bits of it as good as random; `now_s` is the present second.
    fn on_access(&self, tenant: usize, hash: u64, now_s: u32, access: Access);

    /// Called when all objects of a tenant have been dropped, under the locks of all its shards; it
    /// must be as quick.
    fn on_clear(&self, tenant: usize);
}

/// The observer of a tenant, once one is set.
#[derive(Debug, Default)]
pub(crate) struct ObserverSlot {
    observer: OnceLock<(usize, Arc<dyn AccessObserver>)>,
    /// Whether it is notified of hits in DRAM, the most frequent access.
    observes_hits: AtomicBool,
}

impl ObserverSlot {
    /// Sets the observer, unless there is one already; returns whether it was set.
    pub(crate) fn set_observer(&self, tenant: usize, observer: Arc<dyn AccessObserver>) -> bool {
        let is_first = self.observer.set((tenant, observer)).is_ok();
        if is_first {
            self.set_observes_hits(true);
        }
        is_first
    }

    pub(crate) fn set_observes_hits(&self, is_enabled: bool) {
        self.observes_hits.store(is_enabled, Ordering::Relaxed);
    }

    /// Reports a hit in DRAM. Without an observer this is one load of a cache line that the
    /// processor already has.
    pub(crate) fn on_hit(&self, hash: u64, now_s: u32, access: impl FnOnce() -> Access) {
        if self.observes_hits.load(Ordering::Relaxed) {
            self.on_access(hash, now_s, access);
        }
    }

    pub(crate) fn on_clear(&self) {
        if let Some((tenant, observer)) = self.observer.get() {
            observer.on_clear(*tenant);
        }
    }

    pub(crate) fn on_access(&self, hash: u64, now_s: u32, access: impl FnOnce() -> Access) {
        if let Some((tenant, observer)) = self.observer.get() {
            observer.on_access(*tenant, hash, now_s, access());
        }
    }
}
