//! Who wants to know what is asked of a cache: a profiler, for one.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::object::Deadline;

/// What has happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It was asked for, and there.
    Hit {
        /// What it takes of DRAM, with its key and all that is around it.
        bytes: u64,
        /// Until when it is served.
        deadline: Deadline,
    },
    /// It was asked for, and not there.
    Miss,
    /// An object was stored that takes so many bytes of DRAM.
    Stored {
        /// With its key and all that is around it.
        bytes: u64,
        /// Until when it is served.
        deadline: Deadline,
    },
    /// It was removed, if it was there.
    Removed,
}

/// Is told of all that clients do to keys.
pub trait AccessObserver: fmt::Debug + Send + Sync {
    /// Is told of it, under the lock of the key's shard: must be quick, wait for nothing and not use
    /// the cache. `tenant` is the place in [`crate::Cache::tenant_stats`], `hash` that of the key,
    /// all bits of it as good as random; `now_s` the present second.
    fn on_access(&self, tenant: usize, hash: u64, now_s: u32, sight: Access);

    /// Is told that nothing of a tenant is there any more, under the locks of all his shards, and as quickly.
    fn on_clear(&self, tenant: usize);
}

/// The witness of a tenant, once there is one.
#[derive(Debug, Default)]
pub(crate) struct ObserverSlot {
    witness: OnceLock<(usize, Arc<dyn AccessObserver>)>,
    /// Whether it is told of hits in DRAM, of which there are the most.
    of_hits: AtomicBool,
}

impl ObserverSlot {
    /// From now on that one is told, unless there is one; whether there was none.
    pub(crate) fn watch(&self, tenant: usize, witness: Arc<dyn AccessObserver>) -> bool {
        let is_first = self.witness.set((tenant, witness)).is_ok();
        if is_first {
            self.set_of_hits(true);
        }
        is_first
    }

    pub(crate) fn set_of_hits(&self, is_told: bool) {
        self.of_hits.store(is_told, Ordering::Relaxed);
    }

    /// That there was a hit in DRAM. Where nobody wants to know this is one look at a line of memory
    /// that the processor has.
    pub(crate) fn on_hit(&self, hash: u64, now_s: u32, sight: impl FnOnce() -> Access) {
        if self.of_hits.load(Ordering::Relaxed) {
            self.on_access(hash, now_s, sight);
        }
    }

    pub(crate) fn on_clear(&self) {
        if let Some((tenant, witness)) = self.witness.get() {
            witness.on_clear(*tenant);
        }
    }

    pub(crate) fn on_access(&self, hash: u64, now_s: u32, sight: impl FnOnce() -> Access) {
        if let Some((tenant, witness)) = self.witness.get() {
            witness.on_access(*tenant, hash, now_s, sight());
        }
    }
}
