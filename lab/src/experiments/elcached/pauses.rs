//! Request latency during a reduction of DRAM: the parts `pauses …` of `elcached-elastic`.
//!
//! | part | the cache |
//! |---|---|
//! | `pauses dram` | in memory alone |
//! | `pauses flash` | with flash behind it, in a real file: evicted objects are written |
//!
//! | subject | description |
//! |---|---|
//! | `tidekv:shrinking` | during the removal of half of the DRAM, from the first step to the last |
//! | `unchanged` | for the same time without a change: the latency of this machine |
//!
//! One thread alternates lookups and stores of objects, without pause, and records the latency of
//! each; another one shrinks the cache. Lookups are those that a server answers without waiting for
//! flash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Clock, LocalStorage, SystemClock};
use tidekv_tiered::{Cache, Environment, Options};

use crate::experiment::{Found, Model, Params, Point, Rule, Target};
use crate::experiments::elcached::cost::modelled;
use crate::failure::{Failure, Result};
use crate::load::dice::Dice;
use crate::load::keys::key_of;
use crate::machine::latency::Latencies;
use crate::scale::Scale;
use crate::subjects::served::Directory;
use crate::subjects::tiered;

const SHRINKING: &str = "tidekv:shrinking";
const UNCHANGED: &str = "unchanged";
const DRAM: &str = "pauses dram";
const FLASH: &str = "pauses flash";
/// The requested amount; part of the design.
const PAUSE_US_MAX: f64 = 10_000.0;

const VALUE_BYTES: u64 = 1 << 10;
/// Approximate DRAM of an object.
const TAKEN_BYTES: u64 = VALUE_BYTES + 80;

#[derive(Debug, Clone, Copy)]
struct Pauses {
    dram_bytes: u64,
    flash_bytes: u64,
    /// The number of times that it shrinks and grows and fills again.
    rounds: usize,
}

/// Runs lookups and stores, with the latency of each, until the end.
fn ask(cache: &Cache, objects: u64, seed: u64, is_over: &AtomicBool) -> (Latencies, Latencies) {
    let clock = SystemClock::new();
    let (mut gets, mut puts) = (Latencies::new(), Latencies::new());
    let value = Bytes::from(vec![b'v'; VALUE_BYTES as usize]);
    let mut dice = Dice::new(seed);
    loop {
        let [of_get, of_put] = [dice.below(objects), dice.below(objects)].map(key_of);
        let began_ns = clock.monotonic_ns();
        let _found = cache.try_get(&of_get);
        let between_ns = clock.monotonic_ns();
        cache.store(&of_put, tiered::plain(cache, value.clone()));
        let ended_ns = clock.monotonic_ns();
        gets.record(between_ns - began_ns);
        puts.record(ended_ns - between_ns);
        // At least once, however short the change.
        if is_over.load(Ordering::Relaxed) {
            return (gets, puts);
        }
    }
}

impl Pauses {
    fn objects(&self) -> u64 {
        // More than fits, so that DRAM is full.
        self.dram_bytes / TAKEN_BYTES * 5 / 4
    }

    fn open(&self, directory: &Directory) -> Result<Cache> {
        let flash =
            tiered::flash_in(directory.path(), u64::from(self.flash_bytes > 0), self.flash_bytes);
        let options = Options {
            dram_bytes: self.dram_bytes,
            flash,
            avg_object_bytes: TAKEN_BYTES,
            ..Options::default()
        };
        let around = Environment::new(Arc::new(LocalStorage::new()), Arc::new(SystemClock::new()));
        tiered::open(&options, &around)
    }

