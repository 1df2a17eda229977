//! Connections of clients.

pub(crate) mod queue;
pub(crate) mod outbox;
pub(crate) mod requests;
pub(crate) mod connection;
pub(crate) mod acceptor;
