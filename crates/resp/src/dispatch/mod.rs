//! Where calls run: on the event loop, on an I/O thread, or in a round of synced writes.

pub(crate) mod pipeline;
pub(crate) mod round;
pub(crate) mod rounds;
