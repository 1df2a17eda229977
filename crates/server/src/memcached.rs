//! The memcached protocol, text and meta, over the cache tier.
//!
//! [`CacheServer::start`] listens and serves until [`CacheServer::shutdown`]. Modules are
//! declared bottom-up; a module names only modules above it. The way of a request: the
//! `reception` admits a `connection`, whose `parser` cuts the stream into lines and values; the
//! `catalogue` says which of the `commands` reads a line, and runs it by an `execution`: on the
//! event loop if memory has the answer or flash has been read for it, else on an I/O thread.
//!
//! Beside it a `sampler` keeps the history of all that is counted, and the `exhibit` shows it, and
//! `metrics`, over HTTP.

mod clock;
mod numerals;
mod words;
mod expiry;
mod authentication;
mod sizes;
mod options;
mod counters;
mod objects;
mod reads;
mod recalls;
mod tenants;
mod profiling;
mod state;
mod forecast;
mod elastic;
mod execution;
mod request;
mod flags;
mod commands;
mod catalogue;
pub(crate) mod parser;
mod connection;
mod caretaker;
mod reception;
mod fields;
mod metrics;
mod sampler;
mod api;
mod exhibit;
mod server;

pub use authentication::Users;
pub use clock::OffsetClock;
pub use options::{CacheServerOptions, DEFAULT_CACHE_PORT};
pub use server::CacheServer;
pub use sizes::{ElasticGoal, ElasticOptions};
