//! Consistency of the catalogue, and its agreement with its document.

use std::fmt::Write;

use super::*;
use crate::commands::statistic_lists::{GENERAL, ITEMS, PROTOCOL_VERSION, SETTINGS, SLABS, Stat};
use crate::observe::fields::{CACHE_FIELDS, DEVICE_FIELDS};
use crate::observe::metrics::{CACHE_METRICS, DEVICE_METRICS, READ_TIMES};
use crate::protocol::flags::FLAGS;
use crate::state::forecast;
use crate::state::tenants::TENANT_METRICS;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/memcached.md");
const BEGIN: &str = "<!-- Made by a test from here on. -->\n";

fn parse(text: &str) -> Parsed {
    read(&Line::new(Bytes::copy_from_slice(text.as_bytes())), &|_, len| len <= 1000)
}

/// The reply, and whether the client suppresses it.
fn said(text: &str) -> (&'static str, bool) {
    match parse(text) {
        Parsed::Whole(Request::Service(Service::Say(line), is_quiet)) => (line, is_quiet),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn invalid_commands_get_the_errors_of_memcached() {
    for text in [
        "x",
        "GET a",
        " get a",
        "bget a",
        "mx a",
        "m",
        "slabs",
        "stats foo",
        "stats noreply",
        "cache_memlimit",
        "cache_memlimit x",
        "lru_crawler foo",
        "",
    ] {
        assert_eq!(said(text), ("ERROR", false), "{text}");
    }
    for (text, line) in [
        ("get", BAD_FORMAT),
        ("gat 0", BAD_FORMAT),
        ("set a 0 0", BAD_FORMAT),
        ("set a 0 0 -1", BAD_FORMAT),
        ("set a 0 0 noreply", BAD_FORMAT),
        ("set a 0 0 1x", BAD_FORMAT),
        ("delete", BAD_FORMAT),
        ("incr a", BAD_FORMAT),
        ("incr a x", "CLIENT_ERROR invalid numeric delta argument"),
        ("incr a +1", "CLIENT_ERROR invalid numeric delta argument"),
        ("touch a", BAD_FORMAT),
        ("touch a x", "CLIENT_ERROR invalid exptime argument"),
        ("gat x a", "CLIENT_ERROR invalid exptime argument"),
        ("flush_all x", "CLIENT_ERROR invalid exptime argument"),
        ("  verbosity", BAD_FORMAT),
        ("mg", BAD_FORMAT),
        ("mg a !", BAD_FORMAT),
        ("mg a 5", "CLIENT_ERROR invalid flag"),
        ("ms a", BAD_FORMAT),
        ("ms a x", BAD_FORMAT),
        ("md a 5", "CLIENT_ERROR invalid flag"),
        ("ma a 5", "CLIENT_ERROR invalid or duplicate flag"),
        ("ma a Mx", "CLIENT_ERROR invalid mode for ma M token"),
        ("me", BAD_FORMAT),
        ("cache_memlimit 7", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
        ("watch", "CLIENT_ERROR watch commands not allowed"),
    ] {
        assert_eq!(said(text), (line, false), "{text}");
    }
    // Behind these a value may follow, which is skipped.
    for text in ["set a b 0 1", "set a 0 b 1", "cas a 0 0 1", "cas a 0 0 1 x", "ms a 1 5"] {
        let Parsed::Skip(Request::Service(Service::Say(line), false), 3) = parse(text) else {
            panic!("{text}: {:?}", parse(text));
        };
        let expected = if text == "ms a 1 5" { "CLIENT_ERROR invalid flag" } else { BAD_FORMAT };
        assert_eq!(line, expected, "{text}");
    }
}

#[test]
fn noreply_applies_to_errors_too() {
    for text in ["unknown noreply", "incr a x noreply", "verbosity x noreply"] {
        assert!(said(text).1, "{text}");
    }
    let is_quiet = |text: &str| match parse(text) {
        Parsed::Skip(Request::Service(_, is_quiet), 3) => is_quiet,
        other => panic!("{text}: {other:?}"),
    };
    assert!(is_quiet("set a b 0 1 noreply"));
    assert!(is_quiet("set a noreply 0 1 noreply"));
    let long = "k".repeat(251);
    assert!(is_quiet(&format!("set {long} 0 0 1 noreply")));
    assert_eq!(said(&format!("mg {long} q")), (BAD_FORMAT, false));
}

#[test]
fn a_value_that_is_too_large_removes_the_old_one_as_in_memcached() {
    let removes = |text: &str| match parse(text) {
        Parsed::Skip(Request::Refused(refused), 2003) => refused.removes,
        other => panic!("{text}: {other:?}"),
    };
    assert!(removes("set a 0 0 2001"));
    assert!(!removes("add a 0 0 2001"));
    assert!(!removes("cas a 0 0 2001 1"));
    assert!(removes("ms a 2001 MA"));
}

#[test]
fn records_are_consistent() {
    for (index, command) in COMMANDS.iter().enumerate() {
        let name = command.name;
        assert!(command.summary.ends_with('.'), "{name}");
        assert!(command.words_min >= 1, "{name}");
        let is_first = COMMANDS.iter().position(|other| other.name == name) == Some(index);
        assert!(is_first, "{name} is there twice");
        let has_noreply = command.syntax.contains("noreply");
        assert_eq!(has_noreply, command.syntax.ends_with("[noreply]"), "{name}");
    }
    for name in LENIENT {
        assert!(COMMANDS.iter().any(|command| command.name == name), "{name}");
    }
    assert_eq!(VERSION, format!("VERSION {PROTOCOL_VERSION}"));
    for list in [&GENERAL[..], &SETTINGS, &ITEMS, &SLABS] {
        for stat in list {
            assert!(stat.help.ends_with('.'), "{}", stat.name);
        }
    }
}

/// The names that the Prometheus exporter of memcached needs, and those that its users read.
#[test]
fn the_names_that_exporters_read_exist() {
    for name in [
        "version",
        "uptime",
        "time",
        "get_hits",
        "get_misses",
        "delete_hits",
        "delete_misses",
        "incr_hits",
        "incr_misses",
        "decr_hits",
        "decr_misses",
        "cas_hits",
        "cas_misses",
        "cas_badval",
        "touch_hits",
        "touch_misses",
        "cmd_flush",
        "cmd_set",
        "cmd_get",
        "bytes",
        "limit_maxbytes",
        "curr_items",
        "total_items",
        "bytes_read",
        "bytes_written",
        "curr_connections",
        "total_connections",
        "rejected_connections",
        "listen_disabled_num",
        "evictions",
        "reclaimed",
        "store_too_large",
        "store_no_memory",
        "accepting_conns",
        "max_connections",
        "pid",
        "threads",
        "pointer_size",
    ] {
        assert!(GENERAL.iter().any(|stat| stat.name == name), "{name}");
    }
    for name in ["maxconns", "maxbytes", "lru_crawler", "item_size_max", "tcpport"] {
        assert!(SETTINGS.iter().any(|stat| stat.name == name), "{name}");
    }
    for name in ["get_hits", "delete_hits", "cas_hits", "cas_badval", "cmd_set", "used_chunks"] {
        assert!(SLABS.iter().any(|stat| stat.name == name), "{name}");
    }
    for name in ["number", "evicted", "evicted_unfetched", "mem_requested", "reclaimed"] {
        assert!(ITEMS.iter().any(|stat| stat.name == name), "{name}");
    }
}

/// The tables of `docs/reference/memcached.md` are this text; `TIDEKV_BLESS=1` writes it.
#[test]
#[expect(clippy::disallowed_methods, reason = "the document lies in the repository")]
fn the_documentation_is_up_to_date() {
    let found = std::fs::read_to_string(DOCUMENT).unwrap();
    let (head, _) = found.split_once(BEGIN).expect("the document says where the tables begin");
    let expected = format!("{head}{BEGIN}{}", tables());
    if std::env::var_os("TIDEKV_BLESS").is_some() {
        std::fs::write(DOCUMENT, &expected).unwrap();
        return;
    }
    assert!(found == expected, "{DOCUMENT} is out of date: run this test with TIDEKV_BLESS=1");
}

fn tables() -> String {
    let mut text = String::new();
    for (group, title) in [
        (Group::Reading, "Read commands"),
        (Group::Writing, "Write commands"),
        (Group::Meta, "Meta commands"),
        (Group::Server, "Server commands"),
    ] {
        let _ = write!(text, "\n## {title}\n\n| Command | Description |\n|---|---|\n");
        for command in COMMANDS.iter().filter(|command| command.group == group) {
            let syntax = format!("{} {}", command.name, command.syntax);
            let syntax = syntax.trim_end().replace('|', "\\|");
            let _ = writeln!(text, "| `{syntax}` | {} |", command.summary);
        }
    }
    flags_table(&mut text);
    for (list, title) in [
        (&GENERAL[..], "`stats`"),
        (&SETTINGS, "`stats settings`"),
        (&ITEMS, "`stats items`, each as `items:1:…`"),
        (&SLABS, "`stats slabs`, each as `1:…`"),
    ] {
        stats_table(&mut text, list, title);
    }
    text += "\n## Metrics\n\n| Metric | Kind | Description |\n|---|---|---|\n";
    for metric in &CACHE_METRICS {
        let label = match metric.label {
            "" => String::new(),
            label => {
                let values: Vec<_> = metric.series.iter().map(|(value, _)| *value).collect();
                format!(" `{label}`: {}.", values.join(", "))
            }
        };
        let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
        let _ = writeln!(text, "| `{name}` | {kind} | {help}{label} |");
    }
    text += "\nFor each flash device, with the label `device`:\n\n\
        | Metric | Kind | Description |\n|---|---|---|\n";
    for metric in &DEVICE_METRICS {
        let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
        let _ = writeln!(text, "| `{name}` | {kind} | {help} |");
    }
    let (name, kind, help) = READ_TIMES;
    let _ = writeln!(text, "| `{name}` | {} | {help} |", kind.name());
    text += "\nFor each tenant, with the label `tenant`, if the cache has tenants. `stats tenants` has the same\n\
        numbers as `NAME:KEY`:\n\n\
        | Metric | `stats tenants` | Kind | Description |\n|---|---|---|---|\n";
    for metric in &TENANT_METRICS {
        let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
        let _ = writeln!(text, "| `{name}` | `{}` | {kind} | {help} |", metric.key);
    }
    let (name, help) = forecast::METRIC;
    let _ = write!(
        text,
        "\nFor each miss-ratio curve, with the labels `tenant` and `bytes`, powers of two from 1 MiB:\n\n\
         | Metric | Kind | Description |\n|---|---|---|\n| `{name}` | gauge | {help} |\n"
    );
    for (title, fields) in [
        ("Fields of the history", &CACHE_FIELDS[..]),
        ("Fields of the history of each flash device", &DEVICE_FIELDS[..]),
    ] {
        let _ = writeln!(text, "\n## {title}\n\n| Field | Unit | Description |\n|---|---|---|");
        for field in fields {
            let _ = writeln!(text, "| `{}` | {} | {} |", field.name, field.unit, field.help);
        }
    }
    text
}

fn flags_table(text: &mut String) {
    *text += "\n## Flags of the meta commands\n\n\
        A command accepts and ignores flags that it does not use, as in memcached.\n\n\
        | Flag | Used by | Description |\n|---|---|---|\n";
    for flag in &FLAGS {
        let commands: Vec<_> = flag.commands.chars().map(|c| format!("m{c}")).collect();
        let (letter, token) = (char::from(flag.letter), flag.token);
        let token = if token.is_empty() { String::new() } else { format!("*{token}*") };
        let _ =
            writeln!(text, "| `{letter}`{token} | {} | {} |", commands.join(", "), flag.summary);
    }
}

fn stats_table(text: &mut String, list: &[Stat], title: &str) {
    let _ = write!(text, "\n## {title}\n\n| Name | Description |\n|---|---|\n");
    for stat in list {
        let _ = writeln!(text, "| `{}` | {} |", stat.name, stat.help);
    }
}
