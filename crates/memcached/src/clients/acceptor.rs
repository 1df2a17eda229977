//! Admits clients of the memcached protocol.
//!
//! Guarantees: a connection over the limit is rejected and counted; an admitted client is in the
//! list of clients until it disconnects.

use std::sync::Arc;

use tidekv_net::clients::Registration;
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

    fn admit(&self, peer: String, local: String) -> Option<Registration> {
        let state = &self.state;
        state.counters.add(Count::Connections, 1);
        if state.clients.len() >= state.options.connections_max {
            state.counters.add(Count::RejectedConnections, 1);
            return None;
        }
        Some(state.clients.register(peer, local, state.unix_ms()))
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
