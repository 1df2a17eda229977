//! Memory for reads and direct writes: aligned to 4096 bytes, and pooled.
//!
//! [`AlignedVec`] is the writable form, [`Buffer`] the frozen one: a window into aligned memory, as
//! reads return it. Both release their memory on drop. A thread keeps the last block of up to 64
//! KiB, and takes no lock for the next one of that size; the block that it kept before goes to a
//! global pool, as larger blocks do, and blocks that do not fit into the pool go to the allocator.
//!
//! Guarantees:
//! 1. The address of the memory is a multiple of [`ALIGNMENT`].
//! 2. Every byte of the memory is always initialised; no byte of a former owner can be read through
//!    [`AlignedVec`] (its new bytes are written first), nor through a [`Buffer`] made by a
//!    successful read.
//! 3. The pool holds at most [`POOL_BYTES_MAX`] bytes, and each thread one additional block of at
//!    most [`SPARE_BYTES_MAX`].
//!
//! Thread-safe. This is one of the modules with `unsafe`; its tests run under Miri.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// The address of the memory is a multiple of this.
pub const ALIGNMENT: usize = 4096;

/// The most bytes that the pool keeps for reuse.
pub const POOL_BYTES_MAX: usize = 8 << 20;

/// Sizes up to this one are rounded up to a multiple of [`ALIGNMENT`], one
/// class each: a block read is two or three units long, and rounding it to a
/// power of two would waste a third of the memory.
const FINE_BYTES_MAX: usize = 64 << 10;

/// The largest block that a thread keeps for itself.
pub const SPARE_BYTES_MAX: usize = FINE_BYTES_MAX;

/// Sizes above this one are not pooled: they are rare, and a few would fill
/// the pool.
const POOLED_BYTES_MAX: usize = 1 << 20;

const FINE_CLASSES: usize = FINE_BYTES_MAX / ALIGNMENT;
const COARSE_CLASSES: usize = (POOLED_BYTES_MAX / FINE_BYTES_MAX).trailing_zeros() as usize;
const CLASSES: usize = FINE_CLASSES + COARSE_CLASSES;

static POOL: [Mutex<Vec<Block>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];
static POOLED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The last block that this thread released. A read of one block takes one and releases one,
    /// and the pool has locks and a count that all threads write.
    static SPARE: Cell<Option<Block>> = const { Cell::new(None) };
}

/// Bytes in the pool, ready for reuse.
pub fn pooled_bytes() -> usize {
    POOLED.load(Ordering::Relaxed)
}

/// Returns all pooled memory to the allocator, and this thread's spare block.
pub fn release_pool() {
    drop(SPARE.take());
    for class in &POOL {
        let blocks = std::mem::take(&mut *class.lock());
        for block in blocks {
            POOLED.fetch_sub(block.bytes, Ordering::Relaxed);
            drop(block);
        }
    }
}

/// The class of a request of `bytes` and the size of its blocks; no class for
/// sizes that are not pooled.
fn class_of(bytes: usize) -> (Option<usize>, usize) {
    let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
    if bytes <= FINE_BYTES_MAX {
        return (Some(bytes / ALIGNMENT - 1), bytes);
    }
    if bytes <= POOLED_BYTES_MAX {
        let bytes = bytes.next_power_of_two();
        let coarse = (bytes / FINE_BYTES_MAX).trailing_zeros() as usize - 1;
        return (Some(FINE_CLASSES + coarse), bytes);
    }
    (None, bytes)
}

/// Aligned memory from the allocator, all of it initialised, with a single owner.
struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block is plain memory with a single owner; it is not bound to a thread.
unsafe impl Send for Block {}
// SAFETY: shared access only reads.
unsafe impl Sync for Block {}

