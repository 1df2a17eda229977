//! The flags of memcached's command line, with their meaning there.
//!
//! Guarantees: a flag of memcached works as there, is accepted because it needs nothing here, or is
//! refused with the reason. None means something else.

use std::path::{Path, PathBuf};

use tidekv_memcached::{Address, CacheServerOptions, DEFAULT_CACHE_PORT, ProtocolChoice, TlsFiles};

use crate::failure::{Failure, Result};
use crate::log;
use crate::quantity::{parse_duration, parse_size};

/// The mode of a Unix socket that only its owner may use.
const OWNER_ONLY: u32 = 0o077;

/// Flags of memcached.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Flags of memcached")]
pub struct MemcachedFlags {
    /// DRAM in megabytes, or with a unit: --dram.
    #[arg(short = 'm', long, value_name = "MB", value_parser = parse_megabytes,
          conflicts_with = "dram")]
    memory_limit: Option<u64>,

    /// TCP port of addresses that have none; 0 for no TCP.
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,

    /// Addresses to listen on: --listen.
    #[arg(short = 'l', value_name = "ADDR,...", value_delimiter = ',', conflicts_with = "listen")]
    interfaces: Vec<String>,

    /// UDP port: must be 0, there is no UDP.
    #[arg(short = 'U', long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    udp_port: u16,

    /// Unix socket to listen on, instead of TCP.
    #[arg(short = 's', long, value_name = "FILE", conflicts_with_all = ["listen", "interfaces"])]
    unix_socket: Option<PathBuf>,

    /// Octal mode of the Unix socket: only its owner may use it.
    #[arg(short = 'a', long, value_name = "MODE", value_parser = parse_octal)]
    unix_mask: Option<u32>,

    /// Threads that serve connections [default: one per processor].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Log more: -v informs, -vv debugs, -vvv traces.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,

    /// Refuse to store an object that has no room, instead of evicting others; not with --flash.
    #[arg(short = 'M', long)]
    disable_evictions: bool,

    /// Refuse `flush_all`.
    #[arg(short = 'F', long)]
    disable_flush_all: bool,

    /// Refuse listings of keys.
    #[arg(short = 'X', long)]
    disable_dumping: bool,

    /// Let clients authenticate with SASL; needs --auth-file.
    #[arg(short = 'S', long, requires = "auth_file")]
    enable_sasl: bool,

    /// Protocol: auto, by the first byte of a connection, or only ascii or binary.
    #[arg(short = 'B', long, value_name = "NAME", default_value = "auto", hide_default_value = true,
          value_parser = parse_protocol)]
    protocol: ProtocolChoice,

    /// Count requests by key prefix, the part before this character (`stats detail`).
    #[arg(short = 'D', value_name = "CHARACTER", value_parser = parse_delimiter)]
    delimiter: Option<u8>,

    /// User as which the server runs, if root starts it.
    #[arg(short, long, value_name = "NAME")]
    user: Option<String>,

    /// File for the server's process ID.
    #[arg(short = 'P', long, value_name = "FILE")]
    pidfile: Option<PathBuf>,

    /// Run in the background; returns when the server listens.
    #[arg(short, long)]
    daemon: bool,

    /// Set in the process in the background.
    #[arg(long, hide = true, requires = "daemon")]
    in_background: bool,

    /// TLS, with -o ssl_chain_cert=FILE,ssl_key=FILE: --tls-cert, --tls-key.
    #[arg(short = 'Z', long, conflicts_with = "tls_cert")]
    enable_ssl: bool,

    /// Extended options of memcached, separated by commas, such as idle_timeout=60.
    #[arg(short = 'o', long, value_name = "OPTION,...", value_delimiter = ',')]
    extended: Vec<String>,

    /// Accepted without effect.
    #[arg(short = 'W', long, hide = true)]
    disable_watch: bool,

    /// Accepted without effect.
    #[arg(short = 'k', long, hide = true)]
    lock_memory: bool,

    /// Accepted without effect.
    #[arg(short = 'r', long, hide = true)]
    enable_coredumps: bool,

    /// Accepted without effect.
    #[arg(short = 'L', long, hide = true)]
    enable_largepages: bool,

    /// Accepted without effect.
    #[arg(short = 'b', long, value_name = "N", hide = true)]
    listen_backlog: Option<u32>,

    /// Accepted without effect.
    #[arg(short = 'R', long, value_name = "N", hide = true)]
    max_reqs_per_event: Option<u32>,

    /// Accepted without effect.
    #[arg(short = 'f', long, value_name = "FACTOR", hide = true)]
    slab_growth_factor: Option<f64>,

    /// Accepted without effect.
    #[arg(short = 'n', long, value_name = "BYTES", hide = true)]
    slab_min_size: Option<u32>,

    /// Accepted without effect.
    #[arg(short = 'C', long, hide = true)]
    disable_cas: bool,

    /// Refused: objects survive a restart on flash.
    #[arg(short = 'e', long, value_name = "FILE", hide = true)]
    memory_file: Option<PathBuf>,
}

