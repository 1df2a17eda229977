//! Traces of requests to caches with expiring objects, generated from the published statistics of
//! Twitter's caches (Yang, Yue and Rashmi: "A large scale analysis of hundreds of in-memory cache
//! clusters at Twitter", OSDI 2020; the table `stat/2020Mar.md` of
//! <https://github.com/twitter/cache-trace>, CC-BY 4.0).
//!
//! From there: the request rate, the share of sets, the skew of keys, and the common times to live
//! with their shares, scaled to a sum of one. The hash of a key determines its time to live. Other
//! operations (`incr`, `add`) are omitted, and all values have [`VALUE_BYTES`], whatever their real
//! size: a cache of the same proportions then holds the same share.
//!
//! **Scaling.** Requests arrive more slowly by a factor ([`Cluster::slowed`]), as if one in that
//! number of keys were sampled, so that the requests of a feasible simulation span several of the
//! short times to live. Times to live are not scaled: hardly any that is longer than the trace ends
//! in it.
//!
//! **Estimates.** The number of keys is not published. [`Cluster::keys`] is the result of a
//! bisection: with this number an unbounded cache has the production miss ratio, within a
//! hundredth, in the second half of a trace of [`DEFAULT_REQUESTS`]. Clusters for which no number
//! of keys does that are omitted (`cluster50`, whose keys must have changed more than Zipf's law
//! says); `cluster4` works only with requests that arrive very slowly.
//!
//! **Clusters that share a cache** ([`MIXES`]), as clusters on one large array do. Each cluster
//! keeps its own keys, skew, sets and times to live. All are slowed by one factor, so the ratios of
//! their request rates are those of production; the order of requests is random. The factor
//! determines which times to live end within the trace, and so the kind of the mix:
//!
//! | mix | clusters | slowed | length | content |
//! |---|---|---|---|---|
//! | `shared-short` | 37, 24 | 2 | 7 minutes | 20 seconds (97 of 100 bytes put are of 37), and long-lived objects |
//! | `shared` | 13, 37, 24, 52 | 40 | 38 minutes | 20 seconds and 5 minutes (7 of 10 bytes put are of 13 and 37), and long-lived objects, which 24 and 52 request repeatedly |
//! | `shared-hours` | those and 46 | 2000 | a day | 1 hour and less (half of the bytes put), and 12 hours and more |
//!
//! The keys of each were found in the same way, but for the cluster alone, with the mix's factor
//! and with its number of requests of [`DEFAULT_REQUESTS`] in the mix. Bytes put are those of an
//! unbounded cache. `cluster46` is not in the faster two, where none of its times would end and its
//! own share would be six of ten bytes put; the keys of `cluster4` were not estimated.
//!
//! `shared-single` has the requests of `shared`, and one time to live for all objects: the
//! difference between both is that of mixed times to live.
//!
//! Guarantee: the same seed gives the same trace. Pure.

use crate::load::dice::{Dice, mix};
use crate::load::keys::{Choice, KEY_BYTES, Picker};

/// Bytes of a value.
pub(super) const VALUE_BYTES: u64 = 4 << 10;
/// Bytes of a key and a value.
pub(super) const OBJECT_BYTES: u64 = KEY_BYTES as u64 + VALUE_BYTES;
/// Requests of a trace at the usual scale.
pub(super) const DEFAULT_REQUESTS: u64 = 2_000_000;

const MINUTE: u32 = 60;
const HOUR: u32 = 60 * MINUTE;
const DAY: u32 = 24 * HOUR;

/// A cluster of caches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cluster {
    /// The published name.
    pub(super) name: &'static str,
    /// A description of the times to live.
    pub(super) lives: &'static str,
    /// The miss ratio of gets, in production.
    pub(super) miss_ratio: f64,
    /// Of all keys.
    pub(super) requests_per_s: f64,
    /// Share of sets among the requests.
    pub(super) sets: f64,
    /// The exponent of Zipf's law.
    pub(super) alpha: f64,
    /// Seconds, and the share of keys with this time to live.
    pub(super) ttls: &'static [(u32, f64)],
    /// The factor by which requests arrive more slowly than in production.
    pub(super) slowed: f64,
    /// Keys of the trace.
    pub(super) keys: u64,
}

