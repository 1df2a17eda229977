//! The repairs of the filters of one table: for each partition its repaired buckets ([`Repair`]).
//!
//! Memory: eight bytes for each repair; at most one bucket in [`BUCKETS_PER_REPAIR`] is repaired. A
//! repair beyond that replaces another one, whose key is repaired again if it is still looked up.
//!
//! Safe to use from all threads. Readers never wait; one thread at a time repairs.

use std::sync::Arc;

use super::cuckoo::{Matches, Repair};
use crate::sync::ArcSwap;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One bucket in this many can be repaired: each of a bucket's 3.84 keys then has 0.7 bits more,
/// which with the 10.5 bits of the filter itself makes 11.2.
const BUCKETS_PER_REPAIR: usize = 24;
/// Lower bound of the repairs of a partition.
const REPAIRS_MIN: usize = 4;

/// The repairs of one partition, in the order of buckets.
type Repairs = Box<[u64]>;

/// The repairs of the filters of one table.
#[derive(Debug)]
pub(crate) struct TableRepairs {
    partitions: Box<[ArcSwap<Repairs>]>,
    /// Whether there are any repairs: most tables are never repaired.
    has_any: AtomicBool,
    repairs: AtomicUsize,
}

impl TableRepairs {
    /// No repairs, for a table with `partitions` partitions.
    pub(crate) fn new(partitions: usize) -> Self {
        let nothing: Arc<Repairs> = Arc::default();
        Self {
            partitions: (0..partitions).map(|_| ArcSwap::new(Arc::clone(&nothing))).collect(),
            has_any: AtomicBool::new(false),
            repairs: AtomicUsize::new(0),
        }
    }

    /// Whether a key still passes the filter of a partition.
    #[inline]
    pub(crate) fn pass(&self, partition: usize, matches: Matches) -> bool {
        if !self.has_any.load(Ordering::Acquire) {
            return true;
        }
        let Some(repairs) = self.partitions.get(partition) else { return true };
        let repairs = repairs.load();
        matches.pass_with(|bucket| find(&repairs, bucket))
    }

    /// The repair of a bucket, if any.
    pub(crate) fn repair_of(&self, partition: usize, bucket: u32) -> Option<Repair> {
        find(&self.partitions.get(partition)?.load(), bucket)
    }

    /// Stores the repair of a bucket, one of `buckets` of its partition. One thread at a time.
    pub(crate) fn add(&self, partition: usize, buckets: usize, bucket: u32, repair: Repair) {
        let Some(place) = self.partitions.get(partition) else { return };
        let mut repairs = place.load().to_vec();
        let at = repairs.partition_point(|&packed| Repair::unpack(packed).0 < bucket);
        let packed = repair.pack(bucket);
        let max = (buckets / BUCKETS_PER_REPAIR).max(REPAIRS_MIN);
        match repairs.get(at).is_some_and(|&packed| Repair::unpack(packed).0 == bucket) {
            true => repairs[at] = packed,
            false => {
                repairs.insert(at, packed);
                if repairs.len() > max {
                    // Replaces an arbitrary other one; no caller controls its seed.
                    let goes = (packed as usize).wrapping_mul(0x9E37_79B9) % max;
                    repairs.remove(if goes < at { goes } else { goes + 1 });
                } else {
                    self.repairs.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        place.store(Arc::new(repairs.into()));
        self.has_any.store(true, Ordering::Release);
    }

    /// Number of repaired buckets.
    pub(crate) fn repairs(&self) -> usize {
        self.repairs.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM held.
    pub(crate) fn charge(&self) -> usize {
        size_of_val(&*self.partitions) + self.repairs() * size_of::<u64>()
    }

    /// All repairs, by partition.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, Arc<Repairs>)> {
        let of_partitions = self.partitions.iter().map(|repairs| repairs.load_full()).enumerate();
        of_partitions.filter(|(_, repairs)| !repairs.is_empty())
    }

    /// Restores repairs that [`Self::all`] returned in a previous run of the process, in ascending
    /// order of buckets, no bucket twice. Must be called before the first lookup.
    pub(crate) fn restore(&self, partition: usize, repairs: Vec<u64>) {
        let Some(place) = self.partitions.get(partition) else { return };
        let bucket = |packed: u64| Repair::unpack(packed).0;
        debug_assert!(
            repairs.is_sorted_by(|&one, &next| bucket(one) < bucket(next)),
            "repairs are found by halving"
        );
        self.repairs.fetch_add(repairs.len(), Ordering::Relaxed);
        place.store(Arc::new(repairs.into()));
        self.has_any.store(true, Ordering::Release);
    }
}

#[inline]
fn find(repairs: &[u64], bucket: u32) -> Option<Repair> {
    let at = repairs.partition_point(|&packed| Repair::unpack(packed).0 < bucket);
    let (found, repair) = Repair::unpack(*repairs.get(at)?);
    (found == bucket).then_some(repair)
}
