//! What the paper says of two sizings, and what it says of its times with it (ElCached §5).
//!
//! By Zipf's law 60 MB of DRAM with 11.7 GB of flash answer in 700 µs, and so do 1.8 with 7.3 GB. With `mr` the curve of its
//! workload, of all 800 million requests, and DRAM in 10 µs, these are two equations for the times of flash and of the back end,
//!
//! ```text
//! s · mr(0.06) + db · mr(11.76) = 690 = s · mr(1.8) + db · mr(9.1)
//! ```
//!
//! which one `s` and one `db` solve: [`Sizings::solve`]. [`crate::experiments::elcached::terms::SOLVED`] has them, rounded.
//!
//! **What is left open.** The price of DRAM: that elasticity "saves around 60 % of cost" says that a GiB costs as much as 13.3
//! of flash, if it is said of these two; the costs that the paper has for them, 0.7 and 8.1, would say 116. And what an
//! object takes: it is taken as memcached has it, of which the paper's caches are made. With that price a plan for 700 µs cannot
//! cost more than 0.4 of the proportional one, for the paper's own sizing does not; other latencies, the
//! exponential law and two tenants are not fitted to anything.

use tidekv_plan::{Curve, Latencies};

/// Two caches of the same latency: DRAM and flash of each, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizings {
    pub(super) latency_us: f64,
    /// The elastic one, and that of a fixed ratio.
    pub(super) sizes: [(u64, u64); 2],
}

/// The paper's, by Zipf's law.
pub(super) const PAPER: Sizings = Sizings {
    latency_us: 700.0,
    sizes: [(60_000_000, 11_700_000_000), (1_800_000_000, 7_300_000_000)],
};

impl Sizings {
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
        let flash_us = flash_for_backend * backend_us;
        let are_positive = [flash_us, backend_us].iter().all(is_positive);
        are_positive.then_some(Latencies { memory_us, flash_us, backend_us })
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
    fn the_times_that_are_solved_give_both_their_latency() {
        let points = [(1, 0.5), (2, 0.3), (5, 0.2), (8, 0.1)];
        let points = points.map(|(size, miss_ratio)| Point { size, miss_ratio }).to_vec();
        let curve = Curve::new(points, 100.0).expect("it falls");
        let sizings = Sizings { latency_us: 100.0, sizes: [(1, 7), (2, 3)] };
        let solved = sizings.solve(&curve, 10.0).expect("there are such times");
        assert!(sizings.error(&curve, &solved) < 1e-9, "{solved:?}");
        assert!(sizings.error(&curve, &Latencies { flash_us: 0.0, ..solved }) > 0.1);
        // Both are the same in flash and DRAM together: only a flash that takes no time would do.
        let same = Sizings { sizes: [(1, 7), (2, 6)], ..sizings };
        assert_eq!(same.solve(&curve, 10.0), None);
        // What misses less in DRAM and in all is sooner by any positive times.
        let better = Sizings { sizes: [(1, 2), (2, 6)], ..sizings };
        assert_eq!(better.solve(&curve, 10.0), None);
    }
}
