//! A sample of the keys says nearly as much as all of them: SHARDS (Waldspurger, Park, Garthwaite,
//! Ahmad, FAST 2015).
//!
//! A key is in the sample if a hash of it is below a threshold, so that of a key in the sample all
//! requests are. With one key of a hundred, distances are a hundredth of what they would be.
//!
//! * **Fixed rate** ([`Sampler::of_rate`], §3): memory grows with the objects of the trace.
//! * **Fixed size** ([`Sampler::of_size`], §4.1): when there are too many keys the threshold falls to the
//!   highest hash of them, and what has been counted shrinks with it. Memory is bounded, whatever
//!   the trace.
//!
//! Keys that are asked for very often make a sample have more or fewer requests than its share. What
//! is missing is added as requests of the shortest distance, which the keys of most requests have
//! (`SHARDS-adj`, §4.2). A sample of fixed rate is also held against what can be counted of all keys
//! ([`crate::curves::calibration`]), as long as requests do nothing but load objects.
//!
//! What we changed: a sample may count the bytes that are asked for as well, and what it lacks of them is told
//! apart by what chance can have done ([`crate::curves::distances`]).
//!
//! Pure; one thread's.

use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::slice;

use crate::curves::access::{Access, Action};
use crate::curves::calibration::Calibration;
use crate::curves::curve::Curve;
use crate::curves::distances::{Distances, Lack};
use crate::curves::profiler::{Expiry, Order, Seen, Settings, Unit};

/// Hashes are below this.
const HASHES: u64 = 1 << 32;
/// Objects of a sample of which the size is fixed: with so many the mean absolute error was below
/// 0.01 in all traces of the paper but one (§5.3).
pub const SIZE_USUAL: usize = 8 << 10;

/// Requests that are taken in together.
const AT_ONCE: usize = 1 << 10;

/// Which keys a sample has.
#[derive(Debug, Clone, Copy)]
struct Share {
    /// Those whose hash is below.
    threshold: u64,
    /// 2^32 / rate, or as much of that as there is.
    inverse_rate: u64,
}

impl Share {
    fn below(threshold: u64) -> Self {
        let inverse_rate = (u128::from(HASHES) << 32).div_ceil(u128::from(threshold.max(1)));
        Self { threshold, inverse_rate: u64::try_from(inverse_rate).unwrap_or(u64::MAX) }
    }

    /// A distance among all keys, by that among the keys of the sample.
    fn scaled_up(self, of_sample: u64) -> u64 {
        let product = u128::from(of_sample) * u128::from(self.inverse_rate);
        u64::try_from(product >> 32).unwrap_or(u64::MAX)
    }
}

/// What all requests ask for.
#[derive(Debug, Default)]
struct AskedBytes {
    bytes: f64,
    /// The sum of the squares of what each asks for: of objects that are asked for once, `rate (1 - rate)` times as much is the
    /// variance of the bytes of a sample.
    squares: f64,
    /// Whether some do not say.
    has_unsized: bool,
}

impl AskedBytes {
    fn see(&mut self, action: Action) {
        let bytes = action.asked_bytes();
        self.has_unsized |= action.is_request() && bytes.is_none();
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
    share: Share,
    /// Requests of all keys that can be hits or misses.
    requests: u64,
    /// What they ask for, if that is counted.
    asked: Option<AskedBytes>,
    size: Option<Size>,
    /// What is known of all keys, where the sample is of some of them.
    calibration: Option<Box<Calibration>>,
}

/// How a sample keeps its size.
#[derive(Debug)]
struct Size {
    most: usize,
    /// Keys with their hashes, the highest first; with some that are there no more, or twice.
    highest: BinaryHeap<(u64, u64)>,
}

/// By this the keys of a sample are chosen: another hash than what shards and caches go by, of 32 bits.
#[inline]
pub fn sample_hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// So many keys of each have a hash below this.
pub(crate) fn threshold_of(rate: f64) -> u64 {
    (rate.clamp(0.0, 1.0) * HASHES as f64).round().max(1.0) as u64
}

/// How many keys of each have a hash below.
pub(crate) fn rate_of(threshold: u64) -> f64 {
    threshold as f64 / HASHES as f64
}

/// How large an object is that a request loads, in a unit.
#[inline]
fn size_of_load(action: Action, unit: Unit) -> Option<u64> {
    match (action, unit) {
        (Action::Load(_) | Action::LoadUnsized, Unit::Objects) => Some(1),
        (_, Unit::Objects) => None,
        (action, Unit::Bytes) => action.asked_bytes(),
    }
}

impl Sampler {
    /// A sample of so many keys of each, 0 to 1.
    pub fn of_rate(rate: f64, settings: Settings) -> Self {
        let calibration = (rate < 1.0).then(|| Box::new(Calibration::new()));
        Self { calibration, ..Self::uncalibrated(rate, settings) }
    }

