//! Where clients of the Redis protocol arrive.
//!
//! Guarantees: one more than the settings allow is turned away, and counted; whoever is
//! admitted is in the list of clients until it has left.

use std::sync::Arc;

use tokio::sync::watch;

use crate::connection::Connection;
use crate::listener::Host;
use crate::rounds::Rounds;
use crate::session::Session;
use crate::state::State;
use crate::stream::Stream;

/// Admits and serves clients.
#[derive(Debug, Clone)]
pub(crate) struct Reception {
    pub(crate) state: Arc<State>,
    pub(crate) rounds: Arc<Rounds>,
}

impl Host for Reception {
    type Place = Session;

    const FULL: &'static [u8] = b"-ERR max number of clients reached\r\n";

    fn admit(&self, peer: String, local: String) -> Option<Session> {
        let state = &self.state;
        state.counters.connections.add(1);
        if state.clients.len() >= state.settings.connections_max() {
            state.counters.rejected_connections.add(1);
            return None;
        }
        let client = state.clients.register(peer, local, state.now_ms());
        Some(Session::new(client, state.settings.password().is_none()))
    }

    async fn serve(
        self,
        stream: Box<dyn Stream>,
        session: Session,
        shutdown: watch::Receiver<bool>,
    ) {
        Connection::new(self.state, self.rounds, stream, session).serve(shutdown).await;
    }
}