/// The replayed clusters.
pub(super) const CLUSTERS: &[Cluster] = &[
    Cluster {
        name: "cluster13",
        lives: "short",
        miss_ratio: 0.5299,
        requests_per_s: 1_340.0,
        sets: 0.62,
        alpha: 0.4565,
        ttls: &[(300, 0.97), (299, 0.03)],
        slowed: 4.0,
        keys: 176_000,
    },
    Cluster {
        name: "cluster37",
        lives: "short",
        miss_ratio: 0.5938,
        requests_per_s: 4_150.0,
        sets: 0.37,
        alpha: 0.4251,
        ttls: &[(20, 0.91), (300, 0.06), (2 * HOUR, 0.02), (600, 0.01)],
        slowed: 2.0,
        keys: 103_900,
    },
    Cluster {
        name: "cluster4",
        lives: "mixed",
        miss_ratio: 0.3941,
        requests_per_s: 5_260.0,
        sets: 0.07,
        alpha: 1.1004,
        ttls: &[(60, 0.39), (300, 0.24), (HOUR, 0.13), (600, 0.12), (4 * HOUR, 0.09), (DAY, 0.03)],
        slowed: 300.0,
        keys: 4_408_000,
    },
    Cluster {
        name: "cluster24",
        lives: "mixed",
        miss_ratio: 0.0087,
        requests_per_s: 5_290.0,
        sets: 0.01,
        alpha: 1.3726,
        ttls: &[(14 * DAY, 0.71), (60, 0.19), (30 * DAY, 0.03), (DAY, 0.02), (HOUR, 0.02)],
        slowed: 1.0,
        keys: 29_900,
    },
    Cluster {
        name: "cluster46",
        lives: "mixed",
        miss_ratio: 0.6854,
        requests_per_s: 10_470.0,
        sets: 0.32,
        // Not published.
        alpha: 0.8,
        ttls: &[(12 * HOUR, 0.58), (HOUR, 0.41)],
        slowed: 2_000.0,
        keys: 2_475_000,
    },
    Cluster {
        name: "cluster52",
        lives: "long",
        miss_ratio: 0.0189,
        requests_per_s: 24_250.0,
        sets: 0.04,
        alpha: 1.2117,
        ttls: &[(DAY, 0.65), (14 * DAY, 0.27), (12 * HOUR, 0.07)],
        slowed: 2_000.0,
        keys: 41_400,
    },
];

/// Clusters that share one cache, all slowed by the same factor, so the ratios of their request
/// rates are those of production.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mix {
    pub(super) name: &'static str,
    /// The factor by which requests arrive more slowly than in production.
    slowed: f64,
    /// One time to live for all objects, rather than the published ones.
    pub(super) single_ttl: Option<&'static [(u32, f64)]>,
    /// Clusters, and the keys of each.
    clusters: &'static [(&'static str, u64)],
}

/// The clusters of `shared`.
const SHARED: &[(&str, u64)] =
    &[("cluster13", 17_620), ("cluster37", 5_070), ("cluster24", 690), ("cluster52", 74_800)];

/// The replayed mixes.
pub(super) const MIXES: &[Mix] = &[
    Mix {
        name: "shared-short",
        slowed: 2.0,
        single_ttl: None,
        clusters: &[("cluster37", 104_000), ("cluster24", 14_600)],
    },
    Mix { name: "shared", slowed: 40.0, single_ttl: None, clusters: SHARED },
    Mix { name: "shared-single", slowed: 40.0, single_ttl: Some(&[(300, 1.0)]), clusters: SHARED },
    Mix {
        name: "shared-hours",
        slowed: 2_000.0,
        single_ttl: None,
        clusters: &[
            ("cluster13", 347),
            ("cluster37", 97),
            ("cluster24", 30),
            ("cluster52", 51_200),
            ("cluster46", 2_494_000),
        ],
    },
];

impl Mix {
    /// Its clusters.
    pub(super) fn clusters(&self) -> Vec<Cluster> {
        let cluster = |&(name, keys): &(&str, u64)| {
            let published = CLUSTERS.iter().find(|cluster| cluster.name == name)?;
            let ttls = self.single_ttl.unwrap_or(published.ttls);
            Some(Cluster { slowed: self.slowed, keys, ttls, ..*published })
        };
        self.clusters.iter().filter_map(cluster).collect()
    }
}

/// A request: a get, after a miss of which the object is set, or a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// The time since the beginning of the trace.
    pub(super) at_ms: u64,
    pub(super) key: u32,
    pub(super) is_set: bool,
}

/// The trace of a cluster, or of several that share a cache.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    clusters: Vec<Cluster>,
    /// Takes one in this number of keys.
    shrink: u64,
    seed: u64,
    pub(super) requests: u64,
}

