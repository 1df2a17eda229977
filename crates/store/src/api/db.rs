//! The store as its user sees it.

use std::path::Path;
use std::sync::Arc;

use tidekv_cache::CachePolicy;

use crate::api::keyspace::Keyspace;
use crate::api::snapshot::Snapshot;
use crate::api::transaction::{Transaction, Watch};
use crate::batch::WriteBatch;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::lifecycle::handle::Handle;
use crate::lifecycle::recovery;
use crate::options::{Durability, KeyspaceOptions, Options};
use crate::stats::Statistics;
use crate::version::levels::Version;
use crate::version::manifest::{Change, Edit};
use crate::version::tree::Tree;

/// An open store; cheap to clone, `Send + Sync`. It is closed when the last
/// clone, keyspace, snapshot and walk is dropped, or by [`Db::close`].
///
/// ```
/// # fn main() -> tidekv::Result<()> {
/// # let environment = tidekv::Environment {
/// #     storage: Some(std::sync::Arc::new(tidekv_io::MemoryStorage::new())),
/// #     ..Default::default()
/// # };
/// # let options = tidekv::Options { environment, ..Default::default() };
/// let db = tidekv::Db::open("data", options)?;
/// let fruits = db.keyspace("fruits")?;
/// fruits.put("apple", "red")?;
/// assert_eq!(fruits.get("apple")?.as_deref(), Some(&b"red"[..]));
///
/// let mut batch = tidekv::WriteBatch::new();
/// batch.put(&fruits, b"banana", b"yellow");
/// batch.delete(&fruits, b"apple");
/// db.write(batch)?; // both or neither, also after a crash
///
/// for entry in fruits.prefix("b") {
///     let (key, entry) = entry?;
///     println!("{key:?} = {:?}", entry.value);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

impl Db {
    /// Opens the store in the directory `path`, creating it if the options say
    /// so, and recovers what an earlier life has left in its log.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let engine = recovery::open(path.as_ref(), options)?;
        Ok(Self { handle: Arc::new(Handle::new(engine)) })
    }

    fn engine(&self) -> &Arc<Engine> {
        self.handle.engine()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.engine().directory
    }

    /// The keyspace `name`, created with default options if it does not exist.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        match self.find(name) {
            Some(tree) => Ok(Keyspace::new(Arc::clone(&self.handle), tree)),
            None => self.keyspace_with(name, KeyspaceOptions::default()),
        }
    }

    /// The keyspace `name`, created or changed to have `options`.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        check_keyspace(name, &options)?;
        let engine = self.engine();
        let _gate = engine.enter()?;
        let mut structure = engine.structure.lock();
        let existing = self.find(name);
        if let Some(tree) = &existing
            && *tree.options() == options
        {
            return Ok(Keyspace::new(Arc::clone(&self.handle), Arc::clone(tree)));
        }
        let id = match &existing {
            Some(tree) => tree.id,
            None => engine.trees.load().keys().max().map_or(0, |id| id + 1),
        };
        let put = Change::PutKeyspace { id, name: name.into(), options: options.clone() };
        structure.manifest.commit(Edit { changes: vec![put] })?;
        let tree = match existing {
            Some(tree) => {
                tree.set_options(options);
                tree
            }
            None => {
                let view = engine.new_view(Version::default(), engine.visible());
                let tree = Arc::new(Tree::new(id, name, options, view, 0));
                let mut trees = (**engine.trees.load()).clone();
                trees.insert(id, Arc::clone(&tree));
                engine.trees.store(Arc::new(trees));
                tree
            }
        };
        Ok(Keyspace::new(Arc::clone(&self.handle), tree))
    }

    fn find(&self, name: &str) -> Option<Arc<Tree>> {
        self.engine().trees.load().values().find(|tree| *tree.name == *name).cloned()
    }

    /// The names of all keyspaces, in the order of their creation.
    pub fn keyspace_names(&self) -> Vec<String> {
        self.engine().trees.load().values().map(|tree| tree.name.to_string()).collect()
    }

    /// Writes a batch, whole or not at all, as durably as the options say.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, self.engine().options.durability)
    }

    /// Writes a batch, whole or not at all, as durably as said.
    pub fn write_with(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.engine().write(batch, durability, Vec::new()).map(|_| ())
    }

    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(Arc::clone(&self.handle))
    }

    /// Notes the state of a key, for [`Transaction::require_unchanged`].
    pub fn watch(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Watch> {
        self.engine().check_open()?;
        Ok(Watch::new(&self.handle, keyspace, key))
    }

    /// Whether a writer is at work at this moment, so that
    /// [`Transaction::try_commit`] would be in vain.
    pub fn is_busy(&self) -> bool {
        self.engine().queue.is_led()
    }

    /// The store as it is now, to be read later.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.handle))
    }

    /// Brings everything written so far into tables.
    pub fn flush(&self) -> Result<()> {
        self.engine().flush(&self.engine().all_trees())
    }

    /// Everything acknowledged so far is on stable storage afterwards.
    pub fn sync(&self) -> Result<()> {
        self.engine().sync()
    }

    /// Compacts everything.
    pub fn compact(&self) -> Result<()> {
        self.flush()?;
        self.engine()
            .all_trees()
            .iter()
            .try_for_each(|tree| self.engine().compact_range(tree, None, None))
    }

    /// Makes a store of its own in the directory `path`, on the same file
    /// system, that holds what this one holds now. Tables are shared by hard
    /// links, so it takes neither time nor space.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.engine().checkpoint(path.as_ref())
    }

    /// What the store has counted since it was opened.
    pub fn statistics(&self) -> Statistics {
        self.engine().statistics()
    }

    /// Reports whether writes can continue: an error if the last flush or compaction failed, which
    /// stops writes as soon as the memtables are full. It also starts the failed work again, so a
    /// later call succeeds once the cause, for example a full disk, is gone. It does not block.
    ///
    /// # Errors
    ///
    /// The error of the flush or compaction.
    pub fn health(&self) -> Result<()> {
        self.engine().check_background_work()
    }

    /// The memory budget in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.engine().memory_bytes.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Changes the memory budget (at least 8 MiB). Caches shrink at once.
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.engine().set_memory_bytes(bytes);
    }

    /// How entries and blocks share the memory of the caches.
    pub fn cache_policy(&self) -> CachePolicy {
        self.engine().caches.policy()
    }

    /// Changes how entries and blocks share the memory of the caches; what does not fit
    /// any more leaves at once.
    pub fn set_cache_policy(&self, policy: CachePolicy) {
        self.engine().set_cache_policy(policy);
    }

    /// Keeps the caches below what the budget would leave it, down to
    /// nothing. For proofs that caches never change an answer: no setting.
    #[doc(hidden)]
    pub fn set_cache_bytes_max(&self, bytes: u64) {
        self.engine().set_cache_bytes_max(bytes);
    }

    /// Milliseconds since 1970 by the store's clock, which deadlines go by.
    pub fn unix_ms(&self) -> u64 {
        self.engine().clock.unix_ms()
    }

    /// Waits for background work, makes the log durable and gives up the
    /// directory. Later calls on any handle fail with
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    pub fn close(&self) -> Result<()> {
        self.handle.close()
    }
}

impl Keyspace {
    /// Writes entries in ascending order of their keys straight into tables:
    /// several times faster than writing them one by one. They become visible
    /// together, durably, newer than anything written before. Returns how many
    /// there were.
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let deadline = crate::batch::KeyspaceRef::from(self).default_deadline_ms;
        self.engine().ingest(self.tree(), deadline, sorted)
    }
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
