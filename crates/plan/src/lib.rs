//! What requests say of how much memory a store needs.
//!
//! * [`trace`]: readers of the formats in which people keep requests.
//! * [`Profiler`] and [`Sampler`]: how far apart the requests for an object are, exactly or of a sample,
//!   and the [`Curve`] of what caches of all sizes miss. [`ClassProfiler`] does that for the slab
//!   classes of a memcached, [`ReuseTimes`] estimates it from times alone. [`Miniature`] is for
//!   caches that evict by other rules than the least recent use.
//! * [`Distinct`]: how many different objects were seen, about.
//! * [`Watch`]: the same for a server that runs on and on, window by window.
//! * [`Tenant`], [`Question`] and [`Plan`]: how much DRAM and flash to buy (ElCached); [`Elastic`]: when a
//!   cache that runs changes its sizes to that.
//!
//! Nothing here does I/O of its own, reads a clock or knows a store: whoever has a trace hands in
//! its bytes.
//!
//! Modules are declared bottom-up; a module names only modules above it.

pub mod trace;

mod curves;
mod planner;

pub use curves::access::{Access, Action};
pub use curves::curve::{Curve, NoCurve, Point};
pub use curves::distinct::Distinct;
pub use curves::miniature::{Answer, CacheSize, Miniature, Missed, Simulated};
pub use curves::profiler::{Expiry, Profiler, Settings, Unit};
pub use curves::reuse_times::ReuseTimes;
pub use curves::shards::{SIZE_USUAL, Sampler, sample_hash};
pub use curves::slab_classes::{ClassProfiler, GROWTH, PAGE_BYTES, SlabClasses};
pub use curves::watch::{Watch, Window};
pub use planner::elastic::{AIM, Decision, Elastic, Seen, Sizes, Why};
pub use planner::model::{
    Allotment, FLASH_FOR_DRAM_USUAL, GivenLatencies, Latencies, Prices, Tenant,
};
pub use planner::question::{Bound, Bounds, Goal, Plan, Question};
pub use planner::solver::{
    Infeasible, POINTS_USUAL, plan_exactly, plan_on_hull, worth_of_one_more,
};
