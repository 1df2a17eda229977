//! `cache`: a cache over the memcached protocol, until a signal ends it.
//!
//! SIGTERM and Ctrl-C end it cleanly: no more connections, requests that are under way are
//! answered, and what is in DRAM is brought to flash. A second signal ends it at once; nothing is
//! lost that was promised, for a cache promises nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, LocalStorage, Storage, SystemClock};
use tidekv_memcached::{
    Address, CacheServer, CacheServerOptions, DEFAULT_CACHE_PORT, ElasticGoal, ElasticOptions,
    OffsetClock, Users,
};
use tidekv_tiered::{Environment, Eviction, FlashOptions, Options, TenantOptions};

use crate::daemon::{DRAIN, Signals, TlsArguments, log_to_standard_error, page_address};
use crate::failure::{Failure, Result};
use crate::files;
use crate::output;
use crate::quantity::{count, parse_duration, parse_micros, parse_size, show_size};
use crate::terms::Terms;

/// The largest value that can be allowed: its length is a number of 31 bits in memcached.
const OBJECT_BYTES_MAX: u64 = 1 << 30;

/// In which order objects leave the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// What has come lately proves itself in a small queue first (S3-FIFO).
    S3Fifo,
    /// What saves the least for each of its bytes, by how often it is asked for and whether
    /// flash has it: more hits where sizes differ, of fewer bytes (GreedyDual).
    GreedyDual,
    /// The least recently used.
    Lru,
    /// About the least recently used, with less work for a hit (CLOCK).
    Clock,
}

impl From<Order> for Eviction {
    fn from(order: Order) -> Self {
        match order {
            Order::S3Fifo => Self::S3Fifo,
            Order::GreedyDual => Self::GreedyDual,
            Order::Lru => Self::Lru,
            Order::Clock => Self::Clock,
        }
    }
}

/// Serve a cache over the memcached protocol.
///
/// Ends cleanly on SIGTERM and Ctrl-C; a second signal ends it at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv cache --dram 4GiB --http localhost\n  \
    tidekv cache --dram 1GiB --flash /mnt/nvme/cache:100GiB --object-max 8MiB\n  \
    tidekv cache --dram 4GiB --flash /mnt/nvme/cache:100GiB --elastic 300us\n  \
    tidekv cache --dram 4GiB --tenant shop=shop: --tenant-dram shop=1GiB\n  \
    tidekv cache --dram 1GiB --listen 10.0.0.5 --auth-file users --tls-cert cert.pem --tls-key key.pem")]
pub struct Cache {
    /// Memory for objects, and for the index of those on flash.
    #[arg(long, short = 'm', value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    dram: u64,

    /// A file or block device behind the memory, and how much of it may be used; may be given many
    /// times. Beside a file stands another one with its metadata. For values from about 1 KiB
    /// on: a byte of one takes 1.2 bytes of flash there, 1.7 at 256 bytes, 3.4 at 64.
    #[arg(long, value_name = "FILE:SIZE", value_parser = parse_flash)]
    flash: Vec<FlashOptions>,

    /// In which order objects leave the memory.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::S3Fifo)]
    eviction: Order,

    /// How large objects are on average, about: flash has an index for as many as fit.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    avg_object_size: u64,

    /// Of the memory, what hot entries and changes of flash's index may take [default: a
    /// sixteenth].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    flash_index: Option<u64>,

    /// How much may be written to flash in a second, on average [default: no bound].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    flash_writes: Option<u64>,

    /// Keys that begin with PREFIX are a tenant's, who has DRAM and flash of its own; may be given
    /// many times.
    #[arg(long, value_name = "NAME=PREFIX", value_parser = parse_pair)]
    tenant: Vec<(String, String)>,

    /// How much of the DRAM a tenant has [default: the same as each other, and as all other keys
    /// together].
    #[arg(long, value_name = "NAME=SIZE", value_parser = parse_share)]
    tenant_dram: Vec<(String, u64)>,

    /// How much of the flash a tenant has [default: as for --tenant-dram].
    #[arg(long, value_name = "NAME=SIZE", value_parser = parse_share)]
    tenant_flash: Vec<(String, u64)>,

    /// A file that outlives this process, but not the machine's run: with it, or with more than
    /// one --flash, flash is warm again after a kill [default: one in /dev/shm].
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// The largest value that is taken, up to 1GiB.
    #[arg(long, short = 'I', value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    object_max: u64,

