//! The calls between `MULTI` and `EXEC`.
//!
//! Guarantees: a queue is bounded like a single request and counts against the
//! budget of all connections; it keeps no more memory than its own words.

use bytes::Bytes;
use tidekv_net::budget::Reservation;

use crate::commands::command::Call;
use crate::protocol::reply::CommandError;

/// A `MULTI` in progress.
#[derive(Debug)]
pub(crate) struct Queue {
    calls: Vec<Call>,
    bytes: usize,
    bytes_max: usize,
    reservation: Reservation,
    is_aborted: bool,
}

impl Queue {
    pub(crate) fn new(reservation: Reservation, bytes_max: usize) -> Self {
        Self { calls: Vec::new(), bytes: 0, bytes_max, reservation, is_aborted: false }
    }

    /// Adds a call; if there is no room for it, `EXEC` will reject all of them.
    pub(crate) async fn push(&mut self, mut call: Call) -> Result<(), CommandError> {
        self.bytes += call.bytes_len();
        if self.bytes > self.bytes_max || !self.reservation.grow_to(self.bytes).await {
            self.abort();
            return Err(CommandError::text("ERR the transaction is too large"));
        }
        // The words are slices of a buffer that contains other requests too.
        for word in &mut call.words {
            *word = Bytes::copy_from_slice(word);
        }
        self.calls.push(call);
        Ok(())
    }

    /// Records that a call was rejected: `EXEC` will reject all of them.
    pub(crate) fn abort(&mut self) {
        self.is_aborted = true;
        self.calls = Vec::new();
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether one of the calls may write.
    pub(crate) fn may_write(&self) -> bool {
        self.calls.iter().any(Call::writes)
    }

    /// The calls and their memory, unless one of them was rejected.
    pub(crate) fn into_calls(self) -> Option<(Vec<Call>, Reservation)> {
        (!self.is_aborted).then_some((self.calls, self.reservation))
    }
}
