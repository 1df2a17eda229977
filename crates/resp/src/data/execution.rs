//! The interface of commands to the store. The functions of the commands use nothing else of the
//! store, so one function serves the event loop, the I/O threads, a pipeline and `EXEC`.
//!
//! An [`Execution`] runs commands one after another over one [`Backing`].
//! Guarantees:
//! 1. A command that fails writes nothing: its writes are buffered and accepted only after it has
//!    succeeded ([`Execution::settle`]).
//! 2. Over a transaction, a command sees the writes of earlier commands, but not its own.
//! 3. Every command finds the databases in the slots that they had when the execution began, or
//!    that an earlier command of the execution gave them. The caller makes sure that these are those
//!    of the data: it holds the gate, or takes the snapshot under it
//!    ([`Execution::over_snapshot`]), or compares stripes.
//! 4. Every write is within the bounds of the store, so that one invalid command cannot fail the
//!    commit of others. A key outside the bounds reads as absent.

use std::collections::HashMap;
use std::ops::Bound;

use bytes::Bytes;
use tidekv::{
    Attempt, Cached, Commit, Durability, Entry, KEY_BYTES_MAX, Keyspace, Snapshot, Transaction,
    WriteBatch,
};

use crate::data::walk::Walk;
use crate::protocol::reply::{CommandError, OUT_OF_MEMORY, Reply};
use crate::state::forecast::{self, Read};
use crate::state::keyspaces::{SlotMap, Space, index_of};
use crate::state::server_state::State;
use crate::state::session::Session;

/// Upper bound of the overhead of each write.
const WRITE_OVERHEAD_BYTES: usize = 32;

/// A range of keys.
pub(crate) type KeyBounds = (Bound<Bytes>, Bound<Bytes>);

/// The source of reads and the target of writes.
#[derive(Debug)]
pub(crate) enum Backing {
    /// The current state, from memory; otherwise [`CommandError::WouldBlock`].
    Memory,
    /// Entries of keys that were read together; parts of values: [`CommandError::WouldBlock`].
    Fetched(HashMap<(Space, Bytes), Entry>),
    /// A snapshot. Writes are unconditional.
    Snapshot(Snapshot),
    /// A transaction.
    Transaction(Box<Transaction>),
    /// A transaction that reads from memory; otherwise [`CommandError::WouldBlock`].
    TransactionInMemory(Box<Transaction>),
}

impl Backing {
    fn transaction(&mut self) -> Option<&mut Transaction> {
        match self {
            Self::Transaction(transaction) | Self::TransactionInMemory(transaction) => {
                Some(transaction)
            }
            Self::Memory | Self::Fetched(_) | Self::Snapshot(_) => None,
        }
    }
}

#[derive(Debug)]
enum Write {
    Put {
        slot: usize,
        space: Space,
        key: Bytes,
        value: Bytes,
        expires_at_ms: Option<u64>,
    },
    Delete {
        slot: usize,
        space: Space,
        key: Bytes,
    },
    /// Removes all entries of the keyspace.
    DeleteKeyspace(Keyspace),
    /// Gives the databases these slots.
    Map(SlotMap),
}

