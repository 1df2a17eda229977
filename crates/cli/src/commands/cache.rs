//! `cache`: a cache over the memcached protocol, until a signal ends it.
//!
//! SIGTERM and Ctrl-C shut it down cleanly: it accepts no more connections, answers the requests in
//! progress and writes the objects in DRAM to flash. A second signal ends it at once; that breaks no
//! guarantee, as a cache gives none.

mod background;
mod memcached_flags;
mod pid_file;
mod privileges;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, LocalStorage, Storage, SystemClock};
use tidekv_memcached::{
    Address, CacheServer, CacheServerOptions, DEFAULT_CACHE_PORT, ElasticGoal, ElasticOptions,
    OffsetClock, Users,
};
use tidekv_tiered::{DeviceState, Environment, Eviction, FlashOptions, Options, TenantOptions};

use crate::daemon::{DRAIN, Signals, TlsArguments, page_address};
use crate::failure::{Failure, Result};
use crate::files;
use crate::log;
use crate::output;
use crate::quantity::{count, parse_duration, parse_micros, parse_size, show_size};
use crate::terms::{Terms, parse_latencies};
use memcached_flags::MemcachedFlags;
use pid_file::PidFile;

/// The memory for requests that have not arrived completely, and that for replies that clients have
/// not read, are each one part in this many of the DRAM ...
const CLIENTS_DIVISOR: u64 = 16;
/// ... within these bounds, in bytes, and at least the largest object.
const CLIENTS_BYTES_MIN: u64 = 16 << 20;
/// See [`CLIENTS_BYTES_MIN`].
const CLIENTS_BYTES_MAX: u64 = 256 << 20;
/// The largest possible value: memcached's lengths have 31 bits.
const OBJECT_BYTES_MAX: u64 = 1 << 30;
/// The smallest --object-max, as in memcached.
const OBJECT_BYTES_MIN: u64 = 1 << 10;
/// The default largest value, and its part of a small DRAM.
const OBJECT_BYTES_DEFAULT: u64 = 1 << 20;
/// See [`OBJECT_BYTES_DEFAULT`].
const OBJECT_DIVISOR: u64 = 4;

/// The order of eviction from DRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// S3-FIFO: new objects pass through a small probation queue first.
    S3Fifo,
    /// GreedyDual: evicts the object that saves the least per byte, by its access frequency and
    /// whether flash has it. More object hits where sizes differ, fewer byte hits.
    GreedyDual,
    /// Least recently used.
    Lru,
    /// CLOCK: approximately LRU, with less work per hit.
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
/// Objects live in DRAM and, with --flash, on a flash tier behind it. SIGTERM and Ctrl-C shut the
/// server down cleanly; a second signal ends it at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv cache --dram 4GiB --http localhost\n  \
    tidekv cache --dram 1GiB --flash /mnt/nvme/cache:100GiB --object-max 8MiB\n  \
    tidekv cache --dram 4GiB --flash /mnt/nvme/cache:100GiB --elastic 300us\n  \
    tidekv cache --dram 4GiB --tenant shop=shop: --tenant-dram shop=1GiB\n  \
    tidekv cache --dram 1GiB --listen 10.0.0.5 --auth-file users --tls-cert cert.pem --tls-key key.pem")]
pub struct Cache {
    /// DRAM for objects and for the index of the flash tier. Beyond it the server takes a sixteenth of
    /// it (16MiB to 256MiB) for requests that have not arrived completely, as much for replies that
    /// clients have not read, and about 20MiB.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    dram: u64,

    /// File or block device of the flash tier, and the size to use, such as
    /// /mnt/nvme/cache:100GiB; repeatable. A second file next to it holds the metadata. For values
    /// of about 1 KiB and more: there a byte of a value takes 1.2 bytes of flash, 1.7 at 256 bytes,
    /// 3.4 at 64.
    #[arg(long, value_name = "FILE:SIZE", value_parser = parse_flash)]
    flash: Vec<FlashOptions>,

