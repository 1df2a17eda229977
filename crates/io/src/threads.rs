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
