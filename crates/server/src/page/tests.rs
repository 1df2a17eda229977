//! The parts of the page, and its documentation.
#![expect(clippy::disallowed_methods, reason = "the documentation lies in the repository")]

use std::fmt::Write;

use super::*;
use crate::history::FIELDS;
use crate::metrics::METRICS;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    for part in &PARTS {
        let own = part.text.replace("http://www.w3.org/", "");
        assert!(!own.contains("http://") && !own.contains("https://"), "{}", part.path);
    }
    let html = PARTS[0].text;
    for forbidden in ["<style", "style=", "onclick", "onload", "<script>"] {
        assert!(!html.contains(forbidden), "{forbidden} would be refused by the browser");
    }
    for part in &PARTS[1..] {
        assert!(html.contains(&format!("\"{}\"", part.path)), "{} is not used", part.path);
    }
}

#[test]
fn the_page_asks_for_fields_that_there_are() {
    let script = PARTS.iter().find(|part| part.path == "/page.js").unwrap().text;
    let suffixes = ["_bytes", "_bytes_max", "_hits", "_misses", "_p50", "_p99"];
    let names = script.split(['"', '`']).filter(|word| {
        let is_name = word.bytes().all(|byte| byte.is_ascii_lowercase() || b"_059".contains(&byte));
        is_name && suffixes.iter().any(|suffix| word.len() > suffix.len() && word.ends_with(suffix))
    });
    let mut found = 0;
    for name in names {
        assert!(FIELDS.iter().any(|field| field.name == name), "{name} is no field");
        found += 1;
    }
    assert!(found >= 8, "{found} names were found");
}

#[test]
fn the_documentation_is_up_to_date() {
    let mut fields = String::from("| Field | Unit | What it is |\n|---|---|---|\n");
    for field in &FIELDS {
        let _ = writeln!(fields, "| `{}` | {} | {} |", field.name, field.unit, field.help);
    }
    let mut metrics = String::from("| Metric | Kind | What it is |\n|---|---|---|\n");
    for metric in &METRICS {
        let values: Vec<_> = metric.series.iter().map(|(value, _)| *value).collect();
        let label = match metric.label {
            "" => String::new(),
            label => format!(" {{{label}={}}}", values.join("\\|")),
        };
        let (kind, help) = (metric.kind.name(), metric.help);
        let _ = writeln!(metrics, "| `{}`{label} | {kind} | {help} |", metric.name);
    }
    let mut text = std::fs::read_to_string(DOCUMENT).unwrap();
    for (name, table) in [("fields", fields), ("metrics", metrics)] {
        let (begin, end) = (format!("{name} begin -->"), format!("<!-- made by tests: {name} end"));
        let from = text.find(&begin).unwrap() + begin.len();
        let to = text.find(&end).unwrap();
        text.replace_range(from..to, &format!("\n\n{table}\n"));
    }
    if std::env::var_os("TIDEKV_BLESS").is_some() {
        std::fs::write(DOCUMENT, &text).unwrap();
    }
    let is_same = std::fs::read_to_string(DOCUMENT).unwrap() == text;
    assert!(is_same, "docs/http.md is old: run this test with TIDEKV_BLESS=1");
}
