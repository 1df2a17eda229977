//! Listens on the HTTP address and serves a [`Site`].
//!
//! Guarantees:
//! 1. The resources of clients are bounded: the number of connections, the size of a request
//!    head, the time to receive it, and the life of a connection (one minute, busy or idle).
//! 2. At shutdown, responses in progress are finished and idle connections closed.
//! 3. If the server has TLS, so does the site.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;

use crate::listener::{ACCEPT_PAUSE, HANDSHAKE};
use crate::stream::Stream;
use crate::tls::Tls;
use crate::watchdog::Watchdog;

/// A complete response.
pub type Answer = Response<Full<Bytes>>;

/// An HTTP handler.
pub trait Site: Send + Sync + 'static {
    /// The response to a request received at the local address `local`. The body of the request is
    /// ignored.
    fn answer(&self, head: Parts, local: IpAddr) -> impl Future<Output = Answer> + Send;
}

/// Connection limit. A browser opens six at most, a scraper one.
pub const CONNECTIONS_MAX: usize = 64;
/// Maximum bytes and lines of a request head.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEAD_LINES_MAX: usize = 64;
/// The time limit to receive a request head, and of an idle connection.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// The life of a connection. Browsers reconnect silently; a client that does not read its
/// response, or sends a byte now and then, is disconnected.
const LIFE: Duration = Duration::from_secs(60);
/// The time limit of a response in progress when its connection must close.
const LINGER: Duration = Duration::from_secs(2);

/// A site at one address.
#[derive(Debug)]
struct HttpListener<S> {
    listener: TcpListener,
    site: Arc<S>,
    /// Connection permits, shared by all addresses of the site.
    places: Arc<Semaphore>,
}

/// Serves a site at all its addresses until `stopped` becomes true. Must be called inside a runtime.
pub fn serve_all<S: Site>(
    listeners: Vec<TcpListener>,
    site: &Arc<S>,
    tls: Option<&Arc<Tls>>,
    watchdog: &Watchdog,
    (stopped, alive): (&watch::Receiver<bool>, &mpsc::Sender<()>),
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    for listener in listeners {
        let (site, places) = (Arc::clone(site), Arc::clone(&places));
        let served = HttpListener { listener, site, places };
        let run = served.run(tls.cloned(), stopped.clone(), alive.clone());
        watchdog.spawn(&Handle::current(), "the listener of the page", run);
    }
}

impl<S: Site> HttpListener<S> {
    /// Accepts connections until `stopped` becomes true. Each holds a clone of `alive` until it
    /// ends.
    async fn run(
        self,
        tls: Option<Arc<Tls>>,
        mut stopped: watch::Receiver<bool>,
        alive: mpsc::Sender<()>,
    ) {
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => self.welcome(stream, tls.clone(), &stopped, &alive),
                Err(error) => {
                    tracing::warn!("a connection to the page could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves a client in a task of its own, or rejects it.
    fn welcome(
        &self,
        stream: TcpStream,
        tls: Option<Arc<Tls>>,
        stopped: &watch::Receiver<bool>,
        alive: &mpsc::Sender<()>,
    ) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            reject(&stream, tls.is_some());
            return;
        };
        let Ok(local) = stream.local_addr() else { return };
        let (site, stopped, alive) = (Arc::clone(&self.site), stopped.clone(), alive.clone());
        tokio::spawn(async move {
            // A response is one write, so there is nothing to coalesce.
            let _ = stream.set_nodelay(true);
            let stream: Box<dyn Stream> = match tls {
                None => Box::new(stream),
                Some(tls) => match timeout(HANDSHAKE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => Box::new(stream),
                    _ => return,
                },
            };
            serve(stream, site, local.ip(), stopped).await;
            drop((place, alive));
        });
    }
}

/// Serves requests until the client disconnects, its time is over, or `stopped` becomes true.
async fn serve(
    stream: Box<dyn Stream>,
    site: Arc<impl Site>,
    local: IpAddr,
    mut stopped: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let site = Arc::clone(&site);
        let (head, _) = request.into_parts();
        async move { Ok::<_, Infallible>(site.answer(head, local).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
    builder.max_buf_size(HEAD_BYTES_MAX).max_headers(HEAD_LINES_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // An invalid request has been answered, or the client has disconnected.
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stop| *stop) => {}
        () = tokio::time::sleep(LIFE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(LINGER, connection).await;
}

fn reject(stream: &TcpStream, is_encrypted: bool) {
    let message = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\
        Content-Type: text/plain\r\nRetry-After: 1\r\n\r\ntoo many connections\n";
    if !is_encrypted {
        // The socket's buffer is empty, so this is sent at once or never.
        let _ = stream.try_write(message);
    }
}
