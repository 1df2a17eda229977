//! A sweep: every combination of several values of several parameters, for some subjects.
//!
//! ```text
//! --vary cache_size=2%..110%   --vary zipf=0,0.5..1.0/6   --vary pinning=none,all
//! ```
//!
//! A parameter belongs to the load (see [`AXES`]) or is one of a subject's choices. Its values are
//! separated by commas; `a..b` means ten values in equal steps, including both ends, `a..b/n` means
//! n values.

use crate::experiment::{Experiment, Point, Subjects};
use crate::experiments::catalogue;
use crate::experiments::scenario::Scenario;
use crate::failure::{Failure, Result};
use crate::load::workload::Kind;
use crate::subject::SubjectRecord;

/// The default number of values of a range.
const RANGE_VALUES: u32 = 10;

/// The maximum number of cells, which a machine can measure in a day.
const CELLS_MAX: usize = 100_000;

/// The name in rows.
pub(crate) const SWEEP: Experiment = Experiment {
    name: "sweep",
    about: "every combination of the given values",
    subjects: Subjects::Default,
    ..Experiment::USUAL
};

/// A parameter of the load.
struct Axis {
    name: &'static str,
    about: &'static str,
    /// Sets a value in a scenario; `false`: invalid value.
    set: fn(&mut Scenario, &str) -> bool,
}

/// The parameters of the load with their defaults, in the order in which they are set.
const AXES: &[Axis] = &[
    Axis {
        name: "zipf",
        about: "exponent of Zipf's law; 0: uniform keys (0.3)",
        set: |scenario, text| put(&mut scenario.zipf, not_below(text, 0.0)),
    },
    Axis {
        name: "entries",
        about: "number of entries of the store (1000000)",
        set: |scenario, text| put(&mut scenario.entries, above_zero(text)),
    },
    Axis {
        name: "value_bytes",
        about: "length of a value in bytes; keys have 8 (120)",
        set: |scenario, text| put(&mut scenario.value_bytes, above_zero(text)),
    },
    Axis {
        name: "operations",
        about: "counted operations, starting with an empty cache (1000000)",
        set: |scenario, text| put(&mut scenario.operations, above_zero(text)),
    },
    Axis {
        name: "threads",
        about: "client threads (8)",
        set: |scenario, text| {
            put(&mut scenario.threads, above_zero(text).filter(|threads| *threads <= 1024))
        },
    },
    Axis {
        name: "io",
        about: "direct, or buffered: through the kernel's page cache (direct)",
        set: |scenario, text| {
            let is_buffered = match text {
                "direct" => Some(false),
                "buffered" => Some(true),
                _ => None,
            };
            put(&mut scenario.is_buffered, is_buffered)
        },
    },
    Axis {
        name: "scan_percent",
        about: "percent of the operations that are scans of 100 entries (0)",
        set: |scenario, text| set_share(scenario, Kind::Scan, text),
    },
    Axis {
        name: "put_percent",
        about: "percent of the operations that are puts (0)",
        set: |scenario, text| set_share(scenario, Kind::Put, text),
    },
    Axis {
        name: "get-absent_percent",
        about: "percent of the operations that are gets of absent keys (0)",
        set: |scenario, text| set_share(scenario, Kind::GetAbsent, text),
    },
    // After the parameters that determine the size of the data.
    Axis {
        name: "cache_size",
        about: "size of the cache, in percent of the data (20%) or in bytes (64MiB) (20%)",
        set: |scenario, text| {
            let percent = cache_percent(text, scenario.data_bytes() as f64);
            put(&mut scenario.cache_percent, percent)
        },
    },
];

/// A varied parameter and its values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Varied {
    name: String,
    values: Vec<String>,
}

impl Varied {
    /// Parses `name=values`.
    ///
    /// # Errors
    /// Usage errors.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let wrong = || Failure::usage(format!("--vary {text:?} is not NAME=VALUE,...: {HOW}"));
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let mut all = Vec::new();
        for part in values.split(',') {
            match part.split_once("..") {
                Some((from, to)) => all.extend(range(from, to).ok_or_else(wrong)?),
                None if part.is_empty() => return Err(wrong()),
                None => all.push(part.to_owned()),
            }
        }
        let mut seen = Vec::new();
        all.retain(|value| {
            !seen.contains(value) && {
                seen.push(value.clone());
                true
            }
        });
        Ok(Self { name: name.to_owned(), values: all })
    }
}

