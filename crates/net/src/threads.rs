//! The threads of a server: event loops that serve connections, and I/O threads that wait.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::error::{Error, Result};

/// How many processors there are.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// How many event loops there are: as asked for, or one for each processor but one: flushes,
/// compactions and threads that wait for storage need theirs as well. Writers of several loops
/// wait for each other, and longest for one that has just lost its processor.
pub fn event_loops(asked_for: Option<usize>) -> usize {
    asked_for.unwrap_or_else(|| processors() - 1).max(1)
}

/// Makes them.
pub fn runtime(name: &str, event_loops: usize, io_threads: usize) -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(event_loops)
        .enable_all()
        .thread_name(name)
        .max_blocking_threads(io_threads.max(1))
        .build()
        .map_err(|error| Error::unavailable("the server's threads", error))
}

/// Waits until nobody is alive any more, up to `deadline`, and ends the threads. Whether
/// everybody had gone.
pub fn drain(runtime: Runtime, alive: &mut mpsc::Receiver<()>, deadline: Duration) -> bool {
    let drained = runtime.block_on(async {
        tokio::time::timeout(deadline, async { while alive.recv().await.is_some() {} }).await
    });
    // A commit on an I/O thread cannot be cut off; it ends by itself.
    runtime.shutdown_timeout(if drained.is_ok() { deadline } else { Duration::ZERO });
    drained.is_ok()
}
