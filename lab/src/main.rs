//! The binary `tidekv-lab`: experiments on TideKV and its peers. Peers are included if it was built
//! with their features: `--features peers` for all, `--features foyer` to omit RocksDB, which takes
//! half an hour to build.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tidekv_lab::command::Lab;
use tidekv_lab::peers;
use tidekv_lab::subjects::own;

/// RocksDB is built to use the same allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The settings of the allocator: those of the binary `tidekv`, for all engines. The symbol has
/// another name if it is the allocator of RocksDB too.
// SAFETY: jemalloc declares this name as `const char *`; a reference to an
// array is one pointer, and the string ends with a zero byte.
#[cfg_attr(feature = "engines", unsafe(export_name = "malloc_conf"))]
#[cfg_attr(not(feature = "engines"), unsafe(export_name = "_rjem_malloc_conf"))]
pub static ALLOCATOR_SETTINGS: &[u8; 77] =
    b"narenas_ratio:1,background_thread:true,dirty_decay_ms:100,muzzy_decay_ms:100\0";

/// Experiments on TideKV and its peers.
#[derive(Debug, Parser)]
#[command(name = "tidekv-lab", version, propagate_version = true)]
struct Arguments {
    #[command(flatten)]
    lab: Lab,
}

fn main() -> ExitCode {
    let subjects = [own::SUBJECTS, peers::SUBJECTS].concat();
    let Err(failure) = Arguments::parse().lab.run(&subjects) else {
        return ExitCode::SUCCESS;
    };
    // If standard error is closed too, the exit code still reports the failure.
    let _ = writeln!(std::io::stderr(), "tidekv-lab: {failure}");
    ExitCode::from(if failure.is_usage { 2 } else { 1 })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declarations_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example_and_explains_every_argument() {
        let root = Arguments::command();
        for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("tidekv-lab {name}")), "{name}");
            assert!(command.get_about().is_some(), "{name}");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{name} {}", argument.get_id());
            }
        }
    }

    /// The allocator reads them under one of two names.
    #[test]
    fn the_allocator_has_its_settings() {
        // Off by default.
        assert!(tikv_jemalloc_ctl::opt::background_thread::read().expect("it is the allocator"));
    }
}
