//! The log of a server, on standard error.
//!
//! Guarantees:
//! 1. A thread that logs never fails and never waits for the reader of standard error: a thread of
//!    the log writes the lines. What cannot be written (a full disk, a pipe without a reader), or
//!    waits behind more than [`QUEUE_BYTES_MAX`], is dropped and counted; the count is written once
//!    lines can be written again.
//! 2. A message that repeats is counted, not repeated (`repeats.rs`). This holds for all crates,
//!    as every line comes through here.
//! 3. A panic of any thread is a line of the log. Unwinding is up to the thread.
//! 4. [`finish`] writes the lines that still wait, within [`FINISH`].

mod repeats;

use std::collections::VecDeque;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidekv_io::{Clock, SystemClock, threads};
use tracing::Metadata;
use tracing::callsite::Identifier;
use tracing_subscriber::fmt::MakeWriter;

use crate::environment;
use repeats::Repeats;

/// Lines that may wait to be written.
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// Time for the last lines at the end of the process.
const FINISH: Duration = Duration::from_secs(1);
/// Pause before the next attempt, if standard error accepts nothing and does not block.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// The default log filter: warnings, and resizes of elastic mode with their reasons.
const DEFAULT_FILTER: &str = "warn,tidekv_memcached::elastic=info";

/// The log of this process, once it is started.
static LOG: OnceLock<Log> = OnceLock::new();

/// How much the log of a server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Warnings, and resizes of elastic mode with their reasons.
    #[default]
    Default,
    /// The above, and information.
    Info,
    /// The above, and what is needed to find faults.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// The level of this number of `-v`.
    pub fn of_verbosity(count: u8) -> Self {
        match count {
            0 => Self::Default,
            1 => Self::Info,
            2 => Self::Debug,
            _ => Self::Trace,
        }
    }

    fn directives(self) -> &'static str {
        match self {
            Self::Default => DEFAULT_FILTER,
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Starts the log, with the filter of the environment or the default one.
pub fn start() {
    start_at(Level::default());
}

/// Starts the log, with the filter of the environment or that of `level`.
pub fn start_at(level: Level) {
    let log = LOG.get_or_init(|| Log::new(Box::new(standard_error)));
    let configured = std::env::var(environment::LOG);
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing_subscriber::filter::LevelFilter::WARN.into())
        .parse_lossy(configured.as_deref().unwrap_or(level.directives()));
    // Fails only if a subscriber is already installed.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(log.clone())
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false)
        .try_init();
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("?");
        let text = panic.payload().downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("a value that is no text");
        match panic.location() {
            Some(place) => tracing::error!("thread {name} panicked at {place}: {text}"),
            None => tracing::error!("thread {name} panicked: {text}"),
        }
    }));
}

/// Writes the lines that still wait, before the process ends.
pub fn finish() {
    if let Some(log) = LOG.get() {
        log.finish();
    }
}

/// Writes a part of `bytes` to standard error, without the lock of the standard library: while the
/// write waits for a reader, other threads can still write there.
fn standard_error(bytes: &[u8]) -> std::io::Result<usize> {
    Ok(rustix::io::write(std::io::stderr(), bytes)?)
}

/// Writes a part of some bytes and returns how many; may wait.
type Sink = Box<dyn Fn(&[u8]) -> std::io::Result<usize> + Send + Sync>;

/// Accepts lines from any thread.
#[derive(Clone)]
struct Log(Arc<Shared>);

struct Shared {
    sink: Sink,
    clock: SystemClock,
    queue: Mutex<Queue>,
    /// Signals a line to the thread of the log.
    arrived: Condvar,
    /// Signals that everything is written.
    drained: Condvar,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that were lost since one was written.
    lost: u64,
    repeats: Repeats,
    is_writing: bool,
}

impl Log {
    /// Starts its thread. Without one (the system refuses it), all lines are dropped.
    fn new(sink: Sink) -> Self {
        let shared = Arc::new(Shared {
            sink,
            clock: SystemClock::new(),
            queue: Mutex::default(),
            arrived: Condvar::new(),
            drained: Condvar::new(),
        });
        let writer = Arc::clone(&shared);
        // Nobody can be told.
        let _ = threads::spawn("tide-log", move || writer.run());
        Self(shared)
    }

    /// Accepts a line.
    fn accept(&self, kind: Option<Identifier>, line: &[u8]) {
        let mut queue = self.0.queue.lock();
        let now_ns = self.0.clock.monotonic_ns();
        if kind.is_none_or(|kind| queue.repeats.offer(kind, line, now_ns)) {
            queue.push(line.to_vec());
        }
        // Also for a counted line, whose count is due later.
        self.0.arrived.notify_one();
    }

    fn finish(&self) {
        let mut queue = self.0.queue.lock();
        for line in queue.repeats.take_all() {
            queue.push(line);
        }
        self.0.arrived.notify_one();
        let deadline = self.0.clock.monotonic_ns() + FINISH.as_nanos() as u64;
        while queue.is_writing || !queue.lines.is_empty() {
            let left = deadline.saturating_sub(self.0.clock.monotonic_ns());
            if left == 0 {
                return;
            }
            let _ = self.0.drained.wait_for(&mut queue, Duration::from_nanos(left));
        }
    }
}

impl Queue {
    fn push(&mut self, line: Vec<u8>) {
        if self.bytes + line.len() > QUEUE_BYTES_MAX {
            self.lost += 1;
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let line = self.lines.pop_front()?;
        self.bytes -= line.len();
        Some(line)
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            let now_ns = self.clock.monotonic_ns();
            for line in queue.repeats.take_due(now_ns) {
                queue.push(line);
            }
            if let Some(line) = queue.pop() {
                queue.is_writing = true;
                let lost = std::mem::take(&mut queue.lost);
                let written = || self.write_count(lost) && self.write(&line);
                if !MutexGuard::unlocked(&mut queue, written) {
                    queue.lost += lost + 1;
                }
                queue.is_writing = false;
                continue;
            }
            self.drained.notify_all();
            match queue.repeats.due_ns() {
                None => self.arrived.wait(&mut queue),
                Some(due_ns) => {
                    let pause = Duration::from_nanos(due_ns.saturating_sub(now_ns));
                    let _ = self.arrived.wait_for(&mut queue, pause);
                }
            }
        }
    }

    /// Writes how many lines were lost, if any were.
    fn write_count(&self, lost: u64) -> bool {
        lost == 0 || self.write(format!("tidekv: {lost} lines of the log were lost\n").as_bytes())
    }

    /// Writes all of `line`; false if that failed.
    fn write(&self, mut line: &[u8]) -> bool {
        while !line.is_empty() {
            match (self.sink)(line) {
                Ok(0) => return false,
                Ok(count) => line = &line[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.clock.sleep(BUSY_PAUSE),
                Err(_) => return false,
            }
        }
        true
    }
}

/// A line under way from the formatter, which writes it whole.
struct Line<'a> {
    log: &'a Log,
    /// What identifies the kind of the message, if it is one that may be counted as repeated.
    kind: Option<Identifier>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.log.accept(self.kind.clone(), bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { log: self, kind: None }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        // What only a developer asks for is never counted instead of written.
        let is_countable = *metadata.level() <= tracing::Level::INFO;
        Line { log: self, kind: is_countable.then(|| metadata.callsite()) }
    }
}

#[cfg(test)]
mod tests;
