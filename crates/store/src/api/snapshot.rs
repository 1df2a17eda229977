//! [`Snapshot`]: reads of a past state of the store. `Send + Sync`.

use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;

use crate::api::iter::{Entry, Iter, key_range};
use crate::api::keyspace::{Cached, Keyspace, entry_of};
use crate::error::Result;
use crate::format::key::Sequence;
use crate::lifecycle::handle::Handle;
use crate::read::visible::KeyRange;

/// All keyspaces at one moment: reads through a snapshot do not see later writes. Entries still
/// expire, by the present time.
///
/// While a snapshot lives, the versions that it sees keep their space on storage. Clones share one
/// moment, which is released with the last of them.
///
/// ```
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
/// # let keyspace = db.keyspace("default")?;
/// keyspace.put("key", "old")?;
/// let snapshot = db.snapshot();
/// keyspace.put("key", "new")?;
/// keyspace.put("later", "value")?;
/// assert_eq!(snapshot.get(&keyspace, "key")?.unwrap(), "old");
/// assert_eq!(snapshot.iter(&keyspace).count(), 1);
/// assert_eq!(keyspace.get("key")?.unwrap(), "new");
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot {
    moment: Arc<Moment>,
}

/// A sequence number that the store keeps visible.
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

    /// The snapshot sees writes up to this sequence number.
    pub(crate) fn sequence(&self) -> Sequence {
        self.moment.sequence
    }

    /// Returns the value of `key` at the moment of the snapshot.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.get_entry(keyspace, key)?.map(|entry| entry.value))
    }

    /// Returns the value of `key` at the moment of the snapshot, with its expiry time.
    pub fn get_entry(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        self.check_store(keyspace)?;
        let (resolved, _) = keyspace.resolve(key.as_ref(), Some(self.moment.sequence))?;
        Ok(entry_of(resolved, self.moment.handle.engine()))
    }

    /// Returns the entry of `key` at the moment of the snapshot, if memory alone can answer, also
    /// that there is none. See [`Cached`].
    pub fn try_get_cached(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Cached<Option<Entry>>> {
        self.check_store(keyspace)?;
        keyspace.try_read(key.as_ref(), Some(self.moment.sequence))
    }

    /// Returns the entries of several keys, in their order. Blocks that have to be read from
    /// storage are read together.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Entry>>> {
        self.check_store(keyspace)?;
        keyspace.read_many(keys, usize::MAX, Some(self.moment.sequence))
    }

    /// Like [`Snapshot::multi_get`], but returns only the entries of the first keys, at least of
    /// one, if all of them would take more than about `bytes_max` bytes. See
    /// [`Keyspace::multi_get_up_to`].
    pub fn multi_get_up_to<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        bytes_max: usize,
    ) -> Result<Vec<Option<Entry>>> {
        self.check_store(keyspace)?;
        keyspace.read_many(keys, bytes_max, Some(self.moment.sequence))
    }

    /// Returns an iterator over all entries at the moment of the snapshot.
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        self.walk(keyspace, KeyRange::default())
    }

    /// Returns an iterator over the entries of a range of keys at the moment of the snapshot.
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter {
        self.walk(keyspace, key_range(&range))
    }

    /// Returns an iterator over the entries whose keys start with `prefix`, at the moment of the
    /// snapshot.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        self.walk(keyspace, KeyRange::prefix(prefix.as_ref()))
    }

    fn walk(&self, keyspace: &Keyspace, range: KeyRange) -> Iter {
        let sequence = Some(self.moment.sequence);
        let iter = Iter::new(&self.moment.handle, keyspace.tree(), range, sequence);
        iter.refused_by(self.check_store(keyspace).err())
    }

    /// Fails if the keyspace is not of the snapshot's store.
    fn check_store(&self, keyspace: &Keyspace) -> Result<()> {
        keyspace.check_store(self.moment.handle.engine())
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        let engine = self.handle.engine();
        engine.snapshots.release_snapshot(self.sequence);
        engine.note_released_snapshot();
    }
}
