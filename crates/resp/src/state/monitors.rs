//! The connections that watch all commands: `MONITOR`.
//!
//! Guarantees: a monitor gets every command that is executed after its `MONITOR` is answered, those
//! of a connection in their order, each once it is executed; one that does not read is dropped when
//! [`LINES_MAX`] lines wait. Without monitors a command costs one load. May be used from any
//! thread.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Lines that wait for a monitor. Each has at most [`LINE_BYTES_MAX`] bytes.
const LINES_MAX: usize = 1024;
/// A longer line ends with dots.
const LINE_BYTES_MAX: usize = 4 << 10;

/// The monitors.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    senders: Mutex<Vec<Sender<Bytes>>>,
    count: AtomicUsize,
}

impl Monitors {
    /// A monitor; dropping the receiver ends it.
    pub(crate) fn add(&self) -> Receiver<Bytes> {
        let (sender, receiver) = channel(LINES_MAX);
        let mut senders = self.senders.lock();
        senders.push(sender);
        self.count.store(senders.len(), Ordering::SeqCst);
        receiver
    }

    /// Whether there are any.
    pub(crate) fn are_any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Sends a command to all monitors: its time in microseconds since 1970, the database and the
    /// address of the client, and its words.
    pub(crate) fn tell(&self, unix_us: u64, database: usize, address: &str, words: &[Bytes]) {
        let line = line_of(unix_us, database, address, words);
        let mut senders = self.senders.lock();
        // A full queue belongs to a client that does not read.
        senders.retain(|sender| sender.try_send(line.clone()).is_ok());
        self.count.store(senders.len(), Ordering::SeqCst);
    }
}

/// The line of a command, as Redis writes it.
fn line_of(unix_us: u64, database: usize, address: &str, words: &[Bytes]) -> Bytes {
    let (seconds, us) = (unix_us / 1_000_000, unix_us % 1_000_000);
    let mut line = format!("+{seconds}.{us:06} [{database} {address}]").into_bytes();
    for word in words {
        line.extend_from_slice(b" \"");
        for &byte in word {
            match byte {
                b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
                b'\n' => line.extend_from_slice(b"\\n"),
                b'\r' => line.extend_from_slice(b"\\r"),
                b'\t' => line.extend_from_slice(b"\\t"),
                7 => line.extend_from_slice(b"\\a"),
                8 => line.extend_from_slice(b"\\b"),
                b' '..=b'~' => line.push(byte),
                _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            }
            if line.len() > LINE_BYTES_MAX {
                line.extend_from_slice(b"...\"\r\n");
                return line.into();
            }
        }
        line.push(b'"');
    }
    line.extend_from_slice(b"\r\n");
    line.into()
}

/// The next line of a monitor; never, if there is none. `None`: the monitor was dropped.
pub(crate) async fn next_line(monitor: &mut Option<Receiver<Bytes>>) -> Option<Bytes> {
    match monitor {
        Some(monitor) => monitor.recv().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_redis() {
        let words = ["set", "k\"1\"", "a\\b\r\n\u{1}"].map(Bytes::from);
        assert_eq!(
            line_of(1_700_000_000_000_042, 3, "1.2.3.4:5", &words),
            "+1700000000.000042 [3 1.2.3.4:5] \"set\" \"k\\\"1\\\"\" \"a\\\\b\\r\\n\\x01\"\r\n"
        );
        let long = line_of(0, 0, "", &[Bytes::from("x".repeat(1 << 20))]);
        assert!(long.len() < LINE_BYTES_MAX + 10 && long.ends_with(b"...\"\r\n"));
    }

    #[test]
    fn a_monitor_that_does_not_read_is_dropped() {
        let monitors = Monitors::default();
        assert!(!monitors.are_any());
        let mut receiver = monitors.add();
        (0..LINES_MAX).for_each(|_| monitors.tell(0, 0, "", &[]));
        assert!(monitors.are_any());
        monitors.tell(0, 0, "", &[]);
        assert!(!monitors.are_any());
        let lines = std::iter::from_fn(|| receiver.try_recv().ok()).count();
        assert_eq!(lines, LINES_MAX);
    }
}