/// A cluster's part of a trace.
struct Source {
    picker: Picker,
    key_first: u64,
    sets: f64,
    requests_per_s: f64,
}

impl Trace {
    pub(super) fn new(clusters: &[Cluster], shrink: u64, requests: u64, seed: u64) -> Self {
        Self { clusters: clusters.to_vec(), shrink, seed, requests }
    }

    /// The number of keys.
    pub(super) fn keys(&self) -> u64 {
        self.clusters.iter().map(|cluster| self.keys_of(cluster)).sum()
    }

    /// The miss ratio of gets in production.
    pub(super) fn miss_ratio_production(&self) -> f64 {
        let gets = |it: &Cluster| it.requests_per_s / it.slowed * (1.0 - it.sets);
        let misses: f64 = self.clusters.iter().map(|it| gets(it) * it.miss_ratio).sum();
        misses / self.clusters.iter().map(gets).sum::<f64>()
    }

    /// The time to live of an object with that key, in seconds.
    pub(super) fn ttl_s(&self, key: u32) -> u32 {
        let mut dice = Dice::new(mix(self.seed ^ mix(u64::from(key) + 1)));
        let ttls = self.cluster_of(key).map_or(&[][..], |cluster| cluster.ttls);
        let all: f64 = ttls.iter().map(|(_, share)| share).sum();
        let mut left = dice.unit() * all;
        for (ttl_s, share) in ttls {
            left -= share;
            if left < 0.0 {
                return *ttl_s;
            }
        }
        ttls.first().map_or(0, |(ttl_s, _)| *ttl_s)
    }

    /// Its length, in seconds.
    pub(super) fn seconds(&self) -> u64 {
        (self.requests as f64 * self.ms_per_request() / 1_000.0) as u64
    }

    /// The requests, in their order. The cluster of each is random.
    pub(super) fn requests(&self) -> impl Iterator<Item = Request> + use<> {
        let mut sources = self.sources();
        let mut dice = Dice::of_thread(self.seed, 0);
        let (requests_per_s, ms_per_request) = (self.requests_per_s(), self.ms_per_request());
        (0..self.requests).map(move |number| {
            let source = match sources.len() {
                1 => 0,
                _ => drawn(&sources, dice.unit() * requests_per_s),
            };
            let source = &mut sources[source];
            Request {
                at_ms: (number as f64 * ms_per_request) as u64,
                key: (source.key_first + source.picker.next(&mut dice)) as u32,
                is_set: dice.unit() < source.sets,
            }
        })
    }

    /// The clusters' parts: their keys are consecutive.
    fn sources(&self) -> Vec<Source> {
        let mut key_next = 0;
        let source = |cluster: &Cluster| {
            let (keys, key_first) = (self.keys_of(cluster), key_next);
            key_next += keys;
            let choice = Choice::Zipf { alpha: cluster.alpha, is_scattered: true };
            Source {
                picker: Picker::new(&choice, keys, self.seed, 0, 1),
                key_first,
                sets: cluster.sets,
                requests_per_s: cluster.requests_per_s / cluster.slowed,
            }
        };
        self.clusters.iter().map(source).collect()
    }

    fn cluster_of(&self, key: u32) -> Option<&Cluster> {
        let mut key_end = 0;
        self.clusters.iter().find(|cluster| {
            key_end += self.keys_of(cluster);
            u64::from(key) < key_end
        })
    }

    fn keys_of(&self, cluster: &Cluster) -> u64 {
        (cluster.keys / self.shrink).max(1)
    }

    fn requests_per_s(&self) -> f64 {
        self.clusters.iter().map(|cluster| cluster.requests_per_s / cluster.slowed).sum()
    }

    fn ms_per_request(&self) -> f64 {
        1_000.0 * self.shrink as f64 / self.requests_per_s()
    }
}

/// The cluster of the next request, at a point of all their requests.
fn drawn(sources: &[Source], mut point: f64) -> usize {
    let is_it = |source: &Source| {
        point -= source.requests_per_s;
        point < 0.0
    };
    sources.iter().position(is_it).unwrap_or(0)
}

/// An unbounded cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unbounded {
    /// The miss ratio of the gets of the second half of a trace.
    pub(super) miss_ratio: f64,
    /// Bytes of live objects at its end.
    pub(super) working_set_bytes: u64,
}