    /// Request latencies during `change`.
    fn during(
        &self,
        cache: &Cache,
        seed: u64,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<(Latencies, Latencies)> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let asking = scope.spawn(|| ask(cache, self.objects(), seed, &is_over));
            let changed = change();
            is_over.store(true, Ordering::Relaxed);
            let found = asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            changed.map(|()| found)
        })
    }

    fn fill(&self, cache: &Cache) {
        let value = Bytes::from(vec![b'v'; VALUE_BYTES as usize]);
        for number in 0..self.objects() {
            cache.store(&key_of(number), tiered::plain(cache, value.clone()));
            cache.drain_writes();
        }
    }
}

fn found(subject: &'static str, gets: &Latencies, puts: &Latencies) -> Found {
    let [gets, puts] = [gets, puts].map(Latencies::quantiles);
    let us = |ns: u64| ns as f64 / 1e3;
    let metrics = vec![
        ("longest_get_us", us(gets.max_ns)),
        ("longest_put_us", us(puts.max_ns)),
        ("longest_us", us(gets.max_ns.max(puts.max_ns))),
        ("p9999_us", us(gets.p9999_ns.max(puts.p9999_ns))),
        ("requests", (gets.samples + puts.samples) as f64),
    ];
    Found { subject, params: Params::new(), metrics }
}

impl Model for Pauses {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let directory = Directory::new()?;
        let cache = self.open(&directory)?;
        let clock = SystemClock::new();
        let mut all: [(Latencies, Latencies); 2] =
            [(); 2].map(|()| (Latencies::new(), Latencies::new()));
        let resize = |bytes| {
            let done = cache.set_dram_bytes(bytes);
            done.map_err(|error| Failure::new(error.to_string()))
        };
        for round in 0..self.rounds as u64 {
            let seed = seed + 2 * round;
            self.fill(&cache);
            let began_ns = clock.monotonic_ns();
            let shrinking = self.during(&cache, seed, || resize(self.dram_bytes / 2))?;
            let time = Duration::from_nanos(clock.monotonic_ns() - began_ns);
            resize(self.dram_bytes)?;
            self.fill(&cache);
            let calm = || {
                clock.sleep(time);
                Ok(())
            };
            let unchanged = self.during(&cache, seed + 1, calm)?;
            for (sum, (gets, puts)) in all.iter_mut().zip([unchanged, shrinking]) {
                sum.0.add(&gets);
                sum.1.add(&puts);
            }
        }
        cache.close();
        let [unchanged, shrinking] = all;
        Ok(vec![
            found(SHRINKING, &shrinking.0, &shrinking.1),
            found(UNCHANGED, &unchanged.0, &unchanged.1),
        ])
    }
}

pub(super) fn points(scale: &Scale) -> Vec<Point> {
    let (dram_bytes, rounds) = if scale.is_quick { (32 << 20, 1) } else { (1 << 30, 3) };
    let of = |(part, flash_bytes)| {
        let pauses = Pauses { dram_bytes, flash_bytes, rounds };
        modelled(scale, part, 1, Arc::new(pauses)).with("dram_bytes", dram_bytes)
    };
    [(DRAM, 0), (FLASH, 4 * dram_bytes)].map(of).into()
}

const fn target(part: &'static str) -> Target {
    Target::in_phase(part, "longest_us", Rule::AtMost(PAUSE_US_MAX))
}

pub(super) const TARGETS: [Target; 2] = [target(DRAM), target(FLASH)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_timed_while_the_cache_shrinks() {
        for flash_bytes in [0, 64 << 20] {
            let pauses = Pauses { dram_bytes: 24 << 20, flash_bytes, rounds: 1 };
            let found = pauses.run(1).expect("nothing fails");
            assert_eq!(
                found.iter().map(|it| it.subject).collect::<Vec<_>>(),
                [SHRINKING, UNCHANGED]
            );
            for found in found {
                let metric =
                    |name| found.metrics.iter().find(|it| it.0 == name).expect("it is there").1;
                assert!(metric("requests") > 0.0 && metric("longest_us") > 0.0, "{found:?}");
                assert!(metric("longest_us") >= metric("p9999_us"), "{found:?}");
            }
        }
    }
}
