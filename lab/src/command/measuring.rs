//! What all measuring commands of the lab have in common.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use clap::Args;
use tidekv_testkit::evidence::Row;

use crate::experiments::catalogue;
use crate::failure::{Failure, Result};
use crate::report::show;
use crate::run::place::Place;
use crate::run::runner::Runner;
use crate::scale::Scale;
use crate::subject::SubjectRecord;

/// Where results go when no directory is given: out of the way of the sources.
pub(super) const OUT: &str = "target/lab";

/// What all measuring commands are asked for.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// The seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// The directory of the results.
    #[arg(long, value_name = "DIR", default_value = OUT)]
    pub(super) out: PathBuf,

    /// The directory of the stores; `stores` in that of the results if not given.
    #[arg(long, value_name = "DIR")]
    pub(super) stores: Option<PathBuf>,

    /// Build the stores anew that earlier runs have left; for when the store writes
    /// its tables in another way than before.
    #[arg(long)]
    pub(super) rebuild: bool,

    /// Leave the kernel's caches of files alone; otherwise root drops them before
    /// every turn that is measured alone, for the whole machine.
    #[arg(long)]
    pub(super) keep_caches: bool,

    /// So many points at the same time: for counts alone, as each slows the others down.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(super) parallel: u64,

    /// Print rows, one JSON object a line.
    #[arg(long)]
    pub(super) json: bool,
}

impl Common {
    /// A runner for these subjects, and all points.
    pub(super) fn runner(&self, subjects: Vec<SubjectRecord>, scale: Scale) -> Result<Runner<'_>> {
        Ok(Runner {
            subjects,
            are_subjects_named: false,
            place: Place::new(&self.out, self.stores.as_deref())?,
            scale,
            wheres: Vec::new(),
            seed: self.seed,
            rebuilds: self.rebuild,
            drops_caches: !self.keep_caches,
            fresh: Mutex::default(),
            cells_at_once: self.parallel as usize,
            tell: &|what| {
                // Progress that cannot be shown is no reason to stop.
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

/// What failed has become rows; whoever waits for the run learns of it by its end.
pub(super) fn all_went_well(failed: usize) -> Result<()> {
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new("a turn failed: its row has `error`")),
        _ => Err(Failure::new(format!("{failed} turns failed: their rows have `error`"))),
    }
}

/// Prints a line; a reader that has gone has read enough.
pub(super) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::system("could not write to standard output", e))
        }
        _ => Ok(()),
    }
}
