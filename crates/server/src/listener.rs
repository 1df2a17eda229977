//! Listens on the addresses and makes connections of those who come.
//!
//! Guarantees: an address beyond this machine is not bound without
//! authentication unless the options insist; a socket file that nobody answers
//! at any more is replaced, one that is in use is not; the file goes when the
//! listener does; failing to accept (no file handles left) is waited out.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::input::Stream;
use crate::options::{Address, ServerOptions};
use crate::rounds::Rounds;
use crate::session::Session;
use crate::state::State;

/// How long a client may take for the TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait when accepting fails.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Clients that may wait to be accepted; the system's own bound is lower where
/// it must be. With the 128 of the standard library a thousand clients that come
/// at once wait seconds: those that find no place try again after one second.
const BACKLOG: u32 = 4096;
/// File handles beside those of connections: tables, logs, the runtime.
const OTHER_FILES: u64 = 1024;

/// A bound address.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// A socket's file; dropping it removes it.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.0);
    }
}

/// Binds all addresses of the options.
pub(crate) async fn bind_all(options: &ServerOptions) -> Result<Vec<Listener>> {
    if options.listen.is_empty() {
        return Err(Error::invalid("there is no address to listen on"));
    }
    let mut listeners = Vec::new();
    for address in &options.listen {
        match address {
            Address::Tcp(host, port) => {
                let bound = bind_host(host, *port, options).await?;
                listeners.extend(bound.into_iter().map(Listener::Tcp));
            }
            Address::Unix(path) => listeners.push(bind_unix(path.clone()).await?),
        }
    }
    Ok(listeners)
}

/// Binds every address that `host` means.
pub(crate) async fn bind_host(
    host: &str,
    port: u16,
    options: &ServerOptions,
) -> Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for address in resolve(host, port).await? {
        check_exposure(address, options)?;
        let listener = bind_tcp(address);
        let failed = |error| Error::unavailable(format!("listen on {address}"), error);
        listeners.push(listener.map_err(failed)?);
    }
    Ok(listeners)
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|error| Error::unavailable(format!("the address {host}"), error))?;
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.sort_unstable();
    addresses.dedup();
    // "localhost" may mean two addresses; a port of the system's choice can
    // only be one of them.
    addresses.truncate(if port == 0 { 1 } else { usize::MAX });
    Ok(addresses)
}

fn check_exposure(address: SocketAddr, options: &ServerOptions) -> Result<()> {
    let knows_clients = options.password.is_some()
        || options.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
    if address.ip().is_loopback() || knows_clients || options.insecure {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{address} can be reached from other machines: set a password, or ask for it to be insecure"
    )))
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart need not wait until the connections of the last life are
    // forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Makes the file and the socket that it stands for.
fn make_unix(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    socket.listen(BACKLOG)
}

async fn bind_unix(path: PathBuf) -> Result<Listener> {
    let unavailable =
        |error: io::Error| Error::unavailable(format!("listen on unix:{}", path.display()), error);
    let listener = match make_unix(&path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // Left behind by a server that was killed, if nobody answers.
            if UnixStream::connect(&path).await.is_ok() || !is_socket(&path) {
                return Err(unavailable(error));
            }
            rustix::fs::unlink(&path).map_err(|error| unavailable(error.into()))?;
            make_unix(&path)
        }
        bound => bound,
    };
    let listener = listener.map_err(unavailable)?;
    let file = SocketFile(path.clone());
    rustix::fs::chmod(&path, rustix::fs::Mode::from(0o600))
        .map_err(|error| unavailable(error.into()))?;
    Ok(Listener::Unix(listener, file))
}

fn is_socket(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket
    })
}

/// Lets the process have as many file handles as its connections may need, as
/// far as the system's hard limit goes.
pub(crate) fn raise_file_limit(connections_max: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let wanted = (connections_max as u64).saturating_add(OTHER_FILES);
    let Some(current) = limit.current.filter(|&current| current < wanted) else {
        return;
    };
    let reachable = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let raised = Rlimit { current: Some(reachable), maximum: limit.maximum };
    if reachable < wanted || setrlimit(Resource::Nofile, raised).is_err() {
        tracing::warn!(
            "{connections_max} connections need {wanted} file handles; the limit is {}",
            reachable.max(current)
        );
    }
}

impl Listener {
    /// Where it listens, with the port that the system has chosen.
    pub(crate) fn address(&self) -> Result<Address> {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map(|address| Address::Tcp(address.ip().to_string(), address.port()))
                .map_err(|error| Error::unavailable("the address of a socket", error)),
            Self::Unix(_, file) => Ok(Address::Unix(file.0.clone())),
        }
    }

    /// Accepts clients until `shutdown` turns true. Each connection holds a
    /// clone of `alive` until it ends.
    pub(crate) async fn run(
        self,
        state: Arc<State>,
        rounds: Arc<Rounds>,
        tls: Option<TlsAcceptor>,
        mut shutdown: watch::Receiver<bool>,
        alive: mpsc::Sender<()>,
    ) {
        loop {
            let accepted = tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => return,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok(arrival) => {
                    let (shutdown, alive) = (shutdown.clone(), alive.clone());
                    arrival.welcome(&state, &rounds, tls.clone(), shutdown, alive);
                }
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn accept(&self) -> io::Result<Arrival> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // A reply is one write, there is nothing to wait for.
                stream.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                let local = stream.local_addr()?.to_string();
                Ok(Arrival { stream: Socket::Tcp(stream), peer: peer.to_string(), local })
            }
            Self::Unix(listener, file) => {
                let (stream, _) = listener.accept().await?;
                let address = format!("{}:0", file.0.display());
                Ok(Arrival { stream: Socket::Unix(stream), peer: address.clone(), local: address })
            }
        }
    }
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A client at the door.
struct Arrival {
    stream: Socket,
    peer: String,
    local: String,
}

impl Arrival {
    /// Serves the client in a task of its own, or turns it away.
    fn welcome(
        self,
        state: &Arc<State>,
        rounds: &Arc<Rounds>,
        tls: Option<TlsAcceptor>,
        shutdown: watch::Receiver<bool>,
        alive: mpsc::Sender<()>,
    ) {
        state.counters.connections.add(1);
        if state.clients.len() >= state.settings.connections_max() {
            state.counters.rejected_connections.add(1);
            self.turn_away(tls.is_some());
            return;
        }
        let client = state.clients.register(self.peer, self.local, state.now_ms());
        let session = Session::new(client, state.settings.password().is_none());
        let (state, rounds) = (Arc::clone(state), Arc::clone(rounds));
        tokio::spawn(async move {
            let stream: Box<dyn Stream> = match (self.stream, tls) {
                (Socket::Unix(stream), _) => Box::new(stream),
                (Socket::Tcp(stream), None) => Box::new(stream),
                (Socket::Tcp(stream), Some(tls)) => {
                    match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                        Ok(Ok(stream)) => Box::new(stream),
                        // No TLS, a bad certificate, or nothing at all.
                        _ => return,
                    }
                }
            };
            Connection::new(state, rounds, stream, session).serve(shutdown).await;
            drop(alive);
        });
    }

    fn turn_away(&self, is_encrypted: bool) {
        let message = b"-ERR max number of clients reached\r\n";
        // The socket's buffer is empty, so this goes out at once or never.
        let _ = match &self.stream {
            Socket::Tcp(_) if is_encrypted => Ok(0),
            Socket::Tcp(stream) => stream.try_write(message),
            Socket::Unix(stream) => stream.try_write(message),
        };
    }
}