impl MemcachedFlags {
    /// The DRAM, if `-m` gives it.
    pub fn dram(&self) -> Option<u64> {
        self.memory_limit
    }

    /// Whether objects may be evicted.
    pub fn evicts(&self) -> bool {
        !self.disable_evictions
    }

    /// Whether this process shall start one in the background.
    pub fn starts_another(&self) -> bool {
        self.daemon && !self.in_background
    }

    /// Whether this process is the one in the background.
    pub fn is_in_background(&self) -> bool {
        self.in_background
    }

    /// Whether the log was asked for.
    pub fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// The user as which the server runs.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The file for the process ID.
    pub fn pid_file(&self) -> Option<&Path> {
        self.pidfile.as_deref()
    }

    /// The level of the log.
    pub fn log_level(&self) -> log::Level {
        log::Level::of_verbosity(self.verbose)
    }

    /// Sets the options that these flags give; `listen` are the addresses of `--listen`.
    pub fn apply(&self, listen: &[Address], options: &mut CacheServerOptions) -> Result<()> {
        if self.udp_port != 0 {
            return Err(Failure::usage("-U: there is no UDP, only -U 0"));
        }
        if self.unix_mask.is_some_and(|mode| mode & OWNER_ONLY != 0) {
            return Err(Failure::usage(
                "-a: only the owner may use the Unix socket, so at most 700",
            ));
        }
        if self.memory_file.is_some() {
            return Err(Failure::usage(
                "-e: objects survive a restart on flash: use --flash, and --state for a kill",
            ));
        }
        if let Some(files) = self.tls_files()? {
            options.tls = Some(files);
        }
        options.listen = self.addresses(listen)?;
        options.protocol = self.protocol;
        options.prefix_delimiter = self.delimiter;
        options.event_loops = self.threads.map(usize::from);
        options.allows_flush = !self.disable_flush_all;
        options.allows_dumps = !self.disable_dumping;
        options.verbosity = u32::from(self.verbose);
        self.extended.iter().try_for_each(|option| extend(option, options))
    }

    /// The files of TLS that `-o` gives, with `-Z`.
    fn tls_files(&self) -> Result<Option<TlsFiles>> {
        let (mut certificate, mut key, mut authorities, mut verifies) = (None, None, None, false);
        for option in &self.extended {
            match option.split_once('=') {
                Some(("ssl_chain_cert", path)) => certificate = Some(PathBuf::from(path)),
                Some(("ssl_key", path)) => key = Some(PathBuf::from(path)),
                Some(("ssl_ca_cert", path)) => authorities = Some(PathBuf::from(path)),
                Some(("ssl_verify_mode", mode)) => verifies = verifies_clients(mode)?,
                _ => {}
            }
        }
        let files = match (self.enable_ssl, certificate, key) {
            (false, None, None) if authorities.is_none() && !verifies => return Ok(None),
            (false, ..) => return Err(Failure::usage("-o ssl_…: these options need -Z")),
            (true, Some(certificate), Some(key)) => (certificate, key),
            (true, ..) => {
                return Err(Failure::usage("-Z needs -o ssl_chain_cert=FILE,ssl_key=FILE"));
            }
        };
        // As in memcached, authorities alone do not make it ask clients for certificates.
        let client_authorities = authorities.filter(|_| verifies);
        if verifies && client_authorities.is_none() {
            return Err(Failure::usage("-o ssl_verify_mode=2 needs ssl_ca_cert=FILE"));
        }
        Ok(Some(TlsFiles { certificate: files.0, key: files.1, client_authorities }))
    }

    fn addresses(&self, listen: &[Address]) -> Result<Vec<Address>> {
        if let Some(path) = &self.unix_socket {
            return Ok(vec![Address::Unix(path.clone())]);
        }
        let port = self.port.unwrap_or(DEFAULT_CACHE_PORT);
        let parse = |text: &String| {
            Address::with_port(text, port).map_err(|error| Failure::usage(error.to_string()))
        };
        let mut addresses = match self.interfaces.is_empty() {
            true => listen.to_vec(),
            false => self.interfaces.iter().map(parse).collect::<Result<_>>()?,
        };
        match self.port {
            Some(0) => addresses.retain(|address| matches!(address, Address::Unix(_))),
            Some(port) if self.interfaces.is_empty() => {
                for address in &mut addresses {
                    if let Address::Tcp(_, of_listen) = address {
                        *of_listen = port;
                    }
                }
            }
            _ => {}
        }
        match addresses.is_empty() {
            true => Err(Failure::usage("-p 0: there is nothing left to listen on; add -s FILE")),
            false => Ok(addresses),
        }
    }
}

