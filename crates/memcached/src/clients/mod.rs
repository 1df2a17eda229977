//! Connections of clients.

pub(crate) mod parser;
pub(crate) mod connection;
pub(crate) mod acceptor;
