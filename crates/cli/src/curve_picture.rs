//! Pictures of miss-ratio curves and of the sizes of a plan: a standalone SVG.

use std::fmt::Write;

use crate::curve_file::{BYTES, CurveFile};
use crate::quantity::show_size;

const WIDTH: f64 = 720.0;
/// Height of a panel without its legend.
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 64.0;
/// Maximum number of size labels.
const LABELS_MAX: u32 = 8;
/// The axis begins where this part of a curve's whole fall is reached.
const FALL_MIN: f64 = 0.01;
/// Height of a line of the legend, the length of its sample, and the width of a character, about.
const LEGEND_LINE: f64 = 18.0;
const LEGEND_SAMPLE: f64 = 28.0;
const CHARACTER: f64 = 7.0;
/// Colours of curves, legible side by side also for the colour-blind (Okabe and Ito).
const COLOURS: [&str; 6] = ["#1668a8", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#333333"];
/// Their dashes, one after another where there are more curves than colours.
const DASHES: [&str; 3] = ["", "8 4", "12 3 3 3"];
/// Those of their bytes.
const BYTES_DASHES: [&str; 3] = ["2 3", "2 6", "2 2 2 6"];
/// Most points of a curve that are marked by dots: more would be a line of dots.
const DOTS_MAX: usize = 64;
/// Writing to a string does not fail.
const FINE: &str = "a write to a string succeeds";

/// A marked size in a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The size, in the unit of the curve.
    pub size: u64,
    /// Its label.
    pub text: String,
    /// An SVG colour.
    pub colour: &'static str,
    /// Whether it is only a comparison.
    pub is_compared: bool,
}

/// A curve in a panel.
#[derive(Debug, Clone)]
pub struct DrawnCurve {
    /// Its name in the legend.
    pub name: String,
    /// Sizes, rising, and miss ratios.
    pub points: Vec<(u64, f64)>,
    /// Whether it is of the requested bytes rather than of requests: drawn with dashes.
    pub is_of_bytes: bool,
}

/// Curves in one frame.
#[derive(Debug, Clone)]
pub struct Panel {
    /// The title above it.
    pub title: String,
    /// The title of the axis of sizes, without its unit.
    pub size_title: &'static str,
    /// The curves; with more than one there is a legend.
    pub curves: Vec<DrawnCurve>,
    /// Whether sizes are in bytes.
    pub is_in_bytes: bool,
    /// Marked sizes, a few.
    pub marks: Vec<Mark>,
}

/// The coordinates of sizes and ratios in a panel; sizes are on a logarithmic axis.
struct Frame {
    first: f64,
    last: f64,
}

/// The least size at which a curve has fallen noticeably; `None` for one that does not fall.
fn first_useful(points: &[(u64, f64)]) -> Option<u64> {
    let (highest, least) = (points.first()?.1, points.last()?.1);
    // Caches of no size may hit nothing, or be missing.
    let highest = if points.first()?.0 == 0 { highest } else { 1.0 };
    let fallen = highest - (highest - least) * FALL_MIN;
    let mut sizes = points.iter().filter(|(size, ratio)| *size > 0 && *ratio <= fallen);
    sizes.next().filter(|_| least < highest).map(|(size, _)| *size)
}

impl Frame {
    /// For the useful sizes of all curves, and for all marks: from a power of two below the first.
    fn of(panel: &Panel) -> Self {
        let marks = || panel.marks.iter().map(|mark| mark.size).filter(|size| *size > 0);
        let useful = panel.curves.iter().filter_map(|curve| first_useful(&curve.points));
        let first = useful.chain(marks()).min().unwrap_or(2) as f64;
        // A little flat curve tells that smaller caches are of no use.
        let first = (first.log2().ceil() - 1.0).max(0.0).exp2();
        let last = panel.curves.iter().filter_map(|curve| Some(curve.points.last()?.0));
        let last = last.chain(marks()).max().unwrap_or(0) as f64;
        Self { first, last: last.max(first * 2.0) }
    }

