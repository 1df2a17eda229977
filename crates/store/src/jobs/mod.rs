//! Background jobs: flushes, compactions, filter repair, log preparation, and warm start.
//!
//! Modules are declared bottom-up.

pub(crate) mod logs;
pub(crate) mod background;
pub(crate) mod compactor;
pub(crate) mod flusher;
pub(crate) mod unlearner;
pub(crate) mod listing;
pub(crate) mod warm_start;
