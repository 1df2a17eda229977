//! The settings of a cache's server: plain data. Everything else is a named constant where it is
//! used; memory and flash are options of the cache.

use std::sync::Arc;
use std::time::Duration;

use tidekv_net::address::{Address, TlsFiles};

use crate::settings::authentication::Users;
use crate::settings::clock::OffsetClock;
use crate::settings::sizes::ElasticOptions;

/// The default port.
pub const DEFAULT_CACHE_PORT: u16 = 11211;

/// The protocol that clients speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProtocolChoice {
    /// The first byte of a connection decides.
    #[default]
    Auto,
    /// The text protocol, with its meta commands.
    Text,
    /// The binary protocol.
    Binary,
}

/// The settings of a cache's server.
#[derive(Debug, Clone)]
pub struct CacheServerOptions {
    /// Listen addresses. With [`CacheServerOptions::tls`] all TCP addresses use TLS only.
    pub listen: Vec<Address>,
    /// The HTTP address of the page and the metrics: a host and a port. `None`: no HTTP.
    pub http: Option<Address>,
    /// The protocol that clients speak. Default: either.
    pub protocol: ProtocolChoice,
    /// The users as which clients must authenticate; `None`: no authentication.
    pub users: Option<Users>,
    /// TLS for TCP connections; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// Connection limit; a connection over it gets an error and is closed. Default 10 000.
    pub connections_max: usize,
    /// Idle timeout of connections. Default: none.
    pub idle_timeout: Option<Duration>,
    /// Closes a connection whose client has read no reply for this long. Default 60 s.
    pub write_timeout: Duration,
    /// Maximum bytes of incomplete requests over all connections, beyond 8 KiB of each; default
    /// 16 MiB, and at least the largest object.
    pub buffered_bytes_max: usize,
    /// Maximum bytes of replies that clients have not read, over all connections, beyond 8 KiB of
    /// each; default 16 MiB, and at least the largest object.
    pub unread_bytes_max: usize,
    /// The clock of the cache, if clients may move it (`debugtime`).
    pub clock: Option<Arc<OffsetClock>>,
    /// Called by the command `shutdown`; `None`: the command is rejected.
    pub on_shutdown: Option<fn()>,
    /// The verbosity that `stats settings` reports until clients change it; without effect. Default 0.
    pub verbosity: u32,
    /// Whether `flush_all` is allowed. Default: yes.
    pub allows_flush: bool,
    /// Whether clients may list keys: `lru_crawler metadump` and `mgdump`, `stats cachedump`.
    /// Default: yes.
    pub allows_dumps: bool,
    /// What ends the prefix of a key, by which `stats detail` counts; then it counts from the start.
    /// Default: a colon, once clients turn it on.
    pub prefix_delimiter: Option<u8>,
    /// I/O threads, for long requests, and for flash reads if the system has no asynchronous reads.
    /// Default 16.
    pub io_threads: usize,
    /// Event-loop threads, which serve connections. Default: the number of processors, because none
    /// of them blocks.
    pub event_loops: Option<usize>,
    /// Window of the miss-ratio curves; `None`: no curves. Default 60 s.
    pub profile_window: Option<Duration>,
    /// Automatic resizing after each window; `None`: fixed sizes. Needs curves.
    pub elastic: Option<ElasticOptions>,
    /// Allows a public address without authentication.
    pub insecure: bool,
}

impl Default for CacheServerOptions {
    fn default() -> Self {
        Self {
            listen: vec![Address::Tcp("127.0.0.1".into(), DEFAULT_CACHE_PORT)],
            http: None,
            protocol: ProtocolChoice::Auto,
            users: None,
            tls: None,
            connections_max: 10_000,
            idle_timeout: None,
            write_timeout: Duration::from_secs(60),
            buffered_bytes_max: 16 << 20,
            unread_bytes_max: 16 << 20,
            clock: None,
            on_shutdown: None,
            verbosity: 0,
            allows_flush: true,
            allows_dumps: true,
            prefix_delimiter: None,
            io_threads: 16,
            event_loops: None,
            profile_window: Some(Duration::from_secs(60)),
            elastic: None,
            insecure: false,
        }
    }
}
