//! The share of the DRAM that flash takes. It follows the DRAM: a smaller cache has less of each
//! part, not only fewer objects.
//!
//! | part | size |
//! |---|---|
//! | write buffers | an eighth, in whole segments, 3 to 24 of each device; more if the largest object takes more and half of the DRAM has room for it |
//! | locations of records or hot entries, and pending changes of the index | a sixteenth, or as configured |
//! | filters, partitions and slots, the index of small objects, and a piece of a segment that is written | by the size of the devices |
//!
//! Pure.

use crate::entry::{Entry, RECORD_HEADER_BYTES, UNIT_BYTES};
use crate::error::{Error, Result};
use crate::options::{Expiry, KEY_BYTES_MAX, Options};
use crate::segment::buffer::Segment;
use crate::segment::layout::Layout;
use crate::segment::parts::PART_NAME;

/// One in this many bytes of the DRAM may be flash write buffers.
const BUFFERS_DRAM_DIVISOR: u64 = 8;
/// One being filled, one being written, and one more.
const BUFFERS_MIN: u64 = 3;
/// More would serve groups of objects that no workload has all at once.
const BUFFERS_MAX: u64 = 24;
/// The largest object may take write buffers up to one in this many bytes of the DRAM.
const OBJECT_BUFFERS_DRAM_DIVISOR: u64 = 2;
/// Buffers beside those of the largest object: one being filled, and one being written.
const BUFFERS_BESIDE_OBJECT: u64 = 2;
/// One in this many bytes of the DRAM is for locations or hot entries, and changes of the flash
/// index.
const INDEX_DRAM_DIVISOR: u64 = 16;
/// More index changes would only take longer to replay after a kill: with this many, pages of a
/// hundred million objects are written for about fifty changes at a time.
const CHANGES_MAX: u64 = 3 << 20;

/// Bytes of a part of an object beside its part of the value, at most.
const PART_OVERHEAD_BYTES: u64 =
    (RECORD_HEADER_BYTES + KEY_BYTES_MAX + PART_NAME + UNIT_BYTES) as u64;

/// More changes of one partition than that are slow to search.
const PARTITION_CHANGES_MAX: usize = 256;

/// The DRAM limits of a device, and how it makes room on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Segments in buffers, including those being written.
    pub(crate) buffers: usize,
    /// Of these, segments being filled.
    pub(crate) open: usize,
    /// Index changes that wait to be merged.
    pub(crate) changes: usize,
    /// Bytes of locations and hot entries.
    pub(crate) hot_bytes: usize,
    pub(crate) expiry: Expiry,
}

impl Limits {
    /// The limits of a device with this many partitions.
    pub(crate) fn within(self, partitions: usize) -> Self {
        Self { changes: self.changes.min(partitions * PARTITION_CHANGES_MAX), ..self }
    }
}

/// The DRAM that the flash of a tenant takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashDram {
    devices: u64,
    segment_bytes: u64,
    /// Of all devices, independent of the DRAM size.
    fixed_bytes: u64,
    /// The configured size of locations, hot entries and changes.
    index_bytes: Option<u64>,
    /// Buffers that take the largest object, and two more.
    object_buffers: u64,
    expiry: Expiry,
}

impl FlashDram {
    /// The share for the flash of these options.
    ///
    /// # Errors
    ///
    /// When there is too little DRAM for that flash: at least a quarter must remain for objects.
    pub(crate) fn of(options: &Options) -> Result<Self> {
        let mut of = Self {
            devices: options.flash.len() as u64,
            segment_bytes: 0,
            fixed_bytes: 0,
            index_bytes: options.index_bytes,
            object_buffers: 0,
            expiry: options.expiry,
        };
        for flash in &options.flash {
            let (average, bits) = (options.avg_object_bytes, options.fingerprint_bits);
            let layout = Layout::of(flash.bytes, average, options.segment_bytes, bits)?;
            of.segment_bytes = of.segment_bytes.max(u64::from(layout.segment_bytes));
            let piece_bytes = Segment::piece_bytes(layout.segment_bytes as usize);
            of.fixed_bytes += layout.index_bytes_max() + piece_bytes as u64;
        }
        if of.devices > 0 {
            let part_bytes = Segment::record_bytes_max(of.segment_bytes as usize) as u64;
            // A part has a header and a key too.
            let parts = options.object_bytes_max.div_ceil(part_bytes - PART_OVERHEAD_BYTES);
            of.object_buffers = parts + BUFFERS_BESIDE_OBJECT;
        }
        let bytes = of.bytes(options.dram_bytes);
        if bytes > options.dram_bytes / 4 * 3 {
            return Err(Error::invalid(format!(
                "{} flash devices need at least {} bytes of DRAM, for their index and their \
                 write buffers",
                of.devices,
                bytes.div_ceil(3) * 4
            )));
        }
        Ok(of)
    }

