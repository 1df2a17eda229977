//! The store as a whole.

mod memory;
mod caches;
mod quiet;
mod seeks;
#[cfg(not(miri))]
mod models;
