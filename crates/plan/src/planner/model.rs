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
//!
//! For a percentile each request takes the time of the level that answers it, and no two requests of
//! a level differ. So the fraction of requests answered within `t` is a step function, of which the
//! formula above is the mean (this is not in the paper):
//!
//! ```text
//!                     with flash                           without
//! 0                   t < m                                t < m
//! 1 − mr(c_m)         m ≤ t < m + s                        m ≤ t < m + db
//! 1 − mr(c_m + c_s)   m + s ≤ t < m + s + db
//! 1                   m + s + db ≤ t                       m + db ≤ t
//! ```
//!
//! It knows neither queues nor the tails of a device or of the backend: with the mean time of a level
//! it says which level answers the percentile. For the time within which a level answers nearly all
//! of its requests, let the latencies be such times.

use crate::curves::curve::Curve;

/// Bytes of a GiB.
const GIB: f64 = (1_u64 << 30) as f64;
/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
/// Days of a year.
const YEAR_DAYS: f64 = 365.0;

/// The relative rounding error that a latency, a share of requests and a bound may have.
pub(crate) const ROUNDING: f64 = 1e-9;

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

    /// The fraction of requests, 0 to 1, that DRAM alone with this miss ratio answers within `us`
    /// microseconds.
    pub fn share_within_without_flash(&self, us: f64, miss_ratio: f64) -> f64 {
        match us * (1.0 + ROUNDING) {
            us if us < self.memory_us => 0.0,
            us if us < self.memory_us + self.backend_us => 1.0 - miss_ratio,
            _ => 1.0,
        }
    }

    /// The fraction of requests, 0 to 1, answered within `us` microseconds with these miss ratios of
    /// DRAM, and of DRAM and flash together.
    pub fn share_within(&self, us: f64, memory_miss_ratio: f64, miss_ratio: f64) -> f64 {
        let flash_us = self.memory_us + self.flash_us;
        match us * (1.0 + ROUNDING) {
            us if us < self.memory_us => 0.0,
            us if us < flash_us => 1.0 - memory_miss_ratio,
            us if us < flash_us + self.backend_us => 1.0 - miss_ratio,
            _ => 1.0,
        }
    }
}

/// A target for a percentile of a tenant's latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PercentileTarget {
    /// The percentile, above 0 and below 100: 99 for p99.
    pub percent: f64,
    /// The latency of that percentile at most, in microseconds.
    pub within_us: f64,
}

impl PercentileTarget {
    /// The largest fraction of requests that may take longer.
    fn late_max(&self) -> f64 {
        (100.0 - self.percent) / 100.0
    }
}

/// The highest miss ratios at which a tenant meets its percentile targets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MissLimits {
    /// Of DRAM.
    pub(crate) memory: f64,
    /// Of DRAM and flash together.
    pub(crate) all: f64,
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

/// How much may be written to flash before it is worn out, as data sheets state it: a number of
/// times its capacity each day, until its warranty ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Endurance {
    /// Drive writes per day (DWPD).
    pub drive_writes_per_day: f64,
    /// Years of the warranty.
    pub warranty_years: f64,
}

impl Endurance {
    /// The years until flash is worn out with these drive writes per day; infinite without writes.
    pub fn years(&self, drive_writes_per_day: f64) -> f64 {
        self.drive_writes_per_day * self.warranty_years / drive_writes_per_day
    }

    /// All that may be written to this much flash, in bytes: its TBW.
    pub fn total_bytes(&self, flash_bytes: u64) -> f64 {
        self.drive_writes_per_day * self.warranty_years * YEAR_DAYS * flash_bytes as f64
    }
}

