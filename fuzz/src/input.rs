//! Reads a fuzzer's bytes as a program: small numbers and byte strings, zeros at the end of the
//! input.

/// The remaining bytes.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// At most `len` bytes.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A byte string whose length, below `len_end`, is its first byte.
    pub fn bytes(&mut self, len_end: u8) -> &'a [u8] {
        let len = self.u8() % len_end;
        self.take(usize::from(len))
    }
}