impl Unbounded {
    /// Replays a trace.
    pub(super) fn of(trace: &Trace) -> Self {
        let mut deadlines_s = vec![0; trace.keys() as usize];
        let (mut gets, mut misses, mut now_s) = (0_u64, 0_u64, 0);
        for (number, request) in (0..).zip(trace.requests()) {
            now_s = second(request.at_ms);
            let deadline_s = &mut deadlines_s[request.key as usize];
            let is_there = *deadline_s > now_s;
            if !request.is_set && number >= trace.requests / 2 {
                gets += 1;
                misses += u64::from(!is_there);
            }
            if request.is_set || !is_there {
                *deadline_s = now_s + trace.ttl_s(request.key);
            }
        }
        let objects = deadlines_s.iter().filter(|deadline_s| **deadline_s > now_s).count() as u64;
        let miss_ratio = misses as f64 / gets.max(1) as f64;
        Self { miss_ratio, working_set_bytes: objects * OBJECT_BYTES }
    }
}

/// The second of a request; never zero, which means none.
pub(super) fn second(at_ms: u64) -> u32 {
    (at_ms / 1_000) as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sixteenth of a trace, with that number of requests.
    fn small(name: &str, seed: u64) -> Trace {
        let cluster = CLUSTERS.iter().find(|cluster| cluster.name == name).expect("it is there");
        Trace::new(&[*cluster], 16, DEFAULT_REQUESTS / 16, seed)
    }

    #[test]
    fn the_same_seed_gives_the_same_trace_and_another_one_another() {
        let trace = small("cluster4", 1);
        assert!(trace.requests().eq(trace.requests()));
        assert!(!trace.requests().eq(small("cluster4", 2).requests()));
        let last = trace.requests().last().expect("there are some");
        assert!((trace.seconds() - last.at_ms / 1_000) < 10, "{last:?}");
    }

    #[test]
    fn shares_are_the_published_ones() {
        for cluster in CLUSTERS {
            let trace = Trace::new(&[Cluster { keys: 20_000, ..*cluster }], 1, 20_000, 1);
            let sets = trace.requests().filter(|request| request.is_set).count();
            let sets = sets as f64 / trace.requests as f64;
            assert!((sets - cluster.sets).abs() < 0.02, "{}: {sets}", cluster.name);
            let all: f64 = cluster.ttls.iter().map(|(_, share)| share).sum();
            for &(ttl_s, share) in cluster.ttls {
                let keys = (0..20_000).filter(|key| trace.ttl_s(*key) == ttl_s).count();
                let found = keys as f64 / 20_000.0;
                assert!((found - share / all).abs() < 0.02, "{}: {found}", cluster.name);
            }
        }
    }

    #[test]
    fn an_unbounded_cache_has_the_miss_ratio_of_production() {
        // Without the published times to live, production says nothing about it.
        let mixes = MIXES.iter().filter(|mix| mix.single_ttl.is_none());
        let mixes = mixes.map(|mix| (mix.name, mix.clusters()));
        let mixes = mixes.filter(|mix| mix.0 != "shared-hours");
        let mixes =
            mixes.map(|(name, clusters)| (name, Trace::new(&clusters, 4, DEFAULT_REQUESTS / 4, 1)));
        let alone = ["cluster13", "cluster37"].map(|name| (name, small(name, 1)));
        for (name, trace) in alone.into_iter().chain(mixes) {
            let (found, published) = (Unbounded::of(&trace), trace.miss_ratio_production());
            assert!((found.miss_ratio - published).abs() < 0.02, "{name}: {found:?}");
        }
    }

    #[test]
    fn clusters_of_a_mix_have_their_own_keys_and_request_rates() {
        for mix in MIXES {
            let trace = Trace::new(&mix.clusters(), 4, 50_000, 1);
            assert_eq!(trace.clusters.len(), mix.clusters.len(), "{}", mix.name);
            assert!(trace.requests().eq(trace.requests()));
            let all: f64 = trace.clusters.iter().map(|cluster| cluster.requests_per_s).sum();
            for cluster in &trace.clusters {
                let is_its = |request: &Request| {
                    let of = trace.cluster_of(request.key).expect("every key is a cluster's");
                    let ttl_s = trace.ttl_s(request.key);
                    assert!(of.ttls.iter().any(|(published_s, _)| *published_s == ttl_s));
                    of.name == cluster.name
                };
                let share = trace.requests().filter(is_its).count() as f64 / 50_000.0;
                let published = cluster.requests_per_s / all;
                assert!((share - published).abs() < 0.01, "{}: {share}", cluster.name);
            }
            assert!(trace.requests().all(|request| u64::from(request.key) < trace.keys()));
        }
    }
}
