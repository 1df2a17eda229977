//! `generate`: shell completions and man pages, made from the declarations of the arguments.
//!
//! Hidden from help, as only packagers need it. The pages and completions cover every
//! command in help.

use std::path::PathBuf;

use clap_complete::Shell;

use crate::failure::{Failure, Result};
use crate::files;
use crate::output;

/// Generate shell completions and man pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tidekv generate completions bash > tidekv.bash\n  \
    tidekv generate man ./man")]
pub struct Generate {
    #[command(subcommand)]
    artefact: Artefact,
}

#[derive(Debug, clap::Subcommand)]
enum Artefact {
    /// Print the completions of a shell.
    Completions {
        /// Shell.
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write a man page for the program and one for each command.
    Man {
        /// Output directory; created if missing.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

impl Generate {
    /// Runs the command; `root` declares all commands.
    pub fn run(&self, mut root: clap::Command) -> Result<()> {
        match &self.artefact {
            Artefact::Completions { shell } => {
                let name = root.get_name().to_owned();
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut root, name, &mut script);
                output::bytes(&script)
            }
            Artefact::Man { directory } => {
                files::create_directory(directory)?;
                clap_mangen::generate_to(root, directory).map_err(|error| {
                    let what = format!("could not write man pages to {}", directory.display());
                    Failure::system(what, &error)
                })
            }
        }
    }
}