    /// The part of `dram_bytes` that flash takes, in bytes.
    pub fn bytes(&self, dram_bytes: u64) -> u64 {
        if self.devices == 0 {
            return 0;
        }
        let index_bytes = self.index_bytes(dram_bytes);
        self.buffers_bytes(self.buffers(dram_bytes)) + self.fixed_bytes + index_bytes
    }

    /// The part of `dram_bytes` that remains for objects, in bytes.
    pub fn objects_bytes(&self, dram_bytes: u64) -> u64 {
        dram_bytes.saturating_sub(self.bytes(dram_bytes))
    }

    /// The DRAM that flash takes even if none is for objects, in bytes.
    pub fn dram_bytes_min(&self) -> u64 {
        self.dram_bytes_for(0)
    }

    /// The least DRAM that leaves `objects_bytes` for objects, in bytes.
    pub fn dram_bytes_for(&self, objects_bytes: u64) -> u64 {
        if self.devices == 0 {
            return objects_bytes;
        }
        let with = |buffers: u64| {
            let bytes = objects_bytes + self.buffers_bytes(buffers) + self.fixed_bytes;
            match self.index_bytes {
                Some(index_bytes) => bytes + index_bytes,
                None => {
                    let of_divisor = u128::from(bytes) * u128::from(INDEX_DRAM_DIVISOR);
                    of_divisor.div_ceil(u128::from(INDEX_DRAM_DIVISOR) - 1) as u64
                }
            }
        };
        let has_no_more =
            |(buffers, dram_bytes): &(u64, u64)| self.buffers(*dram_bytes) <= *buffers;
        let most = BUFFERS_MAX.max(self.object_buffers);
        let mut all = (BUFFERS_MIN..=most).map(|buffers| (buffers, with(buffers)));
        all.find(has_no_more).map_or_else(|| with(most), |(_, bytes)| bytes)
    }

    /// The limits of each device with this DRAM size.
    pub(crate) fn limits(&self, dram_bytes: u64) -> Limits {
        let expiry = self.expiry;
        if self.devices == 0 {
            return Limits { buffers: 0, open: 0, changes: 0, hot_bytes: 0, expiry };
        }
        let (buffers, index_bytes) = (self.buffers(dram_bytes), self.index_bytes(dram_bytes));
        let changes_bytes = (index_bytes / 3).min(CHANGES_MAX * size_of::<Entry>() as u64);
        Limits {
            buffers: buffers as usize,
            open: (buffers - 1).min(buffers / 2 + 1) as usize,
            changes: (changes_bytes / self.devices / size_of::<Entry>() as u64) as usize,
            hot_bytes: ((index_bytes - changes_bytes) / self.devices) as usize,
            expiry,
        }
    }

    /// The segment size of all devices, or of the largest, in bytes.
    pub(crate) fn segment_bytes(&self) -> Option<u64> {
        (self.devices > 0).then_some(self.segment_bytes)
    }

    /// Write buffers of a device.
    fn buffers(&self, dram_bytes: u64) -> u64 {
        let within = |divisor: u64| dram_bytes / divisor / self.devices / self.segment_bytes;
        let buffers = within(BUFFERS_DRAM_DIVISOR).clamp(BUFFERS_MIN, BUFFERS_MAX);
        buffers.max(self.object_buffers.min(within(OBJECT_BUFFERS_DRAM_DIVISOR)))
    }

