//! The command line of the lab.

mod measuring;
mod advise;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use tidekv_testkit::evidence::Row;

use self::advise::Advise;
use self::measuring::{Common, OUT, all_went_well, named, print};
use crate::experiments::catalogue;
use crate::experiments::policy;
use crate::experiments::scenario::Scenario;
use crate::experiments::sweep::{self, SWEEP, Varied};
use crate::failure::{Failure, Result};
use crate::harness::worker;
use crate::report;
use crate::run::runner::Runner;
use crate::scale::{Scale, Size};
use crate::subject::{Choices, Choosable, SubjectRecord};
use crate::subjects::nothing::NOTHING;
use crate::subjects::served;

/// Run experiments with TideKV and its peers, and make reports of their results.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tidekv-lab list\n  tidekv-lab run engine-get-cold --quick\n  \
    tidekv-lab run 'engine-*' --out target/today\n  tidekv-lab report target/today"
)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Run(Run),
    Sweep(Sweep),
    Advise(Advise),
    Report(Report),
    #[command(name = worker::COMMAND, hide = true)]
    Worker,
    #[command(name = served::COMMAND, hide = true)]
    CacheServer,
}

/// List experiments and subjects.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidekv-lab list")]
struct List {
    /// Print a JSON array of the experiments.
    #[arg(long)]
    json: bool,
}

/// Run experiments.
///
/// Subjects take turns, each in a separate process. Rows are appended to `rows.jsonl` in the
/// directory of the results as they are measured; a restarted run with the same binary resumes
/// where it ended.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tidekv-lab run engine-get-cold --quick\n  \
    tidekv-lab run 'engine-*' --out target/today --subject 'tidekv:*' --subject rocksdb:lru")]
struct Run {
    /// Experiments; `*` matches any text.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// One million entries, one second per turn: under a minute per experiment.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// 50 million entries, ten seconds per turn.
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    common: Common,

    /// Only these subjects (repeatable); `*` matches any text.
    #[arg(long = "subject", value_name = "NAME")]
    subjects: Vec<String>,

    /// Only points with this parameter, such as `cache_percent=5` (repeatable).
    #[arg(long = "where", value_name = "NAME=VALUE")]
    wheres: Vec<String>,

    /// Thread counts, such as `1,2,8`.
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    threads: Vec<u64>,

    /// Number of entries of 116 bytes; experiments with larger entries have fewer.
    #[arg(long, value_name = "N")]
    entries: Option<u64>,

    /// Measured seconds of one turn.
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,

    /// Number of turns of each subject.
    #[arg(long, value_name = "N")]
    alternations: Option<u64>,

    /// Directories of the files for `bigkv-corpus` (repeatable) [default: the documentation and
    /// library directories of the system]. Rows contain the last part of each path.
    #[arg(long, value_name = "DIR")]
    corpus: Vec<PathBuf>,
}

/// Measure every combination of several values.
///
/// Points are measured one after another, unless `--parallel` is set, and each is appended to
/// `rows.jsonl` as it is done; a failed one becomes a row with `error`. A restarted sweep with the
/// same binary resumes where it ended.
#[derive(Debug, Args)]
#[command(after_help = sweep_help())]
struct Sweep {
    /// Subjects (repeatable): a name, or an engine alone for its subject with choices; `*` matches
    /// any text.
    #[arg(long = "subject", required = true, value_name = "NAME")]
    subjects: Vec<String>,

    /// Parameter to vary, with its values (repeatable).
    #[arg(long, required = true, value_name = "NAME=VALUE,...")]
    vary: Vec<String>,

    #[command(flatten)]
    common: Common,

    /// Number of turns of each subject.
    #[arg(long, value_name = "N", default_value_t = 1)]
    alternations: u64,
}

