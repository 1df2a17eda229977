//! Index entries that were asked for lately: lines of four in DRAM, whatever partitions they
//! are of.
//!
//! Guarantee: [`Hot::find`] gives what was last put in for that name, if that was not taken
//! out, or nothing; or, with a probability of about 2^-40 at full fingerprints, an entry of
//! another key: whoever reads the record compares keys anyway.
//!
//! **What we changed.** BigKV keeps hot buckets. A bucket with one hot entry has three that
//! are not, so single entries are kept here, which is four times as many hot ones in the same
//! memory; what a bucket says about keys that are not there, [`crate::negative_filter`] says.
//!
//! An entry stands in one of two lines, so that nearly all of the memory is used before one has
//! to leave for another. Then one leaves that was not asked for since its lines were last
//! full, as in a clock.
//!
//! For all threads, but what is done to one name is done by one at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::entry::Entry;
use crate::layout::Name;

const WAYS: usize = 4;
/// One cache line of a processor.
const LINE_BYTES: usize = WAYS * 16;
/// Most locks.
const STRIPES_MAX: usize = 64;

type Line = [Entry; WAYS];

/// Hot entries.
#[derive(Debug)]
pub(crate) struct Hot {
    stripes: Box<[Mutex<Box<[Line]>>]>,
    lines: usize,
    insertions: AtomicUsize,
}

impl Hot {
    /// Room for entries in `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let lines = (bytes / LINE_BYTES).max(1);
        let stripes = lines.min(STRIPES_MAX);
        let stripe = |n: usize| {
            let lines = lines / stripes + usize::from(n < lines % stripes);
            Mutex::new(vec![[Entry::NOTHING; WAYS]; lines].into())
        };
        Self { stripes: (0..stripes).map(stripe).collect(), lines, insertions: AtomicUsize::new(0) }
    }

    /// The entry of that name, which counts as asked for.
    pub(crate) fn find(&self, name: Name) -> Option<Entry> {
        self.lines_of(name).into_iter().find_map(|line| {
            self.with_line(line, |line| {
                let is_named = |entry: &&mut Entry| is_it(**entry, name.fingerprint);
                let entry = line.iter_mut().find(is_named)?;
                *entry = entry.asked_for(true);
                Some(entry.asked_for(false))
            })
        })
    }

    /// Puts an entry in.
    pub(crate) fn insert(&self, partition: u32, entry: Entry) {
        let name = Name { partition, fingerprint: entry.fingerprint() };
        self.remove(name);
        let mut lines = self.lines_of(name);
        // Now the one, now the other: of two that push each other out one finds the other line.
        if self.insertions.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            lines.reverse();
        }
        // The emptier one first: so both fill evenly.
        lines.sort_by_key(|line| self.with_line(*line, |line| used(line)));
        let is_placed = lines.iter().any(|line| self.replace(*line, entry, Entry::is_nothing))
            || lines.iter().any(|line| self.replace(*line, entry, |other| !other.was_asked_for()));
        if !is_placed {
            for line in lines {
                self.with_line(line, |line| {
                    line.iter_mut().for_each(|other| *other = other.asked_for(false));
                });
            }
            self.replace(lines[name.fingerprint as usize % 2], entry, |_| true);
        }
    }

    /// Takes the entry out.
    pub(crate) fn remove(&self, name: Name) {
        for line in self.lines_of(name) {
            self.replace(line, Entry::NOTHING, |entry| is_it(entry, name.fingerprint));
        }
    }

    /// Takes all entries out.
    pub(crate) fn clear(&self) {
        for stripe in &self.stripes {
            stripe.lock().fill([Entry::NOTHING; WAYS]);
        }
    }

    /// Puts an entry in the place of one of which `is_to_go` is true, if there is one.
    fn replace(&self, line: usize, entry: Entry, is_to_go: impl Fn(Entry) -> bool) -> bool {
        self.with_line(line, |line| {
            // The younger stand first: what has just come does not go before it can be asked for.
            let Some(place) = line.iter().rposition(|other| is_to_go(*other)) else { return false };
            line[..=place].rotate_right(1);
            line[0] = entry.asked_for(false);
            true
        })
    }

    /// Its memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.lines * LINE_BYTES
    }

    fn lines_of(&self, name: Name) -> [usize; 2] {
        let mixed = name.fingerprint ^ u64::from(name.partition).rotate_left(40);
        let mixed = xxh3_64(&mixed.to_le_bytes());
        [mixed >> 32, mixed & u64::from(u32::MAX)]
            .map(|half| ((half * self.lines as u64) >> 32) as usize)
    }

    fn with_line<R>(&self, line: usize, then: impl FnOnce(&mut Line) -> R) -> R {
        let stripes = self.stripes.len();
        then(&mut self.stripes[line % stripes].lock()[line / stripes])
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
    use crate::entry::Spot;

    fn entry(fingerprint: u64, slot: u32) -> Entry {
        Entry::record(fingerprint, Spot { slot, generation: 0, offset: 0, len: 64 })
    }

    fn name(fingerprint: u64) -> Name {
        Name { partition: 3, fingerprint }
    }

    #[test]
    fn entries_are_found_until_taken_out_or_pushed_out() {
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
    fn what_is_asked_for_round_and_round_gets_in_where_there_is_room() {
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
    fn what_is_asked_for_stays_when_others_come() {
        let hot = Hot::new(64 * LINE_BYTES);
        hot.insert(3, entry(1, 1));
        for n in 2..100_000 {
            hot.insert(3, entry(n, 1));
            assert!(hot.find(name(1)).is_some(), "it went when {n} came");
        }
    }
}
