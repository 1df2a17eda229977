//! Updates of the point cache during a merge: new versions of keys in a flush, moved entries in a
//! compaction.
//!
//! A flush reports the newest version of each key at once; the location is known when its block is
//! written, and reported when the flush is about to be published ([`redirect`]). A compaction first
//! collects the pointers to entries of its inputs, tracks these, and reports the new locations when
//! its outputs are published ([`relocate`]): until then the old locations are correct, and
//! afterwards a pointer that was not tracked refers to a table that no longer exists.

use std::cmp::Ordering;

use tidekv_cache::KvEntry;
use tidekv_cache::Name;
use tidekv_cache::PointCache;
use tidekv_cache::{KpEntry, Pointer};

use crate::format::checksum::name_hash;
use crate::format::entry_location::{EntryLocation, RelocatedEntry, Tag};
use crate::format::key::{Kind, SEQUENCE_MAX, Trailer};
use crate::format::range_tombstones::RangeTombstones;

/// The effect of a merge's entries on the point cache.
#[derive(Debug)]
pub(crate) enum CacheInvalidation<'a> {
    /// No effect.
    None,
    /// The first entry of each key is its newest version.
    NewVersions(NewVersions<'a>),
    /// They move to new locations.
    Relocations { remaining: RemainingPointers<'a>, point: &'a PointCache, keyspace: u32 },
}

/// Reports new versions.
#[derive(Debug)]
pub(crate) struct NewVersions<'a> {
    point: &'a PointCache,
    keyspace: u32,
    /// Whether cached entries of a key are updated to its newest version; otherwise they are
    /// removed.
    renews: bool,
    /// Tombstones of the flushed memtables.
    tombstones: &'a RangeTombstones,
    /// The last reported key; none is empty.
    key: Vec<u8>,
}

/// A tracked pointer takes about 128 bytes during a compaction; all together take a sixteenth of
/// the caches' budget.
pub(crate) const BUDGET_PER_POINTER: usize = 16 * 128;

/// Pointers to entries of a compaction's inputs.
#[derive(Debug, Default)]
pub(crate) struct TrackedPointers {
    /// Pointers with their hashes, ordered by location.
    pointers: Vec<(Pointer, u64)>,
}

/// The [`TrackedPointers`] to entries that a merge has not reached yet: entries of one table are
/// merged in their order.
#[derive(Debug)]
pub(crate) struct RemainingPointers<'a> {
    /// By table number, ascending: looked up for every entry.
    tables: Vec<(u64, &'a [(Pointer, u64)])>,
}

impl TrackedPointers {
    /// The pointers into the tables `inputs`, at most `pointers_max` of them: pointers that are not
    /// tracked become invalid.
    pub(crate) fn of(point: &PointCache, inputs: &[u64], pointers_max: usize) -> Self {
        if !point.holds_entries() {
            return Self::default();
        }
        let mut pointers = point.pointers_into(|table| inputs.contains(&table), pointers_max);
        pointers
            .sort_unstable_by_key(|(pointer, _)| (pointer.table, pointer.offset, pointer.position));
        Self { pointers }
    }
}

impl<'a> RemainingPointers<'a> {
    fn new(pointers: &'a TrackedPointers) -> Self {
        let of_tables = pointers.pointers.chunk_by(|(a, _), (b, _)| a.table == b.table);
        Self { tables: of_tables.map(|of_table| (of_table[0].0.table, of_table)).collect() }
    }

    /// The tag of the entry at that location, if a pointer refers to it.
    fn tag(&mut self, place: EntryLocation) -> Option<Tag> {
        let found = self.tables.binary_search_by_key(&place.table, |(table, _)| *table);
        let (_, pointers) = &mut self.tables[found.ok()?];
        while let Some(((from, hash), rest)) = pointers.split_first() {
            match (from.offset, from.position).cmp(&(place.offset, place.position)) {
                Ordering::Less => *pointers = rest,
                Ordering::Equal => return Some(Tag { hash: *hash, from: Some(*from) }),
                Ordering::Greater => return None,
            }
        }
        None
    }
}

