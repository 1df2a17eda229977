//! A bidirectional byte stream (TCP, TLS or a Unix socket), and how connections read from it and
//! write to it.
//!
//! Guarantees: a connection that waits for bytes holds no buffer for them; a client that does not
//! read its replies for too long is disconnected.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::outgoing::Outgoing;

/// Bytes of one read, into a buffer shared by all connections of a thread, so that idle
/// connections need none.
pub const SCRATCH_BYTES: usize = 64 << 10;
/// Maximum pieces of one write: large values among small replies.
const SLICES_MAX: usize = 16;
/// The time in which a client must accept [`PACE_BYTES`] if the memory of what it has not read is
/// needed for others.
pub const PACE_TIME: Duration = Duration::from_secs(3);
/// See [`PACE_TIME`].
pub const PACE_BYTES: usize = 16 << 10;
/// The time to wait for the client to close after the server has: closing while more requests
/// arrive would discard the reply that the client has not read yet.
const LINGER: Duration = Duration::from_millis(500);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into());
}

/// A bidirectional byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Waits for bytes, passes at most `bytes_max` of them to `take`, and returns their number; 0 at the
/// end of the stream. Cancellation loses no bytes. `bytes_max` is called when bytes may have arrived.
pub async fn read(
    stream: &mut dyn Stream,
    bytes_max: impl Fn() -> usize,
    mut take: impl FnMut(&[u8]),
) -> io::Result<usize> {
    poll_fn(|context| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut scratch = ReadBuf::new(&mut scratch[..bytes_max().min(SCRATCH_BYTES)]);
            ready!(Pin::new(&mut *stream).poll_read(context, &mut scratch))?;
            take(scratch.filled());
            Poll::Ready(Ok(scratch.filled().len()))
        })
    })
    .await
}

/// Sends everything; calls `sent` with the bytes of each write.
pub async fn send(
    stream: &mut dyn Stream,
    outgoing: &mut Outgoing,
    patience: Duration,
    sent: impl FnMut(usize),
) -> io::Result<()> {
    send_unless(stream, outgoing, patience, || false, sent).await
}

/// Sends everything, unless the client accepts nothing for `patience`, or less than [`PACE_BYTES`] in
/// [`PACE_TIME`] when `is_needed` says that the memory of what is unsent is needed: an error of the
/// kind `OutOfMemory`. Calls `sent` with the bytes of each write.
pub async fn send_unless(
    stream: &mut dyn Stream,
    outgoing: &mut Outgoing,
    patience: Duration,
    mut is_needed: impl FnMut() -> bool,
    mut sent: impl FnMut(usize),
) -> io::Result<()> {
    if outgoing.is_empty() {
        return Ok(());
    }
    let mut pace = Pace::default();
    while !outgoing.is_empty() {
        let mut slices = [IoSlice::new(b""); SLICES_MAX];
        let count = outgoing.front(&mut slices);
        let write = stream.write_vectored(&slices[..count]);
        let count = pace.wait(patience, &mut is_needed, write).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        sent(count);
        pace.bytes += count;
        outgoing.advance(count);
    }
    outgoing.shrink();
    pace.wait(patience, &mut is_needed, stream.flush()).await
}

/// How fast a client reads: the bytes that it has accepted in the present window of [`PACE_TIME`].
#[derive(Default)]
struct Pace {
    /// The end of the window, which begins when the client is waited for.
    end: Option<Instant>,
    bytes: usize,
}

impl Pace {
    /// The result of `write`, for which the client is waited for. The clock is read only if it is
    /// not ready at once.
    async fn wait<T>(
        &mut self,
        patience: Duration,
        is_needed: &mut impl FnMut() -> bool,
        write: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let mut write = pin!(write);
        if let Some(result) = at_once(&mut write).await {
            return result;
        }
        let began = Instant::now();
        loop {
            let end = *self.end.get_or_insert_with(|| Instant::now() + PACE_TIME);
            let now = match timeout_at(end.min(began + patience), &mut write).await {
                Ok(result) => return result,
                Err(_) => Instant::now(),
            };
            if now >= end {
                if self.bytes < PACE_BYTES && is_needed() {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                *self = Self::default();
            }
            if now.duration_since(began) >= patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

/// Closes the stream so that the last reply arrives.
pub async fn end(stream: &mut dyn Stream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    // Not into a buffer of its own, which would enlarge every connection's future.
    let linger = async {
        while read(stream, || SCRATCH_BYTES, |_| {}).await.is_ok_and(|count| count > 0) {}
    };
    let _ = timeout(LINGER, linger).await;
}

/// The result of a future that is ready at once.
async fn at_once<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests;
