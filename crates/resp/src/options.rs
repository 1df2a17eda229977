//! The settings of a server: plain data. What is not here is a named constant
//! with a reason where it is used.

use std::time::Duration;

use tidekv::{Durability, FilterKind};
use tidekv_net::address::{Address, DEFAULT_PORT, TlsFiles};

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where to listen. With [`ServerOptions::tls`] all TCP addresses speak TLS
    /// and nothing else.
    pub listen: Vec<Address>,
    /// Where to show the page and metrics: a host and a port. `None`: nowhere.
    pub http: Option<Address>,
    /// What clients must give to `AUTH`, at most 512 bytes; `None`: they need
    /// not.
    pub password: Option<String>,
    /// Encrypts connections over TCP.
    pub tls: Option<TlsFiles>,
    /// Connections at once; one more is told so and closed. Default 10 000.
    pub connections_max: usize,
    /// Closes a connection that has sent nothing for so long. Default: never.
    pub idle_timeout: Option<Duration>,
    /// Closes a connection that takes none of its replies for so long. Default
    /// 60 s.
    pub write_timeout: Duration,
    /// Most bytes of one request; default 257 MiB, the largest value and
    /// something for its command.
    pub request_bytes_max: usize,
    /// Most bytes of incomplete requests over all connections; default 1 GiB.
    /// Requests of up to 64 KiB are not counted. Raised to
    /// [`ServerOptions::request_bytes_max`].
    pub buffered_bytes_max: usize,
    /// How filters of new tables are made; `None`: as before, in a new store with Bloom filters.
    pub filter_kind: Option<FilterKind>,
    /// What a write waits for before its reply.
    pub durability: Durability,
    /// Threads that wait for storage. Default 16: with synced writes, about so
    /// many connections share one write to the disk.
    pub io_threads: usize,
    /// Threads that serve connections. Default: one fewer than processors.
    pub event_loops: Option<usize>,
    /// How long a window is of which miss-ratio curves are made; `None`: none are. Default 60 s.
    pub profile_window: Option<Duration>,
    /// Starts on a public address even without a password.
    pub insecure: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: vec![Address::Tcp("127.0.0.1".into(), DEFAULT_PORT)],
            http: None,
            password: None,
            tls: None,
            connections_max: 10_000,
            idle_timeout: None,
            write_timeout: Duration::from_secs(60),
            request_bytes_max: 257 << 20,
            buffered_bytes_max: 1 << 30,
            filter_kind: None,
            durability: Durability::Buffered,
            io_threads: 16,
            event_loops: None,
            profile_window: Some(Duration::from_secs(60)),
            insecure: false,
        }
    }
}
