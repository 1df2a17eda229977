//! The store as a whole.

mod memory;
#[cfg(not(miri))]
mod models;
