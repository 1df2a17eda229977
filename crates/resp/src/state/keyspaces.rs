//! Where the data of the server lies in the store.
//!
//! A string is an entry of the keyspace `default`, exactly as the embedded
//! store and the command line read and write it. A hash is an entry of `hash`,
//! which names it by a random identity, and its fields lie in `hash.fields`
//! under that identity ([`hash`](crate::data::hash) has the records).
//!
//! Guarantee: a key written through the server holds either a string or a hash.
//! (The command line can put a string beside a hash; the string's commands then
//! see the string and the hash's commands the hash, and `DEL` removes both.)

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tidekv::{Db, FilterKind, Keyspace};

/// One of the server's keyspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// Key to string.
    Strings,
    /// Key to the head of a hash.
    Hashes,
    /// Identity and field to value.
    Fields,
    /// Identities of hashes that are gone or will be.
    Garbage,
}

/// All of them; names are on disk, do not change.
pub(crate) const SPACES: [(Space, &str); 4] = [
    (Space::Strings, "default"),
    (Space::Hashes, "hash"),
    (Space::Fields, "hash.fields"),
    (Space::Garbage, "hash.garbage"),
];

/// The open keyspaces.
#[derive(Debug)]
pub(crate) struct Keyspaces {
    open: [Keyspace; SPACES.len()],
    hashes: HashPresence,
}

impl Keyspaces {
    /// Opens or creates them; their new tables have filters of this kind, if one is named.
    pub(crate) fn open(db: &Db, filter_kind: Option<FilterKind>) -> tidekv::Result<Self> {
        let [strings, hashes, fields, garbage] = SPACES.map(|(_, name)| {
            let keyspace = db.keyspace(name)?;
            match filter_kind {
                None => Ok(keyspace),
                Some(filter_kind) => {
                    let options = keyspace.options().filter_kind(filter_kind);
                    db.keyspace_with(name, options)
                }
            }
        });
        let open = [strings?, hashes?, fields?, garbage?];
        let exist = open[1].iter().keys_only().next().transpose()?.is_some();
        let hashes = HashPresence { exist: AtomicBool::new(exist), gate: RwLock::new(()) };
        Ok(Self { open, hashes })
    }

    pub(crate) fn get(&self, space: Space) -> &Keyspace {
        &self.open[space as usize]
    }

    pub(crate) fn hashes(&self) -> &HashPresence {
        &self.hashes
    }
}

/// Whether any key may hold a hash. Where none does, `SET` need not look what
/// it overwrites, which would make it a read and a write.
///
/// A transaction holds the gate ([`HashPresence::enter`]) from its first
/// command to its commit, so the answer is the same throughout; the first hash
/// waits at the gate until every transaction that has seen "no" is over.
#[derive(Debug)]
pub(crate) struct HashPresence {
    exist: AtomicBool,
    gate: RwLock<()>,
}

impl HashPresence {
    pub(crate) fn exist(&self) -> bool {
        self.exist.load(Ordering::SeqCst)
    }

    /// Before a transaction that may create a hash.
    pub(crate) fn announce(&self) {
        if !self.exist() {
            let _gate = self.gate.write();
            self.exist.store(true, Ordering::SeqCst);
        }
    }

    /// Keeps [`HashPresence::exist`] as it is. Lock order: turns on stripes,
    /// then this; whoever announces holds neither.
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// Like [`HashPresence::enter`], unless that has to wait.
    pub(crate) fn try_enter(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.gate.try_read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_is_found_at_its_place() {
        for (at, (space, _)) in SPACES.iter().enumerate() {
            assert_eq!(*space as usize, at);
        }
    }
}
