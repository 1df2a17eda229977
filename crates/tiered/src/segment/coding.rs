//! Numbers and checksums in the small fixed layouts of the device's metadata.
//!
//! A [`Writer`] fills a block front to back, a [`Reader`] reads the same numbers; the contents of a
//! block are encoded once, in the order of its table. All numbers are little-endian. The first
//! eight bytes are an XXH3 of the rest, seeded with the device, so that a block of another device
//! is not taken for this one's.
//!
//! Pure.

use xxhash_rust::xxh3::xxh3_64_with_seed;

const CHECKSUM_BYTES: usize = 8;

/// Fills a block of `N` bytes.
pub(crate) struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    /// An empty block; unwritten bytes are zero.
    pub(crate) fn new() -> Self {
        Self { bytes: [0; N], at: CHECKSUM_BYTES }
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    pub(crate) fn u32(self, number: u32) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub(crate) fn u64(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// The block with its checksum.
    pub(crate) fn seal(mut self, device: u64) -> [u8; N] {
        let checksum = xxh3_64_with_seed(&self.bytes[CHECKSUM_BYTES..], device);
        self.bytes[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
        self.bytes
    }
}

/// Reads numbers from a block.
#[derive(Debug)]
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    /// The numbers of a block, if its checksum is right.
    pub(crate) fn open(block: &'b [u8], device: u64) -> Option<Self> {
        let (checksum, bytes) = block.split_first_chunk::<CHECKSUM_BYTES>()?;
        (u64::from_le_bytes(*checksum) == xxh3_64_with_seed(bytes, device))
            .then_some(Self { bytes })
    }

    /// The next `N` bytes.
    ///
    /// # Panics
    ///
    /// When the block has no more: its size is a constant that its writer has filled as well.
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (bytes, rest) = self.bytes.split_first_chunk::<N>().expect("a block is as written");
        self.bytes = rest;
        *bytes
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_round_trips_only_on_its_device() {
        let mut block = Writer::<64>::new().u64(1).u32(2).bytes(b"abc").seal(5);
        let mut reader = Reader::open(&block, 5).expect("it is whole");
        assert_eq!((reader.u64(), reader.u32(), reader.bytes::<3>()), (1, 2, *b"abc"));
        assert!(Reader::open(&block, 6).is_none());
        block[63] ^= 1;
        assert!(Reader::open(&block, 5).is_none());
        assert!(Reader::open(&[0; 7], 5).is_none());
    }
}
