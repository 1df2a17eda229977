//! Concurrent tables as subjects: the lower bound of the cost of a hit.
//!
//! They are not stores. A missing key gets the value that the drive expects, so that a key
//! requested in the warm-up is a hit from then on.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::load::values::Values;
use crate::subject::{Counts, Hold, Search, Settings, Subject, SubjectRecord};
use dashmap::DashMap;
use foldhash::fast::RandomState;
use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

/// The hash map of the crate `dashmap`, with the hash of `foldhash`.
pub const DASHMAP: SubjectRecord = SubjectRecord {
    name: "map:dashmap",
    about: "no store: an unbounded concurrent hash map, whose values are read in place",
    is_default: false,
    format: "none",
    uses_kernel_cache: false,
    search: Search::Nothing,
    choices: &[],
    open: |_: &Path, _: &Settings| {
        Ok(Box::new(Table::of(DashMap::with_hasher(RandomState::default()))))
    },
};

/// The cache of the crate `quick_cache` (S3-FIFO), with the hash of `foldhash`.
pub const QUICK_CACHE: SubjectRecord = SubjectRecord {
    name: "cache:quick_cache",
    about: "no store: a concurrent cache with room for a million entries, whose values are shared",
    is_default: false,
    format: "none",
    uses_kernel_cache: false,
    search: Search::Nothing,
    choices: &[],
    open: |_: &Path, _: &Settings| {
        let (hash, lifecycle) = (RandomState::default(), DefaultLifecycle::default());
        Ok(Box::new(Table::of(Cache::with(
            CACHE_ENTRIES as usize,
            CACHE_ENTRIES,
            UnitWeighter,
            hash,
            lifecycle,
        ))))
    },
};

/// The capacity of the cache: more entries than are ever requested.
const CACHE_ENTRIES: u64 = 1 << 20;
/// The length of values that the drive expects.
const VALUE_BYTES: usize = 100;

/// A lookup table of values.
trait Find: Send + Sync {
    /// Passes the value of a key to `see`; whether it exists.
    fn find(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> bool;
    fn keep(&self, key: &[u8], value: &[u8]);
    fn forget(&self, key: &[u8]);
}

impl Find for DashMap<Vec<u8>, Vec<u8>, RandomState> {
    fn find(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> bool {
        self.get(key).is_some_and(|value| {
            see(&value);
            true
        })
    }

    fn keep(&self, key: &[u8], value: &[u8]) {
        self.insert(key.to_vec(), value.to_vec());
    }

    fn forget(&self, key: &[u8]) {
        self.remove(key);
    }
}

impl Find for Cache<Vec<u8>, Arc<[u8]>, UnitWeighter, RandomState> {
    fn find(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> bool {
        self.get(key).is_some_and(|value| {
            see(&value);
            true
        })
    }

    fn keep(&self, key: &[u8], value: &[u8]) {
        self.insert(key.to_vec(), value.into());
    }

    fn forget(&self, key: &[u8]) {
        self.remove(key);
    }
}

struct Table<T> {
    entries: T,
    values: Values,
}

impl<T> Table<T> {
    fn of(entries: T) -> Self {
        Self { entries, values: Values::new(VALUE_BYTES) }
    }
}

fn cannot(what: &str) -> Failure {
    Failure::usage(format!("a table of entries has no {what}"))
}

impl<T: Find> Subject for Table<T> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.entries.keep(key, value);
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.entries.forget(key);
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if self.entries.find(key, see) {
            return Ok(true);
        }
        let head = key.first_chunk::<8>().ok_or_else(|| cannot("keys of this length"))?;
        let mut value = Vec::new();
        self.values.fill(&mut value, u64::from_be_bytes(*head), 0);
        see(&value);
        self.entries.keep(key, &value);
        Ok(true)
    }

    fn multi_get(&self, _: &[&[u8]], _: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        Err(cannot("batches"))
    }

    fn scan(&self, _: &[u8], _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        Err(cannot("order"))
    }

    fn hold(&self, _: &[u8]) -> Result<Box<dyn Hold + '_>> {
        Err(cannot("snapshots"))
    }

    fn settle(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn counts(&self) -> Result<Counts> {
        Ok(Counts::default())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
