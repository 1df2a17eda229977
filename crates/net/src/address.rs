//! Listen addresses and TLS files of a server: plain data.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The default port.
pub const DEFAULT_PORT: u16 = 6379;

/// The default port of the HTTP address.
pub const DEFAULT_HTTP_PORT: u16 = 8379;

/// An address that a server listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host name or IP address, and a port (0: any free one).
    Tcp(String, u16),
    /// The path of a Unix socket. Only the owner may connect to it.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = Error;

    /// Parses `host:port`, `host`, `[::1]:port`, `:port` or `unix:path`.
    fn from_str(text: &str) -> Result<Self> {
        Self::with_port(text, DEFAULT_PORT)
    }
}

impl Address {
    /// Parses an address like [`Address::from_str`]; `port` is the default port.
    ///
    /// # Errors
    ///
    /// If the port is not a port number, or the path is missing.
    pub fn with_port(text: &str, port: u16) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(Error::invalid("the address unix: has no path"));
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
                Error::invalid(format!("the address {text} does not end with a port (0 to 65535)"))
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

/// TLS files, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate chain, its own certificate first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// If set, clients must present a certificate signed by one of these, which counts as the
    /// authentication that a public address needs.
    pub client_authorities: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_displayed() {
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
