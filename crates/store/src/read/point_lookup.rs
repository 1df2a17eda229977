//! A lookup of a key, and the part of it that memory answers without the tree: the beginning of a
//! point read ([`crate::read::point_read`] describes all of it).
//!
//! Most reads of a store whose hot keys are cached end here, so this part does not allocate, and
//! passes on values without copying them.
//!
//! Guarantees: memtables, whose versions are newer, are searched before the caches; and a value of
//! KV is used only if the view is sure to contain it too ([`Reader::is_sure_of`]).

use bytes::Bytes;
use tidekv_cache::KpEntry;
use tidekv_cache::KvEntry;
use tidekv_cache::Name;
use tidekv_cache::PointCacheLookup;

use crate::format::key::{Kind, LookupKey, Sequence, Trailer};
use crate::read::read_context::ReadContext;
use crate::sst::block::Part;
use crate::version::levels::TableHandle;
use crate::version::tree::Tree;
use crate::version::view::View;

/// A reader, and the writes that it may see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) tree: &'a Tree,
    /// Entries newer than this are invisible.
    pub(crate) sequence: Sequence,
    /// The view has every write up to this one. At most `sequence`.
    pub(crate) known: Sequence,
    /// Whether `known` is the sequence of a live snapshot.
    pub(crate) is_at_snapshot: bool,
}

impl Reader<'_> {
    /// Whether the view is sure to contain a version that was found elsewhere with this sequence.
    /// Call it after the version was found.
    #[inline]
    pub(crate) fn is_sure_of(&self, sequence: Sequence) -> bool {
        match sequence {
            // A compaction has cleared its sequence, which may be any that was flushed by now, but
            // none that a snapshot does not see.
            0 => self.is_at_snapshot || self.tree.flushed() <= self.known,
            _ => sequence <= self.known,
        }
    }
}

/// The payload of a version.
#[derive(Debug, Clone)]
pub(crate) enum Payload<'p> {
    /// Bytes that are valid only during the call that receives them.
    Borrowed(&'p [u8]),
    /// Owned bytes.
    Own(Bytes),
    /// A part of a block, which may be kept ([`Payload::into_bytes`]) or only read.
    Part(Part),
}

impl Payload<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Own(bytes) => bytes,
            Self::Part(part) => part.as_ref(),
        }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
            Self::Own(bytes) => bytes,
            Self::Part(part) => part.into_bytes(),
        }
    }

    /// The same without borrowed bytes.
    pub(crate) fn into_owned(self) -> Payload<'static> {
        match self {
            Self::Borrowed(bytes) => Payload::Own(Bytes::copy_from_slice(bytes)),
            Self::Own(bytes) => Payload::Own(bytes),
            Self::Part(part) => Payload::Part(part),
        }
    }
}

/// The result of a lookup in memory.
pub(crate) enum Known<'a, R> {
    /// Its newest version, from a memtable.
    Written(R),
    /// Its newest version, from KV.
    Cached(R),
    /// Its location according to KP, if the pointer is of this key at all.
    EntryLocation(KpEntry, &'a TableHandle),
    Nothing,
}

/// A lookup of a key in a view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointLookup<'a> {
    pub(crate) view: &'a View,
    pub(crate) key: LookupKey<'a>,
    pub(crate) reader: Reader<'a>,
    /// The hash of the name.
    pub(crate) hash: u64,
}

impl<'a> PointLookup<'a> {
    pub(crate) fn name(&self) -> Name<'a> {
        Name { keyspace: self.reader.tree.id, key: self.key.user_key }
    }

    /// Looks the key up in memory; a version that was found is mapped by `see`. `see` runs at most
    /// once, and possibly under a lock: keep it short.
    #[inline]
    pub(crate) fn lookup_in_memory<R>(
        &self,
        context: &ReadContext,
        see: &mut impl FnMut(Trailer, Payload<'_>) -> R,
    ) -> Known<'a, R> {
        match self.ask_memtables(see) {
            Some(seen) => Known::Written(seen),
            None => self.ask_point_cache(context, see),
        }
    }

    #[inline]
    fn ask_memtables<R>(&self, see: &mut impl FnMut(Trailer, Payload<'_>) -> R) -> Option<R> {
        for memtable in self.view.memtables() {
            let covered = memtable.tombstone_over(self.key.user_key, self.key.sequence);
            if let Some(found) = memtable.get(&self.key)
                && found.trailer.sequence() > covered
            {
                return Some(see(found.trailer, Payload::Borrowed(found.payload)));
            }
            if covered > 0 {
                return Some(see(Trailer::new(covered, Kind::Delete), Payload::Borrowed(&[])));
            }
        }
        None
    }

    #[inline]
    fn ask_point_cache<R>(
        &self,
        context: &ReadContext,
        see: &mut impl FnMut(Trailer, Payload<'_>) -> R,
    ) -> Known<'a, R> {
        let point = context.caches.point();
        if !point.holds_entries() {
            return Known::Nothing;
        }
        let read = |entry: KvEntry<'_>| {
            let trailer = Trailer(entry.stamp);
            let is_sure = self.reader.is_sure_of(trailer.sequence());
            is_sure.then(|| see(trailer, Payload::Borrowed(entry.value)))
        };
        let entry = match point.lookup(self.hash, self.name(), read) {
            PointCacheLookup::Value(seen) => return Known::Cached(seen),
            PointCacheLookup::Pointer(entry) => entry,
            PointCacheLookup::Miss => return Known::Nothing,
        };
        let level = usize::from(entry.level);
        match self.view.version.find_by_id(entry.pointer.table, self.key.user_key, level) {
            Some(handle) => Known::EntryLocation(entry, handle),
            None => {
                point.pointer_failed(self.hash);
                Known::Nothing
            }
        }
    }
}