    fn x(&self, size: f64) -> f64 {
        let part = (size.max(self.first) / self.first).ln() / (self.last / self.first).ln();
        LEFT + part.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(miss_ratio: f64) -> f64 {
        TOP + (1.0 - miss_ratio) * (HEIGHT - TOP - BOTTOM)
    }
}

/// The picture of a profile, with other curves for comparison, each with its name.
pub fn of_file(name: &str, file: &CurveFile, others: &[(String, CurveFile)]) -> String {
    let of = |name: &str, file: &CurveFile| {
        let points = file.points.clone();
        let requests = DrawnCurve { name: name.to_owned(), points, is_of_bytes: false };
        let bytes = file.byte_miss_ratios.as_ref().map(|ratios| DrawnCurve {
            name: format!("{name}, of bytes"),
            points: file.points.iter().map(|point| point.0).zip(ratios.iter().copied()).collect(),
            is_of_bytes: true,
        });
        [Some(requests), bytes].into_iter().flatten()
    };
    let compared = others.iter().flat_map(|(name, file)| of(name, file));
    let title = match others {
        [] => format!("Miss ratio of {:.0} requests by cache size", file.requests),
        _ => "Miss ratio by cache size".to_owned(),
    };
    draw(&[Panel {
        title,
        size_title: "Cache size",
        curves: of(name, file).chain(compared).collect(),
        is_in_bytes: file.unit == BYTES,
        marks: Vec::new(),
    }])
}

/// Panels, one below another.
pub fn draw(panels: &[Panel]) -> String {
    let styled: Vec<Vec<Style>> = panels.iter().map(|panel| styles(&panel.curves)).collect();
    let legends = panels.iter().zip(&styled).map(|(panel, styles)| Legend::of(panel, styles));
    let legends: Vec<Legend<'_>> = legends.collect();
    let height: f64 = legends.iter().map(|legend| HEIGHT + legend.height()).sum();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut down = 0.0;
    for ((panel, styles), legend) in panels.iter().zip(&styled).zip(&legends) {
        writeln!(out, "<g transform=\"translate(0 {down})\">").expect(FINE);
        draw_panel(&mut out, panel, styles);
        legend.draw(&mut out);
        out.push_str("</g>\n");
        down += HEIGHT + legend.height();
    }
    out.push_str("</svg>\n");
    out
}

/// How a curve is drawn.
#[derive(Debug, Clone, Copy)]
struct Style {
    colour: &'static str,
    dashes: &'static str,
}

impl Style {
    /// As attributes.
    fn stroke(&self) -> String {
        let Self { colour, dashes } = self;
        let dashes = match *dashes {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        };
        format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}")
    }
}

/// The styles of these curves: each its own; a curve of bytes has the colour of the one before it.
fn styles(curves: &[DrawnCurve]) -> Vec<Style> {
    let mut count = 0_usize;
    let style = |curve: &DrawnCurve| {
        count += usize::from(!curve.is_of_bytes);
        let number = count.saturating_sub(1);
        let dashes = if curve.is_of_bytes { BYTES_DASHES } else { DASHES };
        let round = number / COLOURS.len() % dashes.len();
        Style { colour: COLOURS[number % COLOURS.len()], dashes: dashes[round] }
    };
    curves.iter().map(style).collect()
}

/// The names of the curves below a panel: each with its place.
struct Legend<'p> {
    entries: Vec<(f64, usize, &'p str, Style)>,
}

impl<'p> Legend<'p> {
    fn of(panel: &'p Panel, styles: &[Style]) -> Self {
        let (mut x, mut line, mut entries) = (LEFT, 0, Vec::new());
        let curves = if panel.curves.len() > 1 { &panel.curves[..] } else { &[] };
        for (curve, style) in curves.iter().zip(styles) {
            let width = LEGEND_SAMPLE + CHARACTER * (curve.name.chars().count() as f64 + 3.0);
            if x > LEFT && x + width > WIDTH - RIGHT {
                (x, line) = (LEFT, line + 1);
            }
            entries.push((x, line, curve.name.as_str(), *style));
            x += width;
        }
        Self { entries }
    }

    fn height(&self) -> f64 {
        self.entries.last().map_or(0.0, |(_, line, ..)| (*line as f64 + 1.0) * LEGEND_LINE)
    }

    fn draw(&self, out: &mut String) {
        for (x, line, name, style) in &self.entries {
            let y = HEIGHT + *line as f64 * LEGEND_LINE;
            let (end, middle, text) = (x + LEGEND_SAMPLE - 6.0, y - 4.0, x + LEGEND_SAMPLE);
            let (stroke, name) = (style.stroke(), escaped(name));
            writeln!(
                out,
                "<path d=\"M{x:.1} {middle:.1}H{end:.1}\" {stroke}/>\
                 <text x=\"{text:.1}\" y=\"{y:.1}\">{name}</text>"
            )
            .expect(FINE);
        }
    }
}

fn draw_panel(out: &mut String, panel: &Panel, styles: &[Style]) {
    let frame = Frame::of(panel);
    let title = escaped(&panel.title);
    writeln!(out, "<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}</text>").expect(FINE);
    draw_axes(out, &frame, panel);
    for (curve, style) in panel.curves.iter().zip(styles).rev() {
        draw_curve(out, &frame, &curve.points, style);
    }
    for (number, mark) in panel.marks.iter().enumerate() {
        draw_mark(out, &frame, number, mark);
    }
}

