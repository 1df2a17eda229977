//! A picture of a miss-ratio curve: an SVG that stands alone.

use std::fmt::Write;

use crate::curve_file::{BYTES, CurveFile};
use crate::quantity::show_size;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 48.0;
/// Labels of sizes, at most.
const LABELS_MAX: u32 = 8;
/// Writing to a string does not fail.
const FINE: &str = "a string takes everything";

/// Where sizes and ratios are in the picture; sizes by their logarithm.
struct Frame {
    first: f64,
    last: f64,
}

impl Frame {
    fn x(&self, size: f64) -> f64 {
        let part = (size.max(self.first) / self.first).ln() / (self.last / self.first).ln();
        LEFT + part.min(1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(miss_ratio: f64) -> f64 {
        TOP + (1.0 - miss_ratio) * (HEIGHT - TOP - BOTTOM)
    }
}

/// The picture.
pub fn draw(file: &CurveFile) -> String {
    let sizes = || file.points.iter().map(|(size, _)| *size as f64).filter(|size| *size > 0.0);
    let first = sizes().next().unwrap_or(1.0);
    let last = sizes().next_back().unwrap_or(1.0).max(first * 2.0);
    let frame = Frame { first, last };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">Misses of {:.0} requests, by the size of the \
         cache</text>\n",
        file.requests
    );
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
    for size in labels(first, last) {
        let text = if file.unit == BYTES { show_size(size) } else { size.to_string() };
        let (x, y) = (frame.x(size as f64), HEIGHT - BOTTOM + 20.0);
        writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>")
            .expect(FINE);
    }
    let mut path = String::new();
    for (number, (size, ratio)) in file.points.iter().enumerate() {
        let (x, y) = (frame.x(*size as f64), Frame::y(*ratio));
        // A cache misses as much until it is as large as the next point.
        match number {
            0 => write!(path, "M{LEFT} {y:.1}"),
            _ => write!(path, "H{x:.1}V{y:.1}"),
        }
        .expect(FINE);
    }
    let end = WIDTH - RIGHT;
    writeln!(
        out,
        "<path d=\"{path}H{end}\" fill=\"none\" stroke=\"#1668a8\" stroke-width=\"2\"/>\n</svg>"
    )
    .expect(FINE);
    out
}

/// Powers of two to be named, not too many.
fn labels(first: f64, last: f64) -> impl Iterator<Item = u64> {
    let (from, to) = (first.log2().ceil() as u32, last.log2().floor() as u32);
    let step = (to.saturating_sub(from) / LABELS_MAX + 1) as usize;
    (from..=to.min(63)).step_by(step).map(|power| 1 << power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_where_they_belong() {
        let points = vec![(0, 1.0), (1 << 20, 0.5), (1 << 24, 0.25)];
        let unit = BYTES.to_owned();
        let file = CurveFile {
            unit,
            requests: 1e6,
            seconds: None,
            object_bytes: None,
            sampled: None,
            points,
        };
        let picture = draw(&file);
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        // The first size is at the left, the last at the right, and ratios fall downwards.
        assert!(picture.contains("d=\"M60 36.0H60.0V194.0H700.0V273.0H700\""), "{picture}");
        for text in ["1000000 requests", ">1 MiB<", ">16 MiB<", ">0.75<"] {
            assert!(picture.contains(text), "{text} is not in {picture}");
        }
        for points in [vec![], vec![(0, 1.0)], vec![(0, 1.0), (u64::MAX, 0.0)]] {
            let picture = draw(&CurveFile { points, ..file.clone() });
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        }
    }
}
