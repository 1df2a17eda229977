//! A two-level index modelled on uDepot (Kourtis, Ioannou and Koltsidas, FAST 2019), as far as
//! BigKV's measurements need it.
//!
//! *From uDepot*: a directory of hash tables; hopscotch hashing in each, with neighbourhoods of 32;
//! entries of eight bytes with a location of 40 bits, a tag of 8 bits and 5 bits for the distance
//! of the entry from its home; a matching tag counts only after a comparison of the key on flash,
//! so a write that finds one reads the old object first.
//!
//! *Not from uDepot*: it keeps its tables in memory, and lets the system page them. Here they are
//! on flash and the recently used buckets in memory, as BigKV describes its baselines. The
//! directory is arithmetic: the number of tables is that of a full log at three quarters load, and
//! they do not grow. Entries have no size, as slots have one size; there is no list of the entries
//! of a home, as each entry records its home.
//!
//! ```text
//!   hash ─▶ table, home ─▶ home + 0 … home + 31      a bucket ends somewhere in between, in
//!                          tag and distance match?   half of all neighbourhoods: another read
//! ```
//!
//! A lookup scans a neighbourhood upwards, and takes no lock: a displaced entry moves upwards, and
//! is at its new position before another takes its old one. Changes of one table wait for each
//! other.

use std::path::Path;
use std::sync::Mutex;

use tidekv_io::Storage;

use crate::failure::Result;
use crate::subjects::indexes::buckets::Buckets;
use crate::subjects::indexes::lookup::{Index, IsIt, entry_of, parts_of};

const NEIGHBOURHOOD: u64 = 32;
const DISTANCE_BITS: u32 = NEIGHBOURHOOD.trailing_zeros();

/// Entries of a table, a power of two.
const TABLE_ENTRIES: u64 = 4096;

/// Bits of a tag.
pub(super) const TAG_BITS: u32 = 8;

/// The maximum distance of a free position from home.
const SEARCH_ENTRIES: u64 = TABLE_ENTRIES / 2;

/// The index.
pub(super) struct UDepot {
    buckets: Buckets,
    tables: Box<[Mutex<()>]>,
    tag_mask: u64,
}

/// The parts of a hash.
#[derive(Debug, Clone, Copy)]
struct Key {
    table: u64,
    home: u64,
    tag: u64,
}

impl UDepot {
    /// An index for this number of objects, with tags of this number of bits, in a new file.
    pub(super) fn new(
        storage: &dyn Storage,
        path: &Path,
        objects: u64,
        tag_bits: u32,
        memory_bytes: u64,
    ) -> Result<Self> {
        let tables = (objects * 4 / 3).div_ceil(TABLE_ENTRIES).max(1);
        let buckets = Buckets::new(storage, path, memory_bytes)?;
        buckets.make_room(tables * TABLE_ENTRIES / buckets.bucket_entries())?;
        let tables = (0..tables).map(|_| Mutex::default()).collect();
        Ok(Self { buckets, tables, tag_mask: (1 << tag_bits) - 1 })
    }

    fn key_of(&self, hash: u64) -> Key {
        Key {
            table: ((hash >> 32) * self.tables.len() as u64) >> 32,
            home: hash % TABLE_ENTRIES,
            tag: (hash / TABLE_ENTRIES) & self.tag_mask,
        }
    }

    /// The bucket of a position in a table, and the position in it.
    fn bucket_of(&self, table: u64, at: u64) -> (u64, usize) {
        let place = table * TABLE_ENTRIES + at % TABLE_ENTRIES;
        let entries = self.buckets.bucket_entries();
        (place / entries, (place % entries) as usize)
    }

    /// The parts of buckets between two distances from a home: a bucket, the start of the part, and
    /// its distance.
    fn parts(&self, key: Key, from: u64, to: u64) -> impl Iterator<Item = (u64, usize, u64, u64)> {
        let mut distance = from;
        std::iter::from_fn(move || {
            let (bucket, first) = self.bucket_of(key.table, key.home + distance);
            let entries = (self.buckets.bucket_entries() - first as u64).min(to - distance);
            let part = (entries > 0).then_some((bucket, first, distance, entries));
            distance += entries;
            part
        })
    }

