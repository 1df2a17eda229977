//! `stats`: statistics under memcached's names. One flat list for each kind produces the replies
//! and the tables in `docs/reference/memcached.md`.
//!
//! memcached's statistics of slabs, hash table, thread buffers and crawler do not apply here and are
//! omitted; names that begin with `tidekv_` are TideKV's own.

use std::collections::BTreeMap;
use std::fmt::Write;

use tidekv_net::address::Address;
use tidekv_tiered::{Cursor, Stats, WouldBlock};

use crate::commands::execution::{Execution, Progress};
use crate::commands::walk::PLACES_AT_ONCE;
use crate::protocol::words::Line;
use crate::state::counters::{Count, Counts};
use crate::state::forecast;
use crate::state::server_state::State;
use crate::state::tenants::TENANT_METRICS;

/// The version of memcached whose protocol is implemented.
pub(crate) const PROTOCOL_VERSION: &str = "1.6.18";
/// The step of sizes in `stats sizes`.
const SIZE_STEP_BYTES: usize = 32;

/// A statistic.
pub(crate) struct Stat {
    pub(crate) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the documentation, which a test makes"))]
    pub(crate) help: &'static str,
    show: Show,
}

enum Show {
    Count(Count),
    Number(fn(&View<'_>) -> u64),
    Text(fn(&View<'_>) -> String),
}

/// The counters of a server at one moment.
pub(crate) struct View<'a> {
    state: &'a State,
    counts: Counts,
    cache: Stats,
}

impl<'a> View<'a> {
    fn new(state: &'a State) -> Self {
        let (mut counts, mut cache) = (state.counters.all(), state.objects.cache.stats());
        let baseline = state.baseline.lock();
        counts.subtract(&baseline.counts);
        for (now, then) in [
            (&mut cache.expired, baseline.cache.expired),
            (&mut cache.evicted, baseline.cache.evicted),
            (&mut cache.evicted_unfetched, baseline.cache.evicted_unfetched),
            (&mut cache.stores, baseline.cache.stores),
            (&mut cache.dram_hits, baseline.cache.dram_hits),
            (&mut cache.flash_hits, baseline.cache.flash_hits),
        ] {
            *now -= then.min(*now);
        }
        drop(baseline);
        Self { state, counts, cache }
    }
}

const fn count(name: &'static str, count: Count, help: &'static str) -> Stat {
    Stat { name, help, show: Show::Count(count) }
}

const fn number(name: &'static str, show: fn(&View<'_>) -> u64, help: &'static str) -> Stat {
    Stat { name, help, show: Show::Number(show) }
}

const fn text(name: &'static str, show: fn(&View<'_>) -> String, help: &'static str) -> Stat {
    Stat { name, help, show: Show::Text(show) }
}

/// `stats`.
#[rustfmt::skip]
pub(crate) static GENERAL: [Stat; 52] = [
    number("pid", |_| u64::from(std::process::id()), "Process ID."),
    number("uptime", |v| u64::from(v.state.now_s().saturating_sub(v.state.started_s)), "Seconds since the start of the server."),
    number("time", |v| u64::from(v.state.now_s()), "Current time in seconds since 1970."),
    text("version", |_| PROTOCOL_VERSION.into(), "Version of memcached whose protocol is implemented."),
    text("tidekv_version", |_| env!("CARGO_PKG_VERSION").into(), "Version of TideKV."),
    number("pointer_size", |_| u64::from(usize::BITS), "Bits of a pointer."),
    number("max_connections", |v| v.state.options.connections_max as u64, "Connection limit."),
    number("curr_connections", |v| v.state.clients.len() as u64, "Connections open now."),
    count("total_connections", Count::Connections, "Connections accepted."),
    count("rejected_connections", Count::RejectedConnections, "Connections rejected: connection limit."),
    number("connection_structures", |v| v.state.clients.len() as u64, "Connections open now."),
    count("cmd_get", Count::Gets, "Keys of get commands."),
    count("cmd_set", Count::Sets, "Set commands received."),
    count("cmd_flush", Count::Flushes, "Flushes of the whole cache (flush_all)."),
    count("cmd_touch", Count::Touches, "Changes of a time to live requested."),
    count("cmd_meta", Count::MetaDebugs, "Meta debug commands (`me`)."),
    count("get_hits", Count::GetHits, "Keys of get commands that hit."),
    count("get_misses", Count::GetMisses, "Keys of get commands that missed."),
    number("get_expired", |v| v.cache.expired, "Objects found expired."),
    number("tidekv_dram_hits", |v| v.cache.dram_hits, "Lookups of all commands that hit in DRAM."),
    number("tidekv_flash_hits", |v| v.cache.flash_hits, "Lookups of all commands that hit on flash."),
    count("delete_misses", Count::DeleteMisses, "Delete commands that missed."),
    count("delete_hits", Count::DeleteHits, "Delete commands that hit."),
    count("incr_misses", Count::IncrMisses, "Increments that missed."),
    count("incr_hits", Count::IncrHits, "Increments that hit."),
    count("decr_misses", Count::DecrMisses, "Decrements that missed."),
    count("decr_hits", Count::DecrHits, "Decrements that hit."),
    count("cas_misses", Count::CasMisses, "Compare-and-swap commands that missed."),
    count("cas_hits", Count::CasHits, "Compare-and-swap commands whose version matched."),
    count("cas_badval", Count::CasBadval, "Compare-and-swap commands whose version did not match."),
    count("touch_hits", Count::TouchHits, "Changes of a time to live that hit."),
    count("touch_misses", Count::TouchMisses, "Changes of a time to live that missed."),
    count("store_too_large", Count::TooLarge, "Values rejected: too large."),
    count("store_no_memory", Count::NoMemory, "Values rejected: no memory to receive them."),
    count("auth_cmds", Count::Authentications, "Authentication attempts."),
    count("auth_errors", Count::AuthenticationErrors, "Authentication attempts that failed."),
    count("idle_kicks", Count::IdleKicks, "Connections closed by idle timeout."),
    count("bytes_read", Count::BytesRead, "Bytes received from clients."),
    count("bytes_written", Count::BytesWritten, "Bytes sent to clients."),
    number("limit_maxbytes", |v| v.cache.dram_bytes_max, "DRAM budget."),
    number("accepting_conns", |_| 1, "Whether connections are accepted: always 1."),
    number("listen_disabled_num", |_| 0, "Times that accepting was disabled: always 0."),
    number("threads", |v| v.state.event_loops as u64, "Threads that serve connections."),
    count("tidekv_requests", Count::Requests, "Requests received."),
    count("tidekv_requests_offloaded", Count::Offloaded, "Requests that ran on an I/O thread."),
    number("bytes", |v| v.cache.dram_bytes, "DRAM of objects, overhead included."),
    number("curr_items", |v| v.cache.dram_objects, "Objects in DRAM."),
    number("total_items", |v| v.cache.stores, "Objects stored, new or changed."),
    number("tidekv_flash_objects", |v| v.state.objects.cache.device_stats().iter().map(|device| device.objects).sum(), "Objects on flash, estimated: some have been replaced since."),
    number("evictions", |v| v.cache.evicted, "Objects evicted from DRAM."),
    number("evicted_unfetched", |v| v.cache.evicted_unfetched, "Objects evicted from DRAM that were never read."),
    number("reclaimed", |v| v.cache.expired, "Expired objects removed."),
];

/// `stats settings`.
#[rustfmt::skip]
pub(crate) static SETTINGS: [Stat; 23] = [
    number("maxbytes", |v| v.cache.dram_bytes_max, "DRAM budget."),
    number("maxconns", |v| v.state.options.connections_max as u64, "Connection limit."),
    number("tcpport", |v| tcp(v).map_or(0, |(_, port)| u64::from(port)), "First TCP port; 0 if there is none."),
    number("udpport", |_| 0, "UDP is not supported."),
    text("inter", |v| tcp(v).map_or("NULL".into(), |(host, _)| host), "First address."),
    number("verbosity", |v| u64::from(v.state.verbosity()), "Last argument of `verbosity`."),
    text("evictions", |_| "on".into(), "Whether objects are evicted: always on."),
    text("domain_socket", unix, "First Unix socket."),
    text("shutdown_command", |v| yes_or_no(v.state.options.on_shutdown.is_some()), "Whether `shutdown` stops the server."),
    number("num_threads", |v| v.state.event_loops as u64, "Threads that serve connections."),
    number("tidekv_io_threads", |v| v.state.options.io_threads as u64, "Threads for long requests, and for flash reads where the system has no asynchronous reads."),
    text("cas_enabled", |_| yes_or_no(true), "Whether objects have versions."),
    text("binding_protocol", |_| "auto-negotiate".into(), "Protocol: the first byte of a connection chooses it."),
    text("auth_enabled_sasl", |v| yes_or_no(v.state.options.users.is_some()), "Whether clients of the binary protocol must authenticate."),
    text("auth_enabled_ascii", |v| yes_or_no(v.state.options.users.is_some()), "Whether clients must authenticate."),
    number("item_size_max", |v| v.state.objects.cache.object_bytes_max(), "Maximum size of a value in bytes."),
    text("maxconns_fast", |_| yes_or_no(true), "Whether connections over the limit are closed at once."),
    text("lru_crawler", |_| yes_or_no(false), "There is no crawler."),
    text("flush_enabled", |_| yes_or_no(true), "Whether `flush_all` is allowed."),
    text("dump_enabled", |_| yes_or_no(true), "Whether keys can be listed."),
    number("idle_timeout", |v| v.state.options.idle_timeout.map_or(0, |time| time.as_secs().max(1)), "Idle timeout of connections in seconds; 0 if there is none."),
    text("track_sizes", |_| yes_or_no(true), "Whether `stats sizes` is supported."),
    text("ssl_enabled", |v| yes_or_no(v.state.options.tls.is_some()), "Whether TCP connections are TLS."),
];

/// `stats items`, of the one class that there is.
#[rustfmt::skip]
pub(crate) static ITEMS: [Stat; 5] = [
    number("number", |v| v.cache.dram_objects, "Objects in DRAM."),
    number("mem_requested", |v| v.cache.dram_bytes, "DRAM of objects, overhead included."),
    number("evicted", |v| v.cache.evicted, "Objects evicted from DRAM."),
    number("evicted_unfetched", |v| v.cache.evicted_unfetched, "Objects evicted from DRAM that were never read."),
    number("reclaimed", |v| v.cache.expired, "Expired objects removed."),
];

/// `stats slabs`, of the one class that there is.
#[rustfmt::skip]
pub(crate) static SLABS: [Stat; 9] = [
    number("used_chunks", |v| v.cache.dram_objects, "Objects in DRAM."),
    count("get_hits", Count::GetHits, "Keys of get commands that hit."),
    count("cmd_set", Count::Sets, "Set commands received."),
    count("delete_hits", Count::DeleteHits, "Delete commands that hit."),
    count("incr_hits", Count::IncrHits, "Increments that hit."),
    count("decr_hits", Count::DecrHits, "Decrements that hit."),
    count("cas_hits", Count::CasHits, "Compare-and-swap commands whose version matched."),
    count("cas_badval", Count::CasBadval, "Compare-and-swap commands whose version did not match."),
    count("touch_hits", Count::TouchHits, "Changes of a time to live that hit."),
];

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.into()
}