    /// The same, with nothing that is known of all keys.
    fn uncalibrated(rate: f64, settings: Settings) -> Self {
        Self {
            order: Order::new(settings),
            distances: Distances::default(),
            share: Share::below(threshold_of(rate)),
            requests: 0,
            asked: None,
            size: None,
            calibration: None,
        }
    }

    /// The same that counts bytes beside requests, for [`Self::byte_curve`]: that takes time.
    pub fn with_bytes(self) -> Self {
        Self { asked: Some(AskedBytes::default()), ..self }
    }

    /// A sample of at most so many objects.
    pub fn of_size(most: usize, settings: Settings) -> Self {
        Self::of_size_from(1.0, most, settings)
    }

    /// The same, which begins with so many keys of each.
    pub(crate) fn of_size_from(rate: f64, most: usize, settings: Settings) -> Self {
        let size = Some(Size { most: most.max(1), highest: BinaryHeap::new() });
        Self { size, ..Self::uncalibrated(rate, settings) }
    }

    /// How many keys of each are in the sample.
    pub fn rate(&self) -> f64 {
        rate_of(self.share.threshold)
    }

    /// Keys with a [`sample_hash`] below are in the sample, from now on.
    pub(crate) fn threshold(&self) -> u64 {
        self.share.threshold
    }

    /// The objects of the sample.
    pub(crate) fn order(&mut self) -> &mut Order {
        &mut self.order
    }

    /// As if nothing had been counted; what has been seen is still known.
    pub(crate) fn count_anew(&mut self) {
        (self.distances, self.requests) = (Distances::default(), 0);
        self.asked = self.asked.as_ref().map(|_| AskedBytes::default());
    }

    /// Forgets all objects; what has been counted stays, and which keys are in the sample.
    pub(crate) fn clear(&mut self) {
        self.order = Order::new(self.order.settings());
        if let Some(size) = &mut self.size {
            size.highest.clear();
        }
    }

    /// How many objects there are in the sample.
    pub fn objects(&self) -> usize {
        self.order.len()
    }

    /// Takes a request in.
    pub fn see(&mut self, access: &Access) {
        self.see_all(slice::from_ref(access));
    }

