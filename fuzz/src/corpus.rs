//! Replays the committed corpora without libFuzzer.

use std::fs;
use std::path::PathBuf;

/// Name and function of a target.
pub type Target = (&'static str, fn(&[u8]));

/// `fuzz/corpus/<target>`, relative to a crate's folder.
fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Runs the target over every file of its corpus, in order; returns the number of files.
pub fn replay((name, target): Target) -> usize {
    let entries = fs::read_dir(folder(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in &paths {
        let bytes = fs::read(path).unwrap();
        let run = std::panic::catch_unwind(|| target(&bytes));
        assert!(run.is_ok(), "{} fails {name}", path.display());
    }
    paths.len()
}

/// Runs a target over its seeds; with `TIDEKV_BLESS=1` writes them into its corpus, as a start for
/// libFuzzer.
pub fn plant(seeds: &[(Target, Vec<u8>)]) {
    let bless = std::env::var_os("TIDEKV_BLESS").is_some();
    for (number, ((name, target), bytes)) in seeds.iter().enumerate() {
        target(bytes);
        if bless {
            fs::create_dir_all(folder(name)).unwrap();
            fs::write(folder(name).join(format!("seed-{number:02}")), bytes).unwrap();
        }
    }
}
