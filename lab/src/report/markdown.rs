//! A report as Markdown, and its table for the README.

use std::collections::BTreeSet;
use std::fmt::Write;

use tidekv_testkit::evidence::Row;

use super::figures;
use super::gather::{PointResults, Results};
use crate::failure::{Failure, Result};
use crate::groups::text_of;
use crate::report::show;

/// The marks around a generated part of another document.
const BEGIN: &str = "<!-- made by `lab report`: begin -->";
const END: &str = "<!-- end -->";

/// Writing to a string does not fail.
const FINE: &str = "a write to a string succeeds";

/// The whole report.
pub(crate) fn write(results: &[Results]) -> String {
    let mut out = String::from("# Lab report\n\n");
    writeln!(out, "{}\n", origin(results)).expect(FINE);
    out.push_str("## Targets\n\n");
    out.push_str(&targets(results));
    for results in results {
        write!(out, "\n## {}\n\n", results.name).expect(FINE);
        if let Some(experiment) = results.experiment {
            writeln!(out, "{}.\n", experiment.about).expect(FINE);
            if !experiment.paper.is_empty() {
                writeln!(out, "Paper: {}.\n", experiment.paper).expect(FINE);
            }
            writeln!(out, "Expected: {}.\n", experiment.claim).expect(FINE);
        }
        out.push_str(&answers(results));
        if figures::has_any(results) {
            out.push_str(&table_of_all(results));
            continue;
        }
        for point in &results.points {
            out.push_str(&table(point));
        }
    }
    out
}

/// All points of an experiment in one table, with a column for each differing parameter.
fn table_of_all(results: &Results) -> String {
    let rows: Vec<&Row> = results.measured().collect();
    let mut params: Vec<&str> = Vec::new();
    let mut metrics: Vec<&str> = Vec::new();
    for row in &rows {
        params.extend(row.params.keys().map(String::as_str));
        metrics.extend(show::shown(row).iter().map(|(name, _)| *name));
    }
    let mut seen = BTreeSet::new();
    params.retain(|name| {
        let value = |row: &&Row| row.params.get(*name).map(text_of);
        seen.insert(*name) && rows.iter().any(|row| value(row) != value(&rows[0]))
    });
    metrics.retain(|name| seen.insert(name));
    let labels = params.iter().map(|name| name.replace('_', " "));
    let labels = labels.chain(["subject".to_owned()]);
    let labels = labels.chain(metrics.iter().map(|name| show::label(name).to_owned()));
    let labels: Vec<String> = labels.collect();
    let mut out = format!("| {} |\n|{}\n", labels.join(" | "), "---|".repeat(labels.len()));
    for row in &rows {
        let cells = params.iter().map(|name| row.params.get(*name).map(text_of));
        let cells = cells.chain([Some(row.subject.clone())]);
        let cells = cells.chain(
            metrics.iter().map(|name| row.number(name).map(|value| show::show_value(name, value))),
        );
        let cells: Vec<String> = cells.map(Option::unwrap_or_default).collect();
        writeln!(out, "| {} |", cells.join(" | ")).expect(FINE);
    }
    for row in &rows {
        if let Some(error) = row.metrics.get("error").and_then(|error| error.as_str()) {
            write!(out, "\n{} failed ({}): {error}.\n", row.subject, show::params(row))
                .expect(FINE);
        }
    }
    out
}

/// The machine and time of rows, and the number of met targets.
pub(crate) fn origin(results: &[Results]) -> String {
    let all = |of: fn(&Row) -> &str| -> String {
        let rows = results.iter().flat_map(Results::measured);
        let distinct: BTreeSet<&str> = rows.map(of).collect();
        distinct.into_iter().collect::<Vec<_>>().join(", ")
    };
    let verdicts: Vec<&Row> = results.iter().flat_map(Results::verdicts).collect();
    let met = verdicts.iter().filter(|row| show::is_met(row)).count();
    format!(
        "Host {}, commit {}, {}. {met} of {} targets met.",
        all(|row| &row.host),
        all(|row| &row.commit),
        all(|row| row.day()),
        verdicts.len()
    )
}

/// One line per target: the result of the subject and of the baseline.
fn targets(results: &[Results]) -> String {
    let mut out = String::from(
        "| experiment | parameters | of | TideKV | baseline | baseline's | ratio | target | |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for results in results {
        for point in &results.points {
            for verdict in &point.verdicts {
                let metric = show::target_of(verdict);
                let value = |subject: &str| {
                    let row = point.measured.iter().find(|row| row.subject == subject);
                    row.and_then(|row| show::with_spread(row, metric)).unwrap_or_default()
                };
                let baseline = verdict.metrics.get("baseline").and_then(|name| name.as_str());
                let is_of_ratio = verdict.number("ratio").is_some();
                let own = match is_of_ratio {
                    true => value(&verdict.subject),
                    false => show::judged_value(verdict).unwrap_or_default(),
                };
                writeln!(
                    out,
                    "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                    results.name,
                    show::params(verdict),
                    show::label(metric),
                    own,
                    baseline.unwrap_or_default(),
                    baseline.map(value).unwrap_or_default(),
                    is_of_ratio.then(|| show::judged_value(verdict)).flatten().unwrap_or_default(),
                    show::show_bound(verdict),
                    outcome(verdict),
                )
                .expect(FINE);
            }
        }
    }
    out
}

