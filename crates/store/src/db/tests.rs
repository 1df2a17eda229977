//! The store as a whole.

mod memory;
mod caches;
mod quiet;
#[cfg(not(miri))]
mod models;
