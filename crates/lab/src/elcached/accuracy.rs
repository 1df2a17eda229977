//! `elcached-accuracy`: miss ratios that a profile predicts, against those that a cache has for the same
//! requests (Figure 2), at eight sizes.
//!
//! | part | the cache | predicted by |
//! |---|---|---|
//! | `memcached zipf`, `memcached exponential` | a memcached 1.6 of its own process, one list a class | one profile of its slab classes |
//! | `tier zipf`, `tier exponential` | TideKV's cache in memory, of this process | small caches of a tenth of the keys |
//!
//! | `samples zipf`, `samples exponential` | caches of all sizes, by a profile of all keys | a sample of the keys ([`crate::elcached::sampling`]) |
//!
//! | subject | what it is |
//! |---|---|
//! | `tidekv:profile-slabs` | pages in the order in which classes come to need them |
//! | `elcached:shares` | to each class the share of pages that it has where there is room for everything, as in the paper |
//! | `memcached` | what a memcached with its defaults misses, beside the prediction for one list a class |
//! | `tidekv:miniature-s3-fifo`, `tidekv:miniature-lru` | the product's code in small, held against itself in large |
//! | `model:byte-lru` | distances in bytes of keys and values, held against S3-FIFO |
//!
//! Each request is a get, and a set where it misses; misses are those of the whole run, those of an empty
//! cache among them, as in a curve. Sizes are spread evenly by their logarithm from a
//! thirty-second to three quarters of what everything takes in slabs. `crate::served` says how time
//! and order are kept where memcached is asked; its sizes are what `-m` says. Keys and the mean of the exponential
//! law are divided by `shrink`; of the requests so many come first as `requests` says. By the exponential law keys
//! are divided by less: each class has a page whatever the size is, and in two dozen pages would be all that is asked
//! for, so that only first requests missed.

use std::sync::Arc;

use tidekv_evidence::Value;
use tidekv_plan::{
    Access, Action, ClassProfiler, Curve, Expiry, GROWTH, Miniature, PAGE_BYTES, Profiler,
    Simulated, SlabClasses,
};
use tidekv_tiered::Eviction;

use crate::dice::mix;
use crate::elcached::cost::modelled;
use crate::elcached::sampling;
use crate::elcached::simulated::TierInMemory;
use crate::elcached::workload::{self, Law, Sizes};
use crate::experiment::{
    Experiment, Figure, Found, Model, Params, Point, Rule, Shape, Subjects, Target,
};
use crate::failure::Result;
use crate::parallel::in_parallel;
use crate::scale::Scale;
use crate::served::{Asked, Kind, OfAPrediction};

/// Pages by their order.
const BY_ORDER: &str = "tidekv:profile-slabs";
/// Pages by shares.
const BY_SHARES: &str = "elcached:shares";
/// With its defaults.
const MEMCACHED: &str = "memcached";
/// By distances in bytes.
const BYTE_LRU: &str = "model:byte-lru";

/// Sizes of caches.
const SIZES: usize = 8;
/// Caches that are tried in small have so many of the keys.
const RATE: f64 = 0.1;
/// Processors, about: so many sizes are tried at a time.
const AT_ONCE: usize = 2;

/// Of TideKV's orders of eviction, those that are tried.
const EVICTIONS: [(Eviction, &str); 2] =
    [(Eviction::S3Fifo, "tidekv:miniature-s3-fifo"), (Eviction::Lru, "tidekv:miniature-lru")];

/// What is predicted and measured of one size.
#[derive(Debug, Clone, Copy)]
struct Beside {
    size: u64,
    predicted: f64,
    measured: f64,
}

impl Beside {
    fn error(&self) -> f64 {
        (self.predicted - self.measured).abs() / self.measured
    }

    fn found(&self, subject: &'static str) -> Found {
        let params: Params = [("phase", Value::from("size")), ("mib", (self.size >> 20).into())]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        let metrics = vec![
            ("predicted_miss_ratio", self.predicted),
            ("miss_ratio", self.measured),
            ("relative_error", self.error()),
        ];
        Found { subject, params, metrics }
    }
}

