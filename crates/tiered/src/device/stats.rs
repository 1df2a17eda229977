//! The counters of a flash device.

use crate::stats::Counter;

/// Defines the counters and their public snapshot in one list.
macro_rules! counters {
    ($($(#[$about:meta])+ $name:ident,)+) => {
        /// The counters of a device.
        #[derive(Debug, Default)]
        pub(crate) struct DeviceCounters {
            $(pub(crate) $name: Counter,)+
        }

        /// The counters of a flash device since it was opened.
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
    /// Index pages read for lookups.
    index_reads,
    /// Of these, reads for absent keys.
    index_reads_of_misses,
    /// Records, and buckets of small objects, read.
    object_reads,
    /// Of these, reads for absent keys: of other keys' and of expired objects.
    object_reads_of_misses,
    /// Lookups that found a record in a write buffer.
    buffer_hits,
    /// Lookups that found a record.
    hits,
    /// Lookups on the device that found no record, with or without a read.
    misses,
    /// Records read that belonged to another key, and buckets read that did not have the key.
    collisions,
    /// Expired records read.
    expired,
    /// Damaged records and pages.
    damaged,
    /// Operations that failed.
    errors,
    /// Bytes read.
    read_bytes,
    /// Objects written.
    objects_written,
    /// Bytes of their keys and values.
    object_bytes_written,
    /// Bytes of segments written, including overhead.
    segment_bytes_written,
    /// Bytes of index pages written.
    page_bytes_written,
    /// Bytes of other metadata written.
    metadata_bytes_written,
    /// Objects rejected because no write buffer was free.
    bypassed,
    /// Objects rejected because they were too large.
    too_large,
    /// Objects rejected because the write budget was exhausted.
    over_budget,
    /// Invalidations logged.
    invalidations,
    /// Records lost because their index page was full.
    displaced,
    /// Pages merged with their changes.
    merges,
    /// Pages that could not be read, and were replaced by empty ones.
    lost_pages,
    /// Segments dropped because their records had expired.
    segments_expired,
    /// Segments evicted to make room.
    segments_evicted,
    /// Segments that could not be written.
    segments_lost,
    /// Bytes of records dropped before their deadlines with their segments' group, approximately.
    bytes_expired_early,
    /// Times that the device was cleared because the log of invalidations was full.
    overflows,
}
