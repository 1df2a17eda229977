//! A file system in memory that can lose power, lose syncs, fill up and fail any operation: the
//! basis of the crash and fault tests.
//!
//! Guarantees:
//! 1. It keeps the durability contract of [`crate::storage`] and nothing more:
//!    [`MemoryStorage::after_power_loss`] shows an unsynced byte or name only by the chance of its
//!    [`Tear`].
//! 2. Every call on the storage or on a file of it is one operation with a number; only
//!    [`MemoryStorage::cut_power_at`], faults and the capacity make it fail where a real disk would
//!    not.
//! 3. An aftermath is independent: its changes are not visible here, nor the other way round. Its
//!    cost is proportional to the number of files, not of bytes.
//! 4. A direct write that is not aligned panics: it is a bug of the caller that a real disk would
//!    answer with an error.
//!
//! Paths begin at one root, absolute or not. Directories cannot be removed or renamed. Thread-safe:
//! one lock guards the whole storage, taken before that of a file; neither is held during a
//! callback.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::buffer::{AlignedVec, Buffer};
use crate::content::Content;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::faults::{Fault, FaultRule, Tear};
use crate::inode::{self, Inode};
use crate::namespace::{FileNode, Name, Namespace, Node, normal};
use crate::storage::{Access, DirectoryEntry, File, Lock, ReadRequest, Storage};

/// Required alignment of direct writes, as on most disks.
const ALIGNMENT: usize = 4096;

/// One operation on the storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRecord {
    /// Counted from 0 in the order in which operations began.
    pub number: u64,
    /// The operation.
    pub operation: Operation,
    /// Its path.
    pub path: PathBuf,
    /// The second path of a rename or link.
    pub target: Option<PathBuf>,
}

impl fmt::Display for OperationRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.number, self.operation.verb(), self.path.display())?;
        self.target.as_ref().map_or(Ok(()), |target| write!(f, " -> {}", target.display()))
    }
}

type Callback = Arc<dyn Fn(&OperationRecord) + Send + Sync>;

/// A file system in memory; clones are handles to the same one.
#[derive(Clone)]
pub struct MemoryStorage {
    state: Arc<Mutex<State>>,
}

struct State {
    names: Namespace,
    operations: u64,
    history: Option<Vec<OperationRecord>>,
    callback: Option<Callback>,
    cut_at: Option<u64>,
    faults: Vec<FaultRule>,
    struck: Vec<OperationRecord>,
    capacity: Option<u64>,
    locks: HashSet<PathBuf>,
    /// Open files: a removed one takes its space until it is closed.
    open: Vec<Weak<MemoryFile>>,
}

impl State {
    fn new(names: Namespace) -> Self {
        Self {
            names,
            operations: 0,
            history: None,
            callback: None,
            cut_at: None,
            faults: Vec::new(),
            struck: Vec::new(),
            capacity: None,
            locks: HashSet::new(),
            open: Vec::new(),
        }
    }

    /// The lengths of all files, also of those that were removed and are open; one with two names
    /// counts once.
    fn used_bytes(&self) -> u64 {
        let mut seen = HashSet::new();
        let open: Vec<_> = self.open.iter().filter_map(Weak::upgrade).collect();
        let named = self.names.visible().files().map(|(_, file)| file);
        named
            .chain(open.iter().map(|file| &file.node))
            .filter(|file| seen.insert(Arc::as_ptr(file)))
            .map(|file| file.lock().visible().len())
            .sum()
    }

    /// Whether `file` may become `len` bytes long.
    fn has_room(&self, file: &Inode, used: Option<u64>, len: u64) -> bool {
        let growth = len.saturating_sub(file.visible().len());
        match (self.capacity, used) {
            (Some(capacity), Some(used)) => growth == 0 || used + growth <= capacity,
            _ => true,
        }
    }

    fn file(&self, operation: Operation, path: &Path) -> Result<FileNode> {
        match Name::of(path).as_ref().and_then(|name| self.names.visible().get(name)) {
            Some(Node::File(file)) => Ok(Arc::clone(file)),
            Some(Node::Directory) => Err(Error::new(ErrorKind::Failed, operation, path)),
            None => Err(Error::new(ErrorKind::NotFound, operation, path)),
        }
    }

