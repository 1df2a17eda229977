//! Curves from reuse times, the number of requests between two for an object, which are cheaper to
//! measure than reuse distances: O(1) a request, no tree.
//!
//! * [`ReuseTimes::footprint`]: the mean number of objects in windows of each length, and from it
//!   the curve (Xiang et al., HOTL, ASPLOS 2013; ElCached has compared with it).
//! * [`ReuseTimes::average_eviction_time`]: how long objects stay in a cache of each size (Hu et
//!   al., AET, USENIX ATC 2016).
//!
//! Both treat every request as a load, measure sizes in objects, and hold for stationary traces.
//! They ignore deletes and expiry: [`crate::Profiler`] is exact.
//!
//! Guarantees: the count of each recorded length of time is exact, and adjacent recorded lengths
//! differ by one part in 128 at most; memory grows with objects, not with requests.
//! [`crate::curves::calibration`] takes the last access of each object from the stack, and uses
//! [`Intervals`] alone, which do not grow. Pure; one thread's.

use hashbrown::HashMap;

use crate::curves::access::{Access, Action};
use crate::curves::curve::{Curve, Point};
use crate::curves::histogram_scale::{number_of, place_of};
use crate::curves::stack::LastAccess;

/// Times below 2^that have a bucket of their own.
const PRECISION_BITS: u32 = 8;
/// The most points of a curve.
const POINTS_MAX: usize = 4096;
/// The growth factor from one size of a curve to the next, beyond the small ones.
const GROWTH: f64 = 1.01;

/// Reuse times, in requests.
#[derive(Debug, Default)]
pub struct ReuseTimes {
    last_accesses: HashMap<u64, LastAccess>,
    intervals: Intervals,
}

/// A histogram of reuse times: all that curves need, except for the last access of each object,
/// which the caller passes.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    /// From one request to the next.
    between: Gaps,
    /// From the beginning to the first request for each object.
    before: Gaps,
    requests: u64,
    /// Requests for an object whose size had changed.
    resized: u64,
}

/// Times, each with the size of an object.
#[derive(Debug, Clone, Default)]
struct Gaps {
    /// By bucket ([`crate::curves::histogram_scale`]).
    places: Vec<Sums>,
}

/// Of some gaps: their number and total length; and the same weighted by the bytes of their
/// objects.
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

    /// The excess of the gaps over that length, if all are longer.
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

    /// The total.
    fn sums(&self) -> Sums {
        self.beyond().last().map_or(Sums::default(), |(_, sums)| sums)
    }

    /// An upper bound of all lengths.
    fn longest(&self) -> Option<u64> {
        self.places.len().checked_sub(1).map(number_of::<PRECISION_BITS>)
    }

    /// Lengths, the longest first, each with the gaps that are longer than it; the last length is
    /// 0.
    fn beyond(&self) -> impl Iterator<Item = (u64, Sums)> {
        let mut sums = Sums::default();
        let lengths = self.places.iter().enumerate().rev().filter(|(place, _)| *place > 0);
        lengths.map(move |(place, more)| {
            sums.add(more);
            (number_of::<PRECISION_BITS>(place - 1), sums)
        })
    }
}

/// The average content of windows of one length, over all windows of a trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Footprint {
    /// The length, in requests of all keys.
    pub(crate) length: f64,
    pub(crate) objects: f64,
    pub(crate) bytes: f64,
    /// Objects that are new to a window with one request more: `fp(w + 1) - fp(w)`, per request of
    /// all keys.
    pub(crate) new: f64,
}

impl Intervals {
    /// Records a request: its number, from 1 and higher than those before, the bytes of the object,
    /// and the previous request for it.
    #[inline]
    pub(crate) fn record(&mut self, number: u64, bytes: u64, before: Option<LastAccess>) {
        self.requests = number;
        match before {
            Some(before) => {
                self.between.add(number - before.number, bytes);
                self.resized += u64::from(before.bytes != bytes);
            }
            None => self.before.add(number, bytes),
        }
    }

    /// The footprints, by rising window length, after `requests` requests with these last accesses
    /// of all objects: `fp(w)` is, with `n` requests for `m` objects, `m - (Σ (t - w) r_t + Σ (f_i
    /// - w) + Σ (l_i - w)) / (n - w + 1)`, each sum over terms longer than `w`; `r_t` requests come
    /// `t` after the one before, `f_i` is the time of an object's first request and `l_i` the same
    ///   from the end (HOTL, equation 1). The bytes assume constant object sizes.
    pub(crate) fn footprints(
        &self,
        requests: u64,
        last_accesses: impl Iterator<Item = LastAccess>,
    ) -> Vec<Footprint> {
        let mut gaps = self.between.clone();
        gaps.add_all(&self.before);
        let (mut objects, mut bytes) = (0.0, 0.0);
        for last in last_accesses {
            gaps.add(requests + 1 - last.number, last.bytes);
            objects += 1.0;
            bytes += last.bytes as f64;
        }
        let of_length = |(length, longer): (u64, Sums)| {
            let (windows, length) = ((requests - length + 1) as f64, length as f64);
            let excess = longer.excess(length);
            Footprint {
                length,
                objects: objects - excess / windows,
                bytes: bytes - longer.byte_excess(length) / windows,
                new: (longer.count * windows - excess) / (windows * (windows - 1.0)),
            }
        };
        // Windows of the longest have everything.
        let lengths = gaps.longest().map(|length| (length, Sums::default())).into_iter();
        let lengths = lengths.chain(gaps.beyond()).filter(|(length, _)| *length < requests);
        let mut footprints: Vec<Footprint> = lengths.map(of_length).collect();
        footprints.reverse();
        footprints
    }

