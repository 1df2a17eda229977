//! A sample of the keys gives nearly the same curve as all of them: SHARDS (Waldspurger, Park,
//! Garthwaite, Ahmad, FAST 2015).
//!
//! A key is in the sample if its hash is below a threshold, so that the sample has all requests of
//! a sampled key. At a sampling rate of one in a hundred, reuse distances are a hundredth of the
//! full ones.
//!
//! * **Fixed rate** ([`Sampler::of_rate`], §3): memory grows with the objects of the trace.
//! * **Fixed size** ([`Sampler::of_size`], §4.1): when there are too many keys the threshold falls
//!   to their highest hash, and all counts are scaled down with it. Memory is bounded, whatever the
//!   trace.
//!
//! Very popular keys make a sample have more or fewer requests than its share. The difference is
//! added as requests of the shortest distance, which the keys of most requests have (`SHARDS-adj`,
//! §4.2). A sample of fixed rate is also corrected by counts over all keys
//! ([`crate::curves::calibration`]), as long as requests do nothing but load objects.
//!
//! What we changed: a sample may count the requested bytes as well, and its deficit of them is
//! separated from the part that chance explains ([`crate::curves::distances`]).
//!
//! Pure; one thread's.

use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::slice;

use crate::curves::access::{Access, Action};
use crate::curves::calibration::Calibration;
use crate::curves::curve::Curve;
use crate::curves::distances::{Deficit, Distances};
use crate::curves::error_bars::{ErrorBars, Groups};
use crate::curves::profiler::{Expiry, Order, RequestClass, Settings, Unit};

/// The exclusive upper bound of hashes.
const HASHES: u64 = 1 << 32;
/// Objects of a sample of fixed size: with this many the mean absolute error was below 0.01 in all
/// traces of the paper but one (§5.3).
pub const DEFAULT_SAMPLE_SIZE: usize = 8 << 10;

/// Objects of the sample of a trace for plans: four times as many halve the error, and a plan needs half
/// the margin for it.
pub const TRACE_SAMPLE_SIZE: usize = 4 * DEFAULT_SAMPLE_SIZE;

/// Requests that are processed together.
const AT_ONCE: usize = 1 << 10;

/// The sampling condition.
#[derive(Debug, Clone, Copy)]
struct SampleFilter {
    /// Keys with a hash below this are sampled.
    threshold: u64,
    /// 2^32 / rate, saturating.
    inverse_rate: u64,
}

impl SampleFilter {
    fn below(threshold: u64) -> Self {
        let inverse_rate = (u128::from(HASHES) << 32).div_ceil(u128::from(threshold.max(1)));
        Self { threshold, inverse_rate: u64::try_from(inverse_rate).unwrap_or(u64::MAX) }
    }

    /// Scales a distance among the keys of the sample to all keys.
    fn scaled_up(self, of_sample: u64) -> u64 {
        let product = u128::from(of_sample) * u128::from(self.inverse_rate);
        u64::try_from(product >> 32).unwrap_or(u64::MAX)
    }
}

/// The requested bytes of all requests.
#[derive(Debug, Default)]
struct RequestedBytes {
    bytes: f64,
    /// The sum of the squared request sizes: for objects that are requested once, `rate (1 - rate)`
    /// times this is the variance of the bytes of a sample.
    squares: f64,
    /// Whether the size of some is unknown.
    has_unsized: bool,
}

impl RequestedBytes {
    fn record(&mut self, access: &Access) {
        let bytes = access.requested_bytes();
        self.has_unsized |= access.action.is_request() && bytes.is_none();
        let bytes = bytes.unwrap_or(0) as f64;
        self.bytes += bytes;
        self.squares += bytes * bytes;
    }
}

/// A profile of a sample of the keys.
#[derive(Debug)]
pub struct Sampler {
    order: Order,
    distances: Distances,
    share: SampleFilter,
    /// Requests of all keys that can be hits or misses.
    requests: u64,
    /// Their bytes, if they are counted.
    requested: Option<RequestedBytes>,
    size: Option<Size>,
    /// Counts over all keys, if the sample has only some of them.
    calibration: Option<Box<Calibration>>,
    /// Groups of its keys, if errors are wanted.
    groups: Option<Box<Groups>>,
}

