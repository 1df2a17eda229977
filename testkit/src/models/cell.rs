//! Cells that are not locks: written once, exchanged, or tracked.

use std::fmt;
use std::sync::Arc;

pub use arc_swap::Guard;

use crate::models::atomic::{AtomicBool, Ordering};
use crate::models::mode::{Mode, mode, step};

/// Accompanies plain memory that threads pass to each other through atomics, and is notified of
/// every access. In loom's models an access that the atomics do not order after a write fails the
/// model; in the product it takes no memory and does nothing.
#[derive(Debug)]
pub struct AccessTracker(Option<loom::cell::UnsafeCell<()>>);

impl AccessTracker {
    /// A tracker of memory that no other thread knows yet.
    pub fn new() -> Self {
        Self((mode() == Mode::Loom).then(|| loom::cell::UnsafeCell::new(())))
    }

    /// Records a read of the memory.
    #[track_caller]
    pub fn read(&self) {
        if let Some(cell) = &self.0 {
            cell.with(|_| ());
        }
    }

    /// Records a write of the memory.
    #[track_caller]
    pub fn write(&self) {
        if let Some(cell) = &self.0 {
            cell.with_mut(|_| ());
        }
    }
}

impl Default for AccessTracker {
    fn default() -> Self {
        Self::new()
    }
}

/// A value that is written at most once. In models only one thread at a time may write: a second
/// one would wait for the first where the explorer does not see it.
#[derive(Debug, Default)]
pub struct OnceLock<T> {
    is_set: AtomicBool,
    real: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    /// Like the standard library's.
    pub fn new() -> Self {
        Self { is_set: AtomicBool::new(false), real: std::sync::OnceLock::new() }
    }

    /// Like the standard library's.
    pub fn get(&self) -> Option<&T> {
        self.is_set.load(Ordering::Acquire).then(|| self.real.get()).flatten()
    }

    /// Like the standard library's.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let value = self.real.get_or_init(make);
        self.is_set.store(true, Ordering::Release);
        value
    }
}

/// A shared pointer that is exchanged atomically, with a scheduling step before each operation. Not
/// for loom's models: loom does not track the pointer.
pub struct ArcSwap<T>(arc_swap::ArcSwap<T>);

impl<T> ArcSwap<T> {
    /// Like `arc_swap`'s.
    pub fn new(value: Arc<T>) -> Self {
        assert!(mode() != Mode::Loom, "loom does not track an ArcSwap");
        Self(arc_swap::ArcSwap::new(value))
    }

    /// Like `arc_swap`'s.
    pub fn from_pointee(value: T) -> Self {
        Self::new(Arc::new(value))
    }

    /// Like `arc_swap`'s.
    pub fn load(&self) -> Guard<Arc<T>> {
        step();
        self.0.load()
    }

    /// Like `arc_swap`'s.
    pub fn load_full(&self) -> Arc<T> {
        step();
        self.0.load_full()
    }

    /// Like `arc_swap`'s.
    pub fn store(&self, value: Arc<T>) {
        step();
        self.0.store(value);
    }
}

impl<T: fmt::Debug> fmt::Debug for ArcSwap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
