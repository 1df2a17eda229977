//! `tidekv-lab sweep`: failing cells, parallel cells, and resuming a killed sweep.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::run::{TestDirectory, run, tidekv_lab};

fn arguments<'a>(out: &'a Path, vary: &[&'a str], others: &[&'a str]) -> Vec<&'a str> {
    let out = out.to_str().unwrap();
    let mut all = vec!["sweep", "--subject", "tidekv", "--keep-caches", "--out", out];
    let usual = ["entries=1000", "operations=200", "threads=1"];
    vary.iter().chain(&usual).for_each(|axis| all.extend(["--vary", axis]));
    all.extend(others);
    all
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.is_empty());
    // The last one may be truncated.
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn params(lines: &[Value]) -> BTreeSet<String> {
    lines.iter().map(|line| line["params"].to_string()).collect()
}

#[test]
fn a_killed_sweep_of_a_hundred_cells_resumes() {
    let place = TestDirectory::new();
    let out = place.file("results");
    let (rows, turns) = (out.join("rows.jsonl"), out.join("turns.jsonl"));
    let vary = ["cache_size=2%..110%", "zipf=0,0.1..0.9/9"];
    let mut first = tidekv_lab();
    first.args(arguments(&out, &vary, &[])).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = first.spawn().unwrap();
    while lines(&rows).len() < 10 {
        assert!(child.try_wait().unwrap().is_none(), "it ended with {} rows", lines(&rows).len());
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = lines(&turns).len();
    assert!((10..100).contains(&before), "{before}");

    let again = run(&arguments(&out, &vary, &[]));
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.err.contains("of 100 points done, about "), "{}", again.err);
    let is_measured = |row: &&Value| row["metrics"].get("target").is_none();
    let measured: Vec<Value> = lines(&rows).iter().filter(is_measured).cloned().collect();
    assert_eq!((measured.len(), params(&measured).len()), (100, 100));
    // Turns measured before the kill were not measured again.
    let turns: Vec<Value> = lines(&turns).iter().map(|turn| turn["id"].clone()).collect();
    assert_eq!((turns.len(), params(&turns).len()), (100, 100));
}

#[test]
fn a_failed_turn_is_a_row_and_the_sweep_continues() {
    let place = TestDirectory::new();
    let out = place.file("results");
    // No store accepts values of that size.
    let vary = ["value_bytes=100,270000000,200"];
    let done = run(&arguments(&out, &vary, &[]));
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.ends_with("a turn failed: its row has `error`\n"), "{}", done.err);
    let rows = lines(&out.join("rows.jsonl"));
    let errors: Vec<&Value> =
        rows.iter().filter(|row| row["metrics"].get("error").is_some()).collect();
    assert_eq!((rows.len(), errors.len()), (3, 1), "{rows:?}");
    assert_eq!(errors[0]["params"]["value_bytes"], 270_000_000);
    let report = run(&["report", out.to_str().unwrap()]);
    assert_eq!(report.code, 0, "{report:?}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("failed: "), "{page}");
}

#[test]
fn parallel_cells_have_the_same_counts() {
    let place = TestDirectory::new();
    let counts = |name: &str, others: &[&str]| -> Vec<(String, Value)> {
        let out = place.file(name);
        let vary = ["cache_size=2%,50%", "zipf=0,0.9", "put_percent=0,50"];
        let done = run(&arguments(&out, &vary, others));
        assert_eq!(done.code, 0, "{done:?}");
        // Each has a separate store, otherwise those after the first could only be measured alone.
        assert!(!done.err.contains("another process"), "{done:?}");
        let at_once = others.last().map(|n| n.parse::<u64>().unwrap());
        let rows = lines(&out.join("rows.jsonl"));
        let of = |row: &Value| {
            let metrics = &row["metrics"];
            assert_eq!(metrics.get("cells_at_once").and_then(Value::as_u64), at_once, "{row}");
            (row["params"].to_string(), metrics["reads_per_op"].clone())
        };
        rows.iter().map(of).collect()
    };
    let alone = counts("alone", &[]);
    assert_eq!(alone.len(), 8);
    let is_settled = |cell: &&(String, Value)| cell.0.contains("\"put_percent\":0");
    let gets = |all: &[(String, Value)]| -> Vec<(String, Value)> {
        all.iter().filter(is_settled).cloned().collect()
    };
    let together = counts("together", &["--parallel", "3"]);
    assert_eq!(together.len(), 8);
    assert_eq!(gets(&together), gets(&alone));
    // Disturbed turns are not used in an undisturbed run.
    let out = place.file("together");
    let vary = ["cache_size=2%,50%", "zipf=0,0.9", "put_percent=0,50"];
    let quiet = run(&arguments(&out, &vary, &["--json"]));
    assert_eq!(quiet.code, 0, "{quiet:?}");
    assert!(!quiet.text().contains("cells_at_once"), "{quiet:?}");
    assert_eq!(lines(&out.join("turns.jsonl")).len(), 16);
    assert_eq!(run(&arguments(&place.file("none"), &[], &["--parallel", "0"])).code, 2);
}
