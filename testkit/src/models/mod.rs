//! Locks and atomics that a model can take apart: outside of a model they are
//! those of the product, inside one every operation on them is a place where
//! [loom] or [shuttle] may let another thread go on.
//!
//! The crates of the product import their locks and atomics from a module `sync`
//! of their own. In a build they are `parking_lot`'s and the standard library's;
//! in the unit tests they are these, so the product's own code runs in the
//! models, in the same test binary as all other tests. Which of the three an
//! object is follows from where it is made: see [`explore`].
//!
//! - **loom** goes through *all* executions that the memory model of C11 allows,
//!   stale loads included, of small programs: for what works without locks.
//! - **shuttle** draws *some* schedules of larger programs, at random and by PCT
//!   (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of
//!   Finding Bugs", 2010), all operations sequentially consistent: for what works
//!   with locks and condition variables, up to the whole store.
//!
//! Only for tests: nothing but `[dev-dependencies]` may name the crate.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod mode;
pub mod atomic;
mod lock;
mod cell;
pub mod explore;

pub use cell::{ArcSwap, Guard, OnceLock, Witness};
pub use lock::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
pub use mode::step;
pub use {loom, shuttle};
