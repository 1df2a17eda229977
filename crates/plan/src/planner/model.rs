//! The cost of caches of DRAM and flash, and the latency of their requests (ElCached §3).
//!
//! With `m`, `s` and `db` the times of DRAM, flash and the back end, and `mr` the miss ratio of a
//! cache:
//!
//! ```text
//! Lat(c_m, c_s)  = m + s · mr(c_m) + db · mr(c_m + c_s)    (m + db · mr(c_m) without flash)
//! Cost(c_m, c_s) = p_m · (c_m + i · c_s) + p_s · c_s
//! ```
//!
//! Flash has the objects that DRAM does not have: together they are a cache of their sum. `i` is
//! the DRAM that the index of a byte on flash takes; the paper has none (`i = 0`), but flash is not
//! free of DRAM.

use crate::curves::curve::Curve;

/// Bytes of a GiB.
const GIB: f64 = (1_u64 << 30) as f64;

/// The access latency of each level, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latencies {
    /// DRAM: `m`.
    pub memory_us: f64,
    /// Flash, in addition to DRAM: `s`.
    pub flash_us: f64,
    /// The back end, in addition to both: `db`.
    pub backend_us: f64,
}

/// Those of [`Latencies`] that are configured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LatencyOverrides {
    /// [`Latencies::memory_us`].
    pub memory_us: Option<f64>,
    /// [`Latencies::flash_us`].
    pub flash_us: Option<f64>,
    /// [`Latencies::backend_us`].
    pub backend_us: Option<f64>,
}

impl Latencies {
    /// Ten and a hundred microseconds, and a millisecond: the paper does not state its own.
    pub const DEFAULT: Self = Self { memory_us: 10.0, flash_us: 100.0, backend_us: 1_000.0 };

    /// Measured latencies, or defaults where there are none: of a cache that detects absent keys
    /// without reading flash, so that the back end's part shrinks as the flash latency grows.
    pub fn measured(
        memory_us: Option<f64>,
        flash_us: Option<f64>,
        backend_us: Option<f64>,
    ) -> Self {
        let Self { memory_us: memory, flash_us: flash, backend_us: backend } = Self::DEFAULT;
        let flash_us = flash_us.unwrap_or(flash);
        let backend_us = backend_us.map_or(backend, |backend_us| (backend_us - flash_us).max(0.0));
        Self { memory_us: memory_us.unwrap_or(memory), flash_us, backend_us }
    }

    /// The same with the configured ones replaced.
    pub fn with(self, given: LatencyOverrides) -> Self {
        Self {
            memory_us: given.memory_us.unwrap_or(self.memory_us),
            flash_us: given.flash_us.unwrap_or(self.flash_us),
            backend_us: given.backend_us.unwrap_or(self.backend_us),
        }
    }

    /// The mean latency of DRAM alone with this miss ratio, in microseconds.
    pub fn mean_us_without_flash(&self, miss_ratio: f64) -> f64 {
        self.memory_us + self.backend_us * miss_ratio
    }

    /// The mean latency with these miss ratios of DRAM, and of DRAM and flash together, in
    /// microseconds.
    pub fn mean_us(&self, memory_miss_ratio: f64, miss_ratio: f64) -> f64 {
        self.memory_us + self.flash_us * memory_miss_ratio + self.backend_us * miss_ratio
    }
}

/// Prices per GiB, in any currency and for any period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Of DRAM.
    pub dram_per_gib: f64,
    /// Of flash.
    pub flash_per_gib: f64,
}

/// Bytes of flash for one of DRAM where the ratio is fixed (ElCached §5).
pub const DEFAULT_FLASH_FOR_DRAM: f64 = 4.0;

impl Prices {
    /// DRAM costs thirteen times as much as flash: the paper does not state its own.
    pub const DEFAULT: Self = Self { dram_per_gib: 13.0, flash_per_gib: 1.0 };

    /// The cost of this many bytes of each.
    pub fn cost(&self, dram_bytes: u64, flash_bytes: u64) -> f64 {
        (self.dram_per_gib * dram_bytes as f64 + self.flash_per_gib * flash_bytes as f64) / GIB
    }
}

/// A tenant with caches of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// The miss-ratio curve of its requests; sizes in bytes.
    pub curve: Curve,
    /// Its requests per second: its weight in the mean of all.
    pub requests_per_s: f64,
    /// The latencies of its requests.
    pub latencies: Latencies,
    /// Its target of the mean latency, in microseconds.
    pub sla_us: Option<f64>,
    /// The most flash that it can have, in bytes, however much there is.
    pub flash_bytes_max: Option<u64>,
    /// DRAM that the index takes per byte on flash, in bytes.
    pub index_bytes_per_byte: f64,
    /// Bytes written to flash per DRAM miss: the objects evicted for it.
    pub demoted_bytes: f64,
}

/// The sizes of a tenant, and their consequences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allotment {
    /// DRAM for objects, in bytes.
    pub memory_bytes: u64,
    /// DRAM for the index of flash, in bytes.
    pub index_bytes: u64,
    /// Flash, in bytes.
    pub flash_bytes: u64,
    /// Misses of DRAM per request.
    pub memory_miss_ratio: f64,
    /// Misses of both per request.
    pub miss_ratio: f64,
    /// The mean latency of a request, in microseconds.
    pub latency_us: f64,
    /// Their cost.
    pub cost: f64,
}

