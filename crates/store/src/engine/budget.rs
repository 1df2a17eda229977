//! One budget in bytes for everything: memtables, caches, metadata and reads
//! in flight.
//!
//! ```text
//! total = memtables (their size, at most a quarter and one more batch)
//!       + reads and compactions in flight (a sixteenth)
//!       + keyspaces and metadata of open tables (their size) + what the program reserves
//!       + caches (the rest)
//! ```
//!
//! The metadata of tables (the top of each index, range tombstones) cannot be freed while they are
//! part of the store; when it grows, the cache shrinks. The cache also shrinks when memtables grow,
//! in steps ahead of them, and grows again when they are flushed: a store that is only read has no
//! use for a quarter of its memory.

/// A memtable larger than this makes flushes long and gains little.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;

/// The memory reserved for memtables grows by this share of its maximum at a time, and by at most
/// `STEP_BYTES_MAX`: a writer pushes that much out of the cache at once.
const STEPS: u64 = 32;
pub(crate) const STEP_BYTES_MAX: u64 = 1 << 20;

/// How the memory is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    /// The size at which a memtable is full.
    pub(crate) memtable_bytes: u64,
    /// The limit for all memtables together; writers wait beyond it. Also the limit for a batch.
    pub(crate) memtables_bytes_max: u64,
    /// The part of the total that is withheld from the cache for memtables now.
    pub(crate) memtables_bytes_kept: u64,
    /// The capacity of the block cache.
    pub(crate) cache_bytes: u64,
}

/// Divides `total` bytes while memtables take `memtables` bytes, and open tables and the program
/// `fixed` bytes.
pub(crate) fn shares(
    total: u64,
    memtable_bytes: Option<u64>,
    memtables: u64,
    fixed: u64,
) -> Shares {
    let memtables_bytes_max = total / 4;
    let memtables_bytes_kept = kept(memtables_bytes_max, memtables);
    let memtable_bytes = memtable_bytes.unwrap_or((total / 8).min(MEMTABLE_BYTES_MAX));
    let in_flight = total / 16;
    Shares {
        memtable_bytes: memtable_bytes.min(memtables_bytes_max / 2),
        memtables_bytes_max,
        memtables_bytes_kept,
        cache_bytes: total.saturating_sub(memtables_bytes_kept + in_flight).saturating_sub(fixed),
    }
}

/// The reservation for memtables that take `taken` bytes: one to two steps more, but at most `max`;
/// or what they take, if the last batch made it more.
pub(crate) fn kept(max: u64, taken: u64) -> u64 {
    let step = (max / STEPS).clamp(1, STEP_BYTES_MAX);
    let ahead = (taken / step).saturating_add(2).saturating_mul(step);
    ahead.min(max.max(taken)).min(2 * max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::memory_budget::STORE_BYTES_MIN;

    #[test]
    fn shares_add_up_to_no_more_than_the_total() {
        for total in [STORE_BYTES_MIN, 64 << 20, 10 << 30] {
            for metadata in [0, total / 3, 2 * total] {
                for taken in [0, total / 100, total / 8, total / 4, total, u64::MAX] {
                    let shares = shares(total, None, taken, metadata);
                    let memtables = taken.min(2 * shares.memtables_bytes_max);
                    assert!(memtables <= shares.memtables_bytes_kept);
                    assert!(shares.memtables_bytes_kept <= 2 * shares.memtables_bytes_max);
                    let fixed = shares.memtables_bytes_kept + metadata;
                    assert!(shares.cache_bytes + fixed <= total.max(fixed));
                    assert!(2 * shares.memtable_bytes <= shares.memtables_bytes_max);
                }
            }
            assert!(shares(total, None, total / 4, 0).cache_bytes >= total / 2);
            assert!(shares(total, None, 0, 0).cache_bytes >= total * 9 / 10);
        }
    }

    #[test]
    fn memory_of_memtables_is_reserved_in_steps_ahead() {
        let max = 16 << 20;
        let step = max / STEPS;
        for taken in [0, 1, step - 1, step, step + 1, max / 2, max - 2 * step] {
            let kept = kept(max, taken);
            assert!(kept > taken + step && kept <= taken + 2 * step && kept.is_multiple_of(step));
        }
        assert_eq!(kept(max, max), max);
        assert_eq!(kept(max, max + 5), max + 5, "the last batch was large");
        assert_eq!(kept(max, u64::MAX), 2 * max);
        assert_eq!(kept(10 << 30, 5), 2 * STEP_BYTES_MAX);
    }
}
