//! Databases behind a socket, over the protocol of Redis: the binary `tidekv` and Redis.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod client;
mod server;

pub(crate) use crate::subjects::databases::client::{Answer, Client, Said, filler};
pub(crate) use crate::subjects::databases::server::{Database, Home, Product};
