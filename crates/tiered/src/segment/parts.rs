//! Objects that are larger than a segment: their bytes are on flash in parts, each a record of its
//! own, and the record of the key is a head that names them.
//!
//! ```text
//! the head's value:
//! 0   8   id: a random number
//! 8   8   length of all parts together
//! 16  4   number of parts
//! the name of a part: the key, the id (8 bytes), the number of the part (4 bytes)
//! ```
//!
//! Values on flash: do not change. All numbers are little-endian.
//!
//! Parts of another state of the object have another id, so parts of two states are never combined.
//! It is enough to invalidate the head; parts without a head are dropped with their segments.
//!
//! Pure.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The names of an object's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// A random number, in the names of the parts.
    pub(crate) id: u64,
    /// The total length, in bytes.
    pub(crate) len: usize,
    pub(crate) count: u32,
}

/// The length of the suffix of a part's name: the id and the number.
pub(crate) const PART_NAME: usize = 12;

impl Parts {
    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(20);
        bytes.put_u64_le(self.id);
        bytes.put_u64_le(self.len as u64);
        bytes.put_u32_le(self.count);
        bytes.freeze()
    }

    /// The contents of a head, if they name at most `len_max` bytes.
    pub(crate) fn decode(mut bytes: &[u8], len_max: u64) -> Option<Self> {
        if bytes.len() != 20 {
            return None;
        }
        let (id, len, count) = (bytes.get_u64_le(), bytes.get_u64_le(), bytes.get_u32_le());
        let is_sound = len <= len_max && u64::from(count) <= len;
        is_sound.then_some(Self { id, len: len as usize, count })
    }

    pub(crate) fn name(&self, key: &[u8], number: u32) -> Vec<u8> {
        [key, &self.id.to_le_bytes(), &number.to_le_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_round_trips_and_part_names_are_unique() {
        let parts = Parts { id: 1 << 60, len: 1 << 33, count: 4_097 };
        assert_eq!(Parts::decode(&parts.encode(), 1 << 33), Some(parts));
        assert_eq!(Parts::decode(&parts.encode(), (1 << 33) - 1), None);
        assert_eq!(Parts::decode(&[0; 19], 1 << 33), None);
        let names = [(1, 0), (1, 1), (2, 0)]
            .map(|(id, number)| Parts { id, len: 1, count: 1 }.name(b"key", number));
        assert!(names[0] != names[1] && names[0] != names[2] && names[1] != names[2]);
        assert_eq!(names[0].len(), 3 + PART_NAME);
    }
}
