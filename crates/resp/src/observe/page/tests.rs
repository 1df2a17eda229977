//! The fields that the page uses exist, and the documentation is up to date.
#![expect(clippy::disallowed_methods, reason = "the documentation lies in the repository")]

#[path = "../../../../observe/tests/support/field_names.rs"]
mod field_names;

use std::fmt::Write;

use field_names::names_of_fields;

use crate::observe::fields::FIELDS;

use super::*;
use crate::observe::metrics::METRICS;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/http.md");

#[test]
fn the_page_uses_existing_fields() {
    let names = names_of_fields(&STORE_PAGE);
    for name in &names {
        assert!(FIELDS.iter().any(|field| field.name == *name), "{name} is no field");
    }
    assert!(names.len() >= 8, "{names:?}");
}

#[test]
fn the_documentation_is_up_to_date() {
    let mut fields = String::from("| Field | Unit | Description |\n|---|---|---|\n");
    for field in &FIELDS {
        let _ = writeln!(fields, "| `{}` | {} | {} |", field.name, field.unit, field.help);
    }
    let mut metrics = String::from("| Metric | Kind | Description |\n|---|---|---|\n");
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
    assert!(is_same, "docs/reference/http.md is out of date: run this test with TIDEKV_BLESS=1");
}
