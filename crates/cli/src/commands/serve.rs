//! `serve`: the store over the Redis protocol, until a signal ends it.
//!
//! SIGTERM and Ctrl-C end it cleanly: no more connections, requests that are
//! under way are answered, the store is closed. A second signal ends it at
//! once; what was acknowledged is safe even then, as far as the durability
//! goes.

use std::path::PathBuf;
use std::time::Duration;

use tidekv::{CachePolicy, Db, Durability, FilterKind, Options};
use tidekv_resp::{Address, Server, ServerOptions};

use crate::daemon::{DRAIN, Signals, TlsArguments, log_to_standard_error, page_address};
use crate::environment;
use crate::failure::{Failure, Result};
use crate::files;
use crate::output;
use crate::quantity::{parse_duration, parse_size, show_size};

/// What a reply to a write means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DurabilityArgument {
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

    /// How the caches share their memory: `adaptive` moves it to where it saves the most
    /// reads; `block-only`, `kv-only`, `kp-only` and `fixed:KV,KP,BLOCK` (hundredths of
    /// values, pointers and blocks) do not. To compare with: `ac-key` and `ac-key:K,THETA`
    /// (AC-Key), `ac-key-fixed:KV,KP,BLOCK` (its caches, with boundaries that stay), `block-clock`
    /// and `block-s3-fifo`, and for the lab `adaptive-without:MECHANISM[,MECHANISM...]`.
    #[arg(long, value_name = "POLICY", default_value_t)]
    cache_policy: CachePolicy,

    /// The kind of filters of new tables. With `cuckoo`, absent keys that are asked for again and
    /// again soon cost no reads; `bloom` takes half a bit a key less. Kept in the store
    /// [default: bloom in a new store].
    #[arg(long, value_enum, value_name = "KIND")]
    filter: Option<Filter>,

    /// What a reply to a write means.
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Buffered)]
    durability: DurabilityArgument,

    /// Where to listen: host:port or unix:PATH; may be given many times.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6379",
        value_parser = |text: &str| text.parse::<Address>().map_err(|error| error.to_string()))]
    listen: Vec<Address>,

    /// Where to show a page on what goes on, with metrics for Prometheus below
    /// /metrics: host:port, or a host alone for port 8379.
    #[arg(long, value_name = "ADDR",
        value_parser = |text: &str| page_address(text).map_err(|error| error.to_string()))]
    http: Option<Address>,

    /// How long a window is of which miss-ratio curves are made, for the page, `INFO mrc` and `tidekv
    /// plan --live`; 0: none are.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    profile_window: Duration,

    /// What clients must give to AUTH, and browsers to the page. Others see it in the list of processes:
    /// better use a file or TIDEKV_PASSWORD.
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    password: Option<String>,

    /// A file whose first line is the password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    #[command(flatten)]
    tls: TlsArguments,

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
            DurabilityArgument::Buffered => Durability::Buffered,
            DurabilityArgument::Sync => Durability::Sync,
        };
        let server_options = ServerOptions {
            listen: self.listen.clone(),
            http: self.http.clone(),
            password: self.password()?,
            tls: self.tls.files(),
            connections_max: self.connections_max,
            idle_timeout: Some(self.idle_timeout).filter(|time| !time.is_zero()),
            filter_kind: self.filter.map(|filter| match filter {
                Filter::Bloom => FilterKind::Bloom,
                Filter::Cuckoo => FilterKind::Cuckoo,
            }),
            durability,
            profile_window: Some(self.profile_window).filter(|time| !time.is_zero()),
            insecure: self.insecure,
            ..ServerOptions::default()
        };
        log_to_standard_error();
        let mut signals = Signals::new()?;
        let (memory_bytes, cache_policy) = (self.memory, self.cache_policy);
        let mut options = Options::default().cache_policy(cache_policy).durability(durability);
        options.memory_bytes = memory_bytes;
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
            DurabilityArgument::Buffered => "survives a killed process, not a power cut",
            DurabilityArgument::Sync => "survives a power cut",
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
}
