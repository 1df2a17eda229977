//! A connection: reads requests, executes them, writes the replies.
//!
//! Guarantees:
//! 1. Replies are sent in the order of requests; replies to requests received together are sent
//!    together.
//! 2. The event loop answers requests from memory, and requests from flash after an asynchronous
//!    read, for which only this client waits. If the storage has no asynchronous reads, and for
//!    long requests, a request goes to an I/O thread, together with the requests that follow it.
//! 3. Unsent replies are bounded: beyond a few replies, and beyond a part of a long one, no request
//!    is executed until the client has received them, and a client that receives none within the
//!    write timeout is disconnected. Over all connections, memory is reserved before a value
//!    becomes part of a reply; while another connection waits for that memory, a client that
//!    hardly reads is disconnected.
//! 4. Received but not executed bytes are bounded, over all connections; a value without room is
//!    rejected, and its connection continues.
//! 5. Invalid input and a failing command, a panic included, end at most their own connection.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use tidekv_net::budget::Reservation;
use tidekv_net::clients::{Activity, Registration};
use tidekv_net::outgoing::Outgoing;
use tidekv_net::stream::{self, SCRATCH_BYTES, Stream};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::clients::parser::{Credentials, Next, Parser};
use crate::commands::binary::Access;
use crate::commands::binary_execution;
use crate::commands::catalogue::Request;
use crate::commands::execution::{Execution, Progress};
use crate::state::counters::Count;
use crate::state::prefetched_reads::PrefetchedReads;
use crate::state::server_state::{FREE_BYTES, State};

/// Maximum requests parsed from the input before they are executed.
const REQUESTS_MAX: usize = 256;
/// Replies are sent when they reach this size, even if more requests are buffered.
const REPLY_BYTES_MAX: usize = 256 << 10;
/// Memory for shorter replies is not reserved before they are sent.
const RESERVED_BYTES_MIN: usize = 16 << 10;
/// Maximum requests that go to an I/O thread together: all their replies are in memory.
const TRIP_REQUESTS_MAX: usize = 64;
/// An I/O thread returns after this many bytes of replies.
const TRIP_BYTES_MAX: usize = 1 << 20;
/// Values of up to this size always find room.
const SMALL_BYTES_MAX: usize = 64 << 10;

const INTERNAL: &[u8] = b"SERVER_ERROR internal error\r\n";
const NO_REPLY_MEMORY: &[u8] = b"SERVER_ERROR out of memory writing get response\r\n";
const NO_ROOM: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";

/// A parsed request or error.
enum Item {
    Request(Request),
    /// A user and a password; the last item.
    Guess(Credentials),
    /// A protocol error: the last item, with its message.
    End(Option<&'static str>),
}

/// Measures the time of a single-key request from its miss in memory to its reply
/// ([`Curves::waited`]).
///
/// Not measured are requests with several keys left, requests that do not fetch, requests that go
/// to an I/O thread, and requests whose key was prefetched with an earlier one's.
///
/// [`Curves::waited`]: tidekv_observe::curves::Curves::waited
#[derive(Debug, Default)]
struct FlashTimer {
    since_ns: Option<NonZeroU64>,
}

impl FlashTimer {
    /// Records that memory cannot answer `request`; may be called again for it.
    fn start(&mut self, state: &State, request: &Request) {
        let is_for_one_key = || request.fetches().count() == 1;
        if self.since_ns.is_none() && state.curves.is_some() && is_for_one_key() {
            self.since_ns = NonZeroU64::new(state.monotonic_ns());
        }
    }

    /// Records that the reply is complete; without effect if none was waited for.
    fn stop(&mut self, state: &State) {
        if let Some(since_ns) = self.since_ns.take()
            && let Some(curves) = &state.curves
        {
            curves.waited(state.monotonic_ns().saturating_sub(since_ns.get()));
        }
    }

    /// Discards the measurement: the request is answered elsewhere.
    fn discard(&mut self) {
        self.since_ns = None;
    }
}

/// One connection.
pub(crate) struct Connection {
    state: Arc<State>,
    stream: Box<dyn Stream>,
    client: Registration,
    is_known: bool,
    /// Wrong passwords in a row.
    wrong_guesses: u32,
    is_closing: bool,
    parser: Parser,
    buffer: BytesMut,
    reservation: Reservation,
    replies: Outgoing,
    /// The memory of the replies.
    replies_memory: Reservation,
    /// Flash reads for the next requests.
    prefetched: PrefetchedReads,
    /// The key to read from flash next.
    wanted: Option<Box<[u8]>>,
}

impl Connection {
    pub(crate) fn new(state: Arc<State>, stream: Box<dyn Stream>, client: Registration) -> Self {
        Self {
            is_known: state.options.users.is_none(),
            wrong_guesses: 0,
            is_closing: false,
            parser: Parser::of(state.options.protocol),
            buffer: BytesMut::new(),
            reservation: state.budget.reservation(),
            replies: Outgoing::default(),
            replies_memory: state.replies.reservation(),
            prefetched: PrefetchedReads::default(),
            wanted: None,
            client,
            stream,
            state,
        }
    }

