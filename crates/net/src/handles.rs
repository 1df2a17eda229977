//! Shares the file handles of the process between connections and files.
//!
//! Guarantees: the soft limit is raised to the hard one; what remains after the handles that are open
//! already is divided so that files (tables, logs, devices) get theirs first: `FILES`, or half if
//! there are few; and more if connections leave more ([`table_files`]). Connections get the rest; if
//! that is less than configured, their limit is lowered and that is logged. So a server out of
//! connections can still flush and compact.

#![expect(clippy::disallowed_methods, reason = "reads what the system says about this process")]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clients::LEAVING_MAX;

/// Handles for files that are opened after the start.
const FILES: u64 = 1024;
/// Handles of listeners, event loops and rings, of rejected connections, and of connections that
/// are being closed.
const FIXED: u64 = 32 + LEAVING_MAX as u64;

/// Handles of a store for files other than tables: logs, the manifest, and tables that are being
/// written.
const OTHER_FILES: u64 = 32;

/// Raises the limit of handles, and returns for how many connections there are handles.
/// `page_connections` is the limit of a page beside them, or 0.
pub fn connections_limit(page_connections: usize) -> usize {
    connections(raise_limit(), open_handles(), page_connections)
}

/// The same beside a store that may open `open_max` table files, of which `open` are open.
pub fn connections_limit_beside(
    page_connections: usize,
    (open_max, open): (usize, usize),
) -> usize {
    let open = open_handles().saturating_sub(open as u64);
    let files = (open_max as u64).saturating_add(OTHER_FILES);
    left(free(raise_limit(), open, page_connections), files)
}

/// Raises the limit of handles, and returns how many table files a store may have open, so that the
/// configured number of connections remains if possible.
pub fn table_files(connections_max: usize, page_connections: usize) -> usize {
    files(free(raise_limit(), open_handles(), page_connections), connections_max)
}

/// `connections_max`, or `limit` if that is lower, with a line in the log.
pub fn lowered(connections_max: usize, limit: usize) -> usize {
    if limit < connections_max {
        tracing::warn!(
            "there are file handles for {limit} connections, not for {connections_max}: the limit \
             is {limit}, the other handles are for files (to raise it: `ulimit -Hn`, `LimitNOFILE=`)"
        );
    }
    connections_max.min(limit)
}

/// `wanted` table files, or three quarters of the handles that there are if that is less, with a line in
/// the log.
pub fn table_files_at_most(wanted: usize, page_connections: usize) -> usize {
    let most = table_files(0, page_connections) / 4 * 3;
    if most < wanted {
        tracing::warn!(
            "there are file handles for {most} table files, not for {wanted}: the limit is {most} \
             (to raise it: `ulimit -Hn`, `LimitNOFILE=`)"
        );
    }
    wanted.min(most).max(1)
}

/// The number of connections for a limit of handles, of which `open` are in use.
fn connections(limit: u64, open: u64, page_connections: usize) -> usize {
    let free = free(limit, open, page_connections);
    left(free, FILES.min(free / 2))
}

/// The handles for connections and files.
fn free(limit: u64, open: u64, page_connections: usize) -> u64 {
    limit.saturating_sub(open + FIXED).saturating_sub(page_connections as u64)
}

/// The number of connections if files take `files` of `free` handles.
fn left(free: u64, files: u64) -> usize {
    usize::try_from(free.saturating_sub(files)).unwrap_or(usize::MAX).max(1)
}

/// The number of table files if there are `free` handles.
fn files(free: u64, connections_max: usize) -> usize {
    let files = free.saturating_sub(connections_max as u64).max(FILES.min(free / 2));
    // Twice: when connections are counted, some of the others are open already.
    usize::try_from(files.saturating_sub(2 * OTHER_FILES)).unwrap_or(usize::MAX).max(1)
}

/// Raises the soft limit of handles to the hard one and returns it.
pub fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    let limit = if is_raised { limit.maximum } else { limit.current };
    limit.unwrap_or(u64::MAX)
}

/// Open handles of this process; 0 if the system does not say.
fn open_handles() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |handles| handles.count() as u64)
}

#[cfg(test)]
mod tests;
