//! Pictures of miss-ratio curves and of the sizes of a plan: a standalone SVG.

use std::fmt::Write;

use crate::curve_file::{BYTES, CurveFile};
use crate::quantity::show_size;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 48.0;
/// Maximum number of size labels.
const LABELS_MAX: u32 = 8;
/// Writing to a string does not fail.
const FINE: &str = "a write to a string succeeds";

/// The style of a curve, and its label at the right if there are two.
struct Line {
    colour: &'static str,
    dashes: &'static str,
    label: &'static str,
    label_y: f64,
}

const REQUESTS_LINE: Line =
    Line { colour: "#1668a8", dashes: "", label: "of requests", label_y: TOP + 14.0 };
const BYTES_LINE: Line = Line {
    colour: "#a85c16",
    dashes: " stroke-dasharray=\"6 3\"",
    label: "of bytes",
    label_y: TOP + 30.0,
};

/// A marked size in a curve.
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

/// A curve in a separate frame.
#[derive(Debug, Clone)]
pub struct Panel<'c> {
    /// The title above it.
    pub title: String,
    /// The curve: sizes and miss ratios.
    pub points: &'c [(u64, f64)],
    /// Byte miss ratios at the same sizes; empty if unknown.
    pub byte_miss_ratios: &'c [f64],
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

impl Frame {
    /// For all sizes of a panel.
    fn of(panel: &Panel<'_>) -> Self {
        let marks = panel.marks.iter().map(|mark| mark.size);
        let sizes = panel.points.iter().map(|(size, _)| *size).chain(marks);
        let sizes = sizes.filter(|size| *size > 0).map(|size| size as f64);
        let first = sizes.clone().fold(f64::INFINITY, f64::min);
        let first = if first.is_finite() { first } else { 1.0 };
        Self { first, last: sizes.fold(first * 2.0, f64::max) }
    }

