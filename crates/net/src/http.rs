//! Listens on the HTTP address and serves a [`Site`] to those who come.
//!
//! Guarantees:
//! 1. What a stranger can take is bounded: so many connections, so many bytes of a
//!    request, so long for each, and a connection lives a minute at most, busy or not.
//! 2. When the server shuts down, answers under way are finished and idle connections
//!    closed.
//! 3. Where the server has TLS, so has the site.

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
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::listener::{ACCEPT_PAUSE, HANDSHAKE};
use crate::stream::Stream;

/// An answer that is whole.
pub type Answer = Response<Full<Bytes>>;

/// Something that is shown over HTTP.
pub trait Site: Send + Sync + 'static {
    /// The answer to a request that came in at `local`. What it says in its body does
    /// not matter.
    fn answer(&self, head: Parts, local: IpAddr) -> impl Future<Output = Answer> + Send;
}

/// Connections at once. A browser has six at most, a scraper one.
const CONNECTIONS_MAX: usize = 64;
/// Bytes and lines of the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEAD_LINES_MAX: usize = 64;
/// How long the head of a request, or the next one, may take to come.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection lives. Browsers open another one without a word; who takes no
/// answer, or sends a byte now and then, is gone.
const LIFE: Duration = Duration::from_secs(60);
/// How long an answer under way may take when its connection has to end.
const LINGER: Duration = Duration::from_secs(2);

/// A site at one address.
#[derive(Debug)]
struct HttpListener<S> {
    listener: TcpListener,
    site: Arc<S>,
    /// What all addresses of the site share.
    places: Arc<Semaphore>,
}

/// Serves a site at all its addresses until `stopped` turns true. To be called inside a runtime.
pub fn serve_all<S: Site>(
    listeners: Vec<TcpListener>,
    site: &Arc<S>,
    tls: Option<&TlsAcceptor>,
    (stopped, alive): (&watch::Receiver<bool>, &mpsc::Sender<()>),
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    for listener in listeners {
        let (site, places) = (Arc::clone(site), Arc::clone(&places));
        let served = HttpListener { listener, site, places };
        tokio::spawn(served.run(tls.cloned(), stopped.clone(), alive.clone()));
    }
}

impl<S: Site> HttpListener<S> {
    /// Accepts connections until `stopped` turns true. Each holds a clone of `alive`
    /// until it ends.
    async fn run(
        self,
        tls: Option<TlsAcceptor>,
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

    /// Serves a client in a task of its own, or turns it away.
    fn welcome(
        &self,
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
        stopped: &watch::Receiver<bool>,
        alive: &mpsc::Sender<()>,
    ) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            turn_away(&stream, tls.is_some());
            return;
        };
        let Ok(local) = stream.local_addr() else { return };
        let (site, stopped, alive) = (Arc::clone(&self.site), stopped.clone(), alive.clone());
        tokio::spawn(async move {
            // An answer is one write, there is nothing to wait for.
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

/// Serves requests until the client leaves, its time is over, or `stopped` turns true.
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
        // Whatever is wrong with a request is told to the client, or the client is gone.
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stop| *stop) => {}
        () = tokio::time::sleep(LIFE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(LINGER, connection).await;
}

fn turn_away(stream: &TcpStream, is_encrypted: bool) {
    let message = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\
        Content-Type: text/plain\r\nRetry-After: 1\r\n\r\ntoo many connections\n";
    if !is_encrypted {
        // The socket's buffer is empty, so this goes out at once or never.
        let _ = stream.try_write(message);
    }
}
