//! The test suite of memcached, written in Perl, against TideKV and against memcached.
//!
//! ```sh
//! cargo build
//! cargo run -p tidekv-cli --example memcached_suite -- /tmp/memcached
//! cargo run -p tidekv-cli --example memcached_suite -- /tmp/memcached getset metaget
//! ```
//!
//! The argument is a source tree of memcached 1.6.45 in which it has been built, configured with
//! `--enable-sasl --enable-tls`; this builds and downloads nothing. Takes `perl` and `cp` from the
//! path, and `tidekv` from the parent of the example's folder. Runs every file of tests, or those
//! that are named, from two copies of the tree, of which one has a script for `tidekv cache` in place
//! of memcached. Prints the tests that memcached passes and TideKV does not, except those that
//! `known.txt` beside this file explains, and the lines of `known.txt` that no test needs any more.
//! Exit code 1 if there are any.
//!
//! Tests of one file whose names differ in numbers only count as one, which passes if all of them
//! do. A test without a name is named by its place after the last one that has one, and the end of a
//! file, at which the number of its tests is checked, is the test `(end)`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool for developers: runs servers and a test suite"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The binary that the suite starts, in its tree.
const PROGRAM: &str = "memcached-debug";
/// Files of tests that run at the same time.
const PARALLEL: usize = 4;
/// The longest file takes about 30 s against memcached.
const FILE_TIMEOUT: Duration = Duration::from_secs(100);
/// The name of the test that a file has run all its tests.
const END: &str = "(end)";
const PASSED: &str = "passed";
/// Longer names, which contain values, are cut.
const NAME_CHARS_MAX: usize = 80;
/// The differences that are explained: file | test | reason, with `*` for any text.
const KNOWN: &str = include_str!("known.txt");

/// The script in place of memcached. Tests move the clock, listen on all addresses, and give a UDP
/// port even if they do not use it.
fn script(binary: &Path) -> String {
    format!(
        "#!/bin/bash\narguments=()\nwhile [ $# -gt 0 ]; do\n  case \"$1\" in\n    -U) shift;;\n    \
         *) arguments+=(\"$1\");;\n  esac\n  shift\ndone\n\
         exec '{}' cache --debugtime --insecure \"${{arguments[@]}}\"\n",
        binary.display()
    )
}

/// `tidekv` beside the folder of this example.
fn binary() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(Path::parent).ok_or("the example is in a folder")?;
    let binary = folder.join("tidekv");
    match binary.exists() {
        true => Ok(binary),
        false => Err(format!("{} is missing: run `cargo build`", binary.display()).into()),
    }
}

/// Copies the built tree of memcached to `place`.
fn copy_tree(source: &Path, place: &Path) -> Result<()> {
    if !source.join(PROGRAM).exists() {
        return Err(format!("memcached is not built in {}", source.display()).into());
    }
    let copied = Command::new("cp").arg("-r").arg(source).arg(place).status()?;
    if copied.success() { Ok(()) } else { Err("the tree of memcached cannot be copied".into()) }
}

/// The names of all files of tests in `tree`.
fn all_files(tree: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(tree.join("t"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".t").map(String::from));
    }
    names.sort();
    Ok(names)
}

/// Whether each test of a file passed, by name.
type Outcomes = BTreeMap<String, bool>;

/// Runs a file of tests in `tree`.
fn run(tree: &Path, name: &str) -> Result<Outcomes> {
    // Beside the tree, whose files a test checks.
    let output = tree.with_extension(format!("{name}.tap"));
    let mut suite = Command::new("perl")
        .args(["-Ilib", "-I.", "-It/lib", &format!("t/{name}.t")])
        .current_dir(tree)
        // Some tests take keys in the order of a hash.
        .env("PERL_HASH_SEED", "0")
        .stdin(Stdio::null())
        .stdout(File::create(&output)?)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("perl does not start: {error}"))?;
    let begun = Instant::now();
    while suite.try_wait()?.is_none() && begun.elapsed() < FILE_TIMEOUT {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Servers that it has left too.
    if let Some(group) = Pid::from_raw(i32::try_from(suite.id())?) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    suite.wait()?;
    Ok(parse(&String::from_utf8_lossy(&fs::read(output)?)))
}

