//! Parses `/metrics` and checks it against the rules of the Prometheus text format.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

/// A family of series, as its HELP and TYPE lines and its samples describe it.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    /// Value by series, in the order of the text: suffix of the name, and labels.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Checks `text`, all names of which must begin with `prefix`, and returns the value of each
/// series by its name and labels as written.
///
/// # Panics
///
/// If a line is malformed, a family has no HELP or no TYPE or occurs twice, a name breaks the
/// conventions, or a histogram is not cumulative up to a bucket `+Inf` that equals `_count`.
#[track_caller]
pub fn check(text: &str, prefix: &str) -> BTreeMap<String, f64> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut values, mut current) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            let family = Family { help: help.to_owned(), ..Family::default() };
            assert!(families.insert(name.to_owned(), family).is_none(), "{name} occurs twice");
            name.clone_into(&mut current);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current, "TYPE follows the HELP of its metric");
            kind.clone_into(&mut families.get_mut(name).unwrap().kind);
        } else {
            let (series, number) = line.rsplit_once(' ').unwrap();
            let number: f64 = number.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(values.insert(series.to_owned(), number).is_none(), "{series} occurs twice");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let suffix = name.strip_prefix(&*current).unwrap_or_else(|| panic!("no HELP: {line}"));
            let sample = (suffix.to_owned(), labels_of(labels.strip_suffix('}').unwrap()), number);
            families.get_mut(&current).unwrap().samples.push(sample);
        }
    }
    for (name, family) in &families {
        check_family(name, family, prefix);
    }
    assert!(families.len() > 10, "{text}");
    values
}

fn is_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('_')
        && !name.contains("__")
        && name.bytes().all(is_of_name)
}

/// The labels of a series: `a="1",b="2"`, with escaped quotes, backslashes and newlines.
fn labels_of(text: &str) -> BTreeMap<String, String> {
    let (mut labels, mut rest) = (BTreeMap::new(), text);
    while !rest.is_empty() {
        let (name, quoted) = rest.split_once("=\"").unwrap_or_else(|| panic!("{text}"));
        assert!(is_name(name), "{text}");
        let (mut value, mut characters) = (String::new(), quoted.char_indices());
        let end = loop {
            match characters.next().unwrap_or_else(|| panic!("{text}")) {
                (at, '"') => break at,
                (_, '\\') => value.push(characters.next().unwrap().1),
                (_, character) => value.push(character),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{text}");
        rest = &quoted[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    labels
}

#[track_caller]
fn check_family(name: &str, family: &Family, prefix: &str) {
    let Family { help, kind, samples } = family;
    assert!(is_name(name) && name.starts_with(prefix), "{name}");
    assert!(help.ends_with('.') && !help.contains('\\'), "{name}: {help}");
    assert!(!samples.is_empty(), "{name} has no series");
    assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
    for (unit, base) in [("_ms", "_seconds"), ("_us", "_seconds"), ("_ns", "_seconds")] {
        assert!(!name.contains(unit), "{name}: use {base}");
    }
    let label_names = |labels: &BTreeMap<String, String>| -> BTreeSet<String> {
        labels.keys().filter(|label| *label != "le").cloned().collect()
    };
    let first = label_names(&samples[0].1);
    for (suffix, labels, number) in samples {
        assert_eq!(label_names(labels), first, "{name}: all series have the same labels");
        match &**kind {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&&**suffix), "{name}"),
            "counter" | "gauge" => assert_eq!(suffix, "", "{name}"),
            other => panic!("{name} is a {other}"),
        }
        assert!(number.is_finite() && *number >= 0.0, "{name}: {number}");
    }
    if kind == "histogram" {
        check_histogram(name, samples);
    }
}

#[track_caller]
fn check_histogram(name: &str, samples: &[(String, BTreeMap<String, String>, f64)]) {
    /// Buckets, sums and counts of one series.
    #[derive(Default)]
    struct Parts {
        buckets: Vec<(f64, f64)>,
        sum: Vec<f64>,
        count: Vec<f64>,
    }
    let mut by_series: BTreeMap<BTreeMap<String, String>, Parts> = BTreeMap::new();
    for (suffix, labels, number) in samples {
        let mut own = labels.clone();
        let bound = own.remove("le");
        let parts = by_series.entry(own).or_default();
        match &**suffix {
            "_bucket" => {
                let bound = bound.unwrap_or_else(|| panic!("{name}: a bucket without le"));
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                parts.buckets.push((bound, *number));
            }
            "_sum" => parts.sum.push(*number),
            _ => parts.count.push(*number),
        }
    }
    for (labels, Parts { buckets, sum, count }) in by_series {
        let of = format!("{name} {labels:?}");
        assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0), "{of}: bounds ascend");
        assert!(buckets.windows(2).all(|two| two[0].1 <= two[1].1), "{of}: counts accumulate");
        assert!(buckets.len() > 10, "{of}: {buckets:?}");
        assert_eq!((sum.len(), count.len()), (1, 1), "{of}");
        assert_eq!(*buckets.last().unwrap(), (f64::INFINITY, count[0]), "{of}");
        assert_eq!(sum[0] > 0.0, count[0] > 0.0, "{of}: {} in {}", sum[0], count[0]);
    }
}

/// Runs `promtool check metrics` on `text`, if promtool is installed.
///
/// # Panics
///
/// If promtool finds a fault.
#[track_caller]
pub fn check_with_promtool(text: &str) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut promtool = match started {
        Ok(promtool) => promtool,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: promtool is not installed (apt-get install prometheus)");
            return;
        }
        Err(error) => panic!("promtool does not start: {error}"),
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}
