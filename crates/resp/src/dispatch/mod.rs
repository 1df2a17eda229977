//! Dispatch of calls: to the event loop, to an I/O thread, or to a group commit of synced writes.

pub(crate) mod observation;
pub(crate) mod pipeline;
pub(crate) mod batch;
pub(crate) mod group_commit;