/// Executes commands over a backing.
#[derive(Debug)]
pub(crate) struct Execution<'a> {
    pub(crate) state: &'a State,
    pub(crate) session: &'a mut Session,
    backing: Backing,
    may_stream: bool,
    /// The database that is read and written.
    database: usize,
    map: SlotMap,
    /// Whether a settled command has changed the map.
    is_map_changed: bool,
    /// Writes of the current command.
    writes: Vec<Write>,
    /// Reads of the current command, if curves are on.
    reads: Vec<Read>,
    /// Bytes of the replies so far, and the memory that is reserved for them.
    replied_bytes: usize,
    reply_bytes_max: usize,
    /// Bytes of the writes that were settled, and of [`Execution::writes`].
    settled_bytes: usize,
    gathered_bytes: usize,
    /// Settled writes, unless the backing is a transaction, which has them.
    batch: WriteBatch,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(state: &'a State, session: &'a mut Session, backing: Backing) -> Self {
        Self {
            database: session.database(),
            map: state.keyspaces.slot_map(),
            is_map_changed: false,
            state,
            session,
            backing,
            may_stream: true,
            writes: Vec::new(),
            reads: Vec::new(),
            replied_bytes: 0,
            reply_bytes_max: usize::MAX,
            settled_bytes: 0,
            gathered_bytes: 0,
            batch: WriteBatch::new(),
        }
    }

    /// An execution over a snapshot of the present.
    pub(crate) fn over_snapshot(state: &'a State, session: &'a mut Session) -> Self {
        let _gate = state.keyspaces.heads().enter();
        let snapshot = state.db.snapshot();
        Self::new(state, session, Backing::Snapshot(snapshot))
    }

    /// Over a snapshot: reads the entries that `fetch` finds in it, for the slot of the database,
    /// instead of one key after another.
    pub(crate) fn fetch(
        &mut self,
        fetch: impl FnOnce(&Snapshot, usize) -> Option<HashMap<(Space, Bytes), Entry>>,
    ) {
        if let Backing::Snapshot(snapshot) = &self.backing
            && let Some(entries) = fetch(snapshot, self.slot())
        {
            self.backing = Backing::Fetched(entries);
        }
    }

    /// Whether reads see writes of this execution, which nobody else sees.
    pub(crate) fn sees_own_writes(&self) -> bool {
        matches!(self.backing, Backing::Transaction(_) | Backing::TransactionInMemory(_))
            && self.settled_bytes > 0
    }

    // ---- Databases ----

    /// The database of the connection, which commands read and write.
    pub(crate) fn database(&self) -> usize {
        self.database
    }

    /// Selects the database of the connection.
    pub(crate) fn select(&mut self, database: usize) {
        self.database = database;
        self.session.select(database);
    }

    /// Calls `work` with `database` in place of that of the connection.
    pub(crate) fn within<T>(&mut self, database: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        let ours = std::mem::replace(&mut self.database, database);
        let result = work(self);
        self.database = ours;
        result
    }

    /// The slot of the database.
    pub(crate) fn slot(&self) -> usize {
        self.map.slot(self.database)
    }

    /// Exchanges the contents of two databases. The caller has the gate to itself.
    pub(crate) fn swap_databases(&mut self, a: usize, b: usize) -> Result<(), CommandError> {
        self.gather(KEY_BYTES_MAX, Write::Map(self.map.swapped(a, b)))
    }

    /// The keyspace of `space`; `None` if it does not exist and the command only reads. A
    /// transaction creates it, so that its commit meets a conflict if another one writes there.
    fn keyspace(&self, space: Space) -> Result<Option<&'a Keyspace>, CommandError> {
        let (keyspaces, slot) = (&self.state.keyspaces, self.slot());
        match (keyspaces.get(slot, space), &self.backing) {
            (Some(keyspace), _) => Ok(Some(keyspace)),
            (None, Backing::Transaction(_)) => Ok(Some(keyspaces.get_or_create(slot, space)?)),
            (None, Backing::TransactionInMemory(_)) => Err(CommandError::WouldBlock),
            (None, Backing::Memory | Backing::Fetched(_) | Backing::Snapshot(_)) => Ok(None),
        }
    }

    // ---- Reads ----

    /// The entry of `key`.
    pub(crate) fn get(&mut self, space: Space, key: &[u8]) -> Result<Option<Entry>, CommandError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Ok(None);
        }
        let entry = match (self.keyspace(space)?, &mut self.backing) {
            (None, _) => None,
            (Some(keyspace), Backing::Memory) => ready(keyspace.try_get_cached(key)?)?,
            (Some(_), Backing::Fetched(entries)) => {
                if space == Space::Fields {
                    return Err(CommandError::WouldBlock);
                }
                entries.get(&(space, Bytes::copy_from_slice(key))).cloned()
            }
            (Some(keyspace), Backing::Snapshot(snapshot)) => snapshot.get_entry(keyspace, key)?,
            (Some(keyspace), Backing::Transaction(transaction)) => {
                transaction.get(keyspace, key)?
            }
            (Some(keyspace), Backing::TransactionInMemory(transaction)) => {
                ready(transaction.try_get_cached(keyspace, key)?)?
            }
        };
        if let Some(entry) = &entry
            && self.state.curves.is_some()
        {
            self.reads.push(forecast::read(index_of(self.slot(), space), key, entry));
        }
        if space == Space::Strings {
            self.state.counters.count_lookup(entry.is_some());
        }
        Ok(entry)
    }

    /// All entries whose keys begin with `prefix`, in order.
    pub(crate) fn prefix(&mut self, space: Space, prefix: &[u8]) -> Result<Walk, CommandError> {
        let Some(keyspace) = self.keyspace(space)? else {
            return Ok(Walk::over(Vec::new()));
        };
        match &mut self.backing {
            Backing::Memory | Backing::Fetched(_) | Backing::TransactionInMemory(_) => {
                Err(CommandError::WouldBlock)
            }
            Backing::Snapshot(snapshot) => Ok(Walk::of(snapshot.prefix(keyspace, prefix))),
            Backing::Transaction(transaction) => {
                Ok(Walk::over(transaction.prefix(keyspace, prefix)?))
            }
        }
    }

    /// All entries of a range of keys, in order; without values if the caller does not need them.
    pub(crate) fn range(
        &mut self,
        space: Space,
        bounds: KeyBounds,
        keys_only: bool,
    ) -> Result<Walk, CommandError> {
        use std::ops::RangeBounds;

        if is_crossed(&bounds) {
            return Ok(Walk::over(Vec::new()));
        }
        let Some(keyspace) = self.keyspace(space)? else {
            return Ok(Walk::over(Vec::new()));
        };
        match &mut self.backing {
            Backing::Memory | Backing::Fetched(_) | Backing::TransactionInMemory(_) => {
                Err(CommandError::WouldBlock)
            }
            Backing::Snapshot(snapshot) => {
                let walk = snapshot.range::<Bytes>(keyspace, bounds);
                Ok(Walk::of(if keys_only { walk.keys_only() } else { walk }))
            }
            // The store includes a transaction's own writes in prefix walks only, and collects the
            // entries, up to a bound.
            Backing::Transaction(transaction) => {
                let mut entries = transaction.prefix(keyspace, common_prefix(&bounds))?;
                entries.retain(|(key, _)| bounds.contains(key));
                Ok(Walk::over(entries))
            }
        }
    }

    /// Whether reads may end with [`CommandError::WouldBlock`].
    pub(crate) fn must_not_wait(&self) -> bool {
        !matches!(self.backing, Backing::Snapshot(_) | Backing::Transaction(_))
    }

    /// Whether a reply may be produced while it is sent: its source reads from a snapshot, and the
    /// reply is not a part of another one.
    pub(crate) fn may_stream(&self) -> bool {
        self.may_stream && matches!(self.backing, Backing::Snapshot(_))
    }

    /// Gives up the snapshot that is read, for work that its existence would hinder. Nothing can be
    /// read afterwards.
    ///
    /// # Errors
    ///
    /// In a transaction, whose other commands need it.
    pub(crate) fn release_snapshot(&mut self) -> Result<(), CommandError> {
        if !self.may_stream() {
            return Err(CommandError::text("ERR Command not allowed inside a transaction"));
        }
        self.backing = Backing::Fetched(HashMap::new());
        Ok(())
    }

    /// The snapshot and the keyspace that are read, if [`Execution::may_stream`].
    pub(crate) fn snapshot_of(&self, space: Space) -> Option<(Snapshot, Keyspace)> {
        match &self.backing {
            Backing::Snapshot(snapshot) if self.may_stream => {
                let keyspace = self.state.keyspaces.get(self.slot(), space)?;
                Some((snapshot.clone(), keyspace.clone()))
            }
            _ => None,
        }
    }

    /// The same execution for commands whose replies become parts of one reply.
    #[must_use]
    pub(crate) fn without_streams(mut self) -> Self {
        self.may_stream = false;
        self
    }

    // ---- Replies ----

    /// The same execution with memory for `bytes` of replies.
    #[must_use]
    pub(crate) fn with_reply_memory(mut self, bytes: usize) -> Self {
        self.reply_bytes_max = bytes;
        self
    }

    /// Counts the reply of a command that is not settled yet.
    ///
    /// # Errors
    ///
    /// [`CommandError::NeedsMemory`] if the replies exceed their memory.
    pub(crate) fn count_reply(&mut self, reply: &Reply) -> Result<(), CommandError> {
        let bytes = self.replied_bytes + reply.bytes_len();
        if bytes > self.reply_bytes_max {
            return Err(CommandError::NeedsMemory(bytes));
        }
        self.replied_bytes = bytes;
        Ok(())
    }

    /// Bytes of the replies so far.
    pub(crate) fn replied_bytes(&self) -> usize {
        self.replied_bytes
    }

    // ---- Writes ----

    /// Fails if a string or field of `bytes` is too large: before it is made.
    pub(crate) fn check_value(&self, bytes: usize) -> Result<(), CommandError> {
        if bytes > self.state.memory.value_bytes_max() { Err(OUT_OF_MEMORY) } else { Ok(()) }
    }

    /// Sets `key` to `value`, until `expires_at_ms` if that is given.
    pub(crate) fn put(
        &mut self,
        space: Space,
        key: Bytes,
        value: Bytes,
        expires_at_ms: Option<u64>,
    ) -> Result<(), CommandError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(CommandError::from(format!(
                "ERR a key has 1 to {KEY_BYTES_MAX} bytes, this one would have {}",
                key.len()
            )));
        }
        self.check_value(value.len())?;
        if space == Space::Heads && !self.state.keyspaces.heads().exist() {
            return Err(CommandError::FirstHead);
        }
        let slot = self.slot();
        if self.keyspace(space)?.is_none() {
            // Over a snapshot: writes are not conditional.
            self.state.keyspaces.get_or_create(slot, space)?;
        }
        let bytes = key.len() + value.len();
        self.gather(bytes, Write::Put { slot, space, key, value, expires_at_ms })
    }

    /// Removes `key`.
    pub(crate) fn delete(&mut self, space: Space, key: Bytes) -> Result<(), CommandError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Ok(());
        }
        let slot = self.slot();
        self.gather(key.len(), Write::Delete { slot, space, key })
    }

    /// Removes everything, in all databases.
    pub(crate) fn delete_all(&mut self) -> Result<(), CommandError> {
        let state = self.state;
        let delete = |keyspace: &Keyspace| Write::DeleteKeyspace(keyspace.clone());
        state.keyspaces.all().try_for_each(|keyspace| self.gather(0, delete(keyspace)))
    }

    /// Removes all entries of `space` in the database.
    pub(crate) fn delete_space(&mut self, space: Space) -> Result<(), CommandError> {
        match self.state.keyspaces.get(self.slot(), space) {
            None => Ok(()),
            Some(keyspace) => self.gather(0, Write::DeleteKeyspace(keyspace.clone())),
        }
    }

    fn gather(&mut self, bytes: usize, write: Write) -> Result<(), CommandError> {
        self.gathered_bytes += bytes + WRITE_OVERHEAD_BYTES;
        if self.gathered_bytes > self.state.memory.request_bytes_max() {
            return Err(OUT_OF_MEMORY);
        }
        self.writes.push(write);
        Ok(())
    }

    /// Accepts the writes of the command if `succeeded`, otherwise discards them.
    pub(crate) fn settle(&mut self, succeeded: bool) {
        let bytes = std::mem::take(&mut self.gathered_bytes);
        let mut writes = std::mem::take(&mut self.writes);
        // A command that would block runs again, and reads again.
        let state = self.state;
        self.reads.drain(..).filter(|_| succeeded).for_each(|read| state.record_read(read));
        if succeeded {
            self.settled_bytes += bytes;
            writes.drain(..).for_each(|write| self.take_over(write));
        } else {
            writes.clear();
        }
        self.writes = writes;
    }

    fn take_over(&mut self, write: Write) {
        debug_assert!(!matches!(self.backing, Backing::Memory), "a read writes nothing");
        self.record_write(&write);
        let keyspaces = &self.state.keyspaces;
        let keyspace = |slot, space| keyspaces.get(slot, space).expect("its write was gathered");
        match (self.backing.transaction(), write) {
            (Some(transaction), Write::Put { slot, space, key, value, expires_at_ms }) => {
                let keyspace = keyspace(slot, space);
                match expires_at_ms {
                    Some(deadline) => transaction.put_until(keyspace, &key, &value, deadline),
                    None => transaction.put_without_ttl(keyspace, &key, &value),
                }
            }
            (Some(transaction), Write::Delete { slot, space, key }) => {
                transaction.delete(keyspace(slot, space), &key);
            }
            (Some(transaction), Write::DeleteKeyspace(keyspace)) => {
                transaction.delete_from(&keyspace, b"");
            }
            (None, Write::Put { slot, space, key, value, expires_at_ms: Some(deadline) }) => {
                self.batch.put_until(keyspace(slot, space), &key, &value, deadline);
            }
            (None, Write::Put { slot, space, key, value, expires_at_ms: None }) => {
                self.batch.put_without_ttl(keyspace(slot, space), &key, &value);
            }
            (None, Write::Delete { slot, space, key }) => {
                self.batch.delete(keyspace(slot, space), &key);
            }
            (None, Write::DeleteKeyspace(keyspace)) => {
                self.batch.delete_from(&keyspace, b"");
            }
            (_, Write::Map(map)) => (self.map, self.is_map_changed) = (map, true),
        }
    }

    /// Records a write for the curves, except for the removal of everything.
    fn record_write(&self, write: &Write) {
        match write {
            Write::Put { slot, space, key, value, expires_at_ms } => {
                self.state.record_write(index_of(*slot, *space), key, value, *expires_at_ms);
            }
            Write::Delete { slot, space, key } => {
                self.state.record_removal(index_of(*slot, *space), key);
            }
            // For one window, curves assume that the old entries still exist.
            Write::DeleteKeyspace(_) | Write::Map(_) => {}
        }
    }

    /// Bytes written by the commands so far.
    pub(crate) fn written_bytes(&self) -> usize {
        self.settled_bytes
    }

    /// The transaction with the settled writes, to which more may be added. Only over a
    /// transaction.
    pub(crate) fn into_transaction(self) -> Box<Transaction> {
        debug_assert!(self.writes.is_empty(), "every command has been settled");
        match self.backing {
            Backing::Transaction(transaction) | Backing::TransactionInMemory(transaction) => {
                transaction
            }
            _ => unreachable!("what is added to is a transaction"),
        }
    }

    /// Commits the settled writes.
    pub(crate) fn commit(mut self, durability: Durability) -> Result<Commit, CommandError> {
        debug_assert!(self.writes.is_empty(), "every command has been settled");
        let keyspaces = &self.state.keyspaces;
        if self.is_map_changed {
            let (keyspace, key, value) = keyspaces.slots_entry(self.map)?;
            match self.backing.transaction() {
                Some(transaction) => transaction.put_without_ttl(keyspace, key, &value),
                None => self.batch.put_without_ttl(keyspace, key, &value),
            }
        }
        let commit = match self.backing {
            Backing::Transaction(transaction) | Backing::TransactionInMemory(transaction) => {
                transaction.commit(durability)?
            }
            _ if self.batch.is_empty() => Commit::Done,
            _ => {
                self.state.db.write_with(self.batch, durability)?;
                Commit::Done
            }
        };
        if self.is_map_changed && commit == Commit::Done {
            keyspaces.set_slot_map(self.map);
        }
        Ok(commit)
    }

    /// Commits the settled writes without a sync, if that need not wait. Only over a transaction.
    pub(crate) fn try_commit(self) -> Result<Attempt, CommandError> {
        debug_assert!(self.writes.is_empty(), "every command has been settled");
        match self.backing {
            Backing::Transaction(transaction) | Backing::TransactionInMemory(transaction) => {
                Ok(transaction.try_commit()?)
            }
            _ => unreachable!("writes of event loops are transactions"),
        }
    }
}

