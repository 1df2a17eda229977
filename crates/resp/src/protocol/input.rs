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

/// Bytes that a connection reads at a time while others wait for memory.
const FREE_BYTES: usize = 4 << 10;

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
    /// loses no bytes. All requests returned earlier must have been executed: their memory is no
    /// longer reserved.
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
        let wanted = self.parser.wanted_bytes(self.buffer.len());
        if wanted <= SCRATCH_BYTES {
            // While others wait for memory, a connection takes no more of it than is free.
            let is_exhausted = self.reservation.budget().is_exhausted();
            let bytes_max = if is_exhausted { FREE_BYTES } else { SCRATCH_BYTES };
            let buffer = &mut self.buffer;
            let count = stream::read(stream, bytes_max, |b| buffer.extend_from_slice(b)).await?;
            return self.reserve_or_discard(0).await.map(|()| count);
        }
        // A large value is read into its final place. Doubling bounds the copying, and the buffer
        // to twice the received bytes.
        let step = wanted.min(self.buffer.len().max(SCRATCH_BYTES));
        let spare = self.buffer.capacity() - self.buffer.len();
        let is_short = spare < SCRATCH_BYTES.min(step);
        self.reserve_or_discard(if is_short { step } else { 0 }).await?;
        if self.parser.wanted_bytes(self.buffer.len()) == 0 {
            // It was discarded: read on into the scratch buffer.
            let buffer = &mut self.buffer;
            return stream::read(stream, FREE_BYTES, |b| buffer.extend_from_slice(b)).await;
        }
        if is_short {
            self.buffer.reserve(step);
        }
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
