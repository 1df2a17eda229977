//! Admits clients of the Redis protocol.
//!
//! Guarantees: a connection over the limit is rejected and counted; an admitted client is in the
//! list of clients until it disconnects.

use std::sync::Arc;

use tidekv_net::clients::{Arrival, Clients, Registration};
use tidekv_net::listener::Host;
use tidekv_net::stream::Stream;
use tokio::sync::watch;

use crate::clients::connection::Connection;
use crate::dispatch::group_commit::GroupCommit;
use crate::state::server_state::State;
use crate::state::session::Session;

/// Admits and serves clients.
#[derive(Debug, Clone)]
pub(crate) struct Acceptor {
    pub(crate) state: Arc<State>,
    pub(crate) group_commit: Arc<GroupCommit>,
}

impl Host for Acceptor {
    type Slot = Session;

    const FULL: &'static [u8] = b"-ERR max number of clients reached\r\n";

    fn admit(&self, peer: String, local: String, has_handshake: bool) -> Option<Session> {
        let state = &self.state;
        state.counters.connections.add(1);
        let needs_password = self.has_passwords();
        let arrival = Arrival {
            address: peer,
            local_address: local,
            now_ms: state.now_ms(),
            is_stranger: needs_password || has_handshake,
        };
        let Some(client) = state.clients.admit(arrival, state.settings.connections_max()) else {
            state.counters.rejected_connections.add(1);
            return None;
        };
        Some(Session::new(client, !needs_password))
    }

    fn clients(&self) -> &Clients {
        &self.state.clients
    }

    fn registration(session: &Session) -> &Registration {
        &session.client
    }

    fn has_passwords(&self) -> bool {
        self.state.settings.password().is_some()
    }

    async fn serve(
        self,
        stream: Box<dyn Stream>,
        session: Session,
        shutdown: watch::Receiver<bool>,
    ) {
        Connection::new(self.state, self.group_commit, stream, session).serve(shutdown).await;
    }
}
