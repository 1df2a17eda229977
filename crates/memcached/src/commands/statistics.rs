//! `stats`: how the server stands, under memcached's names. One flat list for each kind, from
//! which come the replies and the tables in `docs/reference/memcached.md`.
//!
//! What memcached tells of its slabs, its hash table, its threads' buffers and its crawler has
//! no like here and is left out; names that begin with `tidekv_` are ours.

use std::collections::BTreeMap;
use std::fmt::Write;

use tidekv_net::address::Address;
use tidekv_tiered::{Cursor, Stats};

use crate::commands::execution::{Execution, Progress};
use crate::commands::walk::PLACES_AT_ONCE;
use crate::protocol::words::Line;
use crate::state::counters::{Count, Counts};
use crate::state::forecast;
use crate::state::server_state::State;
use crate::state::tenants::TENANT_METRICS;

/// The version of memcached whose protocol this is.
pub(crate) const PROTOCOL_VERSION: &str = "1.6.18";
/// What `stats sizes` counts in.
const SIZE_STEP_BYTES: usize = 32;

/// A figure.
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

/// A server at one moment.
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
    number("pid", |_| u64::from(std::process::id()), "The number of the process."),
    number("uptime", |v| u64::from(v.state.now_s().saturating_sub(v.state.started_s)), "Seconds since the start."),
    number("time", |v| u64::from(v.state.now_s()), "The present second since 1970."),
    text("version", |_| PROTOCOL_VERSION.into(), "The version of memcached whose protocol this is."),
    text("tidekv_version", |_| env!("CARGO_PKG_VERSION").into(), "The version of TideKV."),
    number("pointer_size", |_| u64::from(usize::BITS), "The bits of a pointer."),
    number("max_connections", |v| v.state.options.connections_max as u64, "Connections that there may be at once."),
    number("curr_connections", |v| v.state.clients.len() as u64, "Connections at this moment."),
    count("total_connections", Count::Connections, "Connections that were accepted."),
    count("rejected_connections", Count::RejectedConnections, "Connections that were one too many."),
    number("connection_structures", |v| v.state.clients.len() as u64, "Connections at this moment."),
    count("cmd_get", Count::Gets, "Keys that were asked for."),
    count("cmd_set", Count::Sets, "Values that were to be stored."),
    count("cmd_flush", Count::Flushes, "Times that everything was to be forgotten."),
    count("cmd_touch", Count::Touches, "Keys of which the time to live was to change."),
    count("cmd_meta", Count::MetaDebugs, "Uses of `me`."),
    count("get_hits", Count::GetHits, "Of the keys asked for, those that were there."),
    count("get_misses", Count::GetMisses, "Those that were not."),
    number("get_expired", |v| v.cache.expired, "Objects that were found after their time."),
    number("tidekv_dram_hits", |v| v.cache.dram_hits, "Objects that were found in DRAM, by whatever request."),
    number("tidekv_flash_hits", |v| v.cache.flash_hits, "Those that were found on flash."),
    count("delete_misses", Count::DeleteMisses, "Keys that were to be removed and were not there."),
    count("delete_hits", Count::DeleteHits, "Keys that were removed."),
    count("incr_misses", Count::IncrMisses, "Numbers to count up that were not there."),
    count("incr_hits", Count::IncrHits, "Numbers that were counted up."),
    count("decr_misses", Count::DecrMisses, "Numbers to count down that were not there."),
    count("decr_hits", Count::DecrHits, "Numbers that were counted down."),
    count("cas_misses", Count::CasMisses, "Compared keys that were not there."),
    count("cas_hits", Count::CasHits, "Compared keys that had the version."),
    count("cas_badval", Count::CasBadval, "Compared keys that had another one."),
    count("touch_hits", Count::TouchHits, "Keys of which the time to live was changed."),
    count("touch_misses", Count::TouchMisses, "Those that were not there."),
    count("store_too_large", Count::TooLarge, "Values that were larger than any may be."),
    count("store_no_memory", Count::NoMemory, "Values for which there was no room until they were whole."),
    count("auth_cmds", Count::Authentications, "Times that a client said who it is."),
    count("auth_errors", Count::AuthenticationErrors, "Times that it was not known."),
    count("idle_kicks", Count::IdleKicks, "Connections closed for their silence."),
    count("bytes_read", Count::BytesRead, "Bytes from clients."),
    count("bytes_written", Count::BytesWritten, "Bytes to clients."),
    number("limit_maxbytes", |v| v.cache.dram_bytes_max, "DRAM that objects may take."),
    number("accepting_conns", |_| 1, "Whether connections are accepted: always."),
    number("listen_disabled_num", |_| 0, "Times that none were: never."),
    number("threads", |v| v.state.event_loops as u64, "Threads that serve connections."),
    count("tidekv_requests", Count::Requests, "Requests."),
    count("tidekv_requests_offloaded", Count::Offloaded, "Of them, those that ran on an I/O thread."),
    number("bytes", |v| v.cache.dram_bytes, "DRAM that objects take, all told."),
    number("curr_items", |v| v.cache.dram_objects, "Objects in DRAM."),
    number("total_items", |v| v.cache.stores, "Objects that were stored, changed ones among them."),
    number("tidekv_flash_objects", |v| v.state.objects.cache.device_stats().iter().map(|device| device.objects).sum(), "Objects on flash, about: some have been replaced since."),
    number("evictions", |v| v.cache.evicted, "Objects that left DRAM for want of room."),
    number("evicted_unfetched", |v| v.cache.evicted_unfetched, "Of them, those that nobody had fetched."),
    number("reclaimed", |v| v.cache.expired, "Objects removed because their time was over."),
];

