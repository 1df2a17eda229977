//! The files of tables, opened on demand: at most a bounded number of them is open at a time
//! (`max_open_files`, as in RocksDB).
//!
//! A file is opened when it is read. Beyond the bound, the file that has not been read for longest
//! is closed: the files are in a ring, and one that was read since the hand last passed it stays
//! open for another round (CLOCK).
//!
//! Guarantees:
//! 1. No more files are open than the bound, apart from those that are being read.
//! 2. A file stays in its directory for as long as a table in it is in use, so that it can be
//!    opened again. The number of a file whose tables are all retired goes to
//!    [`FileHandles::take_obsolete`] when the last user of them is gone.
//! 3. No lock is held while a file is opened or read.
//!
//! All methods may be called from any thread.

#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use tidekv_io::{Access, File, Result, Storage};

use crate::stats::Counter;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The ring is cleared of closed files when it is this many times as long as the number of open
/// ones.
const RING_RATIO_MAX: usize = 2;
const RING_LEN_MIN: usize = 64;

/// The open files of a store's tables.
#[derive(Debug)]
pub(crate) struct FileHandles {
    storage: Arc<dyn Storage>,
    access: Access,
    open_max: usize,
    ring: Mutex<Ring>,
    /// The files that hold several tables, by number.
    shared: Mutex<HashMap<u64, Weak<FileHandle>>>,
    /// Files without users whose tables are all retired.
    obsolete: Mutex<Vec<u64>>,
    /// Whether there are any; a hint without the lock.
    has_obsolete: AtomicBool,
    opened: Counter,
}

/// The open files, in the order in which they are examined.
#[derive(Debug, Default)]
struct Ring {
    files: VecDeque<Weak<FileHandle>>,
    open: usize,
}

/// A file that the hand has passed: what is dropped outside the lock.
struct Examined {
    _file: Arc<FileHandle>,
    _closed: Option<Arc<dyn File>>,
}

/// A file of tables.
#[derive(Debug)]
pub(crate) struct FileHandle {
    path: PathBuf,
    number: u64,
    /// `None`: the file stays open.
    owner: Option<Arc<FileHandles>>,
    open: Mutex<Option<Arc<dyn File>>>,
    /// Whether it holds several tables: then it is read through the page cache, because several of
    /// them share a page.
    is_shared: bool,
    /// Read since the hand last passed it.
    was_read: AtomicBool,
    /// Its tables that are part of the store.
    tables: AtomicUsize,
    /// Their bytes.
    table_bytes: AtomicU64,
    /// Its tables that are in use, retired or not.
    used: AtomicUsize,
    /// Its length, once it was opened.
    bytes: AtomicU64,
}

impl FileHandles {
    /// Files of `storage`, of which at most `open_max` are open at a time.
    pub(crate) fn new(storage: Arc<dyn Storage>, access: Access, open_max: usize) -> Self {
        Self {
            storage,
            access,
            open_max: open_max.max(1),
            ring: Mutex::default(),
            shared: Mutex::default(),
            obsolete: Mutex::default(),
            has_obsolete: AtomicBool::new(false),
            opened: Counter::default(),
        }
    }

    /// The file `number` at `path`, not open yet. A file of several tables has one handle.
    pub(crate) fn handle(
        self: &Arc<Self>,
        number: u64,
        path: PathBuf,
        shared: bool,
    ) -> Arc<FileHandle> {
        let new =
            || Arc::new(FileHandle::new((number, shared), path, Some(Arc::clone(self)), None));
        if !shared {
            return new();
        }
        let mut handles = self.shared.lock();
        if let Some(known) = handles.get(&number).and_then(Weak::upgrade) {
            return known;
        }
        let handle = new();
        handles.insert(number, Arc::downgrade(&handle));
        handle
    }

    /// The files of several tables of which more than half is dead, but not all.
    pub(crate) fn mostly_dead(&self) -> HashSet<u64> {
        let handles: Vec<_> = self.shared.lock().values().filter_map(Weak::upgrade).collect();
        handles.iter().filter(|file| file.is_mostly_dead()).map(|file| file.number).collect()
    }

    /// Whether there are files to remove.
    pub(crate) fn has_obsolete(&self) -> bool {
        self.has_obsolete.load(Ordering::Relaxed)
    }

    /// The numbers of the files that no reader uses any more and whose tables are all retired.
    pub(crate) fn take_obsolete(&self) -> Vec<u64> {
        let mut obsolete = self.obsolete.lock();
        self.has_obsolete.store(false, Ordering::Relaxed);
        std::mem::take(&mut *obsolete)
    }

