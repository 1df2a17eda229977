//! A ghost: the fingerprints of entries that a component would hold if it were larger.
//!
//! An entry that is evicted from a component, or rejected by it, is recorded here by a fingerprint
//! of four bytes (AC-Key, section 4.3.3). A lookup that misses the component and finds its
//! fingerprint here would have been a hit in a component larger by the ghost's window: these hits
//! measure the value of more bytes.
//!
//! **What we changed.** The paper's ghosts are lists in eviction order. The next bytes of a
//! component that evicts by frequency would not hold the last evicted entry, but the most
//! frequently accessed entry that it does not hold; a list in eviction order is flushed by a scan,
//! or by lookups that are never repeated, and then reports that more bytes are worth nothing. So
//! here a new fingerprint replaces the oldest of its bucket if it is accessed at least as often;
//! else the oldest one stays, as if it had been recorded again. The ghost chooses as the component
//! does. Only one hash in `sampling` is recorded; each of its hits counts `sampling` times.
//!
//! A ghost has two reaches: its whole window, and the *near* part of it, the most frequently
//! accessed fingerprints of each bucket ([`NEAR_PART`]). The component would hold those with the
//! first additional bytes. Their use: `controller.rs`.
//!
//! Guarantees: the memory is [`Ghost::charged_bytes`] and never grows. A hash that was not recorded
//! is reported with a probability of 2^-32 per recorded one.
//!
//! Relies on the sketch having counted the access before [`Ghost::take`].
//!
//! Single-threaded.

use std::ops::{AddAssign, Mul, Sub};

use crate::partition::sketch::{Sketch, Width};

/// Most fingerprints per bucket.
const WAYS: usize = 8;

/// The default near part: one fingerprint in this number of a bucket, at least one. An eighth would
/// be a single fingerprint: too few for counts that are accurate to within a half.
const NEAR_PART: usize = 4;

/// Ghost hits: lookups that more bytes would have answered or, weighted by cost, reads that they
/// would have saved.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GhostHits {
    /// With all bytes of the window.
    pub window: f64,
    /// By the near part alone, scaled up to the window: equal to `window` if all of its bytes are
    /// worth the same.
    pub near: f64,
}

impl GhostHits {
    /// For a read that needs several blocks: the smallest of their values.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { window: self.window.min(other.window), near: self.near.min(other.near) }
    }
}

impl AddAssign for GhostHits {
    fn add_assign(&mut self, other: Self) {
        self.window += other.window;
        self.near += other.near;
    }
}

impl Sub for GhostHits {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { window: self.window - other.window, near: self.near - other.near }
    }
}

impl Mul<f64> for GhostHits {
    type Output = Self;

    fn mul(self, by: f64) -> Self {
        Self { window: self.window * by, near: self.near * by }
    }
}

/// Fingerprints of entries that a component does not hold.
#[derive(Debug)]
pub struct Ghost {
    /// By bucket; the most recently recorded or kept one comes first. 0: none.
    fingerprints: Box<[u32]>,
    /// Fingerprints per bucket.
    ways: usize,
    sampling: u32,
    /// Whether the most recently evicted one stays, regardless of frequency.
    keeps_last: bool,
    /// One in this number is near.
    near_part: usize,
}

/// The hash of `fingerprint` in a [`Sketch`].
pub fn spread(fingerprint: u32) -> u64 {
    u64::from(fingerprint).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Ghost {
    /// A ghost of `entries` entries that records each `sampling`-th fingerprint (a power of two).
    pub fn new(entries: usize, sampling: u32) -> Self {
        assert!(sampling.is_power_of_two(), "a sampling of {sampling} is no power of two");
        let slots = entries.div_ceil(sampling as usize);
        let ways = slots.div_ceil(slots.div_ceil(WAYS).max(1)).max(1);
        Self {
            fingerprints: vec![0; slots.div_ceil(ways) * ways].into(),
            ways,
            sampling,
            keeps_last: false,
            near_part: NEAR_PART,
        }
    }

    /// The same ghost; if `keeps_last`, it keeps the most recently evicted fingerprints.
    #[must_use]
    pub fn keeping_last(self, keeps_last: bool) -> Self {
        Self { keeps_last, ..self }
    }

    /// The same ghost with one in `near_part` being near: an eighth, or more.
    #[must_use]
    pub fn with_near_part(self, near_part: usize) -> Self {
        Self { near_part, ..self }
    }

    /// Memory in bytes.
    pub fn charged_bytes(&self) -> usize {
        size_of_val(&*self.fingerprints)
    }

    /// Records that an entry was evicted from the component, or rejected.
    pub fn note<W: Width>(&mut self, fingerprint: u32, sketch: &Sketch<W>) {
        let keeps_last = self.keeps_last;
        let Some(bucket) = self.bucket(fingerprint) else { return };
        let known = bucket.iter().position(|&other| other == fingerprint || other == 0);
        let place = known.unwrap_or(bucket.len() - 1);
        if known.is_none() && !keeps_last {
            let times = |fingerprint: u32| sketch.rate(spread(fingerprint));
            if times(bucket[place]) > times(fingerprint) {
                // The next new fingerprint is compared with another one.
                bucket.rotate_right(1);
                return;
            }
        }
        bucket[..=place].rotate_right(1);
        bucket[0] = fingerprint;
    }

    /// The number of lookups that a hit of `fingerprint` counts for, if it was recorded; removes
    /// it.
    pub fn take<W: Width>(&mut self, fingerprint: u32, sketch: &Sketch<W>) -> Option<GhostHits> {
        let (window, keeps_last) = (f64::from(self.sampling), self.keeps_last);
        let (ways, near_ways) = (self.ways, self.ways.div_ceil(self.near_part));
        let bucket = self.bucket(fingerprint)?;
        let place = bucket.iter().position(|&other| other == fingerprint)?;
        let times = sketch.rate_before(spread(fingerprint));
        let comes_before = |&(at, &other): &(usize, &u32)| match other {
            0 => false,
            _ if keeps_last => at < place,
            // Of equals, the one recorded later.
            _ => {
                let rate = sketch.rate(spread(other));
                rate > times || rate == times && at < place
            }
        };
        let others = bucket.iter().enumerate().filter(|(at, _)| *at != place);
        let is_near = others.filter(comes_before).count() < near_ways;
        bucket[place..].rotate_left(1);
        bucket[ways - 1] = 0;
        let near = if is_near { window * ways as f64 / near_ways as f64 } else { 0.0 };
        Some(GhostHits { window, near })
    }

    /// The bucket of a fingerprint that is part of the sample.
    fn bucket(&mut self, fingerprint: u32) -> Option<&mut [u32]> {
        let spread = spread(fingerprint);
        if fingerprint == 0 || self.fingerprints.is_empty() {
            return None;
        }
        if (spread >> 20) as u32 & (self.sampling - 1) != 0 {
            return None;
        }
        let buckets = (self.fingerprints.len() / self.ways) as u64;
        let index = (((spread >> 32) * buckets) >> 32) as usize;
        Some(&mut self.fingerprints[index * self.ways..][..self.ways])
    }
}

#[cfg(test)]
mod tests;
