//! Files with a miss-ratio curve: the output of `profile` and the input of `plan`.
//!
//! JSON with statistics of the requests, or CSV: a line `size,miss_ratio`, then one line per
//! point. Sizes are in bytes, or in objects if the first word is `objects`. An optional third column, `byte_miss_ratio`, is
//! the missed part of the requested bytes; `plan` ignores it.

use serde::{Deserialize, Serialize};
use tidekv_plan::{Curve, Point};

use crate::failure::{Failure, Result};

/// Unit of sizes in bytes.
pub const BYTES: &str = "bytes";
/// Unit of sizes in objects.
pub const OBJECTS: &str = "objects";
/// The first lines of curves in CSV, by their units.
const HEADERS: [(&str, &str); 2] = [(BYTES, "size,miss_ratio"), (OBJECTS, "objects,miss_ratio")];
/// The optional last column.
const BYTE_MISSES: &str = ",byte_miss_ratio";

/// A curve, and statistics of its requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurveFile {
    /// The unit of sizes: [`BYTES`] or [`OBJECTS`].
    pub unit: String,
    /// Gets of the trace.
    pub requests: f64,
    /// Seconds from the first to the last of them, if the trace has timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The mean size of a requested or stored object, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_bytes: Option<f64>,
    /// The sampled fraction of the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<f64>,
    /// Sizes and miss ratios.
    pub points: Vec<(u64, f64)>,
    /// At the same sizes, the missed part of the requested bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_miss_ratios: Option<Vec<f64>>,
}

impl CurveFile {
    /// A file of a curve without further statistics.
    pub fn of(curve: &Curve, unit: &str) -> Self {
        let points = curve.points().iter().map(|point| (point.size, point.miss_ratio)).collect();
        let requests = curve.requests();
        Self { points, requests, ..Self::empty(unit) }
    }

    fn empty(unit: &str) -> Self {
        Self {
            unit: unit.to_owned(),
            requests: 1.0,
            seconds: None,
            object_bytes: None,
            sampled: None,
            points: Vec::new(),
            byte_miss_ratios: None,
        }
    }

    /// The same file with byte miss ratios.
    pub fn with_bytes(self, curve: &Curve) -> Self {
        let ratios = self.points.iter().map(|(size, _)| curve.miss_ratio(*size)).collect();
        Self { byte_miss_ratios: Some(ratios), ..self }
    }

    /// The curve.
    ///
    /// # Errors
    /// Invalid points.
    pub fn curve(&self) -> std::result::Result<Curve, String> {
        let points = self.points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
        Curve::new(points, self.requests).map_err(|error| error.to_string())
    }

    /// As CSV.
    pub fn to_csv(&self) -> String {
        let mut bytes = self.byte_miss_ratios.iter().flatten();
        let lines = self.points.iter().map(|(size, miss_ratio)| {
            let of_bytes = bytes.next().map_or(String::new(), |ratio| format!(",{ratio:.6}"));
            format!("{size},{miss_ratio:.6}{of_bytes}\n")
        });
        let header = HEADERS.iter().find(|(unit, _)| *unit == self.unit).unwrap_or(&HEADERS[0]).1;
        let of_bytes = if self.byte_miss_ratios.is_some() { BYTE_MISSES } else { "" };
        format!("{header}{of_bytes}\n{}", lines.collect::<String>())
    }

    /// Reads either format.
    ///
    /// # Errors
    /// Text in neither format, with the line number.
    pub fn read(text: &str) -> Result<Self> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|error| Failure::new(error.to_string()));
        }
        let mut lines = (1..).zip(text.lines().map(str::trim));
        let first = lines.next().map_or("", |(_, line)| line);
        let of_requests = first.strip_suffix(BYTE_MISSES).unwrap_or(first);
        let Some((unit, _)) = HEADERS.iter().find(|(_, header)| *header == of_requests) else {
            return Err(Failure::new(format!("line 1 must be `{}`", HEADERS[0].1)));
        };
        let mut file = Self::empty(unit);
        let mut byte_miss_ratios = (of_requests != first).then(Vec::new);
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let broken =
                || Failure::new(format!("line {number} does not have the columns of line 1"));
            let (size, ratios) = line.split_once(',').ok_or_else(broken)?;
            let (ratio, bytes) = match &byte_miss_ratios {
                Some(_) => ratios.split_once(',').ok_or_else(broken)?,
                None => (ratios, ""),
            };
            let number_of = |text: &str| text.trim().parse::<f64>().map_err(|_| broken());
            let size = size.trim().parse().map_err(|_| broken())?;
            file.points.push((size, number_of(ratio)?));
            if let Some(all) = &mut byte_miss_ratios {
                all.push(number_of(bytes)?);
            }
        }
        Ok(Self { byte_miss_ratios, ..file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_files_are_read_back() {
        let curve = Curve::new([Point { size: 100, miss_ratio: 0.5 }], 7.0).unwrap();
        let file = CurveFile { seconds: Some(2.5), ..CurveFile::of(&curve, BYTES) };
        let json = serde_json::to_string(&file).unwrap();
        assert_eq!(CurveFile::read(&json).unwrap(), file);
        assert_eq!(file.curve().unwrap(), curve);
        let csv = CurveFile::read(&file.to_csv()).unwrap();
        assert_eq!((csv.points, csv.requests), (vec![(0, 1.0), (100, 0.5)], 1.0));
        let objects = CurveFile { unit: OBJECTS.to_owned(), ..file };
        assert_eq!(CurveFile::read(&objects.to_csv()).unwrap().unit, OBJECTS);
        let of_bytes = Curve::new([Point { size: 90, miss_ratio: 0.25 }], 7.0).unwrap();
        let both = CurveFile::of(&curve, BYTES).with_bytes(&of_bytes);
        assert_eq!(both.byte_miss_ratios, Some(vec![1.0, 0.25]));
        assert_eq!(CurveFile::read(&serde_json::to_string(&both).unwrap()).unwrap(), both);
        assert_eq!(
            both.to_csv(),
            "size,miss_ratio,byte_miss_ratio\n0,1.000000,1.000000\n100,0.500000,0.250000\n"
        );
        let read = CurveFile::read(&both.to_csv()).unwrap();
        assert_eq!((read.points, read.byte_miss_ratios), (both.points, both.byte_miss_ratios));
    }

    #[test]
    fn errors_name_the_line_that_is_not_part_of_a_curve() {
        for (text, what) in [
            ("", "line 1"),
            ("size,miss_ratio\n100,0.5\n200", "line 3"),
            ("size,miss_ratio\nx,0.5", "line 2"),
            ("size,miss_ratio\n1,0.5,0.5", "line 2"),
            ("size,miss_ratio,byte_miss_ratio\n1,0.5", "line 2"),
            ("{\"unit\":\"bytes\"}", "requests"),
        ] {
            let failure = CurveFile::read(text).unwrap_err();
            assert!(failure.message.contains(what), "{}", failure.message);
        }
        let file = CurveFile::read("size,miss_ratio\n100,0.5\n200,0.6").unwrap();
        assert!(file.curve().is_err());
    }
}
