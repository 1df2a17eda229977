//! The state of a connection between commands, except for a `MULTI` in progress, which is in its
//! [`connection`](crate::clients::connection).

use std::sync::atomic::Ordering;

use tidekv_net::clients::Registration;
use tidekv_net::guesses::Guesses;
use tokio::time::timeout;

use crate::protocol::reply::Protocol;

/// The state of a connection that commands may read and change.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Registration,
    is_authenticated: bool,
    /// Wrong passwords in a row.
    pub(crate) wrong_guesses: u32,
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
            wrong_guesses: 0,
            is_closing: false,
            replies: Replies::On,
            lap_ns: 0,
            protocol: Protocol::Two,
            database: 0,
        }
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    pub(crate) fn set_authenticated(&mut self, is_authenticated: bool) {
        if self.is_authenticated != is_authenticated {
            self.is_authenticated = is_authenticated;
            self.client.set_known(is_authenticated);
        }
    }

    /// Waits as long as a client must that has guessed passwords, before it says another one, or
    /// anything else that a client may say without one.
    pub(crate) async fn wait_to_guess(&mut self, guesses: &Guesses) {
        if self.is_authenticated && self.wrong_guesses == 0 {
            return;
        }
        let delay = guesses.delay(&self.client.address, self.wrong_guesses);
        if !delay.is_zero() {
            self.lap_ns = 0;
            let _ = timeout(delay, self.client.killed()).await;
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
        self.set_authenticated(is_authenticated);
        self.replies = Replies::On;
        self.set_protocol(Protocol::Two);
        self.select(0);
        self.client.is_kept.store(false, Ordering::Relaxed);
        self.client.update(|said| said.name = bytes::Bytes::new());
    }
}
