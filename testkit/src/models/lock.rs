//! Locks and condition variables with the interface of `parking_lot`.
//!
//! The guarded value is always in a `parking_lot` lock. In a model the explorer's own lock, which
//! guards nothing, is acquired before it and released after it: so threads of a model wait for each
//! other where the explorer sees it, and never in `parking_lot`. As there, no lock is poisoned.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

use crate::models::mode::{Mode, mode};

/// One type per explorer, or none outside of models.
#[derive(Debug)]
enum PerExplorer<L, S> {
    Real,
    Loom(L),
    Shuttle(S),
}

impl<L, S> PerExplorer<L, S> {
    fn new(loom: impl FnOnce() -> L, shuttle: impl FnOnce() -> S) -> Self {
        match mode() {
            Mode::Real => Self::Real,
            Mode::Loom => Self::Loom(loom()),
            Mode::Shuttle => Self::Shuttle(shuttle()),
        }
    }
}

type ExplorerMutex = PerExplorer<loom::sync::Mutex<()>, Box<shuttle::sync::Mutex<()>>>;
type ExplorerGuard<'a> =
    PerExplorer<loom::sync::MutexGuard<'a, ()>, shuttle::sync::MutexGuard<'a, ()>>;

/// Mutual exclusion.
pub struct Mutex<T> {
    explorer: ExplorerMutex,
    real: parking_lot::Mutex<T>,
}

/// The guard of a [`Mutex`].
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only while waiting for a condition. Dropped before the explorer's guard.
    real: Option<parking_lot::MutexGuard<'a, T>>,
    explorer: Option<ExplorerGuard<'a>>,
}

impl<T> Mutex<T> {
    /// Like `parking_lot`'s.
    pub fn new(value: T) -> Self {
        let explorer = ExplorerMutex::new(
            || loom::sync::Mutex::new(()),
            || Box::new(shuttle::sync::Mutex::new(())),
        );
        Self { explorer, real: parking_lot::Mutex::new(value) }
    }

    /// Like `parking_lot`'s.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let explorer = match &self.explorer {
            ExplorerMutex::Real => ExplorerGuard::Real,
            ExplorerMutex::Loom(explorer) => {
                ExplorerGuard::Loom(explorer.lock().unwrap_or_else(PoisonError::into_inner))
            }
            ExplorerMutex::Shuttle(explorer) => {
                ExplorerGuard::Shuttle(explorer.lock().unwrap_or_else(PoisonError::into_inner))
            }
        };
        MutexGuard { mutex: self, real: Some(self.real.lock()), explorer: Some(explorer) }
    }

    /// Like `parking_lot`'s.
    pub fn into_inner(self) -> T {
        self.real.into_inner()
    }

    /// Like `parking_lot`'s.
    pub fn get_mut(&mut self) -> &mut T {
        self.real.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.real.fmt(f)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.real.as_ref().expect("a guard in use is whole")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.real.as_mut().expect("a guard in use is whole")
    }
}

/// A condition variable.
#[derive(Debug)]
pub struct Condvar {
    model: PerExplorer<loom::sync::Condvar, Box<shuttle::sync::Condvar>>,
    real: parking_lot::Condvar,
}

