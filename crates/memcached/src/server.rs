//! The public API of a cache's server: start, addresses, shutdown.
//!
//! It owns its runtime: event loops and I/O threads. Its API is synchronous.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidekv_io::threads::restarting;
use tidekv_net::address::Address;
use tidekv_net::error::{Error, Result};
use tidekv_net::handles;
use tidekv_net::http;
use tidekv_net::listener::{self, Exposure, Listener};
use tidekv_net::threads;
use tidekv_net::tls::Tls;
use tidekv_net::watchdog::{self, Failures, Watchdog};
use tidekv_observe::sampling;
use tidekv_tiered::Cache;
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{mpsc, watch};

use crate::clients::acceptor::Acceptor;
use crate::elastic::Loop;
use crate::maintenance;
use crate::observe::http_handler::HttpHandler;
use crate::observe::sampler::Sampler;
use crate::settings::options::CacheServerOptions;
use crate::state::profiling;
use crate::state::server_state::State;

/// A running server. Dropping it ends all connections at once; [`CacheServer::shutdown`] lets
/// them finish.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidekv_io::{LocalStorage, Storage, SystemClock};
/// use tidekv_memcached::{CacheServer, CacheServerOptions};
/// use tidekv_tiered::{Cache, Options, Environment};
///
/// let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new());
/// let around = Environment::new(storage, Arc::new(SystemClock::new()));
/// let cache = Cache::open(&Options::default(), &around)?;
/// let listen = vec!["127.0.0.1:0".parse()?];
/// let options = CacheServerOptions { listen, ..Default::default() };
/// let server = CacheServer::start(cache, options)?;
/// println!("listening on {}", server.local_addresses()[0]);
/// server.shutdown(Duration::from_secs(10));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CacheServer {
    runtime: Option<Runtime>,
    page_url: Option<String>,
    state: Arc<State>,
    stop: watch::Sender<bool>,
    /// Threads that use the cache, and end soon after they are stopped.
    threads: Vec<JoinHandle<()>>,
    /// Ends when the last connection has.
    alive: mpsc::Receiver<()>,
    failures: Failures,
}

impl CacheServer {
    /// Binds the addresses of `options` and serves `cache` on them.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound or is public without authentication, or a TLS file is missing
    /// or invalid.
    pub fn start(cache: Cache, mut options: CacheServerOptions) -> Result<Self> {
        let event_loops = options.event_loops.unwrap_or_else(threads::processors).max(1);
        let runtime = threads::runtime("tide-cache", event_loops, options.io_threads)?;
        let tls = options.tls.as_ref().map(Tls::new).transpose()?;
        let exposure =
            Exposure::of(options.users.is_some(), options.tls.as_ref(), options.insecure);
        let listeners = runtime.block_on(listener::bind_all(&options.listen, exposure))?;
        let pages = runtime.block_on(listener::bind_page(options.http.as_ref(), exposure))?;
        let page_url =
            pages.first().map(|page| listener::url_of(page, tls.is_some())).transpose()?;
        let addresses = listeners.iter().map(Listener::address).collect::<Result<Vec<_>>>()?;
        let page_host = match &options.http {
            Some(Address::Tcp(host, _)) => Some(host.clone()),
            _ => None,
        };
        let page_connections = if pages.is_empty() { 0 } else { http::CONNECTIONS_MAX };
        let limit = handles::connections_limit(page_connections);
        options.connections_max = handles::lowered(options.connections_max, limit);
        let (stop, stopped) = watch::channel(false);
        let window = options.profile_window;
        let mut threads = Vec::new();
        let curves = window.map(|window| profiling::start(&cache, window, &stopped)).transpose()?;
        let curves = curves.map(|(curves, thread)| {
            threads.push(thread);
            curves
        });
        let mut state = State::new(cache, options, addresses, event_loops, curves);
        state.tls.clone_from(&tls);
        let state = Arc::new(state);
        let (guard, alive) = mpsc::channel(1);
        let (watchdog, failures) = watchdog::new();
        for listener in listeners {
            let host = Acceptor { state: Arc::clone(&state) };
            let run = listener.run(host, tls.clone(), stopped.clone(), guard.clone());
            watchdog.spawn(runtime.handle(), "a listener", run);
        }
        for number in 0..state.reads.len() {
            let state = Arc::clone(&state);
            // After an error or a panic, threads read instead.
            runtime.spawn(async move {
                if let Err(error) = state.reads.answer(number).await {
                    tracing::error!("completions of flash reads are not handled: {error}");
                }
            });
        }
        if let Some(elastic) = state.options.elastic.clone() {
            let (mut sizes, stopped) = (Loop::new(&state, elastic)?, stopped.clone());
            let resize = move || _ = restarting(|| sizes.run(&stopped));
            let thread = tidekv_io::threads::spawn("tide-elastic", resize);
            threads.push(thread.map_err(|error| Error::unavailable("a thread for sizes", error))?);
        }
        let connections_max = state.options.connections_max;
        let strangers =
            Arc::clone(&state.clients).watch_strangers(move || connections_max, stopped.clone());
        watchdog.spawn(runtime.handle(), "the watch over new clients", strangers);
        let upkeep = maintenance::run(state.objects.cache.clone(), stopped.clone());
        watchdog.spawn(runtime.handle(), "the maintenance", upkeep);
        if let Some(host) = page_host {
            let _entered = runtime.enter();
            serve_page(pages, host, &state, (tls.as_ref(), &watchdog), (&stopped, &guard));
        }
        Ok(Self { runtime: Some(runtime), page_url, state, stop, threads, alive, failures })
    }

