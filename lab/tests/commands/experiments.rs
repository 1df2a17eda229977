//! `tidekv-lab run`: every experiment at a tiny scale, its rows, and reports made from them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::run::{Done, TestDirectory, run};

/// A run with its results in a separate directory.
fn lab(out: &Path, arguments: &[&str]) -> Done {
    let tiny = ["--entries", "2000", "--seconds", "0.05"];
    let out = ["--keep-caches", "--threads", "2", "--out", out.to_str().unwrap()];
    run(&[&["run"], arguments, &tiny, &out].concat())
}

fn rows(out: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(out.join("rows.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs experiments and checks the required fields of every row.
fn measure(patterns: &[&str], metric: &str, alternations: &str) -> (TestDirectory, PathBuf) {
    let place = TestDirectory::new();
    let out = place.file("results");
    let done = lab(&out, &[patterns, &["--alternations", alternations]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let rows = rows(&out);
    assert!(!rows.is_empty());
    for row in rows.iter().filter(|row| row["metrics"].get("target").is_none()) {
        let number = |name: &str| {
            let value = row["metrics"].get(name).and_then(Value::as_f64);
            value.unwrap_or_else(|| panic!("no {name} in {row}"))
        };
        let least = number(&format!("{metric}_min"));
        assert!(least > 0.0 && least <= number(metric), "{row}");
        assert!(number(metric) <= number(&format!("{metric}_max")), "{row}");
        assert!(number("rss_bytes_max") > 1e6, "{row}");
        assert_eq!(number("alternations").to_string(), alternations, "{row}");
        for name in ["host", "commit", "date"] {
            assert!(!row[name].as_str().unwrap().is_empty(), "{row}");
        }
    }
    (place, out)
}

#[test]
fn fills_and_space_are_measured() {
    let (_place, out) = measure(&["engine-fill-*", "engine-space"], "ops_per_s", "1");
    for row in rows(&out).iter().filter(|row| row["metrics"].get("target").is_none()) {
        let metrics = &row["metrics"];
        // Every byte is written to the log, and at least once to a table, unless it was overwritten
        // before.
        let is_compressed = row["params"]["compression"] == "lz4";
        let least = if is_compressed { 0.3 } else { 0.9 };
        let passes = row["params"].get("passes").and_then(Value::as_f64).unwrap_or(1.0);
        assert!(metrics["write_amp"].as_f64().unwrap() > least / passes, "{row}");
        assert!(metrics["log_amp"].as_f64().unwrap() > 1.0, "{row}");
        let space = metrics["space_amp"].as_f64().unwrap();
        assert!(space > least && space < 2.5, "{row}");
        assert!(is_compressed == (space < 0.9), "{row}");
    }
}

#[test]
fn gets_are_measured() {
    let (_place, out) = measure(&["engine-get-*", "engine-multi-get"], "ops_per_s", "1");
    let experiments: BTreeSet<String> =
        rows(&out).iter().map(|row| row["experiment"].to_string()).collect();
    assert_eq!(experiments.len(), 4);
}

#[test]
fn scans_and_mixes_are_measured() {
    measure(&["engine-scan-*", "engine-mixed"], "ops_per_s", "1");
}

#[test]
fn snapshots_tails_and_the_drive_are_measured() {
    let patterns = ["engine-snapshots", "engine-write-tail", "drive-overhead"];
    let (_place, out) = measure(&patterns, "ops_per_s", "1");
    let rows = rows(&out);
    let verdict = |experiment: &str| {
        let is_it = |row: &&Value| {
            row["experiment"] == experiment && row["metrics"].get("target").is_some()
        };
        rows.iter().find(is_it).unwrap_or_else(|| panic!("no verdict on {experiment}"))
    };
    assert_eq!(verdict("engine-snapshots")["metrics"]["baseline"], "snapshots 0");
    assert_eq!(verdict("drive-overhead")["subject"], "nothing");
    let tail = rows.iter().find(|row| row["experiment"] == "engine-write-tail").unwrap();
    assert!(tail["params"]["arrivals_per_s"].as_u64().unwrap() >= 100, "{tail}");
}

#[test]
fn a_killed_store_is_opened_and_a_second_run_resumes() {
    let (place, out) = measure(&["engine-open"], "open_s", "2");
    let before = rows(&out);
    assert_eq!(before.len(), 2, "{before:?}");
    let turns = || std::fs::read_to_string(out.join("turns.jsonl")).unwrap();
    let turns_before = turns();

    // All turns are in the log already.
    let again = lab(&out, &["engine-open", "--json", "--alternations", "2"]);
    assert_eq!((again.code, &*again.err), (0, ""));
    let printed: Vec<Value> =
        again.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Except for the time of printing.
    let without_dates = |rows: &[Value]| -> Vec<Value> {
        let mut rows = rows.to_vec();
        rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("date")));
        rows
    };
    assert_eq!(without_dates(&printed), without_dates(&before));
    assert_eq!((rows(&out), turns()), (before, turns_before));

    let report = run(&["report", out.to_str().unwrap()]);
    assert_eq!(report.code, 0, "{report:?}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("engine-open"));
    assert!(std::fs::read_to_string(out.join("report.md")).unwrap().contains("| engine-open |"));

    let document = place.file("reliability.md");
    let arguments = ["report", out.to_str().unwrap(), "--reliability"];
    let done = run(&[&arguments[..], &[document.to_str().unwrap()]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    assert!(std::fs::read_to_string(document).unwrap().starts_with("# Reliability"));
}

#[test]
fn names_are_listed_and_unknown_ones_explained() {
    let list = run(&["list"]);
    assert!(list.text().contains("engine-get-cold") && list.text().contains("tidekv:block-lru"));
    let place = TestDirectory::new();
    let out = place.file("results");
    let fails = |arguments: &[&str], says: &[&str]| lab(&out, arguments).fails(2, says);
    fails(
        &["engine-get-clod"],
        &["engine-get-clod", "near it are engine-get-cold,", "tidekv-lab list"],
    );
    fails(&["engine-open", "--subject", "rocksdb:lru"], &["rocksdb:lru", "near it are"]);
    fails(&["engine-open", "--subject", "tidekv:blok-lru"], &["near it are tidekv:block-lru,"]);
    let none = ["ackey-sweep", "--where", "cache_percent=7"];
    fails(&none, &["no point has cache_percent=7", "`--where`"]);
    let report = run(&["report", place.file("nothing").to_str().unwrap()]);
    report.fails(1, &["nothing/rows.jsonl"]);
    run(&["worker"]).fails(2, &["`worker` is for the lab itself"]);
}

#[test]
fn a_cache_behind_a_socket_is_measured() {
    let place = TestDirectory::new();
    let out = place.file("results");
    let arguments = ["bigkv-ycsb", "--quick", "--subject", "tidekv:cache-served"];
    // Only root can limit the process's memory; without, its row has the error.
    let done = lab(&out, &arguments);
    let rows = rows(&out);
    let row = &rows[0];
    assert_eq!(row["subject"], "tidekv:cache-served", "{row}");
    if row["metrics"]["error"].as_str().is_some_and(|why| why.contains("bound the process")) {
        return;
    }
    assert_eq!(done.code, 0, "{done:?}");
    let number =
        |name: &str| row["metrics"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"));
    assert!(number("ops_per_s") > 0.0 && number("hit_ratio") > 0.1, "{row}");
    assert!(number("memory_hit_ratio") > 0.0 && number("flash_hit_ratio") > 0.0, "{row}");
    assert!(number("rss_bytes_max") > 1e6, "{row}");
}

#[test]
fn files_of_a_corpus_are_read_back_unchanged() {
    let place = TestDirectory::new();
    let files = place.file("letters");
    std::fs::create_dir(&files).unwrap();
    for at in 0..40usize {
        let bytes: Vec<u8> = (0..5000 + 2000 * at).map(|byte| (byte / 7 * at) as u8).collect();
        std::fs::write(files.join(format!("file-{at}")), bytes).unwrap();
    }
    let out = place.file("results");
    let arguments = ["bigkv-corpus", "--quick", "--subject", "tidekv:cache-served", "--corpus"];
    let done = lab(&out, &[&arguments[..], &[files.to_str().unwrap()]].concat());
    let rows = rows(&out);
    let row = &rows[0];
    // As above.
    if row["metrics"]["error"].as_str().is_some_and(|why| why.contains("bound the process")) {
        return;
    }
    assert_eq!(done.code, 0, "{done:?}");
    // The directories of the files are private.
    assert_eq!(row["params"]["files"], "letters", "{row}");
    let number = |name: &str| row["metrics"][name].as_f64();
    assert_eq!(["objects", "sets", "hits"].map(number), [Some(40.0); 3], "{row}");
    assert_eq!(["misses", "wrong_values"].map(number), [Some(0.0); 2], "{row}");
    let verdicts: Vec<&Value> =
        rows.iter().filter_map(|row| row["metrics"].get("is_met")).collect();
    assert_eq!(verdicts, [&Value::Bool(true); 2]);
}

#[test]
fn space_and_a_load_meanwhile_are_measured() {
    for death in ["death=delete", "death=expire"] {
        let patterns = ["space-back", "--where", death, "--where", "value_bytes=100"];
        let (_place, out) = measure(&patterns, "foreground_ops_per_s", "1");
        let rows = rows(&out);
        let number = |name: &str| rows[0]["metrics"][name].as_f64();
        // One in ten is left, with an overhead.
        assert!(number("space_amp_full").unwrap() > 8.0, "{rows:?}");
        assert!(number("foreground_clean_ops_per_s").unwrap() > 0.0, "{rows:?}");
        let verdicts: BTreeSet<&str> =
            rows.iter().filter_map(|row| row["metrics"]["of"].as_str()).collect();
        let judged = [
            "space_amp_end",
            "scan_over_merged",
            "foreground_over_clean",
            "foreground_over_before",
        ];
        assert!(judged.iter().all(|name| verdicts.contains(name)), "{verdicts:?}");
    }
}

/// Whether the server that the lab starts is there: `cargo build` makes it, not the lab's tests.
fn has_server() -> bool {
    let lab = Path::new(env!("CARGO_BIN_EXE_tidekv-lab"));
    let is_there = lab.with_file_name("tidekv").exists();
    if !is_there {
        println!("skipped: no binary `tidekv` beside the lab");
    }
    is_there
}

#[test]
fn a_server_keeps_to_its_memory() {
    if !has_server() {
        return;
    }
    let place = TestDirectory::new();
    let out = place.file("results");
    let arguments = ["memory-promise", "--quick", "--where", "load=large-value"];
    let done = lab(&out, &[&arguments[..], &["--where", "process_bytes=0"]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let rows = rows(&out);
    let of_step = |step: &str| {
        let is_it = |row: &&Value| {
            row["subject"] == "tidekv:server"
                && row["params"]["step"] == step
                && row["metrics"].get("target").is_none()
        };
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("no {step}"));
        move |name: &str| row["metrics"][name].as_f64().unwrap_or_else(|| panic!("{row}"))
    };
    let large = of_step("set of 255 MiB");
    assert!(large("rss_bytes_max") > 1e6 && large("refused") == 1.0);
    let several = of_step("sets of 1 to 128 MiB");
    assert!(several("accepted") > 8.0 && several("refused") > 0.0);
    assert_eq!(of_step("opening after a kill")("lost_keys"), 0.0);
    let verdicts: Vec<&Value> =
        rows.iter().filter_map(|row| row["metrics"].get("is_met")).collect();
    assert!(verdicts.len() >= 8 && verdicts.iter().all(|it| **it == true), "{rows:?}");
}

#[test]
fn an_emptied_server_is_asked() {
    if !has_server() {
        return;
    }
    let place = TestDirectory::new();
    let out = place.file("results");
    for way in ["emptied=delete", "emptied=expire", "emptied=flushall"] {
        let done = lab(&out, &["space-back", "--quick", "--where", way]);
        assert_eq!(done.code, 0, "{done:?}");
    }
    let rows = rows(&out);
    let is_ours =
        |row: &&Value| row["subject"] == "tidekv:server" && row["metrics"]["of"].is_null();
    let ours: Vec<&Value> = rows.iter().filter(is_ours).collect();
    assert_eq!(ours.len(), 12, "{rows:?}");
    for row in ours {
        for name in ["scan_ms", "dbsize_ms"] {
            assert!(row["metrics"][name].as_f64().unwrap() > 0.0, "{row}");
        }
        assert_eq!(row["metrics"]["keys_left"], 0.0, "{row}");
    }
}
