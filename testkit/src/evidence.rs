//! Rows of evidence: the results of one run of an experiment or a proof, with place, time and
//! commit.
//!
//! A row is one line of JSON,
//! `{"experiment","subject","params":{},"metrics":{},"seed","host","commit","date"}`. Runs append
//! rows to a file; reports are generated only from such files, so no figure in a document is typed
//! by hand.
//!
//! Guarantees: a row is appended whole, in one write at the end of the file, so several processes
//! may share one. Relies on a local file system for that.
//!
//! This is a log of development, not data of the store: it deliberately bypasses the storage
//! traits.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "rows of evidence are written by tests and the lab, for people"
)]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
pub use serde_json::Value;

/// The variable that names the file to which [`Row::record`] appends.
pub const ROWS_VARIABLE: &str = "TIDEKV_ROWS";
/// The variable with the host's name for rows, where its own name is not informative.
pub const HOST_VARIABLE: &str = "TIDEKV_HOST";
/// The variable that names the commit in rows, where the binary runs outside a
/// checkout.
pub const COMMIT_VARIABLE: &str = "TIDEKV_COMMIT";

/// The results of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The name of the experiment or proof, as in `engine-get-cold`.
    pub experiment: String,
    /// The measured subject: the engine, then its setting, as in `rocksdb:lru`.
    pub subject: String,
    /// Parameters common to all subjects, such as keys, threads, budget.
    pub params: BTreeMap<String, Value>,
    /// The results, by the names that the documentation of the lab defines.
    pub metrics: BTreeMap<String, Value>,
    /// The seed that repeats the run.
    pub seed: u64,
    /// The machine.
    pub host: String,
    /// The commit, with the suffix `-dirty` if files differed.
    pub commit: String,
    /// The time (UTC) of the row, as in `2026-11-21T08:15:00Z`, which orders runs of one day. Older
    /// rows have only the day.
    pub date: String,
}

impl Row {
    /// A row for this machine, commit and time, without parameters and metrics.
    pub fn new(experiment: &str, subject: &str) -> Self {
        Self {
            experiment: experiment.to_owned(),
            subject: subject.to_owned(),
            params: BTreeMap::new(),
            metrics: BTreeMap::new(),
            seed: 0,
            host: host(),
            commit: commit(),
            date: now(),
        }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a metric.
    #[must_use]
    pub fn metric(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.metrics.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The day (UTC) of [`Row::date`], as in `2026-11-21`.
    pub fn day(&self) -> &str {
        self.date.split_once('T').map_or(&self.date, |(day, _)| day)
    }

    /// The metric `name` as a number, if it exists and is one.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.metrics.get(name)?.as_f64()
    }

    /// Appends the row to the file at `path`, which is created if missing.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn append_to(&self, path: &Path) -> io::Result<()> {
        let mut line = serde_json::to_vec(self).expect("strings and numbers become JSON");
        line.push(b'\n');
        OpenOptions::new().create(true).append(true).open(path)?.write_all(&line)
    }

    /// Appends the row to the file that [`ROWS_VARIABLE`] names; without it, does nothing. Tests
    /// call this: they record rows only in evidence runs.
    ///
    /// # Panics
    /// If the row cannot be written: evidence must not go missing silently.
    pub fn record(&self) {
        if let Some(path) = std::env::var_os(ROWS_VARIABLE).map(PathBuf::from) {
            self.append_to(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// The extension of a file of rows compressed by Zstandard.
pub const COMPRESSED: &str = "zst";

/// Reads the rows of the file at `path`, in their order. A file with the extension [`COMPRESSED`]
/// is decompressed.
///
/// # Errors
/// Those of the file system and of decompression; a line that is not a row is
/// [`io::ErrorKind::InvalidData`] and names its number.
pub fn read(path: &Path) -> io::Result<Vec<Row>> {
    let file = File::open(path)?;
    let reader: Box<dyn BufRead> = match path.extension() {
        Some(extension) if extension == COMPRESSED => {
            Box::new(BufReader::new(zstd::Decoder::new(file)?))
        }
        _ => Box::new(BufReader::new(file)),
    };
    let mut rows = Vec::new();
    for (number, line) in reader.lines().enumerate() {
        let row = serde_json::from_str(&line?).map_err(|error| {
            let text = format!("{}, line {}: {error}", path.display(), number + 1);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        rows.push(row);
    }
    Ok(rows)
}

/// This machine's name: [`HOST_VARIABLE`], or the system's host name, with the number of
/// processors.
pub fn host() -> String {
    std::env::var(HOST_VARIABLE).unwrap_or_else(|_| {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        format!("{name}{processors}c")
    })
}

/// The commit of the working directory: [`COMMIT_VARIABLE`], or git's, or `unknown`.
pub fn commit() -> String {
    std::env::var(COMMIT_VARIABLE).unwrap_or_else(|_| {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            output.status.success().then_some(text)
        };
        let Some(hash) = git(&["rev-parse", "--short=7", "HEAD"]) else { return "unknown".into() };
        // Rows of published runs do not change code.
        match git(&["status", "--porcelain", "--untracked-files=no", "--", ":!docs/benchmarks"]) {
            Some(changes) if changes.is_empty() => hash,
            _ => format!("{hash}-dirty"),
        }
    })
}

/// The current time (UTC), as in `2026-11-21T08:15:00Z`.
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        let rows: Vec<_> = (0..3u64)
            .map(|n| {
                let row = Row::new("engine-open", "tidekv:block-lru").param("keys", n).seed(n);
                row.metric("ops_per_s", n as f64 / 3.0)
            })
            .collect();
        rows.iter().for_each(|row| row.append_to(&path).unwrap());
        assert_eq!(read(&path).unwrap(), rows);
        assert_eq!(rows[1].number("ops_per_s"), Some(1.0 / 3.0));
        assert_eq!(rows[1].number("p50_us"), None);
    }

    #[test]
    fn compressed_rows_are_read_and_a_torn_file_of_them_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let (plain, compressed) =
            (directory.path().join("rows.jsonl"), directory.path().join("rows.jsonl.zst"));
        let rows: Vec<_> = (0..100u64).map(|n| Row::new("a", "b").metric("n", n)).collect();
        rows.iter().for_each(|row| row.append_to(&plain).unwrap());
        let bytes = zstd::encode_all(File::open(&plain).unwrap(), 19).unwrap();
        std::fs::write(&compressed, &bytes).unwrap();
        assert_eq!(read(&compressed).unwrap(), rows);
        std::fs::write(&compressed, &bytes[..bytes.len() / 2]).unwrap();
        assert!(read(&compressed).is_err());
    }

    #[test]
    fn a_broken_line_is_named_by_number() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        Row::new("a", "b").append_to(&path).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"experiment\":\n").unwrap();
        let error = read(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn row_has_host_commit_and_time() {
        let row = Row::new("a", "b");
        assert!(!row.host.is_empty() && !row.commit.is_empty());
        assert!(row.date.len() == 20 && row.date.starts_with(row.day()), "{}", row.date);
        assert!(row.day().len() == 10 && row.day().starts_with("20"), "{}", row.date);
    }

    #[test]
    fn an_older_row_has_only_a_day_and_comes_before_the_moments_of_it() {
        let mut old = Row::new("a", "b");
        old.date = "2026-11-21".into();
        assert_eq!(old.day(), "2026-11-21");
        assert!(*old.date < *"2026-11-21T00:00:00Z");
    }
}