/// The state of a sample of fixed size.
#[derive(Debug)]
struct Size {
    most: usize,
    /// Keys with their hashes, the highest first; some may be stale or duplicates.
    highest: BinaryHeap<(u64, u64)>,
}

/// The sampling hash, of 32 bits: independent of the hash that shards and caches use.
#[inline]
pub fn sample_hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// The threshold for a sampling rate.
pub(crate) fn threshold_of(rate: f64) -> u64 {
    (rate.clamp(0.0, 1.0) * HASHES as f64).round().max(1.0) as u64
}

/// The sampling rate of a threshold.
pub(crate) fn rate_of(threshold: u64) -> f64 {
    threshold as f64 / HASHES as f64
}

/// The size of an object that a request loads, in a unit.
#[inline]
fn size_of_load(action: Action, unit: Unit) -> Option<u64> {
    match (action, unit) {
        (Action::Load(_) | Action::LoadUnsized(_), Unit::Objects) => Some(1),
        (_, Unit::Objects) => None,
        (action, Unit::Bytes) => action.loaded_bytes(),
    }
}

impl Sampler {
    /// A sample of fixed rate, 0 to 1.
    pub fn of_rate(rate: f64, settings: Settings) -> Self {
        let calibration = (rate < 1.0).then(|| Box::new(Calibration::new()));
        Self { calibration, ..Self::uncalibrated(rate, settings) }
    }

    /// The same, without counts over all keys.
    fn uncalibrated(rate: f64, settings: Settings) -> Self {
        Self {
            order: Order::new(settings),
            distances: Distances::default(),
            share: SampleFilter::below(threshold_of(rate)),
            requests: 0,
            requested: None,
            size: None,
            calibration: None,
            groups: None,
        }
    }

    /// Also estimates errors, for [`Self::error_bars`]: that takes time and memory.
    pub fn with_error_bars(self) -> Self {
        let groups = Some(Box::new(Groups::new(self.order.settings())));
        Self { groups, ..self }
    }

    /// Also counts bytes, for [`Self::byte_curve`]: that takes time.
    pub fn with_bytes(self) -> Self {
        Self { requested: Some(RequestedBytes::default()), ..self }
    }

    /// A sample of at most `most` objects.
    pub fn of_size(most: usize, settings: Settings) -> Self {
        Self::of_size_from(1.0, most, settings)
    }

    /// The same, starting at this rate.
    pub(crate) fn of_size_from(rate: f64, most: usize, settings: Settings) -> Self {
        let size = Some(Size { most: most.max(1), highest: BinaryHeap::new() });
        Self { size, ..Self::uncalibrated(rate, settings) }
    }

    /// The sampling rate.
    pub fn rate(&self) -> f64 {
        rate_of(self.share.threshold)
    }

    /// Keys with a [`sample_hash`] below this are sampled from now on.
    pub(crate) fn threshold(&self) -> u64 {
        self.share.threshold
    }

    /// The objects of the sample.
    pub(crate) fn order(&mut self) -> &mut Order {
        &mut self.order
    }

    /// Resets all counts, but keeps the objects.
    pub(crate) fn reset_counts(&mut self) {
        (self.distances, self.requests) = (Distances::default(), 0);
        self.requested = self.requested.as_ref().map(|_| RequestedBytes::default());
    }

    /// Drops all objects; counts and the threshold stay.
    pub(crate) fn clear(&mut self) {
        self.order = Order::new(self.order.settings());
        if let Some(size) = &mut self.size {
            size.highest.clear();
        }
    }

    /// The number of objects in the sample.
    pub fn objects(&self) -> usize {
        self.order.len()
    }

    /// Records a request.
    pub fn record(&mut self, access: &Access) {
        self.record_all(slice::from_ref(access));
    }

