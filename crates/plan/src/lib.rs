//! Miss-ratio curves from requests, and plans of how much memory a store needs.
//!
//! * [`trace`]: readers of common trace formats.
//! * [`Profiler`] and [`Sampler`]: reuse distances, exact or of a sample, and the miss-ratio
//!   [`Curve`] of caches of all sizes. [`ClassProfiler`] does that for the slab classes of a
//!   memcached, [`ReuseTimes`] estimates it from reuse times alone. [`Miniature`] is for caches
//!   with other eviction policies than LRU.
//! * [`Distinct`]: an approximate count of distinct objects.
//! * [`WindowedProfiler`]: the same for a long-running server, window by window. [`ScaledCaches`]
//!   correct its curve for a cache that does not evict by LRU.
//! * [`Tenant`], [`PlanRequest`] and [`Plan`]: how much DRAM and flash to buy (ElCached);
//!   [`Elastic`]: when a running cache changes its sizes to that.
//!
//! This crate does no I/O of its own, reads no clock and depends on no store: the caller passes the
//! bytes of a trace.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod trace;

mod curves;
mod planner;

pub use curves::access::{Access, Action};
pub use curves::curve::{Curve, InvalidCurve, Point};
pub use curves::distinct::Distinct;
pub use curves::error_bars::ErrorBars;
pub use curves::miniature::{CacheSize, LookupResult, Miniature, MissRatios, Simulated};
pub use curves::profiler::{Expiry, Profiler, Settings, Unit};
pub use curves::reuse_times::ReuseTimes;
pub use curves::scaled_caches::{Answered, Measured, ScaledCache, ScaledCaches};
pub use curves::shards::{DEFAULT_SAMPLE_SIZE, Sampler, TRACE_SAMPLE_SIZE, sample_hash};
pub use curves::slab_classes::{ClassProfiler, GROWTH, PAGE_BYTES, SlabClasses};
pub use curves::watch::{Window, WindowedProfiler};
pub use planner::elastic::{Decision, Elastic, Observation, Reason, Sizes, TARGET_FRACTION};
pub use planner::model::{
    Allotment, DEFAULT_FLASH_FOR_DRAM, Endurance, Latencies, LatencyOverrides, PercentileTarget,
    Prices, Tenant, drive_writes_per_day,
};
pub use planner::request::{Bound, Bounds, Goal, Plan, PlanRequest};
pub use planner::solver::{DEFAULT_POINTS, Infeasible, marginal_value, plan_exactly, plan_on_hull};
