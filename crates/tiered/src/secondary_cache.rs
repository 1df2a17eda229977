//! The cache as a [`SecondaryCache`]: a store on remote storage puts it below its block cache.
//!
//! Guarantees: those of [`Cache`] and of a tier. An object that is put has no deadline and flags
//! and marks of 0. A value that is too large, or whose key is too long, is not kept, and lookups of
//! that key miss.
//!
//! Safe to use from all threads.

use bytes::Bytes;
use tidekv_cache::SecondaryCache;

use crate::cache::Cache;
use crate::object::{Deadline, Object};
use crate::options::KEY_BYTES_MAX;

impl SecondaryCache for Cache {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        if key.len() > KEY_BYTES_MAX {
            return None;
        }
        Self::get(self, key).map(|found| found.object.value)
    }

    fn put(&self, key: &[u8], value: Bytes) {
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        if !self.has_room_for(key.len(), value.len()) {
            return Self::remove(self, key);
        }
        let version = self.next_version();
        self.store(key, Object { value, flags: 0, deadline: Deadline::NEVER, version, marks: 0 });
    }

    fn remove(&self, key: &[u8]) {
        if key.len() <= KEY_BYTES_MAX {
            Self::remove(self, key);
        }
    }
}

#[cfg(test)]
mod tests;
