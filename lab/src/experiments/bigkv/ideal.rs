//! A model of an ideal cache: each object leaves it in the second in which it expires, at no cost.
//!
//! It has the DRAM and the flash of the cache it is compared with, counted in objects, and the same
//! order of eviction: the DRAM tier in front, and a log in insertion order behind it
//! ([`crate::experiments::bigkv::scanning`], rule 1). It differs in one thing only. An expired object
//! gives its place back at once, on flash for exactly one other object: there are no segments, so
//! nothing is moved and nothing is removed early. So its hit ratio is what the best expiry can be
//! worth, with this order of eviction: no scan is more exact, and none is more frequent.
//!
//! An overwritten object keeps its place until it expires or is evicted, as in the caches it is
//! compared with. Pure.

use std::collections::{BTreeMap, VecDeque};

use tidekv_cache::{Eviction, Objects};

use crate::experiments::bigkv::scanning::{CHARGE_BYTES, DramObject, OLD, Sizes, hash_of};

/// A place of the log.
#[derive(Debug, Clone, Copy)]
struct Copy {
    key: u32,
    /// Whether it takes room: it is neither expired nor evicted.
    is_held: bool,
}

/// The valid copy of a key.
#[derive(Debug, Clone, Copy)]
struct FlashCopy {
    number: u64,
    deadline_s: u32,
}

/// The model.
#[derive(Debug)]
pub(super) struct Ideal {
    sizes: Sizes,
    /// Objects that fit flash.
    objects_max: usize,
    dram: Objects<DramObject>,
    /// Keys that may be in DRAM, by deadline.
    dram_deadlines: BTreeMap<u32, Vec<u32>>,
    /// The oldest first.
    log: VecDeque<Copy>,
    /// The number of the oldest copy of the log.
    first: u64,
    /// Copies of the log that take room.
    held: usize,
    /// Copies of the log, by deadline.
    log_deadlines: BTreeMap<u32, Vec<u64>>,
    /// By key.
    index: Vec<Option<FlashCopy>>,
}

impl Ideal {
    pub(super) fn new(sizes: Sizes, keys: u64) -> Self {
        Self {
            sizes,
            objects_max: sizes.segments * sizes.segment_objects,
            dram: Objects::new(Eviction::S3Fifo, sizes.dram_bytes as usize),
            dram_deadlines: BTreeMap::new(),
            log: VecDeque::new(),
            first: 0,
            held: 0,
            log_deadlines: BTreeMap::new(),
            index: vec![None; keys as usize],
        }
    }

    /// Removes what has expired.
    pub(super) fn advance(&mut self, now_s: u32) {
        for key in due(&mut self.dram_deadlines, now_s) {
            if self.dram.peek(hash_of(key)).is_some_and(|held| held.deadline_s <= now_s) {
                self.dram.remove(hash_of(key));
            }
        }
        for number in due(&mut self.log_deadlines, now_s) {
            self.remove(number);
        }
    }

    /// Whether an object is a hit. What has expired by now has been removed.
    pub(super) fn get(&mut self, key: u32) -> bool {
        if let Some(held) = self.dram.get(hash_of(key)) {
            held.was_fetched = true;
            return true;
        }
        let Some(copy) = self.index[key as usize] else { return false };
        self.hold(DramObject { key, deadline_s: copy.deadline_s, was_fetched: true });
        true
    }

    /// Stores an object.
    pub(super) fn set(&mut self, key: u32, deadline_s: u32) {
        self.index[key as usize] = None;
        self.dram.remove(hash_of(key));
        self.hold(DramObject { key, deadline_s, was_fetched: false });
    }

    /// Puts an object into DRAM; the objects evicted for it go to flash if necessary.
    fn hold(&mut self, held: DramObject) {
        self.dram_deadlines.entry(held.deadline_s).or_default().push(held.key);
        let charge_bytes = self.sizes.object_bytes as usize + CHARGE_BYTES;
        let insertion = self.dram.insert(hash_of(held.key), held, charge_bytes);
        for left in insertion.evicted.iter().chain(&insertion.refused) {
            let copy = self.index[left.key as usize];
            let is_to_stay = |copy: FlashCopy| left.was_fetched && self.distance(copy.number) < OLD;
            if copy.is_none_or(is_to_stay) {
                self.write(left.key, left.deadline_s);
            }
        }
    }