/// The number of times per day that writes at this rate overwrite this much flash; zero without
/// writes, infinite without flash.
pub fn drive_writes_per_day(bytes_per_s: f64, flash_bytes: u64) -> f64 {
    if bytes_per_s == 0.0 { 0.0 } else { bytes_per_s * DAY_S / flash_bytes as f64 }
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
    /// Its targets for percentiles of the latency, all of which count, beside the mean.
    pub percentiles: Vec<PercentileTarget>,
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
            percentiles: Vec::new(),
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

    /// Whether it has any target of its latency.
    pub fn has_target(&self) -> bool {
        self.sla_us.is_some() || !self.percentiles.is_empty()
    }

    /// The fraction of its requests, 0 to 1, that are answered within `us` microseconds with these
    /// sizes.
    pub fn share_within(&self, us: f64, gets: &Allotment) -> f64 {
        let Allotment { flash_bytes, memory_miss_ratio, miss_ratio, .. } = *gets;
        match flash_bytes {
            0 => self.latencies.share_within_without_flash(us, miss_ratio),
            _ => self.latencies.share_within(us, memory_miss_ratio, miss_ratio),
        }
    }

    /// Whether these sizes meet all of its targets, but for this part of each.
    pub(crate) fn is_met(&self, gets: &Allotment, tolerance: f64) -> bool {
        self.sla_us.is_none_or(|sla_us| gets.latency_us <= sla_us * (1.0 + tolerance))
            && self.percentiles.iter().all(|target| self.meets(target, gets, tolerance))
    }

    /// Whether these sizes meet a target for a percentile, but for this part of it.
    pub(crate) fn meets(
        &self,
        target: &PercentileTarget,
        gets: &Allotment,
        tolerance: f64,
    ) -> bool {
        let late = 1.0 - self.share_within(target.within_us, gets);
        late <= target.late_max() * (1.0 + tolerance)
    }

    /// The miss ratios that its percentile targets allow, with flash or without; `None` if a target
    /// is below the time of DRAM.
    pub(crate) fn miss_limits(&self, has_flash: bool) -> Option<MissLimits> {
        let Latencies { memory_us, flash_us, backend_us } = self.latencies;
        let mut most = MissLimits { memory: 1.0, all: 1.0 };
        for target in &self.percentiles {
            let is_within = |us: f64| us <= target.within_us * (1.0 + ROUNDING);
            let (late_max, flash_us) = (target.late_max(), if has_flash { flash_us } else { 0.0 });
            if !is_within(memory_us) {
                return None;
            }
            if !is_within(memory_us + flash_us) {
                most.memory = most.memory.min(late_max);
            } else if !is_within(memory_us + flash_us + backend_us) {
                most.all = most.all.min(late_max);
            }
        }
        Some(most)
    }

    /// Bytes that it writes to flash per second with these sizes: without flash none.
    pub fn flash_writes_bytes_per_s(&self, gets: &Allotment) -> f64 {
        match gets.flash_bytes {
            0 => 0.0,
            _ => self.requests_per_s * self.demoted_bytes * gets.memory_miss_ratio,
        }
    }

    /// The least DRAM and flash in that ratio that meet its targets: the policy of providers that
    /// give memory and flash by a fixed rule (ElCached §5: 1 : 4). `None` if no size suffices, or
    /// there is no target.
    pub fn proportional(&self, flash_for_dram: f64, prices: Prices) -> Option<Allotment> {
        if !self.has_target() {
            return None;
        }
        let at = |memory: u64| self.allot(memory, (memory as f64 * flash_for_dram) as u64, prices);
        // Where a level reaches a point of the curve.
        let points = self.curve.points().iter();
        let sizes = points.flat_map(|point| {
            [point.size, (point.size as f64 / (1.0 + flash_for_dram)).ceil() as u64 + 1]
        });
        let fitting = sizes.map(at).filter(|allotment| self.is_met(allotment, ROUNDING));
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
    fn share_within_a_time_is_that_of_the_levels_that_are_as_fast() {
        let latencies = Latencies { memory_us: 10.0, flash_us: 100.0, backend_us: 1_000.0 };
        let shares = [9.9, 10.0, 109.9, 110.0, 1_109.9, 1_110.0]
            .map(|us| latencies.share_within(us, 0.5, 0.125));
        assert_eq!(shares, [0.0, 0.5, 0.5, 0.875, 0.875, 1.0]);
        let shares =
            [9.9, 10.0, 1_009.9, 1_010.0].map(|us| latencies.share_within_without_flash(us, 0.125));
        assert_eq!(shares, [0.0, 0.875, 0.875, 1.0]);
        // 0.1 + 0.2 is more than 0.3 in binary.
        let latencies = Latencies { memory_us: 0.1, flash_us: 0.2, backend_us: 1.0 };
        assert_eq!(latencies.share_within(0.3, 0.5, 0.125), 0.875);
        let tenant = Tenant { latencies: Latencies::DEFAULT, ..tenant() };
        let prices = Prices::DEFAULT;
        // 100 MiB miss 0.5, and a GiB misses 0.1.
        let (dram, both) =
            (tenant.allot(100 << 20, 0, prices), tenant.allot(100 << 20, 924 << 20, prices));
        assert_eq!([&dram, &both].map(|gets| tenant.share_within(110.0, gets)), [0.5, 0.9]);
        assert_eq!([&dram, &both].map(|gets| tenant.share_within(1_010.0, gets)), [1.0, 0.9]);
    }

    #[test]
    fn flash_is_written_for_each_dram_miss_and_only_if_there_is_some() {
        let tenant = Tenant { requests_per_s: 1_000.0, demoted_bytes: 200.0, ..tenant() };
        let writes = |memory: u64, flash: u64| {
            let gets = tenant.allot(memory << 20, flash << 20, Prices::DEFAULT);
            tenant.flash_writes_bytes_per_s(&gets)
        };
        // Half of a thousand requests miss.
        assert_eq!((writes(100, 100), writes(100, 0)), (100_000.0, 0.0));
        assert_eq!(drive_writes_per_day(100_000.0, 86_400_000), 100.0);
        assert_eq!(drive_writes_per_day(0.0, 0), 0.0);
        let endurance = Endurance { drive_writes_per_day: 2.0, warranty_years: 5.0 };
        assert_eq!((endurance.years(2.0), endurance.years(10.0)), (5.0, 1.0));
        assert_eq!(endurance.total_bytes(1_000), 3_650_000.0);
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
        // Nine of ten within the time of flash: both 1000 MiB.
        let percentiles = vec![PercentileTarget { percent: 90.0, within_us: 110.0 }];
        let met = Tenant { percentiles, ..tenant() }.proportional(4.0, prices);
        assert_eq!(met.expect("there are such").memory_bytes >> 20, 200);
    }
}
