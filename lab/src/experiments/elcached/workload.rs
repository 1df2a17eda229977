//! The paper's workloads: keys and sizes of Facebook's ETC (Atikoglu et al., SIGMETRICS 2012, table 5),
//! asked for by Zipf's law or by an exponential one, as mutilate makes them (ElCached §5).
//!
//! The paper has 800 million requests over four billion keys. Here requests, keys and the mean of the
//! exponential law are divided by a *shrink*, and so are sizes of caches that are held against its. What is asked for
//! the first time does not shrink with it: by Zipf's law it is 6 % of the paper's requests, and 8 % of a twentieth of
//! them.

use std::sync::LazyLock;

use tidekv_plan::{Access, Action, Curve, Expiry, GROWTH, Profiler, Settings, SlabClasses, Unit};

use crate::load::dice::{Dice, mix};
use crate::load::keys::{Choice, Picker};

/// Requests of the paper.
const REQUESTS: u64 = 800_000_000;
/// Requests, so much fewer than in the paper.
pub(super) fn requests(shrink: u64) -> u64 {
    REQUESTS / shrink
}

/// Its keys.
const KEYS: u64 = 4_000_000_000;

/// How likely keys are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Law {
    /// The key of rank *r* with a likelihood of 1 / *r* ^ 1.15.
    Zipf,
    /// The key of rank *r* with a likelihood of e ^ (-*r* / 10^6).
    Exponential,
}

impl Law {
    pub(super) const ALL: [Self; 2] = [Self::Zipf, Self::Exponential];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Zipf => "zipf",
            Self::Exponential => "exponential",
        }
    }
}

const ALPHA: f64 = 1.15;
/// The mean rank by the exponential law: 1 / λ.
const MEAN_RANK: f64 = 1e6;

/// A number of a generalised extreme-value law (location 30.8, scale 8.2, shape 0.079): ETC's keys.
fn key_bytes(unit: f64) -> f64 {
    let (location, scale, shape) = (30.7984, 8.20449, 0.078688);
    location + scale * ((-unit.ln()).powf(-shape) - 1.0) / shape
}

/// Their mean, in bytes, about.
pub(super) const VALUE_BYTES_MEAN: u64 = 329;

/// That of keys and values together, about.
pub(super) const OBJECT_BYTES_MEAN: u64 = 365;

/// A number of a generalised Pareto law (scale 214, shape 0.35): ETC's values.
fn value_bytes(unit: f64) -> f64 {
    let (scale, shape) = (214.476, 0.348238);
    scale * ((1.0 - unit).powf(-shape) - 1.0) / shape
}

/// How long a key and its value are: the same each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
}

/// The sizes of the object of a key.
pub(super) fn sizes_of(key: u64) -> Sizes {
    let mut dice = Dice::new(mix(key ^ 0xE7C));
    // A key is as long as the protocol has it, with room for its number; a value as long as an item may be.
    let key_bytes = key_bytes(dice.unit().max(f64::MIN_POSITIVE)).clamp(8.0, 250.0);
    let value_bytes = value_bytes(dice.unit()).clamp(1.0, (1 << 20) as f64 - 512.0);
    let both = (key_bytes + value_bytes) as u64;
    Sizes { key_bytes: key_bytes as u64, value_bytes: both - key_bytes as u64 }
}

/// What the object of a key takes, in bytes.
pub(super) fn object_bytes(key: u64) -> u64 {
    let Sizes { key_bytes, value_bytes } = sizes_of(key);
    key_bytes + value_bytes
}

/// What memcached takes for it, in bytes: a chunk of the smallest class that has room for the item.
pub(super) fn chunk_bytes(key: u64) -> u64 {
    static CLASSES: LazyLock<SlabClasses> = LazyLock::new(|| SlabClasses::of_growth(GROWTH));
    let Sizes { key_bytes, value_bytes } = sizes_of(key);
    let item_bytes = SlabClasses::item_bytes(key_bytes, value_bytes);
    // What is larger than any chunk is in several.
    CLASSES.class_of(item_bytes).map_or(item_bytes, |class| CLASSES.chunk_bytes()[class])
}