fn tcp(view: &View<'_>) -> Option<(String, u16)> {
    view.state.addresses.iter().find_map(|address| match address {
        Address::Tcp(host, port) => Some((host.clone(), *port)),
        Address::Unix(_) => None,
    })
}

fn unix(view: &View<'_>) -> String {
    let path = view.state.addresses.iter().find_map(|address| match address {
        Address::Unix(path) => Some(path.display().to_string()),
        Address::Tcp(..) => None,
    });
    path.unwrap_or("NULL".into())
}

impl Stat {
    fn value(&self, view: &View<'_>) -> String {
        match self.show {
            Show::Count(count) => view.counts.get(count).to_string(),
            Show::Number(number) => number(view).to_string(),
            Show::Text(text) => text(view),
        }
    }
}

/// The kind of statistics requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistics {
    General,
    Settings,
    Items,
    Slabs,
    Sizes,
    Connections,
    Tenants,
    /// Miss-ratio curves.
    Curves,
    Reset,
}

/// Parses `stats`; `None` for an unknown argument.
pub(crate) fn read(line: &Line) -> Option<Statistics> {
    Statistics::named(line.word(1))
}

impl Statistics {
    /// The kind of this name; `None` for an unknown one.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"" => Self::General,
            b"settings" => Self::Settings,
            b"items" => Self::Items,
            b"slabs" => Self::Slabs,
            b"sizes" => Self::Sizes,
            b"conns" => Self::Connections,
            b"tenants" => Self::Tenants,
            b"mrc" => Self::Curves,
            b"reset" => Self::Reset,
            _ => return None,
        })
    }

    pub(crate) fn run(self, execution: &mut Execution<'_>) -> Progress {
        let Ok(text) = self.text(execution) else { return Progress::Wait };
        execution.out.put(text.as_bytes());
        execution.say(if self == Self::Reset { "RESET" } else { "END" })
    }

    /// The lines of all statistics of this kind. `Reset` has none, and takes effect.
    pub(crate) fn text(self, execution: &Execution<'_>) -> Result<String, WouldBlock> {
        let state = execution.state;
        let is_long = matches!(self, Self::Sizes | Self::Connections | Self::Curves);
        if is_long && !execution.may_wait {
            // These visit every object, every connection, or every partition of flash's index.
            return Err(WouldBlock);
        }
        let view = View::new(state);
        let mut text = String::new();
        let mut write_all = |prefix: &str, stats: &[Stat]| {
            for stat in stats {
                let _ = write!(text, "STAT {prefix}{} {}\r\n", stat.name, stat.value(&view));
            }
        };
        match self {
            Self::General => write_all("", &GENERAL),
            Self::Settings => write_all("", &SETTINGS),
            Self::Items if view.cache.dram_objects == 0 => {}
            Self::Items => write_all("items:1:", &ITEMS),
            Self::Slabs => {
                write_all("1:", &SLABS);
                let bytes = view.cache.dram_bytes;
                let _ = write!(text, "STAT active_slabs 1\r\nSTAT total_malloced {bytes}\r\n");
            }
            Self::Sizes => sizes(state, &mut text),
            Self::Connections => connections(state, &mut text),
            Self::Tenants => tenants(state, &mut text),
            Self::Curves => forecast::lines(state, &mut text),
            Self::Reset => state.reset(),
        }
        Ok(text)
    }
}

