//! Which explorer, if any, runs the current code.
//!
//! Both explorers run all threads of a model on one thread of the system, so a
//! variable of that thread tells code inside of a model from code outside. Tests
//! that run at the same time on other threads are outside.

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
    /// Looked at for the sake of the switch that a look at it is.
    static SWITCH: shuttle::sync::atomic::AtomicUsize =
        const { shuttle::sync::atomic::AtomicUsize::new(0) };
}

pub(crate) fn mode() -> Mode {
    MODE.get()
}

/// Says which explorer runs until it is dropped.
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

/// Lets shuttle choose who goes on. Does nothing elsewhere: loom sees every
/// operation by itself.
pub fn step() {
    if mode() == Mode::Shuttle {
        SWITCH.with(|switch| switch.load(Ordering::SeqCst));
    }
}
