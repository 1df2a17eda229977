//! The command line of TideKV: arguments, config file, progress, exit codes.
//! The crates below hold the logic that needs unit tests.
//!
//! Exit codes: 0 success; 1 failure, and for `get` a missing key; 2 usage error.
//! An error is one sentence on standard error that names the file, key or
//! option.
//!
//! Modules are declared bottom-up; a module names only modules above it.

mod failure;
mod environment;
mod log;
mod quantity;
mod terminal;
mod files;
mod formats;
mod output;
mod curve_file;
mod live_curves;
mod terms;
mod curve_picture;
mod progress;
mod simulated_cache;
mod store;
mod daemon;
mod config;
mod commands;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use failure::{Failure, Result};

/// glibc's allocator doubles the resident memory under the load of a store.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The symbol from which jemalloc reads its settings. A background thread returns freed memory
/// to the system within a tenth of a second; memory that the allocator keeps longer is not part of
/// the memory budget (`docs/benchmarks/findings/ycsb-vs-leveldb.md`). There is one arena per
/// processor, not four: a freed object returns to its own arena, even if another one needs the
/// memory next, and with eight arenas on two processors a cache of large objects had 20 MiB more
/// of unused memory (`docs/adr/0033-flash-object-cache.md`).
// SAFETY: jemalloc declares this name as `const char *`; a reference to an
// array is one pointer, and the string ends with a zero byte.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static ALLOCATOR_SETTINGS: &[u8; 77] =
    b"narenas_ratio:1,background_thread:true,dirty_decay_ms:100,muzzy_decay_ms:100\0";

/// TideKV: an ordered, durable key-value store, and a cache with a flash tier.
///
/// Exit codes: 0 success; 1 failure, and for `get` a missing key; 2 usage error. Sizes are bytes or
/// have a unit (64K, 512MiB, 4GiB; K is 1024); times are seconds or have a unit (500ms, 30s, 5m, 2h, 1d).
#[derive(Debug, Parser)]
#[command(name = "tidekv", version, propagate_version = true)]
#[command(after_help = "Examples:\n  tidekv serve --data ./data\n  \
    tidekv put --data ./data greeting hello\n  tidekv get --data ./data greeting")]
struct Arguments {
    /// TOML file with one table per command, such as `[serve]`, and the flag names as keys; flags
    /// on the command line override it.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(commands::serve::Serve),
    Cache(Box<commands::cache::Cache>),
    Get(commands::point::Get),
    Put(commands::point::Put),
    Delete(commands::point::Delete),
    Scan(commands::scan::Scan),
    Import(commands::import::Import),
    Export(commands::export::Export),
    Inspect(commands::inspect::Inspect),
    Check(commands::check::Check),
    Checkpoint(commands::upkeep::Checkpoint),
    Compact(commands::upkeep::Compact),
    Stats(commands::upkeep::Stats),
    Profile(commands::profile::Profile),
    Plan(commands::plan::PlanCommand),
    Bench(commands::bench::Bench),
    #[command(hide = true)]
    Generate(commands::generate::Generate),
}

impl Command {
    fn run(&self) -> Result<()> {
        match self {
            Self::Serve(command) => command.run(),
            Self::Cache(command) => command.run(),
            Self::Get(command) => command.run(),
            Self::Put(command) => command.run(),
            Self::Delete(command) => command.run(),
            Self::Scan(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Export(command) => command.run(),
            Self::Inspect(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Checkpoint(command) => command.run(),
            Self::Compact(command) => command.run(),
            Self::Stats(command) => command.run(),
            Self::Profile(command) => command.run(),
            Self::Plan(command) => command.run(),
            Self::Bench(command) => command.run(),
            Self::Generate(command) => command.run(Arguments::command()),
        }
    }
}

fn run() -> Result<()> {
    let root = Arguments::command();
    let arguments = config::merge(&root, std::env::args_os().collect())?;
    let matches = root.get_matches_from(arguments);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    arguments.command.run()
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail, as it does on a full disk,
/// instead of ending the process: a handler of the signal is enough.
fn survive_the_file_size_limit() {
    let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    // Without it, the limit ends the process as before.
    let Ok(runtime) = runtime else { return };
    let _entered = runtime.enter();
    // The handler stays when this receiver is dropped.
    let _ = signal(kind);
}

fn main() -> ExitCode {
    survive_the_file_size_limit();
    // Of a large store, many files are open.
    tidekv_net::handles::raise_limit();
    let done = run();
    log::finish();
    let Err(Failure { message, code }) = done else { return ExitCode::SUCCESS };
    if !message.is_empty() {
        // If standard error is closed too, the exit code still reports the failure.
        output::warn(&message);
    }
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example_and_explains_every_argument() {
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{name}");
            assert!(command.get_about().is_some(), "{name}");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{name} {}", argument.get_id());
            }
        }
    }

    /// An allocator with another symbol prefix would read another name.
    #[test]
    fn the_allocator_has_its_settings() {
        // Off by default.
        assert!(tikv_jemalloc_ctl::opt::background_thread::read().expect("it is the allocator"));
    }
}
