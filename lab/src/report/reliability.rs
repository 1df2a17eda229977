//! `docs/reliability.md`: the proofs, with the counts of their runs. Every figure comes from a row.
//! For each proof it shows totals over all runs, the last and the largest run of each kind, and
//! every run that found a loss.
#![allow(clippy::disallowed_methods, reason = "reads rows of evidence, not data of a store")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tidekv_testkit::evidence::{COMPRESSED, Row, Value};

use super::proofs::{PROOFS, Proof};
use crate::failure::{Failure, Result};
use crate::quantity::show_count;

/// Files with rows; published ones are compressed.
const FILES: [&str; 2] = ["rows.jsonl", "proofs.jsonl"];

/// The command that writes the document.
const COMMAND: &str = "tidekv-lab report docs/benchmarks --reliability docs/reliability.md";

/// Parameters that do not tell kinds of runs apart: their scale, and the test that must notice a
/// mutation, which may change.
const SCALES: [&str; 6] = ["batches", "sample", "steps", "test", "torn_seeds", "workloads"];

/// The prefix of the names of proofs.
const PREFIX: &str = "proof-";

/// Writing to a string does not fail.
const FINE: &str = "a write to a string succeeds";

/// The rows of proofs in all files below `directory`, the oldest first. A row in two files counts
/// once.
pub(crate) fn read_proofs(directory: &Path) -> Result<Vec<Row>> {
    let mut paths = Vec::new();
    find(directory, &mut paths)
        .map_err(|e| Failure::system(format!("could not list {}", directory.display()), e))?;
    paths.sort();
    let mut all: Vec<Row> = Vec::new();
    for path in paths {
        let rows = tidekv_testkit::evidence::read(&path)
            .map_err(|e| Failure::system(format!("could not read {}", path.display()), e))?;
        for row in rows.into_iter().filter(|row| row.experiment.starts_with(PREFIX)) {
            if !all.contains(&row) {
                all.push(row);
            }
        }
    }
    all.sort_by(|one, other| one.date.cmp(&other.date));
    Ok(all)
}

fn find(directory: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find(&entry.path(), paths)?;
        } else if is_of_rows(&entry.path()) {
            paths.push(entry.path());
        }
    }
    Ok(())
}

fn is_of_rows(path: &Path) -> bool {
    let is_compressed = path.extension().is_some_and(|extension| extension == COMPRESSED);
    let name = if is_compressed { path.file_stem() } else { path.file_name() };
    FILES.iter().any(|known| name.is_some_and(|name| name == *known))
}

/// The whole document, for `rows` with the oldest first.
pub(crate) fn write(rows: &[Row]) -> String {
    let mut out = format!(
        "# Reliability\n\n\
         <!-- Written by `{COMMAND}` from the rows below `docs/benchmarks`. Do not edit. -->\n\n\
         The proofs, the number of their runs, and the commands to repeat them. Each run counted \
         its own figures and wrote them to a row. A run that finds a loss fails; its row stays and \
         counts here. Totals are over all rows; for each kind of run the table has the last one, \
         the largest one, and every one with a loss; \"none since\" means that the last run of \
         each kind found none. A command writes its rows to the file that `TIDEKV_ROWS` names.\n\n",
    );
    out.push_str(&overview(rows));
    for proof in PROOFS {
        section(&mut out, proof, &of(rows, proof.name));
    }
    let known = |name: &str| PROOFS.iter().any(|proof| proof.name == name);
    let mut others: Vec<&str> =
        rows.iter().map(|row| &*row.experiment).filter(|name| !known(name)).collect();
    others.sort_unstable();
    others.dedup();
    for name in others {
        let title = name.trim_start_matches(PREFIX);
        let (what, command, cases) = ("", "", "operations");
        let proof = Proof { name, title, what, command, cases, is_counted: false };
        section(&mut out, &proof, &of(rows, name));
    }
    out
}

fn of<'a>(rows: &'a [Row], name: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.experiment == name).collect()
}