    /// The distance of a copy from eviction: 0 is next, 1 is the farthest.
    fn distance(&self, number: u64) -> f64 {
        let last = (self.log.len() as u64).saturating_sub(1).max(1);
        let rank = (number - self.first) as f64 / last as f64;
        let free = self.objects_max - self.held;
        (free as f64 + rank * self.held as f64) / self.objects_max as f64
    }

    /// Writes a copy at the head of the log.
    fn write(&mut self, key: u32, deadline_s: u32) {
        if self.objects_max == 0 {
            return;
        }
        while self.held >= self.objects_max {
            self.remove(self.first);
        }
        let number = self.first + self.log.len() as u64;
        self.log.push_back(Copy { key, is_held: true });
        self.held += 1;
        self.log_deadlines.entry(deadline_s).or_default().push(number);
        self.index[key as usize] = Some(FlashCopy { number, deadline_s });
    }

    /// Frees the place of a copy, if it has one.
    fn remove(&mut self, number: u64) {
        let place = number.checked_sub(self.first).and_then(|at| self.log.get_mut(at as usize));
        let Some(copy) = place.filter(|copy| copy.is_held) else { return };
        copy.is_held = false;
        self.held -= 1;
        let valid = &mut self.index[copy.key as usize];
        if valid.is_some_and(|valid| valid.number == number) {
            *valid = None;
        }
        while self.log.front().is_some_and(|copy| !copy.is_held) {
            self.log.pop_front();
            self.first += 1;
        }
    }
}

/// Takes out what has a deadline until now.
fn due<T>(deadlines: &mut BTreeMap<u32, Vec<T>>, now_s: u32) -> Vec<T> {
    let later = deadlines.split_off(&now_s.saturating_add(1));
    std::mem::replace(deadlines, later).into_values().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DRAM for none, and flash for this many objects.
    fn model(objects: usize) -> Ideal {
        let sizes = Sizes {
            object_bytes: 1_000,
            segment_bytes: 1_024,
            segment_objects: 1,
            segments: objects,
            dram_bytes: 0,
        };
        Ideal::new(sizes, 10)
    }

    fn found(model: &Ideal) -> Vec<u32> {
        (0..10).filter(|key| model.index[*key as usize].is_some()).collect()
    }

    #[test]
    fn an_object_leaves_when_it_expires_and_gives_its_place_to_another() {
        let mut model = model(3);
        for (key, deadline_s) in [(0, 90), (1, 10), (2, 90)] {
            model.set(key, deadline_s);
        }
        model.advance(9);
        assert_eq!(found(&model), [0, 1, 2]);
        model.advance(10);
        assert_eq!((found(&model), model.held), (vec![0, 2], 2));
        // There is room for one more; after that, the oldest goes.
        model.set(3, 90);
        assert_eq!(found(&model), [0, 2, 3]);
        model.set(4, 90);
        assert_eq!(found(&model), [2, 3, 4]);
        model.advance(90);
        assert_eq!((found(&model), model.held, model.log.len()), (vec![], 0, 0));
    }

    #[test]
    fn the_deadline_of_an_overwritten_object_does_not_end_its_successor() {
        let mut model = model(3);
        model.set(0, 10);
        model.set(0, 90);
        model.advance(10);
        assert_eq!((found(&model), model.held), (vec![0], 1));
        model.set(1, 90);
        model.set(1, 20);
        // The overwritten copy of 1 still takes the third place.
        assert_eq!((found(&model), model.held), (vec![0, 1], 3));
        model.advance(20);
        assert_eq!((found(&model), model.held), (vec![0], 2));
    }

    #[test]
    fn an_expired_object_in_dram_is_gone() {
        let sizes = Sizes {
            object_bytes: 1_000,
            segment_bytes: 1_024,
            segment_objects: 1,
            segments: 1,
            dram_bytes: 100_000,
        };
        let mut model = Ideal::new(sizes, 10);
        model.set(0, 10);
        assert!(model.get(0));
        model.advance(10);
        assert!(!model.get(0) && model.dram.is_empty());
    }
}
