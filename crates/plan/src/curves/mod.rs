//! Miss-ratio curves: exact, sampled and estimated, for caches of every size.
//!
//! Modules are declared bottom-up.

pub(crate) mod access;
pub(crate) mod curve;
pub(crate) mod distinct;
pub(crate) mod fenwick;
pub(crate) mod stack;
pub(crate) mod histogram_scale;
pub(crate) mod distances;
pub(crate) mod profiler;
pub(crate) mod reuse_times;
pub(crate) mod filling;
pub(crate) mod calibration;
pub(crate) mod error_bars;
pub(crate) mod shards;
pub(crate) mod watch;
pub(crate) mod scaled_caches;
pub(crate) mod miniature;
pub(crate) mod slab_classes;
