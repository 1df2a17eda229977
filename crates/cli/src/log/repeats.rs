//! Which lines of the log are written, and which are counted.
//!
//! Messages of one place in the code are of one kind. Of each kind, the first [`BURST`] lines of a
//! window of [`WINDOW`] pass. The others are counted, and the last of them is written at the end of
//! the window, with the count. So a kind takes at most `BURST + 1` lines of a window, and no message
//! is later than a window.
//!
//! Policy only: the caller passes the time.

use std::collections::HashMap;
use std::time::Duration;

use tracing::callsite::Identifier;

/// Lines of a kind that pass in a window.
pub const BURST: u32 = 10;
/// The length of a window.
pub const WINDOW: Duration = Duration::from_secs(10);

/// The windows of all kinds. There are as many kinds as places in the code that log.
#[derive(Debug, Default)]
pub struct Repeats {
    windows: HashMap<Identifier, Window>,
}

#[derive(Debug)]
struct Window {
    end_ns: u64,
    passed: u32,
    counted: u64,
    /// The last line that was counted.
    last: Vec<u8>,
}

impl Repeats {
    /// Whether the caller must write `line`; otherwise it is counted. Times are nanoseconds of a
    /// monotonic clock. The caller has called [`Repeats::take_due`], or will.
    pub fn offer(&mut self, kind: Identifier, line: &[u8], now_ns: u64) -> bool {
        let window = self.windows.entry(kind).or_insert_with(|| Window::at(now_ns));
        if now_ns >= window.end_ns && window.counted == 0 {
            *window = Window::at(now_ns);
        }
        if window.passed < BURST {
            window.passed += 1;
            return true;
        }
        window.counted += 1;
        line.clone_into(&mut window.last);
        false
    }

    /// The counts that are due: the last line of each kind, with the number of lines since the last
    /// one that was written.
    pub fn take_due(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        self.take(|window| now_ns >= window.end_ns)
    }

    /// All counts.
    pub fn take_all(&mut self) -> Vec<Vec<u8>> {
        self.take(|_| true)
    }

    /// When the next count is due.
    pub fn due_ns(&self) -> Option<u64> {
        let waiting = self.windows.values().filter(|window| window.counted > 0);
        waiting.map(|window| window.end_ns).min()
    }

    fn take(&mut self, is_due: impl Fn(&Window) -> bool) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        self.windows.retain(|_, window| {
            let ends = window.counted > 0 && is_due(window);
            if ends {
                lines.push(window.summary());
            }
            !ends
        });
        lines
    }
}

impl Window {
    fn at(now_ns: u64) -> Self {
        let end_ns = now_ns.saturating_add(WINDOW.as_nanos() as u64);
        Self { end_ns, passed: 0, counted: 0, last: Vec::new() }
    }

    fn summary(&mut self) -> Vec<u8> {
        let mut line = std::mem::take(&mut self.last);
        while line.last() == Some(&b'\n') {
            line.pop();
        }
        let (counted, seconds) = (self.counted, WINDOW.as_secs());
        line.extend_from_slice(format!(" ({counted} more of these in {seconds} s)\n").as_bytes());
        line
    }
}

#[cfg(test)]
mod tests {
    use tracing::Callsite;

    use super::*;

    /// Two kinds of messages.
    fn kinds() -> [Identifier; 2] {
        struct Logger(#[expect(dead_code, reason = "gives each an address of its own")] u8);
        impl Callsite for Logger {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &tracing::Metadata<'_> {
                unreachable!("only its address counts")
            }
        }
        static ONE: Logger = Logger(1);
        static TWO: Logger = Logger(2);
        [Identifier(&ONE), Identifier(&TWO)]
    }

    fn text(lines: Vec<Vec<u8>>) -> Vec<String> {
        lines.into_iter().map(|line| String::from_utf8(line).expect("it is text")).collect()
    }

    #[test]
    fn a_repeated_message_is_counted_and_others_are_not_held_up() {
        let [one, two] = kinds();
        let window_ns = WINDOW.as_nanos() as u64;
        let mut repeats = Repeats::default();
        let mut passed = 0;
        for n in 0..14_000_u64 {
            passed += u32::from(repeats.offer(one.clone(), format!("failed {n}\n").as_bytes(), n));
        }
        assert_eq!(passed, BURST);
        assert!(repeats.offer(two, b"another\n", 1));
        assert_eq!(repeats.due_ns(), Some(window_ns));
        assert!(repeats.take_due(window_ns - 1).is_empty());
        let due = text(repeats.take_due(window_ns));
        assert_eq!(due, ["failed 13999 (13990 more of these in 10 s)\n"]);
        assert_eq!(repeats.due_ns(), None);
        assert!(repeats.offer(one, b"failed\n", window_ns + 1), "a window later it is news again");
    }

    #[test]
    fn nothing_is_counted_below_the_limit() {
        let [one, _] = kinds();
        let mut repeats = Repeats::default();
        for n in 0..u64::from(BURST) * 3 {
            assert!(repeats.offer(
                one.clone(),
                b"now and then\n",
                n * WINDOW.as_nanos() as u64 / 5
            ));
        }
        assert!(repeats.take_all().is_empty());
    }

    #[test]
    fn counts_are_written_at_the_end_even_if_they_are_not_due() {
        let [one, _] = kinds();
        let mut repeats = Repeats::default();
        for _ in 0..=BURST {
            repeats.offer(one.clone(), b"failed\n", 0);
        }
        assert_eq!(text(repeats.take_all()), ["failed (1 more of these in 10 s)\n"]);
    }
}
