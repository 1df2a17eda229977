//! How many file handles this process may have.

/// The number of file handles that this process may have open at once (the soft limit,
/// `ulimit -n`); [`usize::MAX`] without a limit.
pub fn open_files_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn this_process_may_open_files() {
        assert!(open_files_limit() > 8);
    }
}
