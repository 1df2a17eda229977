//! Figures over time: one line per subject, and per cache of a subject with several.

use std::fmt::Write;

use tidekv_testkit::evidence::Row;

use super::gather::PointResults;
use crate::quantity::show_number;
use crate::report::show;

/// Writing to a string does not fail.
pub(super) const FINE: &str = "a string takes everything";

// Dimensions, in pixels of a page at its default size.
pub(super) const WIDTH: f64 = 860.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
const HEIGHT: f64 = 150.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 22.0;
/// Number of colours.
const HUES: usize = 6;
/// Minimum distance of names at the right.
const NAME_HEIGHT: f64 = 14.0;

/// The metrics drawn for all subjects together.
const SHARED: [&str; 2] = ["reads_per_op", "ops_per_s"];
/// The metrics drawn for each.
const CACHES: [(&str, &str); 3] =
    [("kv_bytes", "values"), ("kp_bytes", "pointers"), ("block_bytes", "blocks")];

/// A line with its name.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) dots: Vec<(f64, f64)>,
}

/// All figures over time of a point; empty without rows over time.
pub(super) fn over_time(point: &PointResults) -> String {
    let mut subjects: Vec<&str> = Vec::new();
    for row in &point.over_time {
        if !subjects.contains(&&*row.subject) {
            subjects.push(&row.subject);
        }
    }
    let mut out = String::new();
    for metric in SHARED {
        let line = |subject: &&str| Line {
            name: (*subject).to_owned(),
            dots: dots(&point.over_time, subject, metric),
        };
        let title = format!("{} over operations", show::label(metric));
        out.push_str(&draw(&title, metric, &subjects.iter().map(line).collect::<Vec<_>>()));
    }
    for subject in subjects {
        let line = |(metric, name): (&str, &str)| Line {
            name: name.to_owned(),
            dots: dots(&point.over_time, subject, metric),
        };
        let title = format!("{subject}: bytes of its caches over operations");
        let lines = CACHES.map(line);
        // If blocks have the whole budget, there is no line to draw.
        if lines.iter().filter(|line| line.dots.iter().any(|dot| dot.1 > 0.0)).count() > 1 {
            out.push_str(&draw(&title, CACHES[0].0, &lines));
        }
    }
    out
}

fn dots(rows: &[Row], subject: &str, metric: &str) -> Vec<(f64, f64)> {
    let dot = |row: &Row| Some((row.params.get("t")?.as_f64()?, row.number(metric)?));
    let mut dots: Vec<(f64, f64)> =
        rows.iter().filter(|row| row.subject == subject).filter_map(dot).collect();
    dots.sort_by(|one, other| one.0.total_cmp(&other.0));
    dots
}

/// The positions of names next to `ends`, the highest first: without overlap, and if there is room
/// for all, not below `floor`.
fn places(ends: &[f64], floor: f64) -> Vec<f64> {
    let mut places = ends.to_vec();
    for at in 1..places.len() {
        places[at] = places[at].max(places[at - 1] + NAME_HEIGHT);
    }
    let mut below = floor + NAME_HEIGHT;
    for place in places.iter_mut().rev() {
        *place = place.min(below - NAME_HEIGHT);
        below = *place;
    }
    places
}

/// Round numbers from 0 to `end`, four to nine of them.
fn ticks(end: f64) -> Vec<f64> {
    let power = 10f64.powf((end / 4.0).log10().floor());
    let steps = [5.0, 2.0, 1.0].map(|times| times * power);
    let step = steps.into_iter().find(|step| end / step >= 3.0).unwrap_or(power);
    (0..).map(|at| f64::from(at) * step).take_while(|x| *x <= end * (1.0 + 1e-9)).collect()
}

