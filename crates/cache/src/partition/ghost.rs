//! A ghost: what a component would hold if it had some more bytes.
//!
//! Whatever leaves a component, or is refused by it, is noted here by a fingerprint of
//! four bytes (AC-Key, section 4.3.3). A lookup that misses the component and finds its
//! fingerprint here would have been a hit in a component larger by the ghost's window:
//! that is the measure of what more bytes are worth.
//!
//! **What we changed.** The paper's ghosts are lists in the order of leaving. The next
//! bytes of a component that chooses by frequency would not hold what left it last, but
//! what is asked for most of all that it does not hold; a list in the order of leaving
//! is flushed by a scan, or by lookups that nobody repeats, and says that more bytes
//! are worth nothing. So here a newcomer takes the place of the one of its bucket that was
//! noted first, if it is not asked for less; else that one stays, as if it had been noted
//! again. The ghost chooses as the component does. Only one hash in so many (`sampling`)
//! is noted at all; each of its hits stands for as many.
//!
//! A ghost has two reaches: all of its window, and the *near* part of that, those of each
//! bucket that are asked for most ([`NEAR_PART`]). They would be here with the first of its
//! bytes. What that is good for: `tide.rs`.
//!
//! Guarantees: the memory is what [`Ghost::charged_bytes`] says, and never grows. A
//! hash that was not noted is reported with a likelihood of 2^-32 for each that was.
//!
//! Relies on the sketch having counted what is asked for before [`Ghost::take`].
//!
//! For one thread at a time.

use std::ops::{AddAssign, Mul, Sub};

use crate::partition::sketch::{Sketch, Width};

/// Fingerprints that share a bucket, at most.
const WAYS: usize = 8;

/// One part in so many of a bucket is near (one fingerprint at least), where nothing else is
/// said. An eighth would be a single fingerprint: too few to tell by counts that are right to
/// within a half.
const NEAR_PART: usize = 4;

/// Lookups that more bytes would have answered, or reads that they would have saved.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wanted {
    /// With all bytes of the window.
    pub window: f64,
    /// By the near part alone, scaled up to the window: as much as `window` if all of its
    /// bytes are worth the same.
    pub near: f64,
}

impl Wanted {
    /// For a read that needs several blocks: the least that any of them says.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { window: self.window.min(other.window), near: self.near.min(other.near) }
    }
}

impl AddAssign for Wanted {
    fn add_assign(&mut self, other: Self) {
        self.window += other.window;
        self.near += other.near;
    }
}

impl Sub for Wanted {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { window: self.window - other.window, near: self.near - other.near }
    }
}

impl Mul<f64> for Wanted {
    type Output = Self;

    fn mul(self, by: f64) -> Self {
        Self { window: self.window * by, near: self.near * by }
    }
}

/// Fingerprints of what a component does not hold.
#[derive(Debug)]
pub struct Ghost {
    /// By bucket; the one noted last, or kept, comes first. 0: none.
    fingerprints: Box<[u32]>,
    /// Fingerprints of a bucket.
    ways: usize,
    sampling: u32,
    /// Whether what left last stays, whatever is asked for.
    keeps_last: bool,
    /// One part in so many is near.
    near_part: usize,
}

/// The hash that stands for `fingerprint` in a [`Sketch`].
pub fn spread(fingerprint: u32) -> u64 {
    u64::from(fingerprint).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Ghost {
    /// A ghost of so many entries: of each `sampling`-th fingerprint (a power of two).
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

    /// The same ghost, keeping what left last if `keeps_last`.
    #[must_use]
    pub fn keeping_last(self, keeps_last: bool) -> Self {
        Self { keeps_last, ..self }
    }

    /// The same ghost, of which one part in so many is near: an eighth, or more.
    #[must_use]
    pub fn with_near_part(self, near_part: usize) -> Self {
        Self { near_part, ..self }
    }

    /// The memory that it takes.
    pub fn charged_bytes(&self) -> usize {
        size_of_val(&*self.fingerprints)
    }

    /// Notes that something has left the component, or was refused.
    pub fn note<W: Width>(&mut self, fingerprint: u32, sketch: &Sketch<W>) {
        let keeps_last = self.keeps_last;
        let Some(bucket) = self.bucket(fingerprint) else { return };
        let known = bucket.iter().position(|&other| other == fingerprint || other == 0);
        let place = known.unwrap_or(bucket.len() - 1);
        if known.is_none() && !keeps_last {
            let times = |fingerprint: u32| sketch.rate(spread(fingerprint));
            if times(bucket[place]) > times(fingerprint) {
                // The next newcomer is held against another.
                bucket.rotate_right(1);
                return;
            }
        }
        bucket[..=place].rotate_right(1);
        bucket[0] = fingerprint;
    }

    /// For how many lookups a hit of `fingerprint` stands, if it was noted; it is forgotten
    /// with that.
    pub fn take<W: Width>(&mut self, fingerprint: u32, sketch: &Sketch<W>) -> Option<Wanted> {
        let (window, keeps_last) = (f64::from(self.sampling), self.keeps_last);
        let (ways, near_ways) = (self.ways, self.ways.div_ceil(self.near_part));
        let bucket = self.bucket(fingerprint)?;
        let place = bucket.iter().position(|&other| other == fingerprint)?;
        let times = sketch.rate_before(spread(fingerprint));
        let comes_before = |&(at, &other): &(usize, &u32)| match other {
            0 => false,
            _ if keeps_last => at < place,
            // Of equals, the one that was noted later.
            _ => {
                let asked = sketch.rate(spread(other));
                asked > times || asked == times && at < place
            }
        };
        let others = bucket.iter().enumerate().filter(|(at, _)| *at != place);
        let is_near = others.filter(comes_before).count() < near_ways;
        bucket[place..].rotate_left(1);
        bucket[ways - 1] = 0;
        let near = if is_near { window * ways as f64 / near_ways as f64 } else { 0.0 };
        Some(Wanted { window, near })
    }

    /// The bucket of a fingerprint that is noted at all.
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
