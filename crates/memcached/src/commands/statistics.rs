//! `stats`: the statistics of the lists, of sizes, connections, tenants and curves, and their reset.

use std::collections::BTreeMap;
use std::fmt::Write;

use tidekv_net::clients::Activity;
use tidekv_tiered::{Cursor, WouldBlock};

use crate::commands::detail::{self, Detail};
use crate::commands::execution::{Execution, Progress};
use crate::commands::statistic_lists::{GENERAL, ITEMS, SETTINGS, SLABS, Stat, View};
use crate::commands::walk::PLACES_AT_ONCE;
use crate::protocol::words::Line;
use crate::state::forecast;
use crate::state::server_state::State;
use crate::state::tenants::TENANT_METRICS;

/// The step of sizes in `stats sizes`.
const SIZE_STEP_BYTES: usize = 32;

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
    /// The counters by prefix.
    Detail(Detail),
}

/// Arguments of the text protocol that may be abbreviated; the first one that fits counts.
const ABBREVIATED: [&[u8]; 5] = [b"reset", b"detail", b"settings", b"cachedump", b"conns"];

/// The argument for which `name` stands.
pub(crate) fn expanded(name: &[u8]) -> &[u8] {
    let full = ABBREVIATED.into_iter().find(|full| !name.is_empty() && full.starts_with(name));
    full.unwrap_or(name)
}

/// Parses `stats`; `None` for an unknown argument.
pub(crate) fn read(line: &Line) -> Option<Statistics> {
    match expanded(line.word(1)) {
        b"detail" => Some(Statistics::Detail(detail::read(line))),
        name => Statistics::named(name),
    }
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

    /// The kind of this key of the binary protocol, in which anything may follow some names; `None`
    /// for an unknown one.
    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        match key {
            key if key.starts_with(b"reset") => Some(Self::Reset),
            key if key.starts_with(b"settings") => Some(Self::Settings),
            key if key.starts_with(b"detail") => {
                Detail::of_key(&key[b"detail".len()..]).map(Self::Detail)
            }
            key => Self::named(key),
        }
    }

    pub(crate) fn run(self, execution: &mut Execution<'_>) -> Progress {
        if let Self::Detail(detail) = self {
            return detail.run(execution);
        }
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
            Self::Detail(detail) => text = detail.apply(state),
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
            "STAT {id}:addr {}\r\nSTAT {id}:listen_addr {}\r\n\
             STAT {id}:state {}\r\nSTAT {id}:secs_since_last_cmd {}\r\n",
            shown(&client.address),
            shown(&client.local_address),
            match client.activity() {
                Activity::Waiting => "conn_read",
                Activity::Receiving => "conn_nread",
                Activity::Executing => "conn_parse_cmd",
            },
            client.idle_ms(now_ms) / 1000,
        );
    }
}
