//! The subjects that need no other engine than TideKV in this process.

use crate::subject::SubjectRecord;
use crate::subjects::indexes;
use crate::subjects::served;
use crate::subjects::tidekv;
use crate::subjects::tiered;

/// All of them: the store, the object cache, and their baselines.
pub const SUBJECTS: &[SubjectRecord] = &[
    tidekv::TIDEKV,
    tidekv::TIDEKV_BLOCK_LRU,
    tidekv::TIDEKV_KV_ONLY,
    tidekv::TIDEKV_KP_ONLY,
    tidekv::TIDEKV_BLOCK_ADMISSION,
    tidekv::TIDEKV_HAC,
    tidekv::TIDEKV_OFFLINE,
    tidekv::TIDEKV_BLOCK_CLOCK,
    tidekv::TIDEKV_BLOCK_S3_FIFO,
    tidekv::TIDEKV_BEST_SPLIT,
    tidekv::TIDEKV_BEST_AT_SWITCH,
    crate::subjects::device::DEVICE_READS,
    tiered::TIDEKV_CACHE,
    served::TIDEKV_CACHE_SERVED,
    served::MEMCACHED_EXTSTORE,
    served::MEMCACHED,
    served::MEMCACHED_SWAP,
    indexes::INDEX_DRAM,
    indexes::INDEX_UDEPOT,
    indexes::INDEX_SLICKCACHE,
    indexes::DEVICE_OBJECTS,
];

/// TideKV with its defaults, in each of its forms: the subjects of targets.
pub(crate) const AS_IT_COMES: &[&str] =
    &[tidekv::TIDEKV.name, tiered::TIDEKV_CACHE.name, served::TIDEKV_CACHE_SERVED.name];
