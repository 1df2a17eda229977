//! Breaks the store in the ways that `crates/store/tests/mutations/list.rs` lists, one at a time, and
//! checks that the named test notices.
//!
//! ```sh
//! cargo run -p tidekv-testkit --example mutations            # all of them
//! cargo run -p tidekv-testkit --example mutations snapshot   # those with that word in the name
//!                                                            # of mutation, test or target
//! cargo run -p tidekv-testkit --example mutations 1/2        # the first half of them
//! ```
//!
//! The workspace is copied below the target directory and changed there only. Each named test must
//! pass in the unchanged copy. With a mutation the copy must still compile, and the test must run
//! to its end and fail: a mutation that does not compile or hangs proves nothing. Prints a table,
//! writes a row of evidence for each (`TIDEKV_ROWS`), and exits with 1 if a mutation was not
//! noticed. Each part of the list has a copy of its own, so parts can run side by side.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool of the workshop: copies sources and runs cargo"
)]

#[path = "../../crates/store/tests/mutations/list.rs"]
mod list;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use list::{MUTATIONS, Mutation};
use tidekv_testkit::evidence::Row;

/// Timeout of a full build on a slow machine.
const BUILD_S_MAX: u32 = 1800;

/// The named tests take less than a second.
const TEST_S_MAX: u32 = 120;

/// The outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    DidNotCompile,
    DidNotEnd,
    /// Neither of the above: the test was not found, or did not start.
    DidNotRun,
}

/// The copy of the workspace in which mutations are tried.
struct Copy {
    root: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Updates the copy; unchanged files keep their times, so that little is rebuilt.
    fn new(workspace: &Path, scratch: &Path) -> io::Result<Self> {
        let root = scratch.join("tree");
        fs::create_dir_all(&root)?;
        mirror(workspace, &root)?;
        Ok(Self { root, target: scratch.join("target") })
    }

    fn cargo(
        &self,
        mutation: &Mutation,
        seconds: u32,
        rest: &[&str],
    ) -> io::Result<(bool, String)> {
        let target = match mutation.target {
            "lib" => vec!["--lib"],
            file => vec!["--test", file],
        };
        let output = Command::new("timeout")
            .arg(seconds.to_string())
            .args(["cargo", "test", "-p", mutation.package])
            .args(target)
            .args(rest)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env_remove(tidekv_testkit::evidence::ROWS_VARIABLE)
            .output()?;
        let text = [output.stdout, output.stderr].concat();
        Ok((output.status.code() == Some(124), String::from_utf8_lossy(&text).into_owned()))
    }

    fn test(&self, mutation: &Mutation) -> io::Result<(Outcome, String)> {
        let (_, built) = self.cargo(mutation, BUILD_S_MAX, &["--no-run"])?;
        if !built.contains("Executable ") {
            return Ok((Outcome::DidNotCompile, built));
        }
        let (is_late, text) =
            self.cargo(mutation, TEST_S_MAX, &["--", "--exact", mutation.test])?;
        let said = |end: &str| text.contains(&format!("test {} ... {end}\n", mutation.test));
        let outcome = match () {
            () if is_late => Outcome::DidNotEnd,
            () if said("ok") => Outcome::Passed,
            () if said("FAILED") => Outcome::Failed,
            () => Outcome::DidNotRun,
        };
        Ok((outcome, text))
    }

    /// The outcome of the test with the mutation in place.
    fn mutate(&self, mutation: &Mutation) -> io::Result<(Outcome, String)> {
        let path = self.root.join(mutation.file);
        let sound = fs::read_to_string(&path)?;
        let places = sound.matches(mutation.find).count();
        assert_eq!(places, 1, "number of occurrences of the text in {}", mutation.file);
        fs::write(&path, sound.replace(mutation.find, mutation.replace))?;
        let outcome = self.test(mutation);
        fs::write(&path, sound)?;
        outcome
    }
}

/// Copies `from` to `to`, without build outputs and history.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    let mut there = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if ["target", ".git"].iter().any(|&out| name == out) {
            continue;
        }
        let copy = to.join(&name);
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&copy)?;
            mirror(&entry.path(), &copy)?;
        } else {
            let bytes = fs::read(entry.path())?;
            if fs::read(&copy).ok().as_ref() != Some(&bytes) {
                fs::write(&copy, bytes)?;
            }
        }
        there.insert(name);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if there.contains(&entry.file_name()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn record(mutation: &Mutation, caught: bool, seconds: f64) {
    Row::new("proof-mutations", "tidekv")
        .param("mutation", mutation.name)
        .param("test", format!("{}::{}", mutation.target, mutation.test))
        .metric("caught", u64::from(caught))
        .metric("seconds", (seconds * 10.0).round() / 10.0)
        .record();
}

/// `2/3`: the second of three parts of the list.
fn part_of(word: &str) -> Option<(usize, usize)> {
    let (part, parts) = word.split_once('/')?;
    let (part, parts) = (part.parse().ok()?, parts.parse().ok()?);
    (1..=parts).contains(&part).then_some((part, parts))
}

fn run() -> io::Result<bool> {
    let (parts, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| part_of(word).is_some());
    let (part, parts) = parts.first().and_then(|word| part_of(word)).unwrap_or((1, 1));
    let has = |m: &Mutation, word: &str| {
        m.name.contains(word) || m.test.contains(word) || m.target == word
    };
    let is_chosen = |m: &&Mutation| words.iter().all(|word| has(m, word));
    let chosen: Vec<_> = MUTATIONS.iter().filter(is_chosen).collect();
    let size = chosen.len().div_ceil(parts).max(1);
    let chosen = chosen.chunks(size).nth(part - 1).unwrap_or_default();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let scratch = target.unwrap_or_else(|| workspace.join("target"));
    let scratch = match parts {
        1 => scratch.join("mutations"),
        parts => scratch.join(format!("mutations-{part}-of-{parts}")),
    };
    let copy = Copy::new(&workspace, &scratch)?;
    let mut tested = BTreeSet::new();
    for mutation in chosen {
        if !tested.insert((mutation.package, mutation.target, mutation.test)) {
            continue;
        }
        let (sound, text) = copy.test(mutation)?;
        if sound != Outcome::Passed {
            eprintln!("{text}\n{}: unchanged, the test ended with {sound:?}", mutation.name);
            return Ok(false);
        }
    }
    println!("{} tests pass in the unchanged copy", tested.len());
    println!("{:<9} {:>7}  {:<62} test", "outcome", "seconds", "mutation");
    let mut all_caught = !chosen.is_empty();
    for mutation in chosen {
        let started = Instant::now();
        let (outcome, text) = copy.mutate(mutation)?;
        let seconds = started.elapsed().as_secs_f64();
        let caught = outcome == Outcome::Failed;
        let word = if caught { "caught".to_owned() } else { format!("{outcome:?}") };
        println!("{word:<9} {seconds:>7.1}  {:<62} {}", mutation.name, mutation.test);
        if !caught {
            eprintln!("{text}");
        }
        record(mutation, caught, seconds);
        all_caught &= caught;
    }
    Ok(all_caught)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
