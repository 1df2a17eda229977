//! Parameters of Redis 7.0 that have no effect here, so that programs which set them at their start
//! run: name, default value and what Redis takes.
//!
//! `CONFIG SET` accepts what Redis accepts and logs that it has no effect; `CONFIG GET` returns the
//! value. Parameters of listening, TLS and files are fixed: a client that sets them must learn that
//! they did not change. Two are used by `OBJECT ENCODING`: see
//! [`objects`](crate::commands::objects).

use crate::commands::redis_parameters::Takes::{
    Characters, Fixed, Integer, Memory, MemoryOrPercent, OneOf, Protected, SameAs, Text, YesNo,
};
use crate::protocol::number::parse_i64;
use crate::state::settings::Settings;

const I32_MAX: i64 = i32::MAX as i64;
const I32_MIN: i64 = i32::MIN as i64;

/// The values that a parameter takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    /// It cannot be set.
    Fixed,
    /// It cannot be set unless the configuration allows it.
    Protected,
    YesNo,
    /// An integer between these two, inclusive.
    Integer(i64, i64),
    /// Bytes, with an optional unit.
    Memory,
    /// The same, or a percentage.
    MemoryOrPercent,
    OneOf(&'static [&'static str]),
    /// Any of these characters.
    Characters(&'static str),
    Text,
    /// Another name of this parameter.
    SameAs(&'static str),
}

/// Name, default value and values of the parameters, in the order of names.
pub(crate) static REDIS_PARAMETERS: [(&str, &str, Takes); 179] = [
    ("acl-pubsub-default", "resetchannels", OneOf(&["allchannels", "resetchannels"])),
    ("aclfile", "", Fixed),
    ("acllog-max-len", "128", Integer(0, i64::MAX)),
    ("active-defrag-cycle-max", "25", Integer(1, 99)),
    ("active-defrag-cycle-min", "1", Integer(1, 99)),
    ("active-defrag-ignore-bytes", "104857600", Memory),
    ("active-defrag-max-scan-fields", "1000", Integer(1, i64::MAX)),
    ("active-defrag-threshold-lower", "10", Integer(0, 1000)),
    ("active-defrag-threshold-upper", "100", Integer(0, 1000)),
    ("active-expire-effort", "1", Integer(1, 10)),
    ("activedefrag", "no", YesNo),
    ("activerehashing", "yes", YesNo),
    ("always-show-logo", "no", Fixed),
    ("aof-disable-auto-gc", "no", YesNo),
    ("aof-load-truncated", "yes", YesNo),
    ("aof-rewrite-incremental-fsync", "yes", YesNo),
    ("aof-timestamp-enabled", "no", YesNo),
    ("aof-use-rdb-preamble", "yes", YesNo),
    ("aof_rewrite_cpulist", "", Fixed),
    ("appenddirname", "appendonlydir", Fixed),
    ("appendfilename", "appendonly.aof", Fixed),
    ("auto-aof-rewrite-min-size", "67108864", Memory),
    ("auto-aof-rewrite-percentage", "100", Integer(0, I32_MAX)),
    ("bgsave_cpulist", "", Fixed),
    ("bind", "", Fixed),
    ("bind-source-addr", "", Text),
    ("bio_cpulist", "", Fixed),
    ("busy-reply-threshold", "5000", Integer(0, i64::MAX)),
    (
        "client-output-buffer-limit",
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        Text,
    ),
    ("client-query-buffer-limit", "1073741824", Memory),
    ("cluster-allow-pubsubshard-when-down", "yes", YesNo),
    ("cluster-allow-reads-when-down", "no", YesNo),
    ("cluster-allow-replica-migration", "yes", YesNo),
    ("cluster-announce-bus-port", "0", Integer(0, 65535)),
    ("cluster-announce-hostname", "", Text),
    ("cluster-announce-ip", "", Text),
    ("cluster-announce-port", "0", Integer(0, 65535)),
    ("cluster-announce-tls-port", "0", Integer(0, 65535)),
    ("cluster-config-file", "nodes.conf", Fixed),
    ("cluster-enabled", "no", Fixed),
    ("cluster-link-sendbuf-limit", "0", Memory),
    ("cluster-migration-barrier", "1", Integer(0, I32_MAX)),
    ("cluster-node-timeout", "15000", Integer(0, i64::MAX)),
    ("cluster-port", "0", Fixed),
    ("cluster-preferred-endpoint-type", "ip", OneOf(&["ip", "hostname", "unknown-endpoint"])),
    ("cluster-replica-no-failover", "no", YesNo),
    ("cluster-replica-validity-factor", "10", Integer(0, I32_MAX)),
    ("cluster-require-full-coverage", "yes", YesNo),
    ("cluster-slave-no-failover", "", SameAs("cluster-replica-no-failover")),
    ("cluster-slave-validity-factor", "", SameAs("cluster-replica-validity-factor")),
    ("crash-log-enabled", "yes", YesNo),
    ("crash-memcheck-enabled", "yes", YesNo),
    ("daemonize", "no", Fixed),
    ("dbfilename", "dump.rdb", Protected),
    ("dir", "", Fixed),
    ("disable-thp", "yes", Fixed),
    ("dynamic-hz", "yes", YesNo),
    ("enable-debug-command", "no", Fixed),
    ("enable-module-command", "no", Fixed),
    ("enable-protected-configs", "no", Fixed),
    ("hash-max-listpack-entries", "512", Integer(0, i64::MAX)),
    ("hash-max-listpack-value", "64", Memory),
    ("hash-max-ziplist-entries", "", SameAs("hash-max-listpack-entries")),
    ("hash-max-ziplist-value", "", SameAs("hash-max-listpack-value")),
    ("hll-sparse-max-bytes", "3000", Memory),
    ("hz", "10", Integer(0, I32_MAX)),
    ("ignore-warnings", "", Text),
    ("io-threads-do-reads", "no", Fixed),
    ("jemalloc-bg-thread", "yes", YesNo),
    ("latency-tracking", "yes", YesNo),
    ("latency-tracking-info-percentiles", "50 99 99.9", Text),
    ("lazyfree-lazy-eviction", "no", YesNo),
    ("lazyfree-lazy-expire", "no", YesNo),
    ("lazyfree-lazy-server-del", "no", YesNo),
    ("lazyfree-lazy-user-del", "no", YesNo),
    ("lazyfree-lazy-user-flush", "no", YesNo),
    ("lfu-decay-time", "1", Integer(0, I32_MAX)),
    ("lfu-log-factor", "10", Integer(0, I32_MAX)),
    ("list-compress-depth", "0", Integer(0, I32_MAX)),
    ("list-max-listpack-size", "-2", Integer(I32_MIN, I32_MAX)),
    ("list-max-ziplist-size", "", SameAs("list-max-listpack-size")),
    ("logfile", "", Fixed),
    ("loglevel", "notice", OneOf(&["debug", "verbose", "notice", "warning"])),
    ("lua-time-limit", "", SameAs("busy-reply-threshold")),
    ("masterauth", "", Text),
    ("masteruser", "", Text),
    ("maxmemory-clients", "0", MemoryOrPercent),
    ("maxmemory-eviction-tenacity", "10", Integer(0, 100)),
    (
        "maxmemory-policy",
        "noeviction",
        OneOf(&[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ]),
    ),
    ("maxmemory-samples", "5", Integer(1, I32_MAX)),
    ("min-replicas-max-lag", "10", Integer(0, I32_MAX)),
    ("min-replicas-to-write", "0", Integer(0, I32_MAX)),
    ("min-slaves-max-lag", "", SameAs("min-replicas-max-lag")),
    ("min-slaves-to-write", "", SameAs("min-replicas-to-write")),
    ("no-appendfsync-on-rewrite", "no", YesNo),
    ("notify-keyspace-events", "", Characters("Ag$lshzxeKEtmdn")),
    ("oom-score-adj", "no", OneOf(&["no", "yes", "relative", "absolute"])),
    ("oom-score-adj-values", "0 200 800", Text),
    ("pidfile", "", Fixed),
    ("proc-title-template", "{title} {listen-addr} {server-mode}", Text),
    ("propagation-error-behavior", "ignore", OneOf(&["ignore", "panic", "panic-on-replicas"])),
    ("protected-mode", "yes", Fixed),
    ("proto-max-bulk-len", "536870912", Fixed),
    ("rdb-del-sync-files", "no", YesNo),
    ("rdb-save-incremental-fsync", "yes", YesNo),
    ("rdbchecksum", "yes", Fixed),
    ("rdbcompression", "yes", YesNo),
    ("repl-backlog-size", "1048576", Memory),
    ("repl-backlog-ttl", "3600", Integer(0, i64::MAX)),
    ("repl-disable-tcp-nodelay", "no", YesNo),
    ("repl-diskless-load", "disabled", OneOf(&["disabled", "on-empty-db", "swapdb"])),
    ("repl-diskless-sync", "yes", YesNo),
    ("repl-diskless-sync-delay", "5", Integer(0, I32_MAX)),
    ("repl-diskless-sync-max-replicas", "0", Integer(0, I32_MAX)),
    ("repl-ping-replica-period", "10", Integer(1, I32_MAX)),
    ("repl-ping-slave-period", "", SameAs("repl-ping-replica-period")),
    ("repl-timeout", "60", Integer(1, I32_MAX)),
    ("replica-announce-ip", "", Text),
    ("replica-announce-port", "0", Integer(0, 65535)),
    ("replica-announced", "yes", YesNo),
    ("replica-ignore-disk-write-errors", "no", YesNo),
    ("replica-ignore-maxmemory", "yes", YesNo),
    ("replica-lazy-flush", "no", YesNo),
    ("replica-priority", "100", Integer(0, I32_MAX)),
    ("replica-read-only", "yes", YesNo),
    ("replica-serve-stale-data", "yes", YesNo),
    ("replicaof", "", Fixed),
    ("sanitize-dump-payload", "no", OneOf(&["no", "yes", "clients"])),
    ("server_cpulist", "", Fixed),
    ("set-max-intset-entries", "512", Integer(0, i64::MAX)),
    ("set-proc-title", "yes", Fixed),
    ("shutdown-on-sigint", "default", OneOf(&["default", "save", "nosave", "now", "force"])),
    ("shutdown-on-sigterm", "default", OneOf(&["default", "save", "nosave", "now", "force"])),
    ("shutdown-timeout", "10", Integer(0, I32_MAX)),
    ("slave-announce-ip", "", SameAs("replica-announce-ip")),
    ("slave-announce-port", "", SameAs("replica-announce-port")),
    ("slave-ignore-maxmemory", "", SameAs("replica-ignore-maxmemory")),
    ("slave-lazy-flush", "", SameAs("replica-lazy-flush")),
    ("slave-priority", "", SameAs("replica-priority")),
    ("slave-read-only", "", SameAs("replica-read-only")),
    ("slave-serve-stale-data", "", SameAs("replica-serve-stale-data")),
    ("slaveof", "", SameAs("replicaof")),
    ("socket-mark-id", "0", Fixed),
    ("stop-writes-on-bgsave-error", "yes", YesNo),
    ("stream-node-max-bytes", "4096", Memory),
    ("stream-node-max-entries", "100", Integer(0, i64::MAX)),
    ("supervised", "no", Fixed),
    ("syslog-enabled", "no", Fixed),
    ("syslog-facility", "local0", Fixed),
    ("syslog-ident", "redis", Fixed),
    ("tcp-backlog", "511", Fixed),
    ("tcp-keepalive", "300", Integer(0, I32_MAX)),
    ("tls-auth-clients", "yes", Fixed),
    ("tls-ca-cert-dir", "", Fixed),
    ("tls-ca-cert-file", "", Fixed),
    ("tls-cert-file", "", Fixed),
    ("tls-ciphers", "", Fixed),
    ("tls-ciphersuites", "", Fixed),
    ("tls-client-cert-file", "", Fixed),
    ("tls-client-key-file", "", Fixed),
    ("tls-client-key-file-pass", "", Fixed),
    ("tls-cluster", "no", Fixed),
    ("tls-dh-params-file", "", Fixed),
    ("tls-key-file", "", Fixed),
    ("tls-key-file-pass", "", Fixed),
    ("tls-port", "0", Fixed),
    ("tls-prefer-server-ciphers", "no", Fixed),
    ("tls-protocols", "", Fixed),
    ("tls-replication", "no", Fixed),
    ("tls-session-cache-size", "20480", Fixed),
    ("tls-session-cache-timeout", "300", Fixed),
    ("tls-session-caching", "yes", Fixed),
    ("tracking-table-max-keys", "1000000", Integer(0, i64::MAX)),
    ("unixsocket", "", Fixed),
    ("unixsocketperm", "0", Fixed),
    ("zset-max-listpack-entries", "128", Integer(0, i64::MAX)),
    ("zset-max-listpack-value", "64", Memory),
    ("zset-max-ziplist-entries", "", SameAs("zset-max-listpack-entries")),
    ("zset-max-ziplist-value", "", SameAs("zset-max-listpack-value")),
];

/// The parameter `name`, in any case, under its present name.
pub(crate) fn find(name: &str) -> Option<&'static (&'static str, &'static str, Takes)> {
    let found = REDIS_PARAMETERS.iter().find(|known| known.0.eq_ignore_ascii_case(name))?;
    match found.2 {
        SameAs(present) => find(present),
        _ => Some(found),
    }
}

