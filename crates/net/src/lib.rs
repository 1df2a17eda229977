//! Networking that is independent of the protocol: addresses and TLS, accepting connections,
//! streams and buffers, a bound on the bytes of requests, asynchronous reads of storage, and HTTP.
//!
//! The crate depends neither on a client protocol nor on a store. A server implements
//! [`listener::Host`] for its clients and [`http::Site`] for its HTTP address. Modules are declared
//! bottom-up; a module names only modules above it.

pub mod error;
pub mod address;
pub mod process;
pub mod threads;
pub mod watchdog;
pub mod outgoing;
pub mod stream;
pub mod budget;
pub mod password;
pub mod clients;
pub mod guesses;
pub mod handles;
pub mod reads;
pub mod tls;
pub mod listener;
pub mod http;

pub use address::{Address, DEFAULT_HTTP_PORT, DEFAULT_PORT, TlsFiles};
pub use error::{Error, ErrorKind, Result};
