//! The explorer, if any, that runs the current code.
//!
//! Both explorers run all threads of a model on one system thread, so a thread-local variable
//! distinguishes code inside of a model from code outside. Tests that run at the same time on other
//! threads are outside.

use std::cell::Cell;
use std::sync::atomic::Ordering;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// No model: real threads.
    Real,
    Loom,
    Shuttle,
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Real) };
    /// Accessed only for the scheduling switch that an access causes.
    static SWITCH: shuttle::sync::atomic::AtomicUsize =
        const { shuttle::sync::atomic::AtomicUsize::new(0) };
}

pub(crate) fn mode() -> Mode {
    MODE.get()
}

/// Sets the current explorer until it is dropped.
#[derive(Debug)]
pub(crate) struct Inside(Mode);

impl Inside {
    pub(crate) fn new(mode: Mode) -> Self {
        Self(MODE.replace(mode))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

/// Lets shuttle switch threads. Does nothing elsewhere: loom sees every operation by itself.
pub fn step() {
    if mode() == Mode::Shuttle {
        SWITCH.with(|switch| switch.load(Ordering::SeqCst));
    }
}
