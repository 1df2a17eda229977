//! LevelDB as a subject: the engine on which SpotKV is based, from Debian's package
//! (`libleveldb-dev`), through its C interface.
//!
//! It reads and writes through the page cache and has no setting for direct I/O: its repeated reads
//! cost no storage reads, as kernel memory serves them in addition to its own cache. It is
//! comparable where the memory of whole processes is limited, including the page cache for their
//! files, as in the experiment `spotkv-ycsb`. It does not count its reads; the kernel does.
//!
//! By default it maps tables into memory, which reads 64 KiB and more for each touched page. With
//! little memory that is the worst choice (a hundredth of the operations), so a switch for its own
//! tests makes it use reads instead.

use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::subject::{Counts, Hold, Search, Settings, Subject, SubjectRecord};

/// LevelDB with Bloom filters and a block cache.
pub const LEVELDB: SubjectRecord = SubjectRecord {
    name: "leveldb",
    about: "LevelDB with Bloom filters of 10 bits per key, half of the budget as its block cache \
            and at most an eighth as write buffer; through the page cache, which is outside of \
            the budget unless the budget is that of the whole process",
    is_default: false,
    format: "leveldb",
    uses_kernel_cache: true,
    search: Search::Nothing,
    choices: &[],
    open,
};

/// Its default size of a write buffer, which is the maximum here.
const WRITE_BUFFER_BYTES_MAX: u64 = 4 << 20;

/// Background work is done after this number of consecutive idle checks.
const IDLE_LOOKS: u32 = 25;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// After all keys of the lab.
const BEHIND_ALL: [u8; 32] = [0xFF; 32];

/// An opaque handle of the C interface.
type Handle = *mut c_void;

unsafe extern "C" {
    fn leveldb_open(options: Handle, name: *const c_char, error: *mut *mut c_char) -> Handle;
    fn leveldb_close(db: Handle);
    fn leveldb_put(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_delete(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_get(
        db: Handle,
        options: Handle,
        key: *const u8,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut u8;
    fn leveldb_create_iterator(db: Handle, options: Handle) -> Handle;
    fn leveldb_iter_destroy(iter: Handle);
    fn leveldb_iter_seek(iter: Handle, key: *const u8, key_len: usize);
    fn leveldb_iter_next(iter: Handle);
    fn leveldb_iter_valid(iter: Handle) -> c_uchar;
    fn leveldb_iter_key(iter: Handle, len: *mut usize) -> *const u8;
    fn leveldb_iter_value(iter: Handle, len: *mut usize) -> *const u8;
    fn leveldb_iter_get_error(iter: Handle, error: *mut *mut c_char);
    fn leveldb_create_snapshot(db: Handle) -> Handle;
    fn leveldb_release_snapshot(db: Handle, snapshot: Handle);
    fn leveldb_property_value(db: Handle, name: *const c_char) -> *mut c_char;
    fn leveldb_compact_range(
        db: Handle,
        start: *const u8,
        start_len: usize,
        end: *const u8,
        end_len: usize,
    );
    fn leveldb_approximate_sizes(
        db: Handle,
        ranges: c_int,
        starts: *const *const u8,
        start_lens: *const usize,
        ends: *const *const u8,
        end_lens: *const usize,
        sizes: *mut u64,
    );
    fn leveldb_options_create() -> Handle;
    fn leveldb_options_destroy(options: Handle);
    fn leveldb_options_set_filter_policy(options: Handle, policy: Handle);
    fn leveldb_options_set_create_if_missing(options: Handle, value: c_uchar);
    fn leveldb_options_set_write_buffer_size(options: Handle, bytes: usize);
    fn leveldb_options_set_cache(options: Handle, cache: Handle);
    fn leveldb_options_set_block_size(options: Handle, bytes: usize);
    fn leveldb_options_set_compression(options: Handle, kind: c_int);
    fn leveldb_readoptions_create() -> Handle;
    fn leveldb_readoptions_destroy(options: Handle);
    fn leveldb_readoptions_set_snapshot(options: Handle, snapshot: Handle);
    fn leveldb_writeoptions_create() -> Handle;
    fn leveldb_writeoptions_destroy(options: Handle);
    fn leveldb_cache_create_lru(bytes: usize) -> Handle;
    fn leveldb_cache_destroy(cache: Handle);
    fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> Handle;
    fn leveldb_filterpolicy_destroy(policy: Handle);
    fn leveldb_free(memory: *mut c_void);

    /// `leveldb::EnvPosixTestHelper::SetReadOnlyMMapLimit(int)`.
    #[link_name = "_ZN7leveldb18EnvPosixTestHelper20SetReadOnlyMMapLimitEi"]
    fn set_read_only_mmap_limit(files: c_int);
}

/// Makes it read tables instead of mapping them: call before the first open.
static READS_TABLES: Once = Once::new();

/// The options of a store, which must outlive it.
struct Around {
    options: Handle,
    reads: Handle,
    writes: Handle,
    cache: Handle,
    filter: Handle,
}

impl Drop for Around {
    fn drop(&mut self) {
        // SAFETY: they have no other owner, and the store that used them is closed.
        unsafe {
            leveldb_readoptions_destroy(self.reads);
            leveldb_writeoptions_destroy(self.writes);
            leveldb_options_destroy(self.options);
            leveldb_cache_destroy(self.cache);
            leveldb_filterpolicy_destroy(self.filter);
        }
    }
}

struct LevelDb {
    db: Handle,
    around: Around,
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: it is open, and its iterators and snapshots borrow it.
        unsafe { leveldb_close(self.db) };
    }
}

// SAFETY: LevelDB's handles may be used from all threads at once (its documentation, under
// "Concurrency"); options are not changed once the store is open.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}

/// The error of a call, if any.
fn checked(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: LevelDB returns a string with a zero at its end, which we must free.
    let text = unsafe {
        let text = std::ffi::CStr::from_ptr(error).to_string_lossy().into_owned();
        leveldb_free(error.cast());
        text
    };
    Err(Failure::new(format!("LevelDB: {text}")))
}

fn open(path: &Path, settings: &Settings) -> Result<Box<dyn Subject>> {
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Failure::usage("the path of a store has a zero byte"))?;
    let memory = settings.memory_bytes;
    let write_buffer = (memory / 8).min(WRITE_BUFFER_BYTES_MAX) as usize;
    let cache_bytes = settings.cache_bytes.unwrap_or(memory / 2) as usize;
    // SAFETY: it may be called before an environment is made, and is called once.
    READS_TABLES.call_once(|| unsafe { set_read_only_mmap_limit(0) });
    // SAFETY: the arguments have the required types; `Around` frees all of them.
    unsafe {
        let around = Around {
            options: leveldb_options_create(),
            reads: leveldb_readoptions_create(),
            writes: leveldb_writeoptions_create(),
            cache: leveldb_cache_create_lru(cache_bytes),
            filter: leveldb_filterpolicy_create_bloom(10),
        };
        leveldb_options_set_create_if_missing(around.options, 1);
        leveldb_options_set_write_buffer_size(around.options, write_buffer);
        leveldb_options_set_block_size(around.options, 4096);
        // It supports only Snappy.
        leveldb_options_set_compression(around.options, c_int::from(settings.is_compressed));
        leveldb_options_set_cache(around.options, around.cache);
        leveldb_options_set_filter_policy(around.options, around.filter);
        let mut error = null_mut();
        let db = leveldb_open(around.options, name.as_ptr(), &raw mut error);
        checked(error)?;
        Ok(Box::new(LevelDb { db, around }))
    }
}

/// An iterator.
struct Cursor<'a> {
    iter: Handle,
    _store: &'a LevelDb,
}

