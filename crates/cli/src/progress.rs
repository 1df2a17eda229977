//! The progress of a long command: a bar on a terminal, once it has run for
//! two seconds; no output if standard error is not a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tidekv_io::{Clock, SystemClock};

use crate::quantity::show_size;

/// A shorter command shows no bar.
const QUIET_NS: u64 = 2_000_000_000;

/// Steps between two reads of the clock.
const STEPS_PER_LOOK: u64 = 256;

/// The period of the spinner.
const TICK: Duration = Duration::from_millis(200);

/// A command's progress in bytes.
pub struct Progress {
    clock: SystemClock,
    started_ns: u64,
    bytes: Option<u64>,
    is_shown: bool,
    bar: Option<ProgressBar>,
    steps: u64,
}

impl Progress {
    /// The progress of a command with a total of `bytes`, if known.
    pub fn new(bytes: Option<u64>) -> Self {
        let clock = SystemClock::new();
        let started_ns = clock.monotonic_ns();
        let is_shown = std::io::stderr().is_terminal();
        Self { clock, started_ns, bytes, is_shown, bar: None, steps: 0 }
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.clock.monotonic_ns().saturating_sub(self.started_ns) as f64 / 1e9
    }

    /// Counts one more record; `bytes` is the total so far.
    pub fn step(&mut self, bytes: u64) {
        self.steps += 1;
        if self.is_shown && self.steps.is_multiple_of(STEPS_PER_LOOK) {
            let what = format!("{} entries", self.steps);
            self.show(bytes, &what);
        }
    }

    /// Shows that `bytes` are done and that `what` is in progress.
    pub fn show(&mut self, bytes: u64, what: &str) {
        if !self.is_shown || self.clock.monotonic_ns() < self.started_ns + QUIET_NS {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| bar(self.bytes));
        bar.set_position(bytes);
        bar.set_message(what.to_owned());
    }

    /// Shows a spinner, for work whose progress is unknown.
    pub fn spin(&mut self, what: &'static str) {
        if self.is_shown {
            let bar = ProgressBar::new_spinner().with_message(what);
            bar.enable_steady_tick(TICK);
            self.bar = Some(bar);
        }
    }

    /// Sets the total.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = Some(bytes);
        if let Some(bar) = &self.bar {
            bar.set_length(bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (
            ProgressBar::new(bytes),
            "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {bytes_per_sec} {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the template is fixed"))
}

/// A rate for a summary: entries and bytes per second.
pub fn show_rate(entries: u64, bytes: u64, seconds: f64) -> String {
    let seconds = seconds.max(1e-6);
    let size = show_size((bytes as f64 / seconds) as u64);
    format!("{:.0} entries/s, {size}/s", entries as f64 / seconds)
}
