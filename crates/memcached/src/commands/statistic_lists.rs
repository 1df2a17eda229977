//! The statistics under memcached's names: one flat list for each kind, which produces the replies
//! and the tables in `docs/reference/memcached.md`.
//!
//! All names of memcached exist, because dashboards and exporters read them. Those whose subject
//! does not exist here (slabs, a crawler's settings, a maintainer of queues) have a constant; names
//! that begin with `tidekv_` are TideKV's own.

use tidekv_net::address::Address;
use tidekv_net::process;
use tidekv_tiered::Stats;

use crate::settings::options::ProtocolChoice;
use crate::state::counters::{Count, Counts};
use crate::state::server_state::State;

/// The version of memcached whose protocol is implemented.
pub(crate) const PROTOCOL_VERSION: &str = "1.6.45";

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
    Constant(&'static str),
}

/// The counters of a server at one moment, since the last `stats reset`.
pub(crate) struct View<'a> {
    pub(crate) state: &'a State,
    counts: Counts,
    pub(crate) cache: Stats,
}

impl<'a> View<'a> {
    pub(crate) fn new(state: &'a State) -> Self {
        let (mut counts, mut cache) = (state.counters.all(), state.objects.cache.stats());
        let baseline = state.baseline.lock();
        counts.subtract(&baseline.counts);
        for (now, then) in [
            (&mut cache.expired, baseline.cache.expired),
            (&mut cache.swept, baseline.cache.swept),
            (&mut cache.reclaimed, baseline.cache.reclaimed),
            (&mut cache.refused, baseline.cache.refused),
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

impl Stat {
    pub(crate) fn value(&self, view: &View<'_>) -> String {
        match self.show {
            Show::Count(count) => view.counts.get(count).to_string(),
            Show::Number(number) => number(view).to_string(),
            Show::Text(text) => text(view),
            Show::Constant(text) => text.into(),
        }
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

const fn constant(name: &'static str, text: &'static str, help: &'static str) -> Stat {
    Stat { name, help, show: Show::Constant(text) }
}

/// One whose subject does not exist.
const fn zero(name: &'static str, help: &'static str) -> Stat {
    constant(name, "0", help)
}

const NO_SLABS: &str = "Constant: there are no slabs.";
const NO_QUEUES: &str = "Constant: there are no such queues.";
const NO_CRAWLER: &str = "Constant: expired objects are removed without such a setting.";
const NO_BUFFERS: &str = "Constant: there are no such buffers.";
const NO_WATCHERS: &str = "Constant: there is no log for watchers.";
const NO_TABLE: &str = "Constant: hash tables grow by themselves.";
const NO_EXTSTORE: &str = "Constant: see `tidekv cache --help` for flash.";
const NO_TLS_SETTING: &str = "Constant: see `tidekv cache --help` for TLS.";
const NO_NAPI: &str = "Constant: connections are not placed by network queue.";

/// `stats`.
#[rustfmt::skip]
pub(crate) static GENERAL: [Stat; 101] = [
    number("pid", |_| u64::from(std::process::id()), "Process ID."),
    number("uptime", |v| u64::from(v.state.now_s().saturating_sub(v.state.started_s)), "Seconds since the start of the server."),
    number("time", |v| u64::from(v.state.now_s()), "Current time in seconds since 1970."),
    text("version", |_| PROTOCOL_VERSION.into(), "Version of memcached whose protocol is implemented."),
    text("tidekv_version", |_| env!("CARGO_PKG_VERSION").into(), "Version of TideKV."),
    constant("libevent", "none", "Constant: there is no libevent."),
    number("pointer_size", |_| u64::from(usize::BITS), "Bits of a pointer."),
    text("rusage_user", |_| format!("{:.6}", process::usage().user_s), "Processor time in user mode, in seconds."),
    text("rusage_system", |_| format!("{:.6}", process::usage().system_s), "Processor time in the kernel, in seconds."),
    number("max_connections", |v| v.state.options.connections_max as u64, "Connection limit."),
    number("curr_connections", |v| v.state.clients.len() as u64, "Connections open now."),
    count("total_connections", Count::Connections, "Connections accepted."),
    count("rejected_connections", Count::RejectedConnections, "Connections rejected: connection limit."),
    number("connection_structures", |v| v.state.clients.len() as u64, "Connections open now."),
    zero("response_obj_oom", NO_BUFFERS),
    number("response_obj_count", |v| v.state.clients.len() as u64, "Connections open now: each has one queue of replies."),
    number("response_obj_bytes", |v| v.state.replies.used_bytes() as u64, "Memory of replies that clients have not read, beyond 8 KiB each."),
    zero("read_buf_count", NO_BUFFERS),
    number("read_buf_bytes", |v| v.state.budget.used_bytes() as u64, "Memory of incomplete requests, beyond 8 KiB each."),
    zero("read_buf_bytes_free", NO_BUFFERS),
    zero("read_buf_oom", NO_BUFFERS),
    zero("reserved_fds", "Constant: the connection limit leaves the handles that flash needs."),
    count("cmd_get", Count::Gets, "Keys of get commands."),
    count("cmd_set", Count::Sets, "Set commands received."),
    count("cmd_flush", Count::Flushes, "Flushes of the whole cache (flush_all)."),
    count("cmd_touch", Count::Touches, "Changes of a time to live requested."),
    count("cmd_meta", Count::MetaDebugs, "Meta debug commands (`me`)."),
    count("get_hits", Count::GetHits, "Keys of get commands that hit."),
    count("get_misses", Count::GetMisses, "Keys of get commands that missed."),
    number("get_expired", |v| v.cache.expired, "Objects found expired by a lookup."),
    zero("get_flushed", "Constant: a flush leaves nothing to be found."),
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
    zero("time_in_listen_disabled_us", "Constant: accepting is never disabled."),
    number("threads", |v| v.state.event_loops as u64, "Threads that serve connections."),
    zero("conn_yields", "Constant: connections share threads without a count."),
    count("tidekv_requests", Count::Requests, "Requests received."),
    count("tidekv_requests_offloaded", Count::Offloaded, "Requests that ran on an I/O thread."),
    zero("hash_power_level", NO_TABLE),
    zero("hash_bytes", NO_TABLE),
    zero("hash_is_expanding", NO_TABLE),
    zero("slab_reassign_rescues", NO_SLABS),
    zero("slab_reassign_chunk_rescues", NO_SLABS),
    zero("slab_reassign_evictions_nomem", NO_SLABS),
    zero("slab_reassign_inline_reclaim", NO_SLABS),
    zero("slab_reassign_busy_items", NO_SLABS),
    zero("slab_reassign_busy_deletes", NO_SLABS),
    zero("slab_reassign_busy_nomem", NO_SLABS),
    constant("slab_reassign_last_busy_status", "none", NO_SLABS),
    zero("slab_reassign_running", NO_SLABS),
    zero("slabs_moved", NO_SLABS),
    zero("lru_crawler_running", NO_CRAWLER),
    zero("lru_crawler_starts", NO_CRAWLER),
    zero("lru_maintainer_juggles", NO_QUEUES),
    zero("malloc_fails", "Constant: the process ends without memory."),
    zero("log_worker_dropped", NO_WATCHERS),
    zero("log_worker_written", NO_WATCHERS),
    zero("log_watcher_skipped", NO_WATCHERS),
    zero("log_watcher_sent", NO_WATCHERS),
    zero("log_watchers", NO_WATCHERS),
    zero("unexpected_napi_ids", NO_NAPI),
    zero("round_robin_fallback", NO_NAPI),
    number("bytes", |v| v.cache.dram_bytes, "DRAM of objects, overhead included."),
    number("curr_items", |v| v.cache.dram_objects, "Objects in DRAM."),
    number("total_items", |v| v.cache.stores, "Objects stored, new or changed."),
    number("tidekv_flash_objects", |v| v.state.objects.cache.device_stats().iter().map(|device| device.objects).sum(), "Objects on flash, estimated: some have been replaced since."),
    zero("slab_global_page_pool", NO_SLABS),
    zero("expired_unfetched", "Constant: not counted."),
    number("evicted_unfetched", |v| v.cache.evicted_unfetched, "Objects evicted from DRAM that were never read."),
    zero("evicted_active", "Constant: not counted."),
    number("evictions", |v| v.cache.evicted, "Objects evicted from DRAM."),
    number("reclaimed", |v| v.cache.reclaimed, "Expired objects that made room for others."),
    number("crawler_reclaimed", |v| v.cache.swept, "Expired objects removed in the background."),
    zero("crawler_items_checked", "Constant: not counted."),
    zero("lrutail_reflocked", NO_QUEUES),
    zero("moves_to_cold", NO_QUEUES),
    zero("moves_to_warm", NO_QUEUES),
    zero("moves_within_lru", NO_QUEUES),
    zero("direct_reclaims", NO_QUEUES),
    zero("lru_bumps_dropped", NO_QUEUES),
];

/// `stats settings`.
#[rustfmt::skip]
pub(crate) static SETTINGS: [Stat; 78] = [
    number("maxbytes", |v| v.cache.dram_bytes_max, "DRAM budget."),
    number("maxconns", |v| v.state.options.connections_max as u64, "Connection limit."),
    number("tcpport", |v| tcp(v).map_or(0, |(_, port)| u64::from(port)), "First TCP port; 0 if there is none."),
    number("udpport", |_| 0, "UDP is not supported."),
    text("inter", |v| tcp(v).map_or("NULL".into(), |(host, _)| host), "First address."),
    number("verbosity", |v| u64::from(v.state.verbosity()), "Last argument of `verbosity`."),
    constant("oldest", "0", "Constant: objects have no such age limit."),
    text("evictions", |v| if v.state.objects.cache.evicts() { "on" } else { "off" }.into(), "Whether objects are evicted to make room."),
    text("domain_socket", unix, "First Unix socket."),
    constant("umask", "700", "Constant: only the owner may use the Unix socket."),
    text("shutdown_command", |v| yes_or_no(v.state.options.on_shutdown.is_some()), "Whether `shutdown` stops the server."),
    constant("growth_factor", "1.25", NO_SLABS),
    constant("chunk_size", "48", NO_SLABS),
    number("num_threads", |v| v.state.event_loops as u64, "Threads that serve connections."),
    zero("num_threads_per_udp", "Constant: UDP is not supported."),
    number("tidekv_io_threads", |v| v.state.options.io_threads as u64, "Threads for long requests, and for flash reads where the system has no asynchronous reads."),
    text("stat_key_prefix", |v| char::from(v.state.prefixes.delimiter()).into(), "What ends the prefix of a key in `stats detail`."),
    text("detail_enabled", |v| yes_or_no(v.state.prefixes.is_on()), "Whether `stats detail` counts."),
    constant("reqs_per_event", "20", "Constant: requests received together are answered together."),
    text("cas_enabled", |_| yes_or_no(true), "Whether objects have versions."),
    constant("tcp_backlog", "1024", "Constant."),
    text("binding_protocol", |v| protocol(v.state.options.protocol).into(), "Protocol; with `auto-negotiate` the first byte of a connection chooses it."),
    text("auth_enabled_sasl", |v| yes_or_no(v.state.options.users.is_some()), "Whether clients of the binary protocol must authenticate."),
    text("auth_enabled_ascii", |v| yes_or_no(v.state.options.users.is_some()), "Whether clients must authenticate."),
    number("item_size_max", |v| v.state.objects.cache.object_bytes_max(), "Maximum size of a value in bytes."),
    text("maxconns_fast", |_| yes_or_no(true), "Whether connections over the limit are closed at once."),
    zero("hashpower_init", NO_TABLE),
    constant("slab_reassign", "no", NO_SLABS),
    zero("slab_automove", NO_SLABS),
    constant("slab_automove_ratio", "0.80", NO_SLABS),
    constant("slab_automove_window", "10", NO_SLABS),
    number("slab_chunk_max", |v| v.state.objects.cache.object_bytes_max(), NO_SLABS),
    constant("lru_crawler", "no", "There is no crawler that clients control."),
    zero("lru_crawler_sleep", NO_CRAWLER),
    zero("lru_crawler_tocrawl", NO_CRAWLER),
    zero("tail_repair_time", NO_QUEUES),
    text("flush_enabled", |v| yes_or_no(v.state.options.allows_flush), "Whether `flush_all` is allowed."),
    text("dump_enabled", |v| yes_or_no(v.state.options.allows_dumps), "Whether keys can be listed."),
    constant("hash_algorithm", "xxh3", "Constant."),
    constant("lru_maintainer_thread", "no", NO_QUEUES),
    constant("lru_segmented", "no", NO_QUEUES),
    zero("hot_lru_pct", NO_QUEUES),
    zero("warm_lru_pct", NO_QUEUES),
    constant("hot_max_factor", "0.00", NO_QUEUES),
    constant("warm_max_factor", "0.00", NO_QUEUES),
    constant("temp_lru", "no", NO_QUEUES),
    zero("temporary_ttl", NO_QUEUES),
    number("idle_timeout", |v| v.state.options.idle_timeout.map_or(0, |time| time.as_secs().max(1)), "Idle timeout of connections in seconds; 0 if there is none."),
    zero("watcher_logbuf_size", NO_WATCHERS),
    zero("worker_logbuf_size", NO_WATCHERS),
    number("read_buf_mem_limit", |v| v.state.budget.bytes_max() as u64, "Memory for incomplete requests."),
    text("track_sizes", |_| yes_or_no(true), "Whether `stats sizes` is supported."),
    constant("inline_ascii_response", "no", "Constant."),
    zero("ext_item_size", NO_EXTSTORE),
    zero("ext_item_age", NO_EXTSTORE),
    zero("ext_low_ttl", NO_EXTSTORE),
    zero("ext_recache_rate", NO_EXTSTORE),
    zero("ext_wbuf_size", NO_EXTSTORE),
    zero("ext_compact_under", NO_EXTSTORE),
    zero("ext_drop_under", NO_EXTSTORE),
    zero("ext_max_sleep", NO_EXTSTORE),
    constant("ext_max_frag", "0.00", NO_EXTSTORE),
    constant("slab_automove_freeratio", "0.010", NO_SLABS),
    constant("ext_drop_unread", "no", NO_EXTSTORE),
    text("ssl_enabled", |v| yes_or_no(v.state.options.tls.is_some()), "Whether TCP connections are TLS."),
    constant("ssl_chain_cert", "(null)", NO_TLS_SETTING),
    constant("ssl_key", "(null)", NO_TLS_SETTING),
    constant("ssl_verify_mode", "0", NO_TLS_SETTING),
    constant("ssl_keyformat", "1", NO_TLS_SETTING),
    constant("ssl_ciphers", "NULL", NO_TLS_SETTING),
    constant("ssl_ca_cert", "NULL", NO_TLS_SETTING),
    constant("ssl_wbuf_size", "16384", NO_TLS_SETTING),
    constant("ssl_session_cache", "no", NO_TLS_SETTING),
    constant("ssl_kernel_tls", "no", NO_TLS_SETTING),
    constant("ssl_min_version", "tlsv1.2", NO_TLS_SETTING),
    zero("num_napi_ids", NO_NAPI),
    constant("memory_file", "(null)", "Constant: flash keeps objects over a restart."),
    constant("client_flags_size", "4", "Bytes of the client's flags."),
];

/// `stats items`, of the one class that there is.
#[rustfmt::skip]
pub(crate) static ITEMS: [Stat; 28] = [
    number("number", |v| v.cache.dram_objects, "Objects in DRAM."),
    zero("number_hot", NO_QUEUES),
    zero("number_warm", NO_QUEUES),
    number("number_cold", |v| v.cache.dram_objects, "Objects in DRAM: there is one queue for this count."),
    zero("age_hot", NO_QUEUES),
    zero("age_warm", NO_QUEUES),
    zero("age", "Constant: not counted."),
    number("mem_requested", |v| v.cache.dram_bytes, "DRAM of objects, overhead included."),
    number("evicted", |v| v.cache.evicted, "Objects evicted from DRAM."),
    zero("evicted_nonzero", "Constant: not counted."),
    zero("evicted_time", "Constant: not counted."),
    number("outofmemory", |v| v.cache.refused, "Objects not stored because nothing may be evicted for them."),
    zero("tailrepairs", NO_QUEUES),
    number("reclaimed", |v| v.cache.reclaimed, "Expired objects that made room for others."),
    zero("expired_unfetched", "Constant: not counted."),
    number("evicted_unfetched", |v| v.cache.evicted_unfetched, "Objects evicted from DRAM that were never read."),
    zero("evicted_active", "Constant: not counted."),
    number("crawler_reclaimed", |v| v.cache.swept, "Expired objects removed in the background."),
    zero("crawler_items_checked", "Constant: not counted."),
    zero("lrutail_reflocked", NO_QUEUES),
    zero("moves_to_cold", NO_QUEUES),
    zero("moves_to_warm", NO_QUEUES),
    zero("moves_within_lru", NO_QUEUES),
    zero("direct_reclaims", NO_QUEUES),
    number("hits_to_hot", |v| v.cache.dram_hits, "Lookups that hit in DRAM."),
    zero("hits_to_warm", NO_QUEUES),
    zero("hits_to_cold", NO_QUEUES),
    zero("hits_to_temp", NO_QUEUES),
];

/// `stats slabs`, of the one class that there is.
#[rustfmt::skip]
pub(crate) static SLABS: [Stat; 15] = [
    number("chunk_size", |v| v.cache.dram_bytes.checked_div(v.cache.dram_objects).unwrap_or(0), "Mean DRAM of an object."),
    zero("chunks_per_page", NO_SLABS),
    constant("total_pages", "1", NO_SLABS),
    number("total_chunks", |v| v.cache.dram_objects, "Objects in DRAM."),
    number("used_chunks", |v| v.cache.dram_objects, "Objects in DRAM."),
    zero("free_chunks", NO_SLABS),
    zero("free_chunks_end", NO_SLABS),
    count("get_hits", Count::GetHits, "Keys of get commands that hit."),
    count("cmd_set", Count::Sets, "Set commands received."),
    count("delete_hits", Count::DeleteHits, "Delete commands that hit."),
    count("incr_hits", Count::IncrHits, "Increments that hit."),
    count("decr_hits", Count::DecrHits, "Decrements that hit."),
    count("cas_hits", Count::CasHits, "Compare-and-swap commands whose version matched."),
    count("cas_badval", Count::CasBadval, "Compare-and-swap commands whose version did not match."),
    count("touch_hits", Count::TouchHits, "Changes of a time to live that hit."),
];

fn protocol(choice: ProtocolChoice) -> &'static str {
    match choice {
        ProtocolChoice::Auto => "auto-negotiate",
        ProtocolChoice::Text => "ascii",
        ProtocolChoice::Binary => "binary",
    }
}

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