// SAFETY: an iterator may move to another thread, if only one at a time uses it.
unsafe impl Send for Cursor<'_> {}

impl<'a> Cursor<'a> {
    fn new(store: &'a LevelDb, reads: Handle, start: &[u8]) -> Self {
        // SAFETY: store and options outlive it; the key is copied.
        let iter = unsafe {
            let iter = leveldb_create_iterator(store.db, reads);
            leveldb_iter_seek(iter, start.as_ptr(), start.len());
            iter
        };
        Self { iter, _store: store }
    }

    /// Passes the current entry to `see`, and advances; whether there was one.
    fn take(&mut self, see: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        // SAFETY: key and value are valid until it advances.
        unsafe {
            if leveldb_iter_valid(self.iter) == 0 {
                return false;
            }
            let (mut key_len, mut value_len) = (0, 0);
            let key = leveldb_iter_key(self.iter, &raw mut key_len);
            let value = leveldb_iter_value(self.iter, &raw mut value_len);
            see(
                std::slice::from_raw_parts(key, key_len),
                std::slice::from_raw_parts(value, value_len),
            );
            leveldb_iter_next(self.iter);
        }
        true
    }

    fn outcome(&self) -> Result<()> {
        let mut error = null_mut();
        // SAFETY: it returns an error or null.
        unsafe { leveldb_iter_get_error(self.iter, &raw mut error) };
        checked(error)
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: it has no other owner.
        unsafe { leveldb_iter_destroy(self.iter) };
    }
}

/// A snapshot with options that read at it, and an iterator on it.
struct HeldSnapshot<'a> {
    cursor: Option<Cursor<'a>>,
    snapshot: Handle,
    reads: Handle,
    store: &'a LevelDb,
}

