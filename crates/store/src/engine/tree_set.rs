//! The keyspaces of a store and their tables: the manifest, the views that readers see, and the
//! files behind both.
//!
//! `structure` guards the manifest and which tables are being compacted. A change of tables is
//! committed to the manifest and then published in the tree's view, both under this lock
//! ([`TreeSet::commit`]). A file is removed once no view holds a table in it
//! ([`TreeSet::remove_obsolete_files`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidekv_io::{Access, Storage};

use crate::error::{Error, ErrorKind, Result};
use crate::format::files::table_path;
use crate::sst::file_handles::FileHandles;
use crate::sst::table::Table;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{ArcSwap, Guard, Mutex, MutexGuard};
use crate::version::levels::{ObsoleteTables, TableHandle, Version};
use crate::version::manifest::{Edit, Manifest, TableMeta};
use crate::version::tree::Tree;

/// The keyspaces by their numbers.
pub(crate) type Trees = BTreeMap<u32, Arc<Tree>>;

/// The data that the lock of that name guards.
#[derive(Debug)]
pub(crate) struct Structure {
    pub(crate) manifest: Manifest,
    /// Table files of edits that failed to be committed. The manifest file that the failure ended may
    /// name them, so they stay until the next commit has begun a new one.
    orphans: Vec<u64>,
    /// Keyspaces whose drop has failed; the manifest file that the failure ended may contain the
    /// drop.
    in_doubt: Vec<Arc<Tree>>,
}

impl Structure {
    /// Makes `edit` durable.
    pub(crate) fn commit(&mut self, edit: Edit) -> Result<()> {
        self.manifest.commit(edit)?;
        self.in_doubt.drain(..).for_each(|tree| tree.set_in_doubt(false));
        Ok(())
    }

    /// Refuses writes to `tree` until an edit is durable again. While leading.
    pub(crate) fn mark_in_doubt(&mut self, tree: &Arc<Tree>) {
        tree.set_in_doubt(true);
        if !self.in_doubt.iter().any(|in_doubt| Arc::ptr_eq(in_doubt, tree)) {
            self.in_doubt.push(Arc::clone(tree));
        }
    }
}

/// A change of the tables of a tree.
#[derive(Debug)]
pub(crate) struct TableChange<'a> {
    pub(crate) tree: &'a Tree,
    /// By number.
    pub(crate) removed: &'a [u64],
    /// With their levels.
    pub(crate) added: &'a [(usize, Arc<TableHandle>)],
}

/// All keyspaces of a store.
#[derive(Debug)]
pub(crate) struct TreeSet {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    /// How tables are read and written.
    access: Access,
    files: Arc<FileHandles>,
    trees: ArcSwap<Trees>,
    /// The number of keyspaces that were dropped.
    drops: AtomicU64,
    structure: Mutex<Structure>,
    obsolete: Arc<ObsoleteTables>,
}

