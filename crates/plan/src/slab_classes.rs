//! memcached's memory: pages of equal size, each cut into chunks of one class; what is stored takes
//! a chunk of the smallest class that it fits, and each class evicts for itself.
//!
//! As memcached 1.6 makes them (`slabs_init` and `item_make_header` of its sources): the first chunk
//! is 96 bytes, each further one larger by the growth factor and a multiple of 8, the last half a
//! page. What is larger than half a page is cut into chunks, and not told of here.

use hashbrown::HashMap;

use crate::access::{Access, Action};
use crate::curve::Curve;
use crate::distances::Distances;
use crate::profiler::{Expiry, Order, Seen, Settings, Unit};

/// A page, by memcached's default.
pub const PAGE_BYTES: u64 = 1 << 20;
/// How much larger a class is than the one before, by memcached's default.
pub const GROWTH: f64 = 1.25;
/// An item without key and value: its header, and the version of `cas`.
const HEADER_BYTES: u64 = 48 + 8;
/// Chunks of the first class.
const CHUNK_BYTES_MIN: u64 = 48 + 48;
/// Fewer that are there no more are not worth a thought.
const TIDIED_FROM: usize = 4096;
/// There are no more classes.
const CLASSES_MAX: usize = 63;

/// The sizes of chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlabClasses {
    /// By class, from the smallest.
    chunk_bytes: Vec<u64>,
}

impl SlabClasses {
    /// Those of memcached with that growth factor, which is above 1.
    pub fn of_growth(growth: f64) -> Self {
        let largest = PAGE_BYTES / 2;
        let (mut chunk_bytes, mut bytes) = (Vec::new(), CHUNK_BYTES_MIN);
        while chunk_bytes.len() + 1 < CLASSES_MAX && (bytes as f64) < largest as f64 / growth {
            bytes = bytes.next_multiple_of(8);
            chunk_bytes.push(bytes);
            bytes = ((bytes as f64 * growth) as u64).max(bytes + 1);
        }
        chunk_bytes.push(largest);
        Self { chunk_bytes }
    }

    /// Chunk sizes in bytes, by class.
    pub fn chunk_bytes(&self) -> &[u64] {
        &self.chunk_bytes
    }

    /// What an item takes in bytes, without flags of the client's.
    pub fn item_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
        // A zero behind the key, a line end behind the value.
        (HEADER_BYTES + 1 + 2).saturating_add(key_bytes).saturating_add(value_bytes)
    }

    /// The class of an item of so many bytes; none where it is larger than any chunk.
    pub fn class_of(&self, item_bytes: u64) -> Option<usize> {
        let class = self.chunk_bytes.partition_point(|chunk| *chunk < item_bytes);
        (class < self.chunk_bytes.len()).then_some(class)
    }

    fn chunks_in_a_page(&self, class: usize) -> u64 {
        PAGE_BYTES / self.chunk_bytes[class]
    }
}

/// A profile of each class of a memcached (ElCached §3).
///
/// Requests say in [`Action::Set`] and [`Action::Load`] how many bytes an item takes
/// ([`SlabClasses::item_bytes`]).
#[derive(Debug)]
pub struct ClassProfiler {
    classes: SlabClasses,
    of_class: Vec<OfClass>,
    /// Which class an object is in.
    class_of: HashMap<u64, u8>,
    /// Requests for what is not there.
    absent: f64,
}

#[derive(Debug, Default)]
struct OfClass {
    order: Order,
    distances: Distances,
    objects_max: usize,
}

impl ClassProfiler {
    /// One that has seen nothing.
    pub fn new(classes: SlabClasses, expiry: Expiry) -> Self {
        let settings = Settings { unit: Unit::Objects, expiry };
        let new = |_: &u64| OfClass { order: Order::new(settings), ..OfClass::default() };
        let of_class = classes.chunk_bytes.iter().map(new).collect();
        Self { classes, of_class, class_of: HashMap::new(), absent: 0.0 }
    }

