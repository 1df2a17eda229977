//! [`Db`]: an open store, the entry point of the public API. `Send + Sync`; all methods take
//! `&self`.

use std::path::Path;
use std::sync::Arc;

use crate::api::keyspace::Keyspace;
use crate::api::snapshot::Snapshot;
use crate::api::transaction::{Transaction, Watch};
use crate::batch::WriteBatch;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::lifecycle::handle::Handle;
use crate::lifecycle::recovery;
use crate::options::cache_policy::CachePolicy;
use crate::options::{Durability, KeyspaceOptions, Options};
use crate::stats::Statistics;
use crate::version::tree::Tree;

/// An open store; cheap to clone, `Send + Sync`. It is closed when the last clone, keyspace,
/// snapshot, transaction and iterator is dropped, or by [`Db::close`].
///
/// ```
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
/// let fruits = db.keyspace("fruits")?;
/// fruits.put("apple", "red")?;
/// assert_eq!(fruits.get("apple")?.unwrap(), "red");
///
/// let mut batch = tidekv::WriteBatch::new();
/// batch.put(&fruits, "banana", "yellow");
/// batch.delete(&fruits, "apple");
/// db.write(batch)?; // both or neither, also after a crash
///
/// for entry in fruits.iter() {
///     let (key, entry) = entry?;
///     assert_eq!((&key[..], &entry.value[..]), (&b"banana"[..], &b"yellow"[..]));
/// }
/// # Ok::<(), tidekv::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

