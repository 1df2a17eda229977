//! Hot index entries: lines of four in DRAM, of any partitions.
//!
//! Guarantee: [`Hot::find`] returns the entry last inserted for that name, if it was not removed,
//! or nothing; or, with a probability of about 2^-31 at full fingerprints, an entry of another key:
//! readers of the record compare keys anyway. This also holds while its memory changes.
//!
//! **What we changed.** BigKV keeps hot buckets. A bucket with one hot entry has three cold ones,
//! so single entries are kept here: four times as many hot ones in the same memory; the negative
//! information of a bucket is in [`crate::index::locator`].
//!
//! An entry is in one of two lines, so that nearly all of the memory is used before one is evicted
//! for another. Then one is evicted that was not accessed since its lines were last full, as in a
//! clock.
//!
//! Lines are in stripes, each with a lock. The whole name chooses the stripe, and the fingerprint
//! alone, which the entry stores, chooses the lines in it: so a stripe can be resized
//! ([`Hot::resize`]). Stripes are small: this shortens the time for which a stripe is blocked, and
//! few entries are distinguished by their fingerprints alone.
//!
//! For all threads, but operations on one name must be serialised.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::entry::Entry;
use crate::segment::layout::Name;

const WAYS: usize = 4;
/// One cache line of a processor.
const LINE_BYTES: usize = WAYS * 16;
/// Lines of a stripe before any resize: 512 entries.
const STRIPE_LINES: usize = 128;

type Line = [Entry; WAYS];

/// Hot entries.
#[derive(Debug)]
pub(crate) struct Hot {
    stripes: Box<[Mutex<Stripe>]>,
    lines: AtomicUsize,
}

/// Entries that are found by their fingerprints; at least one line.
#[derive(Debug)]
struct Stripe {
    lines: Box<[Line]>,
    insertions: usize,
}

impl Hot {
    /// Room for entries in `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let lines = lines_in(bytes);
        let stripes = lines.div_ceil(STRIPE_LINES);
        let stripe = |n: usize| Mutex::new(Stripe::new(lines_of_stripe(lines, stripes, n)));
        Self { stripes: (0..stripes).map(stripe).collect(), lines: AtomicUsize::new(lines) }
    }

    /// Resizes to `bytes`, stripe by stripe. When shrinking, entries not accessed since their lines
    /// were last full are dropped. Of two callers the later one decides for a stripe.
    pub(crate) fn resize(&self, bytes: usize) {
        let (lines, stripes) = (lines_in(bytes), self.stripes.len());
        let mut all = 0;
        for (number, stripe) in self.stripes.iter().enumerate() {
            let lines = lines_of_stripe(lines, stripes, number);
            all += lines;
            let mut stripe = stripe.lock();
            if stripe.lines.len() != lines {
                stripe.resize(lines);
            }
        }
        self.lines.store(all, Ordering::Relaxed);
    }

    /// The entry of that name; counts as an access.
    pub(crate) fn find(&self, name: Name) -> Option<Entry> {
        self.stripe(name).lock().find(name.fingerprint)
    }

    /// Inserts an entry.
    pub(crate) fn insert(&self, partition: u32, entry: Entry) {
        self.stripe(Name { partition, fingerprint: entry.fingerprint() }).lock().insert(entry);
    }

    /// Removes the entry.
    pub(crate) fn remove(&self, name: Name) {
        self.stripe(name).lock().remove(name.fingerprint);
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        for stripe in &self.stripes {
            stripe.lock().lines.fill([Entry::NOTHING; WAYS]);
        }
    }

    /// Its memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines.load(Ordering::Relaxed) * LINE_BYTES
    }

    fn stripe(&self, name: Name) -> &Mutex<Stripe> {
        let mixed = name.fingerprint ^ u64::from(name.partition).rotate_left(40);
        let mixed = xxh3_64(&mixed.to_le_bytes());
        &self.stripes[((u128::from(mixed) * self.stripes.len() as u128) >> 64) as usize]
    }
}