    /// Serves the client until it disconnects, is disconnected, or `shutdown` becomes true.
    pub(crate) async fn serve(mut self, shutdown: watch::Receiver<bool>) {
        let mut waiter = shutdown.clone();
        let mut stop = pin!(waiter.wait_for(|stop| *stop));
        // Checking for a change is cheaper than waiting for one, and a flood of requests leaves no
        // time to wait.
        while shutdown.has_changed().is_ok_and(|changed| !changed) {
            tokio::select! {
                biased;
                is_open = self.read() => if !is_open { break },
                _ = &mut stop => break,
            }
            match self.work().await {
                Ok(()) if !self.is_closing => {}
                Ok(()) => break,
                // The client has disconnected: no reply can be sent.
                Err(_) => return,
            }
        }
        if self.flush().await.is_ok() {
            stream::end(&mut *self.stream).await;
        }
    }

    /// Waits for input; returns false at the end of the stream.
    async fn read(&mut self) -> bool {
        let is_in_value = self.parser.missing_bytes() > 0;
        let activity = if is_in_value { Activity::Receiving } else { Activity::Waiting };
        self.client.set_activity(activity);
        let idle_timeout = self.state.options.idle_timeout;
        let fill = self.fill();
        let filled = match idle_timeout {
            None => fill.await,
            Some(idle) => match timeout(idle, fill).await {
                Ok(filled) => filled,
                Err(_) => {
                    self.state.counters.add(Count::IdleKicks, 1);
                    return false;
                }
            },
        };
        match filled {
            Ok(count) => {
                self.state.counters.add(Count::BytesRead, count);
                count > 0
            }
            Err(_) => false,
        }
    }

    /// Waits for more bytes and returns their number, 0 at the end of the stream. Cancellation
    /// loses no bytes. All requests returned earlier must have been executed: their memory is no
    /// longer reserved.
    async fn fill(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        self.reservation.shrink_to(self.buffer.len() + self.parser.value_bytes());
        if self.parser.missing_bytes() > SCRATCH_BYTES {
            // Other connections may hold the whole budget for too long.
            if self.reservation.grow_to(self.parser.next_value_bytes()).await {
                return self.fill_value().await;
            }
            return self.refuse_value();
        }
        // If there is no memory, a connection takes no more than is free: what it takes is only
        // reserved afterwards.
        let budget = self.reservation.budget();
        let bytes_max =
            || if budget.has_room_for(SCRATCH_BYTES) { SCRATCH_BYTES } else { FREE_BYTES / 2 };
        let buffer = &mut self.buffer;
        let take = |bytes: &[u8]| buffer.extend_from_slice(bytes);
        let count = stream::read(&mut *self.stream, bytes_max, take).await?;
        if !self.reservation.grow_to(self.buffer.len() + self.parser.value_bytes()).await {
            return self.refuse_value();
        }
        Ok(count)
    }

    /// Reads a value into its final place.
    async fn fill_value(&mut self) -> io::Result<usize> {
        let Some((value, limit)) = self.parser.room() else { return Ok(0) };
        self.stream.read_buf(&mut value.limit(limit)).await
    }

    /// Rejects the current value or line for lack of room.
    fn refuse_value(&mut self) -> io::Result<usize> {
        match self.parser.give_up() {
            Some(mut request) => {
                self.run(&mut request);
                // As if bytes had arrived.
                Ok(1)
            }
            None => {
                if !self.parser.is_binary() {
                    self.replies.put(NO_ROOM);
                }
                Err(io::ErrorKind::OutOfMemory.into())
            }
        }
    }

    /// Executes all complete requests and sends the replies.
    async fn work(&mut self) -> io::Result<()> {
        loop {
            let items = self.parse();
            if items.is_empty() {
                return self.flush().await;
            }
            let count = items.len();
            let began_ns = self.state.monotonic_ns();
            self.execute(items).await?;
            let took_ns = self.state.monotonic_ns().saturating_sub(began_ns);
            self.state.latency.record_many(took_ns, count as u64);
            self.state.counters.add(Count::Requests, count);
            if self.is_closing {
                return Ok(());
            }
        }
    }

