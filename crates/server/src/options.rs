//! The settings of a server: plain data. What is not here is a named constant
//! with a reason where it is used.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tidekv::{Durability, FilterKind};

use crate::error::{Error, Result};

/// The port when an address names none.
pub const DEFAULT_PORT: u16 = 6379;

/// The port of the page when its address names none.
pub const DEFAULT_HTTP_PORT: u16 = 8379;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host name or IP address, and a port (0: any free one).
    Tcp(String, u16),
    /// The path of a Unix socket. Only the owner may connect to it.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = Error;

    /// Reads `host:port`, `host`, `[::1]:port`, `:port` or `unix:path`.
    fn from_str(text: &str) -> Result<Self> {
        Self::with_port(text, DEFAULT_PORT)
    }
}

impl Address {
    /// Reads an address as [`Address::from_str`] does; `port` is for one that names none.
    ///
    /// # Errors
    ///
    /// When the port is no number of a port, or the path is missing.
    pub fn with_port(text: &str, port: u16) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(Error::invalid("the address unix: names no path"));
            }
            return Ok(Self::Unix(path.into()));
        }
        let (host, named) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let port = match named {
            None => port,
            Some(port) => port.parse().map_err(|_| {
                Error::invalid(format!("the address {text} ends with no port (0 to 65535)"))
            })?,
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        Ok(Self::Tcp(host.into(), port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The files of TLS, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those that it is signed with, in order.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// When given, clients must show a certificate signed by one of these; that
    /// counts as authentication of a public address.
    pub client_authorities: Option<PathBuf>,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, address, shown) in [
            ("localhost:7000", Address::Tcp("localhost".into(), 7000), "localhost:7000"),
            ("10.0.0.1", Address::Tcp("10.0.0.1".into(), 6379), "10.0.0.1:6379"),
            (":0", Address::Tcp("127.0.0.1".into(), 0), "127.0.0.1:0"),
            ("[::1]:7000", Address::Tcp("::1".into(), 7000), "[::1]:7000"),
            ("::1", Address::Tcp("::1".into(), 6379), "[::1]:6379"),
            ("unix:/run/t.sock", Address::Unix("/run/t.sock".into()), "unix:/run/t.sock"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap(), address);
            assert_eq!(address.to_string(), shown);
        }
        let page = Address::with_port("localhost", DEFAULT_HTTP_PORT).unwrap();
        assert_eq!(page.to_string(), "localhost:8379");
        for text in ["localhost:port", "localhost:70000", "unix:"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
