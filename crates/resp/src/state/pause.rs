//! `CLIENT PAUSE`: commands of all connections wait until a time, or only those that may write.
//!
//! Pure, except for the wake-up of the waiting connections: the caller provides the time. May be
//! used from any thread; without a pause a command costs one load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How often a paused connection checks the time.
const CHECK: Duration = Duration::from_millis(20);

/// The pause.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// The end, in milliseconds since 1970; 0: no pause. A hint without the lock.
    until_ms: AtomicU64,
    current: Mutex<Current>,
    is_over: Notify,
}

#[derive(Debug, Default)]
struct Current {
    until_ms: u64,
    is_of_writes: bool,
}

impl Pause {
    /// Pauses commands until `until_ms`, only those that may write if `is_of_writes`. As in Redis a
    /// pause in progress becomes stricter, never shorter.
    pub(crate) fn begin(&self, now_ms: u64, until_ms: u64, is_of_writes: bool) {
        let mut current = self.current.lock();
        let is_running = current.until_ms > now_ms;
        current.is_of_writes = is_of_writes && (current.is_of_writes || !is_running);
        current.until_ms = current.until_ms.max(until_ms);
        self.until_ms.store(current.until_ms, Ordering::SeqCst);
    }

    /// Ends the pause.
    pub(crate) fn end(&self) {
        let mut current = self.current.lock();
        current.until_ms = 0;
        self.until_ms.store(0, Ordering::SeqCst);
        self.is_over.notify_waiters();
    }

    /// Whether there may be a pause; otherwise nothing must wait.
    pub(crate) fn may_hold(&self) -> bool {
        self.until_ms.load(Ordering::SeqCst) > 0
    }

    /// Whether a command must wait, given the time that `now_ms` returns.
    pub(crate) fn holds(&self, may_write: bool, now_ms: impl FnOnce() -> u64) -> bool {
        if !self.may_hold() {
            return false;
        }
        let current = self.current.lock();
        current.until_ms > now_ms() && (may_write || !current.is_of_writes)
    }

    /// Waits until the pause ends, at most for [`CHECK`]: the caller checks again.
    pub(crate) async fn wait(&self) {
        let over = self.is_over.notified();
        if self.may_hold() {
            let _ = tokio::time::timeout(CHECK, over).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_holds_commands_until_its_end() {
        let pause = Pause::default();
        assert!(!pause.holds(true, || 0));
        pause.begin(100, 200, true);
        assert!(pause.holds(true, || 199) && !pause.holds(false, || 199));
        assert!(!pause.holds(true, || 200));
        // Stricter, not shorter.
        pause.begin(100, 150, false);
        assert!(pause.holds(false, || 199));
        pause.begin(100, 150, true);
        assert!(pause.holds(false, || 199));
        pause.end();
        assert!(!pause.holds(true, || 199));
        pause.begin(100, 200, false);
        pause.begin(300, 400, true);
        assert!(!pause.holds(false, || 350), "a new pause");
    }
}
