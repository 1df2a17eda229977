//! The keyspaces of the store that hold the server's data, and which of them are which database.
//!
//! A string is an entry of the keyspace `default`, exactly as the embedded store and the command
//! line read and write it, unless it is long. A hash or a long string has a head in `hash`, with a
//! random identity, and its parts are in `hash.fields` under that identity
//! ([`head`](crate::data::head) has the records).
//!
//! Databases: each has a *slot*, a pair of keyspaces for its strings and its heads.
//! Slot 0 is `default` and `hash`; slot *n* is `db.n` and `db.n.hash`, created by the first command
//! that may write there. The parts of all values share `hash.fields`, so a value changes its
//! database with its head alone. `SWAPDB` exchanges the slots of two databases: one entry, `slots`
//! of the keyspace `db`, has the slot of each database in order, a byte each. Without it, database
//! *n* has slot *n*. Names and the entry are on disk: do not change.
//!
//! Guarantees:
//! 1. A key written through the server has either an entry of its own or a head. (The command line
//!    can add a string to a key with a head; string commands then see that string and hash commands
//!    the hash, and `DEL` removes both.)
//! 2. The slots do not change while a thread holds the gate ([`HeadPresence::enter`]).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tidekv::{Db, FilterKind, Keyspace};

/// Number of databases of a server, as in Redis.
pub(crate) const DATABASES: usize = 16;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// Key to string; one keyspace for each slot.
    Strings,
    /// Key to head; one keyspace for each slot.
    Heads,
    /// Identity and name to part, of all databases.
    Fields,
    /// Identities of heads that are deleted or will expire, of all databases.
    Garbage,
}

impl Space {
    /// Whether each slot has its own keyspace of this kind.
    const fn is_per_slot(self) -> bool {
        matches!(self, Self::Strings | Self::Heads)
    }
}

/// The number of a keyspace: the four that every store has come first.
pub(crate) fn index_of(slot: usize, space: Space) -> usize {
    if slot == 0 || !space.is_per_slot() { space as usize } else { 2 + 2 * slot + space as usize }
}

/// The miss-ratio curves: one for each keyspace that every store has, in the order of [`index_of`],
/// and one for those of the other slots together. One for each of them would take memory for
/// queues that mostly stay empty.
pub(crate) const CURVES: [&str; 5] = ["default", "hash", "hash.fields", "hash.garbage", "db.*"];

/// The curve of the keyspace with this number.
pub(crate) fn curve_of(keyspace: usize) -> usize {
    keyspace.min(CURVES.len() - 1)
}

/// The keyspace and the key of the entry with the slots.
const SLOTS_ENTRY: (&str, &str) = ("db", "slots");

/// The slot of each database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotMap(
    /// Four bits for each database, the first in the lowest.
    u64,
);

impl Default for SlotMap {
    fn default() -> Self {
        Self((0..DATABASES as u64).fold(0, |map, slot| map | slot << (4 * slot)))
    }
}

impl SlotMap {
    /// The slot of `database`.
    pub(crate) fn slot(self, database: usize) -> usize {
        (self.0 >> (4 * database) & 15) as usize
    }

    /// The map after the databases `a` and `b` have exchanged their slots.
    #[must_use]
    pub(crate) fn swapped(self, a: usize, b: usize) -> Self {
        let difference = (self.slot(a) ^ self.slot(b)) as u64;
        Self(self.0 ^ difference << (4 * a) ^ difference << (4 * b))
    }

    fn encode(self) -> Bytes {
        (0..DATABASES).map(|database| self.slot(database) as u8).collect::<Vec<_>>().into()
    }

    /// `None` if `bytes` do not name each slot once.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut sorted = bytes.to_vec();
        sorted.sort_unstable();
        let is_complete = sorted.iter().map(|&slot| usize::from(slot)).eq(0..DATABASES);
        let add = |map, (at, &slot): (usize, &u8)| map | u64::from(slot) << (4 * at);
        is_complete.then(|| Self(bytes.iter().enumerate().fold(0, add)))
    }
}

/// The open keyspaces.
#[derive(Debug)]
pub(crate) struct Keyspaces {
    db: Db,
    filter_kind: Option<FilterKind>,
    /// The keyspaces of each slot for strings and heads; unset until they are needed.
    slots: [OnceLock<[Keyspace; 2]>; DATABASES],
    fields: Keyspace,
    garbage: Keyspace,
    /// The keyspace of the slots; unset until the first `SWAPDB`.
    slots_entry: OnceLock<Keyspace>,
    map: AtomicU64,
    /// How often each database has changed its slot since the server was started.
    swaps: [AtomicU64; DATABASES],
    /// Held while keyspaces are created.
    creation: Mutex<()>,
    heads: HeadPresence,
}

