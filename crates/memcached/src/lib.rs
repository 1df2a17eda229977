//! The memcached protocol, text, meta and binary, over the cache tier.
//!
//! [`CacheServer::start`] listens and serves until [`CacheServer::shutdown`]. Modules are declared
//! bottom-up; a module names only modules above it. The path of a request: the `acceptor` admits a
//! `connection`, whose `parser` splits the stream into lines and values, or frames of the binary
//! protocol; the `catalogue` finds the command of a line, which runs over an `execution`: on the event loop if memory has the answer or
//! flash has been read for it, otherwise on an I/O thread.
//!
//! The modules of `observe` serve HTTP: a `sampler` keeps the history of all counters, and the
//! `http_handler` serves it with `metrics`.

mod protocol;
mod settings;
mod state;
mod elastic;
mod commands;
mod clients;
mod maintenance;
mod observe;
mod server;
#[doc(hidden)]
pub mod fuzzing;

pub use server::CacheServer;
pub use settings::authentication::Users;
pub use settings::clock::OffsetClock;
pub use settings::options::{CacheServerOptions, DEFAULT_CACHE_PORT, ProtocolChoice};
pub use settings::sizes::{ElasticGoal, ElasticOptions};
pub use tidekv_net::{Address, DEFAULT_HTTP_PORT, Error, ErrorKind, Result, TlsFiles};