fn sweep_help() -> String {
    format!(
        "Values are separated by commas; `a..b` means ten values in equal steps, `a..b/n` means n \
         values.\n\nParameters of the load (defaults in brackets):\n{}\nFurther parameters are the choices \
         that all subjects have: `tidekv-lab list`.\n\nExample:\n  tidekv-lab sweep --subject tidekv --vary \
         cache_size=2%..110% --vary zipf=0.1..1.0 --out target/today",
        sweep::axes()
    )
}

/// Make reports from rows.
///
/// Writes `report.html` and `report.md` next to the rows of a run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tidekv-lab report target/today\n  \
    tidekv-lab report docs/benchmarks --reliability docs/reliability.md")]
struct Report {
    /// Directory of a run; with `--reliability` any directory above runs.
    #[arg(value_name = "DIR", default_value = OUT)]
    directory: PathBuf,

    /// Write the counts of the proofs, from all rows below the directory, to this document.
    #[arg(long, value_name = "FILE")]
    reliability: Option<PathBuf>,

    /// Replace the table of ratios between its marks in this document.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

impl Lab {
    /// Runs the command with `subjects`.
    pub fn run(&self, subjects: &[SubjectRecord]) -> Result<()> {
        match &self.command {
            Command::List(command) => command.run(subjects),
            Command::Run(command) => command.run(subjects),
            Command::Sweep(command) => command.run(subjects),
            Command::Advise(command) => command.run(subjects),
            Command::Report(command) => command.run(),
            Command::CacheServer => served::serve(),
            Command::Worker => {
                let mut known = subjects.to_vec();
                known.push(NOTHING);
                worker::serve(&known)
            }
        }
    }
}

impl List {
    fn run(&self, subjects: &[SubjectRecord]) -> Result<()> {
        if self.json {
            let experiments = catalogue::all().map(|experiment| {
                serde_json::json!({
                    "name": experiment.name,
                    "about": experiment.about,
                    "claim": experiment.claim,
                    "paper": experiment.paper,
                })
            });
            return print(&serde_json::Value::from_iter(experiments).to_string());
        }
        let width = catalogue::all().map(|experiment| experiment.name.len()).max().unwrap_or(0);
        for experiment in catalogue::all() {
            print(&format!("{:<width$}  {}", experiment.name, experiment.about))?;
            print(&format!("{:<width$}  expected: {}", "", experiment.claim))?;
        }
        print("")?;
        let width = subjects.iter().map(|record| record.name.len()).max().unwrap_or(0);
        for record in subjects {
            let when = if record.is_default { "" } else { " (only if named)" };
            print(&format!("{:<width$}  {}{when}", record.name, record.about))?;
            for Choosable { name, values, usual, .. } in record.choices {
                print(&format!("{:<width$}  choice: {name}: {values} (default {usual})", ""))?;
            }
        }
        Ok(())
    }
}

impl Run {
    fn run(&self, subjects: &[SubjectRecord]) -> Result<()> {
        let experiments = catalogue::select(&self.names)?;
        let subjects_of_run = self.chosen(subjects)?;
        let are_named = !self.subjects.is_empty();
        let runner = Runner {
            are_subjects_named: are_named,
            wheres: self.wheres()?,
            ..self.common.runner(subjects_of_run, self.scale()?)?
        };
        if !experiments.iter().any(|experiment| runner.has_points(experiment)) {
            return Err(Failure::usage(format!(
                "no point has {}: `--where` takes a parameter and a value of the rows",
                self.wheres.join(" and ")
            )));
        }
        let mut failed = 0;
        for experiment in experiments {
            failed += runner.run(experiment, &mut |rows| self.common.show(rows))?;
        }
        all_went_well(failed)
    }

    fn chosen(&self, subjects: &[SubjectRecord]) -> Result<Vec<SubjectRecord>> {
        match self.subjects.is_empty() {
            true => Ok(subjects.to_vec()),
            false => named(&self.subjects, subjects),
        }
    }

