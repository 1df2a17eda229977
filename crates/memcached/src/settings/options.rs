//! The settings of a cache's server: plain data. What is not here is a named constant with a
//! reason where it is used; what concerns memory and flash is set up with the cache.

use std::sync::Arc;
use std::time::Duration;

use tidekv_net::address::{Address, TlsFiles};

use crate::settings::authentication::Users;
use crate::settings::clock::OffsetClock;
use crate::settings::sizes::ElasticOptions;

/// The port when an address names none.
pub const DEFAULT_CACHE_PORT: u16 = 11211;

/// The settings of a cache's server.
#[derive(Debug, Clone)]
pub struct CacheServerOptions {
    /// Where to listen. With [`CacheServerOptions::tls`] all TCP addresses speak TLS and
    /// nothing else.
    pub listen: Vec<Address>,
    /// Where to show the page and metrics: a host and a port. `None`: nowhere.
    pub http: Option<Address>,
    /// Who clients must be one of; `None`: anybody.
    pub users: Option<Users>,
    /// Encrypts connections over TCP.
    pub tls: Option<TlsFiles>,
    /// Connections at once; one more is told so and closed. Default 10 000.
    pub connections_max: usize,
    /// Closes a connection that has sent nothing for so long. Default: never.
    pub idle_timeout: Option<Duration>,
    /// Closes a connection that takes none of its replies for so long. Default 60 s.
    pub write_timeout: Duration,
    /// Most bytes of incomplete requests over all connections; default 256 MiB. Requests of
    /// up to 64 KiB are not counted. Raised to what the largest object needs.
    pub buffered_bytes_max: usize,
    /// The clock of the cache, if clients may move it (`debugtime`).
    pub clock: Option<Arc<OffsetClock>>,
    /// What `shutdown` does; `None`: it is refused.
    pub on_shutdown: Option<fn()>,
    /// Threads for requests that take long, and that wait for flash where the system cannot read
    /// without. Default 16.
    pub io_threads: usize,
    /// Threads that serve connections. Default: as many as processors, for none of them waits.
    pub event_loops: Option<usize>,
    /// How long a window is of which miss-ratio curves are made; `None`: none are. Default 60 s.
    pub profile_window: Option<Duration>,
    /// Changes the sizes of the cache after each such window; `None`: they stay. Needs windows.
    pub elastic: Option<ElasticOptions>,
    /// Starts on a public address even if anybody may use it.
    pub insecure: bool,
}

impl Default for CacheServerOptions {
    fn default() -> Self {
        Self {
            listen: vec![Address::Tcp("127.0.0.1".into(), DEFAULT_CACHE_PORT)],
            http: None,
            users: None,
            tls: None,
            connections_max: 10_000,
            idle_timeout: None,
            write_timeout: Duration::from_secs(60),
            buffered_bytes_max: 256 << 20,
            clock: None,
            on_shutdown: None,
            io_threads: 16,
            event_loops: None,
            profile_window: Some(Duration::from_secs(60)),
            elastic: None,
            insecure: false,
        }
    }
}