/// `stats settings`.
#[rustfmt::skip]
pub(crate) static SETTINGS: [Stat; 23] = [
    number("maxbytes", |v| v.cache.dram_bytes_max, "DRAM that objects may take."),
    number("maxconns", |v| v.state.options.connections_max as u64, "Connections that there may be at once."),
    number("tcpport", |v| tcp(v).map_or(0, |(_, port)| u64::from(port)), "The first TCP port; 0 without one."),
    number("udpport", |_| 0, "There is no UDP."),
    text("inter", |v| tcp(v).map_or("NULL".into(), |(host, _)| host), "The first address."),
    number("verbosity", |v| u64::from(v.state.verbosity()), "What `verbosity` was given last."),
    text("evictions", |_| "on".into(), "Whether objects leave for others."),
    text("domain_socket", unix, "The first Unix socket."),
    text("shutdown_command", |v| yes_or_no(v.state.options.on_shutdown.is_some()), "Whether `shutdown` ends the server."),
    number("num_threads", |v| v.state.event_loops as u64, "Threads that serve connections."),
    number("tidekv_io_threads", |v| v.state.options.io_threads as u64, "Threads for requests that take long, and that wait for flash where the system cannot read without."),
    text("cas_enabled", |_| yes_or_no(true), "Whether objects have versions."),
    text("binding_protocol", |_| "ascii".into(), "The protocol."),
    text("auth_enabled_sasl", |_| yes_or_no(false), "There is no SASL."),
    text("auth_enabled_ascii", |v| yes_or_no(v.state.options.users.is_some()), "Whether clients must say who they are."),
    number("item_size_max", |v| v.state.objects.cache.object_bytes_max(), "The largest value, in bytes."),
    text("maxconns_fast", |_| yes_or_no(true), "Whether one connection too many is closed at once."),
    text("lru_crawler", |_| yes_or_no(false), "There is no crawler that could be told what to do."),
    text("flush_enabled", |_| yes_or_no(true), "Whether `flush_all` is allowed."),
    text("dump_enabled", |_| yes_or_no(true), "Whether keys can be listed."),
    number("idle_timeout", |v| v.state.options.idle_timeout.map_or(0, |time| time.as_secs().max(1)), "Seconds of silence before a connection is closed; 0 for never."),
    text("track_sizes", |_| yes_or_no(true), "Whether `stats sizes` has an answer."),
    text("ssl_enabled", |v| yes_or_no(v.state.options.tls.is_some()), "Whether TCP connections are TLS."),
];