/// Opens or creates the keyspace `name`; new tables have filters of `filter_kind`, if it is set.
fn open(db: &Db, name: &str, filter_kind: Option<FilterKind>) -> tidekv::Result<Keyspace> {
    let keyspace = db.keyspace(name)?;
    match filter_kind {
        None => Ok(keyspace),
        Some(filter_kind) => {
            let options = keyspace.options().filter_kind(filter_kind);
            db.keyspace_with(name, options)
        }
    }
}

/// The names of the keyspaces of `slot`.
fn names_of(slot: usize) -> [String; 2] {
    match slot {
        0 => ["default".into(), "hash".into()],
        _ => [format!("db.{slot}"), format!("db.{slot}.hash")],
    }
}

impl Keyspaces {
    /// Opens the keyspaces of the databases in use, and creates those that every store has.
    ///
    /// # Errors
    ///
    /// As for [`Db::keyspace`]; also if the entry of the slots is damaged.
    pub(crate) fn open(db: &Db, filter_kind: Option<FilterKind>) -> tidekv::Result<Self> {
        let slots: [OnceLock<[Keyspace; 2]>; DATABASES] = Default::default();
        let mut has_heads = false;
        for (number, slot) in slots.iter().enumerate() {
            let [strings, heads] = names_of(number);
            // A crash may have left one of the two.
            if number > 0 && !db.has_keyspace(&strings) && !db.has_keyspace(&heads) {
                continue;
            }
            let pair = [open(db, &strings, filter_kind)?, open(db, &heads, filter_kind)?];
            has_heads |= pair[1].iter().keys_only().next().transpose()?.is_some();
            let _ = slot.set(pair);
        }
        let (slots_entry, mut map) = (OnceLock::new(), SlotMap::default());
        if let Some(keyspace) = db.existing_keyspace(SLOTS_ENTRY.0) {
            if let Some(bytes) = keyspace.get(SLOTS_ENTRY.1)? {
                map = SlotMap::decode(&bytes).ok_or_else(|| {
                    let what =
                        "the entry `slots` of the keyspace `db` does not name each slot once";
                    tidekv::Error::new(tidekv::ErrorKind::Corrupt, what)
                })?;
            }
            let _ = slots_entry.set(keyspace);
        }
        Ok(Self {
            db: db.clone(),
            filter_kind,
            slots,
            fields: open(db, "hash.fields", filter_kind)?,
            garbage: open(db, "hash.garbage", filter_kind)?,
            slots_entry,
            map: AtomicU64::new(map.0),
            swaps: Default::default(),
            creation: Mutex::new(()),
            heads: HeadPresence { exist: AtomicBool::new(has_heads), gate: RwLock::new(()) },
        })
    }

    /// The keyspace of `space` in `slot`; `None` if it does not exist, so that it has no entries.
    pub(crate) fn get(&self, slot: usize, space: Space) -> Option<&Keyspace> {
        match space {
            Space::Strings | Space::Heads => {
                self.slots[slot].get().map(|pair| &pair[space as usize])
            }
            Space::Fields => Some(&self.fields),
            Space::Garbage => Some(&self.garbage),
        }
    }

    /// Like [`Keyspaces::get`], but creates the keyspaces of the slot if they do not exist. Waits
    /// for storage then.
    pub(crate) fn get_or_create(&self, slot: usize, space: Space) -> tidekv::Result<&Keyspace> {
        if self.slots[slot].get().is_none() {
            let _creation = self.creation.lock();
            let [strings, heads] = names_of(slot);
            let pair = [
                open(&self.db, &strings, self.filter_kind)?,
                open(&self.db, &heads, self.filter_kind)?,
            ];
            self.slots[slot].get_or_init(|| pair);
        }
        Ok(self.get(slot, space).expect("the keyspaces of the slot were just created"))
    }

    /// The keyspace of all parts.
    pub(crate) fn fields(&self) -> &Keyspace {
        &self.fields
    }

    /// The keyspace of the notes of garbage.
    pub(crate) fn garbage(&self) -> &Keyspace {
        &self.garbage
    }

    /// All open keyspaces with entries of databases, by [`index_of`].
    pub(crate) fn all(&self) -> impl Iterator<Item = &Keyspace> {
        let pairs = self.slots.iter().filter_map(OnceLock::get).flatten();
        pairs.chain([&self.fields, &self.garbage])
    }

