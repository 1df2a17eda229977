//! What a command works with while it runs: the objects, as far as it may go for them, and its
//! reply.

use tidekv_tiered::{Change, Found, WouldWait};

use crate::memcached::state::State;
use crate::outgoing::Outgoing;

/// What becomes of a request that has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is answered.
    Done,
    /// It has done a part, and goes on when that has been sent.
    More,
    /// It must go on where it may wait. What was done is not done again.
    Wait,
    /// The connection ends.
    Close,
}

/// The running of requests.
#[derive(Debug)]
pub(crate) struct Execution<'a> {
    pub(crate) state: &'a State,
    pub(crate) out: &'a mut Outgoing,
    /// Whether storage and long work may be waited for.
    pub(crate) may_wait: bool,
}

impl Execution<'_> {
    /// The object under `key`, which counts as fetched.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Found>, WouldWait> {
        self.state.objects.get(key, self.may_wait)
    }

    /// Shows `decide` what is under `key`, and does what it says, in one step.
    pub(crate) fn change<R>(
        &self,
        key: &[u8],
        decide: impl FnMut(Option<&Found>) -> (Change, R),
    ) -> Result<R, WouldWait> {
        self.state.objects.change(key, self.may_wait, decide)
    }

    /// Answers with a line.
    pub(crate) fn say(&mut self, line: &str) -> Progress {
        self.out.put(line.as_bytes());
        self.out.put(b"\r\n");
        Progress::Done
    }

    /// The same, unless the client wants no reply.
    pub(crate) fn say_unless(&mut self, is_quiet: bool, line: &str) -> Progress {
        if is_quiet { Progress::Done } else { self.say(line) }
    }

    /// Writes a number.
    pub(crate) fn put_number(&mut self, number: u64) {
        self.out.put(itoa::Buffer::new().format(number).as_bytes());
    }
}