/// What was found of a subject: at each size, and on average.
fn found_of(subject: &'static str, all: &[Beside]) -> Vec<Found> {
    let mean = all.iter().map(Beside::error).sum::<f64>() / all.len().max(1) as f64;
    let most = all.iter().map(Beside::error).fold(0.0, f64::max);
    let metrics = vec![("mean_relative_error", mean), ("relative_error_most", most)];
    let found = all.iter().map(|beside| beside.found(subject));
    found.chain([Found { subject, params: Params::new(), metrics }]).collect()
}

/// Less a memcached does not take, as its largest item is a page.
const PAGES_MIN: u64 = 2;

/// Whole MiB, spread evenly by their logarithm.
fn sizes_from(bytes_max: u64) -> Vec<u64> {
    let (from, to) = (bytes_max as f64 / 32.0, bytes_max as f64 * 0.75);
    let step = (to / from).powf(1.0 / (SIZES - 1) as f64);
    let mib = |number: usize| (from * step.powi(number as i32) / PAGE_BYTES as f64).round();
    let mut sizes: Vec<u64> =
        (0..SIZES).map(|number| (mib(number) as u64).max(PAGES_MIN) * PAGE_BYTES).collect();
    sizes.dedup();
    sizes
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
struct Load {
    law: Law,
    shrink: u64,
    /// So many requests.
    requests: usize,
}

impl Load {
    fn keys(&self, seed: u64) -> impl Iterator<Item = u64> {
        workload::keys(self.law, self.shrink, seed).take(self.requests)
    }

    /// A profile of the slab classes of all requests.
    fn slabs(&self, seed: u64) -> ClassProfiler {
        let mut profiler = ClassProfiler::new(SlabClasses::of_growth(GROWTH), Expiry::Ignored);
        for key in self.keys(seed) {
            let Sizes { key_bytes, value_bytes } = workload::sizes_of(key);
            let bytes = SlabClasses::item_bytes(key_bytes, value_bytes);
            profiler.see(&Access::new(mix(key), Action::Load(bytes)));
        }
        profiler
    }

    /// By distances in bytes.
    fn byte_lru(&self, seed: u64) -> Curve {
        let mut profiler = Profiler::new(workload::SETTINGS);
        for key in self.keys(seed) {
            let bytes = workload::object_bytes(key);
            profiler.see(&Access::new(mix(key), Action::Load(bytes)));
        }
        profiler.curve()
    }

    fn point(self, scale: &Scale, part: &str, model: Arc<dyn Model>) -> Point {
        modelled(scale, part, self.shrink, model).with("requests", self.requests as u64)
    }
}

#[derive(Debug)]
struct Memcached {
    load: Load,
    /// Whether one with its defaults is measured as well.
    has_usual: bool,
}

impl Memcached {
    /// What a memcached of this kind misses, at each size.
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
        let beside = |curve: &Curve, measured: &[f64]| -> Vec<Beside> {
            let both = sizes.iter().zip(measured);
            both.map(|(&size, &measured)| Beside {
                size,
                predicted: curve.miss_ratio(size),
                measured,
            })
            .collect()
        };
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

impl Tier {
    /// What caches of TideKV miss, of each size.
    fn measured(&self, eviction: Eviction, sizes: &[u64], seed: u64) -> Result<Vec<f64>> {
        let at = |size: &u64, _| -> Result<(u64, f64)> {
            let mut cache = TierInMemory::new(eviction, *size)?;
            let (mut gets, mut misses) = (0_u64, 0_u64);
            for key in self.load.keys(seed) {
                gets += 1;
                misses += u64::from(cache.see(&key) == Some(false));
            }
            Ok((*size, misses as f64 / gets as f64))
        };
        let all: Result<Vec<(u64, f64)>> = in_parallel(AT_ONCE, sizes, at).into_iter().collect();
        let mut all = all?;
        all.sort_unstable_by_key(|(size, _)| *size);
        Ok(all.into_iter().map(|(_, ratio)| ratio).collect())
    }

    fn predicted(&self, eviction: Eviction, sizes: &[u64], seed: u64) -> Result<Curve> {
        let make = |bytes| TierInMemory::new(eviction, bytes);
        let mut miniature = Miniature::new(RATE, sizes, make)?;
        for key in self.load.keys(seed) {
            miniature.see(mix(key), true, &key);
        }
        Ok(miniature.curve())
    }
}

impl Model for Tier {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let sizes = sizes_from(self.load.slabs(seed).bytes_max());
        // A cache in small has a MiB at least.
        let least = (tidekv_tiered::DRAM_BYTES_MIN as f64 / RATE) as u64 + PAGE_BYTES;
        let mut sizes: Vec<u64> = sizes.into_iter().map(|size| size.max(least)).collect();
        sizes.dedup();
        let byte_lru = self.load.byte_lru(seed);
        let mut all = Vec::new();
        for (eviction, subject) in EVICTIONS {
            let measured = self.measured(eviction, &sizes, seed)?;
            let beside = |curve: &Curve| -> Vec<Beside> {
                let both = sizes.iter().zip(&measured);
                both.map(|(&size, &measured)| Beside {
                    size,
                    predicted: curve.miss_ratio(size),
                    measured,
                })
                .collect()
            };
            let predicted = self.predicted(eviction, &sizes, seed)?;
            all.extend(found_of(subject, &beside(&predicted)));
            if eviction == Eviction::S3Fifo {
                all.extend(found_of(BYTE_LRU, &beside(&byte_lru)));
            }
        }
        Ok(all)
    }
}

/// What is judged of memcached, by law, and of the tier.
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
    // A socket takes its time: there are fewer requests where one is asked.
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
    sampling::points(scale).into_iter().chain(memcached).chain(tier).collect()
}

