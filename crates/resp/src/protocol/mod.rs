//! RESP, the protocol of Redis, versions 2 and 3: parses requests and encodes replies.

pub(crate) mod glob;
pub(crate) mod number;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod input;
