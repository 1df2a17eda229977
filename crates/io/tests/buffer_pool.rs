//! The byte count of the buffer pool, which is global: this test runs in its own process.

use tidekv_io::Buffer;
use tidekv_io::buffer::{AlignedVec, POOL_BYTES_MAX, SPARE_BYTES_MAX, pooled_bytes, release_pool};

#[test]
fn the_pool_is_bounded_and_a_thread_keeps_one_small_block_beside_it() {
    assert_eq!(pooled_bytes(), 0);
    let held: Vec<_> = (0..12).map(|_| AlignedVec::with_capacity(1 << 20)).collect();
    assert_eq!(pooled_bytes(), 0);
    drop(held);
    assert_eq!(pooled_bytes(), POOL_BYTES_MAX);

    let reused = Buffer::copy_from(&[1; 800_000]);
    assert_eq!(pooled_bytes(), POOL_BYTES_MAX - (1 << 20), "a pooled block is used first");
    drop(reused);
    drop(AlignedVec::zeroed(3 << 20));
    assert_eq!(pooled_bytes(), POOL_BYTES_MAX, "huge blocks are not kept");
    release_pool();
    assert_eq!(pooled_bytes(), 0);

    // Reading one block at a time leaves the pool alone, and the previous spare block of another
    // size goes there.
    for (bytes, pooled) in [(5000, 0), (5000, 0), (SPARE_BYTES_MAX, 8192)] {
        let block = Buffer::copy_from(&vec![2; bytes]);
        let start = block.as_ptr().addr();
        drop(block);
        assert_eq!(Buffer::copy_from(&vec![3; bytes]).as_ptr().addr(), start);
        assert_eq!(pooled_bytes(), pooled, "a block of {bytes} bytes");
    }
    // Of two at once one is spare, and the other is in the pool for all threads.
    release_pool();
    let two = [AlignedVec::with_capacity(4096), AlignedVec::with_capacity(4096)];
    drop(two);
    assert_eq!(pooled_bytes(), 4096);
    let take = || AlignedVec::with_capacity(4096);
    let taken = std::thread::scope(|scope| scope.spawn(take).join().unwrap());
    assert_eq!(pooled_bytes(), 0);
    drop(taken);
    release_pool();
}