/// Applies an extended option of memcached.
fn extend(option: &str, options: &mut CacheServerOptions) -> Result<()> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match name {
        "idle_timeout" => {
            let time = parse_duration(value).map_err(Failure::usage)?;
            options.idle_timeout = Some(time).filter(|time| !time.is_zero());
        }
        "ext_path" => {
            return Err(Failure::usage(format!("-o {option}: use --flash {value}")));
        }
        // `tls_files` reads them.
        "ssl_chain_cert" | "ssl_key" | "ssl_ca_cert" | "ssl_verify_mode" => {}
        "ssl_keyformat" if value == "1" => {}
        "ssl_keyformat" => return Err(Failure::usage(format!("-o {option}: keys are PEM files"))),
        "ssl_min_version" if value == "tlsv1.2" => {}
        "ssl_ciphers" | "ssl_min_version" => {
            return Err(Failure::usage(format!(
                "-o {option}: the server offers TLS 1.2 and 1.3 with fixed ciphers"
            )));
        }
        "no_maxconns_fast" => {
            return Err(Failure::usage(
                "-o no_maxconns_fast: a connection over the limit is closed at once",
            ));
        }
        name if WITHOUT_EFFECT.contains(&name.strip_prefix("no_").unwrap_or(name)) => {}
        _ => return Err(Failure::usage(format!("-o {option}: unknown option"))),
    }
    Ok(())
}

/// Whether clients must present a certificate, by the value of `ssl_verify_mode`.
fn verifies_clients(mode: &str) -> Result<bool> {
    match mode {
        "0" => Ok(false),
        "2" => Ok(true),
        _ => Err(Failure::usage(format!(
            "-o ssl_verify_mode={mode}: clients must present a certificate (2), or are not asked (0)"
        ))),
    }
}

/// Extended options that need nothing here: their subjects do not exist, or work automatically.
const WITHOUT_EFFECT: [&str; 42] = [
    "maxconns_fast",
    "hashpower",
    "hash_algorithm",
    "hashexpand",
    "tail_repair_time",
    "slab_reassign",
    "slab_automove",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_automove_freeratio",
    "slab_chunk_max",
    "lru_crawler",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "lru_maintainer",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temporary_ttl",
    "watcher_logbuf_size",
    "worker_logbuf_size",
    "read_buf_mem_limit",
    "resp_obj_mem_limit",
    "track_sizes",
    "inline_ascii_resp",
    "modern",
    "drop_privileges",
    "relaxed_privileges",
    "ssl_wbuf_size",
    "ssl_session_cache",
    "ssl_kernel_tls",
    "sock_cookie_id",
    "ext_page_size",
    "ext_wbuf_size",
    "ext_threads",
    "ext_item_size",
    "ext_item_age",
    "ext_low_ttl",
    "ext_recache_rate",
    "ext_compact_under",
    "ext_drop_under",
];

/// Parses megabytes, or a size with a unit.
fn parse_megabytes(text: &str) -> std::result::Result<u64, String> {
    match text.parse::<u64>() {
        Ok(megabytes) if megabytes < 1 << 30 => Ok(megabytes << 20),
        Ok(_) => Err(format!("{text:?} is too large: without a unit it means megabytes")),
        Err(_) => parse_size(text),
    }
}

fn parse_protocol(name: &str) -> std::result::Result<ProtocolChoice, String> {
    match name {
        "auto" | "auto-negotiate" => Ok(ProtocolChoice::Auto),
        "ascii" => Ok(ProtocolChoice::Text),
        "binary" => Ok(ProtocolChoice::Binary),
        _ => Err("it is auto, ascii or binary".into()),
    }
}

fn parse_delimiter(text: &str) -> std::result::Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii_graphic() => Ok(*byte),
        _ => Err(format!("{text:?} is not one character of ASCII")),
    }
}

fn parse_octal(text: &str) -> std::result::Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text:?} is no octal mode such as 700"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_unit_is_megabytes() {
        assert_eq!(parse_megabytes("64"), Ok(64 << 20));
        assert_eq!(parse_megabytes("2GiB"), Ok(2 << 30));
        assert!(parse_megabytes("4294967296").is_err() && parse_megabytes("x").is_err());
        assert_eq!(parse_octal("700"), Ok(0o700));
        assert!(parse_octal("800").is_err() && parse_octal("1000").is_err());
    }

    #[test]
    fn extended_options_work_or_are_refused() {
        let mut options = CacheServerOptions::default();
        for option in ["modern", "no_lru_crawler", "slab_chunk_max=524288", "idle_timeout=60"] {
            extend(option, &mut options).unwrap();
        }
        assert_eq!(options.idle_timeout, Some(std::time::Duration::from_secs(60)));
        for option in
            ["ext_path=/f:1G", "ssl_keyformat=2", "unknown", "no_unknown", "idle_timeout=x"]
        {
            assert!(extend(option, &mut options).is_err(), "{option}");
        }
    }
}