    fn x(&self, size: f64) -> f64 {
        let part = (size.max(self.first) / self.first).ln() / (self.last / self.first).ln();
        LEFT + part.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(miss_ratio: f64) -> f64 {
        TOP + (1.0 - miss_ratio) * (HEIGHT - TOP - BOTTOM)
    }
}

/// The picture of a profile.
pub fn of_file(file: &CurveFile) -> String {
    let title = format!("Miss ratio of {:.0} requests by cache size", file.requests);
    let is_in_bytes = file.unit == BYTES;
    let byte_miss_ratios = file.byte_miss_ratios.as_deref().unwrap_or_default();
    let points = &file.points;
    draw(&[Panel { title, points, byte_miss_ratios, is_in_bytes, marks: Vec::new() }])
}

/// Panels, one below another.
pub fn draw(panels: &[Panel<'_>]) -> String {
    let height = HEIGHT * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (number, panel) in panels.iter().enumerate() {
        let down = HEIGHT * number as f64;
        writeln!(out, "<g transform=\"translate(0 {down})\">").expect(FINE);
        draw_panel(&mut out, panel);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn draw_panel(out: &mut String, panel: &Panel<'_>) {
    let frame = Frame::of(panel);
    let title = escaped(&panel.title);
    writeln!(out, "<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}</text>").expect(FINE);
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
    for size in labels(frame.first, frame.last) {
        let text = if panel.is_in_bytes { show_size(size) } else { size.to_string() };
        let (x, y) = (frame.x(size as f64), HEIGHT - BOTTOM + 20.0);
        writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>")
            .expect(FINE);
    }
    let of_bytes = panel.points.iter().zip(panel.byte_miss_ratios);
    if !panel.byte_miss_ratios.is_empty() {
        draw_curve(out, &frame, of_bytes.map(|((size, _), ratio)| (*size, *ratio)), &BYTES_LINE);
        for line in [&REQUESTS_LINE, &BYTES_LINE] {
            let (x, y) = (WIDTH - RIGHT, line.label_y);
            let Line { colour, label, .. } = line;
            writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" fill=\"{colour}\">{label}</text>"
            )
            .expect(FINE);
        }
    }
    draw_curve(out, &frame, panel.points.iter().copied(), &REQUESTS_LINE);
    for (number, mark) in panel.marks.iter().enumerate() {
        draw_mark(out, &frame, number, mark);
    }
}

fn draw_curve(
    out: &mut String,
    frame: &Frame,
    points: impl Iterator<Item = (u64, f64)>,
    line: &Line,
) {
    let mut path = String::new();
    for (number, (size, ratio)) in points.enumerate() {
        let (x, y) = (frame.x(size as f64), Frame::y(ratio));
        // The miss ratio is constant up to the size of the next point.
        match number {
            0 => write!(path, "M{LEFT} {y:.1}"),
            _ => write!(path, "H{x:.1}V{y:.1}"),
        }
        .expect(FINE);
    }
    let (end, Line { colour, dashes, .. }) = (WIDTH - RIGHT, line);
    writeln!(
        out,
        "<path d=\"{path}H{end}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>"
    )
    .expect(FINE);
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
         <text x=\"{beside:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
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
mod tests {
    use super::*;

    #[test]
    fn points_have_the_coordinates_of_their_sizes_and_ratios() {
        let points = vec![(0, 1.0), (1 << 20, 0.5), (1 << 24, 0.25)];
        let unit = BYTES.to_owned();
        let file = CurveFile {
            unit,
            requests: 1e6,
            seconds: None,
            object_bytes: None,
            sampled: None,
            points,
            standard_errors: None,
            size_errors: None,
            byte_miss_ratios: None,
        };
        let picture = of_file(&file);
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        // The first size is at the left, the last at the right, and ratios fall downwards.
        assert!(picture.contains("d=\"M60 36.0H60.0V194.0H700.0V273.0H700\""), "{picture}");
        for text in ["1000000 requests", ">1 MiB<", ">16 MiB<", ">0.75<"] {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
        assert!(!picture.contains("of bytes"));
        // Half the ratio for bytes.
        let byte_miss_ratios = Some(vec![1.0, 0.25, 0.125]);
        let both = of_file(&CurveFile { byte_miss_ratios, ..file.clone() });
        for text in [
            "d=\"M60 36.0H60.0V194.0H700.0V273.0H700\"",
            "d=\"M60 36.0H60.0V273.0H700.0V312.5H700\"",
            ">of bytes<",
            ">of requests<",
        ] {
            assert!(both.contains(text), "{text} is not in {both}");
        }
        for points in [vec![], vec![(0, 1.0)], vec![(0, 1.0), (u64::MAX, 0.0)]] {
            let picture = of_file(&CurveFile { points, ..file.clone() });
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        }
    }

    #[test]
    fn marks_have_the_coordinates_of_their_sizes_and_labels_are_escaped() {
        let mark = |size, text: &str, is_compared| {
            let colour = if is_compared { "#1b7a3d" } else { "#b3261e" };
            Mark { size, text: text.to_owned(), colour, is_compared }
        };
        let points = [(0, 1.0), (1 << 20, 0.5), (1 << 24, 0.25)];
        let panel = |marks| Panel {
            title: "a<b & c\u{1b}".to_owned(),
            points: &points,
            byte_miss_ratios: &[],
            is_in_bytes: true,
            marks,
        };
        let marks = vec![mark(1 << 20, "DRAM", false), mark(1 << 22, "1 > 4", true)];
        let picture = draw(&[panel(marks), panel(vec![mark(1 << 28, "far", false)])]);
        // The first size is at the left, and half of four doublings is in the middle of 640.
        for text in [
            "viewBox=\"0 0 720 800\"",
            "<g transform=\"translate(0 400)\">",
            "a&lt;b &amp; c\u{fffd}",
            "M60.0 36V352\" stroke=\"#b3261e\"/>",
            "M380.0 36V352\" stroke=\"#1b7a3d\" stroke-dasharray",
            ">1 &gt; 4</text>",
            // A mark beyond the last point extends the axis.
            "M700.0 36V352\" stroke=\"#b3261e\"/><text x=\"694.0\" y=\"50.0\" text-anchor=\"end\"",
        ] {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
        // Marks without points, and an empty panel.
        for panel in [
            Panel { points: &[], ..panel(vec![mark(7, "x", false)]) },
            panel(vec![mark(0, "x", false)]),
        ] {
            let picture = draw(&[panel]);
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        }
    }
}