    /// A free name: its directory exists, the name does not.
    fn free_name(&self, operation: Operation, path: &Path) -> Result<Name> {
        let name = self.name(operation, path)?;
        match self.names.visible().get(&name) {
            Some(_) => Err(Error::new(ErrorKind::AlreadyExists, operation, path)),
            None => Ok(name),
        }
    }

    /// A name in a directory that exists.
    fn name(&self, operation: Operation, path: &Path) -> Result<Name> {
        let name = Name::of(path).ok_or_else(|| Error::new(ErrorKind::Failed, operation, path))?;
        match self.names.visible().directory(&name.directory) {
            Some(_) => Ok(name),
            None => Err(Error::new(ErrorKind::NotFound, operation, path)),
        }
    }
}

impl MemoryStorage {
    /// An empty file system with only its root.
    pub fn new() -> Self {
        Self::from_state(State::new(Namespace::new()))
    }

    fn from_state(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// The number of operations begun so far, which is the number of the next one.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Makes the bytes of all files durable, and drops the record of their unsynced changes. Not an
    /// operation.
    pub fn sync_all(&self) {
        for (_, file) in self.state.lock().names.visible().files() {
            file.lock().sync();
        }
    }

    /// Starts (with an empty record) or ends the recording of operations.
    pub fn record_history(&self, on: bool) {
        self.state.lock().history = on.then(Vec::new);
    }

    /// The operations since [`MemoryStorage::record_history`], oldest first.
    pub fn history(&self) -> Vec<OperationRecord> {
        self.state.lock().history.clone().unwrap_or_default()
    }

    /// Calls `callback` before each operation from now on, in place of an
    /// earlier callback. It may use the storage, but is then also called for its
    /// own operations. A callback that owns a handle to this storage keeps it
    /// alive until [`MemoryStorage::clear_on_operation`].
    pub fn on_operation(&self, callback: impl Fn(&OperationRecord) + Send + Sync + 'static) {
        self.set_callback(Some(Arc::new(callback)));
    }

    /// Ends [`MemoryStorage::on_operation`].
    pub fn clear_on_operation(&self) {
        self.set_callback(None);
    }

    fn set_callback(&self, callback: Option<Callback>) {
        let old = std::mem::replace(&mut self.state.lock().callback, callback);
        // Not under the lock: it may own the last handle to another storage.
        drop(old);
    }

    /// An independent copy of the device's state after a power loss now. It has
    /// the same capacity; its operations count from 0, and it has no faults,
    /// locks, history or callback.
    pub fn after_power_loss(&self, tear: Tear) -> MemoryStorage {
        let state = self.state.lock();
        let random = inode::dice(tear);
        let names = state.names.aftermath(tear, &random, |file| {
            let content = file.lock().aftermath(tear, &random);
            Arc::new(Mutex::new(Inode::durable(content)))
        });
        let capacity = state.capacity;
        Self::from_state(State { capacity, ..State::new(names) })
    }

    /// From operation number `operation` on, every call fails with
    /// [`ErrorKind::Failed`] and changes nothing.
    pub fn cut_power_at(&self, operation: u64) {
        self.state.lock().cut_at = Some(operation);
    }

    /// Adds a rule. Every rule counts the operations that it matches; the
    /// first one that strikes determines the fault.
    pub fn add_fault(&self, rule: FaultRule) {
        self.state.lock().faults.push(rule);
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.state.lock().faults.clear();
    }

    /// The operations affected by a fault, oldest first.
    pub fn struck(&self) -> Vec<OperationRecord> {
        self.state.lock().struck.clone()
    }

    /// Limits the sum of the lengths of all files; growing past it fails with
    /// [`ErrorKind::Full`].
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// Changes a file from outside; all its bytes become durable.
    /// Not an operation.
    ///
    /// # Panics
    ///
    /// When there is no such file.
    pub fn corrupt(&self, path: impl AsRef<Path>, change: impl FnOnce(&mut Vec<u8>)) {
        let path = path.as_ref();
        let file = self.state.lock().file(Operation::Open, path);
        let file = file.unwrap_or_else(|error| panic!("nothing to corrupt: {error}"));
        let mut bytes = file.lock().visible().to_vec();
        change(&mut bytes);
        *file.lock() = Inode::durable(Content::from_bytes(&bytes));
    }

    /// A file's bytes, `None` when it does not exist. Not an operation.
    pub fn read_file(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let file = self.state.lock().file(Operation::Open, path.as_ref()).ok()?;
        let content = file.lock().visible().clone();
        Some(content.to_vec())
    }

    /// Writes a file with its parent directories, replacing any file of that name; all of it is
    /// durable at once. Not an operation.
    ///
    /// # Panics
    ///
    /// When `path` names a directory.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let path = path.as_ref();
        let inode = Inode::durable(Content::from_bytes(bytes));
        let mut state = self.state.lock();
        let name = Name::of(path).expect("a file has a name");
        let old = state.names.visible().get(&name);
        assert!(!matches!(old, Some(Node::Directory)), "{} is a directory", path.display());
        state.names.add_durable(name, Arc::new(Mutex::new(inode)));
    }

