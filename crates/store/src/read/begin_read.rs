//! How every point read begins: in which order it looks at what writers, flushes and ingests
//! change.
//!
//! 1. **The hash** of each key, of which the rest needs nothing else.
//! 2. **The epoch** of each key in the point cache. Before the view: a thread that changes what the
//!    cache may hold (a flush, an ingest) advances the epoch before it publishes a view, so what
//!    is found in a view of before is refused.
//! 3. **What is visible.** Before the view: all of that is in the view, so the read may vouch for
//!    having seen it ([`Reader::known`]), and may believe a cached value up to there.
//! 4. **The view.**
//! 5. **The sequence** to read at, again what is visible. After the view: whatever the tables of
//!    the view have dropped was dropped for newer versions that were visible before, and are
//!    seen with this sequence.
//!
//! `docs/internals/concurrency.md` has the races that this decides. A read at a snapshot takes
//! its sequence for both, and no epoch: it may pass newer versions over, and what it finds is
//! not kept.

use std::sync::Arc;

use tidekv_cache::{Caches, Epoch, Name};

use crate::format::checksum::key_hash;
use crate::format::key::{LookupKey, Sequence};
use crate::read::point_lookup::{PointLookup, Reader};
use crate::sst::block::BlockRef;
use crate::sync::Guard;
use crate::version::tree::Tree;
use crate::version::view::View;

/// A key that is going to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadKey<'k> {
    user_key: &'k [u8],
    /// Of the key alone, for memtables and filters.
    key_hash: u64,
    /// That of the name, for the point cache.
    pub(crate) hash: u64,
    /// What the point cache must be shown when something was found to keep.
    pub(crate) epoch: Option<Epoch>,
}

/// Prepares keys: steps 1 and 2.
#[derive(Debug)]
pub(crate) struct ReadKeys<'c> {
    caches: &'c Caches<BlockRef>,
    keyspace: u32,
    is_newest: bool,
}

impl ReadKeys<'_> {
    #[inline]
    pub(crate) fn prepare<'k>(&self, user_key: &'k [u8]) -> ReadKey<'k> {
        let key_hash = key_hash(user_key);
        let hash = Name { keyspace: self.keyspace, key: user_key }.hash(key_hash);
        let epoch = self.is_newest.then(|| self.caches.point().epoch(hash));
        ReadKey { user_key, key_hash, hash, epoch }
    }
}

/// A read that has begun, of one key or many of one keyspace.
pub(crate) struct BegunRead<'a, K> {
    /// What was prepared.
    pub(crate) keys: K,
    view: Guard<Arc<View>>,
    pub(crate) reader: Reader<'a>,
}

impl<K> BegunRead<'_, K> {
    /// The lookup of a key that was prepared for this read.
    #[inline]
    pub(crate) fn lookup<'s>(&'s self, key: ReadKey<'s>) -> PointLookup<'s> {
        let ReadKey { user_key, key_hash, hash, .. } = key;
        let key = LookupKey { user_key, hash: key_hash, sequence: self.reader.sequence };
        PointLookup { view: &self.view, key, reader: self.reader, hash }
    }
}

/// Begins a read of `tree` at the snapshot `at`, or now, of the keys that `prepare` makes;
/// `visible` is the sequence up to which readers see writes.
#[inline]
pub(crate) fn begin_read<'a, K>(
    caches: &Caches<BlockRef>,
    tree: &'a Tree,
    at: Option<Sequence>,
    visible: impl Fn() -> Sequence,
    prepare: impl FnOnce(ReadKeys<'_>) -> K,
) -> BegunRead<'a, K> {
    let keys = prepare(ReadKeys { caches, keyspace: tree.id, is_newest: at.is_none() });
    let seen = visible();
    let view = tree.view();
    let reader = Reader {
        tree,
        sequence: at.unwrap_or_else(visible),
        known: at.unwrap_or(seen),
        is_at_snapshot: at.is_some(),
    };
    BegunRead { keys, view, reader }
}
