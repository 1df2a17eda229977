//! `bench`: tiny runs print their results and remove their files.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::run::{TestDirectory, contents, run, tidekv};

const TINY: [&str; 8] =
    ["--entries", "2000", "--value-size", "100", "--threads", "2", "--seconds", "0.1"];

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_table_names_the_machine_the_settings_and_every_phase() {
    let place = TestDirectory::new();
    let done = place.run("bench", &TINY);
    done.ok();
    let text = done.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(" cores, ") && lines[0].contains("; data in /"), "{text}");
    for says in ["2000 entries", "values of 100 bytes", "2 threads", "durability buffered", "50 %"]
    {
        assert!(lines[1].contains(says), "{says:?} is not in {text}");
    }
    for head in ["ops/s", "MiB/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "reads/op"] {
        assert!(lines[3].contains(head), "{head:?} is not in {text}");
    }
    let phases: Vec<&str> =
        lines[4..8].iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(phases, ["fill", "get", "scan", "mixed"], "{text}");
    assert!(text.ends_with(" values were read and checked; 0 were wrong.\n"), "{text}");
    assert!(!place.data().exists(), "the directory is removed");
}

#[test]
fn json_is_one_object_and_every_value_that_was_read_was_checked() {
    let place = TestDirectory::new();
    let done = place.run("bench", &[&TINY[..], &["--json", "--get-percent", "95"]].concat());
    let found: Value = serde_json::from_slice(done.ok()).unwrap();
    assert!(number(&found["host"]["cores"]) >= 1.0 && number(&found["host"]["memory_bytes"]) > 1e6);
    assert!(found["host"]["path"].as_str().unwrap().starts_with('/'), "{found}");
    let settings = &found["settings"];
    assert_eq!((&settings["entries"], &settings["mixed_get_percent"]), (&2000.into(), &95.into()));
    let phases = found["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 4);
    for phase in phases {
        assert!(number(&phase["ops_per_s"]) > 0.0 && number(&phase["mib_per_s"]) > 0.0, "{phase}");
        let latency = |name: &str| number(&phase["latency_us"][name]);
        assert!(latency("p50") > 0.0 && latency("p50") <= latency("p99"), "{phase}");
        assert!(latency("p99") <= latency("p999") && latency("p999") <= latency("max") * 1.001);
        assert_eq!(phase["wrong_values"], 0, "{phase}");
        let (checked, done) = (number(&phase["values_checked"]), number(&phase["operations"]));
        match phase["phase"].as_str().unwrap() {
            "fill" => assert_eq!((checked, done), (0.0, 2000.0)),
            "get" => assert_eq!(checked, done),
            "scan" => assert!(checked > 10.0 * done, "{phase}"),
            "mixed" => assert!(checked > 0.0 && checked < done, "{phase}"),
            other => panic!("{other}"),
        }
    }
    // Every entry is written to the log and to a table.
    assert!(number(&phases[0]["storage_written_bytes_per_op"]) > 200.0, "{}", phases[0]);
}

#[test]
fn phases_can_be_chosen_and_gets_fill_the_store_first() {
    let place = TestDirectory::new();
    let done = place.run(
        "bench",
        &[&TINY[..], &["--phases", "get", "--json", "--durability", "sync"]].concat(),
    );
    let found: Value = serde_json::from_slice(done.ok()).unwrap();
    assert_eq!(found["settings"]["durability"], "sync");
    let phases = found["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 1);
    assert_eq!((&phases[0]["phase"], &phases[0]["wrong_values"]), (&"get".into(), &0.into()));
    assert!(number(&phases[0]["values_checked"]) > 0.0);
}

#[test]
fn without_a_directory_it_makes_one_below_the_current_one_and_removes_it() {
    let place = TestDirectory::new();
    std::fs::create_dir(place.data()).unwrap();
    let arguments = [&["bench", "--phases", "fill"][..], &TINY].concat();
    let output = tidekv().args(arguments).current_dir(place.data()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("/tidekv-bench-"), "{text}");
    assert!(names(&place.data()).is_empty(), "{:?}", names(&place.data()));
}

#[test]
fn a_directory_that_is_not_empty_is_rejected_and_unchanged() {
    let place = TestDirectory::new();
    place.run("put", &["k", "v"]).ok();
    let before = place.contents();
    place.run("bench", &TINY).fails(1, &["data", "is not empty"]);
    assert_eq!(place.contents(), before);
    assert_eq!(place.run("get", &["k"]).ok(), b"v");

    let other = place.file("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("letter"), "mine").unwrap();
    run(&[&["bench", "--data", other.to_str().unwrap()][..], &TINY].concat())
        .fails(1, &["other", "is not empty"]);
    assert_eq!(contents(&other)["letter"], b"mine");
}

#[test]
fn an_empty_directory_is_emptied_again() {
    let place = TestDirectory::new();
    std::fs::create_dir(place.data()).unwrap();
    place.run("bench", &[&TINY[..], &["--phases", "fill"]].concat()).ok();
    assert!(names(&place.data()).is_empty());
}

#[test]
fn invalid_settings_are_usage_errors_with_an_explanation() {
    let place = TestDirectory::new();
    for (arguments, says) in [
        (&["--phases", "fill,fly"][..], &["fly", "possible values: fill, get, scan, mixed"][..]),
        (&["--value-size", "15"], &["15", "16 bytes to 16MiB"]),
        (&["--value-size", "1GiB"], &["1GiB", "16 bytes to 16MiB"]),
        (&["--durability", "never"], &["never", "buffered or sync"]),
        (&["--seconds", "0"], &["0.01 to 86400"]),
        (&["--threads", "0"], &["--threads"]),
        (&["--entries", "0"], &["--entries"]),
        (&["--get-percent", "101"], &["--get-percent"]),
        (&["--memory", "much"], &["much", "512MiB"]),
    ] {
        let done = place.run("bench", arguments);
        assert_eq!(done.code, 2, "{done:?}");
        for what in says {
            assert!(done.err.contains(what), "{what:?} is not in {done:?}");
        }
        assert!(!place.data().exists(), "{arguments:?}");
    }
}

#[test]
fn a_signal_stops_it_and_the_directory_is_removed() {
    let place = TestDirectory::new();
    let mut command = tidekv();
    command.arg("bench").arg("--data").arg(place.data()).args(["--entries", "1000000000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !place.data().join("CURRENT").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(1), &b""[..]), "{err}");
    assert!(err.contains("stopped by a signal"), "{err}");
    assert!(!place.data().exists());
}