/// A line figure of the values of a metric, with both axes from 0; empty if no value is above 0.
pub(super) fn draw(title: &str, metric: &str, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| &line.dots);
    let (right, top) = all().fold((0.0, 0.0), |(x, y), dot| (dot.0.max(x), dot.1.max(y)));
    if right <= 0.0 || top <= 0.0 {
        return String::new();
    }
    let at = |(x, y): (f64, f64)| {
        let across = LEFT + x / right * (WIDTH - LEFT - RIGHT);
        (across, TOP + (1.0 - y / top) * HEIGHT)
    };
    let (title, height) = (escape(title), TOP + HEIGHT + BOTTOM);
    let (end, floor) = (WIDTH - RIGHT, TOP + HEIGHT);
    let mut out = format!(
        "<figure><figcaption>{title}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"{title}\">\n\
         <path class=\"axis\" d=\"M{LEFT} {TOP}V{floor}H{end}\"/>\n"
    );
    let labels = [
        (LEFT - 6.0, TOP + 6.0, show::show_value(metric, top), "name"),
        (LEFT - 6.0, floor, "0".to_owned(), "name"),
    ];
    for (x, y, text, class) in labels {
        writeln!(out, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>").expect(FINE);
    }
    for x in ticks(right) {
        let (across, y) = (at((x, 0.0)).0, floor + 16.0);
        writeln!(
            out,
            "<path class=\"axis\" d=\"M{across:.1} {floor}v4\"/>\
             <text x=\"{across:.1}\" y=\"{y}\" class=\"cell\">{}</text>",
            show_number(x)
        )
        .expect(FINE);
    }
    let mut names: Vec<(f64, usize, &str)> = Vec::new();
    for (hue, line) in lines.iter().enumerate().filter(|(_, line)| !line.dots.is_empty()) {
        let path: Vec<String> = line
            .dots
            .iter()
            .map(|dot| {
                let (x, y) = at(*dot);
                format!("{x:.1} {y:.1}")
            })
            .collect();
        // Beyond six, dashes distinguish lines with the same hue.
        let dashed = if hue >= HUES { " dashed" } else { "" };
        let hue = hue % HUES;
        writeln!(out, "<path class=\"line hue{hue}{dashed}\" d=\"M{}\"/>", path.join("L"))
            .expect(FINE);
        let last = line.dots.last().map_or(floor, |dot| at(*dot).1);
        names.push((last, hue, &line.name));
    }
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ends: Vec<f64> = names.iter().map(|name| name.0 + 4.0).collect();
    for (y, (_, hue, name)) in places(&ends, height - 2.0).into_iter().zip(names) {
        let (x, name) = (end + 8.0, escape(name));
        writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"of hue{hue}\">{name}</text>")
            .expect(FINE);
    }
    out.push_str("</svg></figure>\n");
    out
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::gather::gather;
    use super::*;

    #[test]
    fn names_do_not_overlap_and_stay_within_the_figure() {
        assert_eq!(places(&[10.0, 100.0], 200.0), [10.0, 100.0]);
        let crowded = places(&[190.0, 191.0, 192.0], 200.0);
        assert_eq!(crowded, [200.0 - 2.0 * NAME_HEIGHT, 200.0 - NAME_HEIGHT, 200.0]);
        assert_eq!(places(&[10.0, 11.0], 200.0), [10.0, 10.0 + NAME_HEIGHT]);
        assert!(places(&[], 200.0).is_empty());
    }

    #[test]
    fn axis_numbers_are_round_and_few() {
        assert_eq!(ticks(110.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(1e6), [0.0, 2e5, 4e5, 6e5, 8e5, 1e6]);
        for end in [0.003, 0.99, 1.0, 6.0, 8.0, 19.0, 63.0, 2.5e9] {
            let ticks = ticks(end);
            assert!((4..=9).contains(&ticks.len()), "{end}: {ticks:?}");
            assert!(ticks.last().is_some_and(|last| *last <= end * 1.001 && *last > end * 0.6));
        }
    }

    #[test]
    fn rows_over_time_become_lines() {
        let row = |subject: &str, t: u64, kv: u64| {
            Row::new("ackey-phase", subject)
                .param("t", t)
                .metric("reads_per_op", 0.5)
                .metric("kv_bytes", kv)
                .metric("block_bytes", 100 - kv)
        };
        let rows = vec![
            row("tidekv:tide", 10, 5),
            row("tidekv:tide", 20, 90),
            row("tidekv:<b>", 10, 0),
            row("tidekv:<b>", 20, 0),
        ];
        let out = over_time(&gather(rows)[0].points[0]);
        // Reads of both, values and blocks of the subject that has both.
        assert_eq!(out.matches("<figure>").count(), 2);
        assert_eq!(out.matches("class=\"line ").count(), 4);
        assert!(out.contains("tidekv:&lt;b&gt;") && !out.contains("<b>"));
        // Values end near the top, nine tenths of the maximum, which is 95.
        let y = TOP + (1.0 - 90.0 / 95.0) * HEIGHT;
        assert!(out.contains(&format!("L{:.1} {y:.1}\"", WIDTH - RIGHT)), "{out}");
    }
}
