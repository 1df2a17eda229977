//! memcached's memory: pages of equal size, each cut into chunks of one class; an item takes a
//! chunk of the smallest class that it fits, and each class evicts for itself.
//!
//! As in memcached 1.6 (`slabs_init` and `item_make_header` of its sources): the first chunk is 96
//! bytes, each further one larger by the growth factor and a multiple of 8, the last half a page.
//! Items larger than half a page are split into chunks, and not modelled here.
//!
//! **Allocation of pages.** A class that has no free chunk takes a page until the limit is reached
//! (`do_slabs_newslab`), and nothing is evicted before: so under any limit classes need their pages
//! in the same order, and a prefix of that order is allocated. A class that has no page gets one
//! whatever the limit is, or could store nothing. From then on pages stay where they are, unless
//! memcached moves them (`slab_automove`).
//!
//! **What we changed.** The paper gives each class the share of the limit that it has of all pages
//! with room for everything (ElCached §3), which does not depend on the order:
//! [`ClassProfiler::curve_of_shares`]. Classes that are used late have less than their share in a
//! memcached that is full by then; [`ClassProfiler::curve`] follows the order itself.

use hashbrown::HashMap;

use crate::curves::access::{Access, Action};
use crate::curves::curve::{Curve, Point};
use crate::curves::distances::Distances;
use crate::curves::profiler::{Expiry, Order, RequestClass, Settings, Unit};

/// The size of a page, by memcached's default, in bytes.
pub const PAGE_BYTES: u64 = 1 << 20;
/// The growth factor of classes, by memcached's default.
pub const GROWTH: f64 = 1.25;
/// An item without key and value: its header, and the version of `cas`.
const HEADER_BYTES: u64 = 48 + 8;
/// Chunks of the first class.
const CHUNK_BYTES_MIN: u64 = 48 + 48;
/// Fewer stale objects are not worth a cleanup.
const TIDIED_FROM: usize = 4096;
/// The most classes.
const CLASSES_MAX: usize = 63;

/// The sizes of chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlabClasses {
    /// By class, from the smallest.
    chunk_bytes: Vec<u64>,
}

impl SlabClasses {
    /// The classes of memcached with that growth factor, which is above 1.
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

    /// The size of an item in bytes, without client flags.
    pub fn item_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
        // A zero after the key, a line end after the value.
        (HEADER_BYTES + 1 + 2).saturating_add(key_bytes).saturating_add(value_bytes)
    }

    /// The class of an item of this many bytes; `None` if it is larger than any chunk.
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
/// [`Action::Set`] and [`Action::Load`] give the bytes of an item ([`SlabClasses::item_bytes`]).
#[derive(Debug)]
pub struct ClassProfiler {
    classes: SlabClasses,
    of_class: Vec<OfClass>,
    /// The class of each object.
    class_of: HashMap<u64, u8>,
    /// The size of that map that triggers the next cleanup.
    tidied_from: usize,
    /// The class of each page, in the order in which they are needed.
    pages: Vec<u8>,
    /// Requests for absent objects.
    absent: f64,
}

#[derive(Debug, Default)]
struct OfClass {
    order: Order,
    distances: Distances,
    /// Chunks of its pages.
    chunks: usize,
}

impl ClassProfiler {
    /// An empty profile.
    pub fn new(classes: SlabClasses, expiry: Expiry) -> Self {
        let settings = Settings { unit: Unit::Objects, expiry };
        let new = |_: &u64| OfClass { order: Order::new(settings), ..OfClass::default() };
        let of_class = classes.chunk_bytes.iter().map(new).collect();
        let (class_of, tidied_from) = (HashMap::new(), TIDIED_FROM);
        Self { classes, of_class, class_of, tidied_from, pages: Vec::new(), absent: 0.0 }
    }

    /// Records a request. An item too large for any chunk only removes the previous one.
    pub fn record(&mut self, access: &Access) {
        let before = self.class_of.get(&access.key).map(|class| usize::from(*class));
        // It may have expired, which its class has not noticed yet.
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
            Action::Get | Action::Delete | Action::Expire => before,
            Action::Load(_) | Action::LoadUnsized(_) if before.is_some() => before,
            Action::LoadUnsized(bytes) | Action::Load(bytes) | Action::Set(bytes) => {
                self.classes.class_of(bytes)
            }
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
        match of_class.order.record(access) {
            RequestClass::Nothing => {}
            RequestClass::Reuse(place) => of_class.distances.reuse(place.depth, None),
            RequestClass::Miss => of_class.distances.miss(None),
        }
        // A class takes as many pages as its objects need, and no more.
        while of_class.order.len() > of_class.chunks {
            of_class.chunks += self.classes.chunks_in_a_page(class) as usize;
            self.pages.push(class as u8);
        }
        match of_class.order.has(access.key) {
            true => drop(self.class_of.insert(access.key, class as u8)),
            false => drop(self.class_of.remove(&access.key)),
        }
    }

