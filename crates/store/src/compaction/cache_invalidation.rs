//! What the point cache is told of a merge: new versions of keys by a flush, entries
//! that move by a compaction.
//!
//! A flush tells of each key at once what its newest version is; where it stands is
//! known when its block is written, and told when the flush is about to be published
//! ([`redirect`]). A compaction first looks which entries of its inputs pointers lead to,
//! follows these, and tells when its outputs are published ([`follow`]): until then the
//! old places are right, and afterwards a pointer that was not followed leads to a table
//! that is not there any more.

use std::cmp::Ordering;

use tidekv_cache::KvEntry;
use tidekv_cache::Name;
use tidekv_cache::PointCache;
use tidekv_cache::{KpEntry, Pointer};

use crate::format::checksum::name_hash;
use crate::format::entry_location::{EntryLocation, RelocatedEntry, Tag};
use crate::format::key::{Kind, SEQUENCE_MAX, Trailer};
use crate::format::range_tombstones::RangeTombstones;

/// How the entries of a merge concern the point cache.
#[derive(Debug)]
pub(crate) enum CacheInvalidation<'a> {
    /// Not at all.
    None,
    /// The first of each key is its newest version.
    NewVersions(NewVersions<'a>),
    /// They stand elsewhere from now on.
    Relocations { remaining: RemainingPointers<'a>, point: &'a PointCache, keyspace: u32 },
}

/// Tells of new versions.
#[derive(Debug)]
pub(crate) struct NewVersions<'a> {
    point: &'a PointCache,
    keyspace: u32,
    /// What is known of a key becomes its newest version; else it goes.
    renews: bool,
    /// Of what is flushed.
    tombstones: &'a RangeTombstones,
    /// The key that was told of last; none is empty.
    key: Vec<u8>,
}

/// A pointer that is followed through a compaction takes about 128 bytes meanwhile; all
/// together take a sixteenth of the caches' budget.
pub(crate) const BUDGET_PER_POINTER: usize = 16 * 128;

/// Entries that pointers lead to.
#[derive(Debug, Default)]
pub(crate) struct TrackedPointers {
    /// Pointers and what they are found by, ordered by place.
    pointers: Vec<(Pointer, u64)>,
}

/// Of [`TrackedPointers`], those that lead to entries which a merge has not come to yet: entries of
/// one table come in their order.
#[derive(Debug)]
pub(crate) struct RemainingPointers<'a> {
    /// By the numbers of the tables, ascending: they are looked up for every entry.
    tables: Vec<(u64, &'a [(Pointer, u64)])>,
}

impl TrackedPointers {
    /// Of the tables that are `inputs`, at most `pointers_max` of them: whatever is not
    /// followed leads nowhere afterwards.
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

    /// How to tag the entry that stands there.
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
    /// Of a flush of the keyspace. What caches know of its keys is brought up to date if it
    /// `renews`, or goes.
    pub(crate) fn new_versions(
        point: &'a PointCache,
        keyspace: u32,
        renews: bool,
        tombstones: &'a RangeTombstones,
    ) -> Self {
        // What comes in from here on was found by readers who have seen the memtables.
        if point.is_empty() {
            return Self::None;
        }
        Self::NewVersions(NewVersions { point, keyspace, renews, tombstones, key: Vec::new() })
    }

    /// Of a compaction of the keyspace.
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

    /// Whether it matters where entries stand.
    pub(crate) fn wants_places(&self) -> bool {
        matches!(self, Self::Relocations { remaining, .. } if !remaining.tables.is_empty())
    }

    /// The next entry of the merge, which had the trailer `was`, is `kept` with another,
    /// or dropped; how to tag it. `place`: where it stood, if it is kept and that matters.
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
        // What is kept for a snapshot alone is not the newest version.
        let covered = self.tombstones.newest_over(key, SEQUENCE_MAX);
        let is_newest = |t: &Trailer| is_value(t) && t.sequence() > covered;
        let renewed = kept.filter(|trailer| self.renews && is_newest(trailer));
        let entry =
            renewed.map(|trailer| KvEntry { name, stamp: trailer.0, value: payload, level: 0 });
        self.point.update(hash, name, entry).then_some(Tag { hash, from: None })
    }
}

/// The newest versions of keys stand on level 0 as soon as its new table is published.
pub(crate) fn redirect(point: &PointCache, placed: &[RelocatedEntry]) {
    for RelocatedEntry { tag, to } in placed {
        point.redirect(tag.hash, KpEntry { pointer: *to, level: 0 });
    }
}

/// Entries stand on `level` elsewhere now.
pub(crate) fn relocate(point: &PointCache, placed: &[RelocatedEntry], level: usize) {
    for RelocatedEntry { tag, to } in placed {
        if let Some(from) = tag.from {
            point.relocate(tag.hash, from, KpEntry { pointer: *to, level: level as u8 });
        }
    }
}