    /// The listen addresses, with the ports that the system has chosen.
    pub fn local_addresses(&self) -> &[Address] {
        &self.state.addresses
    }

    /// The URL of the page, with the port that the system has chosen.
    pub fn page_url(&self) -> Option<&str> {
        self.page_url.as_deref()
    }

    /// Number of client connections.
    pub fn connections(&self) -> usize {
        self.state.clients.len()
    }

    /// Bytes of incomplete requests, beyond the free allowance of each connection.
    pub fn buffered_bytes(&self) -> usize {
        self.state.budget.used_bytes()
    }

    /// Bytes of replies that clients have not read, beyond the free allowance of each connection.
    pub fn unread_bytes(&self) -> usize {
        self.state.replies.used_bytes()
    }

    /// Pauses the curves, effective within a twentieth of a second, or resumes them with the next
    /// burst that is due; requests in between count as not profiled. Without effect if curves are
    /// off ([`CacheServerOptions::profile_window`]).
    pub fn set_profiling(&self, is_on: bool) {
        if let Some(curves) = &self.state.curves {
            curves.set_profiling(is_on);
        }
    }

    /// Reads the TLS files again: connections that begin afterwards get the new certificate. Without
    /// effect if the server has no TLS.
    ///
    /// # Errors
    ///
    /// If a file is missing or invalid; then the old certificate stays.
    pub fn reload_certificates(&self) -> Result<()> {
        self.state.tls.as_ref().map_or(Ok(()), |tls| tls.reload())
    }

    /// What the server cannot go on without and has panicked: shut the server down then.
    pub fn failures(&self) -> Failures {
        self.failures.clone()
    }

    /// Stops accepting, lets every connection finish the requests that it has received, and closes
    /// all of them; connections that are not done after `deadline` are aborted. Returns whether
    /// none was aborted.
    ///
    /// # Panics
    ///
    /// If called from asynchronous code, which must not block.
    pub fn shutdown(mut self, deadline: Duration) -> bool {
        let _ = self.stop.send(true);
        let Some(runtime) = self.runtime.take() else { return true };
        let drained = threads::drain(runtime, &mut self.alive, deadline);
        self.join();
        drained
    }
}

/// Starts the sampler and the HTTP address. Must be called inside the runtime.
fn serve_page(
    listeners: Vec<TcpListener>,
    host: String,
    state: &Arc<State>,
    (tls, watchdog): (Option<&Arc<Tls>>, &Watchdog),
    (stopped, alive): (&watch::Receiver<bool>, &mpsc::Sender<()>),
) {
    let sampler = Arc::new(Sampler::new(Arc::clone(state)));
    let site = Arc::new(HttpHandler::new(Arc::clone(&sampler), host, stopped.clone()));
    let sample = move || sampler.sample();
    let samples = sampling::every_second(sample, stopped.clone(), alive.clone());
    watchdog.spawn(&Handle::current(), "the sampler", samples);
    http::serve_all(listeners, &site, tls, watchdog, (stopped, alive));
}

impl CacheServer {
    /// Waits for the stopped threads. A panic in one has already been reported.
    fn join(&mut self) {
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for CacheServer {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        self.join();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
