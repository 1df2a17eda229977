//! Runs the binary and captures its output and exit code.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The binary, without the environment's settings.
pub fn tidekv() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidekv"));
    command.env_remove("TIDEKV_PASSWORD").env_remove("TIDEKV_LOG").stdin(Stdio::null());
    command
}

/// The output of one run and its exit code.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Done {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    /// Standard output of a run that succeeded without messages.
    #[track_caller]
    pub fn ok(&self) -> &[u8] {
        assert_eq!((self.code, &*self.err), (0, ""), "{self:?}");
        &self.out
    }

    /// Asserts that the run failed with one line on standard error that contains all of `says`.
    #[track_caller]
    pub fn fails(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        for what in says {
            assert!(self.err.contains(what), "{what:?} is not in {self:?}");
        }
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A temporary directory with a data directory in it.
pub struct TestDirectory(TempDir);

impl TestDirectory {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.file(name), bytes).unwrap();
        self.file(name)
    }

    /// The command `name` on the data directory.
    pub fn run(&self, name: &str, arguments: &[&str]) -> Done {
        self.run_with(name, arguments, b"")
    }

    /// The same with `input` on standard input.
    pub fn run_with(&self, name: &str, arguments: &[&str], input: &[u8]) -> Done {
        let mut command = tidekv();
        command.arg(name).arg("--data").arg(self.data()).args(arguments);
        feed(command, input)
    }

    /// Every file of the data directory.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        contents(&self.data())
    }
}

pub fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    });
    entries.collect()
}

/// Runs the binary with `arguments`.
pub fn run<A: AsRef<OsStr>>(arguments: &[A]) -> Done {
    let mut command = tidekv();
    command.args(arguments);
    feed(command, b"")
}

fn feed(mut command: Command, input: &[u8]) -> Done {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // The command may exit before it reads all of it.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    });
    output.into()
}
