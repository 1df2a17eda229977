//! Runs tests under Miri or the thread sanitizer, counts their results and writes a row of evidence
//! for each run (`TIDEKV_ROWS`).
//!
//! ```sh
//! rustup +nightly component add miri rust-src
//! cargo run -p tidekv-testkit --example sanitizers miri
//! cargo run -p tidekv-testkit --example sanitizers tsan
//! cargo run -p tidekv-testkit --example sanitizers miri cache   # runs with that word
//! ```
//!
//! Exits with 1, and writes no row of the run, if a test failed, a report was made, or no test ran.
//! Both build below the target directory, apart from the rest. `TIDEKV_THREADS_SCALE` makes the
//! stress tests under the thread sanitizer longer.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use tidekv_testkit::evidence::Row;

/// A run: package, further arguments, and the subject of the tests.
type Run = (&'static str, &'static [&'static str], &'static str);

/// Every module with `unsafe` that the tidy test lists, except `uring.rs` (Miri does not support
/// io_uring; the contract tests cover it) and the binaries (names for the linker). The cache and
/// the memtable's neighbours are included for their threads.
const MIRI: &[Run] = &[
    ("tidekv-io", &["--lib", "--", "buffer::", "threads::"], "buffer, threads"),
    ("tidekv-io", &["--test", "buffer_pool"], "the pool of buffers"),
    ("tidekv-cache", &["--lib"], "the cache"),
    (
        "tidekv",
        &["--lib", "--", "arena::", "sorted_list::", "memtable::", "queue::"],
        "arena, sorted list, memtable, queue",
    ),
];

const TSAN: &[Run] = &[
    ("tidekv", &["--test", "threads", "--", "--nocapture"], "stress tests of the store"),
    ("tidekv", &["--lib", "--", "--skip", "models::"], "unit tests of the store"),
    ("tidekv-cache", &["--lib", "--", "--skip", "models::"], "unit tests of the cache"),
];

/// The results of the tests of one run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    passed: u64,
    failed: u64,
    /// Data races and undefined behaviour.
    reports: u64,
    /// As reported by tests that count.
    operations: u64,
}

impl Outcome {
    fn of(text: &str) -> Self {
        let mut outcome = Self::default();
        for line in text.lines() {
            let number_before = |word: &str| {
                let (before, _) = line.split_once(word)?;
                before.split_whitespace().last()?.parse::<u64>().ok()
            };
            if line.starts_with("test result:") {
                outcome.passed += number_before(" passed").unwrap_or(0);
                outcome.failed += number_before(" failed").unwrap_or(0);
            }
            let is_report = line.contains("WARNING: ThreadSanitizer")
                || line.contains("error: Undefined Behavior")
                || line.contains("error: memory leaked");
            outcome.reports += u64::from(is_report);
            if let Some((_, number)) = line.split_once("operations: ") {
                outcome.operations += number.trim().parse::<u64>().unwrap_or(0);
            }
        }
        outcome
    }

    fn is_clean(&self) -> bool {
        self.passed > 0 && self.failed == 0 && self.reports == 0
    }
}

fn command(tool: &str, target: &Path, (package, arguments, _): &Run) -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").env("CARGO_TARGET_DIR", target.join(tool));
    command.env_remove(tidekv_testkit::evidence::ROWS_VARIABLE).env_remove("RUSTUP_TOOLCHAIN");
    match tool {
        "miri" => drop(command.args(["miri", "test"])),
        // The standard library is built with the sanitizer too: otherwise accesses that its
        // channels and joins order would count as races.
        _ => drop(
            command
                .env("RUSTFLAGS", "-Zsanitizer=thread")
                .args(["test", "--release", "-Zbuild-std"])
                .args(["--target", "x86_64-unknown-linux-gnu"]),
        ),
    }
    command.args(["-p", package]).args(*arguments);
    command
}

fn run(tool: &str, runs: &[Run]) -> std::io::Result<bool> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| workspace.join("target"));
    let mut is_clean = true;
    for run in runs {
        let output = command(tool, &target, run).current_dir(&workspace).output()?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let outcome = Outcome::of(&text);
        println!("{} ({}): {outcome:?}", run.2, run.0);
        if !output.status.success() || !outcome.is_clean() {
            eprintln!("{text}");
            is_clean = false;
            // An interrupted run or one with reports is not evidence.
            continue;
        }
        let row = Row::new(&format!("proof-{tool}"), "tidekv").param("tests_of", run.2);
        row.metric("tests", outcome.passed + outcome.failed)
            .metric("failures", outcome.failed)
            .metric("reports", outcome.reports)
            .metric("operations", outcome.operations)
            .record();
    }
    Ok(is_clean)
}

fn main() -> ExitCode {
    let tool = std::env::args().nth(1).unwrap_or_default();
    let word = std::env::args().nth(2).unwrap_or_default();
    let runs = match tool.as_str() {
        "miri" => MIRI,
        "tsan" => TSAN,
        _ => {
            eprintln!("say `miri` or `tsan`");
            return ExitCode::FAILURE;
        }
    };
    let runs: Vec<Run> = runs.iter().copied().filter(|run| run.2.contains(&word)).collect();
    if runs.is_empty() {
        eprintln!("no run is of \"{word}\"");
        return ExitCode::FAILURE;
    }
    match run(&tool, &runs) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_and_failures_are_not_clean() {
        let good = "operations: 12\nx\ntest result: ok. 3 passed; 0 failed; 0 ignored;\n";
        let outcome = Outcome::of(good);
        assert_eq!(outcome, Outcome { passed: 3, failed: 0, reports: 0, operations: 12 });
        assert!(outcome.is_clean());
        for bad in [
            "test result: FAILED. 3 passed; 1 failed;",
            "test result: ok. 0 passed; 0 failed;",
            "WARNING: ThreadSanitizer: data race (pid=1)\ntest result: ok. 3 passed; 0 failed;",
            "error: Undefined Behavior: x",
        ] {
            assert!(!Outcome::of(bad).is_clean(), "{bad}");
        }
    }
}
