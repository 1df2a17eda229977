//! [`BlockHandle`]: the position of a block in its file.
//!
//! ```text
//! SIZE    MEANING
//! varint  offset in the file
//! varint  bytes on disk, trailer included
//! ```

use crate::format::coding::{Reader, put_varint};

/// The position of a block in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct BlockHandle {
    pub(crate) offset: u64,
    /// Bytes on disk, trailer included; 0 means "no such block".
    pub(crate) len: u32,
}

impl BlockHandle {
    /// The offset of the first byte after the block.
    pub(crate) fn end(self) -> u64 {
        self.offset + u64::from(self.len)
    }

    pub(crate) fn is_none(self) -> bool {
        self.len == 0
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.len));
    }

    /// Takes a handle off untrusted bytes; its end does not overflow.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let offset = reader.varint()?;
        let len = u32::try_from(reader.varint()?).ok()?;
        offset.checked_add(u64::from(len))?;
        Some(Self { offset, len })
    }
}
