//! `tidekv-lab advise`: reads a workload, measures it with several settings, and recommends
//! settings.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use tidekv_plan::trace::FORMATS;
use tidekv_testkit::evidence::Row;

use super::measuring::{Common, all_went_well, named, print};
use crate::experiment::ReplayPlan;
use crate::experiments::advise::{ADVISE, Advice, METRICS, Measured, Trial, search, times_as_good};
use crate::experiments::catalogue;
use crate::experiments::policy;
use crate::experiments::scenario::Scenario;
use crate::experiments::sweep;
use crate::failure::{Failure, Result};
use crate::harness::replay::Replay;
use crate::load::workload::Kind;
use crate::quantity::{show_bytes, show_count, show_number, show_range};
use crate::report::show;
use crate::run::place::RunDirectories;
use crate::run::runner::Runner;
use crate::run::workload_source::{format, of_data, of_trace};
use crate::scale::{Scale, Size};
use crate::subject::{Choices, SubjectRecord};

/// Recommend settings for a workload, with their measured gains.
///
/// Replays the workload against each engine: with the default settings, then with one setting
/// changed at a time. A change is kept if it is more than 5 % better and needs no more memory than
/// the cache budget. At the end, the result is measured against the defaults again, in turns.
/// RocksDB is included if the binary was built with the feature `peers`; `tidekv-lab list` shows
/// the settings. Rows are appended to `rows.jsonl`; the same binary does not repeat earlier
/// measurements. The store begins with every key of the workload; the first half of the requests
/// warms it up. Entries do not expire: an entry stays until it is deleted.
#[derive(Debug, Args)]
#[command(after_help = help())]
#[group(id = "workload", required = true, multiple = false, args = ["trace", "data"])]
pub(super) struct Advise {
    /// Trace of requests; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Data directory of a store, opened read-only: gets of its entries by Zipf's law.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Format of the trace [default: detected from its first lines].
    #[arg(long, value_name = "NAME", requires = "trace")]
    format: Option<String>,

    /// Stop at a malformed line of the trace.
    #[arg(long, requires = "trace")]
    strict: bool,

    /// Maximum number of requests; for a store, the number of generated requests [default there:
    /// 1000000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1_000_000_000))]
    requests: Option<u64>,

    /// Exponent of Zipf's law for gets of a store's entries; 0: uniform.
    #[arg(long, value_name = "A", default_value_t = 0.99, conflicts_with = "trace")]
    zipf: f64,

    /// Cache sizes, as percent of the data (20%) or in bytes (64MiB).
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "10%")]
    cache: Vec<String>,

    /// Metric by which settings are judged.
    #[arg(long, value_name = "METRIC", default_value = METRICS[0].0)]
    by: String,

    /// Only these subjects (repeatable); `*` matches any text.
    #[arg(long = "subject", value_name = "NAME")]
    subjects: Vec<String>,

    /// Concurrent requests.
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,

    /// Read through the kernel's page cache.
    #[arg(long)]
    buffered: bool,

    /// Turns in the final comparison of the result with the defaults; the median counts.
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(1..=100))]
    alternations: u64,

    #[command(flatten)]
    common: Common,
}

fn help() -> String {
    let formats: String =
        FORMATS.iter().map(|record| format!("  {:<8} {}\n", record.name, record.about)).collect();
    let metrics: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
    format!(
        "Formats:\n{formats}\nMetrics: {}\n\nExamples:\n  tidekv-lab advise --trace requests.csv --cache \
         5%,20%\n  redis-cli monitor | head -1000000 > log; tidekv-lab advise --trace log\n  tidekv-lab advise \
         --data DIR --zipf 0.8 --by reads_per_op",
        metrics.join(", ")
    )
}

/// Properties of a workload.
struct Read {
    replay: Replay,
    /// Its name in rows.
    name: String,
    notes: Vec<String>,
}

