//! The common arguments of all measuring commands of the lab.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use clap::Args;
use tidekv_testkit::evidence::Row;

use crate::experiments::catalogue;
use crate::failure::{Failure, Result};
use crate::report::show;
use crate::run::place::RunDirectories;
use crate::run::runner::Runner;
use crate::scale::Scale;
use crate::subject::SubjectRecord;

/// The default directory of results, outside the sources.
pub(super) const OUT: &str = "target/lab";

/// The arguments of all measuring commands.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Directory of the results.
    #[arg(long, value_name = "DIR", default_value = OUT)]
    pub(super) out: PathBuf,

    /// Directory of the stores [default: `stores` in the directory of the results].
    #[arg(long, value_name = "DIR")]
    pub(super) stores: Option<PathBuf>,

    /// Rebuild the stores of earlier runs; needed after a change of how the store writes its
    /// tables.
    #[arg(long)]
    pub(super) rebuild: bool,

    /// Keep the kernel's page cache; otherwise, as root, drop it for the whole machine before every
    /// turn that is measured alone.
    #[arg(long)]
    pub(super) keep_caches: bool,

    /// Points to measure in parallel: only for counts, as parallel points slow each other down.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(super) parallel: u64,

    /// Print rows, one JSON object per line.
    #[arg(long)]
    pub(super) json: bool,
}

impl Common {
    /// A runner for these subjects, and all points.
    pub(super) fn runner(&self, subjects: Vec<SubjectRecord>, scale: Scale) -> Result<Runner<'_>> {
        Ok(Runner {
            subjects,
            are_subjects_named: false,
            place: RunDirectories::new(&self.out, self.stores.as_deref())?,
            scale,
            wheres: Vec::new(),
            seed: self.seed,
            rebuilds: self.rebuild,
            drops_caches: !self.keep_caches,
            fresh: Mutex::default(),
            cells_at_once: self.parallel as usize,
            tell: &|what| {
                // A failure to print progress does not stop the run.
                let _ = writeln!(std::io::stderr(), "{what}");
            },
        })
    }

    pub(super) fn show(&self, rows: &[Row]) -> Result<()> {
        if !self.json {
            return print(&format!("{}\n", show::lines_of_points(rows).trim_end()));
        }
        rows.iter().try_for_each(|row| {
            print(&serde_json::to_string(row).expect("strings and numbers become JSON"))
        })
    }
}

/// The subjects whose names match.
pub(super) fn named(patterns: &[String], subjects: &[SubjectRecord]) -> Result<Vec<SubjectRecord>> {
    for pattern in patterns {
        if !subjects.iter().any(|record| catalogue::matches(pattern, record.name)) {
            let names: Vec<&str> = subjects.iter().map(|record| record.name).collect();
            return Err(catalogue::unknown("subject", pattern, &names));
        }
    }
    let is_chosen = |record: &&SubjectRecord| {
        patterns.iter().any(|pattern| catalogue::matches(pattern, record.name))
    };
    Ok(subjects.iter().filter(is_chosen).copied().collect())
}

/// Failures have become rows; the exit code reports them.
pub(super) fn all_went_well(failed: usize) -> Result<()> {
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new("a turn failed: its row has `error`")),
        _ => Err(Failure::new(format!("{failed} turns failed: their rows have `error`"))),
    }
}

/// Prints a line; ignores a closed pipe.
pub(super) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::system("could not write to standard output", e))
        }
        _ => Ok(()),
    }
}
