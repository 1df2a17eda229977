//! Listens on addresses and passes accepted clients to their [`Host`].
//!
//! Guarantees: an address that other machines can reach is not bound without
//! authentication, unless the options allow it; a stale socket file is replaced,
//! one in use is not; the file is removed with the listener; a failure to accept
//! (out of file handles) is retried after a pause.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio::sync::{mpsc, watch};

use crate::address::{Address, TlsFiles};
use crate::clients::{Clients, Registration};
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::tls::Tls;

/// The time limit of a TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// The pause after a failure to accept.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Length of the accept queue; the system may lower it. With the 128 of the
/// standard library, a thousand clients that connect at once wait seconds:
/// those that find the queue full try again after one second.
const BACKLOG: u32 = 4096;

/// A bound address.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket and its file.
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket; dropping it removes the file.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.0);
    }
}

/// The clients that may reach an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Clients on any machine: they must authenticate, or the options allow it.
    Anybody,
    /// Only clients on this machine.
    ThisMachine,
}

impl Exposure {
    /// The exposure of a server that authenticates clients by password or certificate, or that is
    /// explicitly insecure.
    pub fn of(has_passwords: bool, tls: Option<&TlsFiles>, is_insecure: bool) -> Self {
        let has_certificates = tls.is_some_and(|tls| tls.client_authorities.is_some());
        match has_passwords || has_certificates || is_insecure {
            true => Self::Anybody,
            false => Self::ThisMachine,
        }
    }
}

/// Binds all addresses.
pub async fn bind_all(listen: &[Address], exposure: Exposure) -> Result<Vec<Listener>> {
    if listen.is_empty() {
        return Err(Error::invalid("no listen address"));
    }
    let mut listeners = Vec::new();
    for address in listen {
        match address {
            Address::Tcp(host, port) => {
                let bound = bind_host(host, *port, exposure).await?;
                listeners.extend(bound.into_iter().map(Listener::Tcp));
            }
            Address::Unix(path) => listeners.push(bind_unix(path.clone()).await?),
        }
    }
    Ok(listeners)
}

/// Binds every address that `host` resolves to.
async fn bind_host(host: &str, port: u16, exposure: Exposure) -> Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for address in resolve(host, port).await? {
        check_exposure(address, exposure)?;
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
    // "localhost" may resolve to two addresses; a port chosen by the system can
    // only belong to one of them.
    addresses.truncate(if port == 0 { 1 } else { usize::MAX });
    Ok(addresses)
}

fn check_exposure(address: SocketAddr, exposure: Exposure) -> Result<()> {
    if address.ip().is_loopback() || exposure == Exposure::Anybody {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{address} can be reached from other machines: set a password, or allow it with --insecure"
    )))
}

/// Binds the HTTP addresses, if there are any.
pub async fn bind_page(http: Option<&Address>, exposure: Exposure) -> Result<Vec<TcpListener>> {
    match http {
        None => Ok(Vec::new()),
        Some(Address::Tcp(host, port)) => bind_host(host, *port, exposure).await,
        Some(Address::Unix(_)) => Err(Error::invalid("the HTTP address must be a host and a port")),
    }
}

