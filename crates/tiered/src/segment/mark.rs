//! The mark at the start of a data file: it identifies the metadata that belongs to it.
//!
//! ```text
//! OFFSET  SIZE  MEANING
//! 0       8     checksum (`coding.rs`, seeded with 0)
//! 8       8     magic number, with the version of the format
//! 16      8     the device
//! 24      8     the session: one more each time that the device is opened
//! 32      4064  zero
//! ```
//!
//! Values on flash: do not change.
//!
//! The metadata of a device that is a file is in a file of its own ([`crate::device::recovery`]),
//! and a restore from a copy may replace only one of the two. Older metadata with newer data would
//! present overwritten records as live; so the superblock has the session, and the mark is written
//! after it whenever the device is opened: metadata with an earlier session than the mark's no
//! longer belongs to the device.
//!
//! Pure.

use crate::segment::coding::{Reader, Writer};
use crate::segment::layout::BLOCK_BYTES;
use crate::segment::superblock::Superblock;

/// The size of a mark.
pub(crate) const MARK_BYTES: usize = BLOCK_BYTES as usize;

/// "TIDEMRK" and version 1.
const MAGIC: u64 = 0x5449_4445_4D52_4B01;

/// A mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    device: u64,
    session: u64,
}

impl Mark {
    /// The mark that belongs to a superblock.
    pub(crate) fn of(superblock: &Superblock) -> Self {
        Self { device: superblock.device, session: superblock.session }
    }

    /// Whether metadata that begins with that superblock belongs to the device. One of a later
    /// session does: a process was killed before it could mark the device, and had done nothing
    /// yet.
    pub(crate) fn allows(self, superblock: &Superblock) -> bool {
        self.device == superblock.device && self.session <= superblock.session
    }

    pub(crate) fn encode(self) -> [u8; MARK_BYTES] {
        Writer::new().u64(MAGIC).u64(self.device).u64(self.session).seal(0)
    }

    pub(crate) fn decode(block: &[u8]) -> Option<Self> {
        let mut reader = Reader::open(block, 0)?;
        (block.len() == MARK_BYTES && reader.u64() == MAGIC)
            .then(|| Self { device: reader.u64(), session: reader.u64() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Membership;
    use crate::segment::layout::Layout;

    fn superblock(device: u64, session: u64) -> Superblock {
        let layout = Layout::of(64 << 20, 4096, None, 40).expect("it is large enough");
        let fresh = Superblock::fresh(device, layout, 3, Membership::new(7, 1));
        Superblock { session, ..fresh }
    }

    #[test]
    fn mark_refuses_metadata_of_earlier_session_or_other_device() {
        let mark = Mark::of(&superblock(5, 7));
        assert!(mark.allows(&superblock(5, 7)) && mark.allows(&superblock(5, 8)));
        assert!(!mark.allows(&superblock(5, 6)) && !mark.allows(&superblock(6, 7)));
    }

    #[test]
    fn round_trips_whole_or_not_at_all() {
        let mark = Mark::of(&superblock(5, 7));
        let block = mark.encode();
        assert_eq!(Mark::decode(&block), Some(mark));
        for at in (0..MARK_BYTES).step_by(7) {
            let mut damaged = block;
            damaged[at] ^= 4;
            assert_eq!(Mark::decode(&damaged), None, "byte {at}");
        }
        assert_eq!(Mark::decode(&[0; MARK_BYTES]), None);
    }
}
