//! `bigkv-ttl`: the value of grouping objects by expiry time on flash.
//!
//! Traces modelled on Twitter's caches ([`crate::experiments::bigkv::ttl_trace`]) in virtual time,
//! of one cluster each or of several that share a cache (parts `shared…`), with flash for a part of
//! the *working set*: the bytes of live objects in an unbounded cache. DRAM is the same for all
//! subjects of a trace.
//!
//! | subject | description |
//! |---|---|
//! | `tidekv:cache` | our cache, with its groups |
//! | `tidekv:cache-lazy` | the same code; objects are evicted in insertion order, and an expired object is detected at its next access |
//! | `tidekv:cache-lazy-twice` | that with twice the flash |
//! | `model:lazy` | the model of that, with the same DRAM for objects and objects per segment: it shows the accuracy of the next one |
//! | `model:ideal` | the same model, from which each object disappears in the second in which it expires, at no cost: the bound of what expiry can gain |
//! | `model:scan`, `model:scan-10s`, `model:scan-10min` | the same model, which scans all of flash once per minute, ten seconds, ten minutes, and removes exactly the expired objects |
//!
//! Results: `docs/benchmarks/notes/ttl-grouping.md`.
//!
//! The first half of a trace warms the caches up, the second is measured. A set follows each missed
//! get.

use std::sync::Arc;

use tidekv_testkit::evidence::Value;
use tidekv_tiered::Expiry;

use crate::experiment::{
    Experiment, Figure, Found, Model, Params, Point, Rule, Shape, Subjects, Target,
};
use crate::experiments::bigkv::ideal::Ideal;
use crate::experiments::bigkv::scanning::{Scanning, Sizes};
use crate::experiments::bigkv::ttl_cache::{SEGMENT_BYTES, TtlCache, write_amp};
use crate::experiments::bigkv::ttl_trace::{
    CLUSTERS, Cluster, DEFAULT_REQUESTS, MIXES, Mix, OBJECT_BYTES, Request, Trace, Unbounded,
    VALUE_BYTES, second,
};
use crate::experiments::engine::filling;
use crate::failure::Result;
use crate::load::keys::Choice;
use crate::scale::{self, Scale};
use crate::subjects::tiered::TIDEKV_CACHE;

/// DRAM, as a fraction of the working set.
const DRAM_SHARE: f64 = 0.03;
/// The minimum DRAM of a cache.
const DRAM_BYTES_MIN: u64 = 2 << 20;
/// Flash, as fractions of the working set.
const FLASH_SHARES: &[f64] = &[0.25, 0.5, 1.0, 2.0];
const FLASH_SHARES_QUICK: &[f64] = &[0.5, 1.0];
/// A quick run takes one in this number of keys and requests.
const SHRINK_QUICK: u64 = 4;
/// One time to live for all objects.
const SINGLE: &str = "single";
const PARTS_QUICK: &[&str] = &["cluster37", "cluster4", "shared"];

const CACHE_LAZY: &str = "tidekv:cache-lazy";
const CACHE_LAZY_TWICE: &str = "tidekv:cache-lazy-twice";
const MODEL_LAZY: &str = "model:lazy";
const MODEL_IDEAL: &str = "model:ideal";
/// Models that scan, with the seconds between scans.
const SCANS: [(&str, u32); 3] =
    [("model:scan-10s", 10), ("model:scan", 60), ("model:scan-10min", 600)];
/// In a trace of this length, scans every ten seconds are unrealistic.
const SCANS_MAX: u64 = 10_000;
/// The number of samples of the expired fraction.
const LOOKS: u64 = 20;

/// The trace of a cluster, or of several that share a cache, and all subjects that run it.
#[derive(Debug)]
struct Replays {
    clusters: Vec<Cluster>,
    /// Whether times to live are the published ones.
    is_published: bool,
    shrink: u64,
    flash_shares: &'static [f64],
}

/// Gets of the second half of a trace, and their work.
#[derive(Debug, Clone, Copy, Default)]
struct Gets {
    hits: u64,
    gets: u64,
    /// Sets of the whole trace.
    sets: u64,
}

impl Gets {
    fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }

    fn count(&mut self, trace: &Trace, number: u64, request: Request, is_hit: bool) {
        if !request.is_set && number >= trace.requests / 2 {
            self.gets += 1;
            self.hits += u64::from(is_hit);
        }
        self.sets += u64::from(request.is_set || !is_hit);
    }
}

