//! The store as a whole.

mod memory;
mod caches;
mod quiet;
mod files;
mod reclaim;
mod seeks;
#[cfg(not(miri))]
mod models;
