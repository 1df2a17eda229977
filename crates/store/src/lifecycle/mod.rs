//! Opening, maintaining and closing a store: recovery, the handle that users share, and operations on a
//! whole store.
//!
//! Modules are declared bottom-up.

pub(crate) mod recovery;
pub(crate) mod upkeep;
pub(crate) mod handle;
