//! Counts allocated memory, to detect a decoder that allocates more than its input justifies. Tests
//! of limits install [`Counting`] as their global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering};

thread_local! {
    /// Bytes that this thread has allocated and not freed, and their maximum. Memory passed to
    /// other threads makes it wrong; decoders start none.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The same for all threads together.
static LIVE_OF_ALL: AtomicIsize = AtomicIsize::new(0);
static PEAK_OF_ALL: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, with counting.
#[derive(Debug)]
pub struct Counting;

fn count(bytes: isize) {
    let live = LIVE_OF_ALL.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK_OF_ALL.fetch_max(live, Ordering::Relaxed);
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: forwards every call to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's guarantees are those that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Forgets the maximum that all threads together had allocated, so that it is measured anew.
pub fn reset_peak_of_all() {
    PEAK_OF_ALL.store(LIVE_OF_ALL.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// The maximum that all threads together have had allocated, in bytes.
pub fn peak_of_all() -> usize {
    PEAK_OF_ALL.load(Ordering::Relaxed).max(0) as usize
}

/// Runs `decode`, which may hold at most `bytes_max` at any moment.
pub fn bounded<T>(bytes_max: usize, decode: impl FnOnce() -> T) -> T {
    let before = LIVE.get();
    PEAK.set(before);
    let result = decode();
    let peak = (PEAK.get() - before) as usize;
    assert!(peak <= bytes_max, "{peak} bytes were allocated, and the input justifies {bytes_max}");
    result
}

/// Bytes that this thread has allocated and not freed.
pub fn live() -> usize {
    usize::try_from(LIVE.get()).unwrap_or(0)
}

/// Whether [`Counting`] is installed: without it no limit is checked.
pub fn is_counting() -> bool {
    let before = LIVE.get();
    let _held = std::hint::black_box(vec![0u8; 1000]);
    LIVE.get() >= before + 1000
}