/// One line per proof.
fn overview(rows: &[Row]) -> String {
    let mut out = String::from("| proof | runs | losses | last |\n|---|---|---|---|\n");
    for proof in PROOFS {
        let rows = of(rows, proof.name);
        let last = rows.iter().map(|row| row.day()).max().unwrap_or("not run yet");
        let (name, anchor) = (proof.title, anchor(proof.title));
        let (runs, losses) = (show_count(rows.len() as u64), losses_in_words(&rows));
        writeln!(out, "| [{name}](#{anchor}) | {runs} | {losses} | {last} |").expect(FINE);
    }
    out
}

/// The losses in a run; `None` if its row does not say.
fn losses_of(row: &Row) -> Option<u64> {
    let count = |name: &str| row.metrics.get(name).and_then(Value::as_u64);
    // A surviving mutation is a loss of that proof.
    let uncaught = || count("caught").map(|caught| 1 - caught.min(1));
    let failures = || Some(count("failures")? + count("reports").unwrap_or(0));
    count("losses").or_else(failures).or_else(uncaught)
}

/// The total losses of all runs, and whether the last run of each kind with a loss had none.
fn losses_in_words(rows: &[&Row]) -> String {
    let Some(losses) = rows.iter().filter_map(|row| losses_of(row)).reduce(|a, b| a + b) else {
        return "–".to_owned();
    };
    let are_past = kinds(rows).iter().all(|kind| kind.last().is_none_or(|row| !is_lossy(row)));
    let since = if losses > 0 && are_past { ", none since" } else { "" };
    format!("{}{since}", show_count(losses))
}

fn is_lossy(row: &Row) -> bool {
    losses_of(row).is_some_and(|losses| losses > 0)
}

/// The rows by the kind of run, each with the oldest first.
fn kinds<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let mut kinds: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let params = row.params.iter().filter(|(name, _)| !SCALES.contains(&name.as_str()));
        let kind = format!("{} {:?}", row.subject, params.collect::<Vec<_>>());
        kinds.entry(kind).or_default().push(row);
    }
    kinds.into_values().collect()
}

/// The largest run of a kind, those with a loss and the last one, the oldest first.
fn shown<'a>(kind: &[&'a Row], cases: &str) -> Vec<&'a Row> {
    let size = |row: &Row| row.metrics.get(cases).and_then(Value::as_u64).unwrap_or(0);
    // The last one of equal runs.
    let largest = (0..kind.len()).max_by_key(|at| size(kind[*at]));
    let is_shown = |at: usize| at + 1 == kind.len() || Some(at) == largest || is_lossy(kind[at]);
    (0..kind.len()).filter(|at| is_shown(*at)).map(|at| kind[at]).collect()
}

fn section(out: &mut String, proof: &Proof<'_>, rows: &[&Row]) {
    write!(out, "\n## {}\n\n", proof.title).expect(FINE);
    if !proof.what.is_empty() {
        writeln!(out, "{}\n", proof.what).expect(FINE);
    }
    if let [first, .., last] | [first @ last] = rows {
        writeln!(out, "{}", totals(rows, proof.cases, [first.day(), last.day()])).expect(FINE);
        let mut kinds = kinds(rows);
        if proof.is_counted {
            count_of_last(out, &kinds);
            kinds.retain(|kind| kind.iter().any(|row| is_lossy(row)));
        }
        let rows: Vec<&Row> = kinds.iter().flat_map(|kind| shown(kind, proof.cases)).collect();
        if !rows.is_empty() {
            out.push_str("| run | found | host, commit, date |\n|---|---|---|\n");
        }
        for row in &rows {
            let [run, found] = [&row.params, &row.metrics].map(all_in_words);
            writeln!(out, "| {run} | {found} | {} |", origin(row)).expect(FINE);
        }
        if !rows.is_empty() {
            out.push('\n');
        }
    } else {
        out.push_str("No run of it has left a row yet.\n\n");
    }
    if !proof.command.is_empty() {
        writeln!(out, "```sh\n{}\n```", proof.command).expect(FINE);
    }
}

