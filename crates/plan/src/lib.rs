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

mod access;
mod curve;
mod distinct;
mod fenwick;
mod stack;
mod places;
mod distances;
mod profiler;
mod reuse_times;
mod filling;
mod calibration;
mod shards;
mod watch;
mod miniature;
mod slab_classes;
mod model;
mod question;
mod choices;
mod planner;
mod elastic;

pub use access::{Access, Action};
pub use curve::{Curve, NoCurve, Point};
pub use distinct::Distinct;
pub use elastic::{AIM, Decision, Elastic, Seen, Sizes, Why};
pub use miniature::{Answer, CacheSize, Miniature, Missed, Simulated};
pub use model::{Allotment, FLASH_FOR_DRAM_USUAL, GivenLatencies, Latencies, Prices, Tenant};
pub use planner::{Infeasible, POINTS_USUAL, plan_exactly, plan_on_hull, worth_of_one_more};
pub use profiler::{Expiry, Profiler, Settings, Unit};
pub use question::{Bound, Bounds, Goal, Plan, Question};
pub use reuse_times::ReuseTimes;
pub use shards::{SIZE_USUAL, Sampler, sample_hash};
pub use slab_classes::{ClassProfiler, GROWTH, PAGE_BYTES, SlabClasses};
pub use watch::{Watch, Window};
