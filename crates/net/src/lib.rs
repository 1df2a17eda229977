//! What servers of any protocol share: addresses and TLS, accepting connections, streams and
//! buffers, a bound on the bytes of requests, reads of storage under way, and HTTP.
//!
//! Nothing here knows a protocol of clients, or what is stored. A server implements
//! [`listener::Host`] for its clients and [`http::Site`] for its page. Modules are declared
//! bottom-up; a module names only modules above it.

pub mod error;
pub mod address;
pub mod threads;
pub mod outgoing;
pub mod stream;
pub mod budget;
pub mod password;
pub mod clients;
pub mod reads;
pub mod tls;
pub mod listener;
pub mod http;

pub use address::{Address, DEFAULT_HTTP_PORT, DEFAULT_PORT, TlsFiles};
pub use error::{Error, ErrorKind, Result};