    /// Fail at the start if a --flash cannot be used [default: start without it, with DRAM alone if
    /// there is no other, log why, and take it into use once it works].
    #[arg(long)]
    require_flash: bool,

    /// Eviction policy of DRAM.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::S3Fifo)]
    eviction: Order,

    /// Expected average size of an object; it determines the size of the flash index.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    avg_object_size: u64,

    /// Part of --dram for locations of objects on flash, or hot entries of the flash index, and
    /// for its pending changes [default: a sixteenth of --dram].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    flash_index: Option<u64>,

    /// Limit on writes to flash, in bytes per second on average, such as 50MiB [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    flash_writes: Option<u64>,

    /// Tenant with its own DRAM and flash, which owns the keys that begin with PREFIX, such as
    /// shop=shop:; repeatable.
    #[arg(long, value_name = "NAME=PREFIX", value_parser = parse_pair)]
    tenant: Vec<(String, String)>,

    /// DRAM of a tenant [default: an equal share; all other keys together have one share too];
    /// repeatable.
    #[arg(long, value_name = "NAME=SIZE", value_parser = parse_share)]
    tenant_dram: Vec<(String, u64)>,

    /// Flash of a tenant [default: as for --tenant-dram]; repeatable.
    #[arg(long, value_name = "NAME=SIZE", value_parser = parse_share)]
    tenant_flash: Vec<(String, u64)>,

    /// State file that survives this process: with it, or with more than
    /// one --flash, the flash tier is warm after a kill [default: a file in /dev/shm].
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Largest value that the cache accepts, 1KiB to 1GiB [default: 1MiB, and at most a quarter of
    /// the DRAM].
    #[arg(long, short = 'I', value_name = "SIZE", value_parser = parse_size)]
    object_max: Option<u64>,

    /// Address to listen on: host:port, a host alone for port 11211, or unix:PATH; repeatable.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:11211",
        value_parser = |text: &str| address(text).map_err(|error| error.to_string()))]
    listen: Vec<Address>,

    /// Address of the status page, with Prometheus metrics at /metrics: host:port, or a host
    /// alone for port 8379 [default: none].
    #[arg(long, value_name = "ADDR",
        value_parser = |text: &str| page_address(text).map_err(|error| error.to_string()))]
    http: Option<Address>,

    /// Length of a profiling window. At the end of each, the server computes miss-ratio curves for
    /// the status page, `stats mrc`, `tidekv plan --live` and --elastic; 0 turns profiling off.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    profile_window: Duration,

    /// Elastic mode: resize the cache after each profiling window, within --dram and --flash. With a
    /// time, such as 300us or shop=1ms: the lowest cost at which the mean latency, of all tenants or
    /// of one, meets that target (repeatable). With a number: the lowest latency for at most that
    /// cost (see --prices).
    #[arg(long, value_name = "[NAME=]TIME|COST")]
    elastic: Vec<String>,

    /// Latency of DRAM, of flash, and of the backend (the database behind the cache), such as
    /// 10us,100us,1ms, for --elastic. For an omitted one, as in `50us,,`: the measurement of the
    /// cache, or else 10us, 100us or 1ms.
    #[arg(long, value_name = "DRAM,FLASH,BACKEND")]
    latencies: Option<String>,

    #[command(flatten)]
    terms: Terms,

    /// File with one `user:password` per line. A client authenticates as in memcached: its first
    /// command stores `user password` under any key, or it uses SASL (PLAIN) in the binary protocol.
    #[arg(long, short = 'Y', value_name = "FILE")]
    auth_file: Option<PathBuf>,

    #[command(flatten)]
    tls: TlsArguments,

    /// Maximum number of concurrent client connections; the server rejects further ones.
    #[arg(long, short = 'c', value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..))]
    connections_max: u32,

    /// Idle timeout: close a connection that has sent no data for this time, such as 5m; 0 means
    /// never.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    idle_timeout: Duration,

    /// Allow clients to shut the server down with the `shutdown` command.
    #[arg(long, short = 'A')]
    enable_shutdown: bool,

    /// Allow clients to move the clock with the `debugtime` command, for tests.
    #[arg(long)]
    debugtime: bool,

    /// Allow a non-local address without --auth-file.
    #[arg(long)]
    insecure: bool,

    #[command(flatten)]
    memcached: MemcachedFlags,
}

