//! How much memory this process may use.

use std::path::Path;

/// The bytes of memory that this process may use: the minimum of the machine's memory and the limits of
/// its control groups; 4 GiB if the system does not say.
#[expect(clippy::disallowed_methods, reason = "asks the kernel about this process, not for data")]
pub fn available_memory_bytes() -> u64 {
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
    allowed
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn memory_is_read_from_the_machine() {
        assert_eq!(memory_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(memory_total("MemFree: 1 kB\n"), None);
        assert!(available_memory_bytes() > 16 << 20);
    }
}
