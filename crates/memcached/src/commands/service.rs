//! Commands for the server itself, and commands with a constant reply.

use tidekv_tiered::Cache;

use crate::commands::execution::{Execution, Progress};
use crate::protocol::numerals::{digits_32, signed_64};
use crate::protocol::request::{BAD_FORMAT, NO_COMMAND};
use crate::protocol::words::Line;

/// Minimum memory, in MiB, as in memcached.
const MEMORY_MIB_MIN: u32 = 8;
/// A larger number must be in bytes by mistake, as in memcached.
const MEMORY_MIB_MAX: u32 = 1_000_000_000;

/// A request for the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Service {
    /// A constant reply.
    Say(&'static str),
    Verbosity(u32),
    /// The new DRAM budget, in MiB.
    Memory(u32),
    Time(TimeChange),
    /// With whether an unsupported mode is requested.
    Shutdown {
        has_mode: bool,
    },
    /// Reads the TLS files again.
    RefreshCerts,
    Quit,
}

/// What `debugtime` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeChange {
    Stop,
    Resume,
    Shift(i64),
}

/// Reads `verbosity`.
pub(crate) fn read_verbosity(line: &Line) -> Result<Service, &'static str> {
    digits_32(line.word(1)).map(Service::Verbosity).ok_or(BAD_FORMAT)
}

/// Reads `cache_memlimit`.
pub(crate) fn read_memory(line: &Line) -> Result<Service, &'static str> {
    let mib = digits_32(line.word(1)).ok_or(NO_COMMAND)?;
    if mib < MEMORY_MIB_MIN {
        return Err("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m");
    }
    if mib > MEMORY_MIB_MAX {
        return Err("MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes");
    }
    Ok(Service::Memory(mib))
}

/// Reads `debugtime`.
pub(crate) fn read_time(line: &Line) -> Result<Service, &'static str> {
    Ok(Service::Time(match line.word(1) {
        b"p" => TimeChange::Stop,
        b"r" => TimeChange::Resume,
        number => TimeChange::Shift(signed_64(number).ok_or(NO_COMMAND)?),
    }))
}

/// Reads `shutdown`.
pub(crate) fn read_shutdown(line: &Line) -> Result<Service, &'static str> {
    let has_mode = !matches!((line.len(), line.word(1)), (1, _) | (2, b"graceful"));
    Ok(Service::Shutdown { has_mode })
}

impl Service {
    pub(crate) fn run(&mut self, execution: &mut Execution<'_>, is_quiet: bool) -> Progress {
        let state = execution.state;
        let line = match self {
            Self::Say(line) => line,
            Self::Verbosity(level) => {
                state.set_verbosity(*level);
                "OK"
            }
            // Objects that no longer fit are freed.
            Self::Memory(_) if !execution.may_wait => return Progress::Wait,
            Self::Memory(mib) => resize(&state.objects.cache, *mib),
            Self::Time(change) => match &state.options.clock {
                None => NO_COMMAND,
                Some(clock) => {
                    match change {
                        TimeChange::Stop => clock.stop(),
                        TimeChange::Resume => clock.resume(),
                        TimeChange::Shift(seconds) => clock.shift_s(*seconds),
                    }
                    "OK"
                }
            },
            Self::Shutdown { has_mode } => match state.options.on_shutdown {
                None => "SERVER_ERROR: shutdown not enabled",
                Some(_) if *has_mode => "CLIENT_ERROR invalid shutdown mode",
                Some(shut_down) => {
                    shut_down();
                    return Progress::Close;
                }
            },
            // Files are read.
            Self::RefreshCerts if state.tls.is_some() && !execution.may_wait => {
                return Progress::Wait;
            }
            Self::RefreshCerts => match &state.tls {
                None => "Error TLS not enabled",
                Some(tls) => match tls.reload() {
                    Ok(()) => "OK",
                    Err(error) => {
                        // It names files of the server.
                        tracing::error!("the old certificates stay: {error}");
                        "Error certificates cannot be read"
                    }
                },
            },
            Self::Quit => return Progress::Close,
        };
        execution.say_unless(is_quiet, line)
    }
}

fn resize(cache: &Cache, mib: u32) -> &'static str {
    match cache.set_dram_bytes(u64::from(mib) << 20) {
        Ok(()) => "OK",
        Err(_) => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust",
    }
}
