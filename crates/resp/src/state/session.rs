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
    /// Which replies the client gets.
    pub(crate) replies: Replies,
    /// The end of the last command, by the monotonic clock, if the next one follows it at once; 0
    /// otherwise. Saves a command one of two looks at the clock.
    pub(crate) lap_ns: u64,
    protocol: Protocol,
    database: usize,
}

/// The replies that a client gets: `CLIENT REPLY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// All but this many next ones.
    Skipped(u8),
}

impl Session {
    pub(crate) fn new(client: Registration, is_authenticated: bool) -> Self {
        Self {
            client,
            is_authenticated,
            is_closing: false,
            replies: Replies::On,
            lap_ns: 0,
            protocol: Protocol::Two,
            database: 0,
        }
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

    /// Whether the client gets the next reply.
    pub(crate) fn takes_reply(&mut self) -> bool {
        match &mut self.replies {
            Replies::On => true,
            Replies::Off => false,
            Replies::Skipped(left) => {
                *left -= 1;
                if *left == 0 {
                    self.replies = Replies::On;
                }
                false
            }
        }
    }

    /// Makes the session that of a client that has just connected.
    pub(crate) fn reset(&mut self, is_authenticated: bool) {
        self.is_authenticated = is_authenticated;
        self.replies = Replies::On;
        self.set_protocol(Protocol::Two);
        self.select(0);
        self.client.is_kept.store(false, Ordering::Relaxed);
        self.client.update(|said| said.name = bytes::Bytes::new());
    }
}