impl Block {
    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, ALIGNMENT).expect("a buffer is smaller than isize::MAX")
    }

    /// `bytes` is a positive multiple of [`ALIGNMENT`].
    fn allocate(bytes: usize) -> Self {
        assert!(bytes > 0 && bytes.is_multiple_of(ALIGNMENT), "blocks are whole units");
        let layout = Self::layout(bytes);
        // SAFETY: the layout's size is not zero, as asserted.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, bytes },
            None => handle_alloc_error(layout),
        }
    }

    /// A block of at least `bytes`: this thread's spare one, or one of the pool, if there is one of
    /// its class.
    fn take(bytes: usize) -> Self {
        let (class, bytes) = class_of(bytes);
        // An ending thread has no spare block any more.
        if let Ok(Some(spare)) = SPARE.try_with(Cell::take) {
            if spare.bytes == bytes {
                return spare;
            }
            SPARE.set(Some(spare));
        }
        if let Some(block) = class.and_then(|class| POOL[class].lock().pop()) {
            POOLED.fetch_sub(block.bytes, Ordering::Relaxed);
            return block;
        }
        Self::allocate(bytes)
    }

    /// Becomes this thread's spare block; the one before goes to the pool.
    fn give_back(self) {
        if self.bytes > SPARE_BYTES_MAX {
            self.pool();
        } else if let Ok(Some(before)) = SPARE.try_with(|spare| spare.replace(Some(self))) {
            before.pool();
        }
    }

    /// Into the pool, or to the allocator if the pool is full.
    fn pool(self) {
        let (Some(class), _) = class_of(self.bytes) else { return };
        if POOLED.fetch_add(self.bytes, Ordering::Relaxed) + self.bytes > POOL_BYTES_MAX {
            POOLED.fetch_sub(self.bytes, Ordering::Relaxed);
            return;
        }
        POOL[class].lock().push(self);
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: the block owns `bytes` initialised bytes at `start`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only way to it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated by `allocate` with this very layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) }
    }
}

/// Owns a block taken from the pool; releases it on drop. `None` holds no memory.
struct Lease(Option<Block>);

impl Lease {
    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |block| block.bytes)
    }

    fn as_slice(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], Block::as_slice)
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], Block::as_mut_slice)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(block) = self.0.take() {
            block.give_back();
        }
    }
}

/// Bytes of a read: an immutable window into aligned, pooled memory.
pub struct Buffer {
    lease: Lease,
    start: usize,
    len: usize,
}

impl Buffer {
    /// A buffer with no bytes and no memory.
    pub fn empty() -> Self {
        Self { lease: Lease(None), start: 0, len: 0 }
    }

    /// A copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let mut copy = AlignedVec::with_capacity(bytes.len());
        copy.extend_from_slice(bytes);
        copy.into_buffer()
    }

    /// The part of this buffer that begins at `start`, `len` bytes long.
    ///
    /// # Panics
    ///
    /// When the part reaches past the end.
    #[must_use]
    pub fn window(mut self, start: usize, len: usize) -> Self {
        let inside = start.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "window {start}+{len} of a buffer of {} bytes", self.len);
        self.start += start;
        self.len = len;
        self
    }

    /// The memory that this buffer holds; at least its length.
    pub fn memory_bytes(&self) -> usize {
        self.lease.bytes()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.lease.as_slice()[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("len", &self.len)
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

/// Growable bytes with an aligned address, for direct writes.
pub struct AlignedVec {
    lease: Lease,
    len: usize,
}

impl AlignedVec {
    /// No bytes yet, and room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        let lease = Lease((bytes > 0).then(|| Block::take(bytes)));
        Self { lease, len: 0 }
    }

    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut bytes = Self::with_capacity(len);
        bytes.resize(len, 0);
        bytes
    }

    /// `len` bytes of arbitrary content, for a read to fill. Not public: they may contain a former
    /// owner's bytes.
    pub(crate) fn stale(len: usize) -> Self {
        let mut bytes = Self::with_capacity(len);
        bytes.len = len;
        bytes
    }

    /// The number of bytes that fit without moving.
    pub fn capacity(&self) -> usize {
        self.lease.bytes()
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.len.checked_add(bytes.len()).expect("lengths fit memory");
        self.reserve(end);
        self.lease.as_mut_slice()[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Sets the length; new bytes are `value`.
    pub fn resize(&mut self, len: usize, value: u8) {
        self.reserve(len);
        if len > self.len {
            self.lease.as_mut_slice()[self.len..len].fill(value);
        }
        self.len = len;
    }

    /// Removes all bytes, keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Freezes the bytes; nothing is copied.
    pub fn into_buffer(self) -> Buffer {
        let Self { lease, len } = self;
        Buffer { lease, start: 0, len }
    }

    fn reserve(&mut self, bytes: usize) {
        if bytes <= self.capacity() {
            return;
        }
        let mut grown = Self::with_capacity(bytes.max(self.capacity() * 2));
        grown.lease.as_mut_slice()[..self.len].copy_from_slice(self);
        grown.len = self.len;
        *self = grown;
    }
}

impl Deref for AlignedVec {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.lease.as_slice()[..self.len]
    }
}

impl DerefMut for AlignedVec {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.lease.as_mut_slice()[..self.len]
    }
}

