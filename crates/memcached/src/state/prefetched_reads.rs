//! Flash reads for the requests of a connection, done before the requests are executed.
//!
//! If a request waits for flash, so may the following ones, and its other keys: they are read
//! together, and many keys take hardly longer than one.
//!
//! Guarantees:
//! 1. Requests are executed in order, and concurrent changes of a key are respected: a pending read
//!    detects them ([`Cache::finish_update`]), and the key is read again.
//! 2. The number of reads is that of replies sent together, estimated from earlier sizes, and at
//!    most [`AT_ONCE_MAX`]. Each holds a permit, until its request is executed or the connection
//!    waits for the client.
//! 3. No request waits for the read of a later one: without permits, that is read in its turn. A
//!    connection that waits for a permit holds none.

use std::cell::RefCell;

use futures_util::future::join_all;
use tidekv_net::reads::Reads;
use tidekv_tiered::{Cache, PendingRead};
use tokio::sync::OwnedSemaphorePermit;

/// Maximum keys read together.
const AT_ONCE_MAX: usize = 16;
/// The number before the size of objects is known.
const DEFAULT_AT_ONCE: usize = 4;
/// Maximum keys checked for being on flash.
const LOOKED_AT_MAX: usize = 4 * AT_ONCE_MAX;
/// Target size of the values read together.
const AT_ONCE_BYTES: usize = 256 << 10;
/// A key that changes this many times in a row while it is read is left to a thread, which retries
/// until it succeeds.
const TRIES_MAX: u32 = 8;

/// The prefetched reads of a connection.
#[derive(Debug)]
pub(crate) struct PrefetchedReads {
    ready: RefCell<Vec<Ready>>,
    at_once: usize,
    /// The last key that was waited for, and how often in a row.
    last: Box<[u8]>,
    tries: u32,
}

#[derive(Debug)]
struct Ready {
    pending: PendingRead,
    _permit: OwnedSemaphorePermit,
}

impl Default for PrefetchedReads {
    fn default() -> Self {
        Self { ready: RefCell::default(), at_once: DEFAULT_AT_ONCE, last: Box::default(), tries: 0 }
    }
}

impl PrefetchedReads {
    /// The prefetched read of `key`, if there is one.
    pub(crate) fn take(&self, key: &[u8]) -> Option<PendingRead> {
        let mut ready = self.ready.borrow_mut();
        let place = ready.iter().position(|ready| ready.pending.key() == key)?;
        Some(ready.swap_remove(place).pending)
    }

    /// The length of the value of `key`, if it was read.
    pub(crate) fn value_len(&self, key: &[u8]) -> Option<usize> {
        let ready = self.ready.borrow();
        ready.iter().find(|ready| ready.pending.key() == key)?.pending.value_len()
    }

    /// Records that a request is done.
    pub(crate) fn has_advanced(&mut self) {
        self.tries = 0;
    }

    /// Drops unused reads.
    pub(crate) fn clear(&mut self) {
        *self.ready.get_mut() = Vec::new();
    }

    /// Reads `key`, and those of the keys `behind` it that only flash may have; returns false if a
    /// thread must do that.
    pub(crate) async fn read<'k>(
        &mut self,
        cache: &Cache,
        reads: &Reads,
        key: Box<[u8]>,
        behind: impl Iterator<Item = &'k [u8]>,
    ) -> bool {
        self.tries = if self.last == key { self.tries + 1 } else { 0 };
        if reads.is_empty() || self.tries >= TRIES_MAX {
            return false;
        }
        let permit = match reads.try_permit() {
            Some(permit) => permit,
            // Otherwise connections that wait for a permit could hold all of them.
            None => {
                self.clear();
                reads.permit().await
            }
        };
        let Some(pending) = cache.begin_read(&key) else { return false };
        let ready = self.ready.get_mut();
        let mut begun = vec![Ready { pending, _permit: permit }];
        for key in behind.take(LOOKED_AT_MAX) {
            let is_known = |ready: &Ready| ready.pending.key() == key;
            if ready.len() + begun.len() >= self.at_once {
                break;
            }
            if ready.iter().chain(&begun).any(is_known) || !cache.needs_flash_read(key) {
                continue;
            }
            let Some(permit) = reads.try_permit() else { break };
            let Some(pending) = cache.begin_read(key) else { break };
            begun.push(Ready { pending, _permit: permit });
        }
        let ended = join_all(begun.into_iter().map(|begun| bring(reads, begun))).await;
        let bytes: usize = ended.iter().map(|(_, bytes)| bytes).sum();
        let bytes_each = (bytes / ended.len()).max(1);
        self.at_once = (AT_ONCE_BYTES / bytes_each).clamp(1, AT_ONCE_MAX);
        self.ready.get_mut().extend(ended.into_iter().map(|(ready, _)| ready));
        self.last = key;
        true
    }
}

/// Completes a pending read; returns the number of bytes read.
async fn bring(reads: &Reads, mut begun: Ready) -> (Ready, usize) {
    let (mut read, mut bytes) = (None, 0);
    while let Some(request) = begun.pending.step(read) {
        bytes += request.len;
        read = Some(reads.read(request).await);
    }
    (begun, bytes)
}