    /// Drops expired objects from the map, if there may be many.
    fn tidy(&mut self) {
        if self.class_of.len() > self.tidied_from {
            let of_class = &self.of_class;
            self.class_of.retain(|key, class| of_class[usize::from(*class)].order.has(*key));
            self.tidied_from = 2 * self.class_of.len() + TIDIED_FROM;
        }
    }

    /// The miss-ratio curve of a memcached with default settings, whose pages stay where they are,
    /// by its limit (`-m`) in bytes.
    pub fn curve(&self) -> Curve {
        let curves: Vec<Curve> =
            self.of_class.iter().map(|of_class| of_class.distances.curve(0.0)).collect();
        let requests = self.absent + curves.iter().map(Curve::requests).sum::<f64>();
        let missed = |class: usize, pages: u64| {
            let chunks = pages * self.classes.chunks_in_a_page(class);
            curves[class].miss_ratio(chunks) * curves[class].requests()
        };
        let mut pages = vec![0; curves.len()];
        // Whatever the limit is, a class gets its first page.
        self.pages.iter().for_each(|class| pages[usize::from(*class)] = 1);
        let at_first = pages.iter().enumerate().map(|(class, pages)| missed(class, *pages));
        let mut misses = self.absent + at_first.sum::<f64>();
        let mut has_first = vec![false; curves.len()];
        let (mut points, mut least) = (Vec::with_capacity(self.pages.len()), 1.0_f64);
        for (class, limit) in self.pages.iter().map(|class| usize::from(*class)).zip(1..) {
            if std::mem::replace(&mut has_first[class], true) {
                misses += missed(class, pages[class] + 1) - missed(class, pages[class]);
                pages[class] += 1;
            }
            // Rounding alone could make it rise.
            least = least.min((misses / requests.max(1.0)).clamp(0.0, 1.0));
            points.push(Point { size: limit * PAGE_BYTES, miss_ratio: least });
        }
        match Curve::new(points, requests) {
            Ok(curve) => curve,
            Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
        }
    }

    /// The miss ratio of a memcached with this many pages for each class, for the requests since
    /// [`ClassProfiler::reset_counts`].
    pub fn miss_ratio_of_pages(&self, pages: &[u64]) -> f64 {
        let (mut requests, mut misses) = (self.absent, self.absent);
        for (class, (of_class, pages)) in self.of_class.iter().zip(pages).enumerate() {
            let curve = of_class.distances.curve(0.0);
            let chunks = pages * self.classes.chunks_in_a_page(class);
            requests += curve.requests();
            misses += curve.miss_ratio(chunks) * curve.requests();
        }
        if requests > 0.0 { misses / requests } else { 1.0 }
    }

    /// Resets the counts and keeps the objects: later requests count, earlier ones do not.
    pub fn reset_counts(&mut self) {
        self.of_class.iter_mut().for_each(|of_class| of_class.distances = Distances::default());
        self.absent = 0.0;
    }

    /// The pages of each class that hold the most that was present at once.
    fn pages_of_classes(&self) -> impl Iterator<Item = u64> {
        let pages = |(class, of_class): (usize, &OfClass)| {
            of_class.chunks as u64 / self.classes.chunks_in_a_page(class)
        };
        self.of_class.iter().enumerate().map(pages)
    }

    /// The miss-ratio curve of a memcached that gives each class the share of its pages that it
    /// would have with room for everything (ElCached §3). Sizes in bytes of pages.
    pub fn curve_of_shares(&self) -> Curve {
        let part = |(class, (of_class, pages)): (usize, (&OfClass, u64))| {
            let bytes = PAGE_BYTES as f64 / self.classes.chunks_in_a_page(class) as f64;
            (of_class.distances.curve(0.0).in_units(bytes), pages as f64)
        };
        let absent = Distances::of_misses(self.absent);
        let parts = self.of_class.iter().zip(self.pages_of_classes()).enumerate().map(part);
        let parts: Vec<(Curve, f64)> = parts.chain([(absent.curve(0.0), 0.0)]).collect();
        Curve::divided(&parts).unwrap_or_else(|| Distances::default().curve(0.0))
    }

    /// Bytes of the pages that hold the most that was present at once.
    pub fn bytes_max(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BYTES
    }
}

#[cfg(test)]
mod tests;
