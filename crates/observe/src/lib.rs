//! What a server shows of itself, whatever it serves: samples of its counters, metrics as
//! Prometheus reads them, miss-ratio curves of its requests, and the parts of its pages.
//!
//! Nothing here knows a store, a cache or a protocol of clients: a server brings readings of its
//! counters and lists of what they mean. Modules are declared bottom-up; a module names only
//! modules above it.

pub mod history;
pub mod sampling;
pub mod outlook;
pub mod curves;
pub mod mrc;
pub mod metric;
pub mod prometheus;
pub mod json;
pub mod site;
pub mod parts;
