//! The input of a connection: parses requests from received bytes.
//!
//! Guarantees: a connection without an incomplete request holds no buffer; a buffer grows as bytes
//! arrive, within the budget of all connections. A request for which the budget has no room in time
//! is discarded, and the connection continues behind it.

use std::io;

use bytes::BytesMut;
use tidekv_net::budget::Reservation;
use tidekv_net::stream::{self, SCRATCH_BYTES, Stream};
use tokio::io::AsyncReadExt;

use crate::protocol::request::{Limits, Parsed, Parser, ProtocolError};

/// Bytes that each connection may buffer without a reservation, and reads at a time while others
/// wait for memory: common requests and replies are shorter.
pub(crate) const FREE_BYTES: usize = 4 << 10;

/// Bytes received and not yet parsed.
#[derive(Debug)]
pub(crate) struct Input {
    buffer: BytesMut,
    parser: Parser,
    reservation: Reservation,
}

impl Input {
    pub(crate) fn new(reservation: Reservation) -> Self {
        Self { buffer: BytesMut::new(), parser: Parser::default(), reservation }
    }

    /// The next complete request.
    pub(crate) fn next(&mut self, limits: Limits) -> Result<Option<Parsed>, ProtocolError> {
        self.parser.next(&mut self.buffer, limits)
    }

    /// Waits for more bytes and returns their number, 0 at the end of the stream. Cancellation
    /// loses no bytes. All complete requests must have been taken and executed: their memory is no
    /// longer reserved, and only an incomplete one is in the buffer.
    ///
    /// # Errors
    ///
    /// Errors of the stream, and [`io::ErrorKind::OutOfMemory`] if the budget has no room for an
    /// inline command.
    pub(crate) async fn fill(&mut self, stream: &mut dyn Stream) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        self.reservation.shrink_to(self.bytes_held());
        // A large value is read into its final place. Doubling bounds the copying, and the buffer
        // to twice the received bytes.
        let wanted = self.parser.wanted_bytes(self.buffer.len());
        let spare = self.buffer.capacity() - self.buffer.len();
        let is_short = wanted > SCRATCH_BYTES && spare < SCRATCH_BYTES;
        let step = if is_short { wanted.min(self.buffer.len().max(SCRATCH_BYTES)) } else { 0 };
        self.reserve_or_discard(step).await?;
        // Again: it may have been discarded.
        if self.parser.wanted_bytes(self.buffer.len()) <= SCRATCH_BYTES {
            // If there is no memory, a connection takes no more than is free.
            let budget = self.reservation.budget();
            let has_room = || budget.has_room_for(2 * SCRATCH_BYTES);
            let bytes_max = || if has_room() { SCRATCH_BYTES } else { FREE_BYTES / 2 };
            let buffer = &mut self.buffer;
            let count = stream::read(stream, bytes_max, |b| buffer.extend_from_slice(b)).await?;
            self.reservation.try_grow_to(self.bytes_held());
            return Ok(count);
        }
        self.buffer.reserve(step);
        stream.read_buf(&mut self.buffer).await
    }

    /// The memory that the incomplete request takes: its buffer, and the writes that will be made
    /// of it.
    fn bytes_held(&self) -> usize {
        2 * self.buffer.len() + self.parser.overhead_bytes()
    }

    /// Reserves memory for the incomplete request with `more` bytes. Discards it if there is none
    /// in time.
    async fn reserve_or_discard(&mut self, more: usize) -> io::Result<()> {
        let bytes = self.bytes_held() + 2 * more;
        if !self.reservation.grow_to(bytes).await {
            if !self.parser.discard(&mut self.buffer) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.reservation.shrink_to(0);
        }
        Ok(())
    }
}