    /// The most files that are open at a time.
    pub(crate) fn open_max(&self) -> usize {
        self.open_max
    }

    /// The number of open files.
    pub(crate) fn open_files(&self) -> usize {
        self.ring.lock().open
    }

    /// How many times a file was opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.get()
    }

    /// Counts a file that was opened, and closes others beyond the bound.
    fn note_opened(&self, file: &Arc<FileHandle>) {
        self.opened.add(1);
        let mut examined = Vec::new();
        {
            let mut ring = self.ring.lock();
            ring.open += 1;
            ring.files.push_back(Arc::downgrade(file));
            let mut steps = 2 * ring.files.len();
            while ring.open > self.open_max && steps > 0 {
                steps -= 1;
                ring.step(&mut examined);
            }
            if ring.files.len() > RING_LEN_MIN.max(RING_RATIO_MAX * ring.open) {
                ring.files.retain(|file| file.strong_count() > 0);
            }
        }
        // Here, because the last user of a file takes the lock of the ring.
        drop(examined);
    }

    fn note_closed(&self) {
        self.ring.lock().open -= 1;
    }
}

impl Ring {
    /// Closes the file at the hand, or lets it stay for another round.
    fn step(&mut self, examined: &mut Vec<Examined>) {
        let Some(next) = self.files.pop_front() else { return };
        let Some(file) = next.upgrade() else { return };
        let mut taken = None;
        if file.was_read.swap(false, Ordering::Relaxed) {
            self.files.push_back(next);
        } else {
            taken = file.open.lock().take();
            self.open -= usize::from(taken.is_some());
        }
        examined.push(Examined { _file: file, _closed: taken });
    }
}

impl FileHandle {
    fn new(
        (number, is_shared): (u64, bool),
        path: PathBuf,
        owner: Option<Arc<FileHandles>>,
        open: Option<Arc<dyn File>>,
    ) -> Self {
        Self {
            path,
            number,
            owner,
            open: Mutex::new(open),
            is_shared,
            was_read: AtomicBool::new(false),
            tables: AtomicUsize::new(0),
            table_bytes: AtomicU64::new(0),
            used: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// A file that stays open.
    pub(crate) fn of(file: Arc<dyn File>) -> Arc<Self> {
        Arc::new(Self::new((0, false), file.path().to_owned(), None, Some(file)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub(crate) fn file(self: &Arc<Self>) -> Result<Arc<dyn File>> {
        if let Some(file) = &*self.open.lock() {
            self.was_read.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(file));
        }
        let owner = self.owner.as_ref().expect("a file without an owner stays open");
        let access = if self.is_shared { Access::Buffered } else { owner.access };
        let file = owner.storage.open_read(&self.path, access)?;
        self.bytes.store(file.len()?, Ordering::Relaxed);
        {
            let mut open = self.open.lock();
            if let Some(file) = &*open {
                // Another thread was faster.
                return Ok(Arc::clone(file));
            }
            *open = Some(Arc::clone(&file));
        }
        owner.note_opened(self);
        Ok(file)
    }

    /// Counts a table of `bytes` bytes that is in use, and part of the store or about to become one.
    pub(crate) fn add_table(&self, bytes: u64) {
        self.tables.fetch_add(1, Ordering::AcqRel);
        self.table_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.used.fetch_add(1, Ordering::AcqRel);
    }

    /// A table of the file is not part of the store any more; it may still be in use.
    pub(crate) fn retire_table(&self, bytes: u64) {
        self.table_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.tables.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether more than half of the file are tables that are not part of the store any more.
    fn is_mostly_dead(&self) -> bool {
        let (bytes, live) =
            (self.bytes.load(Ordering::Relaxed), self.table_bytes.load(Ordering::Relaxed));
        self.tables.load(Ordering::Acquire) > 0 && live < bytes / 2
    }

    /// A table of the file is not in use any more.
    pub(crate) fn leave_table(&self) {
        let is_last = self.used.fetch_sub(1, Ordering::AcqRel) == 1;
        let Some(owner) = self.owner.as_ref().filter(|_| is_last) else { return };
        if self.tables.load(Ordering::Acquire) == 0 {
            owner.obsolete.lock().push(self.number);
            owner.has_obsolete.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        let Some(owner) = &self.owner else { return };
        if self.open.get_mut().take().is_some() {
            owner.note_closed();
        }
        let mut shared = owner.shared.lock();
        if shared.get(&self.number).is_some_and(|known| known.strong_count() == 0) {
            shared.remove(&self.number);
        }
    }
}
