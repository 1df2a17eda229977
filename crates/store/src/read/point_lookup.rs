//! A key as somebody asks for it, and what memory answers without the tree: the beginning
//! of a point read ([`crate::read::point_read`] has the whole way).
//!
//! Most reads of a store whose hot keys are cached end here, so this part allocates
//! nothing and hands out what it finds where it lies.
//!
//! Guarantees: memtables, whose versions are newer, go before the caches; and from KV comes
//! only what the view is sure to hold too ([`Reader::is_sure_of`]).

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

/// Who reads, and what it may see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) tree: &'a Tree,
    /// Entries newer than this are not seen.
    pub(crate) sequence: Sequence,
    /// Every write up to here is in the view. At most `sequence`.
    pub(crate) known: Sequence,
    /// Whether `known` is the moment of a snapshot that lives.
    pub(crate) is_at_snapshot: bool,
}

impl Reader<'_> {
    /// Whether the view is sure to hold a version too that is somewhere found with this
    /// sequence. To be asked after it was found.
    #[inline]
    pub(crate) fn is_sure_of(&self, sequence: Sequence) -> bool {
        match sequence {
            // A compaction has taken away its sequence, which may be any that was flushed by
            // now, but none that a snapshot does not see.
            0 => self.is_at_snapshot || self.tree.flushed() <= self.known,
            _ => sequence <= self.known,
        }
    }
}

/// What a version holds.
#[derive(Debug, Clone)]
pub(crate) enum Payload<'p> {
    /// Bytes that are gone when the look at them is over.
    Borrowed(&'p [u8]),
    /// Bytes to keep.
    Own(Bytes),
    /// Bytes of a block, which may be kept ([`Payload::into_bytes`]) or looked at.
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

    /// The same without what is lent.
    pub(crate) fn into_owned(self) -> Payload<'static> {
        match self {
            Self::Borrowed(bytes) => Payload::Own(Bytes::copy_from_slice(bytes)),
            Self::Own(bytes) => Payload::Own(bytes),
            Self::Part(part) => Payload::Part(part),
        }
    }
}

/// What memory knows of a key.
pub(crate) enum Known<'a, R> {
    /// Its newest version, of a memtable.
    Written(R),
    /// Its newest version, of KV.
    Cached(R),
    /// Where KP says that it stands, if that is the key at all.
    EntryLocation(KpEntry, &'a TableHandle),
    Nothing,
}

/// A key that a reader asks a view for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointLookup<'a> {
    pub(crate) view: &'a View,
    pub(crate) key: LookupKey<'a>,
    pub(crate) reader: Reader<'a>,
    /// That of the name.
    pub(crate) hash: u64,
}

impl<'a> PointLookup<'a> {
    pub(crate) fn name(&self) -> Name<'a> {
        Name { keyspace: self.reader.tree.id, key: self.key.user_key }
    }

    /// What memory knows of the key, or what `see` makes of it. `see` runs once at most, and
    /// possibly under a lock: keep it short.
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
