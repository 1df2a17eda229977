//! `serve`: the store over the Redis protocol, until a signal ends it.
//!
//! SIGTERM and Ctrl-C shut it down cleanly: it accepts no more connections, answers
//! the requests in progress and closes the store. A second signal ends it at
//! once; acknowledged writes are safe even then, as far as the durability
//! setting guarantees.

use std::path::PathBuf;
use std::time::Duration;

use tidekv::{CachePolicy, Db, Durability, FilterKind, Options};
use tidekv_net::{handles, http};
use tidekv_resp::{Address, Server, ServerOptions};

use crate::daemon::{DRAIN, Signals, TlsArguments, page_address};
use crate::environment;
use crate::failure::{Failure, Result};
use crate::files;
use crate::log;
use crate::output;
use crate::quantity::{parse_duration, parse_size, show_size};
use crate::store;

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DurabilityArgument {
    /// Once the operating system has it: it survives a crash of the process, not a power cut.
    Buffered,
    /// Once it is on stable storage: it survives a power cut.
    Sync,
}

/// The filters of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Filter {
    /// Blocked Bloom filters.
    Bloom,
    /// Cuckoo filters that repair their false positives.
    Cuckoo,
}

/// Serve a store over the Redis protocol.
///
/// SIGTERM and Ctrl-C shut it down cleanly; a second signal ends it at once.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tidekv serve --data ./data --memory 4GiB --http localhost\n  \
    tidekv serve --listen 10.0.0.5:6379 --password-file secret --tls-cert cert.pem --tls-key key.pem"
)]
pub struct Serve {
    /// Data directory; created if missing.
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,

    /// Memory budget for caches, memtables, keyspaces, metadata, requests and replies, such as 4GiB
    /// [default: a quarter of the machine's memory]. The program itself takes up to 64 MiB more.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,

    /// How the caches share their memory: `adaptive` moves memory to the cache where it saves the
    /// most reads. `block-only` has a block cache only, `kv-only` a value cache only, `kp-only` a
    /// pointer cache only; `fixed:KV,KP,BLOCK` gives fixed percentages to values, pointers and blocks,
    /// such as fixed:20,10,70; `ac-key` is AC-Key's adaptive cache, for comparison. `tidekv-lab`
    /// documents further policies for research.
    #[arg(long, value_name = "POLICY", default_value_t)]
    cache_policy: CachePolicy,

    /// Filters of new tables. With `cuckoo`, repeated lookups of an absent key soon cost no reads;
    /// `bloom` takes half a bit less per key. The store records the choice [default: bloom in a
    /// new store].
    #[arg(long, value_enum, value_name = "KIND")]
    filter: Option<Filter>,

    /// When a write is acknowledged.
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Buffered)]
    durability: DurabilityArgument,

    /// Address to listen on: host:port or unix:PATH; repeatable.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6379",
        value_parser = |text: &str| text.parse::<Address>().map_err(|error| error.to_string()))]
    listen: Vec<Address>,

    /// Address of the status page, with Prometheus metrics at /metrics: host:port, or a host
    /// alone for port 8379 [default: none].
    #[arg(long, value_name = "ADDR",
        value_parser = |text: &str| page_address(text).map_err(|error| error.to_string()))]
    http: Option<Address>,

    /// Length of a profiling window. At the end of each, the server computes miss-ratio curves for
    /// the status page, `INFO mrc` and `tidekv plan --live`; 0 turns profiling off.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    profile_window: Duration,

    /// Password for AUTH and for the status page. Other users see it in the process list:
    /// prefer --password-file or TIDEKV_PASSWORD.
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    password: Option<String>,

    /// File whose first line is the password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    #[command(flatten)]
    tls: TlsArguments,

    /// Maximum number of concurrent client connections; the server rejects further ones.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections_max: usize,

    /// Maximum number of table files that are open at a time; more are closed, and opened again when
    /// they are read [default: the file handles that connections leave, at least 1024 or half].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_open_files: Option<u32>,

    /// Idle timeout: close a connection that has sent no data for this time, such as 5m; 0 means
    /// never.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    idle_timeout: Duration,

    /// Directory below which clients may make checkpoints (TIDE.CHECKPOINT, SAVE, BGSAVE); created
    /// if missing, and outside of --data [default: none, they may not].
    #[arg(long, value_name = "DIR")]
    checkpoint_dir: Option<PathBuf>,

    /// Allow a non-local address without a password.
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
            checkpoint_directory: self.checkpoint_dir.clone(),
            insecure: self.insecure,
            ..ServerOptions::default()
        };
        log::start();
        let mut signals = Signals::new()?;
        let page_connections = if self.http.is_some() { http::CONNECTIONS_MAX } else { 0 };
        let max_open_files = self.max_open_files.map_or_else(
            || handles::table_files(self.connections_max, page_connections),
            |files| handles::table_files_at_most(files as usize, page_connections),
        );
        let options = Options::default()
            .cache_policy(self.cache_policy)
            .durability(durability)
            .memory_bytes(self.memory.unwrap_or_else(store::server_memory_bytes))
            .max_open_files(max_open_files);
        let db = Db::open(&self.data, options)?;
        let server = Server::start(db.clone(), server_options)?;
        output::line(&self.greeting(&db, &server))?;
        let ended = signals.wait(server.failures(), || server.reload_certificates());
        signals.exit_on_the_next();
        server.shutdown(DRAIN);
        db.close()?;
        ended
    }

    fn greeting(&self, db: &Db, server: &Server) -> String {
        let addresses: Vec<_> = server.local_addresses().iter().map(Address::to_string).collect();
        let durability = match self.durability {
            DurabilityArgument::Buffered => {
                "buffered (acknowledged writes survive a process crash, not a power cut)"
            }
            DurabilityArgument::Sync => "sync (acknowledged writes survive a power cut)",
        };
        let page = server.page_url().map(|url| format!("; page at {url}")).unwrap_or_default();
        format!(
            "listening on {}{page}; data in {}, memory {}, durability {durability}",
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
                let message = format!("{}: the first line has no password", path.display());
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