impl Db {
    /// Opens the store in the directory `path`, creating it if [`Options::create_if_missing`] is
    /// set, and replays the log of the previous run of the process.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked) if the directory is already open,
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if there is no store and it may
    /// not be created or if a newer version wrote it,
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if a file that recovery needs is damaged.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidekv::{Db, Environment, ErrorKind, MemoryStorage, Options};
    ///
    /// let disk = Arc::new(MemoryStorage::new());
    /// let options = || Options::new().environment(Environment::default().storage(disk.clone()));
    /// let missing = Db::open("data", options().create_if_missing(false)).unwrap_err();
    /// assert_eq!(missing.kind(), ErrorKind::Unavailable);
    ///
    /// Db::open("data", options())?.keyspace("fruits")?.put("apple", "red")?;
    /// let db = Db::open("data", options())?;
    /// assert_eq!(db.keyspace("fruits")?.get("apple")?.unwrap(), "red");
    /// assert_eq!(Db::open("data", options()).unwrap_err().kind(), ErrorKind::Locked);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let engine = recovery::open(path.as_ref(), options)?;
        Ok(Self { handle: Arc::new(Handle::new(engine)) })
    }

    fn engine(&self) -> &Arc<Engine> {
        self.handle.engine()
    }

    /// The directory of the store.
    pub fn path(&self) -> &Path {
        &self.engine().directory
    }

    /// Returns the keyspace `name`; creates it with default options if it does not exist.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) unless the name has 1 to 255
    /// bytes without control characters; [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable)
    /// if the keyspace does not exist in a store that is read-only;
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if the memory budget has no room for
    /// another keyspace.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// let users = db.keyspace("users")?;
    /// assert_eq!(users.name(), "users");
    /// assert_eq!(users, db.keyspace("users")?); // the same keyspace
    /// assert!(db.keyspace("").is_err());
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        match self.find(name) {
            Some(tree) => Ok(Keyspace::new(Arc::clone(&self.handle), tree)),
            None => self.keyspace_with(name, KeyspaceOptions::default()),
        }
    }

    /// Returns the keyspace `name`; creates it with `options`, or changes its options if it exists
    /// with other ones. Changed options apply to tables that are written from now on.
    ///
    /// # Errors
    ///
    /// As for [`Db::keyspace`], and [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if
    /// an option is out of range or this build lacks the compression.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// use tidekv::KeyspaceOptions;
    ///
    /// let blobs = db.keyspace_with("blobs", KeyspaceOptions::new().block_bytes(16 << 10))?;
    /// assert_eq!(blobs.options().block_bytes, 16384);
    /// assert!(db.keyspace_with("blobs", KeyspaceOptions::new().block_bytes(1)).is_err());
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        check_keyspace(name, &options)?;
        let is_changed = self.find(name).is_none_or(|tree| *tree.options() != options);
        if is_changed {
            check_codecs(&options)?;
        }
        let tree = self.engine().put_keyspace(name, options)?;
        Ok(Keyspace::new(Arc::clone(&self.handle), tree))
    }

    fn find(&self, name: &str) -> Option<Arc<Tree>> {
        self.engine().trees.find(name)
    }

    /// Drops the keyspace `name` and all its entries, durably; returns whether it existed.
    ///
    /// Open iterators remain valid. All other reads and all writes through existing handles fail,
    /// also in snapshots, and the reported sizes are 0. Table files are deleted once no iterator or
    /// compaction reads them. A new keyspace with the same name starts empty.
    ///
    /// To delete all entries and keep the keyspace, use [`Keyspace::clear`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) or
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the log or the manifest cannot be
    /// written. The keyspace is then kept, unless its drop is in doubt: the store cannot tell
    /// whether the manifest contains it. A keyspace in doubt rejects writes, and [`Db::health`]
    /// reports it, until it is dropped again, or kept by [`Db::resume`] or any other manifest
    /// change. If the store is reopened first, the keyspace may or may not exist.
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) after [`Db::close`] or if the store is
    /// read-only.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// use tidekv::ErrorKind;
    ///
    /// let old = db.keyspace("sessions")?;
    /// old.put("token", "user-7")?;
    /// assert!(db.drop_keyspace("sessions")?);
    /// assert!(!db.drop_keyspace("sessions")?, "already dropped");
    /// assert_eq!(old.get("token").unwrap_err().kind(), ErrorKind::Unavailable);
    /// assert_eq!(db.keyspace("sessions")?.get("token")?, None);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        self.engine().drop_keyspace(name)
    }

    /// Whether the keyspace `name` exists.
    pub fn has_keyspace(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the keyspace `name` if it exists; never creates it.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// assert!(db.existing_keyspace("users").is_none());
    /// db.keyspace("users")?;
    /// assert!(db.existing_keyspace("users").is_some());
    /// assert_eq!(db.keyspace_names(), ["users"]);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn existing_keyspace(&self, name: &str) -> Option<Keyspace> {
        self.find(name).map(|tree| Keyspace::new(Arc::clone(&self.handle), tree))
    }

    /// The names of all keyspaces, in the order of their creation.
    pub fn keyspace_names(&self) -> Vec<String> {
        self.engine().trees.load().values().map(|tree| tree.name.to_string()).collect()
    }

    /// Commits a batch atomically, with the durability of [`Options::durability`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the batch holds a key or
    /// value that is too large, or writes to keyspaces of another store;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if it writes to a keyspace that was
    /// dropped;
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if it has more than a quarter of the
    /// memory budget;
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) if no space is left;
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) if the log cannot be written;
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) after [`Db::close`] or if the store is
    /// read-only.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, self.engine().options.durability)
    }

    /// Commits a batch atomically, with the given durability.
    ///
    /// # Errors
    ///
    /// As for [`Db::write`].
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// use tidekv::{Durability, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(&keyspace, "order-17", "paid");
    /// db.write_with(batch, Durability::Sync)?; // survives a power cut
    /// assert!(keyspace.contains("order-17")?);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn write_with(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.engine().write(batch, durability, Vec::new()).map(|_| ())
    }

    /// Begins a transaction. See [`Transaction`].
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.handle))
    }

    /// Records the state of a key, for [`Transaction::require_unchanged`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) for a keyspace of another store.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// use tidekv::{Commit, Durability};
    ///
    /// let watch = db.watch(&keyspace, "key")?;
    /// keyspace.put("key", "changed")?;
    /// let mut transaction = db.transaction();
    /// transaction.require_unchanged(&watch);
    /// transaction.put(&keyspace, "other", "value");
    /// assert_eq!(transaction.commit(Durability::Buffered)?, Commit::Conflict);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn watch(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Watch> {
        self.engine().jobs.check_open()?;
        keyspace.check_store(self.engine())?;
        Ok(Watch::new(&self.handle, keyspace, key.as_ref()))
    }

    /// Whether a writer is committing at this moment, so that [`Transaction::try_commit`] would
    /// return [`Attempt::Busy`](crate::Attempt::Busy).
    pub fn is_busy(&self) -> bool {
        self.engine().queue.is_led()
    }

    /// Takes a snapshot of all keyspaces. See [`Snapshot`].
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.handle))
    }

    /// Writes everything that is in memtables into tables, and waits for it. Not needed for
    /// durability: see [`Db::sync`].
    pub fn flush(&self) -> Result<()> {
        self.engine().flush(&self.engine().trees.all())
    }

    /// Makes every write that was acknowledged so far durable: it survives a power cut afterwards.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidekv::{Db, Environment, MemoryStorage, Options, Tear};
    ///
    /// let disk = Arc::new(MemoryStorage::new());
    /// let environment = Environment::default().storage(disk.clone());
    /// let db = Db::open("data", Options::new().environment(environment))?;
    /// let keyspace = db.keyspace("default")?;
    /// keyspace.put("key", "value")?; // buffered
    /// db.sync()?;
    ///
    /// let disk = Arc::new(disk.after_power_loss(Tear::DropUnsynced));
    /// let environment = Environment::default().storage(disk);
    /// let db = Db::open("data", Options::new().environment(environment))?;
    /// assert_eq!(db.keyspace("default")?.get("key")?.unwrap(), "value");
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.engine().sync()
    }

    /// Compacts all keyspaces completely and waits for it. Drops overwritten, deleted and expired
    /// entries that no snapshot sees.
    pub fn compact(&self) -> Result<()> {
        self.flush()?;
        self.engine()
            .trees
            .all()
            .iter()
            .try_for_each(|tree| self.engine().compact_range(tree, None, None))
    }

    /// Creates a store in the directory `path` that holds the present state of this one. `path`
    /// must not exist. On the same file system tables are shared by hard links, so a checkpoint takes
    /// hardly any time or space; on another one they are copied. Writers wait meanwhile.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if `path` exists.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidekv::{Db, Environment, MemoryStorage, Options};
    ///
    /// let disk = Arc::new(MemoryStorage::new());
    /// let options = || Options::new().environment(Environment::default().storage(disk.clone()));
    /// let db = Db::open("data", options())?;
    /// let fruits = db.keyspace("fruits")?;
    /// fruits.put("apple", "red")?;
    /// db.checkpoint("backup")?;
    /// fruits.put("apple", "green")?;
    ///
    /// let copy = Db::open("backup", options())?;
    /// assert_eq!(copy.keyspace("fruits")?.get("apple")?.unwrap(), "red");
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.engine().checkpoint(path.as_ref())
    }

    /// Reads all counters, gauges and latencies. They start at zero when the store is opened.
    pub fn statistics(&self) -> Statistics {
        self.engine().statistics()
    }

    /// Reports whether writes can continue. It changes nothing. It may wait for a write that is
    /// being committed.
    ///
    /// # Errors
    ///
    /// The reason why writes cannot continue: the store is closed; its log was lost or a writer
    /// panicked (reopen it); the last flush of a keyspace failed, or its last compaction failed and is
    /// still needed, which stops writes once the memtables are full; or the drop of a keyspace is in
    /// doubt (see [`Db::drop_keyspace`]). [`Db::resume`] retries the last two.
    pub fn health(&self) -> Result<()> {
        self.engine().health()
    }

    /// Retries failed flushes and compactions, and keeps keyspaces whose drop is in doubt (see
    /// [`Db::drop_keyspace`]). Call it once the cause, for example a full disk, is gone. Flushes and
    /// compactions are also retried by writes that wait for them, and after ten seconds. It does not
    /// wait for their outcome, which [`Db::health`] reports.
    ///
    /// # Errors
    ///
    /// If the store is closed or read-only, or the manifest cannot be written.
    pub fn resume(&self) -> Result<()> {
        self.engine().resume()
    }

    /// The memory budget in bytes: the store's own, or its present part of one that it shares
    /// ([`Options::memory_budget`]).
    pub fn memory_bytes(&self) -> u64 {
        self.engine().memory.total_bytes()
    }

    /// Changes the memory budget, in bytes; less than 8 MiB is raised to 8 MiB. Caches shrink at
    /// once, memtables when they are flushed.
    ///
    /// A store that takes part in the budget of the process leaves it, and gets a budget of its own.
    /// For one that was opened with [`Options::memory_budget`], this is the most that it may take of
    /// that budget.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// db.set_memory_bytes(64 << 20);
    /// assert_eq!(db.memory_bytes(), 64 << 20);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.engine().share.set_bytes(bytes);
        self.engine().after_install();
    }

    /// The most table files that are open at a time ([`Options::max_open_files`]).
    pub fn max_open_files(&self) -> usize {
        self.engine().trees.files().open_max()
    }

    /// Sets how many bytes of the memory budget the program uses itself, for example for requests
    /// and replies. Caches shrink at once to leave room for them, and grow when they are released;
    /// memtables do not. Initially 0.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// db.set_memory_bytes(64 << 20);
    /// db.set_reserved_memory_bytes(16 << 20);
    /// assert!(db.statistics().memory().cache_bytes_max < 48 << 20);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn set_reserved_memory_bytes(&self, bytes: u64) {
        let engine = self.engine();
        engine.memory.follow_reserved(&engine.trees, bytes);
    }

    /// The policy that divides the memory of the caches.
    pub fn cache_policy(&self) -> CachePolicy {
        CachePolicy::public(self.engine().memory.caches().policy()).unwrap_or_default()
    }

    /// Changes the policy that divides the memory of the caches. Entries that no longer fit are
    /// evicted at once.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// use tidekv::CachePolicy;
    ///
    /// assert_eq!(db.cache_policy(), CachePolicy::Adaptive);
    /// db.set_cache_policy(CachePolicy::BlockOnly);
    /// assert_eq!(db.cache_policy(), CachePolicy::BlockOnly);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn set_cache_policy(&self, policy: impl Into<CachePolicy>) {
        self.engine().set_cache_policy(policy.into().internal());
    }

    /// Limits the caches to `bytes`, below their part of the budget, down to zero. For proofs that
    /// caches never change an answer.
    #[cfg(feature = "research")]
    pub fn set_cache_bytes_max(&self, bytes: u64) {
        self.engine().set_cache_bytes_max(bytes);
    }

    /// The time of the store's clock, by which entries expire, in milliseconds since 1970: the
    /// machine's time of day when the store was opened, moved on by a clock that cannot be set. It
    /// never goes back, also not from one opening to the next.
    pub fn unix_ms(&self) -> u64 {
        self.engine().clock.unix_ms()
    }

    /// How many milliseconds the machine's time of day is ahead of [`Db::unix_ms`] (negative:
    /// behind). 0 unless the machine's clock was set by a second or more since the store was
    /// created. A deadline that is a time of day is, on the store's clock, this much earlier.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let clock = std::sync::Arc::new(tidekv::ManualClock::new(1_800_000_000_000));
    /// # let environment = tidekv::Environment::default().storage(disk).clock(clock.clone());
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// assert_eq!((db.unix_ms(), db.clock_offset_ms()), (1_800_000_000_000, 0));
    /// clock.set_forward(3_600_000);
    /// assert_eq!((db.unix_ms(), db.clock_offset_ms()), (1_800_000_000_000, 3_600_000));
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn clock_offset_ms(&self) -> i64 {
        self.engine().clock.offset_ms()
    }

    /// Waits for background work, makes the log durable, saves the caches if
    /// [`Options::warm_start`] is set, and unlocks the directory. Later calls on any handle fail
    /// with [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// db.close()?;
    /// assert_eq!(keyspace.get("key").unwrap_err().kind(), tidekv::ErrorKind::Closed);
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        self.handle.close()
    }
}