fn draw_axes(out: &mut String, frame: &Frame, panel: &Panel) {
    for quarter in 0..=4 {
        let ratio = f64::from(quarter) / 4.0;
        let (y, right, left) = (Frame::y(ratio), WIDTH - RIGHT, LEFT - 8.0);
        writeln!(
            out,
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{ratio}</text>",
            y + 4.0
        )
        .expect(FINE);
    }
    let bottom = HEIGHT - BOTTOM;
    for size in labels(frame.first, frame.last) {
        let text = if panel.is_in_bytes { show_size(size) } else { size.to_string() };
        let x = frame.x(size as f64);
        writeln!(
            out,
            "<path d=\"M{x:.1} {bottom}v5\" stroke=\"#999\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            bottom + 18.0
        )
        .expect(FINE);
    }
    let unit = if panel.is_in_bytes { "bytes" } else { "objects" };
    let (middle, y) = (f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 38.0);
    let size_title = panel.size_title;
    writeln!(
        out,
        "<text x=\"{middle}\" y=\"{y}\" text-anchor=\"middle\">{size_title} ({unit}, logarithmic scale)</text>"
    )
    .expect(FINE);
    let of = |is_of_bytes: bool| panel.curves.iter().any(|it| it.is_of_bytes == is_of_bytes);
    let what = match (of(false), of(true)) {
        (true, true) => "misses per get, or missed bytes per byte",
        (false, true) => "missed bytes per byte",
        _ => "misses per get",
    };
    let y = f64::midpoint(TOP, bottom);
    writeln!(
        out,
        "<text transform=\"translate(20 {y}) rotate(-90)\" text-anchor=\"middle\">Miss ratio ({what})</text>"
    )
    .expect(FINE);
}

fn draw_curve(out: &mut String, frame: &Frame, points: &[(u64, f64)], style: &Style) {
    // The miss ratio is constant up to the size of the next point; before the first all miss.
    let at_left = points.iter().rfind(|(size, _)| *size as f64 <= frame.first);
    let mut path = format!("M{LEFT} {:.1}", Frame::y(at_left.map_or(1.0, |(_, ratio)| *ratio)));
    for (size, ratio) in points.iter().filter(|(size, _)| *size as f64 > frame.first) {
        write!(path, "H{:.1}V{:.1}", frame.x(*size as f64), Frame::y(*ratio)).expect(FINE);
    }
    let (end, stroke) = (WIDTH - RIGHT, style.stroke());
    writeln!(out, "<path d=\"{path}H{end}\" {stroke}/>").expect(FINE);
    let dots = if points.len() <= DOTS_MAX { points } else { &[] };
    for (size, ratio) in dots.iter().filter(|(size, _)| *size as f64 > frame.first) {
        let (x, y, colour) = (frame.x(*size as f64), Frame::y(*ratio), style.colour);
        writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")
            .expect(FINE);
    }
}

/// A line from top to bottom with its label; each label is a little lower than the previous one.
fn draw_mark(out: &mut String, frame: &Frame, number: usize, mark: &Mark) {
    let (x, bottom, colour) = (frame.x(mark.size as f64), HEIGHT - BOTTOM, mark.colour);
    let dashes = if mark.is_compared { " stroke-dasharray=\"4 4\" opacity=\"0.6\"" } else { "" };
    let (beside, anchor) = if x > WIDTH / 2.0 { (x - 6.0, "end") } else { (x + 6.0, "start") };
    let (y, text) = (TOP + 14.0 + 16.0 * number as f64, escaped(&mark.text));
    writeln!(
        out,
        "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"{colour}\"{dashes}/>\
         <text x=\"{beside:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\" stroke=\"#fff\" \
         stroke-width=\"4\" paint-order=\"stroke\">{text}</text>"
    )
    .expect(FINE);
}

/// Text with the escapes of XML, without the characters that XML does not allow.
fn escaped(text: &str) -> String {
    let text = text.replace(char::is_control, "\u{fffd}");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Powers of two for the size labels, at most about [`LABELS_MAX`].
fn labels(first: f64, last: f64) -> impl Iterator<Item = u64> {
    let (from, to) = (first.log2().ceil() as u32, last.log2().floor() as u32);
    let step = (to.saturating_sub(from) / LABELS_MAX + 1) as usize;
    (from..=to.min(63)).step_by(step).map(|power| 1 << power)
}

#[cfg(test)]
mod tests;