    /// Where to listen: host:port, a host alone for port 11211, or unix:PATH; may be given many
    /// times.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:11211",
        value_parser = |text: &str| address(text).map_err(|error| error.to_string()))]
    listen: Vec<Address>,

    /// Where to show a page that says what the cache does, and below /metrics the same for
    /// Prometheus: host:port, or a host alone for port 8379.
    #[arg(long, value_name = "ADDR",
        value_parser = |text: &str| page_address(text).map_err(|error| error.to_string()))]
    http: Option<Address>,

    /// How long a window is of which miss-ratio curves are made, for the page, `stats mrc` and `tidekv
    /// plan --live`; 0: none are.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    profile_window: Duration,

    /// Change the sizes of the cache after each window, up to what is given here, so that requests take
    /// such a time on average for the least money, of all tenants or of one; or, with a number,
    /// so that it is as fast as can be for that much (repeatable).
    #[arg(long, value_name = "[NAME=]TIME|COST")]
    elastic: Vec<String>,

    #[command(flatten)]
    terms: Terms,

    /// A file with a line `user:password` for each who may use the cache. A client says who it
    /// is by storing `user password` under any key, first of all.
    #[arg(long, short = 'Y', value_name = "FILE")]
    auth_file: Option<PathBuf>,

    #[command(flatten)]
    tls: TlsArguments,

    /// Connections at once; one more is refused.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 10_000)]
    connections_max: usize,

    /// Close a connection that has sent nothing for so long, such as 5m; 0:
    /// never.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    idle_timeout: Duration,

    /// Let clients end the server with `shutdown`.
    #[arg(long, short = 'A')]
    enable_shutdown: bool,

    /// Let clients move the clock with `debugtime`, for tests.
    #[arg(long)]
    debugtime: bool,

    /// Start on a public address even without an --auth-file.
    #[arg(long)]
    insecure: bool,
}

impl Cache {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        if self.object_max > OBJECT_BYTES_MAX {
            let most = show_size(OBJECT_BYTES_MAX);
            return Err(Failure::usage(format!("--object-max: values have at most {most}")));
        }
        let moved =
            self.debugtime.then(|| Arc::new(OffsetClock::new(Arc::new(SystemClock::new()))));
        let server_options = CacheServerOptions {
            listen: self.listen.clone(),
            http: self.http.clone(),
            users: self.users()?,
            tls: self.tls.files(),
            connections_max: self.connections_max,
            idle_timeout: Some(self.idle_timeout).filter(|time| !time.is_zero()),
            clock: moved.clone(),
            elastic: self.elastic()?,
            profile_window: Some(self.profile_window).filter(|time| !time.is_zero()),
            on_shutdown: self.enable_shutdown.then_some(end_this_process as fn()),
            insecure: self.insecure,
            ..CacheServerOptions::default()
        };
        log_to_standard_error();
        let mut signals = Signals::new()?;
        let clock: Arc<dyn Clock> = match moved {
            Some(moved) => moved,
            None => Arc::new(SystemClock::new()),
        };
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new());
        let options = Options {
            dram_bytes: self.dram,
            flash: self.flash.clone(),
            object_bytes_max: self.object_max,
            eviction: self.eviction.into(),
            avg_object_bytes: self.avg_object_size,
            index_bytes: self.flash_index,
            flash_writes_bytes_per_s: self.flash_writes,
            state: self.state_file(&storage),
            tenants: self.tenants()?,
            ..Options::default()
        };
        let around = Environment::new(storage, clock);
        let cache = tidekv_tiered::Cache::open(&options, &around)?;
        let server = CacheServer::start(cache.clone(), server_options)?;
        output::line(&self.greeting(&server, &cache))?;
        signals.wait();
        signals.exit_on_the_next();
        server.shutdown(DRAIN);
        cache.close();
        Ok(())
    }

    /// How it changes its sizes by itself, if it does.
    fn elastic(&self) -> Result<Option<ElasticOptions>> {
        if self.elastic.is_empty() {
            return Ok(None);
        }
        if self.profile_window.is_zero() {
            return Err(Failure::usage("--elastic needs windows: --profile-window is 0"));
        }
        let (mut all, mut of, mut cost) = (None, Vec::new(), None);
        for text in &self.elastic {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            match (text.split_once('='), number) {
                (None, Some(number)) if number >= 0.0 => cost = Some(number),
                (Some((name, time)), _) => {
                    of.push((name.to_owned(), parse_micros(time).map_err(Failure::usage)?));
                }
                (None, _) => all = Some(parse_micros(text).map_err(Failure::usage)?),
            }
        }
        let goal = match cost {
            Some(_) if all.is_some() || !of.is_empty() => {
                return Err(Failure::usage("--elastic keeps times or a cost, not both"));
            }
            Some(cost) => ElasticGoal::Cost(cost),
            None => ElasticGoal::Latency { all, of },
        };
        let (prices, latencies) = (self.terms.prices()?, self.terms.latencies()?);
        Ok(Some(ElasticOptions { goal, prices, latencies }))
    }

    fn tenants(&self) -> Result<Vec<TenantOptions>> {
        let shares = self.tenant.len() as u64 + 1;
        let flash_bytes: u64 = self.flash.iter().map(|flash| flash.bytes).sum();
        let all = [("--tenant-dram", &self.tenant_dram), ("--tenant-flash", &self.tenant_flash)];
        for (flag, given) in all {
            let is_known = |name: &String| self.tenant.iter().any(|(tenant, _)| tenant == name);
            if let Some((name, _)) = given.iter().find(|(name, _)| !is_known(name)) {
                return Err(Failure::usage(format!("{flag}: there is no --tenant {name}=PREFIX")));
            }
        }
        let of = |given: &[(String, u64)], name: &str, all: u64| {
            let given = given.iter().rfind(|(tenant, _)| tenant == name);
            given.map_or(all / shares, |(_, bytes)| *bytes)
        };
        let tenant = |(name, prefix): &(String, String)| TenantOptions {
            name: name.clone(),
            prefix: prefix.as_bytes().to_vec(),
            dram_bytes: of(&self.tenant_dram, name, self.dram),
            flash_bytes: of(&self.tenant_flash, name, flash_bytes),
        };
        Ok(self.tenant.iter().map(tenant).collect())
    }

    /// Where it is kept which devices are there: in memory, under a name of its own for each set
    /// of devices.
    fn state_file(&self, storage: &Arc<dyn Storage>) -> Option<PathBuf> {
        let memory = Path::new("/dev/shm");
        let is_wanted = self.state.is_none() && !self.flash.is_empty();
        if !is_wanted || !storage.exists(memory).unwrap_or(false) {
            return self.state.clone();
        }
        let absolute = |flash: &FlashOptions| std::path::absolute(&flash.path).ok();
        let paths: Vec<_> = self.flash.iter().filter_map(absolute).collect();
        let names = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let hash = xxhash_rust::xxh3::xxh3_64(names.join("\0").as_bytes());
        let user = rustix::process::getuid().as_raw();
        Some(memory.join(format!("tidekv-cache-{user}-{hash:016x}")))
    }

    fn greeting(&self, server: &CacheServer, cache: &tidekv_tiered::Cache) -> String {
        let (devices, warm_devices) = (cache.device_stats().len(), cache.warm_devices());
        let tenants = match self.tenant.len() as u64 {
            0 => String::new(),
            tenants => format!(", {} and all others", count(tenants, "tenant", "tenants")),
        };
        let addresses: Vec<_> = server.local_addresses().iter().map(Address::to_string).collect();
        let page = server.page_url().map(|url| format!("; page at {url}")).unwrap_or_default();
        let flash = match self.flash.iter().map(|flash| flash.bytes).sum::<u64>() {
            0 => String::new(),
            bytes => {
                let (size, all) = (show_size(bytes), devices as u64);
                let all = count(all, "device", "devices");
                format!(", {size} of flash ({warm_devices} of {all} warm)")
            }
        };
        format!(
            "listening on {}{page}; {} of DRAM{flash}, values up to {}{tenants}",
            addresses.join(", "),
            show_size(self.dram),
            show_size(self.object_max),
        )
    }

    fn users(&self) -> Result<Option<Users>> {
        let Some(path) = &self.auth_file else { return Ok(None) };
        let users = Users::parse(&files::read_text(path)?);
        users.map(Some).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
    }
}

