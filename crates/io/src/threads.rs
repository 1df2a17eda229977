//! Executors of background work: a pool of threads ([`ThreadPool`]), or the caller itself, at once,
//! so that a test is repeatable ([`InlineExecutor`]).
//!
//! A job must not wait for another job: the inline executor would never reach it, and a small pool
//! might not. No lock of an executor is held while a job runs or is dropped.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the seam that the bans point to"
)]

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// A piece of background work.
pub type Job = Box<dyn FnOnce() + Send>;

/// The queue of a job; high first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Flushes, and the next log: writers may be waiting.
    High,
    /// Compactions and other housekeeping.
    Low,
}

/// Runs jobs.
pub trait Executor: Send + Sync + Debug {
    /// Runs `job` eventually, or has run it on return (inline). Callers hold no lock that the job
    /// takes. After [`Executor::shutdown`] jobs are dropped.
    fn execute(&self, priority: Priority, job: Job);

    /// Runs `job` with low priority after `delay` when the executor is idle, or never: for optional
    /// work. Executors without a clock drop it.
    fn execute_later(&self, delay: Duration, job: Job) {
        let _ = (delay, job);
    }

    /// The number of concurrent low-priority jobs; at least 1.
    fn parallelism(&self) -> usize;

    /// Drops waiting jobs and waits for the running ones. Calling it twice, or from a job (which
    /// does not wait for itself), is harmless.
    fn shutdown(&self);

    /// Whether jobs run inside [`Executor::execute`].
    fn is_inline(&self) -> bool;
}

/// Starts a dedicated long-lived thread, for work that is not a job.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// The same with lower scheduling priority, like housekeeping threads: for work that other threads
/// do not wait for. Not for threads that hold locks or data that others need.
///
/// # Errors
///
/// As [`spawn`].
pub fn spawn_behind(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    spawn(name, || {
        step_back();
        body();
    })
}

/// Pause before work that has panicked begins again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Runs `work` until it returns; when it panics, again after a pause. For the body of a thread whose
/// work can begin anew. The panic hook reports each panic; returns their number.
pub fn restarting(mut work: impl FnMut()) -> u64 {
    let mut panics = 0;
    // What the work shares with other threads must bear a panic anyway: locks do not poison.
    while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
        panics += 1;
        std::thread::sleep(RESTART_PAUSE);
    }
    panics
}

/// Niceness of housekeeping threads: five steps are a factor of three in the scheduler's weights.
const NICE: i32 = 5;

/// Waiting jobs: high priority first, then in order of arrival.
#[derive(Default)]
struct Queues {
    high: VecDeque<Job>,
    low: VecDeque<Job>,
}

impl Queues {
    fn push(&mut self, priority: Priority, job: Job) {
        match priority {
            Priority::High => self.high.push_back(job),
            Priority::Low => self.low.push_back(job),
        }
    }

    fn pop(&mut self, takes_low: bool) -> Option<Job> {
        let high = self.high.pop_front();
        if high.is_none() && takes_low { self.low.pop_front() } else { high }
    }
}

/// Runs each job in the submitting thread, before `execute` returns.
///
/// A job submitted by a running job, or by another thread meanwhile, waits until the running one
/// has ended and is then run by the same thread, so the stack does not grow. A panic of a job
/// reaches the caller of `execute`.
#[derive(Default)]
pub struct InlineExecutor {
    state: Mutex<InlineState>,
    idle: Condvar,
}

#[derive(Default)]
struct InlineState {
    queues: Queues,
    runner: Option<ThreadId>,
    closed: bool,
}

impl InlineExecutor {
    /// An idle executor.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Executor for InlineExecutor {
    fn execute(&self, priority: Priority, job: Job) {
        {
            let mut state = self.state.lock();
            if state.closed {
                drop(state);
                drop(job);
                return;
            }
            state.queues.push(priority, job);
            if state.runner.is_some() {
                return;
            }
            state.runner = Some(std::thread::current().id());
        }
        let turn = InlineRun(self);
        while let Some(job) = turn.next() {
            job();
        }
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn shutdown(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.queues);
        MutexGuard::unlocked(&mut state, || drop(dropped));
        let me = std::thread::current().id();
        while state.runner.is_some_and(|runner| runner != me) {
            self.idle.wait(&mut state);
        }
    }

    fn is_inline(&self) -> bool {
        true
    }
}

impl Debug for InlineExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineExecutor").finish_non_exhaustive()
    }
}

/// The right to run jobs; ends when the queue is empty or a job panics.
struct InlineRun<'a>(&'a InlineExecutor);

impl InlineRun<'_> {
    fn next(&self) -> Option<Job> {
        let mut state = self.0.state.lock();
        let job = state.queues.pop(true);
        if job.is_none() {
            // Under the same lock as the check of the queue: a job submitted after it finds no
            // runner, and its submitter runs it.
            state.runner = None;
            self.0.idle.notify_all();
        }
        job
    }
}

impl Drop for InlineRun<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.runner == Some(std::thread::current().id()) {
            state.runner = None;
            self.0.idle.notify_all();
        }
    }
}

/// Threads that run jobs, one of them reserved for those of high priority.
///
/// A panic of a job is reported by the panic hook and counted; its thread continues. Dropping the
/// pool shuts it down.
pub struct ThreadPool {
    shared: Arc<PoolShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    low_threads: usize,
}

struct PoolShared {
    state: Mutex<PoolState>,
    /// Signals a job that only a low thread may take, or the shutdown.
    low_wake: Condvar,
    /// Signals a job of high priority, or the shutdown.
    high_wake: Condvar,
    /// Signals that a job has ended, or waits in `shutdown`.
    ended: Condvar,
    panics: AtomicU64,
}