    /// Replaces the entry of `old` by `new`; whether it exists.
    fn replace(&self, key: Key, old: u64, new: u64) -> Result<bool> {
        for (bucket, first, distance, entries) in self.parts(key, 0, NEIGHBOURHOOD) {
            let marks = (distance..distance + entries).map(|distance| mark_of(key.tag, distance));
            let position = self.buckets.see(bucket, &mut 0, |all| {
                let own = &all[first..];
                own.iter().zip(marks).position(|(entry, mark)| *entry == entry_of(mark, old))
            })?;
            if let Some(position) = position {
                let entry = match new {
                    NOWHERE => 0,
                    new => entry_of(mark_of(key.tag, distance + position as u64), new),
                };
                self.buckets.change(bucket, |all| all[first + position] = entry)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The distance of the next free position from home.
    fn distance_of_free(&self, key: Key, is_alive: &dyn Fn(u64) -> bool) -> Result<Option<u64>> {
        let is_free = |entry: u64| !parts_of(entry).is_some_and(|(_, place)| is_alive(place));
        for (bucket, first, distance, entries) in self.parts(key, 0, SEARCH_ENTRIES) {
            let free = self.buckets.see(bucket, &mut 0, |all| {
                all[first..first + entries as usize].iter().position(|entry| is_free(*entry))
            })?;
            if let Some(free) = free {
                return Ok(Some(distance + free as u64));
            }
        }
        Ok(None)
    }

    /// Moves one of the entries before a free position there, so that its own becomes free: returns
    /// the new distance of a free position from home; `None`: none of them may move.
    fn displace(&self, key: Key, free: u64) -> Result<Option<u64>> {
        for distance in free + 1 - NEIGHBOURHOOD..free {
            let (bucket, at) = self.bucket_of(key.table, key.home + distance);
            let entry = self.buckets.see(bucket, &mut 0, |all| all[at])?;
            let Some((mark, place)) = parts_of(entry) else { return Ok(Some(distance)) };
            let (tag, own_distance) = (mark >> DISTANCE_BITS, mark % NEIGHBOURHOOD);
            let new_distance = own_distance + free - distance;
            if new_distance < NEIGHBOURHOOD {
                let (bucket, at) = self.bucket_of(key.table, key.home + free);
                let entry = entry_of(mark_of(tag, new_distance), place);
                self.buckets.change(bucket, |all| all[at] = entry)?;
                return Ok(Some(distance));
            }
        }
        Ok(None)
    }
}

/// The location of no object.
const NOWHERE: u64 = u64::MAX;

fn mark_of(tag: u64, distance: u64) -> u64 {
    (tag << DISTANCE_BITS) | distance
}

impl Index for UDepot {
    fn find(&self, hash: u64, reads: &mut u64, is_it: IsIt<'_>) -> Result<Option<u64>> {
        let key = self.key_of(hash);
        for (bucket, first, distance, entries) in self.parts(key, 0, NEIGHBOURHOOD) {
            let places: Vec<u64> = self.buckets.see(bucket, reads, |all| {
                let own = all[first..].iter().zip(distance..distance + entries);
                let matching = own.filter_map(|(entry, distance)| {
                    let (mark, place) = parts_of(*entry)?;
                    (mark == mark_of(key.tag, distance)).then_some(place)
                });
                matching.collect()
            })?;
            for place in places {
                if is_it(place)? {
                    return Ok(Some(place));
                }
            }
        }
        Ok(None)
    }

    fn set(
        &self,
        hash: u64,
        old: Option<u64>,
        new: u64,
        is_alive: &dyn Fn(u64) -> bool,
    ) -> Result<bool> {
        let key = self.key_of(hash);
        let _changing = self.tables[key.table as usize].lock().expect("nobody panics with it");
        if let Some(old) = old
            && self.replace(key, old, new)?
        {
            return Ok(true);
        }
        let Some(mut free) = self.distance_of_free(key, is_alive)? else { return Ok(false) };
        while free >= NEIGHBOURHOOD {
            let Some(nearer) = self.displace(key, free)? else { return Ok(false) };
            free = nearer;
        }
        let (bucket, at) = self.bucket_of(key.table, key.home + free);
        let entry = entry_of(mark_of(key.tag, free), new);
        self.buckets.change(bucket, |all| all[at] = entry)?;
        Ok(true)
    }

    fn remove(&self, hash: u64, place: u64) -> Result<()> {
        let key = self.key_of(hash);
        let _changing = self.tables[key.table as usize].lock().expect("nobody panics with it");
        self.replace(key, place, NOWHERE).map(drop)
    }

    fn memory_bytes(&self) -> u64 {
        self.buckets.memory_bytes()
    }

    fn reads(&self) -> (u64, u64) {
        self.buckets.reads()
    }

    fn written_bytes(&self) -> u64 {
        self.buckets.written_bytes()
    }
}