/// `stats items`, of the one class that there is.
#[rustfmt::skip]
pub(crate) static ITEMS: [Stat; 5] = [
    number("number", |v| v.cache.dram_objects, "Objects in DRAM."),
    number("mem_requested", |v| v.cache.dram_bytes, "DRAM that they take, all told."),
    number("evicted", |v| v.cache.evicted, "Objects that left DRAM for want of room."),
    number("evicted_unfetched", |v| v.cache.evicted_unfetched, "Of them, those that nobody had fetched."),
    number("reclaimed", |v| v.cache.expired, "Objects removed because their time was over."),
];

/// `stats slabs`, of the one class that there is.
#[rustfmt::skip]
pub(crate) static SLABS: [Stat; 9] = [
    number("used_chunks", |v| v.cache.dram_objects, "Objects in DRAM."),
    count("get_hits", Count::GetHits, "Keys that were asked for and there."),
    count("cmd_set", Count::Sets, "Values that were to be stored."),
    count("delete_hits", Count::DeleteHits, "Keys that were removed."),
    count("incr_hits", Count::IncrHits, "Numbers that were counted up."),
    count("decr_hits", Count::DecrHits, "Numbers that were counted down."),
    count("cas_hits", Count::CasHits, "Compared keys that had the version."),
    count("cas_badval", Count::CasBadval, "Compared keys that had another one."),
    count("touch_hits", Count::TouchHits, "Keys of which the time to live was changed."),
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

/// What is asked for.
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

/// Reads `stats`; `None` for what is no part of it.
pub(crate) fn read(line: &Line) -> Option<Statistics> {
    Some(match line.word(1) {
        b"" => Statistics::General,
        b"settings" => Statistics::Settings,
        b"items" => Statistics::Items,
        b"slabs" => Statistics::Slabs,
        b"sizes" => Statistics::Sizes,
        b"conns" => Statistics::Connections,
        b"tenants" => Statistics::Tenants,
        b"mrc" => Statistics::Curves,
        b"reset" => Statistics::Reset,
        _ => return None,
    })
}

impl Statistics {
    pub(crate) fn run(self, execution: &mut Execution<'_>) -> Progress {
        let state = execution.state;
        let is_long = matches!(self, Self::Sizes | Self::Connections | Self::Curves);
        if is_long && !execution.may_wait {
            // Every object is looked at, every connection, every partition of flash's index.
            return Progress::Wait;
        }
        let view = View::new(state);
        let mut text = String::new();
        let mut tell = |prefix: &str, stats: &[Stat]| {
            for stat in stats {
                let _ = write!(text, "STAT {prefix}{} {}\r\n", stat.name, stat.value(&view));
            }
        };
        match self {
            Self::General => tell("", &GENERAL),
            Self::Settings => tell("", &SETTINGS),
            Self::Items if view.cache.dram_objects == 0 => {}
            Self::Items => tell("items:1:", &ITEMS),
            Self::Slabs => {
                tell("1:", &SLABS);
                let bytes = view.cache.dram_bytes;
                let _ = write!(text, "STAT active_slabs 1\r\nSTAT total_malloced {bytes}\r\n");
            }
            Self::Sizes => sizes(state, &mut text),
            Self::Connections => connections(state, &mut text),
            Self::Tenants => tenants(state, &mut text),
            Self::Curves => forecast::lines(state, &mut text),
            Self::Reset => {
                state.reset();
                return execution.say("RESET");
            }
        }
        execution.out.put(text.as_bytes());
        execution.say("END")
    }
}

/// How many objects there are of which size, rounded up.
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

/// Each tenant's part of the cache, since the start.
fn tenants(state: &State, text: &mut String) {
    for tenant in state.objects.cache.tenant_stats() {
        for metric in &TENANT_METRICS {
            let (name, value) = (metric.short_name(), (metric.read)(&tenant));
            let _ = write!(text, "STAT {}:{name} {value}\r\n", tenant.name);
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
