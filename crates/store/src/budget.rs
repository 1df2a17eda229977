//! One budget in bytes for everything: memtables, caches, metadata and reads
//! in flight.
//!
//! ```text
//! total = memtables (a quarter) + reads and compactions in flight (a sixteenth)
//!       + metadata of open tables (what it takes) + block cache (the rest)
//! ```
//!
//! Metadata of open tables (the top of each index, range tombstones) cannot be
//! given up while the tables are open; when it grows the cache shrinks.

use std::path::Path;

/// The least that a store can work with.
pub(crate) const MEMORY_BYTES_MIN: u64 = 8 << 20;

/// A memtable larger than this makes flushes long and gains little.
const MEMTABLE_BYTES_MAX: u64 = 64 << 20;

/// How the memory is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    /// When a memtable is full.
    pub(crate) memtable_bytes: u64,
    /// What all memtables together may take before writers wait.
    pub(crate) memtables_bytes_max: u64,
    /// The capacity of the block cache.
    pub(crate) cache_bytes: u64,
}

/// Shares `total` bytes out while open tables take `metadata` bytes.
pub(crate) fn shares(total: u64, memtable_bytes: Option<u64>, metadata: u64) -> Shares {
    let memtables_bytes_max = total / 4;
    let memtable_bytes = memtable_bytes.unwrap_or((total / 8).min(MEMTABLE_BYTES_MAX));
    let in_flight = total / 16;
    Shares {
        memtable_bytes: memtable_bytes.min(memtables_bytes_max / 2),
        memtables_bytes_max,
        cache_bytes: total.saturating_sub(memtables_bytes_max + in_flight + metadata),
    }
}

/// A quarter of the memory that this process may use: the least of the
/// machine's memory and the limits of its cgroups.
#[expect(clippy::disallowed_methods, reason = "asks the kernel about this process, not for data")]
pub(crate) fn default_memory_bytes() -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| memory_total(&text));
    let mut allowed = machine.unwrap_or(4 << 30);
    let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    for line in own.lines() {
        // Version 2: "0::/path"; version 1: "4:memory:/path".
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let full = Path::new(root).join(path.trim_start_matches('/'));
        for directory in full.ancestors().take_while(|d| d.starts_with(root)) {
            let limit =
                read(&directory.join(file)).and_then(|text| text.trim().parse::<u64>().ok());
            allowed = allowed.min(limit.unwrap_or(u64::MAX));
        }
    }
    (allowed / 4).max(MEMORY_BYTES_MIN)
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_no_more_than_the_total() {
        for total in [MEMORY_BYTES_MIN, 64 << 20, 10 << 30] {
            for metadata in [0, total / 3, 2 * total] {
                let shares = shares(total, None, metadata);
                assert!(
                    shares.memtables_bytes_max + shares.cache_bytes + metadata.min(total)
                        <= total + total / 4
                );
                assert!(2 * shares.memtable_bytes <= shares.memtables_bytes_max);
            }
            assert!(shares(total, None, 0).cache_bytes >= total / 2);
        }
    }

    #[test]
    fn the_default_is_read_from_the_machine() {
        assert_eq!(memory_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert!(default_memory_bytes() >= MEMORY_BYTES_MIN);
    }
}
