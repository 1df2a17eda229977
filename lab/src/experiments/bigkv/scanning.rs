//! A model of caches that find expired objects by scanning all of flash, or not at all: a log of
//! segments in insertion order, behind a DRAM tier like that of our cache.
//!
//! 1. An object evicted from DRAM is appended to the head of the log, unless the log has its copy.
//!    One that was accessed, and whose copy is in the oldest quarter of the log, is rewritten.
//! 2. If there is no free segment, the oldest one is evicted with all its objects.
//! 3. With scans, all of flash is read once per period, and exactly the expired and overwritten
//!    objects are removed. The live objects of segments that are at most half full are rewritten at
//!    the head, and those segments are freed. No object is removed early: BigKV calls that
//!    *loss-prohibited*.
//! 4. Without scans, the cache detects an expired object at its next access. Our own cache does
//!    this with [`tidekv_tiered::Expiry::Lazy`], and both agree.
//!
//! The model keeps no bytes. The caller sets the objects per segment, the number of segments and
//! the DRAM for objects. Pure.

use std::collections::VecDeque;

use tidekv_cache::{Eviction, Objects};

use crate::load::dice::mix;

/// A copy closer to the end of the log than this is rewritten.
pub(super) const OLD: f64 = 0.25;
/// Overhead of an object in DRAM in addition to its bytes: that of allocations.
pub(super) const CHARGE_BYTES: usize = 48;

/// The sizes of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Bytes of a key and a value.
    pub(super) object_bytes: u64,
    pub(super) segment_bytes: u64,
    /// Objects per segment.
    pub(super) segment_objects: usize,
    /// Segments on flash.
    pub(super) segments: usize,
    /// DRAM for objects.
    pub(super) dram_bytes: u64,
}

/// The work on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Work {
    /// Objects that came from DRAM.
    pub(super) objects_written: u64,
    /// Bytes read by scans.
    pub(super) scan_read_bytes: u64,
    /// Bytes of objects rewritten by scans.
    pub(super) scan_written_bytes: u64,
}

/// An object in DRAM.
#[derive(Debug, Clone, Copy)]
pub(super) struct DramObject {
    pub(super) key: u32,
    pub(super) deadline_s: u32,
    pub(super) was_fetched: bool,
}

/// A copy on flash.
#[derive(Debug, Clone, Copy)]
struct Copy {
    key: u32,
    deadline_s: u32,
}

/// The valid copy of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FlashCopy {
    segment: u64,
    deadline_s: u32,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    copies: Vec<Copy>,
}

/// The model.
#[derive(Debug)]
pub(super) struct Scanning {
    sizes: Sizes,
    /// Seconds between scans; `None`: no scans.
    interval_s: Option<u32>,
    scanned_s: u32,
    dram: Objects<DramObject>,
    /// The oldest first; the last one is being filled.
    log: VecDeque<Segment>,
    /// The number of the next segment.
    next: u64,
    /// By key.
    index: Vec<Option<FlashCopy>>,
    work: Work,
}

impl Scanning {
    pub(super) fn new(sizes: Sizes, keys: u64, interval_s: Option<u32>) -> Self {
        Self {
            sizes,
            interval_s,
            scanned_s: 0,
            dram: Objects::new(Eviction::S3Fifo, sizes.dram_bytes as usize),
            log: VecDeque::new(),
            next: 0,
            index: vec![None; keys as usize],
            work: Work::default(),
        }
    }

    /// Scans if it is due.
    pub(super) fn advance(&mut self, now_s: u32) {
        if self.interval_s.is_some_and(|interval_s| now_s >= self.scanned_s + interval_s) {
            self.scanned_s = now_s;
            self.scan(now_s);
        }
    }

    /// Whether an object is a hit.
    pub(super) fn get(&mut self, key: u32, now_s: u32) -> bool {
        let hash = hash_of(key);
        if let Some(held) = self.dram.get(hash) {
            held.was_fetched = true;
            if held.deadline_s > now_s {
                return true;
            }
            self.dram.remove(hash);
        }
        let Some(place) = self.index[key as usize] else { return false };
        let is_there = place.deadline_s > now_s;
        if is_there {
            self.hold(DramObject { key, deadline_s: place.deadline_s, was_fetched: true }, now_s);
        }
        is_there
    }

    /// Stores an object.
    pub(super) fn set(&mut self, key: u32, deadline_s: u32, now_s: u32) {
        self.index[key as usize] = None;
        self.dram.remove(hash_of(key));
        self.hold(DramObject { key, deadline_s, was_fetched: false }, now_s);
    }

    /// The work on flash.
    pub(super) fn work(&self) -> Work {
        self.work
    }

    /// The expired fraction of the objects on flash.
    pub(super) fn expired_share(&self, now_s: u32) -> f64 {
        let copies = || self.log.iter().flat_map(|segment| &segment.copies);
        let expired = copies().filter(|copy| copy.deadline_s <= now_s).count();
        expired as f64 / copies().count().max(1) as f64
    }

    /// Puts an object into DRAM; the objects evicted for it go to flash if necessary.
    fn hold(&mut self, held: DramObject, now_s: u32) {
        let charge_bytes = self.sizes.object_bytes as usize + CHARGE_BYTES;
        let insertion = self.dram.insert(hash_of(held.key), held, charge_bytes);
        for left in insertion.evicted.iter().chain(&insertion.refused) {
            // An object set since then has no copy.
            let copy = self.index[left.key as usize];
            let is_to_stay =
                |copy: FlashCopy| left.was_fetched && self.distance(copy.segment) < OLD;
            if left.deadline_s > now_s && copy.is_none_or(is_to_stay) {
                self.work.objects_written += 1;
                self.write(Copy { key: left.key, deadline_s: left.deadline_s });
            }
        }
    }