/// Whether a wait ended by timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the wait timed out.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Like `parking_lot`'s.
    pub fn new() -> Self {
        let model =
            PerExplorer::new(loom::sync::Condvar::new, || Box::new(shuttle::sync::Condvar::new()));
        Self { model, real: parking_lot::Condvar::new() }
    }

    /// Like `parking_lot`'s.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let explorer = match (&self.model, guard.explorer.take()) {
            (PerExplorer::Loom(condition), Some(PerExplorer::Loom(explorer))) => {
                guard.real = None;
                PerExplorer::Loom(condition.wait(explorer).unwrap_or_else(PoisonError::into_inner))
            }
            (PerExplorer::Shuttle(condition), Some(PerExplorer::Shuttle(explorer))) => {
                guard.real = None;
                PerExplorer::Shuttle(
                    condition.wait(explorer).unwrap_or_else(PoisonError::into_inner),
                )
            }
            (PerExplorer::Real, Some(PerExplorer::Real)) => {
                self.real.wait(guard.real.as_mut().expect("a guard in use is whole"));
                PerExplorer::Real
            }
            _ => panic!("a lock and a condition of different models"),
        };
        guard.real.get_or_insert_with(|| guard.mutex.real.lock());
        guard.explorer = Some(explorer);
    }

    /// Like `parking_lot`'s. Models have no time: there the wait ends eventually, whether the
    /// condition is signalled or not.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        if let PerExplorer::Real = self.model {
            let real = guard.real.as_mut().expect("a guard in use is whole");
            return WaitTimeoutResult(self.real.wait_for(real, time).timed_out());
        }
        guard.real = None;
        guard.explorer = None;
        match mode() {
            Mode::Real => {}
            Mode::Loom => loom::thread::yield_now(),
            Mode::Shuttle => shuttle::thread::yield_now(),
        }
        *guard = guard.mutex.lock();
        WaitTimeoutResult(true)
    }

    /// Like `parking_lot`'s, without the result whether a thread was woken.
    pub fn notify_one(&self) {
        match &self.model {
            PerExplorer::Real => drop(self.real.notify_one()),
            PerExplorer::Loom(condition) => condition.notify_one(),
            PerExplorer::Shuttle(condition) => condition.notify_one(),
        }
    }

    /// Like `parking_lot`'s, without the number of woken threads.
    pub fn notify_all(&self) {
        match &self.model {
            PerExplorer::Real => drop(self.real.notify_all()),
            PerExplorer::Loom(condition) => condition.notify_all(),
            PerExplorer::Shuttle(condition) => condition.notify_all(),
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

type ExplorerRwLock = PerExplorer<loom::sync::RwLock<()>, Box<shuttle::sync::RwLock<()>>>;
type ExplorerReadGuard<'a> =
    PerExplorer<loom::sync::RwLockReadGuard<'a, ()>, shuttle::sync::RwLockReadGuard<'a, ()>>;
type ExplorerWriteGuard<'a> =
    PerExplorer<loom::sync::RwLockWriteGuard<'a, ()>, shuttle::sync::RwLockWriteGuard<'a, ()>>;

/// Many readers or one writer.
pub struct RwLock<T> {
    explorer: ExplorerRwLock,
    real: parking_lot::RwLock<T>,
}

/// The read guard of an [`RwLock`].
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T> {
    /// Dropped before the explorer's guard.
    real: parking_lot::RwLockReadGuard<'a, T>,
    _explorer: ExplorerReadGuard<'a>,
}

/// The write guard of an [`RwLock`].
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T> {
    /// Dropped before the explorer's guard.
    real: parking_lot::RwLockWriteGuard<'a, T>,
    _explorer: ExplorerWriteGuard<'a>,
}

impl<T> RwLock<T> {
    /// Like `parking_lot`'s.
    pub fn new(value: T) -> Self {
        let explorer = ExplorerRwLock::new(
            || loom::sync::RwLock::new(()),
            || Box::new(shuttle::sync::RwLock::new(())),
        );
        Self { explorer, real: parking_lot::RwLock::new(value) }
    }

    /// Like `parking_lot`'s.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let explorer = match &self.explorer {
            PerExplorer::Real => PerExplorer::Real,
            PerExplorer::Loom(explorer) => {
                PerExplorer::Loom(explorer.read().unwrap_or_else(PoisonError::into_inner))
            }
            PerExplorer::Shuttle(explorer) => {
                PerExplorer::Shuttle(explorer.read().unwrap_or_else(PoisonError::into_inner))
            }
        };
        RwLockReadGuard { real: self.real.read(), _explorer: explorer }
    }

    /// Like `parking_lot`'s.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let explorer = match &self.explorer {
            PerExplorer::Real => PerExplorer::Real,
            PerExplorer::Loom(explorer) => PerExplorer::Loom(explorer.try_read().ok()?),
            PerExplorer::Shuttle(explorer) => PerExplorer::Shuttle(explorer.try_read().ok()?),
        };
        Some(RwLockReadGuard { real: self.real.try_read()?, _explorer: explorer })
    }

    /// Like `parking_lot`'s.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let explorer = match &self.explorer {
            PerExplorer::Real => PerExplorer::Real,
            PerExplorer::Loom(explorer) => {
                PerExplorer::Loom(explorer.write().unwrap_or_else(PoisonError::into_inner))
            }
            PerExplorer::Shuttle(explorer) => {
                PerExplorer::Shuttle(explorer.write().unwrap_or_else(PoisonError::into_inner))
            }
        };
        RwLockWriteGuard { real: self.real.write(), _explorer: explorer }
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.real.fmt(f)
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.real
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.real
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.real
    }
}
