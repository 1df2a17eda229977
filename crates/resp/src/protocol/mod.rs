//! RESP, the protocol of Redis, versions 2 and 3: requests out of bytes, and replies as bytes.

pub(crate) mod glob;
pub(crate) mod number;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod input;
