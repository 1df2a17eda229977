//! What is read from flash for the requests of a connection before they run.
//!
//! Where a request waits for flash, so may those that come behind it, and the other keys that it
//! asks for: they are read at once, and many keys take hardly longer than one.
//!
//! Guarantees:
//! 1. Requests run in their order, and what happens to a key meanwhile counts: a recall says so
//!    itself ([`Cache::finish_update`]), and then the key is read again.
//! 2. As many are read as their replies are about sent together, by the size of those before, and
//!    at most [`AT_ONCE_MAX`]. Each has a permit, until its request runs or the client is waited for.
//! 3. Nobody waits for what only comes behind: where there are no permits, it is read in its turn.
//!    Who waits for a permit holds none.

use std::cell::RefCell;

use futures_util::future::join_all;
use tidekv_net::reads::Reads;
use tidekv_tiered::{Cache, PendingRead};
use tokio::sync::OwnedSemaphorePermit;

/// Keys that are read at once.
const AT_ONCE_MAX: usize = 16;
/// Before the size of objects is known.
const DEFAULT_AT_ONCE: usize = 4;
/// Keys that are looked at for those that flash may have.
const LOOKED_AT_MAX: usize = 4 * AT_ONCE_MAX;
/// What is read at once is to fill about so many bytes.
const AT_ONCE_BYTES: usize = 256 << 10;
/// A key of which something is changed so often in a row while it is read is left to a thread, which
/// tries until it succeeds.
const TRIES_MAX: u32 = 8;

/// The recalls of a connection.
#[derive(Debug)]
pub(crate) struct PrefetchedReads {
    ready: RefCell<Vec<Ready>>,
    at_once: usize,
    /// The key that was waited for last, and how often in a row.
    last: Box<[u8]>,
    tries: u32,
}

#[derive(Debug)]
struct Ready {
    recall: PendingRead,
    _permit: OwnedSemaphorePermit,
}

impl Default for PrefetchedReads {
    fn default() -> Self {
        Self { ready: RefCell::default(), at_once: DEFAULT_AT_ONCE, last: Box::default(), tries: 0 }
    }
}

impl PrefetchedReads {
    /// What has been read for `key`, if anything has.
    pub(crate) fn take(&self, key: &[u8]) -> Option<PendingRead> {
        let mut ready = self.ready.borrow_mut();
        let place = ready.iter().position(|ready| ready.recall.key() == key)?;
        Some(ready.swap_remove(place).recall)
    }

    /// A request is done.
    pub(crate) fn has_advanced(&mut self) {
        self.tries = 0;
    }

    /// Lets go of what has been read and not asked for.
    pub(crate) fn clear(&mut self) {
        *self.ready.get_mut() = Vec::new();
    }

    /// Reads what is under `key`, and what comes `behind` it as far as only flash may have it; false
    /// where a thread must do that.
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
            // Else all permits could be held by connections that wait for one.
            None => {
                self.clear();
                reads.permit().await
            }
        };
        let Some(recall) = cache.begin_read(&key) else { return false };
        let ready = self.ready.get_mut();
        let mut begun = vec![Ready { recall, _permit: permit }];
        for key in behind.take(LOOKED_AT_MAX) {
            let is_known = |ready: &Ready| ready.recall.key() == key;
            if ready.len() + begun.len() >= self.at_once {
                break;
            }
            if ready.iter().chain(&begun).any(is_known) || !cache.needs_flash_read(key) {
                continue;
            }
            let Some(permit) = reads.try_permit() else { break };
            let Some(recall) = cache.begin_read(key) else { break };
            begun.push(Ready { recall, _permit: permit });
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

/// Brings a recall to its end; how many bytes were read for it.
async fn bring(reads: &Reads, mut begun: Ready) -> (Ready, usize) {
    let (mut read, mut bytes) = (None, 0);
    while let Some(request) = begun.recall.step(read) {
        bytes += request.len;
        read = Some(reads.read(request).await);
    }
    (begun, bytes)
}
