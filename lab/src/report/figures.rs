//! Figures over all points of an experiment: lines of all subjects, or for each subject lines or a
//! map of cells; one for each combination of the parameters without an axis.

use std::fmt::Write;

use tidekv_testkit::evidence::{Row, Value};

use super::gather::Results;
use super::lines::{FINE, Line, WIDTH, draw, escape};
use crate::experiment::{Figure, Params, Shape};
use crate::experiments::sweep::SWEEP;
use crate::groups::{order, text_of};
use crate::quantity::show_number;
use crate::report::show;

// Dimensions of maps, in pixels of a page at its default size.
const LEFT: f64 = 110.0;
const CELL_HEIGHT: f64 = 22.0;
const CELL_WIDTH_MAX: f64 = 80.0;
const TOP: f64 = 20.0;

/// The metrics in figures of a sweep, which has no declared figures.
const OF_SWEEP: [(&str, &str); 3] = [
    ("reads_per_op", "Reads per operation"),
    ("hit_ratio", "Share of lookups of blocks that the cache answers"),
    ("ops_per_s", "Operations per second"),
];

/// All figures of an experiment; empty if it has none.
pub(super) fn of_all_points(results: &Results) -> String {
    let rows: Vec<&Row> = results.points.iter().flat_map(|point| &point.measured).collect();
    let figures = match results.experiment {
        _ if results.name == SWEEP.name => figures_of_sweep(&rows),
        Some(experiment) => experiment.figures.to_vec(),
        None => Vec::new(),
    };
    figures.iter().map(|figure| draw_all(figure, &rows)).collect()
}

/// Whether an experiment has figures over all points, rather than point by point.
pub(super) fn has_any(results: &Results) -> bool {
    let has_figures = results.experiment.is_some_and(|experiment| !experiment.figures.is_empty());
    has_figures || results.name == SWEEP.name
}

/// The two parameters with the most values are the axes.
fn figures_of_sweep<'a>(rows: &[&'a Row]) -> Vec<Figure<'a>> {
    let mut axes: Vec<(usize, &str)> = Vec::new();
    for name in rows.iter().flat_map(|row| row.params.keys()) {
        if axes.iter().all(|(_, known)| known != name) {
            axes.push((values_of(rows, name).len(), name));
        }
    }
    axes.retain(|(values, _)| *values > 1);
    axes.sort_by_key(|(values, _)| usize::MAX - values);
    let Some(&(_, x)) = axes.first() else { return Vec::new() };
    let y = axes.get(1).map_or("", |(_, name)| name);
    let shapes: &[Shape] = if y.is_empty() { &[Shape::Lines] } else { &[Shape::Map, Shape::Lines] };
    let of_metric =
        |(metric, title)| shapes.iter().map(move |&shape| Figure { title, metric, x, y, shape });
    OF_SWEEP.into_iter().flat_map(of_metric).collect()
}

/// The values of a parameter, in order.
fn values_of(rows: &[&Row], name: &str) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for value in rows.iter().filter_map(|row| row.params.get(name)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values.sort_by(order);
    values
}

/// The same figure for each combination of the parameters without an axis, and for each subject unless
/// subjects are lines of one figure. Titles omit common parameters.
fn draw_all(figure: &Figure<'_>, rows: &[&Row]) -> String {
    let is_in =
        |row: &&&Row| row.number(figure.metric).is_some() && row.params.contains_key(figure.x);
    let rows: Vec<&Row> = rows.iter().filter(is_in).copied().collect();
    let is_rest = |name: &str| {
        let is_same = rows.iter().all(|row| row.params.get(name) == rows[0].params.get(name));
        name != figure.x && name != figure.y && !is_same
    };
    let rest_of = |row: &Row| -> Params {
        let mut params = row.params.clone();
        params.retain(|name, _| is_rest(name));
        params
    };
    let are_beside = figure.shape == Shape::Subjects;
    let mut groups: Vec<(&str, Params, Vec<&Row>)> = Vec::new();
    for &row in &rows {
        let (subject, rest) = (if are_beside { "" } else { &*row.subject }, rest_of(row));
        match groups.iter_mut().find(|group| group.0 == subject && group.1 == rest) {
            Some(group) => group.2.push(row),
            None => groups.push((subject, rest, vec![row])),
        }
    }
    let mut out = String::new();
    for (subject, rest, rows) in groups {
        let named = Row { params: rest, ..Row::new("", subject) };
        let of = [subject.to_owned(), show::params(&named)];
        let of: Vec<&str> = of.iter().map(|text| &**text).filter(|text| !text.is_empty()).collect();
        let axis = figure.x.replace('_', " ");
        let title = format!("{}, by {axis}: {}", figure.title, of.join("; "));
        let title = title.trim_end_matches(": ");
        out.push_str(&match figure.shape {
            Shape::Lines | Shape::Subjects => draw_lines(figure, title, &rows),
            Shape::Map => draw_map(figure, title, &rows),
        });
    }
    out
}

