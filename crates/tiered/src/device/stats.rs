//! What a flash device counts.

use crate::stats::Counter;

/// Defines the counters and what they look like from outside, in one list.
macro_rules! counters {
    ($($(#[$about:meta])+ $name:ident,)+) => {
        /// The counters of a device.
        #[derive(Debug, Default)]
        pub(crate) struct DeviceCounters {
            $(pub(crate) $name: Counter,)+
        }

        /// What a flash device has counted since it was opened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct DeviceCounts {
            $($(#[$about])+ pub $name: u64,)+
        }

        impl DeviceCounters {
            pub(crate) fn get(&self) -> DeviceCounts {
                DeviceCounts { $($name: self.$name.get(),)+ }
            }
        }
    };
}

counters! {
    /// Pages of the index read for lookups.
    index_reads,
    /// Of these, how many for keys that were not there.
    index_reads_of_misses,
    /// Records read.
    object_reads,
    /// Of these, how many for keys that were not there: collisions, and what had expired.
    object_reads_of_misses,
    /// Lookups that found a record which was still in a write buffer.
    buffer_hits,
    /// Lookups that found a record.
    hits,
    /// Lookups that went to the device, or would have, and found none.
    misses,
    /// Records read that were another key's.
    collisions,
    /// Records read after their deadlines.
    expired,
    /// Records and pages that were damaged.
    damaged,
    /// Operations that the device failed.
    errors,
    /// Bytes read.
    read_bytes,
    /// Objects written.
    objects_written,
    /// Bytes of their keys and values.
    object_bytes_written,
    /// Bytes of segments written, with all that is around objects.
    segment_bytes_written,
    /// Bytes of pages of the index written.
    page_bytes_written,
    /// Bytes of other metadata written.
    metadata_bytes_written,
    /// Objects that were not taken because no write buffer was free.
    bypassed,
    /// Objects that were not taken because they were too large.
    too_large,
    /// Objects that were not taken because too much had been written lately.
    over_budget,
    /// Invalidations logged.
    invalidations,
    /// Records lost because their page of the index was full.
    displaced,
    /// Pages merged with their changes.
    merges,
    /// Pages that could not be read, and were begun anew.
    lost_pages,
    /// Segments that went because their records' time was over.
    segments_expired,
    /// Segments that went to make room.
    segments_evicted,
    /// Segments that could not be written.
    segments_lost,
    /// Bytes of records that went before their deadlines with their segments' group, about.
    bytes_expired_early,
    /// Times that everything was forgotten because the log of invalidations was full.
    overflows,
}