    /// Parses complete requests from the input, up to the limits.
    fn parse(&mut self) -> VecDeque<Item> {
        let mut items = VecDeque::new();
        let cache = &self.state.objects.cache;
        let fits = |key_len: usize, value_len: usize| {
            value_len <= SMALL_BYTES_MAX.min(cache.object_bytes_max() as usize)
                || cache.has_room_for(key_len, value_len)
        };
        let access = match (&self.state.options.users, self.is_known) {
            (None, _) => Access::Open,
            (Some(_), true) => Access::Known,
            (Some(_), false) => Access::Stranger,
        };
        while items.len() < REQUESTS_MAX {
            match self.parser.next(&mut self.buffer, access, &fits) {
                Next::Nothing => break,
                Next::Request(request) => items.push_back(Item::Request(request)),
                Next::Credentials(credentials) => {
                    // Whether the next bytes are credentials again depends on these.
                    items.push_back(Item::Guess(credentials));
                    break;
                }
                Next::End(message) => {
                    items.push_back(Item::End(message));
                    break;
                }
            }
        }
        if !items.is_empty() {
            self.client.touch(self.state.unix_ms(), "");
            self.client.set_activity(Activity::Executing);
        }
        items
    }

    async fn execute(&mut self, mut items: VecDeque<Item>) -> io::Result<()> {
        let mut timer = FlashTimer::default();
        while let Some(item) = items.pop_front() {
            let mut request = match item {
                Item::Request(request) => request,
                Item::Guess(credentials) => {
                    // Boxed: a task is as large as its largest part for its whole life.
                    Box::pin(self.authenticate(&credentials)).await;
                    continue;
                }
                Item::End(message) => {
                    if let Some(message) = message {
                        self.replies.put(message.as_bytes());
                        self.replies.put(b"\r\n");
                    }
                    self.is_closing = true;
                    return Ok(());
                }
            };
            match self.run(&mut request) {
                Progress::Done => {
                    self.prefetched.has_advanced();
                    timer.stop(&self.state);
                }
                Progress::Close => self.is_closing = true,
                Progress::More => {
                    // The key is answered; the time to send the reply does not count.
                    timer.stop(&self.state);
                    items.push_front(Item::Request(request));
                    // Let other connections run.
                    tokio::task::yield_now().await;
                }
                Progress::Memory(bytes) => {
                    timer.discard();
                    items.push_front(Item::Request(request));
                    Box::pin(self.wait_for_memory(bytes)).await?;
                }
                Progress::Wait => {
                    timer.start(&self.state, &request);
                    items.push_front(Item::Request(request));
                    // Boxed for the same reason.
                    if !Box::pin(self.prefetch(&items)).await {
                        // Threads read by themselves, and may take long.
                        self.prefetched.clear();
                        timer.discard();
                        Box::pin(self.run_on_thread(&mut items)).await?;
                    }
                }
            }
            if self.is_closing {
                return Ok(());
            }
            if self.must_flush() {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Whether the replies so far are sent before the next request: they are long, or there is no
    /// memory for more.
    fn must_flush(&mut self) -> bool {
        let bytes = self.replies.len();
        bytes >= REPLY_BYTES_MAX
            || (bytes >= RESERVED_BYTES_MIN && !self.replies_memory.try_grow_to(bytes))
    }

    /// Compares a user and a password with the known ones, after the delay of a client that guesses
    /// (`guesses.rs` of `crates/net`).
    async fn authenticate(&mut self, credentials: &Credentials) {
        let Credentials { user, password, echo } = credentials;
        let state = Arc::clone(&self.state);
        let delay = state.guesses.delay(&self.client.address, self.wrong_guesses);
        if !delay.is_zero() {
            let _ = timeout(delay, self.client.killed()).await;
        }
        self.is_known = state.options.users.as_ref().is_none_or(|them| them.know(user, password));
        state.counters.add(Count::Authentications, 1);
        if self.is_known {
            self.wrong_guesses = 0;
            self.client.set_known(true);
            match echo {
                Some(echo) => binary_execution::put_authenticated(&mut self.replies, *echo),
                None => self.replies.put(b"STORED\r\n"),
            }
        } else {
            self.wrong_guesses = self.wrong_guesses.saturating_add(1);
            state.counters.add(Count::AuthenticationErrors, 1);
            state.guesses.fail(&self.client.address);
            match echo {
                Some(echo) => binary_execution::put_refused(&mut self.replies, *echo),
                None => self.replies.put(b"CLIENT_ERROR authentication failure\r\n"),
            }
        }
    }

    /// Executes a request on this event loop, as far as it need not wait.
    fn run(&mut self, request: &mut Request) -> Progress {
        let out = (&mut self.replies, &mut self.replies_memory);
        let execution = Execution::new(&self.state, out, false);
        let mut execution = execution.with_prefetched(&self.prefetched);
        let done = catch_unwind(AssertUnwindSafe(|| request.run(&mut execution)));
        self.wanted = execution.wanted();
        done.unwrap_or_else(|_| self.fail())
    }

    /// Reads the keys of the first of `items` from flash, and those of following ones; returns
    /// false if it must go to a thread nevertheless.
    async fn prefetch(&mut self, items: &VecDeque<Item>) -> bool {
        let Some(key) = self.wanted.take() else { return false };
        let requests = items.iter().map_while(|item| match item {
            Item::Request(request) => Some(request),
            Item::Guess(_) | Item::End(_) => None,
        });
        let (cache, reads) = (&self.state.objects.cache, &self.state.reads);
        self.prefetched.read(cache, reads, key, requests.flat_map(Request::fetches)).await
    }

    /// Executes the first of `items` on an I/O thread, and following ones up to the limits.
    ///
    /// The threads are the runtime's blocking threads; the settings give their number. Their queue
    /// needs no bound: a connection has one piece of work at a time.
    async fn run_on_thread(&mut self, items: &mut VecDeque<Item>) -> io::Result<()> {
        let mut requests = VecDeque::new();
        while requests.len() < TRIP_REQUESTS_MAX
            && matches!(items.front(), Some(Item::Request(_)))
            && let Some(Item::Request(request)) = items.pop_front()
        {
            requests.push_back(request);
        }
        let state = Arc::clone(&self.state);
        let mut replies = std::mem::take(&mut self.replies);
        let mut memory =
            std::mem::replace(&mut self.replies_memory, self.state.replies.reservation());
        let work = move || {
            let run = || run_trip(&state, (&mut replies, &mut memory), &mut requests);
            let done = catch_unwind(AssertUnwindSafe(run));
            (replies, memory, requests, done)
        };
        let Ok((replies, memory, requests, done)) = tokio::task::spawn_blocking(work).await else {
            // The runtime shuts down before the work has started, and this task with it.
            return std::future::pending().await;
        };
        (self.replies, self.replies_memory) = (replies, memory);
        requests.into_iter().rev().for_each(|request| items.push_front(Item::Request(request)));
        match done {
            Ok(Progress::Close) => self.is_closing = true,
            Ok(Progress::Memory(bytes)) => return self.wait_for_memory(bytes).await,
            Ok(_) => {}
            Err(_) => drop(self.fail()),
        }
        Ok(())
    }

    /// Sends the replies so far, and waits for `bytes` of memory for the next one. Without it in time
    /// the connection ends: a reply cannot be left out.
    async fn wait_for_memory(&mut self, bytes: usize) -> io::Result<()> {
        self.flush().await?;
        if self.replies_memory.grow_to(bytes).await {
            return Ok(());
        }
        if !self.parser.is_binary() {
            self.replies.put(NO_REPLY_MEMORY);
        }
        self.is_closing = true;
        Ok(())
    }

    /// A command panicked: its effects are unknown, so the connection must end.
    fn fail(&mut self) -> Progress {
        self.state.counters.add(Count::Panics, 1);
        tracing::error!("a command has panicked; its connection is closed");
        if !self.parser.is_binary() {
            self.replies.put(INTERNAL);
        }
        self.is_closing = true;
        Progress::Close
    }

    /// Sends all replies.
    async fn flush(&mut self) -> io::Result<()> {
        // Sending may take long.
        self.prefetched.clear();
        if self.replies.is_empty() {
            return Ok(());
        }
        let patience = self.state.options.write_timeout;
        let counters = &self.state.counters;
        let sent = |count| counters.add(Count::BytesWritten, count);
        // Values reserve more than they need: a slow reader must not hold that.
        self.replies_memory.shrink_to(self.replies.len());
        let is_reserved = self.replies_memory.try_grow_to(self.replies.len());
        let is_needed = || !is_reserved || self.state.replies.is_exhausted();
        let result =
            stream::send_unless(&mut *self.stream, &mut self.replies, patience, is_needed, sent)
                .await;
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::OutOfMemory) {
            tracing::warn!("a client that does not read its replies is closed: memory is needed");
        }
        self.replies_memory.shrink_to(0);
        result
    }
}

/// Executes the first of `requests`, which may wait, and the others up to the limit of replies; the
/// remaining ones stay.
fn run_trip(
    state: &State,
    (replies, memory): (&mut Outgoing, &mut Reservation),
    requests: &mut VecDeque<Request>,
) -> Progress {
    while let Some(request) = requests.front_mut() {
        let mut execution = Execution::new(state, (&mut *replies, &mut *memory), true);
        let progress = request.run(&mut execution);
        state.counters.add(Count::Offloaded, 1);
        match progress {
            Progress::Done => drop(requests.pop_front()),
            Progress::More => return Progress::More,
            Progress::Wait => unreachable!("here it may wait"),
            Progress::Close => return Progress::Close,
            Progress::Memory(bytes) => return Progress::Memory(bytes),
        }
        if replies.len() >= TRIP_BYTES_MAX {
            break;
        }
    }
    Progress::Done
}

#[cfg(test)]
mod tests;
