//! A file system in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::error::{Operation, Result};
use crate::faults::{FaultRule, Tear};
use crate::storage::{Access, DirectoryEntry, File, Lock, ReadRequest, Storage};

/// One operation that the storage was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRecord {
    /// Counted from 0 in the order in which operations began.
    pub number: u64,
    /// What was asked for.
    pub operation: Operation,
    /// On which path.
    pub path: PathBuf,
}

/// A file system in memory; clones are handles to the same one.
#[derive(Debug, Clone, Default)]
pub struct MemoryStorage {}

impl MemoryStorage {
    /// An empty file system with nothing but its root.
    pub fn new() -> Self {
        todo!()
    }
    /// How many operations have begun so far; the number of the next one.
    pub fn operations(&self) -> u64 {
        todo!()
    }
    /// Starts or stops the recording of [`MemoryStorage::history`].
    pub fn record_history(&self, _on: bool) {
        todo!()
    }
    /// What was recorded, oldest first.
    pub fn history(&self) -> Vec<OperationRecord> {
        todo!()
    }
    /// Calls `callback` before each operation from now on.
    pub fn on_operation(&self, _callback: impl Fn(&OperationRecord) + Send + Sync + 'static) {
        todo!()
    }
    /// Ends [`MemoryStorage::on_operation`].
    pub fn clear_on_operation(&self) {
        todo!()
    }
    /// An independent copy as the device would look after a loss of power now.
    pub fn after_power_loss(&self, _tear: Tear) -> MemoryStorage {
        todo!()
    }
    /// From operation number `operation` on, every call fails.
    pub fn cut_power_at(&self, _operation: u64) {
        todo!()
    }
    /// Adds a rule; the first that strikes decides.
    pub fn add_fault(&self, _rule: FaultRule) {
        todo!()
    }
    /// Ends all faults.
    pub fn clear_faults(&self) {
        todo!()
    }
    /// Limits the sum of all file lengths.
    pub fn set_capacity(&self, _bytes: Option<u64>) {
        todo!()
    }
    /// Changes a file behind everybody's back, durably.
    ///
    /// # Panics
    ///
    /// When there is no such file.
    pub fn corrupt(&self, _path: impl AsRef<Path>, _change: impl FnOnce(&mut Vec<u8>)) {
        todo!()
    }
    /// A file's bytes; not counted as an operation.
    pub fn read_file(&self, _path: impl AsRef<Path>) -> Option<Vec<u8>> {
        todo!()
    }
    /// Puts a file there, durable at once; not counted as an operation.
    pub fn write_file(&self, _path: impl AsRef<Path>, _bytes: &[u8]) {
        todo!()
    }
    /// The paths of all files, in order; not counted as an operation.
    pub fn paths(&self) -> Vec<PathBuf> {
        todo!()
    }
}

impl Storage for MemoryStorage {
    fn create(&self, _path: &Path, _access: Access) -> Result<Arc<dyn File>> {
        todo!()
    }
    fn open(&self, _path: &Path, _access: Access) -> Result<Arc<dyn File>> {
        todo!()
    }
    fn open_read(&self, _path: &Path, _access: Access) -> Result<Arc<dyn File>> {
        todo!()
    }
    fn exists(&self, _path: &Path) -> Result<bool> {
        todo!()
    }
    fn remove(&self, _path: &Path) -> Result<()> {
        todo!()
    }
    fn rename(&self, _from: &Path, _to: &Path) -> Result<()> {
        todo!()
    }
    fn hard_link(&self, _from: &Path, _to: &Path) -> Result<()> {
        todo!()
    }
    fn create_dir_all(&self, _path: &Path) -> Result<()> {
        todo!()
    }
    fn list(&self, _path: &Path) -> Result<Vec<DirectoryEntry>> {
        todo!()
    }
    fn sync_dir(&self, _path: &Path) -> Result<()> {
        todo!()
    }
    fn lock(&self, _path: &Path) -> Result<Box<dyn Lock>> {
        todo!()
    }
    fn read_batch(&self, _requests: &[ReadRequest]) -> Vec<Result<Buffer>> {
        todo!()
    }
    fn free_bytes(&self, _path: &Path) -> Result<u64> {
        todo!()
    }
}
