//! The memory of a memtable: allocations come from large chunks, and all memory is freed at once
//! when the arena is dropped.
//!
//! Guarantees: allocated memory is aligned to 8 bytes, never moves and lives as long as the arena;
//! its owner must write it before reading it. Any thread may allocate at any time.
//! [`Arena::charge`] is the memory that the arena took from the allocator, unused tails included.
//!
//! `unsafe` here is confined to allocating and freeing chunks.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::{AccessTracker, Mutex};

/// The first request gets a chunk of its own, because a store may have many idle keyspaces, whose
/// memtables make no other; later chunks are not smaller than this.
const CHUNK_BYTES_MIN: usize = 512;

/// A small arena grows by one part in this many of its size at a time: with chunks that double, the
/// memtables of many keyspaces would be half empty when they are flushed for their memory.
const CHUNK_SHARE_SMALL: usize = 4;

/// Chunks as large as these suit an arena of a MiB.
const CHUNK_BYTES_SMALL: usize = 64 << 10;

/// Larger arenas get chunks of one part in this many of their size, because the unused tail of the
/// last chunk is charged as if it were filled.
const CHUNK_SHARE: usize = 16;

/// Maximum size of a chunk for several requests: larger ones have no benefit.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// The alignment of all memory, which the entries and pages of a sorted list need.
pub(crate) const ALIGNMENT: usize = 8;

#[derive(Debug)]
struct Chunk {
    memory: NonNull<u8>,
    bytes: usize,
    used: AtomicUsize,
    /// Tracks the fields above that are not atomics.
    tracker: AccessTracker,
}

// SAFETY: a chunk owns its memory, and `used` decides by atomic additions
// which thread may touch which part.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(bytes: usize) -> Box<Self> {
        let layout = Self::layout(bytes);
        // SAFETY: the layout has a size above zero (callers ask for ≥ 1 byte).
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        let tracker = AccessTracker::new();
        tracker.write();
        Box::new(Self { memory, bytes, used: AtomicUsize::new(0), tracker })
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, ALIGNMENT).expect("chunks are far smaller than isize::MAX")
    }

    /// `len` (a multiple of the alignment) bytes, if the chunk has them.
    fn take(&self, len: usize) -> Option<NonNull<u8>> {
        self.tracker.read();
        // A cheap check first keeps `used` from growing without bound when many threads find the
        // chunk full.
        if self.used.load(Ordering::Relaxed) + len > self.bytes {
            return None;
        }
        let start = self.used.fetch_add(len, Ordering::Relaxed);
        if start + len > self.bytes {
            return None;
        }
        // SAFETY: start + len is within the chunk.
        Some(unsafe { self.memory.add(start) })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.memory.as_ptr(), Self::layout(self.bytes)) };
    }
}

/// A growing pool of memory.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The chunk that small requests come from; owned by `chunks`.
    current: AtomicPtr<Chunk>,
    chunks: Mutex<Vec<NonNullChunk>>,
    charge: AtomicUsize,
}

/// An owned chunk. A raw pointer rather than a `Box`, because `current` points to it while it is in
/// the list.
#[derive(Debug)]
struct NonNullChunk(NonNull<Chunk>);

// SAFETY: it owns a `Chunk`, which is Send and Sync.
unsafe impl Send for NonNullChunk {}

impl NonNullChunk {
    fn new(bytes: usize) -> Self {
        Self(NonNull::from(Box::leak(Chunk::new(bytes))))
    }