/// Reads the output of a file, in the form "Test Anything Protocol".
fn parse(output: &str) -> Outcomes {
    let (mut outcomes, mut count, mut planned) = (Outcomes::new(), 0, None);
    // The last test with a name, and how many without one have followed.
    let (mut last, mut unnamed) = (String::from("the start"), 0);
    for line in output.lines() {
        if let Some(plan) = line.strip_prefix("1..") {
            planned = plan.split(' ').next().and_then(|number| number.parse::<u32>().ok());
        }
        let (rest, has_passed) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, false),
            (None, None) => continue,
        };
        count += 1;
        let is_skipped = rest.contains("# skip");
        let (_, name) = rest.split_once(" - ").unwrap_or((rest, ""));
        if name.is_empty() {
            unnamed += 1;
        } else {
            (last, unnamed) = (without_numbers(name), 0);
        }
        let name = if unnamed == 0 { last.clone() } else { format!("{unnamed} after {last}") };
        if !is_skipped {
            let all_passed = outcomes.entry(name).or_insert(true);
            *all_passed &= has_passed;
        }
    }
    outcomes.insert(END.into(), planned == Some(count));
    outcomes
}

/// The tests that `stock` passes, with how `ours` end; a file that is skipped as a whole has only an
/// end.
fn compare(stock: &Outcomes, ours: Option<&Outcomes>) -> Vec<(String, &'static str)> {
    let none = Outcomes::new();
    let ours = ours.unwrap_or(&none);
    let passed = stock.iter().filter(|(_, has_passed)| **has_passed).map(|(name, _)| name);
    if stock.len() > 1 && ours.len() <= 1 {
        return vec![(END.into(), "has run no test")];
    }
    let outcome = |name: &String| match ours.get(name) {
        Some(true) => PASSED,
        Some(false) => "failed",
        None => "not run",
    };
    passed.map(|name| (name.clone(), outcome(name))).collect()
}

/// The name of a test with `N` for each number, many of which are measured.
fn without_numbers(name: &str) -> String {
    let mut found = String::new();
    for char in name.trim().chars().take(NAME_CHARS_MAX) {
        match char.is_ascii_digit() {
            true if found.ends_with('N') => {}
            true => found.push('N'),
            false => found.push(char),
        }
    }
    found
}

/// Runs files of tests in `tree`, several at the same time.
fn run_all(tree: &Path, names: &[String]) -> Result<BTreeMap<String, Outcomes>> {
    let (left, done) = (Mutex::new(names.iter()), Mutex::new(BTreeMap::new()));
    let work = || -> Result<()> {
        loop {
            let next = left.lock().ok().and_then(|mut left| left.next());
            let Some(name) = next else { return Ok(()) };
            let outcomes = run(tree, name)?;
            done.lock().map_err(|_| "a thread panicked")?.insert(name.clone(), outcomes);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..PARALLEL).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(done.into_inner()?)
}

/// Whether `text` has the form of `pattern`, in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        match parts.peek() {
            None => return rest.ends_with(part),
            Some(_) => match rest.split_once(part) {
                Some((_, behind)) => rest = behind,
                None => return false,
            },
        }
    }
    rest.is_empty()
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (source, names) =
        arguments.split_first().ok_or("usage: memcached_suite SOURCE [FILE ...], see its head")?;
    let place = tempfile::tempdir()?;
    let trees = [place.path().join("memcached"), place.path().join("tidekv")];
    for tree in &trees {
        copy_tree(Path::new(source), tree)?;
    }
    let program = trees[1].join(PROGRAM);
    fs::remove_file(&program)?;
    fs::write(&program, script(&binary()?))?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    let all = all_files(&trees[0])?;
    let names = if names.is_empty() { all.clone() } else { names.to_vec() };
    // One after the other: some tests use fixed ports.
    let (stock, ours) = (run_all(&trees[0], &names)?, run_all(&trees[1], &names)?);
    let known: Vec<Vec<&str>> = KNOWN
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split(" | ").collect())
        .collect();
    let (mut needed, mut unexplained, mut files_equal) = (BTreeSet::new(), 0, 0);
    let (mut passed, mut explained) = (0, 0);
    for (file, of_stock) in &stock {
        let mut is_equal = true;
        for (name, outcome) in compare(of_stock, ours.get(file)) {
            if outcome == PASSED {
                passed += 1;
                continue;
            }
            is_equal = false;
            let is_known = |line: &Vec<&str>| is_like(line[0], file) && is_like(line[1], &name);
            match known.iter().position(is_known) {
                Some(number) => {
                    needed.insert(number);
                    explained += 1;
                }
                None => {
                    unexplained += 1;
                    println!("{file} | {name} | {outcome}");
                }
            }
        }
        files_equal += usize::from(is_equal);
    }
    for (number, line) in known.iter().enumerate() {
        if names.len() == all.len() && !needed.contains(&number) {
            unexplained += 1;
            println!("known.txt: no test needs: {}", line.join(" | "));
        }
    }
    println!(
        "{passed} tests passed, {explained} differ and are explained; {files_equal} of {} files \
         have no difference",
        stock.len()
    );
    Ok(if unexplained == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
