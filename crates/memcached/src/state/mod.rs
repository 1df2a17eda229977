//! What all connections of a server share: the cache, counters, curves of its requests, and what is
//! read from flash for a connection.

pub(crate) mod counters;
pub(crate) mod objects;
pub(crate) mod recalls;
pub(crate) mod tenants;
pub(crate) mod profiling;
pub(crate) mod server_state;
pub(crate) mod forecast;
