//! Who wants to know what is asked of a cache: a profiler, for one.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::object::Deadline;

/// What has happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
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
pub trait Witness: fmt::Debug + Send + Sync {
    /// Is told of it, under the lock of the key's shard: must be quick, wait for nothing and not use
    /// the cache. `tenant` is the place in [`crate::Cache::tenant_stats`], `hash` that of the key,
    /// all bits of it as good as random; `now_s` the present second.
    fn saw(&self, tenant: usize, hash: u64, now_s: u32, sight: Sight);

    /// Is told that nothing of a tenant is there any more, under the locks of all his shards, and as quickly.
    fn saw_clear(&self, tenant: usize);
}

/// The witness of a tenant, once there is one.
#[derive(Debug, Default)]
pub(crate) struct Witnessed {
    witness: OnceLock<(usize, Arc<dyn Witness>)>,
    /// Whether it is told of hits in DRAM, of which there are the most.
    of_hits: AtomicBool,
}

impl Witnessed {
    /// From now on that one is told, unless there is one; whether there was none.
    pub(crate) fn watch(&self, tenant: usize, witness: Arc<dyn Witness>) -> bool {
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
    pub(crate) fn saw_hit(&self, hash: u64, now_s: u32, sight: impl FnOnce() -> Sight) {
        if self.of_hits.load(Ordering::Relaxed) {
            self.saw(hash, now_s, sight);
        }
    }

    pub(crate) fn saw_clear(&self) {
        if let Some((tenant, witness)) = self.witness.get() {
            witness.saw_clear(*tenant);
        }
    }

    pub(crate) fn saw(&self, hash: u64, now_s: u32, sight: impl FnOnce() -> Sight) {
        if let Some((tenant, witness)) = self.witness.get() {
            witness.saw(*tenant, hash, now_s, sight());
        }
    }
}