/// The number of objects by size, rounded up.
fn sizes(state: &State, text: &mut String) {
    let mut sizes = BTreeMap::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        cursor = state.objects.cache.visit(from, PLACES_AT_ONCE, |key, found| {
            let bytes = key.len() + found.object.value.len();
            *sizes.entry(bytes.next_multiple_of(SIZE_STEP_BYTES)).or_insert(0_u64) += 1;
        });
    }
    for (bytes, count) in sizes {
        let _ = write!(text, "STAT {bytes} {count}\r\n");
    }
}

/// The counters of each tenant, since the start.
fn tenants(state: &State, text: &mut String) {
    for tenant in state.objects.cache.tenant_stats() {
        for metric in &TENANT_METRICS {
            let (key, value) = (metric.key, (metric.read)(&tenant));
            let _ = write!(text, "STAT {}:{key} {value}\r\n", tenant.name);
        }
    }
}

fn connections(state: &State, text: &mut String) {
    let now_ms = state.unix_ms();
    for client in state.clients.list() {
        let id = client.id;
        // The address of a Unix socket is its path and a port of 0.
        let shown = |address: &str| match address.strip_suffix(":0") {
            Some(path) if path.starts_with('/') => format!("unix:{path}"),
            _ => format!("tcp:{address}"),
        };
        let _ = write!(
            text,
            "STAT {id}:addr {}\r\nSTAT {id}:listen_addr {}\r\nSTAT {id}:secs_since_last_cmd {}\r\n",
            shown(&client.address),
            shown(&client.local_address),
            client.idle_ms(now_ms) / 1000,
        );
    }
}
