//! Bytes on their way to a socket, in pieces.
//!
//! Guarantees: what is put in comes out in the same order; a large value is not copied, the
//! buffer holds on to its bytes; an empty buffer holds next to no memory.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

/// A value from this size on is handed to the socket as it is. Smaller ones
/// cost less copied than as a write of their own.
pub(crate) const UNCOPIED_BYTES_MIN: usize = 16 << 10;

/// What a connection keeps of its buffer when all is sent: most replies are
/// short, and ten thousand idle clients hold a few megabytes.
const TAIL_BYTES_KEPT: usize = 512;

/// Bytes that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pieces: VecDeque<Bytes>,
    pieces_bytes: usize,
    tail: Vec<u8>,
    /// Bytes of the tail that have been sent, while there are no pieces.
    tail_sent: usize,
}

impl Outgoing {
    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.pieces_bytes + self.tail.len() - self.tail_sent
    }

    /// What is to be sent next; empty when nothing waits.
    pub(crate) fn front(&self) -> &[u8] {
        match self.pieces.front() {
            Some(piece) => piece,
            None => &self.tail[self.tail_sent..],
        }
    }

    /// So many bytes of [`Outgoing::front`] have been sent.
    pub(crate) fn advance(&mut self, bytes: usize) {
        match self.pieces.front_mut() {
            None => self.tail_sent += bytes,
            Some(piece) => {
                self.pieces_bytes -= bytes;
                piece.advance(bytes);
                if piece.is_empty() {
                    self.pieces.pop_front();
                }
            }
        }
    }

    /// Gives up the memory, but for a little; for a client that falls idle.
    pub(crate) fn shrink(&mut self) {
        debug_assert_eq!(self.len(), 0, "nothing is thrown away");
        self.pieces = VecDeque::new();
        self.tail.clear();
        self.tail_sent = 0;
        self.tail.shrink_to(TAIL_BYTES_KEPT);
    }

    /// Puts bytes behind what is there.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// The same with bytes that live on by themselves, and are not copied if they are many.
    pub(crate) fn put_value(&mut self, bytes: &Bytes) {
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

    #[test]
    fn what_is_sent_in_part_stays_in_order() {
        let value = Bytes::from(vec![b'x'; UNCOPIED_BYTES_MIN]);
        let mut buffer = Outgoing::default();
        buffer.put(b"one");
        buffer.advance(1);
        buffer.put(b" two ");
        buffer.put_value(&value);
        buffer.put_value(&Bytes::from_static(b"three"));
        assert_eq!(buffer.len(), "ne two three".len() + value.len());
        assert_eq!(buffer.front(), b"ne two ");
        buffer.advance(7);
        assert_eq!(buffer.front().as_ptr(), value.as_ptr());
        buffer.advance(value.len());
        assert_eq!(buffer.front(), b"three");
        buffer.advance(5);
        assert_eq!((buffer.len(), buffer.front()), (0, &b""[..]));
        buffer.shrink();
    }
}
