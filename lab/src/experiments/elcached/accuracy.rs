//! `elcached-accuracy`: miss ratios predicted by a profile, compared with those of a cache for the
//! same requests (Figure 2), at eight sizes.
//!
//! | part | the cache | predicted by |
//! |---|---|---|
//! | `memcached zipf`, `memcached exponential` | memcached 1.6 in a separate process, one LRU list per class | one profile of its slab classes |
//! | `tier zipf`, `tier exponential` | TideKV's cache in memory, in this process | small caches of a tenth of the keys |
//! | `flash zipf`, `flash exponential` | the same with flash behind it ([`crate::experiments::elcached::behind`]) | small caches of an eighth |
//! | `samples zipf`, `samples exponential` | caches of all sizes, by a profile of all keys | a sample of the keys ([`crate::experiments::elcached::sampling`]) |
//!
//! | subject | description |
//! |---|---|
//! | `tidekv:profile-slabs` | pages in the order in which classes need them |
//! | `elcached:shares` | each class has the share of pages that it has with room for everything, as in the paper |
//! | `memcached` | the misses of memcached with its defaults, next to the prediction for one list per class |
//! | `tidekv:miniature-s3-fifo`, `tidekv:miniature-lru` | the product's code at a small scale, compared with itself at full scale |
//! | `model:byte-lru` | distances in bytes of keys and values, compared with S3-FIFO |
//!
//! Each request is a get, followed by a set if it misses; misses are those of the whole run,
//! including those of the empty cache, as in a curve. Sizes are evenly spaced on a logarithmic
//! scale from a thirty-second to three quarters of the slab memory of all objects.
//! `crate::subjects::served` describes the handling of time and order with memcached; its sizes are
//! the values of `-m`. Keys and the mean of the exponential law are divided by `shrink`; `requests`
//! is the number of requests used. For the exponential law keys are divided by less: each class has
//! a page at any size, and two dozen pages would hold all requested objects, so only first requests
//! would miss.

use std::sync::Arc;

use tidekv_plan::{CacheSize, PAGE_BYTES};
use tidekv_tiered::Eviction;

use crate::experiment::{Experiment, Figure, Found, Model, Point, Rule, Shape, Subjects, Target};
use crate::experiments::elcached::prediction::{BYTE_LRU, Beside, Load, found_of, sizes_from};
use crate::experiments::elcached::simulated::SimulatedTier;
use crate::experiments::elcached::workload::{self, Law, Sizes};
use crate::experiments::elcached::{behind, sampling};
use crate::failure::Result;
use crate::scale::Scale;
use crate::subjects::served::{Asked, Kind, OfAPrediction};

/// Pages by their order.
const BY_ORDER: &str = "tidekv:profile-slabs";
/// Pages by shares.
const BY_SHARES: &str = "elcached:shares";
/// With its defaults.
const MEMCACHED: &str = "memcached";
/// Sampling rate of simulated small caches.
const RATE: f64 = 0.1;

/// The measured eviction policies of TideKV.
const EVICTIONS: [(Eviction, &str); 2] =
    [(Eviction::S3Fifo, "tidekv:miniature-s3-fifo"), (Eviction::Lru, "tidekv:miniature-lru")];

#[derive(Debug)]
struct Memcached {
    load: Load,
    /// Whether the default configuration is measured too.
    has_usual: bool,
}

impl Memcached {
    /// The misses of a memcached of this kind, at each size.
    fn measured(&self, kind: Kind, sizes: &[u64], seed: u64) -> Result<Vec<f64>> {
        let asked = |key| {
            let Sizes { key_bytes, value_bytes } = workload::sizes_of(key);
            Asked { key: workload::text_of(key, key_bytes), value_bytes: value_bytes as usize }
        };
        let at = |size: &u64| {
            let memcached = OfAPrediction::start(kind, size / PAGE_BYTES)?;
            let answered = memcached.follow(self.load.keys(seed).map(asked))?;
            Ok(answered.misses as f64 / answered.gets as f64)
        };
        sizes.iter().map(at).collect()
    }
}

impl Model for Memcached {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let profiler = self.load.slabs(seed);
        let sizes = sizes_from(profiler.bytes_max());
        let (by_order, by_shares) = (profiler.curve(), profiler.curve_of_shares());
        drop(profiler);
        let measured = self.measured(Kind::Flat, &sizes, seed)?;
        let beside = |curve, measured| Beside::all(curve, &sizes, measured);
        let mut all = found_of(BY_ORDER, &beside(&by_order, &measured));
        all.extend(found_of(BY_SHARES, &beside(&by_shares, &measured)));
        if self.has_usual {
            let usual = self.measured(Kind::AsItComes, &sizes, seed)?;
            all.extend(found_of(MEMCACHED, &beside(&by_order, &usual)));
        }
        Ok(all)
    }
}

#[derive(Debug)]
struct Tier {
    load: Load,
}