const HOW: &str = "values are separated by commas, `a..b` stands for ten in equal steps, \
                   `a..b/n` for so many";

/// The values of `from..to`, where `to` may end with their number.
fn range(from: &str, to: &str) -> Option<Vec<String>> {
    let (to, count) = match to.split_once('/') {
        Some((to, count)) => (to, count.parse().ok().filter(|count| (2..=10_000).contains(count))?),
        None => (to, RANGE_VALUES),
    };
    let unit = if from.ends_with('%') || to.ends_with('%') { "%" } else { "" };
    let number = |text: &str| text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let (first, last) = (number(from)?, number(to)?);
    // Whole numbers remain whole if the range has enough of them, as for threads.
    let is_whole =
        first.fract() == 0.0 && last.fract() == 0.0 && (last - first).abs() >= f64::from(count - 1);
    let values = (0..count).map(|at| {
        let value = first + (last - first) * f64::from(at) / f64::from(count - 1);
        // Four significant digits are enough.
        let value = if is_whole { value.round() } else { format!("{value:.3e}").parse().ok()? };
        Some(format!("{value}{unit}"))
    });
    (first.is_finite() && last.is_finite()).then(|| values.collect())?
}

/// All combinations, the last parameter changing fastest.
///
/// # Errors
/// Usage errors, for an unknown parameter or value.
pub(crate) fn points(
    varied: &[Varied],
    subjects: &[SubjectRecord],
    usual: &Scenario,
) -> Result<Vec<Point>> {
    let cells: usize = varied.iter().map(|varied| varied.values.len()).product();
    if cells > CELLS_MAX {
        return Err(Failure::usage(format!(
            "{cells} cells are too many; the limit is {CELLS_MAX}"
        )));
    }
    for (at, one) in varied.iter().enumerate() {
        if varied[..at].iter().any(|other| other.name == one.name) {
            return Err(Failure::usage(format!("{} is varied twice", one.name)));
        }
        check(&one.name, subjects)?;
    }
    (0..cells).map(|cell| Ok(scenario(cell, varied, usual)?.point())).collect()
}

/// Whether all subjects have this parameter.
fn check(name: &str, subjects: &[SubjectRecord]) -> Result<()> {
    if AXES.iter().any(|axis| axis.name == name) {
        return Ok(());
    }
    let leaves_it = |record: &&SubjectRecord| record.choices.iter().any(|c| c.name == name);
    match subjects.iter().find(|record| !leaves_it(record)) {
        None => Ok(()),
        Some(record) => {
            let own = record.choices.iter().map(|choice| choice.name);
            let known: Vec<&str> = AXES.iter().map(|axis| axis.name).chain(own).collect();
            let Failure { message, .. } = catalogue::unknown("axis", name, &known);
            Err(Failure::usage(format!("{}: {message}", record.name)))
        }
    }
}

/// The cell with this number.
fn scenario(cell: usize, varied: &[Varied], usual: &Scenario) -> Result<Scenario> {
    let mut scenario = usual.clone();
    let (mut rest, mut values) = (cell, Vec::new());
    for varied in varied.iter().rev() {
        values.push((varied.name.as_str(), &varied.values[rest % varied.values.len()]));
        rest /= varied.values.len();
    }
    for axis in AXES {
        let Some((_, value)) = values.iter().find(|(name, _)| *name == axis.name) else { continue };
        if !(axis.set)(&mut scenario, value) {
            let Axis { name, about, .. } = axis;
            return Err(Failure::usage(format!("{name} cannot be {value:?}: {about}")));
        }
    }
    let is_choice = |name: &str| AXES.iter().all(|axis| axis.name != name);
    for (name, value) in values.into_iter().rev().filter(|(name, _)| is_choice(name)) {
        scenario = scenario.choosing(name, value);
    }
    if scenario.mix.iter().map(|(_, weight)| weight).sum::<u32>() > 100 {
        return Err(Failure::usage("the percentages of operations exceed 100 %"));
    }
    Ok(scenario)
}

