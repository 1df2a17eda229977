//! Key stripes: they keep reads on the event loop consistent with concurrent commits, and let
//! conflicting writers take turns.
//!
//! Keys are spread over stripes by their hash.
//!
//! *Reads.* The event loop reads from memory, one key at a time and without a snapshot, so `MGET a
//! b` could see one half of `MSET a 1 b 2`. A stripe therefore counts the commits that have begun
//! and ended on its keys. A reader records the counts ([`Stripes::begin_read`]), reads, and
//! compares ([`Stripes::is_unchanged`]): if no commit was in progress and none has begun, all
//! values are from one moment. Otherwise it reads again from a snapshot on an I/O thread. No thread
//! waits for another (a sequence lock for many writers).
//!
//! *Writes.* Transactions are optimistic and mostly have no conflict. A transaction with a conflict
//! locks the stripes of its keys before it tries again, so that writers of the same keys queue
//! instead of aborting each other.
//!
//! Lock order: stripes ascending; nothing else is locked by this module.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

/// Enough that the 160 keys of sixteen pipelined `MSET`s seldom share a stripe with other keys.
const STRIPES: usize = 1 << 14;

#[derive(Debug, Default)]
struct Stripe {
    begun: AtomicU64,
    ended: AtomicU64,
    turn: Mutex<()>,
}

/// The stripes of a server.
#[derive(Debug)]
pub(crate) struct Stripes {
    stripes: Box<[Stripe]>,
    /// Commits that touch every key.
    all: Stripe,
}

/// The keys of a command or a batch, as stripes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct KeySet {
    /// Stripes, ascending, each once.
    stripes: SmallVec<[usize; 4]>,
    all: bool,
}

impl KeySet {
    /// Adds a key.
    pub(crate) fn insert(&mut self, key: &[u8]) {
        let stripe = xxhash_rust::xxh3::xxh3_64(key) as usize % STRIPES;
        if let Err(at) = self.stripes.binary_search(&stripe) {
            self.stripes.insert(at, stripe);
        }
    }

    /// The keys of all `sets`.
    pub(crate) fn union(sets: impl IntoIterator<Item = Self>) -> Self {
        let mut union = Self::default();
        for set in sets {
            union.stripes.extend_from_slice(&set.stripes);
            union.all |= set.all;
        }
        union.stripes.sort_unstable();
        union.stripes.dedup();
        union
    }

    /// Adds all keys.
    pub(crate) fn insert_all(&mut self) {
        self.all = true;
    }
}

/// The counts recorded by a reader.
#[derive(Debug)]
pub(crate) struct ReadMark<'a> {
    keys: &'a KeySet,
    /// The sum of the counts: they only grow, so it is unchanged only if each of them is.
    begun: u64,
}

/// A commit in progress; dropping it ends the commit.
#[derive(Debug)]
pub(crate) struct CommitMark<'a> {
    stripes: &'a Stripes,
    keys: &'a KeySet,
}

impl Stripe {
    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// The number of commits, if none is in progress.
    fn begun_if_quiet(&self) -> Option<u64> {
        // `ended` first: in the other order, a commit that begins and ends in between would hide
        // one in progress.
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == ended).then_some(begun)
    }
}

impl Stripes {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Stripe::default()).collect(), all: Stripe::default() }
    }

    /// Starts a read of `keys`; `None` if a commit of one of them is in progress.
    pub(crate) fn begin_read<'a>(&self, keys: &'a KeySet) -> Option<ReadMark<'a>> {
        let mut begun = self.all.begun_if_quiet()?;
        for &stripe in &keys.stripes {
            begun += self.stripes[stripe].begun_if_quiet()?;
        }
        Some(ReadMark { keys, begun })
    }

    /// To be called after reading: whether no commit of these keys has begun since.
    pub(crate) fn is_unchanged(&self, mark: &ReadMark<'_>) -> bool {
        // Orders the reads of the data before the second read of the counts.
        fence(Ordering::SeqCst);
        let begun = |stripe: &Stripe| stripe.begun.load(Ordering::SeqCst);
        let of_keys: u64 =
            mark.keys.stripes.iter().map(|&stripe| begun(&self.stripes[stripe])).sum();
        of_keys + begun(&self.all) == mark.begun
    }

    /// Starts a commit that writes `keys`; keep the mark until the commit is visible or has failed.
    #[must_use]
    pub(crate) fn begin_commit<'a>(&'a self, keys: &'a KeySet) -> CommitMark<'a> {
        for &stripe in &keys.stripes {
            self.stripes[stripe].begin();
        }
        if keys.all {
            self.all.begin();
        }
        CommitMark { stripes: self, keys }
    }

    /// Whether another writer holds a turn for one of `keys`: a writer that can wait should do so.
    pub(crate) fn has_turn(&self, keys: &KeySet) -> bool {
        keys.stripes.iter().any(|&stripe| self.stripes[stripe].turn.is_locked())
    }

    /// Waits until no other writer holds a turn for any of `keys`, and takes the turns.
    pub(crate) fn take_turn(&self, keys: &KeySet) -> Vec<MutexGuard<'_, ()>> {
        if keys.all {
            return self.stripes.iter().map(|stripe| stripe.turn.lock()).collect();
        }
        keys.stripes.iter().map(|&stripe| self.stripes[stripe].turn.lock()).collect()
    }
}

