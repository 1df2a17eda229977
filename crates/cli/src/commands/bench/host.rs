//! The machine of a benchmark: the properties on which its numbers depend.

use std::path::Path;

use crate::files;

/// Cores, memory, kernel and file system.
#[derive(Debug)]
pub struct Host {
    /// Cores available to this process.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// The kernel and its release, as in `Linux 6.1.0`.
    pub kernel: String,
    /// The directory of the store.
    pub path: String,
    /// The type of the file system there, as in `ext4`, if the kernel names it.
    pub filesystem: Option<String>,
}

impl Host {
    /// This machine, with the store in `directory`.
    pub fn of(directory: &Path) -> Self {
        let system = rustix::system::sysinfo();
        let kernel = rustix::system::uname();
        let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_path_buf());
        let mounts = files::read_text(Path::new("/proc/self/mountinfo"));
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: system.totalram as u64 * u64::from(system.mem_unit),
            kernel: [kernel.sysname(), kernel.release()].map(|it| it.to_string_lossy()).join(" "),
            path: absolute.display().to_string(),
            filesystem: mounts.ok().and_then(|mounts| filesystem_of(&absolute, &mounts)),
        }
    }
}

/// The type of the file system that `path` is on: of the longest mount point above it, the last
/// one mounted. A line of `mountinfo` is
/// `36 35 98:0 /root /mount/point options … - type device …`.
fn filesystem_of(path: &Path, mounts: &str) -> Option<String> {
    let mounted = mounts.lines().filter_map(|line| {
        let point = line.split(' ').nth(4)?;
        let kind = line.split_once(" - ")?.1.split(' ').next()?;
        path.starts_with(point).then_some((point.len(), kind))
    });
    mounted.max_by_key(|&(bytes, _)| bytes).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_names_the_file_system() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      30 22 0:26 / /tmp rw - tmpfs tmpfs rw\n\
                      31 22 8:2 / /mnt/nvme rw - xfs /dev/nvme0n1 rw\n";
        for (path, kind) in
            [("/home/a", "ext4"), ("/tmp/x", "tmpfs"), ("/mnt/nvme/b", "xfs"), ("/tmpfile", "ext4")]
        {
            assert_eq!(filesystem_of(Path::new(path), mounts).as_deref(), Some(kind), "{path}");
        }
        assert_eq!(filesystem_of(Path::new("/a"), "nonsense"), None);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let host = Host::of(Path::new("."));
        assert!(host.cores >= 1 && host.memory_bytes > 1 << 20, "{host:?}");
        assert!(host.path.starts_with('/'), "{host:?}");
    }
}
