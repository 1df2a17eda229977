//! Runs the programs of `examples/`, so that they cannot rot: each asserts its result.
#![allow(dead_code, reason = "the programs' own `main`")]

#[path = "../examples/async_tokio.rs"]
mod async_tokio;
#[path = "../examples/backup.rs"]
mod backup;
#[path = "../examples/counters.rs"]
mod counters;
#[path = "../examples/getting_started.rs"]
mod getting_started;
#[path = "../examples/pagination.rs"]
mod pagination;
#[path = "../examples/secondary_index.rs"]
mod secondary_index;
#[path = "../examples/simulated_disk.rs"]
mod simulated_disk;
#[path = "../examples/ttl.rs"]
mod ttl;

#[test]
fn async_tokio_runs() {
    async_tokio::run().unwrap();
}

#[test]
fn backup_runs() {
    backup::run().unwrap();
}

#[test]
fn counters_runs() {
    counters::run().unwrap();
}

#[test]
fn getting_started_runs() {
    getting_started::run().unwrap();
}

#[test]
fn pagination_runs() {
    pagination::run().unwrap();
}

#[test]
fn secondary_index_runs() {
    secondary_index::run().unwrap();
}

#[test]
fn simulated_disk_runs() {
    simulated_disk::run().unwrap();
}

#[test]
fn ttl_runs() {
    ttl::run().unwrap();
}

/// Every program of the folder has a test above.
#[test]
#[allow(clippy::disallowed_methods, reason = "reads the crate's own sources")]
fn every_example_is_run() {
    let tests = include_str!("examples.rs");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut programs = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.strip_suffix(".rs").unwrap();
        assert!(tests.contains(&format!("{name}::run()")), "{name} is not run");
        programs += 1;
    }
    assert_eq!(programs, 8);
}