    /// The distance of a segment from eviction: 0 is next, 1 is the farthest.
    fn distance(&self, segment: u64) -> f64 {
        let (Some(first), Some(last)) = (self.log.front(), self.log.back()) else { return 1.0 };
        let rank = (segment - first.number) as f64 / (last.number - first.number).max(1) as f64;
        let free = self.sizes.segments.saturating_sub(self.log.len());
        (free as f64 + rank * self.log.len() as f64) / self.sizes.segments as f64
    }

    /// Writes a copy at the head of the log.
    fn write(&mut self, copy: Copy) {
        let is_full = |segment: &Segment| segment.copies.len() >= self.sizes.segment_objects;
        if self.log.back().is_none_or(is_full) {
            if self.log.len() >= self.sizes.segments {
                self.drop_oldest();
            }
            self.log.push_back(Segment { number: self.next, copies: Vec::new() });
            self.next += 1;
        }
        if let Some(head) = self.log.back_mut() {
            head.copies.push(copy);
            let place = FlashCopy { segment: head.number, deadline_s: copy.deadline_s };
            self.index[copy.key as usize] = Some(place);
        }
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.log.pop_front() else { return };
        for copy in oldest.copies {
            if counts(&self.index, oldest.number, copy) {
                self.index[copy.key as usize] = None;
            }
        }
    }

    /// Scans all complete segments, and removes unreachable objects.
    fn scan(&mut self, now_s: u32) {
        let Some(head) = self.log.pop_back() else { return };
        self.work.scan_read_bytes += self.log.len() as u64 * self.sizes.segment_bytes;
        let mut moved = Vec::new();
        for segment in &mut self.log {
            segment.copies.retain(|copy| {
                let is_counted = counts(&self.index, segment.number, *copy);
                if is_counted && copy.deadline_s <= now_s {
                    self.index[copy.key as usize] = None;
                }
                is_counted && copy.deadline_s > now_s
            });
            if segment.copies.len() * 2 <= self.sizes.segment_objects {
                moved.append(&mut segment.copies);
            }
        }
        self.log.retain(|segment| !segment.copies.is_empty());
        self.log.push_back(head);
        self.work.scan_written_bytes += moved.len() as u64 * self.sizes.object_bytes;
        moved.into_iter().for_each(|copy| self.write(copy));
    }
}

/// Whether this is the valid copy of its key.
fn counts(index: &[Option<FlashCopy>], segment: u64, copy: Copy) -> bool {
    index[copy.key as usize] == Some(FlashCopy { segment, deadline_s: copy.deadline_s })
}

/// The hash by which DRAM holds a key.
pub(super) fn hash_of(key: u32) -> u64 {
    mix(u64::from(key) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two objects per segment, and DRAM for none.
    fn model(segments: usize, interval_s: Option<u32>) -> Scanning {
        let sizes = Sizes {
            object_bytes: 1_000,
            segment_bytes: 2_048,
            segment_objects: 2,
            segments,
            dram_bytes: 0,
        };
        Scanning::new(sizes, 10, interval_s)
    }

    /// Reads the content of flash without a request.
    fn found(model: &Scanning, now_s: u32) -> Vec<u32> {
        let is_there =
            |key: &u32| model.index[*key as usize].is_some_and(|place| place.deadline_s > now_s);
        (0..10).filter(is_there).collect()
    }

    #[test]
    fn without_scans_the_oldest_segment_is_evicted_regardless_of_expiry() {
        let mut model = model(2, None);
        for (key, deadline_s) in [(0, 90), (1, 90), (2, 10), (3, 10)] {
            model.set(key, deadline_s, 1);
        }
        assert_eq!(found(&model, 9), [0, 1, 2, 3]);
        model.advance(60);
        assert_eq!((found(&model, 60), model.expired_share(60)), (vec![0, 1], 0.5));
        model.set(4, 90, 60);
        assert_eq!(
            (found(&model, 60), model.work()),
            (vec![4], Work { objects_written: 5, ..Work::default() })
        );
    }

    #[test]
    fn a_scan_removes_exactly_the_expired_objects_and_counts_its_cost() {
        let mut model = model(3, Some(60));
        // Half of the first segment expires, all of the second, and the third is being filled.
        for (key, deadline_s) in [(0, 90), (1, 10), (2, 10), (3, 10), (4, 90)] {
            model.set(key, deadline_s, 1);
        }
        model.advance(59);
        assert_eq!(model.work().scan_read_bytes, 0);
        model.advance(60);
        assert_eq!((found(&model, 60), model.expired_share(60)), (vec![0, 4], 0.0));
        // The scan read two complete segments and rewrote one object.
        let work =
            Work { objects_written: 5, scan_read_bytes: 2 * 2_048, scan_written_bytes: 1_000 };
        assert_eq!(model.work(), work);
        // There is room for two more segments now.
        (5..9).for_each(|key| model.set(key, 90, 60));
        assert_eq!(found(&model, 60), [0, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn an_overwritten_object_does_not_return() {
        let mut model = model(3, Some(60));
        model.set(0, 90, 1);
        model.set(0, 10, 2);
        model.set(1, 90, 3);
        assert_eq!(found(&model, 10), [1]);
        model.advance(60);
        assert_eq!(found(&model, 60), [1]);
    }
}
