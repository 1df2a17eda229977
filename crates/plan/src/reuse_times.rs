//! Curves from how many requests lie between two of one object, which is cheaper to know than how
//! many objects: O(1) a request, no tree.
//!
//! * [`ReuseTimes::footprint`]: the mean number of objects in windows of each length, and from it
//!   the curve (Xiang et al., HOTL, ASPLOS 2013; ElCached has compared with it).
//! * [`ReuseTimes::average_eviction_time`]: how long objects stay in a cache of each size (Hu et al.,
//!   AET, USENIX ATC 2016).
//!
//! Both take every request for a load, sizes in objects, and hold where a trace goes on as it begins.
//! What is deleted or expires is not told of: exact is [`crate::Profiler`].
//!
//! Guarantees: what is told of a length of time is exact, and lengths are looked at in steps of one part in 100;
//! memory grows with objects, not with requests. Pure; one thread's.

use hashbrown::HashMap;

use crate::access::{Access, Action};
use crate::curve::{Curve, Point};
use crate::places::{number_of, place_of};

/// Times below 2^that have a place of their own.
const PRECISION_BITS: u32 = 8;
/// Points of a curve, at most.
const POINTS_MAX: usize = 4096;
/// Of two lengths that are looked at one is longer by this part, beyond the short ones.
const GROWTH: f64 = 1.01;

/// The times between requests for an object, in requests.
#[derive(Debug, Default)]
pub struct ReuseTimes {
    /// The last request for each object.
    last: HashMap<u64, Last>,
    /// From one request to the next.
    between: Gaps,
    /// From the beginning to the first request for each object.
    before: Gaps,
    requests: u64,
}

/// A request: its number, from 1, and the size of the object.
#[derive(Debug, Clone, Copy)]
struct Last {
    number: u64,
    bytes: u64,
}

/// Times, each of an object of some size.
#[derive(Debug, Clone, Default)]
struct Gaps {
    /// By their places ([`crate::places`]).
    places: Vec<Sums>,
}

/// Of some gaps: how many there are, and how long they are together; and the same where each counts as much as its
/// object has bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: f64,
    times: f64,
    bytes: f64,
    byte_times: f64,
}

impl Sums {
    fn of(time: u64, bytes: u64) -> Self {
        let (time, bytes) = (time as f64, bytes as f64);
        Self { count: 1.0, times: time, bytes, byte_times: bytes * time }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.times += other.times;
        self.bytes += other.bytes;
        self.byte_times += other.byte_times;
    }

    /// What the gaps have beyond that length, if all are longer.
    fn excess(&self, length: f64) -> f64 {
        self.times - length * self.count
    }

    fn byte_excess(&self, length: f64) -> f64 {
        self.byte_times - length * self.bytes
    }
}

impl Gaps {
    fn add(&mut self, time: u64, bytes: u64) {
        let place = place_of::<PRECISION_BITS>(time);
        if place >= self.places.len() {
            self.places.resize(place + 1, Sums::default());
        }
        self.places[place].add(&Sums::of(time, bytes));
    }

    fn add_all(&mut self, other: &Self) {
        let len = self.places.len().max(other.places.len());
        self.places.resize(len, Sums::default());
        self.places.iter_mut().zip(&other.places).for_each(|(sums, more)| sums.add(more));
    }

    /// All of them.
    fn sums(&self) -> Sums {
        self.beyond().last().map_or(Sums::default(), |(_, sums)| sums)
    }

    /// Lengths, the longest first, each with the gaps that are longer than it; the last length is 0.
    fn beyond(&self) -> impl Iterator<Item = (u64, Sums)> {
        let mut sums = Sums::default();
        let lengths = self.places.iter().enumerate().rev().filter(|(place, _)| *place > 0);
        lengths.map(move |(place, more)| {
            sums.add(more);
            (number_of::<PRECISION_BITS>(place - 1), sums)
        })
    }
}

