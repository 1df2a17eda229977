//! The memory of a memtable: bytes are handed out from large chunks and all
//! given back at once, when the arena is dropped.
//!
//! Guarantees: memory handed out is aligned to 8 bytes, never moves and lives as
//! long as the arena; what it holds is for its owner to write first. Any thread
//! may allocate at any time. [`Arena::charge`] is what was taken from the
//! allocator, unused tails included.
//!
//! `unsafe` here is confined to taking and giving back chunks.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sync::{Mutex, Witness};

/// The first chunk is small, because a store may have many quiet keyspaces;
/// later ones double up to [`CHUNK_BYTES_DOUBLED`].
const CHUNK_BYTES_MIN: usize = 512;

/// Chunks as large as these suit an arena of a MiB.
const CHUNK_BYTES_DOUBLED: usize = 64 << 10;

/// Larger arenas get chunks of one part in so many of what they have, for the
/// unused tail of the last chunk counts as if it were filled.
const CHUNK_SHARE: usize = 16;

/// No chunk of many requests is larger: there is nothing to gain.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// All memory is aligned to this, which is what the entries and pages of a sorted list need.
pub(crate) const ALIGNMENT: usize = 8;

#[derive(Debug)]
struct Chunk {
    memory: NonNull<u8>,
    bytes: usize,
    used: AtomicUsize,
    /// Of the fields above that are no atomics.
    witness: Witness,
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
        let witness = Witness::new();
        witness.write();
        Box::new(Self { memory, bytes, used: AtomicUsize::new(0), witness })
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, ALIGNMENT).expect("chunks are far smaller than isize::MAX")
    }

    /// `len` (a multiple of the alignment) bytes, if they are left.
    fn take(&self, len: usize) -> Option<NonNull<u8>> {
        self.witness.read();
        // A cheap look first keeps `used` from running away when many threads
        // find the chunk full.
        if self.used.load(Ordering::Relaxed) + len > self.bytes {
            return None;
        }
        let start = self.used.fetch_add(len, Ordering::Relaxed);
        if start + len > self.bytes {
            return None;
        }
        // SAFETY: start + len lies within the chunk.
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

/// An owned chunk. A raw pointer rather than a `Box`, because `current` points
/// to it while it stands in the list.
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

    /// `len` bytes of any content that stay where they are until the arena is
    /// dropped.
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
        let doubled = (CHUNK_BYTES_MIN << chunks.len().min(16)).min(CHUNK_BYTES_DOUBLED);
        let regular = (self.charge() / CHUNK_SHARE).min(CHUNK_BYTES_MAX).max(doubled);
        // Large requests get a chunk of their own, so that they do not throw
        // away the rest of the current one.
        let own = len > regular / 4;
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
    fn memory_is_aligned_apart_and_charged() {
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
    fn little_is_charged_that_is_not_handed_out() {
        let (arena, mut bytes) = (Arena::new(), 0);
        while bytes < 8 << 20 {
            arena.allocate(1 << 10);
            bytes += 1 << 10;
            let waste = arena.charge() - bytes;
            assert!(waste <= bytes / CHUNK_SHARE + 2 * CHUNK_BYTES_DOUBLED, "{waste} of {bytes}");
        }
    }

    #[test]
    fn threads_never_share_bytes() {
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