fn lines_in(bytes: usize) -> usize {
    (bytes / LINE_BYTES).max(1)
}

fn lines_of_stripe(lines: usize, stripes: usize, number: usize) -> usize {
    (lines / stripes + usize::from(number < lines % stripes)).max(1)
}

impl Stripe {
    fn new(lines: usize) -> Self {
        Self { lines: vec![[Entry::NOTHING; WAYS]; lines].into(), insertions: 0 }
    }

    fn find(&mut self, fingerprint: u64) -> Option<Entry> {
        self.lines_of(fingerprint).into_iter().find_map(|line| {
            let is_named = |entry: &&mut Entry| is_it(**entry, fingerprint);
            let entry = self.lines[line].iter_mut().find(is_named)?;
            *entry = entry.accessed(true);
            Some(entry.accessed(false))
        })
    }

    fn insert(&mut self, entry: Entry) {
        let fingerprint = entry.fingerprint();
        self.remove(fingerprint);
        let mut lines = self.lines_of(fingerprint);
        // Alternate: of two entries that evict each other one finds the other line.
        if self.insertions.is_multiple_of(2) {
            lines.reverse();
        }
        self.insertions = self.insertions.wrapping_add(1);
        // The emptier one first: so both fill evenly.
        lines.sort_by_key(|line| used(&self.lines[*line]));
        let is_placed = lines.iter().any(|line| self.replace(*line, entry, Entry::is_nothing))
            || lines.iter().any(|line| self.replace(*line, entry, |other| !other.was_asked_for()));
        if !is_placed {
            for line in lines {
                self.lines[line].iter_mut().for_each(|other| *other = other.accessed(false));
            }
            self.replace(lines[fingerprint as usize % 2], entry, |_| true);
        }
    }

    fn remove(&mut self, fingerprint: u64) {
        for line in self.lines_of(fingerprint) {
            self.replace(line, Entry::NOTHING, |entry| is_it(entry, fingerprint));
        }
    }

    /// Changes its number of lines.
    fn resize(&mut self, lines: usize) {
        let old = std::mem::replace(self, Self::new(lines));
        // The older first, so that the younger are in front of them; recently accessed ones last,
        // so that they are not evicted.
        let oldest_first = || old.lines.iter().flat_map(|line| line.iter().rev());
        for were_asked_for in [false, true] {
            let some = oldest_first().filter(|entry| !entry.is_nothing());
            for entry in some.filter(|entry| entry.was_asked_for() == were_asked_for) {
                self.insert(*entry);
                if were_asked_for {
                    self.find(entry.fingerprint());
                }
            }
        }
    }

    /// Replaces an entry for which `is_to_go` is true, if there is one.
    fn replace(&mut self, line: usize, entry: Entry, is_to_go: impl Fn(Entry) -> bool) -> bool {
        let line = &mut self.lines[line];
        // The younger are in front: a new entry is not evicted before it can be accessed.
        let Some(place) = line.iter().rposition(|other| is_to_go(*other)) else { return false };
        line[..=place].rotate_right(1);
        line[0] = entry.accessed(false);
        true
    }

    fn lines_of(&self, fingerprint: u64) -> [usize; 2] {
        let mixed = xxh3_64(&fingerprint.to_le_bytes());
        [mixed >> 32, mixed & u64::from(u32::MAX)]
            .map(|half| ((half * self.lines.len() as u64) >> 32) as usize)
    }
}

fn used(line: &Line) -> usize {
    line.iter().filter(|entry| !entry.is_nothing()).count()
}

