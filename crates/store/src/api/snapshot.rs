//! A moment of the store that reads can go back to.

use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;

use crate::api::iter::{Entry, Iter, key_range};
use crate::api::keyspace::{Cached, Keyspace, entry_of};
use crate::error::Result;
use crate::format::key::Sequence;
use crate::lifecycle::handle::Handle;
use crate::read::visible::KeyRange;

/// The store as it was when the snapshot was taken, in all keyspaces alike.
/// While it lives, the versions that it sees are kept on storage. Deadlines are
/// judged by the present.
///
/// Clones share one moment; it is released with the last of them.
#[derive(Debug, Clone)]
pub struct Snapshot {
    moment: Arc<Moment>,
}

/// A sequence that the store keeps visible.
#[derive(Debug)]
struct Moment {
    handle: Arc<Handle>,
    sequence: Sequence,
}

impl Snapshot {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        let sequence = handle.engine().snapshots.take_snapshot();
        Self { moment: Arc::new(Moment { handle, sequence }) }
    }

    /// Everything written up to here is seen.
    pub(crate) fn sequence(&self) -> Sequence {
        self.moment.sequence
    }

    /// The value that `key` had.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.get_entry(keyspace, key)?.map(|entry| entry.value))
    }

    /// The value that `key` had, and its deadline.
    pub fn get_entry(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        let (resolved, _) = keyspace.resolve(key.as_ref(), Some(self.moment.sequence))?;
        Ok(entry_of(resolved, self.moment.handle.engine()))
    }

    /// The entry of `key`, if it (or its absence) can be told from memory alone.
    pub fn try_get_cached(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Cached<Option<Entry>>> {
        keyspace.try_read(key.as_ref(), Some(self.moment.sequence))
    }

    /// The entries of many keys. Blocks that must come from storage are read
    /// together.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Entry>>> {
        keyspace.read_many(keys, Some(self.moment.sequence))
    }

    /// All entries that there were.
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        self.walk(keyspace, KeyRange::default())
    }

    /// The entries that a range of keys had.
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter {
        self.walk(keyspace, key_range(&range))
    }

    /// The entries whose keys began with `prefix`.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        self.walk(keyspace, KeyRange::prefix(prefix.as_ref()))
    }

    fn walk(&self, keyspace: &Keyspace, range: KeyRange) -> Iter {
        Iter::new(&self.moment.handle, keyspace.tree().view_full(), range, self.moment.sequence)
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        self.handle.engine().snapshots.release_snapshot(self.sequence);
    }
}