    /// The fraction of requests for an object whose size had changed.
    pub(crate) fn resized(&self) -> f64 {
        self.resized as f64 / self.between.sums().count.max(1.0)
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let places = self.between.places.capacity() + self.before.places.capacity();
        places * size_of::<Sums>()
    }
}

impl ReuseTimes {
    /// Records a request.
    pub fn record(&mut self, access: &Access) {
        if !access.action.is_request() {
            return;
        }
        let bytes = match access.action {
            Action::Load(bytes) => bytes,
            Action::Get
            | Action::LoadUnsized(_)
            | Action::Set(_)
            | Action::Delete
            | Action::Expire => 0,
        };
        let number = self.intervals.requests + 1;
        let before = self.last_accesses.insert(access.key, LastAccess { number, bytes });
        self.intervals.record(number, bytes, before);
    }

    fn footprints(&self) -> Vec<Footprint> {
        self.intervals.footprints(self.intervals.requests, self.last_accesses.values().copied())
    }

    /// The curve by footprints: of a cache of `fp(w)` objects `fp(w + 1) - fp(w)` of the requests
    /// miss.
    pub fn footprint(&self) -> Curve {
        let footprints = self.footprints().into_iter();
        self.curve(footprints.map(|footprint| (footprint.objects, footprint.new)).collect())
    }

    /// The curve by eviction times: a share `P(t)` of requests comes more than `t` after the one
    /// before, or is the first; a cache of `P(0) + … + P(t - 1)` objects keeps them for `t`
    /// requests and misses `P(t)` (AET, equations 2 and 3).
    pub fn average_eviction_time(&self) -> Curve {
        let Intervals { between, requests, .. } = &self.intervals;
        let (n, first) = (*requests as f64, self.last_accesses.len() as f64);
        // The sum of all P up to a time: each reuse contributes its time up to that.
        let all = between.sums().times;
        let at = |(time, longer): (u64, Sums)| {
            let time = time as f64;
            ((all - longer.excess(time) + first * time) / n, (longer.count + first) / n)
        };
        let longest = between.longest().map(|time| (time, Sums::default())).into_iter();
        let mut points: Vec<(f64, f64)> = longest.chain(between.beyond()).map(at).collect();
        points.reverse();
        self.curve(points)
    }

    /// The curve through rising sizes, each with its miss ratio.
    fn curve(&self, sizes: Vec<(f64, f64)>) -> Curve {
        let (mut points, mut least) = (Vec::<Point>::new(), 1.0_f64);
        let (mut next, last) = (0.0, sizes.len().saturating_sub(1));
        for (at, (size, miss_ratio)) in sizes.into_iter().enumerate() {
            if at < last && (size < next || points.len() >= POINTS_MAX) {
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
        match Curve::new(points, self.intervals.requests as f64) {
            Ok(curve) => curve,
            Err(error) => unreachable!("sizes rise and ratios fall: {error}"),
        }
    }

    /// Memory, in bytes.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        self.last_accesses.allocation_size() + self.intervals.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::profiler::{Expiry, Profiler, Settings, Unit};

    fn load(key: u64) -> Access {
        Access::new(key, Action::Load(1 + key % 7))
    }

    /// The mean number of objects in windows of that length and of their bytes, counted directly.
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
        keys.iter().for_each(|key| times.record(&load(*key)));
        let footprints = times.footprints();
        for length in [0, 1, 2, 3, 10, 50, 179] {
            let Footprint { objects, bytes, new, .. } = footprints[length];
            let counted = |length| if length > 0 { counted(&keys, length) } else { (0.0, 0.0) };
            let (here, next) = (counted(length), counted(length + 1));
            assert!((objects - here.0).abs() < 1e-9, "{length}: {objects} and {}", here.0);
            assert!((bytes - here.1).abs() < 1e-9, "{length}: {bytes} and {}", here.1);
            assert!((new - (next.0 - here.0)).abs() < 1e-9, "{length}: {new}");
        }
    }

    #[test]
    fn both_estimates_are_near_the_exact_curve_of_a_stationary_trace() {
        let settings = Settings { unit: Unit::Objects, expiry: Expiry::Ignored };
        let (mut exact, mut times) = (Profiler::new(settings), ReuseTimes::default());
        let mut state = 7_u64;
        for _ in 0..300_000 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            let part = (state >> 11) as f64 / (1_u64 << 53) as f64;
            let access = load((5_000.0 * part * part * part) as u64);
            exact.record(&access);
            times.record(&access);
        }
        for curve in [times.footprint(), times.average_eviction_time()] {
            let error = curve.mean_absolute_error(&exact.curve(), 100);
            assert!(error < 0.01, "{error}");
        }
        // At most one bucket for each length, however many there were.
        assert!(times.memory_bytes() < 2 << 20, "{}", times.memory_bytes());
    }

    #[test]
    fn cyclic_trace_misses_until_everything_fits() {
        let mut times = ReuseTimes::default();
        (0..1_000_000).for_each(|number| times.record(&load(number % 10_000)));
        for (curve, rest) in [(times.footprint(), 0.0), (times.average_eviction_time(), 0.01)] {
            assert!(curve.miss_ratio(9_900) > 0.98, "{}", curve.miss_ratio(9_900));
            assert!((curve.miss_ratio(10_100) - rest).abs() < 1e-9, "{}", curve.miss_ratio(10_100));
        }
    }

    #[test]
    fn few_requests_give_a_curve() {
        for requests in 0..4 {
            let mut times = ReuseTimes::default();
            (0..requests).for_each(|_| times.record(&load(1)));
            for curve in [times.footprint(), times.average_eviction_time()] {
                assert_eq!(curve.requests(), requests as f64);
                assert_eq!(curve.miss_ratio(0), 1.0);
            }
        }
    }
}