    /// Records requests in order: faster than one by one.
    pub fn record_all(&mut self, accesses: &[Access]) {
        if let Some(requested) = &mut self.requested {
            accesses.iter().for_each(|access| requested.record(access));
        }
        let mut rest = accesses;
        while !rest.is_empty()
            && let Some(mut calibration) = self.calibration.take()
        {
            let len = rest.len().min(AT_ONCE).min(calibration.batch_max());
            let (some, behind) = rest.split_at(len);
            if !self.record_with(some, &mut calibration) {
                break;
            }
            (self.calibration, rest) = (Some(calibration), behind);
        }
        for access in rest {
            self.requests += u64::from(access.action.is_request());
            let hash = sample_hash(access.key);
            if hash < self.share.threshold {
                self.sample(access, hash, NonZeroU64::MIN);
            }
        }
    }

    /// The same for at most [`AT_ONCE`] requests, with counts over all keys. Returns false, and
    /// records nothing, if some request does anything but load an object: its effect on a cache
    /// that fills is unknown.
    fn record_with(&mut self, accesses: &[Access], calibration: &mut Calibration) -> bool {
        let Settings { unit, expiry } = self.order.settings();
        let load = |access: &Access| {
            let stays = access.ttl_ms.is_none() || expiry == Expiry::Ignored;
            size_of_load(access.action, unit).filter(|_| stays)
        };
        // Process the sampled ones together, so that their cache misses overlap.
        let mut sampled = [0_u16; AT_ONCE];
        let (mut len, mut are_loads) = (0, true);
        for (at, access) in (0..).zip(accesses) {
            are_loads &= load(access).is_some();
            sampled[len] = at;
            len += usize::from(sample_hash(access.key) < self.share.threshold);
        }
        if !are_loads {
            return false;
        }
        let sampled = &sampled[..len];
        for at in sampled {
            let access = &accesses[usize::from(*at)];
            let number = NonZeroU64::MIN.saturating_add(self.requests + u64::from(*at));
            let seen = self.sample(access, sample_hash(access.key), number);
            calibration.record_sampled(number.get(), load(access).unwrap_or(0), seen.before());
        }
        self.requests += accesses.len() as u64;
        calibration.record(accesses.iter().map(|access| (access.key, load(access).unwrap_or(0))));
        true
    }

    fn sample(&mut self, access: &Access, hash: u64, number: NonZeroU64) -> RequestClass {
        let was_there = self.size.is_none() || self.order.has(access.key);
        let seen = self.order.record_numbered(access, number);
        let bytes = self.requested.as_ref().and_then(|_| access.requested_bytes());
        match seen {
            RequestClass::Nothing => {}
            RequestClass::Reuse(place) => {
                let distance = self.share.scaled_up(place.depth);
                self.distances.reuse(distance, bytes);
            }
            RequestClass::Miss => self.distances.miss(bytes),
        }
        if let Some(groups) = &mut self.groups {
            groups.record(access, |depth| self.share.scaled_up(depth));
        }
        if let Some(size) = &mut self.size
            && !was_there
            && self.order.has(access.key)
        {
            size.highest.push((hash, access.key));
            self.shrink();
        }
        seen
    }

    /// Lowers the threshold until there are few enough keys, if there are too many.
    fn shrink(&mut self) {
        let Some(size) = &mut self.size else { return };
        let before = self.share.threshold;
        while self.order.len() > size.most
            && let Some((highest, key)) = size.highest.pop()
        {
            if self.order.has(key) {
                self.share = SampleFilter::below(highest.max(1));
                Self::drop_out(&mut self.order, self.groups.as_deref_mut(), key);
            }
        }
        // Others with the same hash.
        while let Some((hash, key)) = size.highest.peek().copied()
            && hash >= self.share.threshold
        {
            size.highest.pop();
            Self::drop_out(&mut self.order, self.groups.as_deref_mut(), key);
        }
        let threshold = self.share.threshold;
        if threshold < before {
            let factor = threshold as f64 / before as f64;
            self.distances.scale(factor);
            if let Some(groups) = &mut self.groups {
                groups.scale(factor);
            }
        }
        if size.highest.len() > size.most + size.most / 2 {
            let mut there = std::mem::take(&mut size.highest).into_vec();
            there.retain(|(_, key)| self.order.has(*key));
            there.sort_unstable();
            there.dedup();
            size.highest = there.into();
        }
    }