// SAFETY: a snapshot is opaque, and its last owner releases it.
unsafe impl Send for HeldSnapshot<'_> {}

impl Drop for HeldSnapshot<'_> {
    fn drop(&mut self) {
        self.cursor = None;
        // SAFETY: the iterator that used them is dropped.
        unsafe {
            leveldb_readoptions_destroy(self.reads);
            leveldb_release_snapshot(self.store.db, self.snapshot);
        }
    }
}

impl LevelDb {
    /// Its statistics of levels and compactions so far.
    fn stats(&self) -> String {
        // SAFETY: the result is a string with a zero at its end, which we must free.
        unsafe {
            let text = leveldb_property_value(self.db, c"leveldb.stats".as_ptr());
            if text.is_null() {
                return String::new();
            }
            let stats = std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned();
            leveldb_free(text.cast());
            stats
        }
    }
}

impl Subject for LevelDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error = null_mut();
        let (key_len, value_len) = (key.len(), value.len());
        // SAFETY: both are copied.
        unsafe {
            leveldb_put(
                self.db,
                self.around.writes,
                key.as_ptr(),
                key_len,
                value.as_ptr(),
                value_len,
                &raw mut error,
            );
        }
        checked(error)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut error = null_mut();
        // SAFETY: the key is copied.
        unsafe {
            let writes = self.around.writes;
            leveldb_delete(self.db, writes, key.as_ptr(), key.len(), &raw mut error);
        }
        checked(error)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let (mut len, mut error) = (0, null_mut());
        // SAFETY: we must free the value; it is null for a missing key.
        unsafe {
            let reads = self.around.reads;
            let value =
                leveldb_get(self.db, reads, key.as_ptr(), key.len(), &raw mut len, &raw mut error);
            checked(error)?;
            if value.is_null() {
                return Ok(false);
            }
            see(std::slice::from_raw_parts(value, len));
            leveldb_free(value.cast());
        }
        Ok(true)
    }

    fn multi_get(&self, keys: &[&[u8]], see: &mut dyn FnMut(usize, &[u8])) -> Result<u64> {
        let mut found = 0;
        for (position, key) in keys.iter().enumerate() {
            found += u64::from(self.get(key, &mut |value| see(position, value))?);
        }
        Ok(found)
    }

    fn scan(&self, start: &[u8], limit: u64, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut cursor = Cursor::new(self, self.around.reads, start);
        let mut count = 0;
        while count < limit && cursor.take(see) {
            count += 1;
        }
        cursor.outcome()?;
        Ok(count)
    }

    fn hold(&self, start: &[u8]) -> Result<Box<dyn Hold + '_>> {
        // SAFETY: `HeldSnapshot` frees both, after the iterator that uses them.
        let (snapshot, reads) = unsafe {
            let (snapshot, reads) =
                (leveldb_create_snapshot(self.db), leveldb_readoptions_create());
            leveldb_readoptions_set_snapshot(reads, snapshot);
            (snapshot, reads)
        };
        let mut cursor = Cursor::new(self, reads, start);
        cursor.take(&mut |_, _| ());
        Ok(Box::new(HeldSnapshot { cursor: Some(cursor), snapshot, reads, store: self }))
    }

    fn merge(&self) -> Result<()> {
        // SAFETY: no bounds are all keys.
        unsafe { leveldb_compact_range(self.db, null(), 0, null(), 0) };
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "waits for another engine, in real time")]
    fn settle(&self) -> Result<Duration> {
        // Flushes its memtable; a range after all keys needs no compaction.
        let behind = BEHIND_ALL;
        // SAFETY: the key is copied.
        unsafe {
            leveldb_compact_range(self.db, behind.as_ptr(), behind.len(), null(), 0);
        }
        let (mut idle_looks, mut before) = (0, self.stats());
        while idle_looks < IDLE_LOOKS {
            std::thread::sleep(BETWEEN_LOOKS);
            let now = self.stats();
            idle_looks = if now == before { idle_looks + 1 } else { 0 };
            before = now;
        }
        Ok(BETWEEN_LOOKS * IDLE_LOOKS)
    }

    fn counts(&self) -> Result<Counts> {
        let (end, mut bytes) = (BEHIND_ALL, 0);
        // The range begins with an empty key.
        let (first, start_lens, end_lens) = (end.as_ptr(), 0, end.len());
        // SAFETY: one range, whose bounds are valid until it returns; it writes one number.
        unsafe {
            leveldb_approximate_sizes(
                self.db,
                1,
                &raw const first,
                &raw const start_lens,
                &raw const first,
                &raw const end_lens,
                &raw mut bytes,
            );
        }
        Ok(Counts { table_bytes: Some(bytes), ..Counts::default() })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
