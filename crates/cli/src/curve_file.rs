//! Files with a miss-ratio curve: what `profile` writes and `plan` reads.
//!
//! As JSON with all that is known of the requests, or as CSV: a line `size,miss_ratio`, then one for
//! each point. Sizes are in bytes, or in objects where the first word is `objects`.

use serde::{Deserialize, Serialize};
use tidekv_plan::{Curve, Point};

use crate::failure::{Failure, Result};

/// Unit of sizes in bytes.
pub const BYTES: &str = "bytes";
/// Unit of sizes in objects.
pub const OBJECTS: &str = "objects";
/// The first lines of curves in CSV, by their units.
const HEADERS: [(&str, &str); 2] = [(BYTES, "size,miss_ratio"), (OBJECTS, "objects,miss_ratio")];

/// A curve, and what is known of its requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveFile {
    /// In what sizes are: [`BYTES`] or [`OBJECTS`].
    pub unit: String,
    /// Gets of the trace.
    pub requests: f64,
    /// From the first to the last of them, where the trace has times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The mean size of an object that was asked for or stored, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_bytes: Option<f64>,
    /// How many of the keys were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<f64>,
    /// Sizes and miss ratios.
    pub points: Vec<(u64, f64)>,
}

impl CurveFile {
    /// One of a curve of which nothing else is known.
    pub fn of(curve: &Curve, unit: &str) -> Self {
        let points = curve.points().iter().map(|point| (point.size, point.miss_ratio)).collect();
        let (seconds, object_bytes, sampled) = (None, None, None);
        let requests = curve.requests();
        Self { unit: unit.to_owned(), requests, seconds, object_bytes, sampled, points }
    }

    /// The curve.
    ///
    /// # Errors
    /// Points that are none.
    pub fn curve(&self) -> std::result::Result<Curve, String> {
        let points = self.points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
        Curve::new(points, self.requests).map_err(|error| error.to_string())
    }

    /// As CSV.
    pub fn to_csv(&self) -> String {
        let lines =
            self.points.iter().map(|(size, miss_ratio)| format!("{size},{miss_ratio:.6}\n"));
        let header = HEADERS.iter().find(|(unit, _)| *unit == self.unit).unwrap_or(&HEADERS[0]).1;
        format!("{header}\n{}", lines.collect::<String>())
    }

    /// Reads either form.
    ///
    /// # Errors
    /// What is neither, with its line.
    pub fn read(text: &str) -> Result<Self> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|error| Failure::new(error.to_string()));
        }
        let mut lines = (1..).zip(text.lines().map(str::trim));
        let first = lines.next().map_or("", |(_, line)| line);
        let Some((unit, _)) = HEADERS.iter().find(|(_, header)| *header == first) else {
            return Err(Failure::new(format!("line 1 is not `{}`", HEADERS[0].1)));
        };
        let point = |(number, line): (usize, &str)| {
            let parsed = line.split_once(',').and_then(|(size, ratio)| {
                Some((size.trim().parse().ok()?, ratio.trim().parse().ok()?))
            });
            parsed.ok_or_else(|| Failure::new(format!("line {number} is no size and ratio")))
        };
        let points = lines.filter(|(_, line)| !line.is_empty()).map(point);
        let points = points.collect::<Result<Vec<(u64, f64)>>>()?;
        let (unit, requests) = ((*unit).to_owned(), 1.0);
        Ok(Self { unit, requests, seconds: None, object_bytes: None, sampled: None, points })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let curve = Curve::new([Point { size: 100, miss_ratio: 0.5 }], 7.0).unwrap();
        let file = CurveFile { seconds: Some(2.5), ..CurveFile::of(&curve, BYTES) };
        let json = serde_json::to_string(&file).unwrap();
        assert_eq!(CurveFile::read(&json).unwrap(), file);
        assert_eq!(file.curve().unwrap(), curve);
        let csv = CurveFile::read(&file.to_csv()).unwrap();
        assert_eq!((csv.points, csv.requests), (vec![(0, 1.0), (100, 0.5)], 1.0));
        let objects = CurveFile { unit: OBJECTS.to_owned(), ..file };
        assert_eq!(CurveFile::read(&objects.to_csv()).unwrap().unit, OBJECTS);
    }

    #[test]
    fn what_is_no_curve_says_where() {
        for (text, what) in [
            ("", "line 1"),
            ("size,miss_ratio\n100,0.5\n200", "line 3"),
            ("size,miss_ratio\nx,0.5", "line 2"),
            ("{\"unit\":\"bytes\"}", "requests"),
        ] {
            let failure = CurveFile::read(text).unwrap_err();
            assert!(failure.message.contains(what), "{}", failure.message);
        }
        let file = CurveFile::read("size,miss_ratio\n100,0.5\n200,0.6").unwrap();
        assert!(file.curve().is_err());
    }
}