impl Cache {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        if self.memcached.starts_another() {
            return background::start();
        }
        if self.memcached.is_in_background() {
            background::leave_session()?;
        }
        // Before files are opened and threads start.
        if let Some(user) = self.memcached.user() {
            privileges::become_user(user)?;
        }
        let object_max = self.object_max()?;
        let offset_clock =
            self.debugtime.then(|| Arc::new(OffsetClock::new(Arc::new(SystemClock::new()))));
        let dram = self.memcached.dram().unwrap_or(self.dram);
        let clients_bytes = (dram / CLIENTS_DIVISOR).clamp(CLIENTS_BYTES_MIN, CLIENTS_BYTES_MAX);
        let mut server_options = CacheServerOptions {
            http: self.http.clone(),
            users: self.users()?,
            tls: self.tls.files(),
            connections_max: self.connections_max as usize,
            buffered_bytes_max: clients_bytes as usize,
            unread_bytes_max: clients_bytes as usize,
            idle_timeout: Some(self.idle_timeout).filter(|time| !time.is_zero()),
            clock: offset_clock.clone(),
            elastic: self.elastic()?,
            profile_window: Some(self.profile_window).filter(|time| !time.is_zero()),
            on_shutdown: self.enable_shutdown.then_some(end_this_process as fn()),
            insecure: self.insecure,
            ..CacheServerOptions::default()
        };
        self.memcached.apply(&self.listen, &mut server_options)?;
        log::start_at(self.memcached.log_level());
        let mut signals = Signals::new()?;
        let clock: Arc<dyn Clock> = match offset_clock {
            Some(clock) => clock,
            None => Arc::new(SystemClock::new()),
        };
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::new());
        let options = Options {
            dram_bytes: dram,
            evicts: self.memcached.evicts(),
            flash: self.flash.clone(),
            requires_flash: self.require_flash,
            object_bytes_max: object_max,
            eviction: self.eviction.into(),
            avg_object_bytes: self.avg_object_size,
            index_bytes: self.flash_index,
            flash_writes_bytes_per_s: self.flash_writes,
            state: self.state_file(&storage),
            tenants: self.tenants()?,
            ..Options::default()
        };
        let environment = Environment::new(storage, clock);
        let cache = tidekv_tiered::Cache::open(&options, &environment)?;
        let server = CacheServer::start(cache.clone(), server_options)?;
        let pid_file = self.memcached.pid_file().and_then(PidFile::write);
        output::line(&self.greeting(&server, &cache))?;
        if self.memcached.is_in_background() {
            background::leave_streams(self.memcached.is_verbose())?;
        }
        let ended = signals.wait(server.failures(), || server.reload_certificates());
        signals.exit_on_the_next();
        server.shutdown(DRAIN);
        cache.close();
        drop(pid_file);
        ended
    }

    /// The largest value.
    fn object_max(&self) -> Result<u64> {
        let dram = self.memcached.dram().unwrap_or(self.dram);
        match self.object_max {
            None => Ok(OBJECT_BYTES_DEFAULT.min(dram / OBJECT_DIVISOR)),
            Some(bytes) if !(OBJECT_BYTES_MIN..=OBJECT_BYTES_MAX).contains(&bytes) => {
                let (least, most) = (show_size(OBJECT_BYTES_MIN), show_size(OBJECT_BYTES_MAX));
                Err(Failure::usage(format!("--object-max is {least} to {most}")))
            }
            Some(bytes) => Ok(bytes),
        }
    }

    /// The options of elastic mode, if it is on.
    fn elastic(&self) -> Result<Option<ElasticOptions>> {
        if self.elastic.is_empty() {
            return Ok(None);
        }
        if self.profile_window.is_zero() {
            return Err(Failure::usage("--elastic needs a --profile-window above 0"));
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
                return Err(Failure::usage("--elastic takes latency targets or a cost, not both"));
            }
            Some(cost) => ElasticGoal::Cost(cost),
            None => ElasticGoal::Latency { all, of },
        };
        let latencies = self.latencies.as_deref().map(parse_latencies).transpose()?;
        let (prices, latencies) = (self.terms.prices()?, latencies.unwrap_or_default());
        Ok(Some(ElasticOptions { goal, prices, latencies }))
    }

    fn tenants(&self) -> Result<Vec<TenantOptions>> {
        let shares = self.tenant.len() as u64 + 1;
        let flash_bytes: u64 = self.flash.iter().map(|flash| flash.bytes).sum();
        let all = [("--tenant-dram", &self.tenant_dram), ("--tenant-flash", &self.tenant_flash)];
        for (flag, given) in all {
            let is_known = |name: &String| self.tenant.iter().any(|(tenant, _)| tenant == name);
            if let Some((name, _)) = given.iter().find(|(name, _)| !is_known(name)) {
                return Err(Failure::usage(format!(
                    "{flag}: unknown tenant {name:?}: add --tenant {name}=PREFIX"
                )));
            }
        }
        let of = |given: &[(String, u64)], name: &str, all: u64| {
            let given = given.iter().rfind(|(tenant, _)| tenant == name);
            given.map_or(all / shares, |(_, bytes)| *bytes)
        };
        let tenant = |(name, prefix): &(String, String)| TenantOptions {
            name: name.clone(),
            prefix: prefix.as_bytes().to_vec(),
            dram_bytes: of(&self.tenant_dram, name, self.memcached.dram().unwrap_or(self.dram)),
            flash_bytes: of(&self.tenant_flash, name, flash_bytes),
        };
        Ok(self.tenant.iter().map(tenant).collect())
    }

    /// The file that records the attached devices: in memory, under a separate name for each set of
    /// devices.
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
            tenants => format!(", {} and the default one", count(tenants, "tenant", "tenants")),
        };
        let addresses: Vec<_> = server.local_addresses().iter().map(Address::to_string).collect();
        let page = server.page_url().map(|url| format!("; page at {url}")).unwrap_or_default();
        let flash = match self.flash.iter().map(|flash| flash.bytes).sum::<u64>() {
            0 => String::new(),
            bytes => {
                let (size, all) = (show_size(bytes), devices as u64);
                let all = count(all, "device", "devices");
                let out = cache.device_stats().into_iter();
                match out.filter(|device| device.state == DeviceState::Out).count() {
                    0 => format!(", {size} of flash ({warm_devices} of {all} warm)"),
                    out if out == devices => ", no flash: no device can be used".into(),
                    out => format!(
                        ", {size} of flash ({warm_devices} of {all} warm, {out} out of use)"
                    ),
                }
            }
        };
        format!(
            "listening on {}{page}; {} of DRAM{flash}, values up to {}{tenants}",
            addresses.join(", "),
            show_size(cache.stats().dram_bytes_max),
            show_size(cache.object_bytes_max()),
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

/// Parses `FILE:SIZE`.
fn parse_flash(text: &str) -> std::result::Result<FlashOptions, String> {
    let (path, size) = text
        .rsplit_once(':')
        .filter(|(path, _)| !path.is_empty())
        .ok_or_else(|| format!("{text:?} is not FILE:SIZE, such as /mnt/nvme/cache:100GiB"))?;
    Ok(FlashOptions { path: path.into(), bytes: parse_size(size)? })
}

/// Parses `NAME=PREFIX`.
fn parse_pair(text: &str) -> std::result::Result<(String, String), String> {
    let (name, prefix) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not NAME=PREFIX, such as shop=shop:"))?;
    Ok((name.into(), prefix.into()))
}

/// Parses `NAME=SIZE`.
fn parse_share(text: &str) -> std::result::Result<(String, u64), String> {
    let (name, size) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not NAME=SIZE, such as shop=512MiB"))?;
    Ok((name.into(), parse_size(size)?))
}

/// The effect of the `shutdown` command: the same as Ctrl-C.
fn end_this_process() {
    // A process can always send a signal to itself.
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