/// The counts of our cache.
#[derive(Debug)]
struct Run {
    hit_ratio: f64,
    metrics: Vec<(&'static str, f64)>,
    /// The sizes for a model.
    sizes: Sizes,
}

/// Replays a trace on our cache.
fn replay(trace: &Trace, dram_bytes: u64, flash_bytes: u64, expiry: Expiry) -> Result<Run> {
    let mut cache = TtlCache::open(dram_bytes, flash_bytes, expiry)?;
    let mut gets = Gets::default();
    for (number, request) in (0..).zip(trace.requests()) {
        cache.advance(request.at_ms);
        let is_hit = !request.is_set && cache.get(request.key);
        if !is_hit {
            cache.set(request.key, trace.ttl_s(request.key));
        }
        gets.count(trace, number, request, is_hit);
    }
    let (stats, device) = cache.stats();
    let counts = &device.counts;
    let early = counts.bytes_expired_early as f64 / counts.object_bytes_written.max(1) as f64;
    let metrics = vec![
        ("hit_ratio", gets.hit_ratio()),
        ("write_amp", write_amp(counts)),
        ("expired_early_share", early),
    ];
    let sizes = Sizes {
        object_bytes: OBJECT_BYTES,
        segment_bytes: SEGMENT_BYTES,
        segment_objects: (device.objects / device.segments.max(1)).max(1) as usize,
        segments: device.segments_max as usize,
        dram_bytes: stats.dram_bytes,
    };
    Ok(Run { hit_ratio: gets.hit_ratio(), metrics, sizes })
}

/// Replays a trace on the model.
fn replay_to_model(
    trace: &Trace,
    sizes: Sizes,
    interval_s: Option<u32>,
) -> Vec<(&'static str, f64)> {
    let mut model = Scanning::new(sizes, trace.keys(), interval_s);
    let (mut gets, mut expired_shares) = (Gets::default(), Vec::new());
    for (number, request) in (0..).zip(trace.requests()) {
        let now_s = second(request.at_ms);
        model.advance(now_s);
        let is_hit = !request.is_set && model.get(request.key, now_s);
        if !is_hit {
            model.set(request.key, now_s + trace.ttl_s(request.key), now_s);
        }
        gets.count(trace, number, request, is_hit);
        if number >= trace.requests / 2 && number.is_multiple_of((trace.requests / LOOKS).max(1)) {
            expired_shares.push(model.expired_share(now_s));
        }
    }
    let work = model.work();
    let put_bytes = (gets.sets * OBJECT_BYTES).max(1) as f64;
    let expired_share = expired_shares.iter().sum::<f64>() / expired_shares.len().max(1) as f64;
    let scans = [
        ("expiry_read_bytes_per_byte", work.scan_read_bytes as f64 / put_bytes),
        ("expiry_written_bytes_per_byte", work.scan_written_bytes as f64 / put_bytes),
    ];
    let always = [("hit_ratio", gets.hit_ratio()), ("expired_share", expired_share)];
    always.into_iter().chain(scans.into_iter().filter(|_| interval_s.is_some())).collect()
}

/// Replays a trace on the ideal model: returns its hit ratio.
fn replay_to_ideal(trace: &Trace, sizes: Sizes) -> f64 {
    let mut ideal = Ideal::new(sizes, trace.keys());
    let mut gets = Gets::default();
    for (number, request) in (0..).zip(trace.requests()) {
        let now_s = second(request.at_ms);
        ideal.advance(now_s);
        let is_hit = !request.is_set && ideal.get(request.key);
        if !is_hit {
            ideal.set(request.key, now_s + trace.ttl_s(request.key));
        }
        gets.count(trace, number, request, is_hit);
    }
    gets.hit_ratio()
}

impl Replays {
    fn trace(&self, seed: u64) -> Trace {
        Trace::new(&self.clusters, self.shrink, DEFAULT_REQUESTS / self.shrink, seed)
    }
}

impl Model for Replays {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let trace = self.trace(seed);
        let unbounded = Unbounded::of(&trace);
        let working_set_bytes = unbounded.working_set_bytes as f64;
        let dram_bytes = ((working_set_bytes * DRAM_SHARE) as u64).max(DRAM_BYTES_MIN);
        let lazy_at = |share: f64| {
            replay(&trace, dram_bytes, (working_set_bytes * share) as u64, Expiry::Lazy)
        };
        let mut all = Vec::new();
        let mut lazy_before: Option<(f64, Run)> = None;
        for &share in self.flash_shares {
            let flash_bytes = (working_set_bytes * share) as u64;
            let params: Params = [
                ("flash", Value::from(share)),
                ("flash_bytes", flash_bytes.into()),
                ("memory_bytes", dram_bytes.into()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
            let mut found = |subject, metrics| {
                all.push(Found { subject, params: params.clone(), metrics });
            };
            // Fractions double: twice the previous flash is the current one.
            let lazy = match lazy_before.take() {
                Some((twice, run)) if twice == share => run,
                _ => lazy_at(share)?,
            };
            let lazy_twice = lazy_at(2.0 * share)?;
            let ours = replay(&trace, dram_bytes, flash_bytes, Expiry::Groups)?;
            let ideal = replay_to_ideal(&trace, lazy.sizes);
            let ratios = [
                ("ideal_to_lazy_twice", ideal / lazy_twice.hit_ratio),
                ("hit_ratio_to_ideal", ours.hit_ratio / ideal),
                ("hit_ratio_to_lazy", ours.hit_ratio / lazy.hit_ratio),
                ("hit_ratio_to_lazy_twice", ours.hit_ratio / lazy_twice.hit_ratio),
                ("hit_ratio_unbounded", 1.0 - unbounded.miss_ratio),
            ];
            let production = ("hit_ratio_production", 1.0 - trace.miss_ratio_production());
            let production = self.is_published.then_some(production);
            let metrics = ours.metrics.into_iter().chain(ratios).chain(production);
            found(TIDEKV_CACHE.name, metrics.collect());
            found(CACHE_LAZY, lazy.metrics.clone());
            found(CACHE_LAZY_TWICE, lazy_twice.metrics.clone());
            found(MODEL_IDEAL, vec![("hit_ratio", ideal)]);
            found(MODEL_LAZY, replay_to_model(&trace, lazy.sizes, None));
            for (subject, interval_s) in SCANS {
                if trace.seconds() / u64::from(interval_s) <= SCANS_MAX {
                    found(subject, replay_to_model(&trace, lazy.sizes, Some(interval_s)));
                }
            }
            lazy_before = Some((2.0 * share, lazy_twice));
        }
        Ok(all)
    }
}

fn points(scale: &Scale) -> Vec<Point> {
    let (shrink, flash_shares) = match scale.is_quick {
        true => (SHRINK_QUICK, FLASH_SHARES_QUICK),
        false => (1, FLASH_SHARES),
    };
    let is_taken = |name: &'static str| !scale.is_quick || PARTS_QUICK.contains(&name);
    let alone = CLUSTERS.iter().map(|it| (it.name, it.lives, vec![*it]));
    let lives = |it: &Mix| if it.single_ttl.is_some() { SINGLE } else { "mixed" };
    let mixed = MIXES.iter().map(|it| (it.name, lives(it), it.clusters()));
    let parts = alone.chain(mixed).filter(|part| is_taken(part.0));
    let point = |(name, lives, clusters)| {
        let is_published = lives != SINGLE;
        point(scale, name, lives, Replays { clusters, is_published, shrink, flash_shares })
    };
    parts.map(point).collect()
}

fn point(scale: &Scale, part: &str, lives: &str, replays: Replays) -> Point {
    let entries = replays.clusters.iter().map(|cluster| cluster.keys).sum();
    let shape = scale::Shape { entries, value_bytes: VALUE_BYTES, is_compressed: false };
    let params: Params = [
        ("part", Value::from(part)),
        ("lives", lives.into()),
        ("value_bytes", VALUE_BYTES.into()),
        ("threads", 1_u64.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let model: Arc<dyn Model> = Arc::new(replays);
    let point = filling(scale, shape, 1, Choice::Sequential, 1);
    // The counts hardly differ between seeds.
    Point { params, store: None, model: Some(model), alternations: 1, ..point }
}

const fn is_met(part: &'static str) -> Target {
    Target::in_phase(part, "hit_ratio_to_lazy_twice", Rule::AtLeast(1.0))
}

pub(super) const TTL: Experiment = Experiment {
    name: "bigkv-ttl",
    about: "hit ratio with flash for a part of the live objects, with traces modelled on \
            Twitter's caches: with objects grouped by expiry, without groups, and a model that \
            scans (BigKV)",
    paper: "1 TB of BigKV is as good as 2 TB of uDepot, at nearly no I/O",
    claim: "the hit ratio of lazy expiry with twice the flash, where times to live are mixed; \
            where all are equal, insertion order is expiry order and grouping gains nothing",
    subjects: Subjects::Default,
    points,
    targets: &[
        is_met("cluster13"),
        is_met("cluster37"),
        is_met("cluster4"),
        is_met("cluster24"),
        is_met("cluster46"),
        is_met("shared-short"),
        is_met("shared"),
        is_met("shared-hours"),
    ],
    figures: &[
        Figure {
            title: "Hit ratio of gets",
            metric: "hit_ratio",
            x: "flash",
            y: "part",
            shape: Shape::Map,
        },
        Figure {
            title: "Expired share of flash",
            metric: "expired_share",
            x: "flash",
            y: "part",
            shape: Shape::Map,
        },
        Figure {
            title: "Bytes read to find expired objects, per byte put",
            metric: "expiry_read_bytes_per_byte",
            x: "flash",
            y: "part",
            shape: Shape::Map,
        },
    ],
    ..Experiment::USUAL
};

#[cfg(test)]
mod tests {
    use super::*;

    fn found_of(clusters: Vec<Cluster>, shrink: u64, flash_shares: &'static [f64]) -> Vec<Found> {
        let replays = Replays { clusters, is_published: true, shrink, flash_shares };
        replays.run(1).expect("nothing fails")
    }

    fn found(cluster: &str, flash_shares: &'static [f64]) -> Vec<Found> {
        let cluster = CLUSTERS.iter().find(|it| it.name == cluster).expect("there is one");
        found_of(vec![*cluster], 16, flash_shares)
    }

    fn metric(found: &[Found], subject: &str, name: &str) -> f64 {
        let found = found.iter().find(|found| found.subject == subject).expect("it took part");
        found.metrics.iter().find(|metric| metric.0 == name).expect("it was measured").1
    }

    #[test]
    fn the_model_without_scans_is_our_cache_without_groups() {
        for cluster in ["cluster37", "cluster4"] {
            let found = found(cluster, &[0.5]);
            let of = |subject| metric(&found, subject, "hit_ratio");
            let apart = (of(CACHE_LAZY) - of(MODEL_LAZY)).abs();
            assert!(apart < 0.01, "{cluster}: {} and {}", of(CACHE_LAZY), of(MODEL_LAZY));
            assert_eq!(found, self::found(cluster, &[0.5]), "the same seed, the same counts");
        }
    }

    #[test]
    fn groups_are_better_than_none_where_times_are_mixed() {
        let found = found("cluster4", &[0.5]);
        let ratio = metric(&found, TIDEKV_CACHE.name, "hit_ratio_to_lazy");
        assert!(ratio > 1.0, "{ratio}");
    }

    #[test]
    fn groups_are_better_than_none_where_clusters_share_a_cache() {
        let mix = MIXES.iter().find(|it| it.name == "shared").expect("there is one");
        let found = found_of(mix.clusters(), 4, &[1.0]);
        let ratio = metric(&found, TIDEKV_CACHE.name, "hit_ratio_to_lazy");
        assert!(ratio > 1.003, "{ratio}");
    }

    #[test]
    fn the_ideal_model_gains_what_expired_objects_take_and_no_more() {
        let found = found("cluster4", &[1.0]);
        let of = |subject| metric(&found, subject, "hit_ratio");
        let unbounded = metric(&found, TIDEKV_CACHE.name, "hit_ratio_unbounded");
        // Half of flash is expired there, and a scan each ten minutes cannot be better.
        assert!(of(MODEL_IDEAL) > of(MODEL_LAZY) + 0.003, "{found:?}");
        assert!(of(MODEL_IDEAL) > of("model:scan-10min") - 0.001, "{found:?}");
        // They are rounded differently.
        assert!(of(MODEL_IDEAL) < unbounded + 1e-12, "{found:?}");
    }

    #[test]
    fn the_ideal_model_without_expiry_is_the_lazy_one() {
        let cluster = CLUSTERS.iter().find(|it| it.name == "cluster4").expect("there is one");
        let forever = Cluster { ttls: &[(1 << 30, 1.0)], ..*cluster };
        let found = found_of(vec![forever], 16, &[0.5]);
        let of = |subject| metric(&found, subject, "hit_ratio");
        let apart = (of(MODEL_IDEAL) - of(MODEL_LAZY)).abs();
        assert!(apart < 0.002, "{} and {}", of(MODEL_IDEAL), of(MODEL_LAZY));
    }
}
