//! Output buffer of a socket, in pieces.
//!
//! Guarantees: bytes are sent in the order in which they were added; large values are not copied
//! but referenced; an empty buffer uses almost no memory.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// Values of at least this size are passed to the socket without a copy. For smaller ones a copy
/// is cheaper than a write of their own.
pub const UNCOPIED_BYTES_MIN: usize = 16 << 10;

/// Bytes of the buffer that a connection keeps when everything is sent: most replies are short,
/// and ten thousand idle clients hold a few megabytes.
const TAIL_BYTES_KEPT: usize = 512;

/// Bytes to be sent.
#[derive(Debug, Default)]
pub struct Outgoing {
    pieces: VecDeque<Bytes>,
    pieces_bytes: usize,
    tail: Vec<u8>,
    /// Bytes of the tail that have been sent, while there are no pieces.
    tail_sent: usize,
}

impl Outgoing {
    /// Number of bytes to be sent.
    pub fn len(&self) -> usize {
        self.pieces_bytes + self.tail.len() - self.tail_sent
    }

    /// Whether there are no bytes to be sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills the front of `slices` with the next bytes to be sent, and returns the number of slices
    /// filled.
    pub fn front<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let tail = &self.tail[self.tail_sent..];
        let pieces = self.pieces.iter().map(|piece| &piece[..]);
        let all = pieces.chain([tail]).filter(|piece| !piece.is_empty());
        let places = slices.iter_mut().zip(all);
        places.map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    /// Removes `bytes` bytes that have been sent.
    pub fn advance(&mut self, mut bytes: usize) {
        while let Some(piece) = self.pieces.front_mut() {
            let count = bytes.min(piece.len());
            self.pieces_bytes -= count;
            piece.advance(count);
            bytes -= count;
            if !piece.is_empty() {
                return;
            }
            self.pieces.pop_front();
        }
        self.tail_sent += bytes;
    }

    /// Frees most of the memory, for a client that becomes idle.
    pub fn shrink(&mut self) {
        debug_assert_eq!(self.len(), 0, "nothing is thrown away");
        self.pieces = VecDeque::new();
        self.tail.clear();
        self.tail_sent = 0;
        self.tail.shrink_to(TAIL_BYTES_KEPT);
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Appends shared bytes, without a copy if there are at least [`UNCOPIED_BYTES_MIN`].
    pub fn put_value(&mut self, bytes: &Bytes) {
        if bytes.len() >= UNCOPIED_BYTES_MIN {
            self.seal_tail();
            self.pieces_bytes += bytes.len();
            self.pieces.push_back(bytes.clone());
        } else {
            self.tail.extend_from_slice(bytes);
        }
    }

    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            let mut piece = Bytes::from(std::mem::take(&mut self.tail));
            piece.advance(std::mem::take(&mut self.tail_sent));
            if !piece.is_empty() {
                self.pieces_bytes += piece.len();
                self.pieces.push_back(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(buffer: &Outgoing) -> Vec<Vec<u8>> {
        let mut slices = [IoSlice::new(b""); 8];
        let count = buffer.front(&mut slices);
        slices[..count].iter().map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn partial_writes_keep_the_order() {
        let value = Bytes::from(vec![b'x'; UNCOPIED_BYTES_MIN]);
        let mut buffer = Outgoing::default();
        assert!(pieces(&buffer).is_empty());
        buffer.put(b"one");
        buffer.advance(1);
        buffer.put(b" two ");
        buffer.put_value(&value);
        buffer.put_value(&Bytes::from_static(b"three"));
        assert_eq!(buffer.len(), "ne two three".len() + value.len());
        assert_eq!(pieces(&buffer), [b"ne two ", &value[..], b"three"]);
        let mut slices = [IoSlice::new(b""); 2];
        assert_eq!(buffer.front(&mut slices), 2);
        assert_eq!(slices[1].as_ptr(), value.as_ptr(), "it is not copied");
        buffer.advance(8);
        assert_eq!(pieces(&buffer), [&value[1..], b"three"]);
        buffer.advance(value.len());
        assert_eq!(pieces(&buffer), [b"hree"]);
        buffer.advance(4);
        assert_eq!((buffer.len(), pieces(&buffer).len()), (0, 0));
        buffer.shrink();
    }

    #[test]
    fn a_sent_tail_leaves_no_piece() {
        let value = Bytes::from(vec![b'x'; UNCOPIED_BYTES_MIN]);
        let mut buffer = Outgoing::default();
        buffer.put(b"one");
        buffer.advance(3);
        buffer.put_value(&value);
        assert_eq!(pieces(&buffer), [&value[..]]);
    }
}
