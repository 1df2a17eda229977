//! Files with a miss-ratio curve: the output of `profile` and the input of `plan`.
//!
//! JSON with statistics of the requests, or CSV: a line `size,miss_ratio`, then one line per
//! point. Sizes are in bytes, or in objects if the first word is `objects`. More columns may
//! follow: `standard_error` and `size_error`, the standard errors of a sample's miss ratio and of the
//! size that has it, for which `plan` leaves a margin; and `byte_miss_ratio`, the missed part of the
//! requested bytes, which `plan` ignores.

use serde::{Deserialize, Serialize};
use tidekv_plan::{Curve, ErrorBars, Point};

use crate::failure::{Failure, Result};

/// Unit of sizes in bytes.
pub const BYTES: &str = "bytes";
/// Unit of sizes in objects.
pub const OBJECTS: &str = "objects";
/// The first lines of curves in CSV, by their units.
const HEADERS: [(&str, &str); 2] = [(BYTES, "size,miss_ratio"), (OBJECTS, "objects,miss_ratio")];
/// The optional columns behind them, in this order.
const STANDARD_ERROR: &str = "standard_error";
const SIZE_ERROR: &str = "size_error";
const BYTE_MISSES: &str = "byte_miss_ratio";

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
    /// At the same sizes, the standard errors of the miss ratios, if they are estimates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_errors: Option<Vec<f64>>,
    /// At the same sizes, the standard errors of the least sizes with these miss ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_errors: Option<Vec<f64>>,
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
            standard_errors: None,
            size_errors: None,
            byte_miss_ratios: None,
        }
    }

    /// The same file with byte miss ratios.
    pub fn with_bytes(self, curve: &Curve) -> Self {
        let ratios = self.points.iter().map(|(size, _)| curve.miss_ratio(*size)).collect();
        Self { byte_miss_ratios: Some(ratios), ..self }
    }

    /// The same file with standard errors, if there are any.
    pub fn with_errors(mut self, bars: Option<&ErrorBars>) -> Self {
        if let Some(bars) = bars {
            let points = self.points.iter();
            let errors = points.map(|&(size, miss_ratio)| bars.of(Point { size, miss_ratio }));
            let (of_ratios, of_sizes) = errors.unzip();
            (self.standard_errors, self.size_errors) = (Some(of_ratios), Some(of_sizes));
        }
        self
    }

    /// Whether its miss ratios are estimates with known errors.
    pub fn has_errors(&self) -> bool {
        self.standard_errors.is_some() || self.size_errors.is_some()
    }

    /// The curve.
    ///
    /// # Errors
    /// Invalid points.
    pub fn curve(&self) -> std::result::Result<Curve, String> {
        let points = self.points.iter().map(|&(size, miss_ratio)| Point { size, miss_ratio });
        Curve::new(points, self.requests).map_err(|error| error.to_string())
    }

    /// The curve with a margin of this many standard errors ([`Curve::with_margin`]); the curve itself
    /// if its errors are unknown.
    ///
    /// # Errors
    /// Invalid points.
    pub fn curve_with_margin(&self, margin: f64) -> std::result::Result<Curve, String> {
        let curve = self.curve()?;
        let columns = [&self.standard_errors, &self.size_errors];
        for column in columns.into_iter().flatten() {
            let is_valid = |error: &f64| error.is_finite() && *error >= 0.0;
            if column.len() != self.points.len() || !column.iter().all(is_valid) {
                return Err("the errors are not one number of at least 0 per point".into());
            }
        }
        let error_of = |point: Point| {
            let at = self.points.partition_point(|it| it.0 < point.size);
            let error = |column: &Option<Vec<f64>>| {
                column.as_ref().and_then(|column| column.get(at)).copied().unwrap_or_default()
            };
            (error(&self.standard_errors), error(&self.size_errors))
        };
        Ok(curve.with_margin(margin, error_of))
    }

    /// As CSV.
    pub fn to_csv(&self) -> String {
        let columns = [
            (STANDARD_ERROR, &self.standard_errors),
            (SIZE_ERROR, &self.size_errors),
            (BYTE_MISSES, &self.byte_miss_ratios),
        ];
        let columns: Vec<_> = columns
            .into_iter()
            .filter_map(|(name, column)| Some((name, column.as_ref()?)))
            .collect();
        let header = HEADERS.iter().find(|(unit, _)| *unit == self.unit).unwrap_or(&HEADERS[0]).1;
        let mut text = header.to_owned();
        columns.iter().for_each(|(name, _)| text += &format!(",{name}"));
        text.push('\n');
        for (at, (size, miss_ratio)) in self.points.iter().enumerate() {
            text += &format!("{size},{miss_ratio:.6}");
            for (_, column) in &columns {
                text += &format!(",{:.6}", column.get(at).copied().unwrap_or_default());
            }
            text.push('\n');
        }
        text
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
        let header = HEADERS.iter().find_map(|(unit, header)| {
            let columns = first.strip_prefix(header)?;
            (columns.is_empty() || columns.starts_with(',')).then_some((unit, columns))
        });
        let Some((unit, columns)) = header else {
            return Err(Failure::new(format!("line 1 must be `{}`", HEADERS[0].1)));
        };
        let mut file = Self::empty(unit);
        let names: Vec<&str> = columns.split(',').skip(1).collect();
        for name in &names {
            match *name {
                STANDARD_ERROR => file.standard_errors = Some(Vec::new()),
                SIZE_ERROR => file.size_errors = Some(Vec::new()),
                BYTE_MISSES => file.byte_miss_ratios = Some(Vec::new()),
                name => return Err(Failure::new(format!("line 1: unknown column {name:?}"))),
            }
        }
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let broken =
                || Failure::new(format!("line {number} does not have the columns of line 1"));
            let number_of = |text: &str| text.trim().parse::<f64>().map_err(|_| broken());
            let fields: Vec<&str> = line.split(',').collect();
            let [size, miss_ratio, others @ ..] = &fields[..] else { return Err(broken()) };
            if others.len() != names.len() {
                return Err(broken());
            }
            let size = size.trim().parse().map_err(|_| broken())?;
            file.points.push((size, number_of(miss_ratio)?));
            for (name, field) in names.iter().zip(others) {
                let column = match *name {
                    STANDARD_ERROR => &mut file.standard_errors,
                    SIZE_ERROR => &mut file.size_errors,
                    _ => &mut file.byte_miss_ratios,
                };
                column.get_or_insert_default().push(number_of(field)?);
            }
        }
        Ok(file)
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
    fn a_margin_raises_miss_ratios_by_their_errors() {
        let text = "size,miss_ratio,standard_error\n100,0.9,0.08\n200,0.5,0.01\n300,0.48,0.03\n";
        let file = CurveFile::read(text).unwrap();
        assert_eq!(
            file.to_csv(),
            text.replace("0.9,0.08", "0.900000,0.080000")
                .replace("0.5,0.01", "0.500000,0.010000")
                .replace("0.48,0.03", "0.480000,0.030000")
        );
        let at = |margin: f64| {
            let curve = file.curve_with_margin(margin).unwrap();
            [100, 200, 300].map(|size| (curve.miss_ratio(size) * 1000.0).round() / 1000.0)
        };
        assert_eq!(
            (at(0.0), at(1.0), at(2.0)),
            ([0.9, 0.5, 0.48], [0.98, 0.51, 0.51], [1.0, 0.54, 0.54])
        );
        let text = "size,miss_ratio,size_error\n100,0.9,0\n200,0.5,20\n";
        let shifted = CurveFile::read(text).unwrap().curve_with_margin(2.0).unwrap();
        assert_eq!([200, 239, 240].map(|size| shifted.miss_ratio(size)), [0.9, 0.9, 0.5]);
        let plain = CurveFile::read("size,miss_ratio\n100,0.9").unwrap();
        assert_eq!(plain.curve_with_margin(2.0).unwrap(), plain.curve().unwrap());
        for errors in ["[0.1]", "[0.1,-1.0]"] {
            let text = format!(
                "{{\"unit\":\"bytes\",\"requests\":1.0,\"points\":[[0,1.0],[1,0.5]],\"standard_errors\":{errors}}}"
            );
            assert!(CurveFile::read(&text).unwrap().curve_with_margin(1.0).is_err());
        }
    }

    #[test]
    fn errors_name_the_line_that_is_not_part_of_a_curve() {
        for (text, what) in [
            ("", "line 1"),
            ("size,miss_ratio\n100,0.5\n200", "line 3"),
            ("size,miss_ratio\nx,0.5", "line 2"),
            ("size,miss_ratio\n1,0.5,0.5", "line 2"),
            ("size,miss_ratio,byte_miss_ratio\n1,0.5", "line 2"),
            ("size,miss_ratio,what\n1,0.5,1", "what"),
            ("size,miss_ratios\n1,0.5", "line 1"),
            ("{\"unit\":\"bytes\"}", "requests"),
        ] {
            let failure = CurveFile::read(text).unwrap_err();
            assert!(failure.message.contains(what), "{}", failure.message);
        }
        let file = CurveFile::read("size,miss_ratio\n100,0.5\n200,0.6").unwrap();
        assert!(file.curve().is_err());
    }
}
