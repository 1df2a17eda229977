//! Little-endian integers and LEB128 varints, and [`Reader`], which takes them
//! from untrusted bytes: it never panics and never allocates.

/// No counter of a store reaches this value (sequences, file numbers, entries): at 10⁹ increments a
/// second it takes a year. A file with a larger number is damaged; this check keeps code that
/// increments a number from a file in range.
pub(crate) const COUNT_MAX: u64 = 1 << 55;

/// Appends `value` as a LEB128 varint (1–10 bytes).
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `bytes` after their length as a varint.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes values off the front of a byte string; `None` when the string is too short or malformed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(len)?;
        self.rest = tail;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = *self.rest.first()?;
        if first < 0x80 {
            self.rest = &self.rest[1..];
            return Some(u64::from(first));
        }
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().enumerate().take(10) {
            let low = u64::from(byte & 0x7f);
            if i == 9 && byte > 1 {
                return None;
            }
            value |= low << (7 * i);
            if byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Some(value);
            }
        }
        None
    }

    /// A varint that must fit into `usize`.
    pub(crate) fn varint_usize(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    /// A byte string behind its varint length.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.varint_usize()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_overlong_ones_are_refused() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.varint(), Some(value));
            assert!(reader.is_empty());
            for cut in 0..out.len() {
                assert_eq!(Reader::new(&out[..cut]).varint(), None);
            }
        }
        assert_eq!(Reader::new(&[0xff; 10]).varint(), None);
        assert_eq!(Reader::new(&[0x80; 11]).varint(), None);
    }

    #[test]
    fn byte_strings_never_read_past_the_end() {
        let mut out = Vec::new();
        put_bytes(&mut out, b"abc");
        assert_eq!(Reader::new(&out).bytes(), Some(&b"abc"[..]));
        assert_eq!(Reader::new(&out[..3]).bytes(), None);
        let mut huge = Vec::new();
        put_varint(&mut huge, u64::MAX);
        assert_eq!(Reader::new(&huge).bytes(), None);
    }
}
