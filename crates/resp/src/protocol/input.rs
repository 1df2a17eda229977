//! The input of a connection: parses requests from received bytes.
//!
//! Guarantees: a connection without an incomplete request holds no buffer; a buffer grows as bytes
//! arrive, within the budget of all connections.

use std::io;

use bytes::BytesMut;
use tidekv_net::budget::Reservation;
use tidekv_net::stream::{self, SCRATCH_BYTES, Stream};
use tokio::io::AsyncReadExt;

use crate::protocol::request::{Arguments, Limits, Parser, ProtocolError};

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
    pub(crate) fn next(&mut self, limits: Limits) -> Result<Option<Arguments>, ProtocolError> {
        self.parser.next(&mut self.buffer, limits)
    }

    /// Waits for more bytes and returns their number, 0 at the end of the stream. Cancellation
    /// loses no bytes. All requests returned earlier must have been executed: their memory is no
    /// longer reserved.
    ///
    /// # Errors
    ///
    /// Errors of the stream, and [`io::ErrorKind::OutOfMemory`] if the budget has no room.
    pub(crate) async fn fill(&mut self, stream: &mut dyn Stream) -> io::Result<usize> {
        self.reservation.shrink_to(self.buffer.len());
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        let wanted = self.parser.wanted_bytes(self.buffer.len());
        if wanted <= SCRATCH_BYTES {
            let count = stream::read(stream, |bytes| self.buffer.extend_from_slice(bytes)).await?;
            return self.reserve(self.buffer.len()).await.map(|()| count);
        }
        // A large value is read into its final place. Doubling bounds the copying, and the buffer
        // to twice the received bytes.
        let step = wanted.min(self.buffer.len().max(SCRATCH_BYTES));
        self.reserve(self.buffer.len() + step).await?;
        if self.buffer.capacity() - self.buffer.len() < SCRATCH_BYTES.min(step) {
            self.buffer.reserve(step);
        }
        stream.read_buf(&mut self.buffer).await
    }

    async fn reserve(&mut self, bytes: usize) -> io::Result<()> {
        match self.reservation.grow_to(bytes).await {
            true => Ok(()),
            false => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }
}