/// The present value of the parameter `name`.
pub(crate) fn value(settings: &Settings, name: &str) -> Option<String> {
    let &(name, default, _) = find(name)?;
    Some(settings.without_effect(name).unwrap_or_else(|| default.to_owned()))
}

/// Bytes in the notation of Redis: a number with an optional unit, `k` for a thousand and `kb` for
/// 1024, likewise `m`, `mb`, `g` and `gb`.
pub(crate) fn parse_memory(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

impl Takes {
    /// The value as `CONFIG GET` returns it; the error says why it is refused.
    pub(crate) fn check(self, value: &str) -> Result<String, String> {
        match self {
            Fixed | SameAs(_) => Err("can't set immutable config".into()),
            Protected => Err("can't set protected config".into()),
            Text => Ok(value.into()),
            YesNo if ["yes", "no"].iter().any(|known| value.eq_ignore_ascii_case(known)) => {
                Ok(value.to_ascii_lowercase())
            }
            YesNo => Err("argument must be 'yes' or 'no'".into()),
            Integer(low, high) => {
                let number = parse_i64(value.as_bytes())
                    .ok_or("argument couldn't be parsed into an integer")?;
                match (low..=high).contains(&number) {
                    true => Ok(number.to_string()),
                    false => Err(format!("argument must be between {low} and {high} inclusive")),
                }
            }
            Memory => match parse_memory(value) {
                Some(bytes) => Ok(bytes.to_string()),
                None => Err("argument must be a memory value".into()),
            },
            MemoryOrPercent => match value.strip_suffix('%').map(str::parse::<u64>) {
                None => Memory.check(value),
                Some(Ok(0..=100)) => Ok(value.into()),
                Some(Ok(_)) => Err("percentage argument must be less or equal to 100".into()),
                Some(Err(_)) => Err("argument must be a memory or percent value".into()),
            },
            OneOf(words) => {
                let found = words.iter().find(|word| word.eq_ignore_ascii_case(value));
                let refused =
                    || format!("argument(s) must be one of the following: {}", words.join(", "));
                found.map(|word| (*word).to_owned()).ok_or_else(refused)
            }
            Characters(known) => match value.chars().all(|character| known.contains(character)) {
                true => Ok(value.into()),
                false => Err(format!("Invalid event class character. Use '{known}'.")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_defaults_are_valid() {
        assert!(REDIS_PARAMETERS.is_sorted_by(|a, b| a.0 < b.0));
        for (name, default, takes) in REDIS_PARAMETERS {
            match takes {
                Fixed | Protected => {}
                SameAs(present) => assert!(find(name).is_some_and(|found| found.0 == present)),
                _ => assert_eq!(takes.check(default).as_deref(), Ok(default), "{name}"),
            }
        }
    }

    #[test]
    fn bytes_may_have_units() {
        for (text, bytes) in
            [("0", 0), ("100mb", 100 << 20), ("1K", 1000), ("2Gb", 2 << 30), ("7b", 7)]
        {
            assert_eq!(parse_memory(text), Some(bytes), "{text}");
        }
        for text in ["", "mb", "1x", "-1", "1.5mb", "99999999999gb"] {
            assert_eq!(parse_memory(text), None, "{text}");
        }
    }
}
