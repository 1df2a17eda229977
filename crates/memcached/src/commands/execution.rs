//! What a command works with while it runs: the objects, as far as it may go for them, and its
//! reply.

use std::cell::Cell;

use tidekv_net::outgoing::Outgoing;
use tidekv_tiered::{CachedObject, Change, PendingRead, WouldBlock};

use crate::state::prefetched_reads::PrefetchedReads;
use crate::state::server_state::State;

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
pub(crate) struct Execution<'a> {
    pub(crate) state: &'a State,
    pub(crate) out: &'a mut Outgoing,
    /// Whether storage and long work may be waited for.
    pub(crate) may_wait: bool,
    /// What has been read from flash, if anything has.
    recalls: Option<&'a PrefetchedReads>,
    /// The key for which flash is to be read.
    wanted: Cell<Option<Box<[u8]>>>,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(state: &'a State, out: &'a mut Outgoing, may_wait: bool) -> Self {
        Self { state, out, may_wait, recalls: None, wanted: Cell::new(None) }
    }

    /// One that goes on with what has been read from flash.
    pub(crate) fn with_prefetched(self, recalls: &'a PrefetchedReads) -> Self {
        Self { recalls: Some(recalls), ..self }
    }

    /// The key for which flash is to be read, where that is why a request has to wait.
    pub(crate) fn wanted(self) -> Option<Box<[u8]>> {
        self.wanted.into_inner()
    }

    fn recall(&self, key: &[u8]) -> Option<PendingRead> {
        self.recalls?.take(key)
    }

    /// The object under `key`, which counts as fetched.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<CachedObject>, WouldBlock> {
        let found = self.state.objects.get(key, self.may_wait, self.recall(key));
        found.inspect_err(|WouldBlock| self.wanted.set(Some(key.into())))
    }

    /// Shows `decide` what is under `key`, and does what it says, in one step.
    pub(crate) fn change<R>(
        &self,
        key: &[u8],
        decide: impl FnMut(Option<&CachedObject>) -> (Change, R),
    ) -> Result<R, WouldBlock> {
        let changed = self.state.objects.change(key, self.may_wait, self.recall(key), decide);
        changed.inspect_err(|WouldBlock| self.wanted.set(Some(key.into())))
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
