//! The settings of a server: plain data. Everything else is a named constant where it is used.

use std::path::PathBuf;
use std::time::Duration;

use tidekv::{Durability, FilterKind};
use tidekv_net::address::{Address, DEFAULT_PORT, TlsFiles};

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Listen addresses. With [`ServerOptions::tls`] all TCP addresses use TLS only.
    pub listen: Vec<Address>,
    /// The HTTP address of the page and the metrics: a host and a port. `None`: no HTTP.
    pub http: Option<Address>,
    /// The password of `AUTH`, at most 512 bytes; `None`: clients need not authenticate.
    pub password: Option<String>,
    /// TLS for TCP connections; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// Connection limit; a connection over it gets an error and is closed. Default 10 000.
    pub connections_max: usize,
    /// Idle timeout of connections. Default: none.
    pub idle_timeout: Option<Duration>,
    /// Closes a connection whose client has read no reply for this long. Default 60 s.
    pub write_timeout: Duration,
    /// Maximum bytes of one request; default 257 MiB. At most an eighth of the store's memory budget
    /// in any case. A larger request is discarded and answered with an `OOM` error.
    pub request_bytes_max: usize,
    /// Maximum bytes of requests over all connections, which are a part of the store's memory budget:
    /// at most a quarter of it, the default. At least [`ServerOptions::request_bytes_max`].
    pub buffered_bytes_max: usize,
    /// The filter kind of new tables; `None`: unchanged, Bloom filters in a new store.
    pub filter_kind: Option<FilterKind>,
    /// Durability of a write when its reply is sent.
    pub durability: Durability,
    /// I/O threads, which wait for storage. Default 16: with synced writes, about this many
    /// connections share one sync of the disk.
    pub io_threads: usize,
    /// Event-loop threads, which serve connections. Default: one less than the number of
    /// processors.
    pub event_loops: Option<usize>,
    /// Window of the miss-ratio curves; `None`: no curves. Default 60 s.
    pub profile_window: Option<Duration>,
    /// The directory below which clients may make checkpoints (`TIDE.CHECKPOINT`, `SAVE`, `BGSAVE`);
    /// created if missing, and not in that of the store. Default: none, they may not.
    pub checkpoint_directory: Option<PathBuf>,
    /// Allows a public address without a password.
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
            buffered_bytes_max: usize::MAX,
            filter_kind: None,
            durability: Durability::Buffered,
            io_threads: 16,
            event_loops: None,
            profile_window: Some(Duration::from_secs(60)),
            checkpoint_directory: None,
            insecure: false,
        }
    }
}
