//! Miss ratios of TideKV's cache with flash behind its DRAM, four times its size, compared with
//! predictions: the parts `flash …` of `elcached-accuracy`.
//!
//! | subject | description |
//! |---|---|
//! | `tidekv:miniature-flash` | caches of an eighth of the keys, with DRAM, flash and segments of an eighth |
//! | `model:byte-lru` | distances in bytes of keys and values, for DRAM and flash together |
//!
//! Flash is a file in memory and is written immediately: the write delay is not part of this
//! experiment.

use std::sync::Arc;

use tidekv_plan::{CacheSize, DEFAULT_FLASH_FOR_DRAM};
use tidekv_tiered::Eviction;

use crate::experiments::elcached::prediction::{BYTE_LRU, Beside, Load, found_of, sizes_between};
use crate::experiments::elcached::simulated::SimulatedTier;

use crate::experiment::{Found, Model, Point, Rule, Target};
use crate::experiments::elcached::workload::Law;
use crate::failure::Result;
use crate::scale::Scale;

const MINIATURE: &str = "tidekv:miniature-flash";
/// Sampling rate of simulated small caches.
const RATE: f64 = 1.0 / 8.0;
/// Of the cache itself.
const SEGMENT_BYTES: u64 = 2 << 20;
/// With less DRAM, a fifth of it does not have room for three segments and for objects.
const BYTES_MIN: u64 = 60 << 20;

#[derive(Debug)]
struct Both {
    load: Load,
}

/// The sizes of both.
fn sized(bytes: u64) -> CacheSize {
    let memory_bytes = (bytes as f64 / (1.0 + DEFAULT_FLASH_FOR_DRAM)) as u64;
    CacheSize { memory_bytes, flash_bytes: bytes - memory_bytes }
}

/// A cache of that size, with this fraction of the keys.
fn cache_of(size: CacheSize, part: f64) -> Result<SimulatedTier> {
    let segment_bytes = (SEGMENT_BYTES as f64 * part) as u64;
    SimulatedTier::with_segments(Eviction::S3Fifo, size, Some(segment_bytes))
}

impl Model for Both {
    fn run(&self, seed: u64) -> Result<Vec<Found>> {
        let bytes_max = self.load.slabs(seed).bytes_max().max(2 * BYTES_MIN);
        let sizes = sizes_between((bytes_max / 32).max(BYTES_MIN), bytes_max);
        let of_both: Vec<CacheSize> = sizes.iter().map(|bytes| sized(*bytes)).collect();
        let measured = self.load.measured(&of_both, seed, |size| cache_of(size, 1.0))?;
        let in_small = self.load.predicted(&of_both, seed, RATE, |size| cache_of(size, RATE))?;
        let mut all = found_of(MINIATURE, &Beside::all(&in_small, &sizes, &measured));
        let byte_lru = self.load.byte_lru(seed);
        all.extend(found_of(BYTE_LRU, &Beside::all(&byte_lru, &sizes, &measured)));
        Ok(all)
    }
}

const ZIPF: &str = "flash zipf";
const EXPONENTIAL: &str = "flash exponential";

pub(super) fn points(scale: &Scale) -> Vec<Point> {
    let load = |law, shrink, requests| Load { law, shrink, requests };
    let load = |law| match (scale.is_quick, law) {
        (true, Law::Zipf) => load(law, 1_000, 800_000),
        (true, Law::Exponential) => load(law, 20, 800_000),
        (false, Law::Zipf) => load(law, 50, 16_000_000),
        (false, Law::Exponential) => load(law, 2, 16_000_000),
    };
    let of = |(law, part)| {
        let load = load(law);
        load.point(scale, part, Arc::new(Both { load }))
    };
    [(Law::Zipf, ZIPF), (Law::Exponential, EXPONENTIAL)].map(of).into()
}

const fn target(part: &'static str) -> Target {
    Target::in_phase(part, "mean_relative_error", Rule::AtMost(0.01))
}

pub(super) const TARGETS: [Target; 2] = [target(ZIPF), target(EXPONENTIAL)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_caches_with_flash_predict_the_misses_of_large_ones() {
        let load = Load { law: Law::Exponential, shrink: 20, requests: 400_000 };
        let found = Both { load }.run(1).expect("nothing fails");
        let mean = |subject: &str| {
            let is_mean = |found: &&Found| found.subject == subject && found.params.is_empty();
            found.iter().find(is_mean).expect("it is there").metrics[0].1
        };
        let [in_small, byte_lru] = [MINIATURE, BYTE_LRU].map(mean);
        assert!(in_small < 0.05, "{in_small}");
        // The flash index and its buffers take part of it.
        assert!(byte_lru > in_small, "{byte_lru}");
    }
}