impl Model for Tier {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let sizes = sizes_from(self.load.slabs(seed).bytes_max());
        // A small cache has at least 1 MiB.
        let least = (tidekv_tiered::DRAM_BYTES_MIN as f64 / RATE) as u64 + PAGE_BYTES;
        let mut sizes: Vec<u64> = sizes.into_iter().map(|size| size.max(least)).collect();
        sizes.dedup();
        let of_memory: Vec<CacheSize> =
            sizes.iter().map(|size| CacheSize::of_memory(*size)).collect();
        let byte_lru = self.load.byte_lru(seed);
        let mut all = Vec::new();
        for (eviction, subject) in EVICTIONS {
            let make = |size| SimulatedTier::new(eviction, size);
            let measured = self.load.measured(&of_memory, seed, make)?;
            let predicted = self.load.predicted(&of_memory, seed, RATE, make)?;
            all.extend(found_of(subject, &Beside::all(&predicted, &sizes, &measured)));
            if eviction == Eviction::S3Fifo {
                all.extend(found_of(BYTE_LRU, &Beside::all(&byte_lru, &sizes, &measured)));
            }
        }
        Ok(all)
    }
}

/// The judged results of memcached, by law, and of the tier.
const PARTS: [(Law, &str, &str); 2] = [
    (Law::Zipf, MEMCACHED_ZIPF, TIER_ZIPF),
    (Law::Exponential, MEMCACHED_EXPONENTIAL, TIER_EXPONENTIAL),
];
const MEMCACHED_ZIPF: &str = "memcached zipf";
const MEMCACHED_EXPONENTIAL: &str = "memcached exponential";
const TIER_ZIPF: &str = "tier zipf";
const TIER_EXPONENTIAL: &str = "tier exponential";

fn points(scale: &Scale) -> Vec<Point> {
    let load = |law, shrink, requests| Load { law, shrink, requests };
    // A socket takes time: there are fewer requests with one.
    let loads = |law| match (scale.is_quick, law) {
        (true, Law::Zipf) => [load(law, 1_000, 800_000); 2],
        (true, Law::Exponential) => [load(law, 20, 800_000); 2],
        (false, Law::Zipf) => [load(law, 200, 4_000_000), load(law, 50, 16_000_000)],
        (false, Law::Exponential) => [load(law, 10, 6_000_000), load(law, 1, 32_000_000)],
    };
    let memcached = PARTS.map(|(law, part, _)| {
        let [load, _] = loads(law);
        let has_usual = !scale.is_quick;
        load.point(scale, part, Arc::new(Memcached { load, has_usual }))
    });
    let tier = PARTS.map(|(law, _, part)| {
        let [_, load] = loads(law);
        load.point(scale, part, Arc::new(Tier { load }))
    });
    let samples = sampling::points(scale).into_iter();
    samples.chain(memcached).chain(tier).chain(behind::points(scale)).collect()
}

const fn target(part: &'static str, most: f64) -> Target {
    Target::in_phase(part, "mean_relative_error", Rule::AtMost(most))
}

pub(super) const ACCURACY: Experiment = Experiment {
    name: "elcached-accuracy",
    about: "miss ratios predicted by profiles, compared with those of a real memcached and of \
            TideKV's cache without and with flash, for two workloads modelled on Facebook's ETC \
            at eight sizes (ElCached, Figure 2)",
    paper: "4 % off on average, against a memcached",
    claim: "an error of at most 2 % for memcached, 1 % for our own cache",
    subjects: Subjects::Default,
    points,
    targets: &[
        target(MEMCACHED_ZIPF, 0.02),
        target(MEMCACHED_EXPONENTIAL, 0.02),
        target(TIER_ZIPF, 0.01),
        target(TIER_EXPONENTIAL, 0.01),
        sampling::TARGETS[0],
        sampling::TARGETS[1],
        sampling::TARGETS[2],
        sampling::TARGETS[3],
        behind::TARGETS[0],
        behind::TARGETS[1],
    ],
    figures: &[
        Figure {
            title: "Miss ratio, measured",
            metric: "miss_ratio",
            x: "mib",
            y: "",
            shape: Shape::Subjects,
        },
        Figure {
            title: "Miss ratio, predicted",
            metric: "predicted_miss_ratio",
            x: "mib",
            y: "",
            shape: Shape::Subjects,
        },
    ],
    ..Experiment::USUAL
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_caches_predict_the_misses_of_large_ones() {
        let load = Load { law: Law::Zipf, shrink: 5_000, requests: usize::MAX };
        let found = Tier { load }.run(1).expect("nothing fails");
        let mean = |subject: &str| {
            let is_mean = |found: &&Found| found.subject == subject && found.params.is_empty();
            found.iter().find(is_mean).expect("it is there").metrics[0].1
        };
        for (_, subject) in EVICTIONS {
            assert!(mean(subject) < 0.1, "{}", mean(subject));
        }
    }
}
