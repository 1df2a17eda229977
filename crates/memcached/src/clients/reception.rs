//! Where clients of the cache arrive.
//!
//! Guarantees: one more than the settings allow is turned away, and counted; whoever is
//! admitted is in the list of clients until it has left.

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
pub(crate) struct Reception {
    pub(crate) state: Arc<State>,
}

impl Host for Reception {
    type Place = Registration;

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
