//! The replies of a connection that are not sent yet, their memory, and replies that are produced while
//! they are sent.
//!
//! Guarantees: what a connection holds of replies, but for a few KiB, is reserved in the budget of
//! all connections before they are made. A client that accepts nothing is closed after the write
//! timeout. A client that accepts little is closed within seconds if others need the memory of what
//! it does not read.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tidekv_net::budget::Reservation;
use tidekv_net::stream::{self, Stream};

use crate::protocol::input::FREE_BYTES;
use crate::protocol::reply::{Protocol, Reply, ReplyBuffer, STREAMED_BYTES, Streamed};
use crate::state::server_state::State;

/// Replies are sent when they reach this size, even if more requests are buffered; earlier, if there
/// is no memory for them.
pub(crate) const REPLY_BYTES: usize = 128 << 10;

/// The unsent replies of a connection.
pub(crate) struct Outbox {
    state: Arc<State>,
    replies: ReplyBuffer,
    /// The memory of `replies`, and of replies that an I/O thread makes.
    memory: Reservation,
}

impl Outbox {
    pub(crate) fn new(state: Arc<State>) -> Self {
        let memory = state.memory.replies().reservation();
        Self { state, replies: ReplyBuffer::default(), memory }
    }

    /// Bytes to be sent.
    pub(crate) fn len(&self) -> usize {
        self.replies.len()
    }

    /// Appends a reply.
    pub(crate) fn push(&mut self, reply: &Reply, protocol: Protocol) {
        self.replies.push(reply, protocol);
    }

    /// Appends bytes as they are.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.replies.put(bytes);
    }

    /// Whether the replies must be sent before more are made.
    pub(crate) fn must_flush(&mut self) -> bool {
        let bytes = self.len();
        bytes >= REPLY_BYTES || (bytes >= FREE_BYTES && !self.memory.try_grow_to(REPLY_BYTES))
    }

    /// Whether a reply is small, or there is memory for it at once.
    pub(crate) fn has_memory_for(&mut self, reply: &Reply) -> bool {
        let bytes = reply.bytes_len();
        bytes <= FREE_BYTES || self.try_reserve(bytes)
    }

    /// Reserves memory for `bytes` more, if it is there at once.
    pub(crate) fn try_reserve(&mut self, bytes: usize) -> bool {
        self.memory.try_grow_to(self.replies.len() + bytes)
    }

    /// Reserves memory for `bytes` more; sends the replies so far if it must wait for that. False if
    /// there is none in time.
    pub(crate) async fn reserve(
        &mut self,
        bytes: usize,
        stream: &mut dyn Stream,
    ) -> io::Result<bool> {
        if self.try_reserve(bytes) {
            return Ok(true);
        }
        self.flush(stream).await?;
        Ok(self.memory.grow_to(bytes).await)
    }

    /// Sends the elements of a reply, whose head was pushed, as they are produced. An element may be
    /// such a reply too.
    pub(crate) async fn send_streamed(
        &mut self,
        streamed: Arc<Streamed>,
        protocol: Protocol,
        stream: &mut dyn Stream,
    ) -> io::Result<()> {
        let mut open = vec![(streamed, VecDeque::new())];
        while let Some((streamed, elements)) = open.last_mut() {
            match elements.pop_front() {
                None => {
                    *elements = self.next_elements(Arc::clone(streamed), stream).await?;
                    if elements.is_empty() {
                        self.replies.push_end(streamed);
                        open.pop();
                    }
                }
                Some(element) => {
                    self.replies.push_element(streamed, &element, protocol);
                    if let Reply::Streamed(inner) = element {
                        open.push((inner, VecDeque::new()));
                    }
                    if self.must_flush() {
                        self.flush(stream).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The next elements of a reply; none at its end. RESP has no way to end a reply early, or with
    /// an error: an error here closes the connection.
    async fn next_elements(
        &mut self,
        streamed: Arc<Streamed>,
        stream: &mut dyn Stream,
    ) -> io::Result<VecDeque<Reply>> {
        if !self.reserve(STREAMED_BYTES, stream).await? {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // It waits for storage.
        let error = match tokio::task::spawn_blocking(move || streamed.next()).await {
            Ok(Ok(elements)) => return Ok(elements.into()),
            Ok(Err(error)) => format!("{error:?}"),
            Err(_) => {
                self.state.counters.panics.add(1);
                "it has panicked".into()
            }
        };
        tracing::error!(error, "a reply cannot be completed; its connection is closed");
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Sends all replies.
    pub(crate) async fn flush(&mut self, stream: &mut dyn Stream) -> io::Result<()> {
        let patience = self.state.settings.write_timeout;
        let counters = &self.state.counters;
        let sent = |count| counters.output_bytes.add(count);
        let is_reserved = self.memory.try_grow_to(self.replies.len());
        let budget = self.state.memory.replies();
        let is_needed = || !is_reserved || budget.is_exhausted();
        let result =
            stream::send_unless(stream, &mut self.replies, patience, is_needed, sent).await;
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::OutOfMemory) {
            counters.output_limit_disconnections.add(1);
            tracing::warn!("a client that does not read its replies is closed: memory is needed");
        }
        self.memory.shrink_to(0);
        result
    }
}