    fn buffers_bytes(&self, buffers: u64) -> u64 {
        buffers * self.devices * self.segment_bytes
    }

    fn index_bytes(&self, dram_bytes: u64) -> u64 {
        self.index_bytes.unwrap_or(dram_bytes / INDEX_DRAM_DIVISOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::FlashOptions;

    const MIB: u64 = 1 << 20;

    fn of(dram_mib: u64, devices: u64, index_bytes: Option<u64>) -> FlashDram {
        let flash = |_| FlashOptions { path: "flash".into(), bytes: 1 << 30 };
        let options = Options {
            dram_bytes: dram_mib * MIB,
            flash: (0..devices).map(flash).collect(),
            index_bytes,
            ..Options::default()
        };
        FlashDram::of(&options).expect("it fits")
    }

    #[test]
    fn smaller_dram_shrinks_every_part() {
        let flash = of(256, 1, None);
        // An eighth and a sixteenth, plus the fixed part of 1 GiB of objects of 4 KiB, and a piece of
        // a segment.
        let fixed = flash.bytes(256 * MIB) - 48 * MIB;
        assert!((MIB / 4..MIB).contains(&(fixed - MIB / 4)), "{fixed}");
        assert_eq!(flash.bytes(64 * MIB), 8 * MIB + 4 * MIB + fixed);
        assert_eq!(flash.bytes(16 * MIB), 6 * MIB + MIB + fixed);
        let limits = [256, 64, 16].map(|mib| flash.limits(mib * MIB));
        assert_eq!(limits.map(|limits| limits.buffers), [16, 4, 3]);
        assert_eq!(limits.map(|limits| limits.open), [9, 3, 2]);
        let index = limits.map(|it| it.changes * size_of::<Entry>() + it.hot_bytes);
        // Up to a fraction of an entry.
        assert!(index.iter().zip([16, 4, 1]).all(|(is, mib)| mib * MIB - (*is as u64) < 64));
        assert_eq!(of(256, 1, Some(5 * MIB)).bytes(16 * MIB), 6 * MIB + 5 * MIB + fixed);
        let none = of(256, 0, None);
        assert_eq!((none.bytes(256 * MIB), none.dram_bytes_for(7)), (0, 7));
    }

    #[test]
    fn buffers_take_the_largest_object_where_dram_has_room() {
        let flash = vec![FlashOptions { path: "flash".into(), bytes: 1 << 30 }];
        let buffers = |dram_mib: u64, object_mib: u64| {
            let (dram_bytes, object_bytes_max) = (dram_mib * MIB, object_mib * MIB);
            let flash = flash.clone();
            let options = Options { dram_bytes, flash, object_bytes_max, ..Options::default() };
            let of = FlashDram::of(&options).expect("it fits");
            (of.limits(dram_bytes).buffers as u64 * of.segment_bytes / MIB, of.segment_bytes / MIB)
        };
        assert_eq!(buffers(64, 1), (8, 2));
        // Five parts of 2 MiB, less a little, and two buffers.
        assert_eq!(buffers(64, 8), (14, 2));
        assert_eq!(buffers(64, 16), (22, 2));
        assert_eq!(buffers(1_024, 64), (70, 2));
    }

    #[test]
    fn dram_for_objects_is_sufficient_and_minimal() {
        for flash in [of(256, 1, None), of(256, 3, None), of(256, 1, Some(5 * MIB))] {
            let left = |dram_bytes: u64| flash.objects_bytes(dram_bytes);
            for objects in (0..2_000).map(|step| step * 300_007) {
                let dram = flash.dram_bytes_for(objects);
                assert!(left(dram) >= objects, "{flash:?}: {objects}");
                // With a little less it is too small, and not only just below.
                let less = [1, 1_000, MIB, 3 * MIB].map(|less| dram.saturating_sub(less));
                let has_too_little = |dram: &u64| left(*dram) <= objects;
                assert!(less.iter().all(has_too_little), "{flash:?}: {objects}, {dram}");
            }
        }
    }
}