/// What windows of a length hold, on average over all that a trace has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// The length, in requests.
    pub(crate) length: f64,
    pub(crate) objects: f64,
    pub(crate) bytes: f64,
    /// Of the requests right behind such a window, those for an object that is not in it.
    pub(crate) new: f64,
}

impl ReuseTimes {
    /// Takes a request in.
    pub fn see(&mut self, access: &Access) {
        if !access.action.is_request() {
            return;
        }
        let bytes = match access.action {
            Action::Load(bytes) => bytes,
            Action::Get | Action::LoadUnsized | Action::Set(_) | Action::Delete => 0,
        };
        self.see_as(self.requests + 1, access.key, bytes);
    }

    /// Takes a request in that is of this number, from 1 and higher than those before; the number of the one
    /// before for this key.
    pub(crate) fn see_as(&mut self, number: u64, key: u64, bytes: u64) -> Option<u64> {
        self.requests = number;
        let before = self.last.insert(key, Last { number, bytes }).map(|last| last.number);
        match before {
            Some(before) => self.between.add(number - before, bytes),
            None => self.before.add(number, bytes),
        }
        before
    }

    /// What windows hold, the longest first, where there were so many requests: `fp(w)` is, with `n` requests for `m` objects,
    /// `m - (Σ (t - w) r_t + Σ (f_i - w) + Σ (l_i - w)) / (n - w + 1)`, each sum over what is
    /// longer than `w`; `r_t` requests come `t` after the one before, `f_i` is when an object is first
    /// asked for and `l_i` the same from the end (HOTL, equation 1). What is new is `fp(w + 1) - fp(w)`.
    pub(crate) fn windows(&self, requests: u64) -> Vec<Held> {
        let mut gaps = self.between.clone();
        gaps.add_all(&self.before);
        self.last.values().for_each(|last| gaps.add(requests + 1 - last.number, last.bytes));
        let objects = self.last.len() as f64;
        let bytes: f64 = self.last.values().map(|last| last.bytes as f64).sum();
        let held = |(length, longer): (u64, Sums)| {
            let (windows, length) = ((requests - length + 1) as f64, length as f64);
            let excess = longer.excess(length);
            Held {
                length,
                objects: objects - excess / windows,
                bytes: bytes - longer.byte_excess(length) / windows,
                new: (longer.count * windows - excess) / (windows * (windows - 1.0)),
            }
        };
        gaps.beyond().filter(|(length, _)| *length < requests).map(held).collect()
    }

    /// The curve by what windows hold: of a cache of `fp(w)` objects `fp(w + 1) - fp(w)` of the requests miss.
    pub fn footprint(&self) -> Curve {
        let windows = self.windows(self.requests);
        self.curve(windows.into_iter().rev().map(|held| (held.objects, held.new)))
    }

    /// The curve by how long objects stay: a share `P(t)` of requests comes more than `t` after the one
    /// before, or is the first; a cache of `P(0) + … + P(t - 1)` objects keeps them for `t` requests and
    /// misses `P(t)` (AET, equations 2 and 3).
    pub fn average_eviction_time(&self) -> Curve {
        let n = self.requests as f64;
        let first = self.last.len() as f64;
        // The sum of all P up to a time: of each reuse as much of its time as that.
        let all = self.between.sums().times;
        let at = |(time, longer): (u64, Sums)| {
            let time = time as f64;
            let kept = (all - longer.excess(time) + first * time) / n;
            (kept, (longer.count + first) / n)
        };
        let mut points: Vec<(f64, f64)> = self.between.beyond().map(at).collect();
        points.reverse();
        // Those that are never asked for again.
        let longest = self.between.places.len().saturating_sub(1);
        let longest = number_of::<PRECISION_BITS>(longest) as f64;
        let last = (n > 0.0).then(|| ((all + first * longest) / n, first / n));
        self.curve(points.into_iter().chain(last))
    }