/// The URL of the page.
pub fn url_of(listener: &TcpListener, is_encrypted: bool) -> Result<String> {
    let address = listener.local_addr();
    let address = address.map_err(|error| Error::unavailable("the address of a socket", error))?;
    Ok(format!("{}://{address}/", if is_encrypted { "https" } else { "http" }))
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart need not wait until the connections of the previous run are
    // forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Creates the socket and its file.
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
            // A stale file of a killed server, if nothing listens on it.
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

impl Listener {
    /// The address, with the port that the system has chosen.
    pub fn address(&self) -> Result<Address> {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map(|address| Address::Tcp(address.ip().to_string(), address.port()))
                .map_err(|error| Error::unavailable("the address of a socket", error)),
            Self::Unix(_, file) => Ok(Address::Unix(file.0.clone())),
        }
    }

    /// Accepts clients for `host` until `shutdown` becomes true. Each connection holds a clone of
    /// `alive` until it ends.
    pub async fn run<H: Host>(
        self,
        host: H,
        tls: Option<Arc<Tls>>,
        mut shutdown: watch::Receiver<bool>,
        alive: mpsc::Sender<()>,
    ) {
        loop {
            let accepted = tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => return,
                accepted = async {
                    host.clients().wait_for_room().await;
                    self.accept().await
                } => accepted,
            };
            match accepted {
                Ok(arrival) => {
                    let (shutdown, alive) = (shutdown.clone(), alive.clone());
                    arrival.welcome(host.clone(), tls.clone(), shutdown, alive);
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
                // A reply is one write, so there is nothing to coalesce.
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

/// Serves the clients of a listener.
pub trait Host: Clone + Send + 'static {
    /// A connection slot, held while the client is connected.
    type Slot: Send;
    /// The reply to a client over the connection limit.
    const FULL: &'static [u8];

    /// A slot for a client, if the connection limit allows it. `peer` is the client's address,
    /// `local` the server's. Whether the client is a stranger until its TLS handshake has ended,
    /// whatever it must do afterwards, is `has_handshake`.
    fn admit(&self, peer: String, local: String, has_handshake: bool) -> Option<Self::Slot>;

    /// All clients.
    fn clients(&self) -> &Clients;

    /// The entry of a slot in the list of clients.
    fn registration(slot: &Self::Slot) -> &Registration;

    /// Whether clients must authenticate themselves by a password.
    fn has_passwords(&self) -> bool;

    /// Serves a client until it disconnects, is disconnected, or `shutdown` becomes true.
    fn serve(
        self,
        stream: Box<dyn Stream>,
        slot: Self::Slot,
        shutdown: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send;
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// An accepted client.
struct Arrival {
    stream: Socket,
    peer: String,
    local: String,
}

impl Arrival {
    /// Serves the client in a task of its own, or rejects it.
    fn welcome<H: Host>(
        self,
        host: H,
        tls: Option<Arc<Tls>>,
        shutdown: watch::Receiver<bool>,
        alive: mpsc::Sender<()>,
    ) {
        let has_handshake = tls.is_some() && matches!(self.stream, Socket::Tcp(_));
        let Some(slot) = host.admit(self.peer, self.local, has_handshake) else {
            self.stream.turn_away(H::FULL, tls.is_some());
            return;
        };
        tokio::spawn(async move {
            let stream: Box<dyn Stream> = match (self.stream, tls) {
                (Socket::Unix(stream), _) => Box::new(stream),
                (Socket::Tcp(stream), None) => Box::new(stream),
                (Socket::Tcp(stream), Some(tls)) => {
                    // Boxed, so that connections without TLS use no memory for it.
                    let accepted = Box::pin(tls.accept(stream));
                    let client = H::registration(&slot).client();
                    let accepted = tokio::select! {
                        accepted = tokio::time::timeout(HANDSHAKE, accepted) => accepted,
                        () = client.killed() => return,
                    };
                    // Otherwise not TLS, a bad certificate, or no data in time.
                    let Ok(Ok(stream)) = accepted else { return };
                    if !host.has_passwords() {
                        H::registration(&slot).set_known(true);
                    }
                    Box::new(stream)
                }
            };
            let client = H::registration(&slot).client();
            tokio::select! {
                () = host.serve(stream, slot, shutdown) => {}
                () = client.evicted() => {}
            }
            drop(alive);
        });
    }
}

impl Socket {
    fn turn_away(&self, message: &[u8], is_encrypted: bool) {
        // The socket's buffer is empty, so this is sent at once or never.
        let _ = match self {
            Self::Tcp(_) if is_encrypted => Ok(0),
            Self::Tcp(stream) => stream.try_write(message),
            Self::Unix(stream) => stream.try_write(message),
        };
    }
}
