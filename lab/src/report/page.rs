//! A report as one page: figures first, then tables. It needs no other file and no network, and
//! supports light and dark mode.

use std::fmt::Write;

use tidekv_testkit::evidence::{Row, Value};

use super::figures;
use super::gather::{PointResults, Results};
use super::lines::{self, FINE, WIDTH, escape};
use super::markdown::origin;
use crate::report::show;

const STYLE: &str = include_str!("page.css");

// Dimensions of the figures, in pixels of a page at its default size.
const NAMES_WIDTH: f64 = 170.0;
const VALUES_WIDTH: f64 = 200.0;
const BAR_HEIGHT: f64 = 18.0;
const BAR_GAP: f64 = 6.0;

/// The whole page.
pub(crate) fn write(results: &[Results]) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n");
    out.push_str("<meta charset=\"utf-8\">\n<title>Lab report</title>\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    write!(out, "<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Lab report</h1>\n").expect(FINE);
    writeln!(out, "<p>{}</p>", escape(&origin(results))).expect(FINE);
    out.push_str(&contents(results));
    for results in results {
        out.push_str(&section(results));
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// One line per experiment: the number of met targets.
fn contents(results: &[Results]) -> String {
    let mut out = String::from("<nav>\n");
    for results in results {
        let name = escape(&results.name);
        let badge = match tally(results) {
            (_, 0) => String::new(),
            (met, all) => {
                let class = if met == all { "pass" } else { "fail" };
                format!(" <span class=\"{class}\">{met}/{all}</span>")
            }
        };
        writeln!(out, "<a href=\"#{name}\">{name}{badge}</a>").expect(FINE);
    }
    out.push_str("</nav>\n");
    out
}

fn tally(results: &Results) -> (usize, usize) {
    let met = results.verdicts().filter(|row| show::is_met(row)).count();
    (met, results.verdicts().count())
}

/// The result in a sentence: the ratios of every target, and the number of times it is met.
fn found(results: &Results) -> String {
    let mut targets: Vec<(String, Vec<&Row>)> = Vec::new();
    for row in results.verdicts() {
        let baseline = row.metrics.get("baseline").and_then(Value::as_str).unwrap_or_default();
        let of = show::label(show::target_of(row));
        let against = if baseline.is_empty() { "" } else { " against " };
        let name = format!("{of} of {}{against}{baseline}", row.subject);
        match targets.iter_mut().find(|target| target.0 == name) {
            Some(target) => target.1.push(row),
            None => targets.push((name, vec![row])),
        }
    }
    let sentences = targets.iter().map(|(name, rows)| {
        let value = |row: &&Row| row.number(show::judged_metric(row)).unwrap_or(f64::NAN);
        let mut sorted = rows.clone();
        sorted.sort_by(|one, other| value(one).total_cmp(&value(other)));
        let [least, most] = [sorted.first(), sorted.last()]
            .map(|row| row.and_then(|row| show::judged_middle(row)).unwrap_or_default());
        let range = if least == most { least } else { format!("{least} to {most}") };
        let met = rows.iter().filter(|row| show::is_met(row)).count();
        format!("{name}: {range} ({met} of {} met)", rows.len())
    });
    sentences.collect::<Vec<_>>().join("; ")
}

fn section(results: &Results) -> String {
    let name = escape(&results.name);
    let mut out = format!("<section id=\"{name}\">\n<h2>{name}</h2>\n");
    if let Some(experiment) = results.experiment {
        writeln!(out, "<p>{}.</p>", escape(experiment.about)).expect(FINE);
        out.push_str("<dl>");
        let found = found(results);
        let said = [("Paper", experiment.paper), ("Expected", experiment.claim), ("Found", &found)];
        for (who, what) in said.iter().filter(|(_, what)| !what.is_empty()) {
            write!(out, "<dt>{who}</dt><dd>{}.</dd>", escape(what)).expect(FINE);
        }
        out.push_str("</dl>\n");
    }
    out.push_str(&answers(results));
    if figures::has_any(results) {
        out.push_str(&figures::of_all_points(results));
        out.push_str(&all_points(results));
        out.push_str("</section>\n");
        return out;
    }
    for point in &results.points {
        let Some(first) = point.measured.first() else { continue };
        writeln!(out, "<h3>{}</h3>", escape(&show::params(first))).expect(FINE);
        if let Some(metric) = main_metric(point) {
            out.push_str(&picture(point, metric));
        }
        out.push_str(&lines::over_time(point));
        for row in &point.measured {
            if let Some(words) = show::over_budget(row) {
                writeln!(out, "<p class=\"verdict\">{} {words}.</p>", escape(&row.subject))
                    .expect(FINE);
            }
        }
        for verdict in &point.verdicts {
            let class = match (show::is_judged(verdict), show::is_met(verdict)) {
                (false, _) => "none",
                (true, true) => "pass",
                (true, false) => "fail",
            };
            let text = show::verdict(verdict);
            let text = text.split_once("  ").map_or(&*text, |(_, rest)| rest);
            writeln!(
                out,
                "<p class=\"verdict\"><span class=\"{class}\">{class}</span> {}</p>",
                escape(text)
            )
            .expect(FINE);
        }
        out.push_str(&details(point));
    }
    out.push_str("</section>\n");
    out
}

/// The paper's statements, and whether each holds here.
fn answers(results: &Results) -> String {
    let answers = results.answers();
    if answers.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<table class=\"said\">\n<tr><th>The paper says</th><th>here</th><th>found</th></tr>\n",
    );
    for (says, answer) in answers {
        let here = answer.here();
        let (says, found) = (escape(says), escape(&answer.found));
        writeln!(out, "<tr><td>{says}</td><td class=\"here\">{here}</td><td>{found}</td></tr>")
            .expect(FINE);
    }
    out.push_str("</table>\n");
    out
}

/// The failed verdicts, and the measurements at all points, folded.
fn all_points(results: &Results) -> String {
    let mut out = String::new();
    for verdict in results.verdicts().filter(|row| !show::is_met(row)) {
        let (params, text) = (show::params(verdict), show::verdict(verdict));
        let text = text.split_once("  ").map_or(&*text, |(_, rest)| rest);
        writeln!(
            out,
            "<p class=\"verdict\"><span class=\"fail\">fail</span> {}: {}</p>",
            escape(&params),
            escape(text)
        )
        .expect(FINE);
    }
    out.push_str("<details><summary>all points</summary><div><table>\n");
    for point in &results.points {
        for row in &point.measured {
            let shown = show::shown(row).into_iter();
            let shown = shown.map(|(name, value)| {
                format!("{} {}", show::label(name), show::show_value(name, value))
            });
            let error = row.metrics.get("error").and_then(Value::as_str);
            let error = error.map(|error| format!("failed: {error}"));
            let what = shown.chain(error).collect::<Vec<_>>().join(", ");
            writeln!(
                out,
                "<tr><th>{}</th><th>{}</th><td>{}</td></tr>",
                escape(&show::params(row)),
                escape(&row.subject),
                escape(&what)
            )
            .expect(FINE);
        }
    }
    out.push_str("</table></div></details>\n");
    out
}

/// The metric of a figure: that of the first target, or the first metric.
fn main_metric(point: &PointResults) -> Option<&str> {
    let judged = point.verdicts.first().map(show::target_of);
    judged.or_else(|| Some(show::shown(point.measured.first()?).first()?.0))
}

/// One bar per subject with the spread of its alternations.
fn picture(point: &PointResults, metric: &str) -> String {
    let number = |row: &Row, name: &str| row.number(name).filter(|value| value.is_finite());
    let edge = |row: &Row| number(row, &format!("{metric}_max")).or_else(|| number(row, metric));
    let greatest = point.measured.iter().filter_map(edge).fold(0.0, f64::max);
    if greatest <= 0.0 {
        return String::new();
    }
    let scale = (WIDTH - NAMES_WIDTH - VALUES_WIDTH) / greatest;
    let height = (BAR_HEIGHT + BAR_GAP) * point.measured.len() as f64 + BAR_GAP;
    let label = escape(show::label(metric));
    let mut out = format!(
        "<figure><figcaption>{label}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"{label}\">\n"
    );
    for (at, row) in point.measured.iter().enumerate() {
        let Some(value) = number(row, metric) else { continue };
        let top = BAR_GAP + (BAR_HEIGHT + BAR_GAP) * at as f64;
        let middle = top + BAR_HEIGHT / 2.0;
        let (start, end) = (NAMES_WIDTH, NAMES_WIDTH + value * scale);
        let mark = if show::over_budget(row).is_some() { " *" } else { "" };
        let name = escape(&format!("{}{mark}", row.subject));
        let width = end - start;
        let hue = at % 6;
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"name\">{name}</text>\n\
             <rect x=\"{start:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{BAR_HEIGHT:.1}\" class=\"bar hue{hue}\"/>",
            NAMES_WIDTH - 8.0,
            middle + 4.0,
        )
        .expect(FINE);
        let ends = ["min", "max"].map(|end| number(row, &format!("{metric}_{end}")));
        if let [Some(least), Some(most)] = ends {
            let (left, right) = (start + least * scale, start + most * scale);
            let (high, low) = (middle - 5.0, middle + 5.0);
            writeln!(
                out,
                "<path class=\"spread\" d=\"M{left:.1} {middle:.1}H{right:.1}M{left:.1} \
                 {high:.1}V{low:.1}M{right:.1} {high:.1}V{low:.1}\"/>"
            )
            .expect(FINE);
        }
        let behind = NAMES_WIDTH + edge(row).unwrap_or(value) * scale + 8.0;
        let text = escape(&show::with_spread(row, metric).unwrap_or_default());
        let low = middle + 4.0;
        writeln!(out, "<text x=\"{behind:.1}\" y=\"{low:.1}\">{text}</text>").expect(FINE);
    }
    out.push_str("</svg></figure>\n");
    out
}

