//! Two threads that allocate at the end of a chunk, under every execution that
//! the memory model allows.

use std::sync::Arc;

use tidekv_testkit::models::explore;
use tidekv_testkit::models::loom::thread;

use super::*;

/// The first chunk holds four of these; each thread takes three.
const LEN: usize = CHUNK_BYTES_MIN / 4;

/// The addresses of the allocations.
fn take(arena: &Arena, count: usize) -> Vec<usize> {
    (0..count).map(|_| arena.allocate(LEN).as_ptr() as usize).collect()
}

#[test]
fn no_byte_is_allocated_twice_at_a_chunk_change() {
    explore::loom("arena: two threads at the end of a chunk", 3, None, || {
        let arena = Arc::new(Arena::new());
        let other = {
            let arena = Arc::clone(&arena);
            thread::spawn(move || take(&arena, 3))
        };
        let mut starts = take(&arena, 3);
        starts.extend(other.join().unwrap());
        starts.sort_unstable();
        assert!(starts.windows(2).all(|w| w[0] + LEN <= w[1]));
        assert!(arena.charge() >= 6 * LEN);
    });
}
