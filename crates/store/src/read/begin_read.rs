//! How every point read begins: the order in which it loads the state that writers, flushes and
//! ingests change.
//!
//! 1. **The hash** of each key, on which the other steps depend.
//! 2. **The epoch** of each key in the point cache. Before the view: a thread that changes the
//!    valid contents of the cache (a flush, an ingest) advances the epoch before it publishes a
//!    view, so an insertion of a result from an older view is refused.
//! 3. **The visible sequence.** Before the view: the view has all writes up to it, so the read has
//!    certainly seen them ([`Reader::known`]), and may use a cached value up to there.
//! 4. **The view.**
//! 5. **The sequence** to read at, again the visible one. After the view: whatever the tables of
//!    the view have dropped was dropped for newer versions that were visible before, and this
//!    sequence includes those.
//!
//! `docs/internals/concurrency.md` describes the races that this order decides. A read at a
//! snapshot uses the snapshot's sequence for both, and no epoch: it may skip newer versions, and
//! its result is not cached.

use std::sync::Arc;

use tidekv_cache::{Caches, Epoch, Name};

use crate::format::checksum::key_hash;
use crate::format::key::{LookupKey, Sequence};
use crate::read::point_lookup::{PointLookup, Reader};
use crate::sst::block::BlockRef;
use crate::sync::Guard;
use crate::version::tree::Tree;
use crate::version::view::View;

/// A key to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadKey<'k> {
    user_key: &'k [u8],
    /// The hash of the key alone, for memtables and filters.
    key_hash: u64,
    /// The hash of the name, for the point cache.
    pub(crate) hash: u64,
    /// The epoch that an insertion into the point cache must present.
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

/// A read in progress, of one key or of several keys of one keyspace.
pub(crate) struct BegunRead<'a, K> {
    /// The prepared keys.
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