/// The result of a non-blocking call, if it has one.
fn ready<T>(cached: Cached<T>) -> Result<T, CommandError> {
    match cached {
        Cached::Ready(answer) => Ok(answer),
        Cached::WouldBlock => Err(CommandError::WouldBlock),
    }
}

/// Whether the bounds contain no key.
fn is_crossed(bounds: &KeyBounds) -> bool {
    use Bound::{Excluded, Included, Unbounded};

    match bounds {
        (Unbounded, _) | (_, Unbounded) => false,
        (Included(start), Included(end)) => start > end,
        (Included(start) | Excluded(start), Included(end) | Excluded(end)) => start >= end,
    }
}

/// The common prefix of all keys within the bounds.
fn common_prefix(bounds: &KeyBounds) -> Bytes {
    use Bound::{Excluded, Included};

    match bounds {
        (Included(start) | Excluded(start), Included(end) | Excluded(end)) => {
            let shared = start.iter().zip(end).take_while(|(a, b)| a == b).count();
            start.slice(..shared)
        }
        _ => Bytes::new(),
    }
}

/// The first key after all keys with the prefix `prefix`.
pub(crate) fn prefix_end(prefix: &[u8]) -> Bound<Bytes> {
    let kept = prefix.iter().rposition(|&byte| byte < 0xff);
    kept.map_or(Bound::Unbounded, |last| {
        let mut end = prefix[..=last].to_vec();
        end[last] += 1;
        Bound::Excluded(Bytes::from(end))
    })
}

#[cfg(test)]
mod tests;
