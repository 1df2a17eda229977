//! Admits clients of the memcached protocol.
//!
//! Guarantees: a connection over the limit is rejected and counted; an admitted client is in the
//! list of clients until it disconnects.

use std::sync::Arc;

use tidekv_net::clients::{Arrival, Clients, Registration};
use tidekv_net::listener::Host;
use tidekv_net::stream::Stream;
use tokio::sync::watch;

use crate::clients::connection::Connection;
use crate::state::counters::Count;
use crate::state::server_state::State;

/// Admits and serves clients.
#[derive(Debug, Clone)]
pub(crate) struct Acceptor {
    pub(crate) state: Arc<State>,
}

impl Host for Acceptor {
    type Slot = Registration;

    const FULL: &'static [u8] = b"ERROR Too many open connections\r\n";

    fn admit(&self, peer: String, local: String, has_handshake: bool) -> Option<Registration> {
        let state = &self.state;
        state.counters.add(Count::Connections, 1);
        let arrival = Arrival {
            address: peer,
            local_address: local,
            now_ms: state.unix_ms(),
            is_stranger: self.has_passwords() || has_handshake,
        };
        let client = state.clients.admit(arrival, state.options.connections_max);
        state.counters.add(Count::RejectedConnections, usize::from(client.is_none()));
        client
    }

    fn clients(&self) -> &Clients {
        &self.state.clients
    }

    fn registration(client: &Registration) -> &Registration {
        client
    }

    fn has_passwords(&self) -> bool {
        self.state.options.users.is_some()
    }

    async fn serve(
        self,
        stream: Box<dyn Stream>,
        client: Registration,
        shutdown: watch::Receiver<bool>,
    ) {
        Connection::new(self.state, stream, client).serve(shutdown).await;
    }
}
