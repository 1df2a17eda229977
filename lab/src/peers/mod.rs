//! Other engines and caches as subjects, in the binary of the lab, so that compiler, allocator and
//! drive are the same for all. Each is behind a feature, and none is on by default:
//!
//! | feature | subjects |
//! |---|---|
//! | `engines` | RocksDB, LevelDB and fjall; RocksDB compiles for half an hour on two cores |
//! | `foyer` | the hybrid cache foyer |
//! | `maps` | a hash map and a cache in memory: the lower bound of the cost of a hit |
//! | `peers` | all of these |
//!
//! Modules are declared bottom-up; a module names only modules above it.

#[cfg(feature = "engines")]
mod rocks;
#[cfg(feature = "engines")]
mod fjalls;
#[cfg(feature = "engines")]
mod leveldbs;
#[cfg(feature = "maps")]
mod maps;
#[cfg(feature = "foyer")]
mod foyers;

use crate::subject::SubjectRecord;

/// The subjects of this build.
pub const SUBJECTS: &[SubjectRecord] = &[
    #[cfg(feature = "engines")]
    rocks::LRU,
    #[cfg(feature = "engines")]
    rocks::PINNED,
    #[cfg(feature = "engines")]
    rocks::HYPERCLOCK,
    #[cfg(feature = "engines")]
    rocks::PIPELINED,
    #[cfg(feature = "engines")]
    rocks::COUNTING,
    #[cfg(feature = "engines")]
    rocks::ROW_CACHE,
    #[cfg(feature = "engines")]
    rocks::BEST_SPLIT,
    #[cfg(feature = "engines")]
    rocks::TUNED,
    #[cfg(feature = "engines")]
    rocks::DEFAULT,
    #[cfg(feature = "engines")]
    rocks::RECLAIMING,
    #[cfg(feature = "engines")]
    rocks::OPTIONS,
    #[cfg(feature = "engines")]
    fjalls::FJALL,
    #[cfg(feature = "engines")]
    leveldbs::LEVELDB,
    #[cfg(feature = "maps")]
    maps::DASHMAP,
    #[cfg(feature = "maps")]
    maps::QUICK_CACHE,
    #[cfg(feature = "foyer")]
    foyers::FOYER,
    #[cfg(feature = "foyer")]
    foyers::FOYER_PSYNC,
];

#[cfg(test)]
#[cfg(feature = "engines")]
mod tests;
