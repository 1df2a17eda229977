//! Times and prices by which plans are made: the paper (ElCached §5) states none of them.
//!
//! | terms | flash, beside DRAM | behind both, beside them | where they are from |
//! |---|---|---|---|
//! | [`USUAL`] | 100 µs | 1 ms | our own; [`TERMS`] has each of them halved and doubled |
//! | [`SOONER`] | 50 µs | 2 ms | our own, taken when the others had been seen |
//! | [`EXAMPLE`] | 295 µs | 10.8 ms | the paper's example |
//!
//! **The example.** By Zipf's law 60 MB of DRAM and 11.7 GB of flash answer in 700 µs, it says, and so do 1.8 and
//! 7.3 GB; and the first costs 0.4 of the second. With `mr` the curve of its workload, of all 800 million requests,
//! and DRAM in 10 µs, that is
//!
//! ```text
//! s · mr(0.06) + db · mr(11.76) = 690 = s · mr(1.8) + db · mr(9.1)
//! p · 0.06 + 11.7 = 0.4 · (p · 1.8 + 7.3)
//! ```
//!
//! which only one `s`, `db` and `p` solve: [`Example::solve`], and a GiB of DRAM for 13 of flash. What an object takes is then the
//! one thing that is left open: it is taken as memcached has it, of which the paper's caches are made.

use tidekv_plan::{Curve, Latencies, Prices};

/// Flash beside DRAM where the ratio is fixed (ElCached §5).
pub(super) const FLASH_FOR_DRAM: f64 = 4.0;
/// A GiB of DRAM for one of flash.
pub(super) const PRICES: Prices = Prices { dram_per_gib: 13.0, flash_per_gib: 1.0 };

/// Times and prices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) name: &'static str,
    pub(super) latencies: Latencies,
    pub(super) prices: Prices,
}

/// Those of the design.
pub(super) const USUAL: Terms =
    Terms { name: "usual", latencies: Latencies::USUAL, prices: PRICES };

/// Flash that is sooner, before a back end that is later.
pub(super) const SOONER: Terms = Terms {
    name: "flash-50us-backend-2ms",
    latencies: Latencies { flash_us: 50.0, backend_us: 2_000.0, ..Latencies::USUAL },
    ..USUAL
};

/// Those that the paper's example has.
pub(super) const EXAMPLE: Terms = Terms {
    name: "example",
    latencies: Latencies { flash_us: 295.0, backend_us: 10_780.0, ..Latencies::USUAL },
    ..USUAL
};

/// [`USUAL`], each of it halved and doubled, and [`SOONER`].
pub(super) const TERMS: [Terms; 8] = [
    USUAL,
    Terms { name: "dram-6.5", prices: Prices { dram_per_gib: 6.5, ..PRICES }, ..USUAL },
    Terms { name: "dram-26", prices: Prices { dram_per_gib: 26.0, ..PRICES }, ..USUAL },
    Terms {
        name: "flash-50us",
        latencies: Latencies { flash_us: 50.0, ..Latencies::USUAL },
        ..USUAL
    },
    Terms {
        name: "flash-200us",
        latencies: Latencies { flash_us: 200.0, ..Latencies::USUAL },
        ..USUAL
    },
    Terms {
        name: "backend-500us",
        latencies: Latencies { backend_us: 500.0, ..Latencies::USUAL },
        ..USUAL
    },
    Terms {
        name: "backend-2ms",
        latencies: Latencies { backend_us: 2_000.0, ..Latencies::USUAL },
        ..USUAL
    },
    SOONER,
];

/// Two caches of the same latency: DRAM and flash of each, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Example {
    pub(super) latency_us: f64,
    /// The elastic one, and that of a fixed ratio.
    pub(super) sizes: [(u64, u64); 2],
}

/// The paper's, by Zipf's law.
pub(super) const PAPERS: Example = Example {
    latency_us: 700.0,
    sizes: [(60_000_000, 11_700_000_000), (1_800_000_000, 7_300_000_000)],
};

impl Example {
    /// What DRAM and what both miss, of each.
    fn misses(&self, curve: &Curve) -> [(f64, f64); 2] {
        self.sizes.map(|(dram, flash)| (curve.miss_ratio(dram), curve.miss_ratio(dram + flash)))
    }

    /// The times of flash and of what is behind with which both have that latency; none, where no such are
    /// positive.
    pub(super) fn solve(&self, curve: &Curve, memory_us: f64) -> Option<Latencies> {
        let [(dram, all), (other_dram, other_all)] = self.misses(curve);
        let flash_for_backend = (other_all - all) / (dram - other_dram);
        let backend_us = (self.latency_us - memory_us) / (flash_for_backend * dram + all);
        let is_positive = |time: &f64| time.is_finite() && *time > 0.0;
        let flash_us = Some(flash_for_backend * backend_us).filter(is_positive)?;
        Some(Latencies { memory_us, flash_us, backend_us })
    }

    /// How far from that latency the two are, as a part of it: the further one.
    pub(super) fn error(&self, curve: &Curve, latencies: &Latencies) -> f64 {
        let error =
            |(dram, all)| (latencies.mean_us(dram, all) - self.latency_us).abs() / self.latency_us;
        self.misses(curve).map(error).into_iter().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use tidekv_plan::Point;

    use super::*;

    #[test]
    fn the_times_of_an_example_give_both_its_latency() {
        let points = [(1, 0.5), (2, 0.3), (5, 0.2), (8, 0.1)];
        let points = points.map(|(size, miss_ratio)| Point { size, miss_ratio }).to_vec();
        let curve = Curve::new(points, 100.0).expect("it falls");
        let example = Example { latency_us: 100.0, sizes: [(1, 7), (2, 3)] };
        let solved = example.solve(&curve, 10.0).expect("there are such times");
        assert!(example.error(&curve, &solved) < 1e-9, "{solved:?}");
        assert!(example.error(&curve, &Latencies { flash_us: 0.0, ..solved }) > 0.1);
        // Both are the same in flash and DRAM together: only a flash that takes no time would do.
        let same = Example { sizes: [(1, 7), (2, 6)], ..example };
        assert_eq!(same.solve(&curve, 10.0), None);
    }
}