impl Advise {
    pub(super) fn run(&self, subjects: &[SubjectRecord]) -> Result<()> {
        let subjects = self.chosen(subjects)?;
        let known = METRICS.iter().find(|(name, _)| *name == self.by);
        let &(metric, is_more_better) = known.ok_or_else(|| {
            let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
            catalogue::unknown("metric", &self.by, &names)
        })?;
        let Read { replay, name, notes } = self.read()?;
        let caches = self.cache_bytes(&replay)?;
        RunDirectories::new(&self.common.out, self.common.stores.as_deref())?;
        let (file, fingerprint) = replay.write(&self.common.out)?;
        let plan = ReplayPlan { file, fingerprint, threads: self.threads };
        self.print_text(&about(&name, &replay))?;
        notes.iter().try_for_each(|note| self.print_text(note))?;

        let usual = Scenario { choices: Choices::new(), ..policy::usual(&Scale::new(Size::Usual)) };
        let mut failed = 0;
        for cache_bytes in caches {
            let trial = Trial {
                name: &name,
                replay: &replay,
                plan: plan.clone(),
                cache_bytes,
                is_buffered: self.buffered,
            };
            let mut best: Option<(&'static str, f64)> = None;
            self.print_text(&format!("\nWith a cache of {}:", show_bytes(cache_bytes as f64)))?;
            for record in &subjects {
                let runner = Runner {
                    are_subjects_named: true,
                    ..self.common.runner(vec![*record], Scale::new(Size::Usual))?
                };
                let failed_before = failed;
                let rounds = self.alternations;
                let advice = search(record, is_more_better, rounds, &mut |choices, round| {
                    let mut found = None;
                    let point = trial.point(&usual, choices, round);
                    failed += runner.run_points(&ADVISE, vec![point], &mut |rows: &[Row]| {
                        found = rows.iter().find_map(|row| measured(row, metric)).or(found);
                        if self.common.json { self.common.show(rows) } else { Ok(()) }
                    })?;
                    Ok(found)
                });
                let advice = match advice {
                    Ok(advice) => advice,
                    // The environment failed, not the subject.
                    Err(failure) if failure.is_usage || failed == failed_before => {
                        return Err(failure);
                    }
                    Err(failure) => {
                        self.print_text(&format!("  {failure}"))?;
                        continue;
                    }
                };
                self.print_text(&summary(record, metric, &advice))?;
                let is_better = |(_, other): &(_, f64)| {
                    times_as_good(advice.best, *other, is_more_better) > 1.0
                };
                if !advice.is_over_budget && best.as_ref().is_none_or(is_better) {
                    best = Some((record.name, advice.best));
                }
            }
            if let (Some((name, _)), 2..) = (best, subjects.len()) {
                self.print_text(&format!("  The best of them: {name}"))?;
            }
        }
        all_went_well(failed)
    }

    /// Text output, unless rows were requested.
    fn print_text(&self, words: &str) -> Result<()> {
        if self.common.json { Ok(()) } else { print(words) }
    }

    /// The named subjects, or all that have settings to try.
    fn chosen(&self, subjects: &[SubjectRecord]) -> Result<Vec<SubjectRecord>> {
        if !self.subjects.is_empty() {
            return named(&self.subjects, subjects);
        }
        let has_tries =
            |record: &&SubjectRecord| record.choices.iter().any(|choice| !choice.tries.is_empty());
        let mut chosen: Vec<SubjectRecord> = subjects.iter().filter(has_tries).copied().collect();
        // Several of our subjects have the same choices.
        let mut seen = Vec::new();
        chosen.retain(|record| {
            let is_new = !seen.contains(&record.format);
            seen.push(record.format);
            is_new
        });
        Ok(chosen)
    }

    fn read(&self) -> Result<Read> {
        let name_of = |path: &Path| {
            path.file_name().map_or_else(
                || path.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            )
        };
        if let Some(path) = &self.data {
            if !(0.0..=10.0).contains(&self.zipf) {
                return Err(Failure::usage("--zipf is 0 to 10"));
            }
            let replay =
                of_data(path, self.requests.unwrap_or(1_000_000), self.zipf, self.common.seed)?;
            let note = format!(
                "The store records no requests: generated gets by Zipf's law with an exponent of {}. \
                 Use --trace for real requests.",
                self.zipf
            );
            return Ok(Read { replay, name: name_of(path), notes: vec![note] });
        }
        let path = self.trace.as_deref().unwrap_or(Path::new("-"));
        let format = self.format.as_deref().map(format).transpose()?;
        let requests_max = self.requests.unwrap_or(u64::MAX);
        let traced = match path == Path::new("-") {
            true => of_trace(BufReader::new(std::io::stdin()), format, requests_max, self.strict)?,
            false => {
                let file = open(path)?;
                of_trace(
                    BufReader::with_capacity(1 << 20, file),
                    format,
                    requests_max,
                    self.strict,
                )?
            }
        };
        let mut notes = Vec::new();
        if let Some(first) = traced.first_broken {
            notes.push(format!("{} malformed lines skipped; the first: {first}", traced.broken));
        }
        if traced.refused > 0 {
            notes.push(format!(
                "{} requests skipped: keys or values too long for a store",
                traced.refused
            ));
        }
        if traced.left_out > 0 {
            notes.push(format!(
                "{} lines skipped: no get, put, delete or scan of a key",
                traced.left_out
            ));
        }
        if traced.is_cut {
            notes.push("The trace has more requests than the limit".to_owned());
        }
        Ok(Read { replay: traced.replay, name: name_of(path), notes })
    }

    fn cache_bytes(&self, replay: &Replay) -> Result<Vec<u64>> {
        let data = replay.data_bytes() as f64;
        let bytes = |text: &String| {
            let percent = sweep::cache_percent(text, data).filter(|percent| *percent > 0.0);
            let percent = percent.ok_or_else(|| {
                Failure::usage(format!("--cache {text:?} is not a size, such as 20% or 64MiB"))
            })?;
            match (percent / 100.0 * data).round() as u64 {
                0 => Err(Failure::usage(format!(
                    "--cache {text} is 0 bytes for {} of keys and values",
                    show_bytes(data)
                ))),
                bytes => Ok(bytes),
            }
        };
        self.cache.iter().map(bytes).collect()
    }
}

#[expect(clippy::disallowed_types, reason = "a trace of a user's")]
fn open(path: &Path) -> Result<std::fs::File> {
    std::fs::File::open(path)
        .map_err(|e| Failure::system(format!("could not open {}", path.display()), e))
}

fn measured(row: &Row, metric: &str) -> Option<Measured> {
    let is_over_budget = show::over_budget(row).is_some();
    Some(Measured { metric: row.number(metric)?, is_over_budget })
}

/// The workload in a sentence.
fn about(name: &str, replay: &Replay) -> String {
    let all = replay.requests() as f64;
    let kinds = [Kind::Get, Kind::Put, Kind::Delete, Kind::Scan].into_iter();
    let kinds = kinds.map(|kind| (kind, replay.count(kind))).filter(|(_, count)| *count > 0);
    let kinds = kinds.map(|(kind, count)| {
        format!("{} % {}s", show_number((count as f64 * 1000.0 / all).round() / 10.0), kind.name())
    });
    format!(
        "{name}: {} requests ({}) of {} keys, {} of keys and values",
        show_count(replay.requests()),
        kinds.collect::<Vec<_>>().join(", "),
        show_count(replay.entries()),
        show_bytes(replay.data_bytes() as f64)
    )
}

/// The settings tried for a subject, and the result.
fn summary(record: &SubjectRecord, metric: &str, advice: &Advice) -> String {
    let shown = |value: f64| format!("{} {}", show::show_value(metric, value), show::label(metric));
    let over = |is_over: bool| if is_over { ", above its memory budget" } else { "" };
    let mut out = format!(
        "  {} with its default settings: {}{}",
        record.name,
        shown(advice.usual),
        over(advice.is_over_budget)
    );
    for step in &advice.steps {
        let times = match step.times {
            Some(times) => format!("{} times as good", show_number(times)),
            None => "failed".to_owned(),
        };
        let over = over(step.is_over_budget);
        let kept = if step.is_kept { ", kept" } else { "" };
        out.push_str(&format!(
            "\n    {} {}: {times}{over}{kept}",
            step.name.replace('_', " "),
            step.value
        ));
    }
    let chosen: Vec<String> =
        advice.choices.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let chosen = chosen.join(", ");
    let to_set = record.choices.iter().filter_map(|choice| {
        let value = advice.choices.get(choice.name)?;
        Some(format!("\n      {}: {}", choice.name, (choice.to_set)(value)))
    });
    let rounds = show_range(&advice.rounds);
    match () {
        () if advice.steps.is_empty() => {}
        () if chosen.is_empty() => out.push_str("\n    Advice: keep the default settings"),
        () if advice.is_withdrawn => out.push_str(&format!(
            "\n    Advice: keep the default settings; in turns {chosen} was {rounds} times as good"
        )),
        () => {
            let best = shown(advice.best);
            out.push_str(&format!(
                "\n    Advice: {chosen}; {best}, in turns {rounds} times as good. To set:"
            ));
            out.extend(to_set);
        }
    }
    out
}