    /// Takes requests in, in their order: faster than one by one.
    pub fn see_all(&mut self, accesses: &[Access]) {
        if let Some(asked) = &mut self.asked {
            accesses.iter().for_each(|access| asked.see(access.action));
        }
        let mut rest = accesses;
        while !rest.is_empty()
            && let Some(mut calibration) = self.calibration.take()
        {
            let len = rest.len().min(AT_ONCE).min(calibration.until_it_changes());
            let (some, behind) = rest.split_at(len);
            if !self.see_with(some, &mut calibration) {
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

    /// The same, at most [`AT_ONCE`], with what is known of all keys. False, and nothing is taken in, where
    /// something else is done than to load an object: what comes of that in a cache that fills is not known.
    fn see_with(&mut self, accesses: &[Access], calibration: &mut Calibration) -> bool {
        let Settings { unit, expiry } = self.order.settings();
        let load = |access: &Access| {
            let stays = access.ttl_ms.is_none() || expiry == Expiry::Ignored;
            size_of_load(access.action, unit).filter(|_| stays)
        };
        // Those of the sample together, so that what is fetched for one does not wait for the others.
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
            calibration.see_sampled(number.get(), load(access).unwrap_or(0), seen.before());
        }
        self.requests += accesses.len() as u64;
        calibration.see(accesses.iter().map(|access| (access.key, load(access).unwrap_or(0))));
        true
    }

    fn sample(&mut self, access: &Access, hash: u64, number: NonZeroU64) -> Seen {
        let was_there = self.size.is_none() || self.order.has(access.key);
        let seen = self.order.see_numbered(access, number);
        let bytes = self.asked.as_ref().and_then(|_| access.action.asked_bytes());
        match seen {
            Seen::Nothing => {}
            Seen::Reuse(place) => {
                let distance = self.share.scaled_up(place.depth);
                self.distances.reuse(distance, bytes);
            }
            Seen::Miss => self.distances.miss(bytes),
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
                self.share = Share::below(highest.max(1));
                self.order.drop_out(key);
            }
        }
        // Others with the same hash.
        while let Some((hash, key)) = size.highest.peek().copied()
            && hash >= self.share.threshold
        {
            size.highest.pop();
            self.order.drop_out(key);
        }
        let threshold = self.share.threshold;
        if threshold < before {
            self.distances.scale(threshold as f64 / before as f64);
        }
        if size.highest.len() > size.most + size.most / 2 {
            let mut there = std::mem::take(&mut size.highest).into_vec();
            there.retain(|(_, key)| self.order.has(*key));
            there.sort_unstable();
            there.dedup();
            size.highest = there.into();
        }
    }

    /// What caches are thought to miss of the requests so far, by all that is known.
    pub fn curve(&self) -> Curve {
        self.calibrated_curve().unwrap_or_else(|| self.sampled_curve())
    }

    /// The share of the bytes asked for that caches are thought to miss, by their size: of the sample's keys, with what all keys
    /// ask for; never calibrated. `None` where bytes are not counted ([`Self::with_bytes`]), or a request did not say how
    /// many it asks for.
    pub fn byte_curve(&self) -> Option<Curve> {
        let asked = self.asked.as_ref().filter(|asked| !asked.has_unsized)?;
        let (requests, rate) = (self.requests as f64, self.rate());
        let lack = Lack {
            requests: requests * rate - self.distances.requests(),
            bytes: asked.bytes * rate - self.distances.bytes(),
            variance: asked.squares * rate * (1.0 - rate),
        };
        self.distances.byte_curve(lack).map(|curve| curve.of_requests(requests))
    }

    /// What caches are thought to miss of the requests so far, by the keys of the sample alone.
    pub fn sampled_curve(&self) -> Curve {
        self.curve_of(self.requests, 0)
    }

    /// The same corrected by what can be counted of all keys: none for samples of fixed size, and where a trace is not
    /// stationary, has done more than to load objects, or has objects of which that would not be true
    /// ([`crate::curves::calibration`]).
    pub fn calibrated_curve(&self) -> Option<Curve> {
        let calibration = self.calibration.as_ref()?;
        calibration.correct(&self.sampled_curve(), self.rate(), self.order.last_accesses())
    }

    /// Requests in the sample that have been counted.
    pub(crate) fn sampled_requests(&self) -> f64 {
        self.distances.requests()
    }

    /// The sample's curve, where there were so many requests of all keys, of which nothing is known of `lost`.
    pub(crate) fn curve_of(&self, requests: u64, lost: u64) -> Curve {
        let expected = requests.saturating_sub(lost) as f64 * self.rate();
        let curve = self.distances.curve(expected - self.distances.requests());
        curve.of_requests(requests as f64)
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let size =
            self.size.as_ref().map_or(0, |size| size.highest.capacity() * size_of::<(u64, u64)>());
        let calibration = self.calibration.as_ref().map_or(0, |it| it.memory_bytes());
        self.order.memory_bytes() + self.distances.memory_bytes() + size + calibration
    }
}

#[cfg(test)]
mod tests;
