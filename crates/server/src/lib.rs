//! The Redis protocol over the embedded store, and the memcached protocol over the cache tier.
//!
//! Redis: [`Server::start`] listens and serves until [`Server::shutdown`]. Modules are
//! declared bottom-up; a module names only modules above it. The way of a
//! request: `listener` accepts a `connection`, whose `request` parser cuts the
//! stream into calls of the `catalogue`; the `pipeline` runs them over an
//! `execution`, on the event loop or an I/O thread, or they are part of a `round`
//! of synced writes; the `reply` goes back.
//!
//! Beside it `http` shows what goes on: a `sampler` keeps the `history` of all that is
//! counted, and the `page` draws it from `parts`. memcached: `memcached` has modules of its own, on the same
//! streams, listeners and budgets.

pub mod error;
pub mod options;
mod glob;
mod number;
mod threads;
mod curves;
mod mrc;
mod outgoing;
mod stream;
mod reply;
mod request;
mod budget;
mod stripes;
mod detour;
mod cursors;
mod password;
mod settings;
mod keyspaces;
mod clients;
mod session;
mod state;
mod forecast;
mod execution;
mod hash;
mod values;
mod command;
mod commands;
mod catalogue;
mod pipeline;
mod round;
mod rounds;
mod sweep;
mod queue;
mod input;
mod tls;
mod listener;
mod connection;
mod reception;
mod history;
mod outlook;
mod metrics;
mod prometheus;
mod api;
mod sampler;
mod site;
mod parts;
mod page;
mod http;
mod server;
mod memcached;
#[doc(hidden)]
pub mod fuzzing;

pub use error::{Error, ErrorKind, Result};
pub use memcached::{
    CacheServer, CacheServerOptions, DEFAULT_CACHE_PORT, ElasticGoal, ElasticOptions, OffsetClock,
    Users,
};
pub use options::{Address, DEFAULT_HTTP_PORT, DEFAULT_PORT, ServerOptions, TlsFiles};
pub use server::Server;
