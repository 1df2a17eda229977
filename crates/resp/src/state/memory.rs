//! The part of the store's memory budget that the server uses itself: for requests, for the writes
//! made of them, and for replies.
//!
//! ```text
//! requests of all connections               a quarter of the budget
//!   one request                             an eighth: its writes exist beside it for a while
//!   one field, or string below 128 KiB      a sixteenth
//! replies of all connections                an eighth
//!   one reply in memory                     an eighth; longer replies are streamed, or refused
//! values that one thread reads together     one part in 128
//! ```
//!
//! Guarantees: the store's caches shrink before connections use memory
//! ([`Db::set_reserved_memory_bytes`]), so that both together stay within the budget. What does not
//! fit waits, or is refused with `OOM`, the error that Redis uses. Clients that do not read their
//! replies do not keep others from writing: requests have memory of their own.
//!
//! Connections have some memory that is not counted: [`FREE_BYTES`] each, and what an idle
//! connection takes.

use std::sync::Arc;

use parking_lot::Mutex;
use tidekv::{Db, VALUE_BYTES_MAX};
use tidekv_net::budget::Budget;

use crate::protocol::input::FREE_BYTES;
use crate::protocol::reply::{CommandError, OUT_OF_MEMORY};

/// Values that one thread reads together are at least this large.
const FETCH_BYTES_MIN: usize = 64 << 10;

/// The memory of the server.
#[derive(Debug)]
pub(crate) struct Memory {
    db: Db,
    /// Limits given with the options.
    request_bytes_max: usize,
    buffered_bytes_max: usize,
    requests: Budget,
    replies: Budget,
}

impl Memory {
    pub(crate) fn new(db: Db, request_bytes_max: usize, buffered_bytes_max: usize) -> Self {
        let used: Arc<Mutex<[u64; 2]>> = Arc::default();
        let part = |at: usize| {
            let (store, used) = (db.clone(), Arc::clone(&used));
            Budget::with_free_bytes(0, FREE_BYTES).observed_by(move |bytes| {
                // Until the store knows, so that the later of two changes arrives later.
                let mut used = used.lock();
                used[at] = bytes as u64;
                store.set_reserved_memory_bytes(used.iter().sum());
            })
        };
        let (requests, replies) = (part(0), part(1));
        let memory = Self { db, request_bytes_max, buffered_bytes_max, requests, replies };
        memory.follow();
        memory
    }

    /// The budget of requests.
    pub(crate) fn requests(&self) -> &Budget {
        &self.requests
    }

    /// The budget of replies.
    pub(crate) fn replies(&self) -> &Budget {
        &self.replies
    }

    /// Bytes that requests and replies use.
    pub(crate) fn used_bytes(&self) -> usize {
        self.requests.used_bytes() + self.replies.used_bytes()
    }

    /// Changes the store's budget.
    pub(crate) fn set_total_bytes(&self, bytes: u64) {
        self.db.set_memory_bytes(bytes);
        self.follow();
    }

    fn follow(&self) {
        self.requests.set_bytes_max(self.share(4).min(self.buffered_bytes_max));
        self.replies.set_bytes_max(self.share(8));
    }

    /// Maximum bytes of one request, or of the writes of one command or transaction.
    pub(crate) fn request_bytes_max(&self) -> usize {
        self.share(8).min(self.request_bytes_max).min(self.buffered_bytes_max)
    }

    /// Maximum bytes of an entry: a field, or a string that is not in parts.
    pub(crate) fn value_bytes_max(&self) -> usize {
        self.share(16).min(VALUE_BYTES_MAX)
    }

    /// Maximum bytes of a reply that is in memory as a whole.
    pub(crate) fn reply_bytes_max(&self) -> usize {
        self.share(8)
    }

    /// Maximum bytes of values that one thread reads before it makes replies of them.
    pub(crate) fn fetch_bytes_max(&self) -> usize {
        self.share(128).clamp(FETCH_BYTES_MIN, 16 << 20)
    }

    /// One part in `parts` of the budget.
    fn share(&self, parts: u64) -> usize {
        usize::try_from(self.db.memory_bytes() / parts).unwrap_or(usize::MAX)
    }

    /// Fails if a reply of `bytes` is too large.
    pub(crate) fn check_reply(&self, bytes: usize) -> Result<(), CommandError> {
        if bytes > self.reply_bytes_max() { Err(OUT_OF_MEMORY) } else { Ok(()) }
    }
}
