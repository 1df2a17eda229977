//! `serve`: the store over the Redis protocol, until a signal ends it.
//!
//! SIGTERM and Ctrl-C end it cleanly: no more connections, requests that are
//! under way are answered, the store is closed. A second signal ends it at
//! once; what was acknowledged is safe even then, as far as the durability
//! goes.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use tidekv::{CachePolicy, Db, Durability, FilterKind, Options};
use tidekv_server::{Address, DEFAULT_HTTP_PORT, Server, ServerOptions, TlsFiles};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::environment;
use crate::failure::{Failure, Result};
use crate::files;
use crate::output;
use crate::quantity::{parse_duration, parse_size, show_size};

/// Requests under way get so long when a signal has come.
const DRAIN: Duration = Duration::from_secs(10);

/// What a reply to a write means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Promise {
    /// The write survives the death of the process, not a power cut.
    Buffered,
    /// The write is on stable storage and survives a power cut.
    Sync,
}

/// How filters of tables are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Filter {
    /// Blocked Bloom filters.
    Bloom,
    /// Cuckoo filters that unlearn.
    Cuckoo,
}

/// Serve a store over the Redis protocol.
///
/// Ends cleanly on SIGTERM and Ctrl-C; a second signal ends it at once.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tidekv serve --data ./data --memory 4GiB --http localhost\n  \
    tidekv serve --listen 10.0.0.5:6379 --password-file secret --tls-cert cert.pem --tls-key key.pem"
)]
pub struct Serve {
    /// The data directory; created when it is missing.
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,

    /// Memory for everything: caches, memtables, metadata [default: a quarter
    /// of the machine's].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,

    /// How the caches share their memory: `tide` moves it to where it saves the most
    /// reads; `block-only`, `kv-only`, `kp-only` and `fixed:KV,KP,BLOCK` (hundredths of
    /// values, pointers and blocks) do not. To compare with: `hac` and `hac:K,THETA`
    /// (AC-Key), `offline:KV,KP,BLOCK` (its caches, with boundaries that stay), `block-clock`
    /// and `block-s3-fifo`, and for the lab `tide-without:IDEA[,IDEA...]`.
    #[arg(long, value_name = "POLICY", default_value_t)]
    cache_policy: CachePolicy,

    /// The kind of filters of new tables. With `cuckoo`, absent keys that are asked for again and
    /// again soon cost no reads; `bloom` takes half a bit a key less. Kept in the store
    /// [default: bloom in a new store].
    #[arg(long, value_enum, value_name = "KIND")]
    filter: Option<Filter>,

    /// What a reply to a write means.
    #[arg(long, value_enum, default_value_t = Promise::Buffered)]
    durability: Promise,

    /// Where to listen: host:port or unix:PATH; may be given many times.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6379",
        value_parser = |text: &str| text.parse::<Address>().map_err(|error| error.to_string()))]
    listen: Vec<Address>,

    /// Where to show a page on what goes on, with metrics for Prometheus below
    /// /metrics: host:port, or a host alone for port 8379.
    #[arg(long, value_name = "ADDR",
        value_parser = |text: &str| page_address(text).map_err(|error| error.to_string()))]
    http: Option<Address>,

    /// What clients must give to AUTH, and browsers to the page. Others see it in the list of processes:
    /// better use a file or TIDEKV_PASSWORD.
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    password: Option<String>,

    /// A file whose first line is the password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// The certificate chain (PEM): all TCP connections are then TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Clients must show a certificate signed by one of these (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,

    /// Connections at once; one more is refused.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections_max: usize,

    /// Close a connection that has sent nothing for so long, such as 5m; 0:
    /// never.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    idle_timeout: Duration,

    /// Start on a public address even without a password.
    #[arg(long)]
    insecure: bool,
}

impl Serve {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let durability = match self.durability {
            Promise::Buffered => Durability::Buffered,
            Promise::Sync => Durability::Sync,
        };
        let server_options = ServerOptions {
            listen: self.listen.clone(),
            http: self.http.clone(),
            password: self.password()?,
            tls: self.tls(),
            connections_max: self.connections_max,
            idle_timeout: Some(self.idle_timeout).filter(|time| !time.is_zero()),
            filter_kind: self.filter.map(|filter| match filter {
                Filter::Bloom => FilterKind::Bloom,
                Filter::Cuckoo => FilterKind::Cuckoo,
            }),
            durability,
            insecure: self.insecure,
            ..ServerOptions::default()
        };
        log_to_standard_error();
        let mut signals = Signals::new()?;
        let (memory_bytes, cache_policy) = (self.memory, self.cache_policy);
        let options = Options { memory_bytes, cache_policy, durability, ..Options::default() };
        let db = Db::open(&self.data, options)?;
        let server = Server::start(db.clone(), server_options)?;
        output::line(&self.greeting(&db, &server))?;
        signals.wait();
        signals.exit_on_the_next();
        server.shutdown(DRAIN);
        Ok(db.close()?)
    }

    fn greeting(&self, db: &Db, server: &Server) -> String {
        let addresses: Vec<_> = server.local_addresses().iter().map(Address::to_string).collect();
        let promise = match self.durability {
            Promise::Buffered => "survives a killed process, not a power cut",
            Promise::Sync => "survives a power cut",
        };
        let page = server.page_url().map(|url| format!("; page at {url}")).unwrap_or_default();
        format!(
            "listening on {}{page}; data in {}, memory {}; a write that was replied to {promise}",
            addresses.join(", "),
            self.data.display(),
            show_size(db.memory_bytes()),
        )
    }

    fn password(&self) -> Result<Option<String>> {
        if let Some(path) = &self.password_file {
            let text = files::read_text(path)?;
            let password = text.lines().next().unwrap_or_default();
            if password.is_empty() {
                let message = format!("{} has no password in its first line", path.display());
                return Err(Failure::new(message));
            }
            return Ok(Some(password.into()));
        }
        if self.password.is_some() {
            return Ok(self.password.clone());
        }
        match std::env::var(environment::PASSWORD) {
            Ok(password) => Ok(Some(password)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(_) => Err(Failure::new(format!("{} is not UTF-8", environment::PASSWORD))),
        }
    }

    fn tls(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            client_authorities: self.tls_client_ca.clone(),
        })
    }
}

fn page_address(text: &str) -> tidekv_server::Result<Address> {
    Address::with_port(text, DEFAULT_HTTP_PORT)
}

fn log_to_standard_error() {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_env_var(environment::LOG)
        .with_default_directive(tracing_subscriber::filter::LevelFilter::WARN.into())
        .from_env_lossy();
    // Fails only when there is a subscriber already.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}

/// SIGTERM and SIGINT.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on they are caught.
    fn new() -> Result<Self> {
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

    fn wait(&mut self) {
        let Self { runtime, terminate, interrupt } = self;
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
    }

    /// Ends the process when another one comes. Dropped with the runtime.
    fn exit_on_the_next(&mut self) {
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
