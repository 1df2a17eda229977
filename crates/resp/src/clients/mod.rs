//! Connections of clients.

pub(crate) mod queue;
pub(crate) mod connection;
pub(crate) mod acceptor;
