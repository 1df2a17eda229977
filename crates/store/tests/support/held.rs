//! Background work that runs when a test requests it.

use std::fmt;
use std::sync::Mutex;

use tidekv_io::{Executor, Job, Priority};

/// Keeps jobs until the test runs them.
#[derive(Debug, Default)]
pub struct HeldExecutor(Mutex<Jobs>);

#[derive(Default)]
pub struct Jobs(Vec<Job>);

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} jobs", self.0.len())
    }
}

impl HeldExecutor {
    pub fn run(&self) {
        loop {
            let Some(job) = self.0.lock().unwrap().0.pop() else { return };
            job();
        }
    }
}

impl Executor for HeldExecutor {
    fn execute(&self, _: Priority, job: Job) {
        self.0.lock().unwrap().0.push(job);
    }

    fn parallelism(&self) -> usize {
        1
    }

    fn shutdown(&self) {}

    fn is_inline(&self) -> bool {
        false
    }
}
