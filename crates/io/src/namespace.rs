//! The names of a simulated file system: the visible ones, the durable ones, and the unsynced
//! changes between the two, in order.
//!
//! Guarantees:
//! 1. Syncing a directory makes every change in it durable, with the earlier changes of the same
//!    names, on which it builds.
//! 2. A name change is durable completely or not at all, though a rename may touch two directories.
//! 3. After a power loss, a surviving change implies that every earlier change of its names
//!    survived too; independent changes survive independently.
//! 4. A directory whose own name did not survive is lost with its contents.
//!
//! Not synchronised; the storage's lock guards it.

use std::collections::{BTreeMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::faults::Tear;
use crate::inode::Inode;
use crate::random::SeededRandom;

/// A file without its names.
pub(crate) type FileNode = Arc<Mutex<Inode>>;

/// The target of a name.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    File(FileNode),
    Directory,
}

/// A name and its directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) directory: PathBuf,
    pub(crate) name: String,
}

impl Name {
    /// The last name of `path`; none for the root. Absolute and relative paths begin at the same
    /// root.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let path = normal(path);
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(Self { directory: path.parent()?.to_owned(), name })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

/// `path` from the root, without "." and "..".
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain
}

/// Directories by path, with the targets of their names.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    directories: BTreeMap<PathBuf, BTreeMap<String, Node>>,
}

impl Tree {
    fn new() -> Self {
        Self { directories: BTreeMap::from([(PathBuf::new(), BTreeMap::new())]) }
    }

    pub(crate) fn directory(&self, path: &Path) -> Option<&BTreeMap<String, Node>> {
        self.directories.get(&normal(path))
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Node> {
        self.directories.get(&name.directory)?.get(&name.name)
    }

    /// All files with their paths, ordered by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (PathBuf, &FileNode)> {
        self.directories.iter().flat_map(|(path, entries)| {
            entries.iter().filter_map(move |(name, node)| match node {
                Node::File(file) => Some((path.join(name), file)),
                Node::Directory => None,
            })
        })
    }

    /// Replaces each file by a new one, the same one for all its names.
    fn replace_files(&mut self, mut new: impl FnMut(&FileNode) -> FileNode) {
        let mut replaced: BTreeMap<usize, FileNode> = BTreeMap::new();
        for node in self.directories.values_mut().flat_map(BTreeMap::values_mut) {
            if let Node::File(file) = node {
                let address = Arc::as_ptr(file).addr();
                *file = Arc::clone(replaced.entry(address).or_insert_with(|| new(file)));
            }
        }
    }

    fn apply(&mut self, change: &NameChange) {
        if let Some(gone) = &change.removed
            && let Some(entries) = self.directories.get_mut(&gone.directory)
        {
            entries.remove(&gone.name);
        }
        if let Some((name, node)) = &change.added {
            if matches!(node, Node::Directory) {
                self.directories.entry(name.path()).or_default();
            }
            let entries = self.directories.entry(name.directory.clone()).or_default();
            entries.insert(name.name.clone(), node.clone());
        }
    }

    /// Drops unreachable directories.
    fn drop_unreachable(&mut self) {
        // Parents come before their children in path order.
        let mut reached = HashSet::from([PathBuf::new()]);
        for (path, entries) in &self.directories {
            if reached.contains(path) {
                let below = entries.iter().filter(|(_, node)| matches!(node, Node::Directory));
                reached.extend(below.map(|(name, _)| path.join(name)));
            }
        }
        self.directories.retain(|path, _| reached.contains(path));
    }
}

/// One change of names; a rename is a removal and an addition in one.
#[derive(Debug, Clone)]
struct NameChange {
    removed: Option<Name>,
    added: Option<(Name, Node)>,
}

impl NameChange {
    fn names(&self) -> impl Iterator<Item = &Name> {
        self.removed.iter().chain(self.added.iter().map(|(name, _)| name))
    }

    fn touches(&self, directory: &Path) -> bool {
        self.names().any(|name| name.directory == directory)
    }
}

/// All names of a disk with a volatile cache.
#[derive(Debug)]
pub(crate) struct Namespace {
    visible: Tree,
    durable: Tree,
    pending: Vec<NameChange>,
}

impl Namespace {
    pub(crate) fn new() -> Self {
        Self { visible: Tree::new(), durable: Tree::new(), pending: Vec::new() }
    }

    pub(crate) fn visible(&self) -> &Tree {
        &self.visible
    }

    pub(crate) fn add(&mut self, name: Name, node: Node) {
        self.change(NameChange { removed: None, added: Some((name, node)) });
    }

    pub(crate) fn remove(&mut self, name: Name) {
        self.change(NameChange { removed: Some(name), added: None });
    }

    pub(crate) fn rename(&mut self, from: Name, to: Name, node: Node) {
        self.change(NameChange { removed: Some(from), added: Some((to, node)) });
    }

    fn change(&mut self, change: NameChange) {
        self.visible.apply(&change);
        self.pending.push(change);
    }

    pub(crate) fn sync(&mut self, directory: &Path) {
        let directory = normal(directory);
        let chosen = with_foundations(&self.pending, |change| change.touches(&directory));
        let mut chosen = chosen.into_iter();
        let durable = &mut self.durable;
        self.pending.retain(|change| {
            let now = chosen.next() == Some(true);
            if now {
                durable.apply(change);
            }
            !now
        });
    }

    /// A sync that fails: the changes stay visible and never become durable.
    pub(crate) fn lose_pending(&mut self, directory: &Path) {
        let directory = normal(directory);
        self.pending.retain(|change| !change.touches(&directory));
    }

    /// Adds a file and its parent directories, durable at once; other changes in those directories
    /// become durable too.
    pub(crate) fn add_durable(&mut self, name: Name, file: FileNode) {
        let above = name.directory.ancestors().map(Path::to_owned).collect::<Vec<_>>();
        for directory in above.iter().rev() {
            if let Some(name) = Name::of(directory) {
                self.add(name, Node::Directory);
            }
        }
        self.add(name, Node::File(file));
        above.iter().for_each(|directory| self.sync(directory));
    }

    /// The names on the device after a power loss now; `survivor` maps each file.
    pub(crate) fn aftermath(
        &self,
        tear: Tear,
        random: &SeededRandom,
        survivor: impl FnMut(&FileNode) -> FileNode,
    ) -> Self {
        let chosen = with_foundations(&self.pending, |_| match tear {
            Tear::DropUnsynced => false,
            Tear::KeepUnsynced => true,
            Tear::Torn { .. } => random.below(2) == 0,
        });
        let mut tree = self.durable.clone();
        for (change, _) in self.pending.iter().zip(chosen).filter(|(_, chosen)| *chosen) {
            tree.apply(change);
        }
        tree.drop_unreachable();
        tree.replace_files(survivor);
        Self { visible: tree.clone(), durable: tree, pending: Vec::new() }
    }
}

/// Marks the changes selected by `wanted` and all earlier ones of the same names. One backward pass
/// suffices: a change builds only on earlier ones.
fn with_foundations(
    changes: &[NameChange],
    mut wanted: impl FnMut(&NameChange) -> bool,
) -> Vec<bool> {
    let mut names = HashSet::new();
    let mut chosen = vec![false; changes.len()];
    for (change, chosen) in changes.iter().zip(&mut chosen).rev() {
        *chosen = wanted(change) || change.names().any(|name| names.contains(name));
        if *chosen {
            names.extend(change.names());
        }
    }
    chosen
}