impl Drop for CommitMark<'_> {
    fn drop(&mut self) {
        for &stripe in &self.keys.stripes {
            self.stripes.stripes[stripe].end();
        }
        if self.keys.all {
            self.stripes.all.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> KeySet {
        let mut set = KeySet::default();
        for name in names {
            set.insert(name.as_bytes());
        }
        set
    }

    #[test]
    fn a_reader_detects_a_commit_in_between() {
        let stripes = Stripes::new();
        let (ours, others) = (keys(&["a", "b"]), keys(&["c"]));
        let mark = stripes.begin_read(&ours).unwrap();
        drop(stripes.begin_commit(&others));
        assert!(stripes.is_unchanged(&mark));
        let commit = stripes.begin_commit(&ours);
        assert!(!stripes.is_unchanged(&mark));
        assert!(stripes.begin_read(&ours).is_none());
        drop(commit);
        assert!(!stripes.is_unchanged(&mark));
        assert!(stripes.begin_read(&ours).is_some());
    }

    #[test]
    fn a_commit_of_all_keys_touches_each() {
        let stripes = Stripes::new();
        let (ours, mut all) = (keys(&["a"]), KeySet::default());
        all.insert_all();
        let mark = stripes.begin_read(&ours).unwrap();
        let commit = stripes.begin_commit(&all);
        assert!(stripes.begin_read(&ours).is_none());
        drop(commit);
        assert!(!stripes.is_unchanged(&mark));
        assert_eq!(stripes.take_turn(&all).len(), STRIPES);
    }

    #[test]
    fn a_union_has_each_stripe_once() {
        let union = KeySet::union([keys(&["b", "a"]), keys(&["c", "b"])]);
        assert_eq!(union, keys(&["a", "b", "c"]));
        let mut all = KeySet::default();
        all.insert_all();
        assert!(KeySet::union([union, all]).all);
    }

    #[test]
    fn writers_of_the_same_keys_see_a_turn() {
        let stripes = Stripes::new();
        let (ours, others) = (keys(&["a", "b"]), keys(&["c"]));
        assert!(!stripes.has_turn(&ours));
        let turn = stripes.take_turn(&keys(&["b"]));
        assert!(stripes.has_turn(&ours) && !stripes.has_turn(&others));
        drop(turn);
        assert!(!stripes.has_turn(&ours));
    }

    #[test]
    fn readers_never_accept_partial_commits() {
        let stripes = Stripes::new();
        let pair = keys(&["x", "y"]);
        let (x, y) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (stripes, pair, x, y) = (&stripes, &pair, &x, &y);
                scope.spawn(move || {
                    for round in 1..20_000 {
                        let turn = stripes.take_turn(pair);
                        let commit = stripes.begin_commit(pair);
                        x.store(round * 2 + writer, Ordering::SeqCst);
                        y.store(round * 2 + writer, Ordering::SeqCst);
                        drop(commit);
                        drop(turn);
                    }
                });
            }
            for _ in 0..40_000 {
                if let Some(mark) = stripes.begin_read(&pair) {
                    let seen = (x.load(Ordering::SeqCst), y.load(Ordering::SeqCst));
                    if stripes.is_unchanged(&mark) {
                        assert_eq!(seen.0, seen.1);
                    }
                }
            }
        });
    }
}