#[derive(Default)]
struct PoolState {
    queues: Queues,
    /// Delayed jobs, by due time and number.
    later: BTreeMap<(Instant, u64), Job>,
    later_jobs: u64,
    running: usize,
    /// The number of running jobs that wait in `shutdown` themselves.
    stopping: usize,
    reserved_is_idle: bool,
    closed: bool,
}

thread_local! {
    /// The pool whose job this thread runs, by address.
    static CURRENT_POOL: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl ThreadPool {
    /// Starts `low_threads` (at least one) threads for all jobs, with lower scheduling priority,
    /// and one more for jobs of high priority, with normal priority. Threads are named after
    /// `name`.
    ///
    /// # Panics
    ///
    /// When the system refuses a thread.
    pub fn new(name: &str, low_threads: usize) -> Self {
        let low_threads = low_threads.max(1);
        let shared = Arc::new(PoolShared {
            state: Mutex::default(),
            low_wake: Condvar::new(),
            high_wake: Condvar::new(),
            ended: Condvar::new(),
            panics: AtomicU64::new(0),
        });
        let threads = (0..=low_threads)
            .map(|n| {
                let shared = Arc::clone(&shared);
                let takes_low = n > 0;
                let name = if takes_low { format!("{name}-{n}") } else { format!("{name}-high") };
                spawn(&name, move || shared.work(takes_low))
                    .expect("the system lends threads for background work")
            })
            .collect();
        Self { shared, threads: Mutex::new(threads), low_threads }
    }

    /// The number of jobs that have panicked.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }
}

/// Lowers this thread's share of busy processors to a third of the others': requests go before
/// housekeeping.
fn step_back() {
    // Miri has no priorities and needs none.
    if cfg!(miri) {
        return;
    }
    let me = Some(rustix::thread::gettid());
    if let Ok(nice) = rustix::process::getpriority_process(me) {
        // If the system refuses, the priority stays.
        let _ = rustix::process::setpriority_process(me, (nice + NICE).min(19));
    }
}

impl PoolShared {
    fn work(self: Arc<Self>, takes_low: bool) {
        if takes_low {
            step_back();
        }
        CURRENT_POOL.set(Arc::as_ptr(&self).addr());
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.queues.pop(takes_low) {
                state.running += 1;
                MutexGuard::unlocked(&mut state, || self.run(job));
                state.running -= 1;
                self.ended.notify_all();
            } else if state.closed {
                return;
            } else if takes_low {
                state = self.wait_for_low(state);
            } else {
                // The thread that wakes it resets that.
                state.reserved_is_idle = true;
                self.high_wake.wait(&mut state);
            }
        }
    }

    /// Waits for a job that a low thread may take, or until a delayed one is due, which is then in
    /// the queue.
    fn wait_for_low<'a>(&self, mut state: MutexGuard<'a, PoolState>) -> MutexGuard<'a, PoolState> {
        let Some(first) = state.later.first_entry() else {
            self.low_wake.wait(&mut state);
            return state;
        };
        let (due, _) = *first.key();
        if due <= Instant::now() {
            let job = first.remove();
            state.queues.push(Priority::Low, job);
        } else {
            self.low_wake.wait_until(&mut state, due);
        }
        state
    }

    fn run(&self, job: Job) {
        // A job owns its data: the locks of half-changed data are poisoned, so continuing here is
        // safe.
        // The panic hook has reported it.
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn runs_on_this_thread(&self) -> bool {
        CURRENT_POOL.get() == std::ptr::from_ref(self).addr()
    }
}

impl Executor for ThreadPool {
    fn execute(&self, priority: Priority, job: Job) {
        let mut state = self.shared.state.lock();
        if state.closed {
            drop(state);
            drop(job);
            return;
        }
        state.queues.push(priority, job);
        // An idle reserved thread takes a high job; if it is busy, any low thread may.
        if priority == Priority::High && state.reserved_is_idle {
            state.reserved_is_idle = false;
            self.shared.high_wake.notify_one();
        } else {
            self.shared.low_wake.notify_one();
        }
    }

    fn execute_later(&self, delay: Duration, job: Job) {
        let mut state = self.shared.state.lock();
        if state.closed {
            drop(state);
            drop(job);
            return;
        }
        state.later_jobs += 1;
        let place = (Instant::now() + delay, state.later_jobs);
        state.later.insert(place, job);
        // A thread that waits without a deadline, or for a later one, must wait for this one.
        self.shared.low_wake.notify_one();
    }

    fn parallelism(&self) -> usize {
        self.low_threads
    }

    fn shutdown(&self) {
        let from_job = self.shared.runs_on_this_thread();
        let mut state = self.shared.state.lock();
        state.closed = true;
        self.shared.low_wake.notify_all();
        self.shared.high_wake.notify_all();
        let dropped = (std::mem::take(&mut state.queues), std::mem::take(&mut state.later));
        MutexGuard::unlocked(&mut state, || drop(dropped));
        if from_job {
            state.stopping += 1;
            self.shared.ended.notify_all();
            while state.running > state.stopping {
                self.shared.ended.wait(&mut state);
            }
            state.stopping -= 1;
            return;
        }
        while state.running > 0 {
            self.shared.ended.wait(&mut state);
        }
        drop(state);
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // The body catches the panics of jobs and cannot panic itself.
            let _ = thread.join();
        }
    }

    fn is_inline(&self) -> bool {
        false
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("low_threads", &self.low_threads)
            .field("panics", &self.panics())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
