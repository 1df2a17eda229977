//! Connections of clients, from their arrival to their end.

pub(crate) mod queue;
pub(crate) mod connection;
pub(crate) mod reception;
