//! The superblock: the identity of a device, and the start of the metadata that counts.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       8     checksum (`coding.rs`, seeded with 0)
//! 8       8     magic number, with the version of the format
//! 16      8     the device: a random number
//! 24      8     generation: one more than the superblock's that it replaces
//! 32      28    layout: bytes (8), segment bytes, slots, partitions, invalidations,
//!               fingerprint bits (4 each)
//! 60      8     the session: how often the device has been opened (`mark.rs`)
//! 68      16    the boot of the machine in which it was written
//! 84      4     1: the device was closed cleanly, and synced
//! 88      8     operations up to this sequence are in pages or obsolete
//! 96      8     the first invalidation that counts
//! 104     8     segments opened before this one are dropped
//! 112     8     no version of an object is above this
//! 120     4     the second of a pending clear; 2^32 - 1: none
//! 124     4     of the layout: chunks of the index of small objects
//! 128     2068  membership (`membership.rs`)
//! 2196    8     tenants of the cache at its last opening: a hash
//! 2204    8     a random number, of that opening of the whole cache
//! 2212    8     order of the newest segment of small objects whose tombstones are no longer in the
//!               log; 0: none
//! ```
//!
//! Values on flash: do not change. It is stored in two places that alternate, so that one is intact
//! whatever happens while the other is written. Pure.

use crate::membership::{MEMBERSHIP_BYTES, Membership};
use crate::segment::coding::{Reader, Writer};
use crate::segment::layout::{Layout, SUPERBLOCK_BYTES};

/// "TIDEFLS" and version 3. Versions before, which were never released, had no small objects.
const MAGIC: u64 = 0x5449_4445_464C_5303;
/// The bytes of the magic number that no version changes.
const MAGIC_BYTES: usize = 7;
const _: () = assert!(128 + MEMBERSHIP_BYTES == 2196 && 2220 <= SUPERBLOCK_BYTES);

/// An opening of the whole cache, and its tenants. If one of the devices was absent at the last
/// opening, or the tenants differed, no device is trusted: keys may have belonged to other tenants
/// since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Opening {
    /// A hash of names and prefixes.
    pub(crate) tenants: u64,
    /// A random number.
    pub(crate) number: u64,
}

/// A superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) device: u64,
    pub(crate) generation: u64,
    pub(crate) layout: Layout,
    pub(crate) session: u64,
    /// The boot of the machine in which it was written: unsynced data survives in that only.
    pub(crate) boot: u128,
    pub(crate) is_closed: bool,
    pub(crate) replay_from: u64,
    pub(crate) first_invalidation: u64,
    pub(crate) first_segment: u64,
    pub(crate) version_max: u64,
    pub(crate) clear_at_s: u32,
    pub(crate) membership: Membership,
    pub(crate) opening: Opening,
    /// The order of the newest whole segment of small objects when the log was last cut.
    pub(crate) small_newest: u64,
}

/// No clear is pending.
pub(crate) const NO_TIME: u32 = u32::MAX;

impl Superblock {
    /// Whether the bytes begin as a superblock does, damaged or not.
    pub(crate) fn is_begun(bytes: &[u8]) -> bool {
        let (magic, ours) = (bytes.get(9..16), &MAGIC.to_le_bytes()[8 - MAGIC_BYTES..]);
        magic.is_some_and(|magic| magic == ours)
    }

    /// The superblock of a device that begins empty, as a member of `membership`.
    pub(crate) fn fresh(device: u64, layout: Layout, boot: u128, membership: Membership) -> Self {
        Self {
            device,
            generation: 1,
            layout,
            session: 1,
            boot,
            is_closed: false,
            replay_from: 0,
            first_invalidation: 0,
            first_segment: 0,
            version_max: 0,
            clear_at_s: NO_TIME,
            membership,
            opening: Opening::default(),
            small_newest: 0,
        }
    }

    pub(crate) fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let layout = &self.layout;
        Writer::new()
            .u64(MAGIC)
            .u64(self.device)
            .u64(self.generation)
            .u64(layout.bytes)
            .u32(layout.segment_bytes)
            .u32(layout.slots)
            .u32(layout.partitions)
            .u32(layout.invalidations)
            .u32(layout.fingerprint_bits)
            .u64(self.session)
            .bytes(&self.boot.to_le_bytes())
            .u32(self.is_closed.into())
            .u64(self.replay_from)
            .u64(self.first_invalidation)
            .u64(self.first_segment)
            .u64(self.version_max)
            .u32(self.clear_at_s)
            .u32(layout.small_chunks)
            .bytes(&self.membership.encode())
            .u64(self.opening.tenants)
            .u64(self.opening.number)
            .u64(self.small_newest)
            .seal(0)
    }

    pub(crate) fn decode(block: &[u8]) -> Option<Self> {
        let mut reader = Reader::open(block, 0)?;
        if block.len() != SUPERBLOCK_BYTES || reader.u64() != MAGIC {
            return None;
        }
        let (device, generation) = (reader.u64(), reader.u64());
        let mut layout = Layout {
            bytes: reader.u64(),
            segment_bytes: reader.u32(),
            slots: reader.u32(),
            partitions: reader.u32(),
            invalidations: reader.u32(),
            fingerprint_bits: reader.u32(),
            small_chunks: 0,
        };
        let (session, boot) = (reader.u64(), u128::from_le_bytes(reader.bytes()));
        let is_closed = reader.u32() == 1;
        let (replay_from, first_invalidation) = (reader.u64(), reader.u64());
        let (first_segment, version_max) = (reader.u64(), reader.u64());
        let clear_at_s = reader.u32();
        layout.small_chunks = reader.u32();
        Some(Self {
            device,
            generation,
            layout,
            session,
            boot,
            is_closed,
            replay_from,
            first_invalidation,
            first_segment,
            version_max,
            clear_at_s,
            membership: Membership::decode(&reader.bytes()),
            opening: Opening { tenants: reader.u64(), number: reader.u64() },
            small_newest: reader.u64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_whole_or_not_at_all() {
        let superblock = Superblock {
            device: 1,
            generation: 2,
            layout: Layout::of(64 << 20, 4096, None, 40).expect("it is large enough"),
            session: 9,
            boot: 3,
            is_closed: true,
            replay_from: 4,
            first_invalidation: 5,
            first_segment: 6,
            version_max: 7,
            clear_at_s: 8,
            membership: Membership::new(7, 5),
            opening: Opening { tenants: 10, number: 11 },
            small_newest: 12,
        };
        let block = superblock.encode();
        assert_eq!(Superblock::decode(&block), Some(superblock));
        for at in (0..SUPERBLOCK_BYTES).step_by(13) {
            let mut damaged = block;
            damaged[at] ^= 4;
            assert_eq!(Superblock::decode(&damaged), None, "byte {at}");
        }
        assert_eq!(Superblock::decode(&[0; SUPERBLOCK_BYTES]), None);
    }

    #[test]
    fn superblock_of_any_version_is_recognised() {
        let mut block = Superblock::fresh(
            1,
            Layout::of(64 << 20, 4096, None, 40).expect("it is large enough"),
            3,
            Membership::new(7, 5),
        )
        .encode();
        assert!(Superblock::is_begun(&block));
        block[8] ^= 1;
        assert!(Superblock::is_begun(&block) && Superblock::decode(&block).is_none());
        block[15] ^= 1;
        assert!(!Superblock::is_begun(&block) && !Superblock::is_begun(&block[..12]));
    }
}
