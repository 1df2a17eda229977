//! Background jobs: flushes, compactions, reclaiming the space of dead data, filter repair, warm start,
//! and looks at the files and at the memory of the store.
//!
//! Modules are declared bottom-up.

pub(crate) mod background;
pub(crate) mod file_watch;
pub(crate) mod memory_watch;
pub(crate) mod table_dropper;
pub(crate) mod give_way;
pub(crate) mod running_compaction;
pub(crate) mod compactor;
pub(crate) mod flusher;
pub(crate) mod filter_repairer;
pub(crate) mod listing;
pub(crate) mod warm_start;
