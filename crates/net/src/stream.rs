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
/// The time to wait for the client to close after the server has: closing while more requests
/// arrive would discard the reply that the client has not read yet.
const LINGER: Duration = Duration::from_millis(500);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into());
}

/// A bidirectional byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Waits for bytes, passes them to `take`, and returns their number; 0 at the end of the stream.
/// Cancellation loses no bytes.
pub async fn read(stream: &mut dyn Stream, mut take: impl FnMut(&[u8])) -> io::Result<usize> {
    poll_fn(|context| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut scratch = ReadBuf::new(scratch);
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
    mut sent: impl FnMut(usize),
) -> io::Result<()> {
    if outgoing.is_empty() {
        return Ok(());
    }
    while !outgoing.is_empty() {
        let mut slices = [IoSlice::new(b""); SLICES_MAX];
        let count = outgoing.front(&mut slices);
        let count = within(patience, stream.write_vectored(&slices[..count])).await?;
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
    let linger = async { while read(stream, |_| {}).await.is_ok_and(|count| count > 0) {} };
    let _ = timeout(LINGER, linger).await;
}

/// Like [`timeout`], but reads the clock only if the future is not ready at once.
async fn within<T>(limit: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let mut future = pin!(future);
    let at_once = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    });
    match at_once.await {
        Some(result) => result,
        None => timeout(limit, future).await?,
    }
}
