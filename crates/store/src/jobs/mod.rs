//! Background jobs: flushes, compactions, filter repair and warm start.
//!
//! Modules are declared bottom-up.

pub(crate) mod background;
pub(crate) mod compactor;
pub(crate) mod flusher;
pub(crate) mod filter_repairer;
pub(crate) mod listing;
pub(crate) mod warm_start;
