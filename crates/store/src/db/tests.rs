//! The store as a whole.

mod memory;
mod quiet;
#[cfg(not(miri))]
mod models;
