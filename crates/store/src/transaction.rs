//! Reads and writes that take effect together, or not at all.
//!
//! Optimistic: nothing is locked. A transaction gathers its writes in memory,
//! reads through them, and remembers which keys it has read and as of which
//! sequence. The commit leader checks that none of those keys was written since
//! (`write.rs`); if one was, nothing is written and the caller starts over.
//!
//! Memtables answer that check. When the memtables no longer reach back far
//! enough, because a flush came in between, the key is read again before the
//! commit is handed in, and must hold what it held.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use crate::batch::WriteBatch;
use crate::engine::{Condition, Written};
use crate::error::Result;
use crate::handle::Handle;
use crate::iter::Entry;
use crate::key::Sequence;
use crate::keyspace::{Keyspace, entry_of};
use crate::options::Durability;
use crate::visible::KeyRange;

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// Its writes are in.
    Done,
    /// A key that was read or watched has changed: nothing was written.
    Conflict,
}

/// The state of a key at a moment, for [`Transaction::require_unchanged`].
#[derive(Debug, Clone)]
pub struct Watch {
    keyspace: Keyspace,
    key: Box<[u8]>,
    since: Sequence,
    entry: Option<Entry>,
}

impl Watch {
    pub(crate) fn new(keyspace: &Keyspace, key: &[u8]) -> Result<Self> {
        let (resolved, since) = keyspace.resolve(key, None)?;
        let entry = entry_of(resolved, keyspace.engine());
        Ok(Self { keyspace: keyspace.clone(), key: key.into(), since, entry })
    }

    /// A watch that memtables can judge: this one, or when they do not reach
    /// back so far, one as of now, if the key still holds what it held.
    ///
    /// Sequences of entries cannot tell: compaction sets them to 0. A key that
    /// was changed and changed back counts as unchanged, which to a reader it
    /// is.
    fn renewed(&self) -> Result<Option<Self>> {
        if self.keyspace.tree().flushed() <= self.since {
            return Ok(Some(self.clone()));
        }
        let now = Self::new(&self.keyspace, &self.key)?;
        Ok((now.entry == self.entry).then_some(now))
    }
}

type KeyId = (u32, Box<[u8]>);

/// Reads and writes that take effect together, if nothing that was read has
/// changed meanwhile. Dropping it without [`Transaction::commit`] forgets the
/// writes.
#[derive(Debug)]
pub struct Transaction {
    handle: Arc<Handle>,
    batch: WriteBatch,
    /// What the writes so far make of each key; `None`: deleted.
    written: BTreeMap<KeyId, Option<Entry>>,
    /// What was read, for the check and so that a key reads the same twice.
    reads: HashMap<KeyId, Watch>,
    watches: Vec<Watch>,
}

impl Transaction {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        Self {
            handle,
            batch: WriteBatch::new(),
            written: BTreeMap::new(),
            reads: HashMap::new(),
            watches: Vec::new(),
        }
    }

    /// The entry of `key`, own writes included. The commit fails with
    /// [`Commit::Conflict`] when another writer has changed it since.
    pub fn get(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Entry>> {
        let id = (keyspace.tree().id, Box::from(key));
        if let Some(entry) = self.written.get(&id) {
            return Ok(entry.clone());
        }
        if let Some(watch) = self.reads.get(&id) {
            return Ok(watch.entry.clone());
        }
        let (resolved, since) = keyspace.resolve(key, None)?;
        let entry = entry_of(resolved, self.handle.engine());
        let watch =
            Watch { keyspace: keyspace.clone(), key: key.into(), since, entry: entry.clone() };
        self.reads.insert(id, watch);
        Ok(entry)
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) {
        self.put_until(keyspace, key, value, None);
    }

    /// Sets `key` to `value`, until `expires_at_ms` if that is given.
    pub fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) {
        match expires_at_ms {
            Some(deadline) => self.batch.put_until(keyspace, key, value, deadline),
            None => self.batch.put_forever(keyspace.tree().id, key, value),
        }
        let entry = Entry { value: Bytes::copy_from_slice(value), expires_at_ms };
        self.written.insert((keyspace.tree().id, key.into()), Some(entry));
    }

    /// Removes `key`.
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) {
        self.batch.delete(keyspace, key);
        self.written.insert((keyspace.tree().id, key.into()), None);
    }

    /// Removes all keys from `start` up to `end` (exclusive), own writes
    /// included.
    pub fn delete_range(&mut self, keyspace: &Keyspace, start: &[u8], end: &[u8]) -> Result<()> {
        if start >= end {
            return Ok(());
        }
        // Keys that exist now are noted as deleted, so that later reads of this
        // transaction do not find them.
        for item in keyspace.range(start..end).keys_only() {
            self.written.insert((keyspace.tree().id, item?.0.as_ref().into()), None);
        }
        let id = keyspace.tree().id;
        for (_, entry) in self.written.range_mut((id, start.into())..(id, end.into())) {
            *entry = None;
        }
        self.batch.delete_range(keyspace, start, end);
        Ok(())
    }

    /// All entries whose keys begin with `prefix`, own writes included, in
    /// order. Not checked for conflicts: read a key that every writer of the
    /// prefix touches as well.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: &[u8]) -> Result<Vec<(Bytes, Entry)>> {
        let id = keyspace.tree().id;
        let mut entries: BTreeMap<Bytes, Entry> = keyspace.prefix(prefix).collect::<Result<_>>()?;
        let range = KeyRange::prefix(prefix);
        let own = self
            .written
            .range((id, Box::from(prefix))..)
            .take_while(|((tree, key), _)| *tree == id && range.contains(key));
        for ((_, key), entry) in own {
            match entry {
                Some(entry) => entries.insert(Bytes::copy_from_slice(key), entry.clone()),
                None => entries.remove(&key[..]),
            };
        }
        Ok(entries.into_iter().collect())
    }

    /// The commit fails with [`Commit::Conflict`] when the watched key has
    /// changed since the watch was made.
    pub fn require_unchanged(&mut self, watch: &Watch) {
        self.watches.push(watch.clone());
    }

    /// Whether nothing is to be written.
    pub fn is_read_only(&self) -> bool {
        self.batch.is_empty()
    }

    /// Writes everything in one step, unless a key that was read or watched
    /// has changed.
    pub fn commit(self, durability: Durability) -> Result<Commit> {
        let mut conditions = Vec::new();
        for watch in self.watches.iter().chain(self.reads.values()) {
            let Some(watch) = watch.renewed()? else { return Ok(Commit::Conflict) };
            conditions.push(Condition {
                tree: Arc::clone(watch.keyspace.tree()),
                key: watch.key,
                unchanged_since: watch.since,
            });
        }
        let engine = self.handle.engine();
        if self.batch.is_empty() && engine.options.read_only {
            return Ok(Commit::Done);
        }
        Ok(match engine.write(self.batch, durability, conditions)? {
            Written::Done => Commit::Done,
            Written::Conflict => Commit::Conflict,
        })
    }
}