/// All metrics of a point, folded.
fn details(point: &PointResults) -> String {
    let mut out =
        String::from("<details><summary>all metrics</summary><div><table>\n<tr><th></th>");
    let mut names: Vec<&String> =
        point.measured.iter().flat_map(|row| row.metrics.keys()).collect();
    names.sort();
    names.dedup();
    for row in &point.measured {
        write!(out, "<th>{}</th>", escape(&row.subject)).expect(FINE);
    }
    out.push_str("</tr>\n");
    for name in names {
        write!(out, "<tr><th>{}</th>", escape(name)).expect(FINE);
        for row in &point.measured {
            let cell = match row.metrics.get(name) {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            write!(out, "<td>{}</td>", escape(&cell)).expect(FINE);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div></details>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::super::gather::gather;
    use super::*;

    #[test]
    fn a_page_shows_which_statements_of_the_paper_hold() {
        let row = |priority: &str, reads: u64| {
            Row::new("policy-priority", "rocksdb:options")
                .param("cache_percent", 20)
                .param("zipf", 0.3)
                .param("entries", 1_000_000)
                .param("operations", 1_000_000)
                .param("priority", priority)
                .metric("block_hits", 1000)
                .metric("index_reads", reads)
        };
        let page = write(&gather(vec![row("low", 16), row("high", 17)]));
        let lines: Vec<&str> =
            page.lines().filter(|line| line.contains("class=\"here\"")).collect();
        assert_eq!(lines.len(), 2, "{page}");
        assert!(lines[0].contains("Fig. 5") && lines[0].contains(">the same<"), "{}", lines[0]);
        assert!(lines[1].contains(">otherwise<") && lines[1].contains("16 and 17"), "{}", lines[1]);
    }

    #[test]
    fn a_page_is_self_contained_and_shows_every_subject() {
        let row = |subject: &str, ops: f64| {
            Row::new("engine-get-cold", subject)
                .param("threads", 1)
                .metric("ops_per_s", ops)
                .metric("ops_per_s_min", ops / 2.0)
                .metric("ops_per_s_max", ops * 2.0)
                .metric("warning", "<script>")
        };
        let verdict = Row::new("engine-get-cold", "tidekv:block-lru")
            .param("threads", 1)
            .metric("of", "ops_per_s")
            .metric("ratio", 0.5)
            .metric("target", 1.0)
            .metric("is_at_least", true)
            .metric("is_met", false);
        let rows = vec![row("tidekv:block-lru", 10.0), row("rocksdb:lru", 20.0), verdict];
        let page = write(&gather(rows));
        for bad in ["<script", "http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(bad), "{bad}");
        }
        assert_eq!(page.matches("<rect").count(), 2);
        assert_eq!(page.matches("class=\"spread\"").count(), 2);
        assert!(page.contains("prefers-color-scheme: dark"));
        assert!(page.contains("<span class=\"fail\">0/1</span>"));
        for tag in ["section", "svg", "table", "details", "nav", "figure"] {
            let opened = page.matches(&format!("<{tag}")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        // The longest bar, 20 of at most 40, takes half of the width.
        let half = (WIDTH - NAMES_WIDTH - VALUES_WIDTH) / 2.0;
        assert!(page.contains(&format!("width=\"{half:.1}\"")), "{page}");
    }
}
