//! The memcached protocol, text and meta, over the cache tier.
//!
//! [`CacheServer::start`] listens and serves until [`CacheServer::shutdown`]. Modules are
//! declared bottom-up; a module names only modules above it. The way of a request: the
//! `reception` admits a `connection`, whose `parser` cuts the stream into lines and values; the
//! `catalogue` says which of the `commands` reads a line, and runs it by an `execution`: on the
//! event loop if memory has the answer or flash has been read for it, else on an I/O thread.
//!
//! Beside it `observe` shows what goes on: a `sampler` keeps the history of all that is counted, and
//! the `exhibit` shows it, and `metrics`, over HTTP.

mod protocol;
mod settings;
mod state;
mod elastic;
mod commands;
mod clients;
mod caretaker;
mod observe;
mod server;
#[doc(hidden)]
pub mod fuzzing;

pub use server::CacheServer;
pub use settings::authentication::Users;
pub use settings::clock::OffsetClock;
pub use settings::options::{CacheServerOptions, DEFAULT_CACHE_PORT};
pub use settings::sizes::{ElasticGoal, ElasticOptions};
pub use tidekv_net::{Address, DEFAULT_HTTP_PORT, Error, ErrorKind, Result, TlsFiles};
