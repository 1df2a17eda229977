//! The Redis protocol over the embedded store.
//!
//! [`Server::start`] listens and serves until [`Server::shutdown`]. Modules are
//! declared bottom-up; a module names only modules above it. The way of a
//! request: a listener of [`tidekv_net`] accepts a `connection`, whose `request` parser cuts the
//! stream into calls of the `catalogue`; the `pipeline` runs them over an
//! `execution`, on the event loop or an I/O thread, or they are part of a `round`
//! of synced writes; the `reply` goes back.
//!
//! Beside it `observe` shows what goes on: a `sampler` keeps the history of all that is
//! counted, and the `page` draws it from the parts of [`tidekv_observe`].

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
