//! Tests of rows and verdicts.

use super::*;
use crate::experiments::catalogue;
use crate::harness::job::CorpusJob;
use crate::machine::kernel::KernelCounts;
use crate::scale::{Scale, Size};
use crate::subject::{Counts, ObjectCounts};

fn series(subject: &'static str, holds: u64, values: &[f64]) -> Series {
    Series {
        subject,
        params: [("snapshots".to_owned(), Value::from(holds))].into(),
        turns: values
            .iter()
            .map(|&value| {
                [("ops_per_s", value), ("reads_per_op", value / 100.0), ("p999_us", value)].into()
            })
            .collect(),
        warnings: Vec::new(),
    }
}

fn verdicts(name: &str, own: &Series, others: &[Series]) -> Vec<Row> {
    verdict_rows(catalogue::find(name).unwrap(), own, others, 1)
}

#[test]
fn median_minimum_and_maximum_are_the_spread() {
    assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
    assert_eq!(spread(&[4.0, 1.0]), Some((2.5, 1.0, 4.0)));
    assert_eq!(spread(&[]), None);
}

#[test]
fn ratios_pair_the_alternations() {
    let own = series("tidekv:tide", 0, &[100.0, 300.0, 200.0]);
    let baseline = series("rocksdb:lru", 0, &[100.0, 200.0, 50.0]);
    let rows = verdicts("engine-get-cold", &own, &[own.clone(), baseline]);
    assert_eq!(rows.len(), 2);
    let number = |row: &Row, name: &str| row.number(name).unwrap();
    assert_eq!(
        ["ratio", "ratio_min", "ratio_max", "target"].map(|name| number(&rows[0], name)),
        [1.5, 1.0, 4.0, 1.0]
    );
    assert_eq!(rows[0].metrics["is_met"], true);
    // reads_per_op is 2, above 1.02.
    assert_eq!(number(&rows[1], "reads_per_op"), 2.0);
    assert_eq!(rows[1].metrics["is_met"], false);
}

#[test]
fn verdicts_judge_the_rounded_value_of_the_row() {
    let baseline = series("rocksdb:lru", 0, &[100.0]);
    let outcome = |ops_per_s: f64| {
        let own = series("tidekv:tide", 0, &[ops_per_s]);
        let rows = verdicts("engine-get-cold", &own, &[own.clone(), baseline.clone()]);
        (rows[0].number("ratio").unwrap(), rows[0].metrics["is_met"].clone())
    };
    assert_eq!(outcome(99.999_999), (1.0, true.into()));
    assert_eq!(outcome(99.9999), (0.999_999, false.into()));
}

#[test]
fn a_target_holds_against_every_setting_of_the_baseline() {
    let own = series("tidekv:tide", 0, &[100.0]);
    let others = [
        series("rocksdb:lru", 0, &[50.0]),
        series("fjall", 0, &[1.0]),
        series("rocksdb:pinned", 0, &[125.0]),
    ];
    let rows = verdicts("engine-get-absent", &own, &others);
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row.metrics["baseline"].as_str().unwrap(), row.number("ratio").unwrap()))
        .collect();
    assert_eq!(found, [("rocksdb:lru", 2.0), ("rocksdb:pinned", 0.8)]);
    assert_eq!(rows[0].metrics["is_met"], true);
    assert_eq!(rows[1].metrics["is_met"], false);
}

/// `series` with a cache of this multiple of its budget.
fn taking(times: f64, mut series: Series) -> Series {
    for turn in &mut series.turns {
        turn.extend([("cache_bytes_taken", 1000.0 * times), ("cache_bytes_budget", 1000.0)]);
    }
    series
}