    /// Takes a request in. What is too large for any chunk only removes what was there.
    pub fn see(&mut self, access: &Access) {
        let before = self.class_of.get(&access.key).map(|class| usize::from(*class));
        // It may have expired, which its class has not heard of yet.
        let before = before.filter(|class| {
            let order = &mut self.of_class[*class].order;
            order.advance(access.at_ms);
            order.has(access.key)
        });
        if before.is_none() {
            self.class_of.remove(&access.key);
            self.tidy();
        }
        let class = match access.action {
            Action::Get | Action::Delete => before,
            Action::Load(_) | Action::LoadUnsized if before.is_some() => before,
            Action::LoadUnsized => self.classes.class_of(0),
            Action::Load(bytes) | Action::Set(bytes) => self.classes.class_of(bytes),
        };
        if let (Some(before), false) = (before, before == class) {
            self.of_class[before].order.forget(access.key);
            self.class_of.remove(&access.key);
        }
        let Some(class) = class else {
            if access.action.is_request() {
                self.absent += 1.0;
            }
            return;
        };
        let of_class = &mut self.of_class[class];
        match of_class.order.see(access) {
            Seen::Nothing => {}
            Seen::Reuse(distance) => of_class.distances.reuse(distance, 1.0),
            Seen::Miss => of_class.distances.miss(1.0),
        }
        of_class.objects_max = of_class.objects_max.max(of_class.order.len());
        match of_class.order.has(access.key) {
            true => drop(self.class_of.insert(access.key, class as u8)),
            false => drop(self.class_of.remove(&access.key)),
        }
    }

    /// Forgets the classes of what has expired, where that is most of it.
    fn tidy(&mut self) {
        let there: usize = self.of_class.iter().map(|of_class| of_class.order.len()).sum();
        if self.class_of.len() > 2 * there + TIDIED_FROM {
            let of_class = &self.of_class;
            self.class_of.retain(|key, class| of_class[usize::from(*class)].order.has(*key));
        }
    }

    /// The pages of each class in which all that was there at once would be.
    fn pages(&self) -> impl Iterator<Item = u64> {
        let pages = |(class, of_class): (usize, &OfClass)| {
            (of_class.objects_max as u64).div_ceil(self.classes.chunks_in_a_page(class))
        };
        self.of_class.iter().enumerate().map(pages)
    }

    /// What a memcached misses that gives each class the share of its pages that it would have
    /// with room for everything. Sizes in bytes of pages.
    pub fn curve(&self) -> Curve {
        let part = |(class, (of_class, pages)): (usize, (&OfClass, u64))| {
            let bytes = PAGE_BYTES as f64 / self.classes.chunks_in_a_page(class) as f64;
            (of_class.distances.curve(0.0).in_units(bytes), pages as f64)
        };
        let mut absent = Distances::default();
        absent.miss(self.absent);
        let parts = self.of_class.iter().zip(self.pages()).enumerate().map(part);
        let parts: Vec<(Curve, f64)> = parts.chain([(absent.curve(0.0), 0.0)]).collect();
        Curve::beside(&parts).unwrap_or_else(|| Distances::default().curve(0.0))
    }

    /// Bytes of the pages in which all that was there at once would be.
    pub fn bytes_max(&self) -> u64 {
        self.pages().sum::<u64>() * PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_memcached() {
        // As `memcached -vv` prints them.
        let classes = SlabClasses::of_growth(GROWTH);
        assert_eq!(classes.chunk_bytes()[..8], [96, 120, 152, 192, 240, 304, 384, 480]);
        assert_eq!(classes.chunk_bytes().len(), 39);
        assert_eq!(classes.chunk_bytes()[37..], [394_840, 524_288]);
        let class = |bytes| classes.class_of(bytes);
        assert_eq!(
            [1, 96, 97, 524_288, 524_289].map(class),
            [Some(0), Some(0), Some(1), Some(38), None]
        );
    }

    #[test]
    fn each_class_evicts_for_itself() {
        let mut profiler = ClassProfiler::new(SlabClasses::of_growth(GROWTH), Expiry::AtOnce);
        let see =
            |profiler: &mut ClassProfiler, key, action| profiler.see(&Access::new(key, action));
        // A page of the largest class has two chunks, one of the smallest 10 922.
        for key in 0..6 {
            see(&mut profiler, key, Action::Set(500_000));
        }
        for key in 100..200 {
            see(&mut profiler, key, Action::Set(90));
        }
        for key in (0..6).chain(100..200) {
            see(&mut profiler, key, Action::Get);
        }
        assert_eq!(profiler.bytes_max(), 4 << 20);
        let curve = profiler.curve();
        let missed =
            [0, 1 << 20, (4 << 20) - 1, 4 << 20].map(|size| curve.miss_ratio(size) * 106.0);
        assert_eq!(missed.map(f64::round), [106.0, 6.0, 6.0, 0.0]);
        // It moves to another class, and leaves room there.
        see(&mut profiler, 0, Action::Set(90));
        see(&mut profiler, 0, Action::Get);
        see(&mut profiler, 1, Action::Delete);
        see(&mut profiler, 1, Action::Get);
        see(&mut profiler, 2, Action::Set(1 << 20));
        see(&mut profiler, 2, Action::Get);
        let curve = profiler.curve();
        assert_eq!((curve.requests(), curve.miss_ratio(1 << 30) * 109.0), (109.0, 2.0));
    }
}