    /// The paths of all files, in order, from the root. Not an operation.
    pub fn paths(&self) -> Vec<PathBuf> {
        let state = self.state.lock();
        state.names.visible().files().map(|(path, _)| Path::new("/").join(path)).collect()
    }

    /// Counts an operation and passes it to the callback; fails if power is off or a fault requires
    /// it. The operation itself applies other faults.
    fn begin(
        &self,
        operation: Operation,
        path: &Path,
        target: Option<&Path>,
    ) -> Result<Option<Fault>> {
        let (record, callback) = {
            let mut state = self.state.lock();
            let record = OperationRecord {
                number: state.operations,
                operation,
                path: path.to_owned(),
                target: target.map(Path::to_owned),
            };
            state.operations += 1;
            if let Some(history) = &mut state.history {
                history.push(record.clone());
            }
            (record, state.callback.clone())
        };
        if let Some(callback) = callback {
            callback(&record);
        }
        let mut state = self.state.lock();
        if state.cut_at.is_some_and(|cut| record.number >= cut) {
            return Err(Error::new(ErrorKind::Failed, operation, path));
        }
        let mut fault = None;
        for rule in &mut state.faults {
            let matches = rule.matches(operation, path)
                || target.is_some_and(|target| rule.matches(operation, target));
            if matches && let Some(strike) = rule.strike() {
                fault = fault.or(Some(strike));
            }
        }
        if fault.is_some() {
            state.struck.push(record);
        }
        match fault {
            Some(Fault::Fail(kind)) => Err(Error::new(kind, operation, path)),
            other => Ok(other),
        }
    }

    fn handle(&self, node: FileNode, path: &Path, access: Access, writable: bool) -> Arc<dyn File> {
        let file = Arc::new(MemoryFile {
            storage: self.clone(),
            node,
            path: path.to_owned(),
            alignment: match access {
                Access::Direct => ALIGNMENT,
                Access::Buffered => 1,
            },
            writable,
        });
        let mut state = self.state.lock();
        if state.open.len() == state.open.capacity() {
            state.open.retain(|file| file.strong_count() > 0);
        }
        state.open.push(Arc::downgrade(&file));
        file
    }

    fn open_as(&self, path: &Path, access: Access, writable: bool) -> Result<Arc<dyn File>> {
        self.begin(Operation::Open, path, None)?;
        let node = self.state.lock().file(Operation::Open, path)?;
        Ok(self.handle(node, path, access, writable))
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStorage")
            .field("operations", &self.operations())
            .finish_non_exhaustive()
    }
}

impl Storage for MemoryStorage {
    fn create(&self, path: &Path, access: Access) -> Result<Arc<dyn File>> {
        self.begin(Operation::Create, path, None)?;
        let node = FileNode::default();
        let mut state = self.state.lock();
        let name = state.free_name(Operation::Create, path)?;
        state.names.add(name, Node::File(Arc::clone(&node)));
        drop(state);
        Ok(self.handle(node, path, access, true))
    }