#[test]
fn a_baseline_over_its_budget_gives_no_verdict() {
    let own = taking(1.0, series("tidekv:tide", 0, &[100.0]));
    let others = [
        taking(1.01, series("rocksdb:lru", 0, &[200.0])),
        taking(2.5, series("rocksdb:pinned", 0, &[125.0])),
    ];
    let rows = verdicts("engine-get-absent", &own, &others);
    assert_eq!(rows[0].metrics["is_met"], false);
    assert!(!rows[1].metrics.contains_key("is_met"), "{:?}", rows[1].metrics);
    let stated = ["ratio", "baseline_over_budget"].map(|name| rows[1].number(name));
    assert_eq!(stated, [Some(0.8), Some(2.5)]);
    let experiment = catalogue::find("engine-get-absent").unwrap();
    let measured = |at: usize| measured_row(experiment, &others[at], 1);
    assert_eq!(measured(0).number("over_budget"), None);
    assert_eq!(measured(1).number("over_budget"), Some(2.5));
    // It fails a target itself too.
    let greedy = taking(1.1, series("tidekv:tide", 0, &[1000.0]));
    let rows = verdicts("engine-get-absent", &greedy, &others);
    assert_eq!(rows[0].metrics["is_met"], false);
}

#[test]
fn only_tidekv_with_its_defaults_has_targets() {
    let peer = series("rocksdb:lru", 0, &[200.0]);
    let lru = series("tidekv:block-lru", 0, &[100.0]);
    assert!(verdicts("engine-get-absent", &lru, std::slice::from_ref(&peer)).is_empty());
    let tide = series("tidekv:tide", 0, &[100.0]);
    assert_eq!(verdicts("engine-get-absent", &tide, &[peer])[0].metrics["is_met"], false);
}

#[test]
fn without_the_baseline_only_absolute_targets_are_judged() {
    let own = series("tidekv:block-lru", 0, &[100.0]);
    assert_eq!(verdicts("engine-get-cold", &own, &[]).len(), 1);
    assert_eq!(verdicts("engine-write-tail", &own, &[]).len(), 0);
}

#[test]
fn a_subject_can_be_its_own_baseline() {
    let idle = series("tidekv:block-lru", 0, &[100.0, 100.0]);
    let slowed = series("tidekv:block-lru", 1000, &[96.0, 86.0]);
    let all = [idle.clone(), slowed.clone()];
    assert!(verdicts("engine-snapshots", &idle, &all).is_empty());
    let rows = verdicts("engine-snapshots", &slowed, &all);
    assert_eq!(rows[0].number("ratio"), Some(0.91));
    assert_eq!(rows[0].metrics["is_met"], true);
}

fn cold_point() -> Point {
    (catalogue::find("engine-get-cold").unwrap().points)(&Scale::new(Size::Quick)).remove(0)
}

#[test]
fn metrics_are_per_operation() {
    let turn = Measurement {
        operations: 1000,
        seconds: 2.0,
        counts: Counts {
            reads: Some(1100),
            cache_hits: Some(300),
            cache_misses: Some(700),
            ..Counts::default()
        },
        kernel: KernelCounts { cpu_ns: 5_000_000, read_bytes: 4_096_000, ..Default::default() },
        ..Measurement::default()
    };
    let found = metrics(&cold_point(), &turn);
    for (name, value) in [
        ("ops_per_s", 500.0),
        ("cpu_us_per_op", 5.0),
        ("reads_per_op", 1.1),
        ("kernel_read_bytes_per_op", 4096.0),
        ("hit_ratio", 0.3),
    ] {
        assert_eq!(found[name], value, "{name}");
    }
    assert!(!found.contains_key("read_bytes_per_op") && !found.contains_key("write_amp"));
}

#[test]
fn space_per_object_is_reported_if_counted() {
    let point = cold_point();
    let own_bytes = data_bytes(10, point.value_bytes);
    let counted = ObjectCounts {
        flash_objects: 10,
        index_bytes: 15,
        flash_bytes_taken: 3 * own_bytes,
        ..ObjectCounts::default()
    };
    let turn = |objects| Measurement {
        operations: 10,
        counts: Counts { objects: Some(objects), ..Counts::default() },
        ..Measurement::default()
    };
    let found = metrics(&point, &turn(counted));
    assert_eq!((found["index_bytes_per_object"], found["space_overhead"]), (1.5, 3.0));
    assert_eq!(found["flash_bytes_per_object"], 3.0 * own_bytes as f64 / 10.0);
    let uncounted = ObjectCounts { flash_objects: 10, ..ObjectCounts::default() };
    let found = metrics(&point, &turn(uncounted));
    assert!(!found.keys().any(|name| name.ends_with("per_object") || *name == "space_overhead"));

    // The sizes of a corpus differ, so a mean size per object is unknown.
    let corpus = CorpusCounts { objects: 4, sets: 4, set_ns: 2_000_000_000, ..Default::default() };
    let job = CorpusJob {
        name: "usual".into(),
        directories: Vec::new(),
        objects_max: 4,
        bytes_max: 1 << 20,
        threads: 1,
    };
    let turn = Measurement { corpus: Some(corpus), ..turn(counted) };
    let found = metrics(&Point { corpus: Some(job), ..point }, &turn);
    assert_eq!((found["objects"], found["sets_per_s"], found["wrong_values"]), (4.0, 2.0, 0.0));
    assert!(found.contains_key("flash_bytes_per_object") && !found.contains_key("space_overhead"));
}

