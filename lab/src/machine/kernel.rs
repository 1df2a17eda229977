//! The kernel's counters of this process and of the disk of a directory.
//!
//! They check the subjects' own counters: bytes against those of this process (`/proc/self/io`),
//! reads against those of the block device, which other processes use too. The module also reads the
//! counters of other processes that work for a subject.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "asks the kernel, not for data of a store"
)]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};

/// Bytes of a sector, whatever the device: a constant of the kernel.
const SECTOR_BYTES: u64 = 512;

/// The kernel's counters at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct KernelCounts {
    /// Bytes that this process read from storage.
    pub(crate) read_bytes: u64,
    /// Bytes that this process wrote to storage, now or later.
    pub(crate) written_bytes: u64,
    /// Read requests that the device has completed, of all processes.
    pub(crate) device_reads: u64,
    /// Bytes of them.
    pub(crate) device_read_bytes: u64,
    /// Bytes written to the device by all processes.
    pub(crate) device_written_bytes: u64,
    /// Processor time of all threads.
    pub(crate) cpu_ns: u64,
}

impl KernelCounts {
    /// The difference from `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            device_reads: self.device_reads.saturating_sub(earlier.device_reads),
            device_read_bytes: self.device_read_bytes.saturating_sub(earlier.device_read_bytes),
            device_written_bytes: self
                .device_written_bytes
                .saturating_sub(earlier.device_written_bytes),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
        }
    }
}

/// The sources of the counters of this process and of one device.
#[derive(Debug)]
pub(crate) struct Kernel {
    device: Option<PathBuf>,
}

impl Kernel {
    /// With the device of `directory`, if it is a block device.
    pub(crate) fn new(directory: &Path) -> Self {
        let device = rustix::fs::stat(directory).ok().map(|stat| {
            let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
            PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"))
        });
        Self { device: device.filter(|path| fs::metadata(path).is_ok()) }
    }

    /// Whether reads can be compared with a device.
    pub(crate) fn has_device(&self) -> bool {
        self.device.is_some()
    }

    /// The current counters; 0 where this kernel has none.
    pub(crate) fn counts(&self) -> KernelCounts {
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let device = self.device.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let device: Vec<u64> = device
            .unwrap_or_default()
            .split_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        let device = |index: usize| device.get(index).copied().unwrap_or(0);
        KernelCounts {
            read_bytes: labelled(&io, "read_bytes:"),
            written_bytes: labelled(&io, "write_bytes:"),
            device_reads: device(0),
            device_read_bytes: device(2) * SECTOR_BYTES,
            device_written_bytes: device(6) * SECTOR_BYTES,
            cpu_ns: process_cpu_ns(),
        }
    }
}

/// Processor time of this process, in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    cpu_time_ns(ClockId::ProcessCPUTime)
}

/// Processor time of the calling thread, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    cpu_time_ns(ClockId::ThreadCPUTime)
}

fn cpu_time_ns(clock: ClockId) -> u64 {
    let cpu = clock_gettime(clock);
    cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64
}

/// The numbers of all threads of this process with that name.
pub(crate) fn threads_named(name: &str) -> Vec<u32> {
    let number = |thread: fs::DirEntry| {
        let comm = fs::read_to_string(thread.path().join("comm")).ok()?;
        (comm.trim_end() == name).then(|| thread.file_name().to_str()?.parse().ok()).flatten()
    };
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(number).collect()
}

/// Processor time of threads of this process, in nanoseconds; 0 if the kernel does not report it.
pub(crate) fn threads_cpu_ns(threads: &[u32]) -> u64 {
    let of = |thread: &u32| {
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    };
    threads.iter().filter_map(of).sum()
}

/// The bytes that the kernel read from storage for one thread, the creator of this.
#[derive(Debug)]
pub(crate) struct ThreadReads {
    io: File,
}

