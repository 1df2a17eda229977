//! The context of a command: the objects, the permission to wait for them, and its reply.

use std::cell::Cell;

use tidekv_net::budget::Reservation;
use tidekv_net::outgoing::Outgoing;
use tidekv_tiered::{CachedObject, Change, PendingRead, WouldBlock};

use crate::state::prefetched_reads::PrefetchedReads;
use crate::state::server_state::State;

/// The progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is answered.
    Done,
    /// It has done a part, and continues when that has been sent.
    More,
    /// It must continue where it may wait. The finished part is not repeated.
    Wait,
    /// It must continue when there is memory for this many bytes of its reply.
    Memory(usize),
    /// The connection ends.
    Close,
}

/// Bytes of a reply beyond its value, at most: a key and numbers.
const LINE_BYTES_MAX: usize = 1 << 10;
/// Memory for replies is reserved in steps.
const MEMORY_STEP_BYTES: usize = 64 << 10;

/// The context of requests.
pub(crate) struct Execution<'a> {
    pub(crate) state: &'a State,
    pub(crate) out: &'a mut Outgoing,
    /// The memory reserved for `out`.
    memory: &'a mut Reservation,
    /// Whether it may wait for storage and do long work.
    pub(crate) may_wait: bool,
    /// Prefetched flash reads, if there are any.
    prefetched: Option<&'a PrefetchedReads>,
    /// The key to read from flash.
    wanted: Cell<Option<Box<[u8]>>>,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(
        state: &'a State,
        (out, memory): (&'a mut Outgoing, &'a mut Reservation),
        may_wait: bool,
    ) -> Self {
        Self { state, out, memory, may_wait, prefetched: None, wanted: Cell::new(None) }
    }

    /// Reserves memory for a reply with a value of this length; fails if there is none at once.
    pub(crate) fn reserve(&mut self, value_len: usize) -> Result<(), Progress> {
        let bytes = self.out.len() + value_len + LINE_BYTES_MAX;
        let has_memory = self.memory.try_grow_to(bytes.next_multiple_of(MEMORY_STEP_BYTES))
            || self.memory.try_grow_to(bytes);
        if has_memory { Ok(()) } else { Err(Progress::Memory(value_len + LINE_BYTES_MAX)) }
    }

    /// Reserves memory for a reply with the value of `key`, before it is looked up.
    pub(crate) fn reserve_for(&mut self, key: &[u8]) -> Result<(), Progress> {
        let cache = &self.state.objects.cache;
        if self.reserve(cache.object_bytes_max() as usize).is_ok() {
            return Ok(());
        }
        let prefetched = self.prefetched.and_then(|prefetched| prefetched.value_len(key));
        self.reserve(prefetched.or_else(|| cache.value_len(key)).unwrap_or(0))
    }

    /// A context with prefetched flash reads.
    pub(crate) fn with_prefetched(self, prefetched: &'a PrefetchedReads) -> Self {
        Self { prefetched: Some(prefetched), ..self }
    }

    /// The key to read from flash, if the request waits for that.
    pub(crate) fn wanted(self) -> Option<Box<[u8]>> {
        self.wanted.into_inner()
    }

    fn pending(&self, key: &[u8]) -> Option<PendingRead> {
        self.prefetched?.take(key)
    }

    /// The object of `key`; counts as an access.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<CachedObject>, WouldBlock> {
        let found = self.state.objects.get(key, self.may_wait, self.pending(key));
        found.inspect_err(|WouldBlock| self.wanted.set(Some(key.into())))
    }

    /// Passes the object of `key` to `decide`, and applies the change that it returns, atomically.
    pub(crate) fn change<R>(
        &self,
        key: &[u8],
        decide: impl FnMut(Option<&CachedObject>) -> (Change, R),
    ) -> Result<R, WouldBlock> {
        let changed = self.state.objects.change(key, self.may_wait, self.pending(key), decide);
        changed.inspect_err(|WouldBlock| self.wanted.set(Some(key.into())))
    }

    /// Replies with a line.
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