impl fmt::Debug for AlignedVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedVec")
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_every_size_in_order() {
        let mut last = None;
        for bytes in (1..=POOLED_BYTES_MAX).step_by(1021) {
            let (class, rounded) = class_of(bytes);
            assert!(rounded >= bytes && rounded.is_multiple_of(ALIGNMENT));
            assert!(class >= last, "classes grow with sizes");
            assert_eq!(class_of(rounded), (class, rounded), "a block goes back where it came from");
            last = class;
        }
        assert_eq!(class_of(POOLED_BYTES_MAX).0, Some(CLASSES - 1));
        assert_eq!(class_of(POOLED_BYTES_MAX + 1), (None, POOLED_BYTES_MAX + ALIGNMENT));
    }

    #[test]
    fn memory_is_aligned_and_keeps_its_bytes_while_it_grows() {
        let mut bytes = AlignedVec::with_capacity(0);
        for round in 0..300_u32 {
            bytes.extend_from_slice(&[round as u8; 100]);
            assert!(bytes.as_ptr().addr().is_multiple_of(ALIGNMENT));
        }
        let buffer = bytes.into_buffer();
        assert_eq!(buffer.len(), 30_000);
        assert!(buffer.chunks(100).zip(0..300_u32).all(|(c, n)| c.iter().all(|b| *b == n as u8)));
    }

    #[test]
    fn a_window_of_a_window_counts_from_its_own_start() {
        let all: Vec<u8> = (0..=255).collect();
        let part = Buffer::copy_from(&all).window(10, 100).window(5, 20);
        assert_eq!(&*part, &all[15..35]);
        assert_eq!(part.memory_bytes(), ALIGNMENT);
    }

    #[test]
    #[should_panic(expected = "window 3+3 of a buffer of 5 bytes")]
    fn a_window_past_the_end_panics() {
        let _ = Buffer::copy_from(b"hello").window(3, 3);
    }

    #[test]
    fn reused_memory_is_zeroed_on_request() {
        let mut dirty = AlignedVec::with_capacity(ALIGNMENT);
        dirty.resize(ALIGNMENT, 0xAA);
        drop(dirty);
        assert!(AlignedVec::zeroed(ALIGNMENT).iter().all(|b| *b == 0));
    }

    #[test]
    fn an_empty_buffer_holds_no_memory() {
        assert_eq!(Buffer::empty().memory_bytes(), 0);
        assert!(Buffer::copy_from(&[]).is_empty());
    }

    #[test]
    fn a_thread_takes_and_drops_buffers_behind_its_spare_block() {
        /// Takes one more as it goes.
        struct Late(Buffer);
        impl Drop for Late {
            fn drop(&mut self) {
                assert_eq!(&*Buffer::copy_from(&self.0), b"kept");
            }
        }
        thread_local! {
            static KEPT: Cell<Option<Late>> = const { Cell::new(None) };
        }
        // Of two thread-locals the one used first may be dropped first or last.
        let kept_first = || {
            KEPT.set(None);
            KEPT.set(Some(Late(Buffer::copy_from(b"kept"))));
            drop(Buffer::copy_from(b"spare"));
        };
        let spare_first = || {
            drop(Buffer::copy_from(b"spare"));
            KEPT.set(Some(Late(Buffer::copy_from(b"kept"))));
            drop(Buffer::copy_from(b"spare"));
        };
        std::thread::scope(|scope| {
            scope.spawn(kept_first).join().unwrap();
            scope.spawn(spare_first).join().unwrap();
        });
    }

    #[test]
    fn buffers_cross_threads() {
        let buffer = Buffer::copy_from(b"shared");
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(&*buffer, b"shared"));
            scope.spawn(|| assert_eq!(&*buffer, b"shared"));
        });
    }
}
