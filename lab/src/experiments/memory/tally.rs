//! What clients of a server counted: requests, their outcomes, and bytes.

use std::io;
use std::thread;

use crate::subjects::databases::{Answer, Client, Said};

/// The beginning of a refusal for want of memory, of Redis and of TideKV.
const REFUSED: &str = "OOM ";

/// The counts of one or more clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Requests that were executed.
    pub(super) accepted: u64,
    /// Requests that were refused for want of memory.
    pub(super) refused: u64,
    /// Requests with another error.
    pub(super) errors: u64,
    /// Connections that the server closed, or that did not get a reply in time.
    pub(super) closed: u64,
    /// Requests that were never sent to their end.
    pub(super) waiting: u64,
    /// Bytes of values that were sent.
    pub(super) sent_bytes: u64,
    pub(super) reply_bytes: u64,
    /// The first of the errors.
    pub(super) error: Option<String>,
}

impl Tally {
    /// Counts a reply, and returns the integer that it was.
    pub(super) fn note(&mut self, answer: &Answer) -> Option<i64> {
        self.reply_bytes += answer.bytes;
        match &answer.said {
            Said::Error(text) if text.starts_with(REFUSED) => self.refused += 1,
            Said::Error(text) => {
                self.errors += 1;
                self.error.get_or_insert_with(|| text.clone());
            }
            Said::Integer(number) => {
                self.accepted += 1;
                return Some(*number);
            }
            Said::Something | Said::Nothing => self.accepted += 1,
        }
        None
    }

    /// Counts a lost connection, if it is one.
    pub(super) fn end(&mut self, client: io::Result<()>) {
        self.closed += u64::from(client.is_err());
    }

    pub(super) fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.errors += other.errors;
        self.closed += other.closed;
        self.waiting += other.waiting;
        self.sent_bytes += other.sent_bytes;
        self.reply_bytes += other.reply_bytes;
        self.error = self.error.take().or(other.error);
    }
}

/// Runs a client, whose work ends with its connection at the latest.
pub(super) fn one(
    port: u16,
    work: impl FnOnce(&mut Client, &mut Tally) -> io::Result<()>,
) -> Tally {
    let mut tally = Tally::default();
    let done = Client::connect(port).and_then(|mut client| work(&mut client, &mut tally));
    tally.end(done);
    tally
}

/// Runs several clients at the same time, each in a thread; they are numbered.
pub(super) fn many(
    port: u16,
    count: u64,
    work: impl Fn(u64, &mut Client, &mut Tally) -> io::Result<()> + Sync,
) -> Tally {
    let mut sum = Tally::default();
    thread::scope(|scope| {
        let client = |number| {
            let work = &work;
            scope.spawn(move || one(port, |client, tally| work(number, client, tally)))
        };
        let threads: Vec<_> = (0..count).map(client).collect();
        for thread in threads {
            sum.add(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    sum
}
