//! The time and memory of this process, as Linux reports them; zeros elsewhere.

#![expect(clippy::disallowed_methods, reason = "reads what the system says about this process")]

/// What the process has used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Processor time in user mode, in seconds.
    pub user_s: f64,
    /// Processor time in the kernel, in seconds.
    pub system_s: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// The most resident memory so far, in bytes.
    pub peak_bytes: u64,
    /// Memory of the machine, in bytes.
    pub machine_bytes: u64,
}

/// Clock ticks a second in `/proc`: fixed by Linux's interface to programs.
const TICKS_PER_S: f64 = 100.0;

/// The usage now.
pub fn usage() -> Usage {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (user_s, system_s) = times(&read("/proc/self/stat")).unwrap_or_default();
    let status = read("/proc/self/status");
    Usage {
        user_s,
        system_s,
        resident_bytes: kilobytes(&status, "VmRSS:"),
        peak_bytes: kilobytes(&status, "VmHWM:"),
        machine_bytes: kilobytes(&read("/proc/meminfo"), "MemTotal:"),
    }
}

/// User and system time in seconds.
fn times(stat: &str) -> Option<(f64, f64)> {
    // The name of the program, in parentheses, may contain spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_S);
    Some((seconds()?, seconds()?))
}

/// The bytes of the line that begins with `name`, which has kilobytes; 0 if there is none.
fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_of_linux_are_read() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 250 125 0 0 20 0 3 0 1 2 3";
        assert_eq!(times(stat), Some((2.5, 1.25)));
        assert_eq!(times(""), None);
        assert_eq!(kilobytes("VmHWM:\t 8 kB\nVmRSS:\t    7020 kB\n", "VmRSS:"), 7020 << 10);
        assert_eq!(kilobytes("", "VmRSS:"), 0);
    }
}
