//! How far a sample's requests are from its share of all, and what that has to do with what it says.
//!
//! Of all requests it is known how many there were, and of which size. A sample has more or fewer of
//! them than its share, for some of its keys are asked for often, or there are more keys in it than there should be, or
//! larger ones. What else is counted in the sample is wrong by as much as it goes along with that: the
//! regression estimator of sampling theory (Cochran, *Sampling Techniques*, chapter 7). With requests `c`
//! of a key and anything `y` that is counted of it, of the share that is missing
//!
//! ```text
//!             Σ y c
//!    y lacks  ───────  of what c lacks        (Σ over the keys of the sample)
//!             Σ c c
//! ```
//!
//! * Where few keys make the difference (Zipf's law), these hardly ever miss, and hits are what is
//!   missing: that is `SHARDS-adj` (Waldspurger et al. 2015 §4.2).
//! * Where keys are alike (ElCached's exponential law) the sample has too many or too few keys. Misses lack as
//!   much as hits, and distances, which are bytes of keys, as much as either.
//!
//! A key's sums are not known before its last request. So the `j`th request of a key counts for `2 j - 1`,
//! the sum of which is the square.

use crate::curve::Curve;
use crate::distances::Distances;

/// No distance is corrected by more than that.
const FACTOR: (f64, f64) = (0.5, 2.0);

/// What is known of all requests and of those of a sample: their number, or their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Control {
    /// Of the sample's requests, `Σ x`.
    sampled: f64,
    /// `Σ y x`, of each key's `y` (1, or its bytes): that is `Σ x` by requests, or `Σ x bytes`.
    along: f64,
    /// `Σ x x`.
    squares: f64,
    /// `Σ y`.
    keys: f64,
}

impl Control {
    fn see(&mut self, value: f64, nth: f64) {
        self.sampled += value;
        self.along += value * value;
        self.squares += (2.0 * nth - 1.0) * value * value;
        if nth <= 1.0 {
            self.keys += value;
        }
    }

    fn scale(&mut self, factor: f64) {
        for sum in [&mut self.sampled, &mut self.along, &mut self.squares, &mut self.keys] {
            *sum *= factor;
        }
    }

    /// How many times as large distances are as they seem, where the sample should have had `expected`.
    fn factor(&self, expected: f64) -> f64 {
        if self.squares <= 0.0 || self.keys <= 0.0 {
            return 1.0;
        }
        let lacks = self.along / self.squares * (expected - self.sampled);
        (1.0 + lacks / self.keys).clamp(FACTOR.0, FACTOR.1)
    }
}

/// What a sample has, beside its distances.
#[derive(Debug, Clone, Default)]
pub(crate) struct Share {
    /// Distances of requests, each as many as it counts for in a square.
    squares: Distances,
    requests: Control,
    bytes: Control,
    /// Of all requests whose size is known, and whether there were others.
    bytes_of_all: u64,
    is_unsized: bool,
}

impl Share {
    /// That there was a request, of a key of the sample or not, for so many bytes.
    #[inline]
    pub(crate) fn see_any(&mut self, bytes: Option<u64>) {
        match bytes {
            Some(bytes) => self.bytes_of_all += bytes,
            None => self.is_unsized = true,
        }
    }

    /// That a key of the sample was asked for the `nth` time, of so many bytes where it is known: how far
    /// that was from its last request, if any cache answers it.
    pub(crate) fn see(&mut self, nth: u32, bytes: Option<u64>, distance: Option<u64>) {
        let nth = f64::from(nth);
        self.requests.see(1.0, nth);
        self.bytes.see(bytes.unwrap_or(0) as f64, nth);
        match distance {
            Some(distance) => self.squares.reuse(distance, 2.0 * nth - 1.0),
            None => self.squares.miss(2.0 * nth - 1.0),
        }
    }

    /// As if there had been so many times as many requests of all so far.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.squares.scale(factor);
        self.requests.scale(factor);
        self.bytes.scale(factor);
    }

    /// The curve of a sample that has `distances` and so many keys of each, where all requests were so
    /// many, and so many bytes, if that is known.
    pub(crate) fn curve(
        &self,
        distances: &Distances,
        rate: f64,
        requests: f64,
        bytes: Option<f64>,
    ) -> Curve {
        let expected = requests * rate;
        let factor = match bytes {
            Some(bytes) => self.bytes.factor(bytes * rate),
            None => self.requests.factor(expected),
        };
        let curve = distances.curve_with(expected - distances.requests(), &self.squares);
        if factor == 1.0 { curve } else { curve.in_units(factor) }
    }

    /// Bytes of all requests, where each was known.
    pub(crate) fn bytes_of_all(&self) -> Option<f64> {
        (!self.is_unsized).then_some(self.bytes_of_all as f64)
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.squares.memory_bytes()
    }
}