    fn chunk(&self) -> &Chunk {
        // SAFETY: the pointer came from a leaked box, freed only on drop.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for NonNullChunk {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::leak` and is dropped once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self {
            current: AtomicPtr::new(std::ptr::null_mut()),
            chunks: Mutex::new(Vec::new()),
            charge: AtomicUsize::new(0),
        }
    }

    /// `len` uninitialised bytes that do not move until the arena is dropped.
    pub(crate) fn allocate(&self, len: usize) -> NonNull<u8> {
        let len = len.max(1).next_multiple_of(ALIGNMENT);
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: chunks live as long as the arena, and `current` is null or
        // points to one of them.
        if let Some(memory) = unsafe { current.as_ref() }.and_then(|chunk| chunk.take(len)) {
            return memory;
        }
        self.allocate_slow(len)
    }

    #[cold]
    fn allocate_slow(&self, len: usize) -> NonNull<u8> {
        let mut chunks = self.chunks.lock();
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: as in `allocate`.
        if let Some(memory) = unsafe { current.as_ref() }.and_then(|chunk| chunk.take(len)) {
            return memory;
        }
        let small = (self.charge() / CHUNK_SHARE_SMALL).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_SMALL);
        let regular = (self.charge() / CHUNK_SHARE).min(CHUNK_BYTES_MAX).max(small);
        // Large requests get a chunk of their own, so that they do not waste the rest of the
        // current one.
        let own = chunks.is_empty() || len > regular.max(2 * CHUNK_BYTES_MIN) / 4;
        let chunk = NonNullChunk::new(if own { len } else { regular });
        self.charge.fetch_add(chunk.chunk().bytes, Ordering::Relaxed);
        let memory = chunk.chunk().take(len).expect("a new chunk holds the request");
        if !own {
            self.current.store(chunk.0.as_ptr(), Ordering::Release);
        }
        chunks.push(chunk);
        memory
    }

    /// Bytes taken from the allocator.
    pub(crate) fn charge(&self) -> usize {
        self.charge.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(miri))]
    mod models;

    use super::*;

    #[test]
    fn allocations_are_aligned_disjoint_and_charged() {
        let arena = Arena::new();
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut bytes = 0;
        for i in 0..300usize {
            let len = 1 + i * 37 % 3000;
            let memory = arena.allocate(len);
            // SAFETY: `len` bytes were handed out.
            unsafe { memory.as_ptr().write_bytes(0xaa, len) };
            let start = memory.as_ptr() as usize;
            assert_eq!(start % ALIGNMENT, 0);
            assert!(taken.iter().all(|&(s, e)| start + len <= s || start >= e));
            taken.push((start, start + len));
            bytes += len;
        }
        assert!(arena.charge() >= bytes && arena.charge() < 3 * bytes);
    }

    #[test]
    fn unused_memory_is_a_small_share_of_the_charge() {
        let (arena, mut bytes) = (Arena::new(), 0);
        while bytes < 8 << 20 {
            arena.allocate(1 << 10);
            bytes += 1 << 10;
            let waste = arena.charge() - bytes;
            assert!(waste <= bytes / CHUNK_SHARE + 2 * CHUNK_BYTES_SMALL, "{waste} of {bytes}");
        }
    }

    #[test]
    fn small_arenas_waste_little_and_idle_ones_take_next_to_nothing() {
        let (arena, mut bytes) = (Arena::new(), 0);
        arena.allocate(32);
        assert_eq!(arena.charge(), 32);
        while bytes < 64 << 10 {
            arena.allocate(160);
            bytes += 160;
            let waste = arena.charge() - bytes;
            assert!(waste <= bytes / 2 + CHUNK_BYTES_MIN, "{waste} of {bytes}");
        }
    }

    #[test]
    fn allocations_of_threads_are_disjoint() {
        let arena = Arena::new();
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        std::thread::scope(|scope| {
            for t in 1..=4u8 {
                let arena = &arena;
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for i in 0..rounds {
                        let memory = arena.allocate(8 + i % 64);
                        // SAFETY: at least 8 bytes were handed out.
                        unsafe { memory.as_ptr().write_bytes(t, 8) };
                        mine.push(memory);
                    }
                    for memory in mine {
                        // SAFETY: written above.
                        assert_eq!(unsafe { memory.as_ptr().cast::<[u8; 8]>().read() }, [t; 8]);
                    }
                });
            }
        });
    }
}