    fn drop_out(order: &mut Order, groups: Option<&mut Groups>, key: u64) {
        order.drop_out(key);
        if let Some(groups) = groups {
            groups.drop_out(key);
        }
    }

    /// Drops all objects that caches of `size` do not have, as if they had never been requested. Not
    /// for samples with error bars.
    pub(crate) fn truncate(&mut self, size: u64) {
        let of_sample = (size as f64 * self.rate()).ceil() as u64;
        self.order.truncate(of_sample);
    }

    /// The standard errors of [`Self::sampled_curve`]: `None` if they are not estimated
    /// ([`Self::with_error_bars`]), or all keys are in the sample.
    pub fn error_bars(&self) -> Option<ErrorBars> {
        let groups = self.groups.as_ref().filter(|_| self.share.threshold < HASHES)?;
        Some(groups.error_bars(self.expected(self.requests, 0)))
    }

    /// Requests that the sample should have.
    fn expected(&self, requests: u64, lost: u64) -> f64 {
        requests.saturating_sub(lost) as f64 * self.rate()
    }

    /// The best estimate of the miss-ratio curve of the requests so far.
    pub fn curve(&self) -> Curve {
        self.calibrated_curve().unwrap_or_else(|| self.sampled_curve())
    }

    /// The estimated byte miss ratio by cache size: from the sample's keys, corrected by the bytes
    /// of all keys; never calibrated. `None` if bytes are not counted ([`Self::with_bytes`]), or
    /// the size of some request is unknown.
    pub fn byte_curve(&self) -> Option<Curve> {
        let requested = self.requested.as_ref().filter(|requested| !requested.has_unsized)?;
        let (requests, rate) = (self.requests as f64, self.rate());
        let deficit = Deficit {
            requests: requests * rate - self.distances.requests(),
            bytes: requested.bytes * rate - self.distances.bytes(),
            variance: requested.squares * rate * (1.0 - rate),
        };
        self.distances.byte_curve(deficit).map(|curve| curve.of_requests(requests))
    }

    /// The estimated miss-ratio curve of the requests so far, from the keys of the sample alone.
    pub fn sampled_curve(&self) -> Curve {
        self.curve_of(self.requests, 0)
    }

    /// The same corrected by counts over all keys: `None` for samples of fixed size, and if a trace
    /// is not stationary, has done more than to load objects, or has sizes for which the correction
    /// fails (`crate::curves::calibration`).
    pub fn calibrated_curve(&self) -> Option<Curve> {
        let calibration = self.calibration.as_ref()?;
        calibration.correct(&self.sampled_curve(), self.rate(), self.order.last_accesses())
    }

    /// The number of requests in the sample that have been counted.
    pub(crate) fn sampled_requests(&self) -> f64 {
        self.distances.requests()
    }

    /// The sample's curve, for this number of requests of all keys, of which `lost` were not
    /// observed.
    pub(crate) fn curve_of(&self, requests: u64, lost: u64) -> Curve {
        let expected = self.expected(requests, lost);
        let curve = self.distances.curve(expected - self.distances.requests());
        curve.of_requests(requests as f64)
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let size =
            self.size.as_ref().map_or(0, |size| size.highest.capacity() * size_of::<(u64, u64)>());
        let calibration = self.calibration.as_ref().map_or(0, |it| it.memory_bytes());
        let groups = self.groups.as_ref().map_or(0, |it| it.memory_bytes());
        self.order.memory_bytes() + self.distances.memory_bytes() + size + calibration + groups
    }
}

#[cfg(test)]
mod tests;
