//! Tests of reports as Markdown.

use super::*;
use crate::report::gather::gather;

fn row(subject: &str) -> Row {
    let mut row = Row::new("engine-get-cold", subject).param("threads", 2);
    (row.host, row.commit, row.date) = ("h".into(), "c".into(), "2026-01-01".into());
    row
}

fn results() -> Vec<Results> {
    let measured = |subject: &str, ops: f64| {
        row(subject)
            .metric("ops_per_s", ops)
            .metric("ops_per_s_min", ops / 2.0)
            .metric("ops_per_s_max", ops)
            .metric("p99_us", 120.0)
    };
    let verdict = row("tidekv:block-lru")
        .metric("of", "ops_per_s")
        .metric("baseline", "rocksdb:lru")
        .metric("ratio", 1.25)
        .metric("target", 1.0)
        .metric("is_at_least", true)
        .metric("is_met", true);
    gather(vec![
        measured("tidekv:block-lru", 5000.0),
        measured("rocksdb:lru", 4000.0).metric("warning", "half of it"),
        verdict,
    ])
}

#[test]
fn a_report_has_the_results_and_the_verdicts() {
    let text = write(&results());
    for line in [
        "Host h, commit c, 2026-01-01. 1 of 1 targets met.",
        "| engine-get-cold | 2 threads | ops/s | 5000 (2500 to 5000) | rocksdb:lru \
         | 4000 (2000 to 4000) | 1.25 | ≥ 1 | pass |",
        "| subject | ops/s | p99 |",
        "| rocksdb:lru | 4000 (2000 to 4000) | 120 µs |",
        "rocksdb:lru: half of it.",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn a_missed_target_has_a_reason() {
    let measured = row("tidekv:cache").metric("write_amp", 1.1004).metric("ops_per_s", 500.0);
    let missed = row("tidekv:cache")
        .metric("of", "write_amp")
        .metric("write_amp", 1.1004)
        .metric("target", 1.1)
        .metric("is_at_least", false)
        .metric("is_met", false);
    let greedy = row("tidekv:cache")
        .metric("of", "ops_per_s")
        .metric("baseline", "foyer")
        .metric("ratio", 1.25)
        .metric("target", 1.0)
        .metric("is_at_least", true)
        .metric("is_met", false)
        .metric("over_budget", 1.5);
    let text = write(&gather(vec![measured, missed, greedy]));
    for end in [
        "| write amp | 1.1004 |  |  |  | ≤ 1.1000 | **fail** |",
        "| ops/s | 500 | foyer |  | 1.25 | ≥ 1 | **fail**: takes 1.50 times its budget |",
    ] {
        assert!(text.lines().any(|line| line.ends_with(end)), "{end:?} is not in\n{text}");
    }
}

#[test]
fn points_shown_together_are_in_one_table() {
    let row = |percent: f64| {
        Row::new("sweep", "tidekv:tide")
            .param("cache_percent", percent)
            .param("threads", 8)
            .metric("reads_per_op", percent / 10.0)
    };
    let failed = Row::new("sweep", "tidekv:tide").param("cache_percent", 7.0);
    let failed = failed.param("threads", 8).metric("error", "no room");
    let text = write(&gather(vec![row(5.0), row(20.0), failed]));
    for line in [
        "| cache percent | subject | reads/op |",
        "| 5 | tidekv:tide | 0.50 |",
        "| 20 | tidekv:tide | 2 |",
        "tidekv:tide failed (7 cache percent, 8 threads): no room.",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn a_table_replaces_the_text_between_its_marks() {
    let document = format!("a\n{BEGIN}\nold\n{END}\nb");
    let table = readme_table(&results());
    assert!(table.starts_with("| | TideKV | times rocksdb:lru | target |\n|---|---|---|---|\n"));
    assert!(table.contains("| get-cold, 2 threads: ops/s | 5000 | 1.25 | ≥ 1 |"));
    let replaced = replace_marked(&document, &table).unwrap();
    assert!(replaced.starts_with("a\n") && replaced.ends_with("\nb"));
    assert!(replaced.contains("get-cold") && !replaced.contains("old\n"));
    assert_eq!(replace_marked(&replaced, &table).unwrap(), replaced);
    assert!(replace_marked("nothing", "x").is_err());
}
