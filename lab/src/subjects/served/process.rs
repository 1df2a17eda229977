//! A server in a separate process; that of a cache listens on a Unix socket in its directory.
//!
//! It guarantees:
//! 1. The end of the server's output on standard error is kept and reported with a failure; the
//!    server never blocks on it.
//! 2. No process remains: the server ends with its [`ServerProcess`], and its command must make it
//!    end with this process.
//!
//! The server runs in its directory and gets relative paths, and clients connect to the socket
//! through the open directory: a socket path has at most a hundred bytes, and characters with a
//! special meaning for a server cannot occur in its arguments.

use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process, setpriority_process};
use tidekv_io::{Clock, SystemClock, threads};

use crate::failure::{Failure, Result};
use crate::machine::kernel;
use crate::subjects::served::client::{Connection, PATIENCE};

/// The name of the socket in the directory.
pub(super) const SOCKET: &str = "socket";

/// The time limit for a server to listen.
const START_MAX: Duration = Duration::from_secs(10);
/// The time limit for a server to end; after it, the server is killed.
const END_MAX: Duration = Duration::from_secs(30);
/// The polling period.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// The lowest thread priority.
const PRIORITY_LOWEST: i32 = 19;

/// The maximum kept output of a server, its end.
const WORDS_MAX: usize = 4096;

/// A running server.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    /// Its name in failures.
    name: &'static str,
    child: Child,
    words: Arc<Mutex<Vec<u8>>>,
    /// Removed with the server.
    reader: Option<JoinHandle<()>>,
    directory: OwnedFd,
}

impl ServerProcess {
    /// Starts `command` in `directory`.
    pub(crate) fn start(
        name: &'static str,
        mut command: Command,
        directory: &Path,
    ) -> Result<Self> {
        let failed =
            |error: std::io::Error| Failure::system(format!("could not start {name}"), error);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(directory, flags, Mode::empty())
            .map_err(|error| failed(error.into()))?;
        let mut child =
            command.current_dir(directory).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let words = Arc::new(Mutex::new(Vec::new()));
        let errors = child.stderr.take();
        let mut server =
            Self { name, child, words: Arc::clone(&words), reader: None, directory: opened };
        if let Some(errors) = errors {
            let body = move || keep_words(errors, &words);
            server.reader = Some(threads::spawn("server-words", body).map_err(failed)?);
        }
        Ok(server)
    }

    /// Its standard input and output, if its command has them as pipes.
    pub(super) fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// Waits until it accepts a connection.
    pub(super) fn when_listening(&mut self) -> Result<Connection<UnixStream>> {
        self.when_served(START_MAX, Self::connect)
    }

    /// Waits, no longer than `patience`, until `attempt` succeeds.
    pub(crate) fn when_served<T>(
        &mut self,
        patience: Duration,
        attempt: impl Fn(&Self) -> std::io::Result<T>,
    ) -> Result<T> {
        let clock = SystemClock::new();
        let until_ns = clock.monotonic_ns() + patience.as_nanos() as u64;
        loop {
            let error = match attempt(self) {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            if let Some(status) = self.ended()? {
                // Then its output is complete.
                self.reader.take().map(JoinHandle::join);
                let what = format!("{} did not start ({status})", self.name);
                return Err(self.with_words(Failure::new(what)));
            }
            if clock.monotonic_ns() > until_ns {
                let what = format!("{} does not listen after {patience:?}", self.name);
                return Err(self.with_words(Failure::system(what, error)));
            }
            clock.sleep(BETWEEN_LOOKS);
        }
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Another connection to it.
    pub(super) fn connect(&self) -> std::io::Result<Connection<UnixStream>> {
        let directory = self.directory.as_raw_fd();
        let stream = UnixStream::connect(format!("/proc/self/fd/{directory}/{SOCKET}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection::new(stream))
    }

    /// `failure` with the server's output.
    pub(super) fn with_words(&self, failure: Failure) -> Failure {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words);
        match words.trim() {
            "" => failure,
            words => Failure {
                message: format!("{}: {} says: {words}", failure.message, self.name),
                ..failure
            },
        }
    }

    /// Lowers the priority of its first thread below all others.
    pub(super) fn put_first_thread_behind(&self) -> Result<()> {
        let failed = |error: rustix::io::Errno| {
            let what = format!("could not lower the priority of {}", self.name);
            Failure::system(what, std::io::Error::from(error))
        };
        // Linux has priorities per thread, and the first one has the process id.
        let thread = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        setpriority_process(thread, PRIORITY_LOWEST).map_err(failed)
    }

    /// Its processor time.
    pub(super) fn cpu_ns(&self) -> u64 {
        kernel::cpu_ns_of(self.child.id())
    }

    /// Its maximum resident memory.
    pub(super) fn resident_bytes_max(&self) -> u64 {
        kernel::resident_bytes_max_of(self.child.id())
    }

    /// Shuts it down, and waits for its end.
    pub(crate) fn terminate(self) -> Result<()> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            // It has not been waited for, so the process id is still its own.
            kill_process(process, Signal::TERM)
                .map_err(|error| Failure::system(format!("could not end {}", self.name), error))?;
        }
        // The exit status after a shutdown does not matter.
        self.when_ended().map(drop)
    }

    /// Waits for its end after a shutdown.
    pub(super) fn when_ended(mut self) -> Result<ExitStatus> {
        let clock = SystemClock::new();
        let until_ns = clock.monotonic_ns() + END_MAX.as_nanos() as u64;
        while clock.monotonic_ns() < until_ns {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            clock.sleep(BETWEEN_LOOKS);
        }
        let what = format!("{} did not end in {END_MAX:?} and is killed", self.name);
        Err(self.with_words(Failure::new(what)))
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let failed = |error| Failure::system(format!("could not await {}", self.name), error);
        self.child.try_wait().map_err(failed)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // An ended process was waited for and cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the output of a server until it ends, and keeps its end.
fn keep_words(mut errors: ChildStderr, words: &Mutex<Vec<u8>>) {
    let mut some = [0; 1024];
    loop {
        match errors.read(&mut some) {
            Ok(0) => return,
            Ok(bytes) => {
                let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
                words.extend(&some[..bytes]);
                let surplus = words.len().saturating_sub(WORDS_MAX);
                words.drain(..surplus);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
