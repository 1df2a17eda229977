//! The common parts of the commands that run until a signal ends them: signals, and
//! TLS and address arguments.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidekv_net::watchdog::Failures;
use tidekv_net::{Address, DEFAULT_HTTP_PORT, TlsFiles};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Result};
use crate::log;

/// Time for the requests in progress to finish after a signal.
pub const DRAIN: Duration = Duration::from_secs(10);

/// The files of TLS.
#[derive(Debug, clap::Args)]
pub struct TlsArguments {
    /// Certificate chain (PEM); turns on TLS for all TCP connections.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Certificate authorities (PEM); clients must present a certificate that one of them signed.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsArguments {
    /// The files, if TLS is on.
    pub fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            client_authorities: self.tls_client_ca.clone(),
        })
    }
}

/// The address of a status page; its port is optional.
pub fn page_address(text: &str) -> tidekv_net::Result<Address> {
    Address::with_port(text, DEFAULT_HTTP_PORT)
}

/// SIGTERM, SIGINT and SIGHUP.
pub struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Catches the signals from now on.
    pub fn new() -> Result<Self> {
        let failed = |error: std::io::Error| Failure::system("could not wait for signals", &error);
        // One worker, to receive signals while this thread is busy.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("signals")
            .enable_io()
            .build()
            .map_err(failed)?;
        let guard = runtime.enter();
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let hang_up = signal(SignalKind::hangup()).map_err(failed)?;
        drop(guard);
        Ok(Self { runtime, terminate, interrupt, hang_up })
    }

    /// Waits for SIGTERM or SIGINT; or until a part of the server fails without which it cannot go
    /// on, which is the error. SIGHUP makes the server read its certificates again (`reload`).
    pub fn wait(
        &mut self,
        mut failures: Failures,
        reload: impl Fn() -> tidekv_net::Result<()>,
    ) -> Result<()> {
        let Self { runtime, terminate, interrupt, hang_up } = self;
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return Ok(()),
                    _ = interrupt.recv() => return Ok(()),
                    name = failures.next() => {
                        let why = format!("the server was stopped: {name} had panicked");
                        return Err(Failure::new(why));
                    }
                    _ = hang_up.recv() => match reload() {
                        Ok(()) => tracing::info!("read the certificates again"),
                        Err(error) => tracing::error!("the old certificates stay: {error}"),
                    }
                }
            }
        })
    }

    /// A flag that the first signal raises; the next one ends the process. Lives as long as
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
                        exit_at_once();
                    }
                }
            });
        }
        drop(guard);
        stop
    }

    /// Makes the next signal end the process. Dropped with the runtime.
    pub fn exit_on_the_next(&mut self) {
        let guard = self.runtime.enter();
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            // They were caught before, so they can be again.
            let Ok(mut signal) = signal(kind) else { continue };
            self.runtime.spawn(async move {
                signal.recv().await;
                exit_at_once();
            });
        }
        drop(guard);
    }
}

fn exit_at_once() {
    log::finish();
    std::process::exit(i32::from(crate::failure::FAILED));
}