    fn open(&self, path: &Path, access: Access) -> Result<Arc<dyn File>> {
        self.open_as(path, access, true)
    }

    fn open_read(&self, path: &Path, access: Access) -> Result<Arc<dyn File>> {
        self.open_as(path, access, false)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.begin(Operation::Inspect, path, None)?;
        let state = self.state.lock();
        let tree = state.names.visible();
        Ok(Name::of(path).is_none_or(|name| tree.get(&name).is_some()))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.begin(Operation::Remove, path, None)?;
        let mut state = self.state.lock();
        state.file(Operation::Remove, path)?;
        let name = state.name(Operation::Remove, path)?;
        state.names.remove(name);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.begin(Operation::Rename, from, Some(to))?;
        let mut state = self.state.lock();
        let node = state.file(Operation::Rename, from)?;
        let (old, new) = (state.name(Operation::Rename, from)?, state.name(Operation::Rename, to)?);
        match state.names.visible().get(&new) {
            Some(Node::Directory) => {
                return Err(Error::new(ErrorKind::Failed, Operation::Rename, to));
            }
            // As in POSIX: two names of one file stay as they are.
            Some(Node::File(there)) if Arc::ptr_eq(there, &node) => return Ok(()),
            Some(Node::File(_)) | None => {}
        }
        state.names.rename(old, new, Node::File(node));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.begin(Operation::Link, from, Some(to))?;
        let mut state = self.state.lock();
        let node = state.file(Operation::Link, from)?;
        let name = state.free_name(Operation::Link, to)?;
        state.names.add(name, Node::File(node));
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.begin(Operation::CreateDirectory, path, None)?;
        let mut state = self.state.lock();
        let path = normal(path);
        let above: Vec<&Path> = path.ancestors().collect();
        for directory in above.into_iter().rev() {
            let Some(name) = Name::of(directory) else { continue };
            match state.names.visible().get(&name) {
                Some(Node::Directory) => {}
                Some(Node::File(_)) => {
                    let kind = ErrorKind::AlreadyExists;
                    return Err(Error::new(kind, Operation::CreateDirectory, directory));
                }
                None => state.names.add(name, Node::Directory),
            }
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.begin(Operation::List, path, None)?;
        let state = self.state.lock();
        let entries = state.names.visible().directory(path);
        let entries =
            entries.ok_or_else(|| Error::new(ErrorKind::NotFound, Operation::List, path))?;
        let entry = |(name, node): (&String, &Node)| DirectoryEntry {
            name: name.clone(),
            bytes: match node {
                Node::File(file) => file.lock().visible().len(),
                Node::Directory => 0,
            },
            is_directory: matches!(node, Node::Directory),
        };
        Ok(entries.iter().map(entry).collect())
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let fault = self.begin(Operation::SyncDirectory, path, None)?;
        let mut state = self.state.lock();
        if state.names.visible().directory(path).is_none() {
            return Err(Error::new(ErrorKind::NotFound, Operation::SyncDirectory, path));
        }
        if matches!(fault, Some(Fault::SyncLost | Fault::SyncDropped)) {
            state.names.lose_pending(path);
            return Err(Error::new(ErrorKind::Failed, Operation::SyncDirectory, path));
        }
        state.names.sync(path);
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        self.begin(Operation::Lock, path, None)?;
        let mut state = self.state.lock();
        match state.file(Operation::Lock, path) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let name = state.name(Operation::Lock, path)?;
                state.names.add(name, Node::File(FileNode::default()));
            }
            Err(error) => return Err(error),
        }
        if !state.locks.insert(normal(path)) {
            return Err(Error::new(ErrorKind::Locked, Operation::Lock, path));
        }
        Ok(Box::new(MemoryLock { storage: self.clone(), path: normal(path) }))
    }

    fn read_batch(&self, requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        requests.iter().map(|read| read.file.read_at(read.offset, read.len)).collect()
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        self.begin(Operation::Inspect, path, None)?;
        let state = self.state.lock();
        // Half the range if there is no limit, so that callers can add to it.
        Ok(state.capacity.map_or(u64::MAX / 2, |all| all.saturating_sub(state.used_bytes())))
    }
}

