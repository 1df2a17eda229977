//! A byte stream in both directions: TCP, TLS or a Unix socket; and how connections read
//! from it and send to it.
//!
//! Guarantees: a connection that waits for bytes holds no buffer for them; who takes nothing
//! of what is sent for too long is given up.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use crate::outgoing::Outgoing;

/// How much is read at once, and into a buffer that all connections of a thread
/// share: so idle ones need none.
pub const SCRATCH_BYTES: usize = 64 << 10;
/// Pieces that are sent at once: large values among small replies.
const SLICES_MAX: usize = 16;
/// How long to wait for the client's end after ours: closing while more of its
/// requests arrive would destroy the reply that it has not read yet.
const LINGER: Duration = Duration::from_millis(500);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into());
}

/// A byte stream in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Waits for bytes, shows them to `take`, and returns how many came; 0 at the end of the
/// stream. Nothing is lost when it is cancelled.
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

/// Sends everything; `sent` is told of each part that has gone.
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

/// Ends the stream so that what was sent last arrives.
pub async fn end(stream: &mut dyn Stream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    // Not into a buffer of its own, which each connection would have room for all its life.
    let linger = async { while read(stream, |_| {}).await.is_ok_and(|count| count > 0) {} };
    let _ = timeout(LINGER, linger).await;
}

/// Like [`timeout`], but looks at a clock only if the future is not ready at once.
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
