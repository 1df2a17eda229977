//! The state of a connection between commands, except for a `MULTI` in progress, which is in its
//! [`connection`](crate::clients::connection).

use std::sync::atomic::Ordering;

use tidekv_net::clients::Registration;

use crate::protocol::reply::Protocol;

/// The state of a connection that commands may read and change.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Registration,
    pub(crate) is_authenticated: bool,
    /// The connection ends once its replies are written.
    pub(crate) is_closing: bool,
    protocol: Protocol,
    database: usize,
}

impl Session {
    pub(crate) fn new(client: Registration, is_authenticated: bool) -> Self {
        Self { client, is_authenticated, is_closing: false, protocol: Protocol::Two, database: 0 }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        let version = if protocol == Protocol::Two { 2 } else { 3 };
        self.client.protocol.store(version, Ordering::Relaxed);
    }

    /// The selected database.
    pub(crate) fn database(&self) -> usize {
        self.database
    }

    pub(crate) fn select(&mut self, database: usize) {
        self.database = database;
        self.client.database.store(database, Ordering::Relaxed);
    }
}
