//! The public API of the server: start, addresses, shutdown.
//!
//! It owns its runtime: event loops and I/O threads. Its API is synchronous.

use std::sync::Arc;
use std::time::Duration;

use tidekv::Db;
use tidekv_net::address::Address;
use tidekv_net::error::Result;
use tidekv_net::handles;
use tidekv_net::http;
use tidekv_net::listener::{self, Exposure, Listener};
use tidekv_net::threads;
use tidekv_net::tls::Tls;
use tidekv_net::watchdog::{self, Failures, Watchdog};
use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::clients::acceptor::Acceptor;
use crate::data::sweep;
use crate::dispatch::group_commit::GroupCommit;
use crate::observe::page::Page;
use crate::observe::sampler::Sampler;
use crate::options::ServerOptions;
use crate::state::forecast;
use crate::state::server_state::State;

/// Interval of sweeps, which remove the parts of deleted values.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// A running server. Dropping it ends all connections at once;
/// [`Server::shutdown`] lets them finish.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let disk = std::sync::Arc::new(tidekv::MemoryStorage::new());
/// # let environment = tidekv::Environment::default().storage(disk);
/// # let options = tidekv::Options::default().environment(environment);
/// use std::time::Duration;
/// use tidekv_resp::{Server, ServerOptions};
///
/// let db = tidekv::Db::open("data", options)?;
/// let listen = vec!["127.0.0.1:0".parse()?];
/// let server = Server::start(db.clone(), ServerOptions { listen, ..Default::default() })?;
/// println!("listening on {}", server.local_addresses()[0]);
/// server.shutdown(Duration::from_secs(10));
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    runtime: Option<Runtime>,
    addresses: Vec<Address>,
    page_url: Option<String>,
    state: Arc<State>,
    stop: watch::Sender<bool>,
    /// Ends when the last connection has.
    alive: mpsc::Receiver<()>,
    failures: Failures,
}

impl Server {
    /// Binds the addresses of `options` and serves `db` on them.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound or is public without authentication, a TLS file is missing or
    /// invalid, or the store cannot open its keyspaces.
    pub fn start(db: Db, options: ServerOptions) -> Result<Self> {
        let event_loops = threads::event_loops(options.event_loops);
        let runtime = threads::runtime("tide-server", event_loops, options.io_threads)?;
        let tls = options.tls.as_ref().map(Tls::new).transpose()?;
        let exposure =
            Exposure::of(options.password.is_some(), options.tls.as_ref(), options.insecure);
        let listeners = runtime.block_on(listener::bind_all(&options.listen, exposure))?;
        let pages = runtime.block_on(listener::bind_page(options.http.as_ref(), exposure))?;
        let page_url =
            pages.first().map(|page| listener::url_of(page, tls.is_some())).transpose()?;
        let addresses = listeners.iter().map(Listener::address).collect::<Result<Vec<_>>>()?;
        let port = addresses.iter().find_map(|address| match address {
            Address::Tcp(_, port) => Some(*port),
            Address::Unix(_) => None,
        });
        let mut state = State::new(db, &options, port.unwrap_or(0))?;
        state.tls.clone_from(&tls);
        let state = Arc::new(state);
        let page_connections = if pages.is_empty() { 0 } else { http::CONNECTIONS_MAX };
        let open = state.db.statistics().counter("files.open");
        let files = (state.db.max_open_files(), usize::try_from(open).unwrap_or(usize::MAX));
        let connections = handles::connections_limit_beside(page_connections, files);
        state.settings.limit_connections(connections);
        let group_commit = Arc::new(GroupCommit::new(Arc::clone(&state)));
        let (stop, stopped) = watch::channel(false);
        forecast::start(&state, &stopped)?;
        let (guard, alive) = mpsc::channel(1);
        let (watchdog, failures) = watchdog::new();
        for listener in listeners {
            let host =
                Acceptor { state: Arc::clone(&state), group_commit: Arc::clone(&group_commit) };
            let run = listener.run(host, tls.clone(), stopped.clone(), guard.clone());
            watchdog.spawn(runtime.handle(), "a listener", run);
        }
        if let Some(Address::Tcp(host, _)) = &options.http {
            let _entered = runtime.enter();
            serve_page(pages, host, &state, (tls.as_ref(), &watchdog), (&stopped, &guard));
        }
        let settings = Arc::clone(&state);
        let strangers = Arc::clone(&state.clients)
            .watch_strangers(move || settings.settings.connections_max(), stopped.clone());
        watchdog.spawn(runtime.handle(), "the watch over new clients", strangers);
        let sweeps = sweep_regularly(Arc::clone(&state), stopped, guard);
        watchdog.spawn(runtime.handle(), "the removal of deleted values", sweeps);
        Ok(Self { runtime: Some(runtime), addresses, page_url, state, stop, alive, failures })
    }

    /// The listen addresses, with the ports that the system has chosen.
    pub fn local_addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The URL of the page, with the port that the system has chosen.
    pub fn page_url(&self) -> Option<&str> {
        self.page_url.as_deref()
    }

    /// Number of client connections.
    pub fn connections(&self) -> usize {
        self.state.clients.len()
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
    /// none was aborted. The store remains open.
    ///
    /// # Panics
    ///
    /// If called from asynchronous code, which must not block.
    pub fn shutdown(mut self, deadline: Duration) -> bool {
        let _ = self.stop.send(true);
        self.state.pause.end();
        let Some(runtime) = self.runtime.take() else { return true };
        threads::drain(runtime, &mut self.alive, deadline)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts the sampler and the HTTP address. Must be called inside the runtime.
fn serve_page(
    listeners: Vec<TcpListener>,
    host: &str,
    state: &Arc<State>,
    (tls, watchdog): (Option<&Arc<Tls>>, &Watchdog),
    (stopped, alive): (&watch::Receiver<bool>, &mpsc::Sender<()>),
) {
    let sampler = Arc::new(Sampler::new(Arc::clone(state)));
    let page = Arc::new(Page::new(Arc::clone(&sampler), host, stopped.clone()));
    let samples = sampler.run(stopped.clone(), alive.clone());
    watchdog.spawn(&Handle::current(), "the sampler", samples);
    http::serve_all(listeners, &page, tls, watchdog, (stopped, alive));
}

async fn sweep_regularly(
    state: Arc<State>,
    mut stopped: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            _ = ticks.tick() => {}
        }
        let Ok(permit) = state.walks.clone().acquire_owned().await else { break };
        let sweeper = Arc::clone(&state);
        let swept = tokio::task::spawn_blocking(move || {
            let swept = sweep::sweep(&sweeper);
            drop(permit);
            swept
        });
        match swept.await {
            Ok(Ok(count)) if count == sweep::NOTES_MAX => ticks.reset_immediately(),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!("the parts of deleted values could not be removed: {error:?}")
            }
            // Reported by the panic hook; the next turn tries again.
            Err(error) if error.is_panic() => {}
            Err(_) => break,
        }
    }
    drop(alive);
}