impl<'a> CacheInvalidation<'a> {
    /// For a flush of the keyspace. Cached entries of its keys are updated if it `renews`,
    /// otherwise removed.
    pub(crate) fn new_versions(
        point: &'a PointCache,
        keyspace: u32,
        renews: bool,
        tombstones: &'a RangeTombstones,
    ) -> Self {
        // Entries cached from here on were found by readers that have seen the memtables.
        if point.is_empty() {
            return Self::None;
        }
        Self::NewVersions(NewVersions { point, keyspace, renews, tombstones, key: Vec::new() })
    }

    /// For a compaction of the keyspace.
    pub(crate) fn relocations(
        pointers: &'a TrackedPointers,
        point: &'a PointCache,
        keyspace: u32,
    ) -> Self {
        match point.holds_entries() {
            true => {
                Self::Relocations { remaining: RemainingPointers::new(pointers), point, keyspace }
            }
            false => Self::None,
        }
    }

    /// Whether the locations of entries are needed.
    pub(crate) fn wants_locations(&self) -> bool {
        matches!(self, Self::Relocations { remaining, .. } if !remaining.tables.is_empty())
    }

    /// Handles the next entry of the merge, which had the trailer `was` and is `kept` with another,
    /// Handles the next entry of the merge, which had the trailer `was` and is `kept` with another
    /// one, or dropped; returns its tag. `place`: its previous location, if it is kept and the
    /// location is needed.
    #[inline]
    pub(crate) fn entry(
        &mut self,
        key: &[u8],
        was: Trailer,
        kept: Option<Trailer>,
        payload: &[u8],
        place: Option<EntryLocation>,
    ) -> Option<Tag> {
        match self {
            Self::None => None,
            Self::NewVersions(new) => new.entry(key, kept, payload),
            Self::Relocations { remaining, point, keyspace } => {
                let is_expiring = |trailer: Trailer| trailer.kind() == Kind::Expiring;
                if is_expiring(was) && !kept.is_some_and(is_expiring) {
                    // It has expired, and stays so even if clocks go back.
                    let name = Name { keyspace: *keyspace, key };
                    point.update(name_hash(name), name, None);
                }
                remaining.tag(place?)
            }
        }
    }
}

impl NewVersions<'_> {
    fn entry(&mut self, key: &[u8], kept: Option<Trailer>, payload: &[u8]) -> Option<Tag> {
        if self.key == key {
            return None;
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        let name = Name { keyspace: self.keyspace, key };
        let hash = name_hash(name);
        let is_value = |t: &Trailer| matches!(t.kind(), Kind::Value | Kind::Expiring);
        // An entry that is kept only for a snapshot is not the newest version.
        let covered = self.tombstones.newest_over(key, SEQUENCE_MAX);
        let is_newest = |t: &Trailer| is_value(t) && t.sequence() > covered;
        let renewed = kept.filter(|trailer| self.renews && is_newest(trailer));
        let entry =
            renewed.map(|trailer| KvEntry { name, stamp: trailer.0, value: payload, level: 0 });
        self.point.update(hash, name, entry).then_some(Tag { hash, from: None })
    }
}

/// Points the newest versions of keys to level 0; called when the new table is published.
pub(crate) fn redirect(point: &PointCache, placed: &[RelocatedEntry]) {
    for RelocatedEntry { tag, to } in placed {
        point.redirect(tag.hash, KpEntry { pointer: *to, level: 0 });
    }
}

/// Points entries to their new locations on `level`.
pub(crate) fn relocate(point: &PointCache, placed: &[RelocatedEntry], level: usize) {
    for RelocatedEntry { tag, to } in placed {
        if let Some(from) = tag.from {
            point.relocate(tag.hash, from, KpEntry { pointer: *to, level: level as u8 });
        }
    }
}
