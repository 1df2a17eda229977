//! The store as a whole.

#[cfg(not(miri))]
mod models;