    fn wheres(&self) -> Result<Vec<(String, String)>> {
        let pair = |text: &String| match text.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(Failure::usage(format!("--where {text:?} is not NAME=VALUE"))),
        };
        self.wheres.iter().map(pair).collect()
    }

    fn scale(&self) -> Result<Scale> {
        let size = match (self.quick, self.full) {
            (true, _) => Size::Quick,
            (_, true) => Size::Full,
            _ => Size::Usual,
        };
        let mut scale = Scale::new(size);
        if !self.threads.is_empty() {
            scale.threads.clone_from(&self.threads);
        }
        scale.corpus.clone_from(&self.corpus);
        scale.entries = self.entries.unwrap_or(scale.entries);
        scale.seconds = self.seconds.unwrap_or(scale.seconds);
        scale.alternations = self.alternations.unwrap_or(scale.alternations);
        let is_sound = scale.threads.iter().all(|&threads| (1..=1024).contains(&threads))
            && scale.entries > 0
            && scale.seconds > 0.0
            && scale.seconds < 1e6
            && scale.alternations > 0;
        if !is_sound {
            let what = "--threads (at most 1024), --entries, --seconds and --alternations \
                        must be above 0";
            return Err(Failure::usage(what));
        }
        Ok(scale)
    }
}

impl Sweep {
    fn run(&self, subjects: &[SubjectRecord]) -> Result<()> {
        let mut chosen = Vec::new();
        for name in &self.subjects {
            match with_choices(name, subjects) {
                Some(record) => chosen.push(*record),
                None => chosen.extend(named(std::slice::from_ref(name), subjects)?),
            }
        }
        let mut seen = Vec::new();
        chosen.retain(|record| {
            let is_new = !seen.contains(&record.name);
            seen.push(record.name);
            is_new
        });
        let scale = Scale::new(Size::Usual);
        let varied: Vec<Varied> =
            self.vary.iter().map(|text| Varied::read(text)).collect::<Result<_>>()?;
        // Parameters without a choice have the defaults that `tidekv-lab list` shows.
        let usual = Scenario { choices: Choices::new(), ..policy::usual(&scale) };
        let mut points = sweep::points(&varied, &chosen, &usual)?;
        points.iter_mut().for_each(|point| point.alternations = self.alternations.max(1));
        let runner = Runner { are_subjects_named: true, ..self.common.runner(chosen, scale)? };
        let show = &mut |rows: &[Row]| self.common.show(rows);
        all_went_well(runner.run_points(&SWEEP, points, show)?)
    }
}

/// The subject of an engine that has choices.
fn with_choices<'a>(engine: &str, subjects: &'a [SubjectRecord]) -> Option<&'a SubjectRecord> {
    let is_of_engine =
        |record: &&SubjectRecord| record.name.split_once(':').is_some_and(|(of, _)| of == engine);
    subjects.iter().filter(is_of_engine).find(|record| !record.choices.is_empty())
}

impl Report {
    fn run(&self) -> Result<()> {
        if let Some(path) = &self.reliability {
            let rows = report::reliability::read_proofs(&self.directory)?;
            write(path, &report::reliability::write(&rows))?;
        }
        let is_run = report::has_rows(&self.directory);
        if self.reliability.is_some() && self.readme.is_none() && !is_run {
            return Ok(());
        }
        let results = report::read_results(&self.directory)?;
        write(&self.directory.join("report.html"), &report::page(&results))?;
        write(&self.directory.join("report.md"), &report::markdown(&results))?;
        if let Some(path) = &self.readme {
            let document = read(path)?;
            let table = report::readme_table(&results);
            write(path, &report::replace_marked(&document, &table)?)?;
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a document, not data of a store")]
fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|e| Failure::system(format!("could not read {}", path.display()), e))
}

/// Writes a document and prints its path.
#[expect(clippy::disallowed_methods, reason = "a document, not data of a store")]
fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(|e| Failure::system(format!("could not write {}", path.display()), e))?;
    print(&format!("wrote {}", path.display()))
}