/// The verdict on a target, with a reason if the number does not show it.
fn outcome(verdict: &Row) -> String {
    match (show::is_judged(verdict), show::is_met(verdict), show::over_budget(verdict)) {
        (false, ..) => "not judged: the baseline is over its budget".to_owned(),
        (true, true, _) => "pass".to_owned(),
        (true, false, None) => "**fail**".to_owned(),
        (true, false, Some(words)) => format!("**fail**: {words}"),
    }
}

/// The paper's statements, and whether each holds here.
fn answers(results: &Results) -> String {
    let answers = results.answers();
    if answers.is_empty() {
        return String::new();
    }
    let mut out = String::from("| the paper says | here | found |\n|---|---|---|\n");
    for (says, answer) in answers {
        let here = answer.here();
        writeln!(out, "| {says} | {here} | {} |", answer.found).expect(FINE);
    }
    out.push('\n');
    out
}

/// All subjects of a point, one column per metric.
fn table(point: &PointResults) -> String {
    let mut out = String::new();
    let Some(first) = point.measured.first() else { return out };
    let mut names: Vec<&str> = Vec::new();
    for row in &point.measured {
        for (name, _) in show::shown(row) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let labels: Vec<&str> = names.iter().map(|name| show::label(name)).collect();
    writeln!(out, "{}:\n\n| subject | {} |", show::params(first), labels.join(" | ")).expect(FINE);
    writeln!(out, "|---|{}", "---|".repeat(names.len())).expect(FINE);
    for row in &point.measured {
        let cells = names.iter().enumerate().map(|(at, name)| {
            let spread = (at == 0).then(|| show::with_spread(row, name)).flatten();
            let plain = || row.number(name).map(|value| show::show_value(name, value));
            spread.or_else(plain).unwrap_or_default()
        });
        let cells: Vec<String> = cells.collect();
        writeln!(out, "| {} | {} |", row.subject, cells.join(" | ")).expect(FINE);
    }
    out.push('\n');
    for row in &point.measured {
        if let Some(words) = show::over_budget(row) {
            writeln!(out, "{} {words}.\n", row.subject).expect(FINE);
        }
        if let Some(warning) = row.metrics.get("warning").and_then(|warning| warning.as_str()) {
            writeln!(out, "{}: {warning}.\n", row.subject).expect(FINE);
        }
    }
    out
}

/// The table for the README: one line per measurement, one column of ratios per baseline.
pub(crate) fn readme_table(results: &[Results]) -> String {
    let mut baselines: Vec<&str> = Vec::new();
    let points =
        || results.iter().flat_map(|results| results.points.iter().map(move |p| (results, p)));
    for (_, point) in points() {
        for name in point.verdicts.iter().filter_map(|verdict| baseline(point, verdict)) {
            if !baselines.contains(&name) {
                baselines.push(name);
            }
        }
    }
    let titles: Vec<String> = baselines.iter().map(|name| format!("times {name}")).collect();
    let mut out = format!(
        "| | TideKV | {} | target |\n|---|---|{}---|\n",
        titles.join(" | "),
        "---|".repeat(baselines.len())
    );
    for (results, point) in points() {
        let verdicts: Vec<&Row> =
            point.verdicts.iter().filter(|verdict| baseline(point, verdict).is_some()).collect();
        let Some(first) = verdicts.first() else { continue };
        let metric = show::target_of(first);
        let own = point.measured.iter().find(|row| row.subject == first.subject);
        let own = own.and_then(|row| Some(show::show_value(metric, row.number(metric)?)));
        let cells = baselines.iter().map(|name| {
            let verdict = verdicts.iter().find(|verdict| baseline(point, verdict) == Some(name));
            let Some(verdict) = verdict else { return String::new() };
            let missed = match (show::is_judged(verdict), show::is_met(verdict)) {
                (false, _) => ", over budget",
                (true, true) => "",
                (true, false) => ", missed",
            };
            format!("{}{missed}", show::judged_value(verdict).unwrap_or_default())
        });
        let cells: Vec<String> = cells.collect();
        writeln!(
            out,
            "| {}, {}: {} | {} | {} | {} |",
            results.name.trim_start_matches("engine-"),
            brief(first),
            show::label(metric),
            own.unwrap_or_default(),
            cells.join(" | "),
            show::show_bound(first),
        )
        .expect(FINE);
    }
    write!(out, "\n{}", origin(results)).expect(FINE);
    out
}

/// The baseline of the ratio in `verdict`, if it was measured at its point.
fn baseline<'a>(point: &PointResults, verdict: &'a Row) -> Option<&'a str> {
    verdict.number("ratio")?;
    let name = verdict.metrics.get("baseline")?.as_str()?;
    point.measured.iter().any(|row| row.subject == name).then_some(name)
}

/// The differing parameters of points in the README's table.
fn brief(row: &Row) -> String {
    let mut parts = Vec::new();
    if let Some(threads) = row.params.get("threads").and_then(serde_json::Value::as_u64) {
        parts.push(if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") });
    }
    if let Some(bytes) = row.params.get("value_bytes") {
        parts.push(format!("{bytes} B"));
    }
    if row.params.get("compression").is_some_and(|name| *name == "lz4") {
        parts.push("LZ4".to_owned());
    }
    parts.join(", ")
}

/// `document` with `part` as the new text between its marks.
pub(crate) fn replace_marked(document: &str, part: &str) -> Result<String> {
    let marked = document.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n\n{part}\n\n{END}{after}"))
    });
    marked.ok_or_else(|| {
        Failure::new(format!("the document has no marks for the table: `{BEGIN}` and `{END}`"))
    })
}

#[cfg(test)]
mod tests;