/// A key as clients have it: its number in letters and digits, behind as many zeros as it takes.
pub(super) fn text_of(key: u64, key_bytes: u64) -> Vec<u8> {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut text = vec![b'0'; key_bytes as usize];
    let mut rest = key;
    for place in text.iter_mut().rev() {
        *place = DIGITS[(rest % 62) as usize];
        rest /= 62;
    }
    text
}

/// The keys of all requests, in their order.
pub(super) fn keys(law: Law, shrink: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut dice = Dice::new(mix(seed ^ law as u64));
    let zipf = Choice::Zipf { alpha: ALPHA, is_scattered: false };
    let mut picker = Picker::new(&zipf, KEYS / shrink, seed, 0, 1);
    let mean = MEAN_RANK / shrink as f64;
    (0..REQUESTS / shrink).map(move |_| match law {
        Law::Zipf => picker.next(&mut dice),
        Law::Exponential => (-(1.0 - dice.unit()).ln() * mean) as u64,
    })
}

/// All that is asked of a trace here.
pub(super) const SETTINGS: Settings = Settings { unit: Unit::Bytes, expiry: Expiry::Ignored };

/// All requests of a workload.
pub(super) fn accesses(law: Law, shrink: u64, seed: u64) -> impl Iterator<Item = Access> {
    accesses_of(law, shrink, seed, object_bytes)
}

/// The same, of which each object takes so much.
fn accesses_of(
    law: Law,
    shrink: u64,
    seed: u64,
    bytes: fn(u64) -> u64,
) -> impl Iterator<Item = Access> {
    keys(law, shrink, seed).map(move |key| Access::new(mix(key), Action::Load(bytes(key))))
}

/// Requests by a law, and what objects take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) law: Law,
    pub(super) shrink: u64,
    /// What the object of a key takes, in bytes.
    pub(super) bytes: fn(u64) -> u64,
}

impl Workload {
    /// So many times smaller than the paper's; of objects it is keys and values that count.
    pub(super) fn small(law: Law, shrink: u64) -> Self {
        Self { law, shrink, bytes: object_bytes }
    }

    /// All of the paper's requests, and objects as memcached has them.
    pub(super) fn whole(law: Law) -> Self {
        Self { law, shrink: 1, bytes: chunk_bytes }
    }

    /// What caches of all sizes miss, in bytes: each request is followed through them. (Of one key in ten a
    /// curve is five per cent off, and more where caches have but a few objects.)
    pub(super) fn curve(&self, seed: u64) -> Curve {
        let mut profiler = Profiler::new(SETTINGS);
        let accesses = accesses_of(self.law, self.shrink, seed, self.bytes);
        accesses.for_each(|access| profiler.record(&access));
        profiler.curve()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ranks_have_the_means_of_their_laws() {
        let mean = |numbers: Vec<f64>| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let sizes = mean((0..200_000).map(|key| object_bytes(key) as f64).collect());
        // 36 for a key, 214 / (1 - 0.35) for a value.
        assert!((345.0..385.0).contains(&sizes), "{sizes}");
        let ranks = mean(keys(Law::Exponential, 1_000, 1).map(|key| key as f64).collect());
        assert!((990.0..1_010.0).contains(&ranks), "{ranks}");
        let firsts = keys(Law::Zipf, 1_000, 1).filter(|key| *key == 0).count() as f64 / 800_000.0;
        assert!((0.13..0.17).contains(&firsts), "{firsts}");
    }

    #[test]
    fn a_larger_cache_misses_less_of_both() {
        for law in Law::ALL {
            let curve = Workload::small(law, 1_000).curve(1);
            assert!(curve.points().len() > 100, "{law:?}");
            assert!(curve.miss_ratio(1 << 20) > curve.miss_ratio(1 << 24), "{law:?}");
        }
    }
}
