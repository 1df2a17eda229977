//! Control groups that limit the memory of processes, with the kernel's page cache for their files.
//!
//! Guarantees: a process in a group stays below its limit, or the kernel kills it. Swap is not
//! limited. Groups need root, and a kernel that has them.
#![allow(clippy::disallowed_methods, reason = "asks the kernel, not for data of a store")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::machine::kernel::labelled;

/// A hierarchy of control groups, with the names of its files.
struct Hierarchy {
    root: &'static str,
    /// Exists if the kernel has this hierarchy.
    mark: &'static str,
    limit: &'static str,
    /// Has a line `oom_kill` with the number of killed processes.
    events: &'static str,
}

/// The file to which a process writes its number to enter a group.
const ENTRANCE: &str = "cgroup.procs";

/// cgroup v1, then v2.
const HIERARCHIES: [Hierarchy; 2] = [
    Hierarchy {
        root: "/sys/fs/cgroup/memory",
        mark: "memory.limit_in_bytes",
        limit: "memory.limit_in_bytes",
        events: "memory.oom_control",
    },
    Hierarchy {
        root: "/sys/fs/cgroup",
        mark: "cgroup.subtree_control",
        limit: "memory.max",
        events: "memory.events",
    },
];

impl Hierarchy {
    fn of_this_kernel() -> Option<&'static Self> {
        HIERARCHIES.iter().find(|it| Path::new(it.root).join(it.mark).exists())
    }

    fn named(&self, name: &str) -> PathBuf {
        Path::new(self.root).join(format!("tidekv-lab-{name}"))
    }
}

/// A new group, and its hierarchy.
fn create(name: &str, bytes: u64) -> Result<(PathBuf, &'static Hierarchy)> {
    let hierarchy = Hierarchy::of_this_kernel();
    let hierarchy = hierarchy.ok_or_else(|| could_not(std::io::ErrorKind::Unsupported.into()))?;
    let path = hierarchy.named(name);
    fs::create_dir(&path).map_err(could_not)?;
    fs::write(path.join(hierarchy.limit), bytes.to_string()).map_err(could_not)?;
    Ok((path, hierarchy))
}

fn could_not(error: std::io::Error) -> Failure {
    Failure::system("could not bound the process's memory", error)
}

/// A control group, removed on drop if its processes have ended.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    path: PathBuf,
    events: &'static str,
}

impl MemoryGroup {
    /// A group without processes, with this limit.
    ///
    /// # Errors
    /// If the kernel has no such control groups, or this process may not create one: that needs
    /// root.
    pub(crate) fn new(name: &str, bytes: u64) -> Result<Self> {
        let (path, hierarchy) = create(name, bytes)?;
        Ok(Self { path, events: hierarchy.events })
    }

    /// The file to which a process writes its number to enter the group.
    pub(crate) fn entrance(&self) -> PathBuf {
        self.path.join(ENTRANCE)
    }

    /// The number of its processes that the kernel has killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        let events = fs::read_to_string(self.path.join(self.events)).unwrap_or_default();
        labelled(&events, "oom_kill ")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A remaining group has no effect.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Limits the memory of this process, including the kernel's page cache for its files.
/// [`unbound_memory`] cleans up afterwards. Earlier allocations do not count.
///
/// # Errors
/// As [`MemoryGroup::new`].
pub(crate) fn bound_memory(bytes: u64) -> Result<()> {
    let process = std::process::id().to_string();
    let (path, _) = create(&process, bytes)?;
    fs::write(path.join(ENTRANCE), process).map_err(could_not)
}

/// Removes the control group of a process that has ended.
pub(crate) fn unbound_memory(process: u32) {
    if let Some(hierarchy) = Hierarchy::of_this_kernel() {
        let _ = fs::remove_dir(hierarchy.named(&process.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_beyond_its_limit_is_killed_and_counted() {
        let name = format!("test-{}", std::process::id());
        // Only root can create one.
        let Ok(group) = MemoryGroup::new(&name, 16 << 20) else {
            println!("skipped: control groups are not available");
            return;
        };
        let path = group.path.clone();
        let run = |bytes: &str| {
            let script = "echo $$ > \"$0\" && exec dd if=/dev/zero of=/dev/null count=1 bs=\"$1\"";
            let mut command = Command::new("sh");
            command.args(["-c", script]).arg(group.entrance()).arg(bytes).stderr(Stdio::null());
            command.status().unwrap()
        };
        assert!(run("1M").success());
        assert_eq!(group.oom_kills(), 0);
        assert_eq!(run("64M").signal(), Some(9));
        assert_eq!(group.oom_kills(), 1);
        drop(group);
        assert!(!path.exists());
    }
}