/// A line for each subject, or for each value of the second parameter, or one alone.
fn draw_lines(figure: &Figure<'_>, title: &str, rows: &[&Row]) -> String {
    let line = |name: String, is_of: &dyn Fn(&Row) -> bool| {
        let dot =
            |row: &&Row| Some((row.params.get(figure.x)?.as_f64()?, row.number(figure.metric)?));
        let mut dots: Vec<(f64, f64)> =
            rows.iter().filter(|row| is_of(row)).filter_map(dot).collect();
        dots.sort_by(|one, other| one.0.total_cmp(&other.0));
        Line { name, dots }
    };
    let of_value = |value: Value| {
        let name = format!("{} {}", figure.y.replace('_', " "), text_of(&value));
        line(name, &|row| row.params.get(figure.y) == Some(&value))
    };
    let lines: Vec<Line> = match (figure.shape, values_of(rows, figure.y)) {
        (Shape::Subjects, _) => {
            let mut subjects: Vec<&str> = Vec::new();
            for row in rows {
                if !subjects.contains(&&*row.subject) {
                    subjects.push(&row.subject);
                }
            }
            let of = |subject: &str| line(subject.to_owned(), &|row| row.subject == subject);
            subjects.into_iter().map(of).collect()
        }
        (_, values) if values.is_empty() => {
            vec![line(show::label(figure.metric).to_owned(), &|_| true)]
        }
        (_, values) => values.into_iter().map(of_value).collect(),
    };
    draw(title, figure.metric, &lines)
}

/// A cell for each pair of values, filled in proportion to its number.
fn draw_map(figure: &Figure<'_>, title: &str, rows: &[&Row]) -> String {
    let (xs, ys) = (values_of(rows, figure.x), values_of(rows, figure.y));
    let greatest = rows.iter().filter_map(|row| row.number(figure.metric)).fold(0.0, f64::max);
    if greatest <= 0.0 || xs.is_empty() || ys.is_empty() {
        return String::new();
    }
    let width = ((WIDTH - LEFT) / xs.len() as f64).min(CELL_WIDTH_MAX);
    let height = TOP + CELL_HEIGHT * ys.len() as f64;
    let title = escape(title);
    let mut out = format!(
        "<figure><figcaption>{title}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"{title}\">\n"
    );
    for (column, x) in xs.iter().enumerate() {
        let at = LEFT + width * (column as f64 + 0.5);
        let text = escape(&text_of(x));
        writeln!(out, "<text x=\"{at:.1}\" y=\"14\" class=\"cell\">{text}</text>").expect(FINE);
    }
    for (line, y) in ys.iter().enumerate() {
        let top = TOP + CELL_HEIGHT * line as f64;
        let (low, text) = (top + 16.0, escape(&text_of(y)));
        let right = LEFT - 8.0;
        writeln!(out, "<text x=\"{right}\" y=\"{low:.1}\" class=\"name\">{text}</text>")
            .expect(FINE);
        for (column, x) in xs.iter().enumerate() {
            let is_it = |row: &&&Row| {
                row.params.get(figure.x) == Some(x) && row.params.get(figure.y) == Some(y)
            };
            let value = rows.iter().find(is_it).and_then(|row| row.number(figure.metric));
            let Some(value) = value else { continue };
            let left = LEFT + width * column as f64;
            let (middle, fullness) = (left + width / 2.0, 0.75 * value / greatest);
            let text = show_number(value);
            writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{CELL_HEIGHT:.1}\" class=\"hue0\" opacity=\"{fullness:.2}\"/>\n\
                 <text x=\"{middle:.1}\" y=\"{low:.1}\" class=\"cell\">{text}</text>"
            )
            .expect(FINE);
        }
    }
    out.push_str("</svg></figure>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::super::gather::gather;
    use super::*;

    fn row(subject: &str, x: f64, y: f64, reads: f64) -> Row {
        Row::new("sweep", subject)
            .param("cache_percent", x)
            .param("zipf", y)
            .param("threads", 8)
            .metric("reads_per_op", reads)
    }

    #[test]
    fn a_sweep_becomes_maps_and_lines_of_each_subject() {
        let mut rows = Vec::new();
        for subject in ["rocksdb:options", "tidekv:<tide>"] {
            for (at, x) in [2.0, 20.0, 110.0].into_iter().enumerate() {
                rows.extend([0.0, 0.9].map(|y| row(subject, x, y, 1.0 / (at + 1) as f64)));
            }
        }
        let results = gather(rows);
        let out = of_all_points(&results[0]);
        assert!(has_any(&results[0]));
        // A map, and lines for each subject.
        assert_eq!(out.matches("<figure>").count(), 4);
        assert_eq!(out.matches("<rect").count(), 12);
        assert_eq!(out.matches("class=\"line ").count(), 4);
        // The largest value is the fullest cell.
        assert_eq!(out.matches("opacity=\"0.75\"").count(), 4);
        assert!(out.contains("zipf 0.9") && out.contains("tidekv:&lt;tide&gt;"), "{out}");
    }

    #[test]
    fn subjects_are_lines_of_one_picture() {
        let rows = ["fixed", "elastic"]
            .map(|subject| [1.0, 2.0].map(|x| row(subject, x, 0.9, x)).to_vec());
        let rows: Vec<Row> = rows.concat();
        let rows: Vec<&Row> = rows.iter().collect();
        let figure = Figure {
            title: "Reads",
            metric: "reads_per_op",
            x: "cache_percent",
            y: "",
            shape: Shape::Subjects,
        };
        let out = draw_all(&figure, &rows);
        assert_eq!((out.matches("<figure>").count(), out.matches("class=\"line ").count()), (1, 2));
        assert!(out.contains(">elastic<") && out.contains(">fixed<"), "{out}");
        // Common parameters are not shown.
        assert!(out.contains("<figcaption>Reads, by cache percent</figcaption>"), "{out}");
    }

    #[test]
    fn one_axis_becomes_a_line() {
        let rows = vec![row("tidekv:tide", 2.0, 0.9, 1.0), row("tidekv:tide", 20.0, 0.9, 0.5)];
        let out = of_all_points(&gather(rows)[0]);
        assert_eq!(out.matches("<figure>").count(), 1);
        assert_eq!(out.matches("class=\"line ").count(), 1);
    }
}