const fn target(part: &'static str, most: f64) -> Target {
    Target::in_phase(part, "mean_relative_error", Rule::AtMost(most))
}

pub(super) const ACCURACY: Experiment = Experiment {
    name: "elcached-accuracy",
    about: "miss ratios that profiles predict, against those of a real memcached and of TideKV's cache \
            in memory, for two workloads after Facebook's ETC at eight sizes (ElCached, Figure 2)",
    paper: "4 % off on average, against a memcached",
    claim: "2 % off at most against a memcached, 1 % against our own cache",
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
    ],
    figures: &[
        Figure {
            title: "Miss ratio, measured, by MiB",
            metric: "miss_ratio",
            x: "mib",
            y: "",
            shape: Shape::Lines,
        },
        Figure {
            title: "Miss ratio, predicted, by MiB",
            metric: "predicted_miss_ratio",
            x: "mib",
            y: "",
            shape: Shape::Lines,
        },
    ],
    ..Experiment::USUAL
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_each_size_and_their_mean() {
        let beside = |size: u64, predicted| Beside { size: size << 20, predicted, measured: 0.2 };
        let found = found_of(BY_ORDER, &[beside(1, 0.2), beside(4, 0.19), beside(9, 0.21)]);
        let metric = |found: &Found, name: &str| {
            found.metrics.iter().find(|metric| metric.0 == name).map(|metric| metric.1)
        };
        assert_eq!(found.len(), 4);
        assert_eq!(found[1].params["mib"], 4);
        assert!((metric(&found[2], "relative_error").expect("it is there") - 0.05).abs() < 1e-9);
        let mean = metric(&found[3], "mean_relative_error").expect("it is there");
        assert!((mean - 0.1 / 3.0).abs() < 1e-9, "{mean}");
        assert_eq!(sizes_from(320 << 20).first(), Some(&(10 << 20)));
        assert_eq!(sizes_from(320 << 20).last(), Some(&(240 << 20)));
    }

    #[test]
    fn small_caches_foretell_what_large_ones_miss() {
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
