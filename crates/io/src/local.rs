//! The machine's file system.

use std::path::Path;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::error::Result;
use crate::storage::{Access, DirectoryEntry, File, Lock, ReadRequest, Storage};

/// The machine's file system.
#[derive(Debug, Default)]
pub struct LocalStorage {}

impl LocalStorage {
    /// Batches go through io_uring where the kernel allows it.
    pub fn new() -> Self {
        todo!()
    }

    /// Batches are read one by one with `pread`.
    pub fn without_uring() -> Self {
        todo!()
    }
}

impl Storage for LocalStorage {
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
