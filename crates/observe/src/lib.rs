//! Observability of a server, independent of its protocol: samples of its counters, metrics for
//! Prometheus, miss-ratio curves of its requests, and its web pages.
//!
//! The crate depends neither on a store, a cache nor a client protocol: a server provides readings
//! of its counters and lists that describe them. Modules are declared bottom-up; a module names
//! only modules above it.

pub mod history;
pub mod sampling;
pub mod what_if;
pub mod curves;
pub mod mrc;
pub mod metric;
pub mod prometheus;
pub mod json;
pub mod site;
pub mod parts;
