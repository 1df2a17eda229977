//! Tells the owner of a server that a task has panicked without which the server cannot go on.
//!
//! Guarantees: [`Failures::next`] ends when the first watched task panics, with the name of the task;
//! a task that ends, or is cancelled with its runtime, is no failure. Work that can begin anew is not
//! watched: it is repeated where it runs (`threads::restarting` of `tidekv-io`, a loop around an I/O
//! thread).

use tokio::runtime::Handle;
use tokio::sync::watch;

/// Watches tasks.
#[derive(Debug, Clone)]
pub struct Watchdog(watch::Sender<Option<&'static str>>);

/// What a [`Watchdog`] has seen.
#[derive(Debug, Clone)]
pub struct Failures(watch::Receiver<Option<&'static str>>);

/// A watchdog, and what it sees.
pub fn new() -> (Watchdog, Failures) {
    let (sender, receiver) = watch::channel(None);
    (Watchdog(sender), Failures(receiver))
}

impl Watchdog {
    /// Runs `task`, called `name`, on `runtime`.
    pub fn spawn(
        &self,
        runtime: &Handle,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let (failed, task) = (self.0.clone(), runtime.spawn(task));
        runtime.spawn(async move {
            // The panic hook reports the panic itself.
            if task.await.is_err_and(|error| error.is_panic()) {
                tracing::error!("{name} has panicked: the server cannot go on");
                failed.send_if_modified(|first| {
                    let is_first = first.is_none();
                    first.get_or_insert(name);
                    is_first
                });
            }
        });
    }
}

impl Failures {
    /// The name of the first task that panicked; waits for it, for ever if need be.
    pub async fn next(&mut self) -> &'static str {
        let seen = self.0.wait_for(Option::is_some).await.ok().and_then(|name| *name);
        match seen {
            Some(name) => name,
            // The watchdog is gone, and all tasks with it.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_first_panic_is_told_and_ends_are_not() {
        let (watchdog, mut failures) = new();
        let runtime = Handle::current();
        watchdog.spawn(&runtime, "what ends", async {});
        let waiting = timeout(Duration::from_millis(50), failures.next()).await;
        assert!(waiting.is_err(), "{waiting:?}");
        watchdog.spawn(&runtime, "what panics", async { panic!("on purpose") });
        assert_eq!(failures.next().await, "what panics");
        watchdog.spawn(&runtime, "another", async { panic!("on purpose") });
        tokio::task::yield_now().await;
        assert_eq!(failures.clone().next().await, "what panics");
    }

    #[test]
    fn a_runtime_that_shuts_down_is_no_failure() {
        let (watchdog, mut failures) = new();
        let runtime = tokio::runtime::Runtime::new().expect("there are threads");
        watchdog.spawn(runtime.handle(), "what waits", std::future::pending());
        runtime.shutdown_timeout(Duration::from_secs(10));
        drop(watchdog);
        let other = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let seen = other
            .expect("there are threads")
            .block_on(async { timeout(Duration::from_millis(50), failures.next()).await });
        assert!(seen.is_err(), "{seen:?}");
    }
}
