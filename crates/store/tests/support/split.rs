//! Background work in the caller's thread, with delays by the simulated clock.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidekv_io::{Clock, Executor, InlineExecutor, Job, ManualClock, Priority};

/// Runs jobs in the caller like the inline executor, but splits compactions as if four threads ran
/// them, and keeps delayed jobs until their time.
pub struct SplitExecutor {
    inline: InlineExecutor,
    clock: Arc<ManualClock>,
    later: Mutex<Vec<(u64, Job)>>,
}

impl SplitExecutor {
    pub fn new(clock: &Arc<ManualClock>) -> Self {
        let (inline, later) = (InlineExecutor::new(), Mutex::default());
        Self { inline, clock: Arc::clone(clock), later }
    }

    /// Runs the delayed jobs whose time has come.
    pub fn run_due(&self) {
        let now_ns = self.clock.monotonic_ns();
        let due = self.later.lock().unwrap().extract_if(.., |(at, _)| *at <= now_ns).collect();
        let due: Vec<(u64, Job)> = due;
        due.into_iter().for_each(|(_, job)| self.inline.execute(Priority::Low, job));
    }
}

impl Debug for SplitExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SplitExecutor").finish_non_exhaustive()
    }
}

impl Executor for SplitExecutor {
    fn execute(&self, priority: Priority, job: Job) {
        self.inline.execute(priority, job);
    }

    fn execute_later(&self, delay: Duration, job: Job) {
        let due = self.clock.monotonic_ns() + delay.as_nanos() as u64;
        self.later.lock().unwrap().push((due, job));
    }

    fn parallelism(&self) -> usize {
        4
    }

    fn shutdown(&self) {
        self.later.lock().unwrap().clear();
        self.inline.shutdown();
    }

    fn is_inline(&self) -> bool {
        false
    }
}