struct MemoryLock {
    storage: MemoryStorage,
    path: PathBuf,
}

impl Lock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.storage.state.lock().locks.remove(&self.path);
    }
}

impl fmt::Debug for MemoryLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryLock").field(&self.path).finish()
    }
}

#[derive(Debug)]
struct MemoryFile {
    storage: MemoryStorage,
    node: FileNode,
    path: PathBuf,
    alignment: usize,
    writable: bool,
}

impl MemoryFile {
    fn begin(&self, operation: Operation) -> Result<Option<Fault>> {
        let changes = !matches!(operation, Operation::Read | Operation::Inspect | Operation::Sync);
        let fault = self.storage.begin(operation, &self.path, None)?;
        if changes && !self.writable { Err(self.error(operation)) } else { Ok(fault) }
    }

    fn error(&self, operation: Operation) -> Error {
        Error::new(ErrorKind::Failed, operation, &self.path)
    }

    /// Changes the file to `len` bytes, if there is room.
    fn change(
        &self,
        operation: Operation,
        len: u64,
        change: impl FnOnce(&mut Inode),
    ) -> Result<()> {
        let state = self.storage.state.lock();
        let used = state.capacity.map(|_| state.used_bytes());
        let mut inode = self.node.lock();
        if !state.has_room(&inode, used, len) {
            return Err(Error::new(ErrorKind::Full, operation, &self.path));
        }
        change(&mut inode);
        Ok(())
    }
}

impl File for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        self.begin(Operation::Inspect)?;
        Ok(self.node.lock().visible().len())
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Buffer> {
        let short = || Error::new(ErrorKind::ShortRead, Operation::Read, &self.path);
        let fault = self.begin(Operation::Read)?;
        if fault == Some(Fault::ShortRead) {
            return Err(short());
        }
        // Cloned in constant time, so that large reads do not hold the lock.
        let content = self.node.lock().visible().clone();
        if offset.checked_add(len as u64).is_none_or(|end| end > content.len()) {
            return Err(short());
        }
        let mut bytes = AlignedVec::stale(len);
        assert!(content.read(offset, &mut bytes), "the length was looked at");
        if let Some(Fault::FlipBit { byte, bit }) = fault
            && len > 0
        {
            bytes[byte % len] ^= 1 << (bit % 8);
        }
        Ok(bytes.into_buffer())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let aligned = offset.is_multiple_of(self.alignment as u64)
            && data.len().is_multiple_of(self.alignment);
        let (path, len) = (self.path.display(), data.len());
        assert!(aligned, "direct write of {len} bytes at {offset} of {path} is not aligned");
        let fault = self.begin(Operation::Write)?;
        if fault == Some(Fault::ShortWrite) {
            let half = &data[..data.len() / 2];
            self.change(Operation::Write, offset + half.len() as u64, |inode| {
                inode.write(offset, half);
            })?;
            return Err(self.error(Operation::Write));
        }
        self.change(Operation::Write, offset + data.len() as u64, |inode| {
            inode.write(offset, data);
        })
    }

    fn sync(&self) -> Result<()> {
        let fault = self.begin(Operation::Sync)?;
        let _state = self.storage.state.lock();
        match fault {
            Some(Fault::SyncLost) => self.node.lock().lose_pending(),
            Some(Fault::SyncDropped) => self.node.lock().drop_pending(),
            _ => {
                self.node.lock().sync();
                return Ok(());
            }
        }
        Err(self.error(Operation::Sync))
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.begin(Operation::Allocate)?;
        self.change(Operation::Allocate, bytes, |inode| {
            if bytes > inode.visible().len() {
                inode.set_len(bytes);
            }
        })
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> Result<()> {
        self.begin(Operation::PunchHole)?;
        let _state = self.storage.state.lock();
        self.node.lock().punch(offset, bytes);
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.begin(Operation::Truncate)?;
        self.change(Operation::Truncate, bytes, |inode| inode.set_len(bytes))
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
