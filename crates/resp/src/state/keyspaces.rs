//! The keyspaces of the store that hold the server's data.
//!
//! A string is an entry of the keyspace `default`, exactly as the embedded store and the command
//! line read and write it. A hash is an entry of `hash`, with a random identity, and its fields are
//! in `hash.fields` under that identity ([`hash`](crate::data::hash) has the records).
//!
//! Guarantee: a key written through the server is either a string or a hash. (The command line can
//! add a string to a key with a hash; string commands then see the string and hash commands the
//! hash, and `DEL` removes both.)

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tidekv::{Db, FilterKind, Keyspace};

/// One of the server's keyspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// Key to string.
    Strings,
    /// Key to hash head.
    Hashes,
    /// Identity and field to value.
    Fields,
    /// Identities of hashes that are deleted or will expire.
    Garbage,
}

/// All keyspaces. The names are on disk: do not change.
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
    /// Opens or creates the keyspaces; new tables have filters of `filter_kind`, if it is set.
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

/// Whether any key may hold a hash. If none does, `SET` need not read the key that it overwrites.
///
/// A transaction holds the gate ([`HashPresence::enter`]) from its first command to its commit, so
/// the answer does not change meanwhile; the first hash waits at the gate until every transaction
/// that has seen "no" has ended.
#[derive(Debug)]
pub(crate) struct HashPresence {
    exist: AtomicBool,
    gate: RwLock<()>,
}

impl HashPresence {
    pub(crate) fn exist(&self) -> bool {
        self.exist.load(Ordering::SeqCst)
    }

    /// To be called before a transaction that may create a hash.
    pub(crate) fn announce(&self) {
        if !self.exist() {
            let _gate = self.gate.write();
            self.exist.store(true, Ordering::SeqCst);
        }
    }

    /// Prevents changes of [`HashPresence::exist`]. Lock order: turns on stripes, then this; a
    /// caller of `announce` holds neither.
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// Like [`HashPresence::enter`], but `None` if that must wait.
    pub(crate) fn try_enter(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.gate.try_read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_has_its_index() {
        for (at, (space, _)) in SPACES.iter().enumerate() {
            assert_eq!(*space as usize, at);
        }
    }
}