fn is_it(entry: Entry, fingerprint: u64) -> bool {
    !entry.is_nothing() && entry.fingerprint() == fingerprint
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::RecordLocation;

    fn entry(fingerprint: u64, slot: u32) -> Entry {
        Entry::record(
            fingerprint,
            RecordLocation { slot, generation: 0, offset: 0, len: 64, is_in_buffer: false },
        )
    }

    fn name(fingerprint: u64) -> Name {
        Name { partition: 3, fingerprint }
    }

    #[test]
    fn entries_are_found_until_removed_or_evicted() {
        let hot = Hot::new(100 * LINE_BYTES);
        for n in 0..340_u64 {
            hot.insert(3, entry(n, 1));
            assert_eq!(hot.find(name(n)), Some(entry(n, 1)));
            hot.insert(3, entry(n, 2));
            assert_eq!(hot.find(name(n)), Some(entry(n, 2)));
        }
        let kept = (0..340).filter(|n| hot.find(name(*n)).is_some()).count();
        assert!(kept > 310, "{kept} of 400 places");
        hot.remove(name(339));
        assert_eq!(hot.find(name(339)), None);
        hot.clear();
        assert!((0..340).all(|n| hot.find(name(n)).is_none()));
        assert_eq!(hot.memory_bytes(), 100 * LINE_BYTES);
    }

    #[test]
    fn removed_entries_stay_removed_after_resizing() {
        let hot = Hot::new(1_000 * LINE_BYTES);
        // Of two partitions: entries store only their fingerprints.
        let names = |n: u64| Name { partition: (n % 2) as u32, fingerprint: n };
        let put = |n: u64, slot| hot.insert(names(n).partition, entry(n, slot));
        (0..2_000).for_each(|n| put(n, 1));
        (0..2_000).filter(|n| n % 3 == 0).for_each(|n| put(n, 2));
        (0..2_000).filter(|n| n % 3 == 1).for_each(|n| hot.remove(names(n)));
        let found_in = |lines: usize| {
            hot.resize(lines * LINE_BYTES);
            assert!(hot.memory_bytes().abs_diff(lines * LINE_BYTES) < 8 * LINE_BYTES);
            let is_found = |n: &u64| {
                let expected = [Some(entry(*n, 2)), None, Some(entry(*n, 1))][*n as usize % 3];
                let is = hot.find(names(*n));
                assert!(is.is_none() || is == expected, "{lines} lines, {n}: {is:?}");
                is.is_some()
            };
            (0..2_000).filter(is_found).count()
        };
        // Of 1 333, as many as there is room for: each stripe has a line.
        for lines in [1_000, 3_000, 700, 1_000, 4_321, 600] {
            assert!(found_in(lines) >= 1_300, "{lines}");
        }
        let few = found_in(5);
        assert!((8..=32).contains(&few), "{few}");
        assert_eq!(found_in(1_000), few);
    }

    #[test]
    fn accessed_entries_survive_shrinking() {
        let hot = Hot::new(1_000 * LINE_BYTES);
        (0..2_000).for_each(|n| hot.insert(3, entry(n, 1)));
        assert!((0..400).filter(|n| hot.find(name(*n)).is_some()).count() >= 395);
        hot.resize(150 * LINE_BYTES);
        let kept = (0..400).filter(|n| hot.find(name(*n)).is_some()).count();
        assert!(kept > 330, "{kept}");
    }

    #[test]
    fn repeatedly_accessed_entries_are_admitted_while_there_is_room() {
        let hot = Hot::new(1_000 * LINE_BYTES);
        let random = |n: u64| xxh3_64(&n.to_le_bytes()) >> 24;
        let round = |numbers: std::ops::Range<u64>| {
            let is_missing = |n: &u64| {
                let is_missing = hot.find(name(random(*n))).is_none();
                if is_missing {
                    hot.insert(3, entry(random(*n), 1));
                }
                is_missing
            };
            numbers.filter(is_missing).count()
        };
        assert_eq!(round(0..10_000), 10_000);
        (0..6).for_each(|_| _ = round(0..1_500));
        let missing = round(0..1_500);
        assert!(missing < 30, "{missing}");
    }

    #[test]
    fn accessed_entry_is_not_evicted_by_new_ones() {
        let hot = Hot::new(64 * LINE_BYTES);
        hot.insert(3, entry(1, 1));
        for n in 2..100_000 {
            hot.insert(3, entry(n, 1));
            assert!(hot.find(name(1)).is_some(), "it went when {n} came");
        }
    }
}