impl Allotment {
    /// Total DRAM, in bytes.
    pub fn dram_bytes(&self) -> u64 {
        self.memory_bytes.saturating_add(self.index_bytes)
    }
}

impl Tenant {
    /// A tenant with only a curve: default latencies, and a flash index that is free.
    pub fn new(name: impl Into<String>, curve: Curve) -> Self {
        Self {
            name: name.into(),
            requests_per_s: 1.0,
            latencies: Latencies::DEFAULT,
            sla_us: None,
            flash_bytes_max: None,
            index_bytes_per_byte: 0.0,
            demoted_bytes: 0.0,
            curve,
        }
    }

    /// The consequences of this many bytes of DRAM for objects, and of flash.
    pub fn allot(&self, memory_bytes: u64, flash_bytes: u64, prices: Prices) -> Allotment {
        let memory_miss_ratio = self.curve.miss_ratio(memory_bytes);
        let miss_ratio = self.curve.miss_ratio(memory_bytes.saturating_add(flash_bytes));
        let index_bytes = (self.index_bytes_per_byte * flash_bytes as f64).ceil() as u64;
        Allotment {
            memory_bytes,
            index_bytes,
            flash_bytes,
            memory_miss_ratio,
            miss_ratio,
            latency_us: match flash_bytes {
                0 => self.latencies.mean_us_without_flash(miss_ratio),
                _ => self.latencies.mean_us(memory_miss_ratio, miss_ratio),
            },
            cost: prices.cost(memory_bytes.saturating_add(index_bytes), flash_bytes),
        }
    }

    /// The least DRAM and flash in that ratio that meet its latency: the policy of providers that
    /// give memory and flash by a fixed rule (ElCached §5: 1 : 4). `None` if no size suffices, or
    /// there is no target.
    pub fn proportional(&self, flash_for_dram: f64, prices: Prices) -> Option<Allotment> {
        let sla_us = self.sla_us?;
        let at = |memory: u64| self.allot(memory, (memory as f64 * flash_for_dram) as u64, prices);
        // Where a level reaches a point of the curve.
        let points = self.curve.points().iter();
        let sizes = points.flat_map(|point| {
            [point.size, (point.size as f64 / (1.0 + flash_for_dram)).ceil() as u64 + 1]
        });
        let fitting = sizes.map(at).filter(|allotment| allotment.latency_us <= sla_us);
        fitting.min_by(|one, other| one.memory_bytes.cmp(&other.memory_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::curve::Point;

    pub(crate) fn tenant() -> Tenant {
        let points = [(100, 0.5), (200, 0.3), (1_000, 0.1)];
        let points = points.map(|(mib, miss_ratio)| Point { size: mib << 20, miss_ratio });
        Tenant::new("one", Curve::new(points, 1.0).expect("it is a curve"))
    }

    #[test]
    fn latency_and_cost_follow_the_paper() {
        let prices = Prices { dram_per_gib: 13.0, flash_per_gib: 1.0 };
        let tenant = Tenant { index_bytes_per_byte: 0.01, ..tenant() };
        let allotment = tenant.allot(100 << 20, 900 << 20, prices);
        assert_eq!(allotment.latency_us, 10.0 + 100.0 * 0.5 + 1_000.0 * 0.1);
        assert_eq!(allotment.index_bytes, 9 << 20);
        let cost = (13.0 * 109.0 + 900.0) / 1024.0;
        assert!((allotment.cost - cost).abs() < 1e-12);
    }

    #[test]
    fn misses_detected_without_flash_do_not_wait_for_it() {
        let Latencies { memory_us, flash_us, backend_us } =
            Latencies::measured(Some(2.0), Some(80.0), Some(900.0));
        assert_eq!((memory_us, flash_us, backend_us), (2.0, 80.0, 820.0));
        let latencies = Latencies::measured(None, Some(80.0), Some(50.0));
        assert_eq!((latencies.memory_us, latencies.backend_us), (10.0, 0.0));
        assert_eq!(Latencies::measured(None, None, None), Latencies::DEFAULT);
        let given = LatencyOverrides { backend_us: Some(5.0), ..LatencyOverrides::default() };
        assert_eq!(latencies.with(given), Latencies { backend_us: 5.0, ..latencies });
    }

    #[test]
    fn fixed_ratio_takes_the_least_sufficient_size() {
        let prices = Prices { dram_per_gib: 13.0, flash_per_gib: 1.0 };
        let with = |sla_us| Tenant { sla_us: Some(sla_us), ..tenant() };
        // All misses cost 110 at least.
        assert_eq!(with(109.0).proportional(4.0, prices), None);
        assert_eq!(tenant().proportional(4.0, prices), None);
        // 10 + 100 * 0.3 + 1000 * 0.1: DRAM of 200 MiB, and both 1000.
        let met = with(140.0).proportional(4.0, prices).expect("there are such");
        assert_eq!((met.memory_bytes >> 20, met.latency_us), (200, 140.0));
        // 10 + 100 + 1000 * 0.3: both 200 MiB.
        let met = with(410.0).proportional(4.0, prices).expect("there are such");
        assert_eq!((met.memory_bytes >> 20, met.latency_us), (40, 410.0));
    }
}