fn address(text: &str) -> tidekv_memcached::Result<Address> {
    Address::with_port(text, DEFAULT_CACHE_PORT)
}

/// Reads `FILE:SIZE`.
fn parse_flash(text: &str) -> std::result::Result<FlashOptions, String> {
    let (path, size) = text
        .rsplit_once(':')
        .filter(|(path, _)| !path.is_empty())
        .ok_or_else(|| format!("{text:?} is no FILE:SIZE, such as /mnt/nvme/cache:100GiB"))?;
    Ok(FlashOptions { path: path.into(), bytes: parse_size(size)? })
}

/// Reads `NAME=PREFIX`.
fn parse_pair(text: &str) -> std::result::Result<(String, String), String> {
    let (name, prefix) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is no NAME=PREFIX, such as shop=shop:"))?;
    Ok((name.into(), prefix.into()))
}

/// Reads `NAME=SIZE`.
fn parse_share(text: &str) -> std::result::Result<(String, u64), String> {
    let (name, size) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is no NAME=SIZE, such as shop=512MiB"))?;
    Ok((name.into(), parse_size(size)?))
}

/// What `shutdown` does: the same as Ctrl-C.
fn end_this_process() {
    // To one's own process a signal can always be sent.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_is_a_file_and_a_size() {
        let flash = parse_flash("/mnt/a:b:100GiB").unwrap();
        assert_eq!((flash.path.to_str(), flash.bytes), (Some("/mnt/a:b"), 100 << 30));
        for text in ["", "/mnt/a", ":1GiB", "/mnt/a:", "/mnt/a:x"] {
            assert!(parse_flash(text).is_err(), "{text:?}");
        }
    }
}