#[test]
fn the_kernel_is_believed_when_it_disagrees() {
    let turn = |reads, device_reads| Measurement {
        operations: 1000,
        has_device: true,
        counts: Counts {
            reads: Some(reads),
            read_bytes: Some(4_096_000),
            background_reads: Some(10),
            ..Counts::default()
        },
        kernel: KernelCounts { read_bytes: 4_096_000, device_reads, ..Default::default() },
        ..Measurement::default()
    };
    assert!(warnings(&turn(1000, 1015), false).is_empty());
    let found = warnings(&turn(1000, 1100), false);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("1.010") && found[0].contains("1.100"), "{found:?}");
    // Sectors at the ends of reads are no difference either, uncounted bytes are.
    let wider = |read_bytes| Measurement {
        kernel: KernelCounts { read_bytes, device_reads: 1010, ..Default::default() },
        ..turn(1000, 1010)
    };
    assert!(warnings(&wider(4_096_000 + 512 * 1000), false).is_empty());
    assert_eq!(warnings(&wider(4_096_000 + 1200 * 1000), false).len(), 1);
    assert_eq!(warnings(&wider(4_096_000 - 100 * 1000), false).len(), 1);
    // An occasional hit in memory is no disagreement.
    let rare = Measurement { counts: Counts::default(), ..turn(0, 3) };
    assert!(warnings(&rare, false).is_empty());
    // The kernel does not read cached data from storage.
    assert!(warnings(&turn(1000, 0), true).is_empty());
}

#[test]
fn a_target_of_a_phase_compares_tidekv_with_a_subject() {
    let phase = |subject, name: &str, reads: f64| {
        let mut series = series(subject, 0, &[reads]);
        series.params.insert("phase".into(), name.into());
        series
    };
    let best = "tidekv:best-at-switch";
    let own = phase("tidekv:tide", "2-gets", 104.0);
    let others = [phase(best, "2-gets", 100.0), phase(best, "3-scans", 1.0)];
    let rows = verdicts("ackey-phase", &own, &others);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].number("ratio"), Some(1.04));
    assert_eq!(rows[0].metrics["is_met"], true);
    // Neither other subjects, nor the run as a whole, nor one time of it.
    assert!(verdicts("ackey-phase", &others[0], &others).is_empty());
    assert!(verdicts("ackey-phase", &series("tidekv:tide", 0, &[1.0]), &others).is_empty());
}

#[test]
fn seeds_of_a_model_are_alternations() {
    let found = |subject, t: u64, ratio| Found {
        subject,
        params: [("t".to_owned(), t.into())].into(),
        metrics: vec![("hit_ratio", ratio)],
    };
    let found = vec![found("a", 1, 0.5), found("a", 2, 0.6), found("a", 1, 0.7)];
    let series = series_of_model(&[("x".to_owned(), 1.into())].into(), found);
    let values: Vec<_> = series.iter().map(|series| series.values("hit_ratio")).collect();
    assert_eq!(values, [vec![0.5, 0.7], vec![0.6]]);
    assert!(series.iter().all(|series| series.params["x"] == 1 && series.params.len() == 2));
}

#[test]
fn metrics_of_time_are_recognised_by_their_units() {
    for metric in
        ["ops_per_s", "settled_ops_per_s", "p999_us", "cpu_us_per_op", "open_s", "seconds"]
    {
        assert!(is_of_time(metric), "{metric}");
    }
    for metric in ["reads_per_op", "filter_bits_per_key", "write_amp", "block_hits", "hit_ratio"] {
        assert!(!is_of_time(metric), "{metric}");
    }
}
