//! Where background work runs: on a pool of threads ([`ThreadPool`]), or in
//! the caller, at once, so that a test repeats exactly ([`InlineExecutor`]).
//!
//! A job must not wait for another job: the inline executor would never get
//! to it, and a small pool might not.

use std::fmt::Debug;

/// A piece of background work.
pub type Job = Box<dyn FnOnce() + Send>;

/// Which queue a job waits in; high goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Flushes: writers may be waiting.
    High,
    /// Compactions and other housekeeping.
    Low,
}

/// Runs jobs.
pub trait Executor: Send + Sync + Debug {
    /// Runs `job` some time, or has run it when this returns (inline). Callers
    /// hold no lock that the job takes. After [`Executor::shutdown`] jobs are
    /// dropped.
    fn execute(&self, priority: Priority, job: Job);

    /// How many low-priority jobs can run at once; at least 1.
    fn parallelism(&self) -> usize;

    /// Drops waiting jobs and waits for the running ones. Harmless when called
    /// twice, or from a job (which does not wait for itself).
    fn shutdown(&self);

    /// Whether jobs run inside [`Executor::execute`].
    fn is_inline(&self) -> bool;
}

/// Runs each job in the thread that hands it in.
#[derive(Debug, Default)]
pub struct InlineExecutor {}

impl InlineExecutor {
    /// An executor with nothing to do.
    pub fn new() -> Self {
        todo!()
    }
}

impl Executor for InlineExecutor {
    fn execute(&self, _priority: Priority, _job: Job) {
        todo!()
    }
    fn parallelism(&self) -> usize {
        1
    }
    fn shutdown(&self) {
        todo!()
    }
    fn is_inline(&self) -> bool {
        true
    }
}

/// A pool.
#[derive(Debug)]
pub struct ThreadPool {}

impl ThreadPool {
    /// Starts `low_threads` (at least 1) and one more for high priority.
    pub fn new(_name: &str, _low_threads: usize) -> Self {
        todo!()
    }

    /// How many jobs have panicked.
    pub fn panics(&self) -> u64 {
        todo!()
    }
}

impl Executor for ThreadPool {
    fn execute(&self, _priority: Priority, _job: Job) {
        todo!()
    }
    fn parallelism(&self) -> usize {
        todo!()
    }
    fn shutdown(&self) {
        todo!()
    }
    fn is_inline(&self) -> bool {
        false
    }
}

/// Starts one long-lived thread of its own.
pub fn spawn(
    _name: &str,
    _body: impl FnOnce() + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    todo!()
}
