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
use tokio::time::timeout;

use crate::outgoing::Outgoing;

/// Bytes of one read, into a buffer shared by all connections of a thread, so that idle
/// connections need none.
pub const SCRATCH_BYTES: usize = 64 << 10;
/// Maximum pieces of one write: large values among small replies.
const SLICES_MAX: usize = 16;
/// A client that accepts no bytes for this long is closed if their memory is needed for others.
pub const STALL: Duration = Duration::from_secs(3);
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
/// end of the stream. Cancellation loses no bytes.
pub async fn read(
    stream: &mut dyn Stream,
    bytes_max: usize,
    mut take: impl FnMut(&[u8]),
) -> io::Result<usize> {
    poll_fn(|context| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut scratch = ReadBuf::new(&mut scratch[..bytes_max.min(SCRATCH_BYTES)]);
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

/// Sends everything, unless the client accepts nothing for `patience`, or for [`STALL`] when
/// `is_needed` says that the memory of what is unsent is needed. Calls `sent` with the bytes of each
/// write.
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
    while !outgoing.is_empty() {
        let mut slices = [IoSlice::new(b""); SLICES_MAX];
        let count = outgoing.front(&mut slices);
        let write = stream.write_vectored(&slices[..count]);
        let count = within_unless(patience, &mut is_needed, write).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        sent(count);
        outgoing.advance(count);
    }
    outgoing.shrink();
    within(patience, stream.flush()).await
}

/// Closes the stream so that the last reply arrives.
pub async fn end(stream: &mut dyn Stream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    // Not into a buffer of its own, which would enlarge every connection's future.
    let linger =
        async { while read(stream, SCRATCH_BYTES, |_| {}).await.is_ok_and(|count| count > 0) {} };
    let _ = timeout(LINGER, linger).await;
}

/// Like [`timeout`], but reads the clock only if the future is not ready at once.
async fn within<T>(limit: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let mut future = pin!(future);
    match at_once(&mut future).await {
        Some(result) => result,
        None => timeout(limit, future).await?,
    }
}

/// Like [`within`], but ends with an error of the kind `OutOfMemory` after a [`STALL`] at whose end
/// `is_needed` returns true.
async fn within_unless<T>(
    limit: Duration,
    is_needed: &mut impl FnMut() -> bool,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut future = pin!(future);
    if let Some(result) = at_once(&mut future).await {
        return result;
    }
    let mut left = limit;
    loop {
        let step = left.min(STALL);
        match timeout(step, &mut future).await {
            Ok(result) => return result,
            Err(_) if is_needed() => return Err(io::ErrorKind::OutOfMemory.into()),
            Err(elapsed) => {
                left = left.checked_sub(step).filter(|l| !l.is_zero()).ok_or(elapsed)?
            }
        }
    }
}

/// The result of a future that is ready at once.
async fn at_once<T>(future: &mut Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
