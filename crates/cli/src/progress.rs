//! How far a long command has come: a bar on a terminal, once it has run for
//! two seconds; nothing when standard error is no terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tidekv_io::{Clock, SystemClock};

use crate::quantity::show_size;

/// What is done sooner needs no bar.
const QUIET_NS: u64 = 2_000_000_000;

/// The clock is looked at once in so many steps.
const STEPS_PER_LOOK: u64 = 256;

/// How often a spinner turns.
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
    /// Of `bytes` in all, if that is known.
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

    /// One more record is done, `bytes` in all.
    pub fn step(&mut self, bytes: u64) {
        self.steps += 1;
        if self.is_shown && self.steps.is_multiple_of(STEPS_PER_LOOK) {
            let what = format!("{} entries", self.steps);
            self.show(bytes, &what);
        }
    }

    /// `bytes` are done, and `what` comes next.
    pub fn show(&mut self, bytes: u64, what: &str) {
        if !self.is_shown || self.clock.monotonic_ns() < self.started_ns + QUIET_NS {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| bar(self.bytes));
        bar.set_position(bytes);
        bar.set_message(what.to_owned());
    }

    /// A sign of life for work that cannot say how far it is.
    pub fn spin(&mut self, what: &'static str) {
        if self.is_shown {
            let bar = ProgressBar::new_spinner().with_message(what);
            bar.enable_steady_tick(TICK);
            self.bar = Some(bar);
        }
    }

    /// Makes the bar longer, when there turns out to be more.
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

/// A rate for a summary: entries and bytes in a second.
pub fn show_rate(entries: u64, bytes: u64, seconds: f64) -> String {
    let seconds = seconds.max(1e-6);
    let size = show_size((bytes as f64 / seconds) as u64);
    format!("{:.0} entries/s, {size}/s", entries as f64 / seconds)
}