impl Keyspace {
    /// Writes entries in ascending order of their keys straight into tables: several times faster
    /// than single writes. They become visible together and durably, and are newer than everything
    /// written before. Returns their number.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the keys do not ascend or a
    /// key or value is too large; nothing is written then.
    ///
    /// ```
    /// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
    /// # let environment = tidekv::Environment::default().storage(disk);
    /// # let db = tidekv::Db::open("data", tidekv::Options::new().environment(environment))?;
    /// # let keyspace = db.keyspace("default")?;
    /// let entries = (0..1000).map(|n| (format!("key-{n:04}"), n.to_string()));
    /// assert_eq!(keyspace.ingest(entries)?, 1000);
    /// assert_eq!(keyspace.get("key-0042")?.unwrap(), "42");
    /// assert!(keyspace.ingest([("b", "1"), ("a", "2")]).is_err(), "not in order");
    /// # Ok::<(), tidekv::Error>(())
    /// ```
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let deadline = crate::batch::KeyspaceRef::from(self).default_ttl.map(|ttl| ttl.estimate_ms);
        self.engine().ingest(self.tree(), deadline, sorted)
    }
}

/// Whether this build can write the blocks of a keyspace.
fn check_codecs(options: &KeyspaceOptions) -> Result<()> {
    for compression in [options.compression, options.compression_last] {
        if !compression.is_available() {
            return Err(Error::invalid(format!(
                "this build lacks the feature for the compression {compression:?}"
            )));
        }
    }
    Ok(())
}

fn check_keyspace(name: &str, options: &KeyspaceOptions) -> Result<()> {
    if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "{name:?} is no name for a keyspace: 1 to 255 bytes, no control characters"
        )));
    }
    if !(512..=64 << 10).contains(&options.block_bytes) {
        return Err(Error::invalid(format!(
            "blocks of {} bytes: 512 to 65536 are allowed",
            options.block_bytes
        )));
    }
    if options.filter_bits_per_key > 32 {
        return Err(Error::invalid(format!(
            "{} filter bits a key: 0 to 32 are allowed",
            options.filter_bits_per_key
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