/// Paragraphs with the cases and losses of all runs, and with the sums of other counts.
fn totals(rows: &[&Row], cases: &str, [first, last]: [&str; 2]) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, value) in rows.iter().flat_map(|row| &row.metrics) {
        if let Some(count) = value.as_u64() {
            *sums.entry(name).or_default() += count;
        }
    }
    let checked = sums.remove(cases).unwrap_or(0);
    sums.remove("losses");
    let runs = match rows.len() {
        1 => format!("One run on {last}"),
        runs => format!("{} runs from {first} to {last}", show_count(runs as u64)),
    };
    let cases = in_words(cases, &Value::from(checked));
    let mut out = format!("**{runs}: {cases}, losses {}.**", losses_in_words(rows));
    if !sums.is_empty() {
        let sums = sums.iter().map(|(name, sum)| in_words(name, &Value::from(*sum)));
        write!(out, " Together: {}.", sums.collect::<Vec<_>>().join(", ")).expect(FINE);
    }
    out.push('\n');
    out
}

/// The number of kinds by the commit of their last run, and the number without a loss.
fn count_of_last(out: &mut String, kinds: &[Vec<&Row>]) {
    let mut counts: BTreeMap<(&str, String), (u64, u64)> = BTreeMap::new();
    for row in kinds.iter().filter_map(|kind| kind.last()) {
        let (runs, good) = counts.entry((row.day(), origin(row))).or_default();
        *runs += 1;
        *good += u64::from(!is_lossy(row));
    }
    let kinds = show_count(kinds.len() as u64);
    writeln!(out, "The last run of each of the {kinds}:\n").expect(FINE);
    out.push_str("| runs | without a loss | host, commit, date |\n|---|---|---|\n");
    for ((_, origin), (runs, good)) in &counts {
        let [runs, good] = [*runs, *good].map(show_count);
        writeln!(out, "| {runs} | {good} | {origin} |").expect(FINE);
    }
    out.push('\n');
}

/// The machine and time of a row.
fn origin(row: &Row) -> String {
    format!("{}, {}, {}", row.host, row.commit, row.day())
}

fn all_in_words(of: &BTreeMap<String, Value>) -> String {
    let words = of.iter().map(|(name, value)| in_words(name, value));
    words.collect::<Vec<_>>().join(", ")
}

/// `batches 1,200`, or text unchanged.
fn in_words(name: &str, value: &Value) -> String {
    let name = name.replace('_', " ");
    match value {
        Value::String(text) => format!("{name} {}", text.replace('|', "\\|")),
        Value::Number(number) => match number.as_u64() {
            Some(count) => format!("{name} {}", show_count(count)),
            None => format!("{name} {number}"),
        },
        other => format!("{name} {other}"),
    }
}

