//! The state shared by all connections of a server: the cache, counters and curves; and the
//! prefetched flash reads of a connection.

pub(crate) mod counters;
pub(crate) mod prefixes;
pub(crate) mod objects;
pub(crate) mod prefetched_reads;
pub(crate) mod tenants;
pub(crate) mod profiling;
pub(crate) mod server_state;
pub(crate) mod forecast;