    /// The curve through sizes that rise, each with its miss ratio.
    fn curve(&self, at: impl Iterator<Item = (f64, f64)>) -> Curve {
        let (mut points, mut least) = (Vec::<Point>::new(), 1.0_f64);
        let mut next = 0.0;
        for (size, miss_ratio) in at {
            if size < next || points.len() >= POINTS_MAX {
                continue;
            }
            // Rounded up: it holds from there on.
            next = (size * GROWTH).max(size + 1.0).floor();
            let size = size.ceil().max(1.0) as u64;
            least = least.min(miss_ratio.clamp(0.0, 1.0));
            match points.last_mut() {
                Some(before) if before.size >= size => before.miss_ratio = least,
                _ => points.push(Point { size, miss_ratio: least }),
            }
        }
        match Curve::new(points, self.requests as f64) {
            Ok(curve) => curve,
            Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
        }
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let places = self.between.places.capacity() + self.before.places.capacity();
        self.last.allocation_size() + places * size_of::<Sums>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiler::{Expiry, Profiler, Settings, Unit};

    fn load(key: u64) -> Access {
        Access::new(key, Action::Load(1 + key % 7))
    }

    /// The mean number of objects in windows of that length and of their bytes, counted.
    fn counted(keys: &[u64], length: usize) -> (f64, f64) {
        let distinct = |window: &[u64]| {
            let mut window = window.to_vec();
            window.sort_unstable();
            window.dedup();
            (window.len() as f64, window.iter().map(|key| (1 + key % 7) as f64).sum::<f64>())
        };
        let windows = keys.windows(length);
        let count = windows.len() as f64;
        let sums =
            windows.map(distinct).fold((0.0, 0.0), |sums, it| (sums.0 + it.0, sums.1 + it.1));
        (sums.0 / count, sums.1 / count)
    }

    #[test]
    fn footprints_are_means_over_all_windows() {
        let keys: Vec<u64> = (0..200_u64).map(|i| i * i % 37 % (1 + i % 23)).collect();
        let mut times = ReuseTimes::default();
        keys.iter().for_each(|key| times.see(&load(*key)));
        let mut windows = times.windows(200);
        windows.reverse();
        for length in [0, 1, 2, 3, 10, 50, 179] {
            let Held { objects, bytes, new, .. } = windows[length];
            let counted = |length| if length > 0 { counted(&keys, length) } else { (0.0, 0.0) };
            let (here, next) = (counted(length), counted(length + 1));
            assert!((objects - here.0).abs() < 1e-9, "{length}: {objects} and {}", here.0);
            assert!((bytes - here.1).abs() < 1e-9, "{length}: {bytes} and {}", here.1);
            assert!((new - (next.0 - here.0)).abs() < 1e-9, "{length}: {new}");
        }
    }

    #[test]
    fn both_are_near_the_exact_curve_where_nothing_changes() {
        let settings = Settings { unit: Unit::Objects, expiry: Expiry::Ignored };
        let (mut exact, mut times) = (Profiler::new(settings), ReuseTimes::default());
        let mut state = 7_u64;
        for _ in 0..300_000 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let part = (state >> 11) as f64 / (1_u64 << 53) as f64;
            let access = load((5_000.0 * part * part * part) as u64);
            exact.see(&access);
            times.see(&access);
        }
        for curve in [times.footprint(), times.average_eviction_time()] {
            let error = curve.mean_absolute_error(&exact.curve(), 100);
            assert!(error < 0.01, "{error}");
        }
        // As many places as times have, whatever there were of them.
        assert!(times.memory_bytes() < 2 << 20, "{}", times.memory_bytes());
    }

    #[test]
    fn few_requests_make_a_curve_too() {
        for requests in 0..4 {
            let mut times = ReuseTimes::default();
            (0..requests).for_each(|_| times.see(&load(1)));
            for curve in [times.footprint(), times.average_eviction_time()] {
                assert_eq!(curve.requests(), requests as f64);
                assert_eq!(curve.miss_ratio(0), 1.0);
            }
        }
    }
}