/// The parameters of the load, one line each.
pub(crate) fn axes() -> String {
    let line = |axis: &Axis| format!("  {:<19} {}\n", axis.name, axis.about);
    AXES.iter().map(line).collect()
}

/// The size of a cache in percent of the data, from `20%` or `64MiB`.
pub(crate) fn cache_percent(text: &str, data_bytes: f64) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => not_below(percent, 0.0),
        None => bytes(text).map(|bytes| bytes as f64 * 100.0 / data_bytes),
    }
}

/// Sets a value, if present; whether it was.
fn put<T>(place: &mut T, value: Option<T>) -> bool {
    let is_there = value.is_some();
    if let Some(value) = value {
        *place = value;
    }
    is_there
}

fn not_below(text: &str, least: f64) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= least)
}

fn above_zero(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

fn set_share(scenario: &mut Scenario, kind: Kind, text: &str) -> bool {
    let percent = text.parse().ok().filter(|percent| *percent <= 100);
    percent.map(|percent: u32| scenario.mix.push((kind, percent))).is_some()
}

/// A number of bytes, as in `64MiB`.
fn bytes(text: &str) -> Option<u64> {
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::policy;
    use crate::scale::{Scale, Size};
    use crate::subjects::tidekv::TIDEKV;

    fn usual() -> Scenario {
        policy::usual(&Scale::new(Size::Usual))
    }

    fn values(text: &str) -> Vec<String> {
        Varied::read(text).unwrap().values
    }

    #[test]
    fn values_are_lists_and_ranges() {
        assert_eq!(values("pinning=none,all,none"), ["none", "all"]);
        assert_eq!(values("zipf=0,0.5..1/3"), ["0", "0.5", "0.75", "1"]);
        let ten = values("cache_size=2%..110%");
        assert_eq!((ten.len(), &*ten[0], &*ten[1], &*ten[9]), (10, "2%", "14%", "110%"));
        assert_eq!(values("zipf=0.1..1.0")[2], "0.3");
        assert_eq!(values("zipf=0..1/3"), ["0", "0.5", "1"]);
        assert_eq!(values("threads=1..8/8"), ["1", "2", "3", "4", "5", "6", "7", "8"]);
        for wrong in ["zipf", "zipf=", "zipf=1,,2", "zipf=a..b", "zipf=1..2/1", "zipf=1..inf"] {
            assert!(Varied::read(wrong).unwrap_err().is_usage, "{wrong}");
        }
    }

    #[test]
    fn cells_are_all_combinations() {
        let varied = ["cache_size=10%,1MiB", "zipf=0,0.5", "value_bytes=56", "scan_percent=50"];
        let varied: Vec<Varied> = varied.iter().map(|text| Varied::read(text).unwrap()).collect();
        let points = points(&varied, &[TIDEKV], &usual()).unwrap();
        let bytes: Vec<Option<u64>> = points.iter().map(|point| point.cache_bytes).collect();
        assert_eq!(bytes, [6_400_000, 6_400_000, 1 << 20, 1 << 20].map(Some));
        let alphas: Vec<f64> = points.iter().map(|p| p.params["zipf"].as_f64().unwrap()).collect();
        assert_eq!(alphas, [0.0, 0.5, 0.0, 0.5]);
        assert!(points.iter().all(|point| point.params["scan_percent"] == 50));
    }

    #[test]
    fn unknown_names_and_values_are_rejected_before_the_measurement() {
        let error = |texts: &[&str]| {
            let varied: Vec<Varied> =
                texts.iter().map(|text| Varied::read(text).unwrap()).collect();
            points(&varied, &[TIDEKV], &usual()).unwrap_err()
        };
        for (texts, word) in [
            (&["zipff=1"][..], "zipf"),
            (&["pinning=all"], "tidekv:tide"),
            (&["zipf=1", "zipf=2"], "twice"),
            (&["cache_size=-1%"], "cache_size"),
            (&["threads=0"], "threads"),
            (&["scan_percent=60", "put_percent=60"], "100"),
            (&["entries=1..10000/10000", "zipf=0..1/11"], "many"),
        ] {
            let error = error(texts);
            assert!(error.is_usage && error.message.contains(word), "{texts:?}: {error}");
        }
    }
}