/// The anchor of a heading, as in usual Markdown.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cuts: u64, date: &str, losses: u64) -> Row {
        let mut row = Row::new("proof-power", "tidekv")
            .param("workloads", 20)
            .metric("cuts", cuts)
            .metric("losses", losses);
        (row.host, row.commit, row.date) = ("h".into(), "c".into(), date.into());
        row
    }

    #[test]
    fn the_newest_run_of_a_scale_counts_in_any_file() {
        let directory = tempfile::tempdir().unwrap();
        let (early, late) = (directory.path().join("b"), directory.path().join("a/deep"));
        fs::create_dir_all(&early).unwrap();
        fs::create_dir_all(&late).unwrap();
        row(1, "2026-01-01", 0).append_to(&early.join("proofs.jsonl")).unwrap();
        row(2, "2026-01-02", 0).append_to(&late.join("rows.jsonl")).unwrap();
        row(3, "2026-01-02", 0).append_to(&late.join("rows.jsonl")).unwrap();
        row(4, "2026-01-01", 0).append_to(&late.join("rows.jsonl")).unwrap();
        row(5, "2026-01-02", 0).param("other", 1).append_to(&late.join("rows.jsonl")).unwrap();
        Row::new("engine-open", "x").append_to(&late.join("rows.jsonl")).unwrap();
        row(6, "2027-01-01", 0).append_to(&late.join("turns.jsonl")).unwrap();
        let plain = late.join("rows.jsonl");
        let bytes = zstd::encode_all(&fs::read(&plain).unwrap()[..], 3).unwrap();
        let rows = read_proofs(directory.path()).unwrap();
        let rows: Vec<&Row> = rows.iter().collect();
        let cuts = |row: &&Row| row.number("cuts").unwrap();
        let mut newest: Vec<_> =
            kinds(&rows).iter().filter_map(|kind| kind.last().map(cuts)).collect();
        newest.sort_by(f64::total_cmp);
        assert_eq!(newest, [3.0, 5.0]);

        // All rows count, the oldest first, and a row in two files once.
        assert_eq!(rows.iter().map(cuts).collect::<Vec<_>>(), [4.0, 1.0, 2.0, 3.0, 5.0]);
        fs::write(late.join("rows.jsonl.zst"), bytes).unwrap();
        assert_eq!(read_proofs(directory.path()).unwrap().len(), 5);
        fs::remove_file(&plain).unwrap();
        assert_eq!(read_proofs(directory.path()).unwrap().len(), 5);
    }

    #[test]
    fn of_a_kind_the_last_the_largest_and_every_loss_are_shown() {
        let rows = [
            row(7, "2026-01-01", 0).param("steps", 2),
            row(9, "2026-01-02", 0),
            row(9, "2026-01-03", 0),
            row(1, "2026-01-04", 3),
            row(2, "2026-01-05", 0),
            row(8, "2026-01-06", 0).param("steps", 1),
        ];
        let text = write(&rows);
        let days: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains("workloads 20"))
            .filter_map(|line| line.strip_suffix(" |")?.split(", ").last())
            .collect();
        assert_eq!(days, ["2026-01-03", "2026-01-04", "2026-01-06"]);
        for line in [
            "| [Power cuts](#power-cuts) | 6 | 3, none since | 2026-01-06 |",
            "**6 runs from 2026-01-01 to 2026-01-06: cuts 36, losses 3, none since.**",
        ] {
            assert!(text.lines().any(|l| l == line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn the_document_counts_and_hides_no_loss() {
        let mutation = |caught: u64| {
            Row::new("proof-mutations", "tidekv")
                .param("mutation", format!("m|{caught}"))
                .metric("caught", caught)
        };
        let strange = Row::new("proof-strange", "tidekv").metric("rounds", 7);
        let rows = [row(1_234_567, "2026-01-02", 2), mutation(0), mutation(1), strange];
        let text = write(&rows);
        for line in [
            "| [Power cuts](#power-cuts) | 1 | 2 | 2026-01-02 |",
            "| workloads 20 | cuts 1,234,567, losses 2 | h, c, 2026-01-02 |",
            "| [Killed servers](#killed-servers) | 0 | – | not run yet |",
            "## strange",
        ] {
            assert!(text.lines().any(|l| l == line), "{line:?} is not in\n{text}");
        }
        assert!(text.contains("| [Mutation tests](#mutation-tests) | 2 | 1 |"), "{text}");
        assert!(text.contains("mutation m\\|0"));
        assert!(!text.contains("mutation m\\|1"), "those that are caught are counted");
        assert!(text.contains("The last run of each of the 2:"), "{text}");
    }

    /// The document and the rows of the repository; with `TIDEKV_BLESS` set it is rewritten.
    #[test]
    fn the_document_is_made_from_the_rows_of_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = write(&read_proofs(&root.join("docs/benchmarks")).unwrap());
        let path = root.join("docs/reliability.md");
        if std::env::var_os("TIDEKV_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert!(text.contains("| [Power cuts](#power-cuts) |"), "{text}");
        assert!(!text.contains("not run yet"), "the rows of each proof are kept");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "run `{COMMAND}`");
    }
}
