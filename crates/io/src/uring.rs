//! Batched reads through io_uring.