impl TreeSet {
    /// The set of the store in `directory`, without trees yet; at most `open_max` files of tables
    /// are open at a time.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        (access, open_max): (Access, usize),
        manifest: Manifest,
    ) -> Self {
        Self {
            files: Arc::new(FileHandles::new(Arc::clone(&storage), access, open_max)),
            storage,
            directory,
            access,
            trees: ArcSwap::from_pointee(Trees::new()),
            drops: AtomicU64::new(0),
            structure: Mutex::new(Structure {
                manifest,
                orphans: Vec::new(),
                in_doubt: Vec::new(),
            }),
            obsolete: Arc::new(ObsoleteTables::default()),
        }
    }

    // ---- The trees ----

    /// The trees, for a short access.
    pub(crate) fn load(&self) -> Guard<Arc<Trees>> {
        self.trees.load()
    }

    /// The trees, as a list that the caller may keep.
    pub(crate) fn all(&self) -> Vec<Arc<Tree>> {
        self.load().values().cloned().collect()
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<Tree>> {
        self.load().get(&id).cloned()
    }

    /// The tree of the keyspace `name`.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Tree>> {
        self.load().values().find(|tree| *tree.name == *name).cloned()
    }

    /// Replaces the trees. While opening, or while holding `structure`.
    pub(crate) fn publish(&self, trees: Trees) {
        self.trees.store(Arc::new(trees));
    }

    /// Adds a tree. While holding `structure`.
    pub(crate) fn insert(&self, tree: Arc<Tree>) {
        let mut trees = (**self.load()).clone();
        trees.insert(tree.id, tree);
        self.publish(trees);
    }

    /// Removes a tree whose keyspace was dropped. While leading and holding `structure`.
    pub(crate) fn remove(&self, tree: &Tree) {
        let mut trees = (**self.load()).clone();
        trees.remove(&tree.id);
        self.publish(trees);
        self.count_drop();
    }

    /// Fails if it is unknown whether a keyspace was dropped.
    pub(crate) fn check_drops_in_doubt(&self) -> Result<()> {
        let in_doubt = self.structure().in_doubt.first().cloned();
        in_doubt.map_or(Ok(()), |tree| tree.check_writable())
    }

    /// Resolves drops that are in doubt: the keyspaces are kept.
    pub(crate) fn resolve_drops_in_doubt(&self) -> Result<()> {
        let mut structure = self.structure();
        if structure.in_doubt.is_empty() { Ok(()) } else { structure.commit(Edit::default()) }
    }

    /// The number of keyspaces that were dropped: a batch that was checked when there were fewer
    /// must be checked again.
    pub(crate) fn drops(&self) -> u64 {
        self.drops.load(Ordering::Acquire)
    }

    /// Counts a keyspace that accepts no writes any more. Only while leading.
    pub(crate) fn count_drop(&self) {
        self.drops.fetch_add(1, Ordering::AcqRel);
    }

    /// Bytes in the memtables of all keyspaces.
    pub(crate) fn memtables_bytes(&self) -> u64 {
        let of_tree =
            |tree: &Arc<Tree>| tree.view().memtables().map(|m| m.charge() as u64).sum::<u64>();
        self.load().values().map(of_tree).sum()
    }

    /// The memory of keyspaces, and of open tables.
    pub(crate) fn metadata_charge(&self) -> (usize, usize) {
        self.load().values().fold((0, 0), |(keyspaces, tables), tree| {
            let of_tree = tree.view().version.tables().map(|table| table.charge()).sum::<usize>();
            (keyspaces + tree.charge(), tables + of_tree)
        })
    }

    /// All live tables.
    pub(crate) fn open_tables(&self) -> impl Iterator<Item = Arc<Table>> + use<> {
        let versions: Vec<_> = self.all().iter().map(|tree| tree.version()).collect();
        let tables = |version: Arc<Version>| {
            version.tables().map(|handle| Arc::clone(handle.table())).collect::<Vec<_>>()
        };
        versions.into_iter().flat_map(tables)
    }

    // ---- The manifest ----

    /// Locks the manifest against changes by other threads, and tables against being claimed.
    pub(crate) fn structure(&self) -> MutexGuard<'_, Structure> {
        self.structure.lock()
    }

    /// Whether `id` is the id of a keyspace that was dropped.
    pub(crate) fn was_dropped(&self, id: u32) -> bool {
        self.structure.lock().manifest.state().was_dropped(id)
    }

    /// A number for a new file.
    pub(crate) fn allocate_file(&self) -> u64 {
        self.structure.lock().manifest.allocate_file()
    }

    /// A number and path for a new table, recorded in `made` so that the file can be removed if the
    /// merge fails.
    pub(crate) fn new_table(&self, made: &Mutex<Vec<u64>>) -> (u64, PathBuf) {
        let id = self.allocate_file();
        made.lock().push(id);
        (id, table_path(&self.directory, id))
    }

    /// A number for a table in a file of several, which has its own number.
    pub(crate) fn new_table_in_shared_file(&self) -> (u64, PathBuf) {
        let id = self.allocate_file();
        (id, table_path(&self.directory, id))
    }

    /// Makes a change of `tree`'s tables durable, after checking that it is valid. The caller
    /// publishes it under the same lock.
    ///
    /// False if the keyspace was dropped meanwhile: then nothing was changed, and the caller must
    /// not publish anything.
    pub(crate) fn commit(
        &self,
        structure: &mut Structure,
        tree: &Tree,
        edit: Edit,
        removed: &[u64],
        added: &[(usize, Arc<TableHandle>)],
    ) -> Result<bool> {
        if self.get(tree.id).is_none() {
            return Ok(false);
        }
        let change = TableChange { tree, removed, added };
        self.commit_all(structure, edit, &[change]).map(|()| true)
    }

    /// Like [`TreeSet::commit`], for several trees, none of which was dropped.
    pub(crate) fn commit_all(
        &self,
        structure: &mut Structure,
        edit: Edit,
        changes: &[TableChange<'_>],
    ) -> Result<()> {
        for TableChange { tree, removed, added } in changes {
            tree.version().with(removed, added).map_err(|overlap| {
                Error::new(ErrorKind::Storage, format!("a change was refused, because {overlap}"))
            })?;
        }
        match structure.commit(edit) {
            Ok(()) => {
                self.remove_tables(&std::mem::take(&mut structure.orphans));
                Ok(())
            }
            Err(error) if structure.manifest.is_intact() => {
                // A manifest that refused the edit as a whole, on a full disk, does not name them.
                Err(error)
            }
            Err(error) => {
                for TableChange { removed, added, .. } in changes {
                    let is_new = |meta: &&TableMeta| !removed.contains(&meta.id);
                    let made = added.iter().map(|(_, table)| table.meta()).filter(is_new);
                    structure.orphans.extend(made.map(|meta| meta.file));
                }
                Err(error)
            }
        }
    }

    // ---- Table files ----

    /// How tables are read and written.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Opens a table file and checks it against the manifest.
    pub(crate) fn open_table(&self, meta: Arc<TableMeta>) -> Result<Arc<TableHandle>> {
        let path = table_path(&self.directory, meta.file);
        let handle = self.files.handle(meta.file, path.clone(), meta.shares_file());
        let file = handle.file().map_err(|error| match error.kind() {
            tidekv_io::ErrorKind::NotFound => {
                Error::corrupt(&path, "the manifest names it, but it is missing")
            }
            _ => error.into(),
        })?;
        check_length(&path, file.len()?, &meta)?;
        drop(file);
        let table = Table::open_in((handle, meta.offset), meta.id, meta.bytes)?;
        Ok(Arc::new(TableHandle::new(meta, Arc::new(table), Arc::clone(&self.obsolete))))
    }

    /// Removes tables of a job that failed, except those that the manifest may name because their
    /// edit may have been written.
    pub(crate) fn discard_tables(&self, ids: impl IntoIterator<Item = u64>) {
        let structure = self.structure.lock();
        let gone: Vec<u64> = ids.into_iter().filter(|id| !structure.orphans.contains(id)).collect();
        drop(structure);
        self.remove_tables(&gone);
    }

    pub(crate) fn remove_tables(&self, ids: &[u64]) {
        for &id in ids {
            let _ = self.storage.remove(&table_path(&self.directory, id));
        }
    }

    /// The open files of tables.
    pub(crate) fn files(&self) -> &FileHandles {
        &self.files
    }

    /// Whether there are obsolete tables without readers.
    pub(crate) fn has_obsolete(&self) -> bool {
        self.obsolete.has_any() || self.files.has_obsolete()
    }

    /// The obsolete tables that no reader uses any more.
    pub(crate) fn take_obsolete(&self) -> Vec<u64> {
        self.obsolete.take()
    }

    /// Removes the files whose tables are all obsolete and without readers.
    pub(crate) fn remove_obsolete_files(&self) {
        for id in self.files.take_obsolete() {
            // A file that cannot be removed now is removed when the store is opened again.
            if let Err(error) = self.storage.remove(&table_path(&self.directory, id)) {
                tracing::warn!(%error, "cannot remove an obsolete table file");
            }
        }
    }
}

/// Compares the length of the file at `path`, `bytes`, with what the manifest says of a table in it.
pub(crate) fn check_length(path: &Path, bytes: u64, meta: &TableMeta) -> Result<()> {
    let what = match meta.shares_file() {
        false if bytes != meta.bytes => {
            format!("it has {bytes} bytes, but the manifest says {}", meta.bytes)
        }
        true if bytes < meta.end_in_file() => {
            let end = meta.end_in_file();
            format!("it has {bytes} bytes, but the manifest has a table that ends at {end}")
        }
        _ => return Ok(()),
    };
    Err(Error::corrupt(path, what))
}
