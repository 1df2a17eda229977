//! The counters of the buffer pool, which are global: this test has a process
//! of its own.

use tidekv_io::Buffer;
use tidekv_io::buffer::{AlignedVec, POOL_BYTES_MAX, live_bytes, pooled_bytes, release_pool};

#[test]
fn counters_follow_the_memory_and_the_pool_is_bounded() {
    assert_eq!((live_bytes(), pooled_bytes()), (0, 0));
    let held: Vec<_> = (0..12).map(|_| AlignedVec::with_capacity(1 << 20)).collect();
    assert_eq!(live_bytes(), 12 << 20);
    drop(held);
    assert_eq!((live_bytes(), pooled_bytes()), (0, POOL_BYTES_MAX));

    let reused = Buffer::copy_from(&[1; 800_000]);
    assert_eq!(pooled_bytes(), POOL_BYTES_MAX - (1 << 20), "a pooled block is used first");
    assert_eq!(live_bytes(), reused.memory_bytes());
    drop(reused);

    let huge = AlignedVec::zeroed(3 << 20);
    assert_eq!(live_bytes(), 3 << 20);
    drop(huge);
    assert_eq!((live_bytes(), pooled_bytes()), (0, POOL_BYTES_MAX), "huge blocks are not kept");

    release_pool();
    assert_eq!(pooled_bytes(), 0);
}
