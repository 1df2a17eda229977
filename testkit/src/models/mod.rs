//! Locks and atomics whose interleavings a model can explore: outside of a model they are those of
//! the product, inside one [loom] or [shuttle] may switch threads at every operation on them.
//!
//! The crates of the product import their locks and atomics from their own module `sync`. In a
//! build they are `parking_lot`'s and the standard library's; in the unit tests they are these, so
//! the product's own code runs in the models, in the same test binary as all other tests. An object
//! belongs to the explorer in which it is created: see [`explore`].
//!
//! - **loom** explores *all* executions that the memory model of C11 allows, stale loads included,
//!   of small programs: for lock-free code.
//! - **shuttle** samples *some* schedules of larger programs, at random and by PCT (Burckhardt et
//!   al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", 2010), all
//!   operations sequentially consistent: for code with locks and condition variables, up to the
//!   whole store.
//!
//! Only for tests: the crate may be named only in `[dev-dependencies]`.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod mode;
pub mod atomic;
mod lock;
mod cell;
pub mod explore;

pub use cell::{AccessTracker, ArcSwap, Guard, OnceLock};
pub use lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
pub use mode::step;
pub use {loom, shuttle};