    /// Whether a slot other than `slot` has heads.
    pub(crate) fn has_heads_beside(&self, slot: usize) -> tidekv::Result<bool> {
        for (number, pair) in self.slots.iter().enumerate() {
            if let Some([_, heads]) = pair.get()
                && number != slot
                && heads.iter().keys_only().next().transpose()?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The slots of the databases.
    pub(crate) fn slot_map(&self) -> SlotMap {
        SlotMap(self.map.load(Ordering::SeqCst))
    }

    /// How often `database` has changed its slot since the server was started.
    pub(crate) fn swaps(&self, database: usize) -> u64 {
        self.swaps[database].load(Ordering::SeqCst)
    }

    /// The entry that stores `map`: its keyspace, which is created if it does not exist, its key
    /// and its value.
    pub(crate) fn slots_entry(
        &self,
        map: SlotMap,
    ) -> tidekv::Result<(&Keyspace, &'static str, Bytes)> {
        if self.slots_entry.get().is_none() {
            let _creation = self.creation.lock();
            let keyspace = self.db.keyspace(SLOTS_ENTRY.0)?;
            self.slots_entry.get_or_init(|| keyspace);
        }
        let keyspace = self.slots_entry.get().expect("just set");
        Ok((keyspace, SLOTS_ENTRY.1, map.encode()))
    }

    /// Makes `map` the slots of the databases. The caller has the gate to itself
    /// ([`HeadPresence::exclude`]) and has stored the map.
    pub(crate) fn set_slot_map(&self, map: SlotMap) {
        let before = SlotMap(self.map.swap(map.0, Ordering::SeqCst));
        let changed =
            (0..DATABASES).filter(|&database| before.slot(database) != map.slot(database));
        changed.for_each(|database| {
            self.swaps[database].fetch_add(1, Ordering::SeqCst);
        });
    }

    pub(crate) fn heads(&self) -> &HeadPresence {
        &self.heads
    }
}

/// Whether any key may have a head. If none does, `SET` need not read the key that it overwrites.
///
/// A transaction holds the gate ([`HeadPresence::enter`]) from its first command to its commit, so
/// the answer does not change meanwhile; the first head waits at the gate until every transaction
/// that has seen "no" has ended.
#[derive(Debug)]
pub(crate) struct HeadPresence {
    exist: AtomicBool,
    gate: RwLock<()>,
}

impl HeadPresence {
    pub(crate) fn exist(&self) -> bool {
        self.exist.load(Ordering::SeqCst)
    }

    /// To be called before a transaction that creates a head.
    pub(crate) fn announce(&self) {
        if !self.exist() {
            let _gate = self.gate.write();
            self.exist.store(true, Ordering::SeqCst);
        }
    }

    /// Prevents changes of [`HeadPresence::exist`]. Lock order: turns on stripes, then
    /// this; a caller of `announce` does not hold it.
    pub(crate) fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }

    /// Waits until nobody holds the gate, and keeps everybody out: for changes of the slots, and for
    /// commands that no transaction may overlap. Lock order as of [`HeadPresence::enter`].
    pub(crate) fn exclude(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    /// Like [`HeadPresence::enter`], but `None` if that must wait.
    pub(crate) fn try_enter(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.gate.try_read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspaces_have_different_numbers_and_those_of_slot_0_their_curves() {
        let numbers = |slot| [Space::Strings, Space::Heads].map(|space| index_of(slot, space));
        let mut all: Vec<usize> = (0..DATABASES).flat_map(numbers).collect();
        all.extend([Space::Fields, Space::Garbage].map(|space| index_of(7, space)));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * DATABASES + 2);
        assert_eq!(CURVES[..2], names_of(0));
        assert_eq!(CURVES[curve_of(index_of(3, Space::Fields))], "hash.fields");
        assert_eq!(CURVES[curve_of(index_of(1, Space::Strings))], "db.*");
    }

    #[test]
    fn a_swap_exchanges_two_slots() {
        let map = SlotMap::default();
        assert!((0..DATABASES).all(|database| map.slot(database) == database));
        let swapped = map.swapped(0, 15).swapped(15, 3);
        assert_eq!([0, 15, 3].map(|database| swapped.slot(database)), [15, 3, 0]);
        assert_eq!(swapped.swapped(15, 3).swapped(0, 15), map);
        assert_eq!(map.swapped(4, 4), map);
    }

    #[test]
    fn the_slots_have_the_documented_bytes() {
        let map = SlotMap::default().swapped(0, 2);
        assert_eq!(map.encode()[..], [2, 1, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(SlotMap::decode(&map.encode()), Some(map));
        for damaged in [&b""[..], &[0; 16], &map.encode()[1..], &[16; 16]] {
            assert_eq!(SlotMap::decode(damaged), None);
        }
    }
}
