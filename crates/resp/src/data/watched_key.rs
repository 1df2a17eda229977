//! A key of `WATCH`: whether `EXEC` must fail because of it.
//!
//! Guarantees, as in Redis: a key counts as changed if it was written, removed by a command or a
//! flush of its database, has expired since, or if its database was swapped and either content has
//! the key. A key that is absent does not change by a flush. (If memtables were flushed to storage
//! since the flush of a database, an absent key counts as changed all the same: the store no longer
//! knows whether it was set before.)
//!
//! Relies on: the caller holds the gate, see [`keyspaces`](crate::state::keyspaces).

use bytes::Bytes;
use tidekv::{KEY_BYTES_MAX, Transaction, Watch};

use crate::protocol::reply::CommandError;
use crate::state::keyspaces::Space;
use crate::state::server_state::State;

/// A watched key. It holds snapshots, so their number must be bounded.
#[derive(Debug, Clone)]
pub(crate) struct WatchedKey {
    database: usize,
    key: Bytes,
    /// Its string and the head of its hash.
    watches: [Watch; 2],
    is_present: bool,
    expires_at_ms: Option<u64>,
    /// How often the database had changed its slot.
    swaps: u64,
}

impl WatchedKey {
    /// Watches `key` of `database` from now on; `None` if no entry can have this key.
    pub(crate) fn new(
        state: &State,
        database: usize,
        key: &[u8],
    ) -> Result<Option<Self>, CommandError> {
        if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
            return Ok(None);
        }
        let keyspaces = &state.keyspaces;
        let slot = keyspaces.slot_map().slot(database);
        let (mut is_present, mut expires_at_ms) = (false, None);
        let mut watch = |space| -> Result<Watch, CommandError> {
            let keyspace = keyspaces.get_or_create(slot, space)?;
            let watch = state.db.watch(keyspace, key)?;
            // After the watch: a change in between counts as one.
            let Some(entry) = keyspace.get_entry(key)? else {
                return Ok(watch.ignoring_range_deletions());
            };
            (is_present, expires_at_ms) = (true, entry.expires_at_ms);
            Ok(watch)
        };
        let watches = [watch(Space::Strings)?, watch(Space::Heads)?];
        let key = Bytes::copy_from_slice(key);
        let swaps = keyspaces.swaps(database);
        Ok(Some(Self { database, key, watches, is_present, expires_at_ms, swaps }))
    }

    /// Whether it is `key` of `database`.
    pub(crate) fn is(&self, database: usize, key: &[u8]) -> bool {
        self.database == database && self.key == key
    }

    /// Whether the key has expired, or its database was swapped; writes are not considered.
    pub(crate) fn is_gone(&self, state: &State) -> Result<bool, CommandError> {
        let keyspaces = &state.keyspaces;
        if self.expires_at_ms.is_some_and(|deadline| deadline <= state.now_ms()) {
            return Ok(true);
        }
        if keyspaces.swaps(self.database) == self.swaps {
            return Ok(false);
        }
        let slot = keyspaces.slot_map().slot(self.database);
        let has = |space| match keyspaces.get(slot, space) {
            None => Ok(false),
            Some(keyspace) => keyspace.contains(&self.key),
        };
        Ok(self.is_present || has(Space::Strings)? || has(Space::Heads)?)
    }

    /// Makes the commit of `transaction` fail if the key was written.
    pub(crate) fn guard(&self, transaction: &mut Transaction) {
        self.watches.iter().for_each(|watch| transaction.require_unchanged(watch));
    }
}
