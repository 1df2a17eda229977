//! `docs/reliability.md`: what has been proven, with the counts of the runs that did
//! it. Every figure comes from a row; of runs of the same scale the newest counts.
#![allow(clippy::disallowed_methods, reason = "reads rows of evidence, not data of a store")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tidekv_testkit::evidence::{Row, Value};

use super::proofs::PROOFS;
use crate::failure::{Failure, Result};
use crate::quantity::show_count;

/// Files that hold rows.
const FILES: [&str; 2] = ["rows.jsonl", "proofs.jsonl"];

/// What the names of proofs begin with.
const PREFIX: &str = "proof-";

/// Writing to a string does not fail.
const FINE: &str = "a string takes everything";

/// The rows of proofs in all files below `directory`: of those that tell of the
/// same run at the same scale, the newest.
pub(crate) fn read_proofs(directory: &Path) -> Result<Vec<Row>> {
    let mut paths = Vec::new();
    find(directory, &mut paths)
        .map_err(|e| Failure::system(format!("could not list {}", directory.display()), e))?;
    paths.sort();
    let mut newest: Vec<Row> = Vec::new();
    for path in paths {
        let rows = tidekv_testkit::evidence::read(&path)
            .map_err(|e| Failure::system(format!("could not read {}", path.display()), e))?;
        for row in rows.into_iter().filter(|row| row.experiment.starts_with(PREFIX)) {
            let is_same = |other: &&mut Row| {
                other.experiment == row.experiment
                    && other.subject == row.subject
                    && other.params == row.params
            };
            match newest.iter_mut().find(is_same) {
                Some(known) if known.date <= row.date => *known = row,
                Some(_) => {}
                None => newest.push(row),
            }
        }
    }
    Ok(newest)
}

fn find(directory: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            find(&entry.path(), paths)?;
        } else if FILES.iter().any(|name| entry.file_name() == *name) {
            paths.push(entry.path());
        }
    }
    Ok(())
}

/// The whole document.
pub(crate) fn write(rows: &[Row]) -> String {
    let mut out = String::from(
        "# Reliability\n\n\
         <!-- Written by `tidekv-lab report results --reliability docs/reliability.md` from the \
         rows below `results`. Do not edit. -->\n\n\
         What has been checked, how often, and how to repeat it. Every figure was counted by the \
         run itself, which left it in a row; no run that found a loss would have passed. A \
         command leaves its rows in the file that `TIDEKV_ROWS` names.\n\n",
    );
    out.push_str(&overview(rows));
    for proof in PROOFS {
        section(&mut out, proof.title, proof.what, proof.command, &of(rows, proof.name));
    }
    let known = |name: &str| PROOFS.iter().any(|proof| proof.name == name);
    let mut others: Vec<&str> =
        rows.iter().map(|row| &*row.experiment).filter(|name| !known(name)).collect();
    others.sort_unstable();
    others.dedup();
    for name in others {
        let title = name.trim_start_matches(PREFIX);
        section(&mut out, title, "", "", &of(rows, name));
    }
    out
}

fn of<'a>(rows: &'a [Row], name: &str) -> Vec<&'a Row> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.experiment == name).collect();
    rows.sort_by_cached_key(|row| format!("{:?}", row.params));
    rows
}

/// One line for each proof.
fn overview(rows: &[Row]) -> String {
    let mut out = String::from("| proof | runs | losses | last |\n|---|---|---|---|\n");
    for proof in PROOFS {
        let rows = of(rows, proof.name);
        let last = rows.iter().map(|row| row.day()).max().unwrap_or("not run yet");
        writeln!(
            out,
            "| [{}](#{}) | {} | {} | {last} |",
            proof.title,
            anchor(proof.title),
            rows.len(),
            losses(&rows).map_or_else(|| "–".to_owned(), show_count),
        )
        .expect(FINE);
    }
    out
}

/// What all rows found wrong together; `None` where none says.
fn losses(rows: &[&Row]) -> Option<u64> {
    let of_row = |row: &&Row| -> Option<u64> {
        let count = |name: &str| row.metrics.get(name).and_then(Value::as_u64);
        // A mutation that nobody noticed is a loss of that proof.
        count("losses").or_else(|| count("caught").map(|caught| 1 - caught.min(1)))
    };
    rows.iter().filter_map(of_row).reduce(|one, other| one + other)
}

fn section(out: &mut String, title: &str, what: &str, command: &str, rows: &[&Row]) {
    write!(out, "\n## {title}\n\n").expect(FINE);
    if !what.is_empty() {
        writeln!(out, "{what}\n").expect(FINE);
    }
    if rows.is_empty() {
        out.push_str("No run of it has left a row yet.\n\n");
    } else {
        out.push_str("| run | found | host, commit, date |\n|---|---|---|\n");
        for row in rows {
            let [run, found] = [&row.params, &row.metrics].map(|of| {
                let words = of.iter().map(|(name, value)| in_words(name, value));
                words.collect::<Vec<_>>().join(", ")
            });
            let (host, commit, day) = (&row.host, &row.commit, row.day());
            writeln!(out, "| {run} | {found} | {host}, {commit}, {day} |").expect(FINE);
        }
        out.push('\n');
    }
    if !command.is_empty() {
        writeln!(out, "```sh\n{command}\n```").expect(FINE);
    }
}

/// `batches 1,200`, or text as it is.
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

/// The address of a heading, as the usual Markdown makes it.
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
    fn the_newest_run_of_a_scale_counts_wherever_it_lies() {
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
        let cuts: Vec<_> = read_proofs(directory.path())
            .unwrap()
            .iter()
            .map(|row| row.number("cuts").unwrap())
            .collect();
        assert_eq!(cuts, [3.0, 5.0]);
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
        assert!(text.contains("| [Tests that notice](#tests-that-notice) | 2 | 1 |"), "{text}");
        assert!(text.contains("mutation m\\|0"));
    }

    /// The document and the rows of the repository; with `TIDEKV_BLESS` set it is
    /// written anew.
    #[test]
    fn the_document_is_made_from_the_rows_of_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = write(&read_proofs(&root.join("results")).unwrap());
        let path = root.join("docs/reliability.md");
        if std::env::var_os("TIDEKV_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            text,
            "run `tidekv-lab report results --reliability docs/reliability.md`"
        );
    }
}
