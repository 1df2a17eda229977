//! Where background work runs: on a pool of threads ([`ThreadPool`]), or in
//! the caller, at once, so that a test repeats exactly ([`InlineExecutor`]).
//!
//! A job must not wait for another job: the inline executor would never get
//! to it, and a small pool might not. No lock of an executor is held while a
//! job runs or is dropped.

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

/// Which queue a job waits in; high goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Flushes, and the next log: writers may be waiting.
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

    /// Runs `job` with low priority when `delay` is over and there is nothing else
    /// to do, or never: for what may as well be left undone. Executors that know no
    /// time drop it.
    fn execute_later(&self, delay: Duration, job: Job) {
        let _ = (delay, job);
    }

    /// How many low-priority jobs can run at once; at least 1.
    fn parallelism(&self) -> usize;

    /// Drops waiting jobs and waits for the running ones. Harmless when called
    /// twice, or from a job (which does not wait for itself).
    fn shutdown(&self);

    /// Whether jobs run inside [`Executor::execute`].
    fn is_inline(&self) -> bool;
}

/// Starts a long-lived thread of its own, for work that is no job.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// The same for work that others must not wait for, and that can wait for them: the thread steps back from
/// the processor as threads of housekeeping do. It is not for who holds what others need.
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

/// How far threads of housekeeping step back: five steps of niceness are a factor
/// of three in the scheduler's weights.
const NICE: i32 = 5;

/// Waiting jobs, high priority first, else in the order of arrival.
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

/// Runs each job in the thread that hands it in, before `execute` returns.
///
/// A job handed in by a running job, or by another thread meanwhile, waits
/// until the running one has ended and is then run by the same thread, so the
/// stack does not grow. A panic of a job reaches the caller of `execute`.
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
    /// An executor with nothing to do.
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
        let turn = InlineTurn(self);
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
struct InlineTurn<'a>(&'a InlineExecutor);

impl InlineTurn<'_> {
    fn next(&self) -> Option<Job> {
        let mut state = self.0.state.lock();
        let job = state.queues.pop(true);
        if job.is_none() {
            // Under the same lock as the look into the queue: a job that comes
            // after it finds no runner and is run by whoever brings it.
            state.runner = None;
            self.0.idle.notify_all();
        }
        job
    }
}

impl Drop for InlineTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.runner == Some(std::thread::current().id()) {
            state.runner = None;
            self.0.idle.notify_all();
        }
    }
}

/// Threads that run jobs, one of them kept for those of high priority.
///
/// A panic of a job is reported on stderr and counted; its thread goes on.
/// Dropping the pool shuts it down.
pub struct ThreadPool {
    shared: Arc<PoolShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    low_threads: usize,
}

struct PoolShared {
    state: Mutex<PoolState>,
    /// A job has come that only a low thread may take, or the pool closes.
    low_wake: Condvar,
    /// A job of high priority has come, or the pool closes.
    high_wake: Condvar,
    /// A job has ended, or waits in `shutdown`.
    ended: Condvar,
    panics: AtomicU64,
}

#[derive(Default)]
struct PoolState {
    queues: Queues,
    /// Jobs whose time has not come, by that and by their number.
    later: BTreeMap<(Instant, u64), Job>,
    later_jobs: u64,
    running: usize,
    /// How many running jobs wait in `shutdown` themselves.
    stopping: usize,
    reserved_is_idle: bool,
    closed: bool,
}

thread_local! {
    /// The pool whose job this thread runs, by address.
    static CURRENT_POOL: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl ThreadPool {
    /// Starts `low_threads` (at least one) for all jobs, which step back where
    /// processors are short, and one more for jobs of high priority, which does
    /// not. Threads are named after `name`.
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

    /// How many jobs have panicked.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }
}

/// Where processors are short, this thread gets a third of the share of others:
/// whoever waits for an answer goes before housekeeping.
fn step_back() {
    // Miri knows no priorities, and has no need of them.
    if cfg!(miri) {
        return;
    }
    let me = Some(rustix::thread::gettid());
    if let Ok(nice) = rustix::process::getpriority_process(me) {
        // A system that refuses leaves things as they are.
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
                // Whoever wakes it takes that back.
                state.reserved_is_idle = true;
                self.high_wake.wait(&mut state);
            }
        }
    }

    /// Waits for a job that a low thread may take, or until the time of one has
    /// come, which then stands in the queue.
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
        // A job owns what it works on: what it leaves behind half done is
        // poisoned by its own locks, not by going on here.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
            self.panics.fetch_add(1, Ordering::Relaxed);
            let text = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("a value that is no text");
            let thread = std::thread::current();
            eprintln!("a job on thread {} panicked: {text}", thread.name().unwrap_or("?"));
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
        // An idle reserved thread takes a high job; if it is busy, any low
        // thread may.
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
        // One that waits for no time, or for a later one, shall wait for this.
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
            // The body catches the panics of jobs and has none of its own.
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
