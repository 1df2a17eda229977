//! The threads of a server: event loops that serve connections, and I/O threads that block.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::error::{Error, Result};

/// Number of processors.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Number of event loops: as requested, or one less than the number of processors, because flushes,
/// compactions and I/O threads need one as well. Writers of several loops wait for each other, and
/// longest for one that has just been preempted.
pub fn event_loops(requested: Option<usize>) -> usize {
    requested.unwrap_or_else(|| processors() - 1).max(1)
}

/// Starts the threads.
pub fn runtime(name: &str, event_loops: usize, io_threads: usize) -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(event_loops)
        .enable_all()
        .thread_name(name)
        .max_blocking_threads(io_threads.max(1))
        .build()
        .map_err(|error| Error::unavailable("the server's threads", error))
}

/// Waits up to `deadline` until all holders of `alive` have ended, and stops the threads. Returns
/// whether all had ended.
pub fn drain(runtime: Runtime, alive: &mut mpsc::Receiver<()>, deadline: Duration) -> bool {
    let drained = runtime.block_on(async {
        tokio::time::timeout(deadline, async { while alive.recv().await.is_some() {} }).await
    });
    // A commit on an I/O thread cannot be interrupted; it ends by itself.
    runtime.shutdown_timeout(if drained.is_ok() { deadline } else { Duration::ZERO });
    drained.is_ok()
}