impl ThreadReads {
    pub(crate) fn new() -> Result<Self> {
        let path = "/proc/thread-self/io";
        let io =
            File::open(path).map_err(|e| Failure::system(format!("could not read {path}"), e))?;
        Ok(Self { io })
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        let mut text = [0; 512];
        let len = self.io.read_at(&mut text, 0).unwrap_or(0);
        std::str::from_utf8(&text[..len]).map_or(0, |text| labelled(text, "read_bytes:"))
    }
}

/// The number after `label` at the beginning of a line.
pub(super) fn labelled(text: &str, label: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(label));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The maximum resident memory of this process, in bytes.
pub(crate) fn resident_bytes_max() -> u64 {
    resident_bytes_max_of(std::process::id())
}

/// The maximum resident memory of a process, in bytes.
pub(crate) fn resident_bytes_max_of(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    labelled(&status, "VmHWM:") * 1024
}

/// Makes the kernel forget the maximum resident memory of a process: it counts from now on. Whether
/// it did.
pub(crate) fn reset_resident_bytes_max_of(process: u32) -> bool {
    fs::write(format!("/proc/{process}/clear_refs"), "5").is_ok()
}

/// Bytes that a process has read from storage.
pub(crate) fn storage_read_bytes_of(process: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    labelled(&io, "read_bytes:")
}

/// Processor time of a process, in ticks of the kernel's clock (usually 10 ms).
pub(crate) fn cpu_ns_of(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    cpu_ticks(&stat) * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

/// User and system time in a text with the format of `/proc/PID/stat`.
fn cpu_ticks(stat: &str) -> u64 {
    // The preceding name may contain spaces and brackets.
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_whitespace().skip(11).take(2).filter_map(|it| it.parse::<u64>().ok()).sum()
}

/// The swap space of this machine, in bytes.
pub(crate) fn free_swap_bytes() -> u64 {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    labelled(&memory, "SwapFree:") * 1024
}

/// Makes the kernel kill this process when its parent ends, if supported.
pub(crate) fn end_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// The lengths of all files in a directory and below it; files that disappear meanwhile count 0.
pub(crate) fn bytes_below(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Syncs all writes and drops the kernel's page cache, so that reads come from storage. Whether it
/// succeeded: it needs root.
pub(crate) fn drop_caches() -> bool {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_whole_words_at_the_beginning() {
        let text = "read_bytes: 12\nwrite_bytes: 34\ncancelled_write_bytes: 56\n";
        assert_eq!(labelled(text, "read_bytes:"), 12);
        assert_eq!(labelled(text, "write_bytes:"), 34);
        assert_eq!(labelled(text, "other:"), 0);
    }

    #[test]
    fn ticks_are_read_after_the_process_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 82 0 0 0 12 30 1 1 20 0 1 0 8 9 10";
        assert_eq!(cpu_ticks(stat), 42);
        assert_eq!(cpu_ticks(""), 0);
    }

    #[test]
    fn the_kernel_counts_what_this_process_does() {
        let directory = tempfile::tempdir().unwrap();
        let kernel = Kernel::new(directory.path());
        let before = kernel.counts();
        fs::write(directory.path().join("file"), vec![1; 1 << 20]).unwrap();
        let mut word = 1u64;
        while kernel.counts().cpu_ns < before.cpu_ns + 1_000_000 {
            word = std::hint::black_box(word.wrapping_mul(3));
        }
        let spent = kernel.counts().since(&before);
        assert!(spent.cpu_ns >= 1_000_000);
        let (cpu_ns, tick_ns) = (kernel.counts().cpu_ns, 10_000_000);
        assert!(cpu_ns_of(std::process::id()) <= cpu_ns + 2 * tick_ns);
        // A file system in memory has no storage traffic.
        if kernel.has_device() {
            assert!(spent.written_bytes >= 1 << 20, "{spent:?}");
        }
        assert_eq!(bytes_below(directory.path()), 1 << 20);
        assert!(resident_bytes_max() > 1 << 20);
    }
}
