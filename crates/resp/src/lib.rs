//! The Redis protocol over the embedded store.
//!
//! [`Server::start`] listens and serves until [`Server::shutdown`]. Modules are declared bottom-up;
//! a module names only modules above it. The path of a request: a listener of [`tidekv_net`]
//! accepts a `connection`, whose `request` parser splits the stream into calls of the `catalogue`;
//! the `pipeline` executes them through an `execution`, on the event loop or an I/O thread, or as
//! part of a `group_commit` of synced writes; the `reply` is sent.
//!
//! The modules of `observe` serve HTTP: a `sampler` keeps the history of all counters, and the
//! `page` serves it with the files of [`tidekv_observe`].

mod options;
mod protocol;
mod state;
mod data;
mod commands;
mod dispatch;
mod clients;
mod observe;
mod server;
#[doc(hidden)]
pub mod fuzzing;

pub use options::ServerOptions;
pub use server::Server;
pub use tidekv_net::{
    Address, DEFAULT_HTTP_PORT, DEFAULT_PORT, Error, ErrorKind, Result, TlsFiles,
};
