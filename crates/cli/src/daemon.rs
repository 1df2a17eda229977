//! What commands have in common that run until a signal ends them: signals, the log, and
//! arguments of sockets.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidekv_net::{Address, DEFAULT_HTTP_PORT, TlsFiles};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::environment;
use crate::failure::{Failure, Result};

/// Requests under way get so long when a signal has come.
pub const DRAIN: Duration = Duration::from_secs(10);

/// The files of TLS.
#[derive(Debug, clap::Args)]
pub struct TlsArguments {
    /// The certificate chain (PEM): all TCP connections are then TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Clients must show a certificate signed by one of these (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsArguments {
    /// The files, if there are to be any.
    pub fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            client_authorities: self.tls_client_ca.clone(),
        })
    }
}

/// The address of a page, of which the port may be left out.
pub fn page_address(text: &str) -> tidekv_net::Result<Address> {
    Address::with_port(text, DEFAULT_HTTP_PORT)
}

/// What is logged where nobody has said what is to be: warnings, and changes of size with their reasons.
const USUALLY_LOGGED: &str = "warn,tidekv_memcached::elastic=info";

/// Logs what is worth it.
pub fn log_to_standard_error() {
    let said = std::env::var(environment::LOG);
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing_subscriber::filter::LevelFilter::WARN.into())
        .parse_lossy(said.as_deref().unwrap_or(USUALLY_LOGGED));
    // Fails only when there is a subscriber already.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}

/// SIGTERM and SIGINT.
pub struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on they are caught.
    pub fn new() -> Result<Self> {
        let failed = |error: std::io::Error| Failure::system("could not wait for signals", &error);
        // One worker, so that signals are seen while this thread is busy.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("signals")
            .enable_io()
            .build()
            .map_err(failed)?;
        let guard = runtime.enter();
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        drop(guard);
        Ok(Self { runtime, terminate, interrupt })
    }

    /// Waits until one comes.
    pub fn wait(&mut self) {
        let Self { runtime, terminate, interrupt } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
    }

    /// A flag that is raised when one comes; the next one ends the process. Lives as long as
    /// `self`.
    pub fn stop_flag(&mut self) -> Arc<AtomicBool> {
        let stop = Arc::new(AtomicBool::new(false));
        let guard = self.runtime.enter();
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            // They were caught before, so they can be again.
            let Ok(mut signal) = signal(kind) else { continue };
            let stop = Arc::clone(&stop);
            self.runtime.spawn(async move {
                while signal.recv().await.is_some() {
                    if stop.swap(true, Ordering::Relaxed) {
                        std::process::exit(i32::from(crate::failure::FAILED));
                    }
                }
            });
        }
        drop(guard);
        stop
    }

    /// Ends the process when another one comes. Dropped with the runtime.
    pub fn exit_on_the_next(&mut self) {
        let guard = self.runtime.enter();
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            // They were caught before, so they can be again.
            let Ok(mut signal) = signal(kind) else { continue };
            self.runtime.spawn(async move {
                signal.recv().await;
                std::process::exit(i32::from(crate::failure::FAILED));
            });
        }
        drop(guard);
    }
}
