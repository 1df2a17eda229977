//! A connection of a client of the cache: reads requests, runs them, writes the replies.
//!
//! Guarantees:
//! 1. Replies come in the order of requests; those of requests that come together go together.
//! 2. What memory can answer is answered on the event loop. So is what flash has, when it has been
//!    read, for which nobody waits but this client; where the storage cannot read like that, and
//!    for what takes long by itself, a request goes to an I/O thread, and those that follow it go
//!    along and share the trip.
//! 3. What waits to be sent is bounded: beyond a few replies, and beyond a part of a long one,
//!    nothing runs until the client has taken them, and a client that takes none for the write
//!    time-out is closed.
//! 4. What is received and not run is bounded, over all connections; a value for which there is
//!    no room is refused, and its connection goes on.
//! 5. What one client sends or a command does, a panic included, ends at most its own
//!    connection.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use tidekv_net::budget::Reservation;
use tidekv_net::clients::Registration;
use tidekv_net::outgoing::Outgoing;
use tidekv_net::stream::{self, SCRATCH_BYTES, Stream};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::clients::parser::{Next, Parser};
use crate::commands::catalogue::Request;
use crate::commands::execution::{Execution, Progress};
use crate::state::counters::Count;
use crate::state::recalls::Recalls;
use crate::state::server_state::State;

/// Requests that are taken from the input before they are run.
const REQUESTS_MAX: usize = 256;
/// Replies are sent when they have grown to this, even if more could be made.
const REPLY_BYTES_MAX: usize = 256 << 10;
/// Requests that go to an I/O thread together: their replies are in memory together.
const TRIP_REQUESTS_MAX: usize = 64;
/// After so many bytes of replies an I/O thread comes back.
const TRIP_BYTES_MAX: usize = 1 << 20;
/// Values of up to so many bytes always find room.
const SMALL_BYTES_MAX: usize = 64 << 10;

const INTERNAL: &[u8] = b"SERVER_ERROR internal error\r\n";
const NO_ROOM: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";

/// What has been read, and waits to be run.
enum Item {
    Request(Request),
    /// What a client says when it makes no sense any more: the last thing.
    End(Option<&'static str>),
}

/// Times a request for one key from when memory could not answer it until its reply is made ([`Curves::waited`]).
///
/// Not timed are requests that have many keys left, those that do not fetch, those that go to an I/O thread, and those whose
/// key was read along with an earlier one's.
///
/// [`Curves::waited`]: tidekv_observe::curves::Curves::waited
#[derive(Debug, Default)]
struct FlashTimer {
    since_ns: Option<u64>,
}

impl FlashTimer {
    /// That memory cannot answer `request`; perhaps once more.
    fn start(&mut self, state: &State, request: &Request) {
        let is_for_one_key = || request.fetches().count() == 1;
        if self.since_ns.is_none() && state.curves.is_some() && is_for_one_key() {
            self.since_ns = Some(state.monotonic_ns());
        }
    }

    /// That the reply is made; nothing where none was waited for.
    fn stop(&mut self, state: &State) {
        if let Some(since_ns) = self.since_ns.take()
            && let Some(curves) = &state.curves
        {
            curves.waited(state.monotonic_ns().saturating_sub(since_ns));
        }
    }

    /// That it is answered elsewhere.
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
    is_closing: bool,
    parser: Parser,
    buffer: BytesMut,
    reservation: Reservation,
    replies: Outgoing,
    /// What has been read from flash for requests that are to run.
    recalls: Recalls,
    /// The key for which flash is to be read next.
    wanted: Option<Box<[u8]>>,
}

impl Connection {
    pub(crate) fn new(state: Arc<State>, stream: Box<dyn Stream>, client: Registration) -> Self {
        Self {
            is_known: state.options.users.is_none(),
            is_closing: false,
            parser: Parser::default(),
            buffer: BytesMut::new(),
            reservation: state.budget.reservation(),
            replies: Outgoing::default(),
            recalls: Recalls::default(),
            wanted: None,
            client,
            stream,
            state,
        }
    }

    /// Serves the client until it leaves, is asked to, or `shutdown` turns true.
    pub(crate) async fn serve(mut self, shutdown: watch::Receiver<bool>) {
        let mut waiter = shutdown.clone();
        let mut stop = pin!(waiter.wait_for(|stop| *stop));
        // A look at the clock of changes is cheaper than to wait for one, and a flood of
        // requests leaves no time to wait.
        while shutdown.has_changed().is_ok_and(|changed| !changed) {
            tokio::select! {
                biased;
                is_open = self.read() => if !is_open { break },
                _ = &mut stop => break,
            }
            match self.work().await {
                Ok(()) if !self.is_closing => {}
                Ok(()) => break,
                // The client is gone: there is nobody to say goodbye to.
                Err(_) => return,
            }
        }
        if self.flush().await.is_ok() {
            stream::end(&mut *self.stream).await;
        }
    }

    /// Waits for input; false when there will be none.
    async fn read(&mut self) -> bool {
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

    /// Waits for more bytes and returns how many came, 0 at the end of the stream. Nothing is
    /// lost when it is cancelled. All requests that were taken before must be done with: their
    /// memory is no longer reserved.
    async fn fill(&mut self) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        self.reservation.shrink_to(self.buffer.len() + self.parser.value_bytes());
        if self.parser.missing_bytes() > SCRATCH_BYTES {
            // Others may hold all that there is for too long.
            if self.reservation.grow_to(self.parser.next_value_bytes()).await {
                return self.fill_value().await;
            }
            return self.refuse_value();
        }
        let buffer = &mut self.buffer;
        let take = |bytes: &[u8]| buffer.extend_from_slice(bytes);
        let count = stream::read(&mut *self.stream, take).await?;
        if !self.reservation.grow_to(self.buffer.len() + self.parser.value_bytes()).await {
            return self.refuse_value();
        }
        Ok(count)
    }

    /// Reads a value where it will stay.
    async fn fill_value(&mut self) -> io::Result<usize> {
        let Some((value, limit)) = self.parser.room() else { return Ok(0) };
        self.stream.read_buf(&mut value.limit(limit)).await
    }

    /// There is no room for the value that is being read, or for the line.
    fn refuse_value(&mut self) -> io::Result<usize> {
        match self.parser.give_up() {
            Some(mut request) => {
                self.run(&mut request);
                // As if something had come.
                Ok(1)
            }
            None => {
                self.replies.put(NO_ROOM);
                Err(io::ErrorKind::OutOfMemory.into())
            }
        }
    }

    /// Runs everything that is complete, and sends the replies.
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

    /// Takes complete requests from the input, not too many at a time.
    fn parse(&mut self) -> VecDeque<Item> {
        let mut items = VecDeque::new();
        let cache = &self.state.objects.cache;
        let fits = |key_len: usize, value_len: usize| {
            value_len <= SMALL_BYTES_MAX.min(cache.object_bytes_max() as usize)
                || cache.has_room_for(key_len, value_len)
        };
        while items.len() < REQUESTS_MAX {
            match self.parser.next(&mut self.buffer, self.is_known, &fits) {
                Next::Nothing => break,
                Next::Request(request) => items.push_back(Item::Request(request)),
                Next::Credentials(user, password) => {
                    self.is_known = introduce(&self.state, &user, &password);
                    items.push_back(Item::Request(match self.is_known {
                        true => Request::say("STORED"),
                        false => Request::say("CLIENT_ERROR authentication failure"),
                    }));
                }
                Next::End(message) => {
                    items.push_back(Item::End(message));
                    break;
                }
            }
        }
        if !items.is_empty() {
            self.client.touch(self.state.unix_ms(), "");
        }
        items
    }

    async fn execute(&mut self, mut items: VecDeque<Item>) -> io::Result<()> {
        let mut timer = FlashTimer::default();
        while let Some(item) = items.pop_front() {
            let mut request = match item {
                Item::Request(request) => request,
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
                    self.recalls.has_advanced();
                    timer.stop(&self.state);
                }
                Progress::Close => self.is_closing = true,
                Progress::More => {
                    // The key is answered; how soon the client takes the reply is not flash's to say.
                    timer.stop(&self.state);
                    items.push_front(Item::Request(request));
                    // Others have their turn.
                    tokio::task::yield_now().await;
                }
                Progress::Wait => {
                    timer.start(&self.state, &request);
                    items.push_front(Item::Request(request));
                    // Beside the task, which is as large as its largest part for all its life.
                    if !Box::pin(self.recall(&items)).await {
                        // Threads read by themselves, and may take their time.
                        self.recalls.clear();
                        timer.discard();
                        self.run_on_thread(&mut items).await;
                    }
                }
            }
            if self.is_closing {
                return Ok(());
            }
            if self.replies.len() >= REPLY_BYTES_MAX {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Runs a request here, as far as it need not wait.
    fn run(&mut self, request: &mut Request) -> Progress {
        let execution = Execution::new(&self.state, &mut self.replies, false);
        let mut execution = execution.with_recalls(&self.recalls);
        let done = catch_unwind(AssertUnwindSafe(|| request.run(&mut execution)));
        self.wanted = execution.wanted();
        done.unwrap_or_else(|_| self.fail())
    }

    /// Reads from flash what the first of `items` waits for, and what others will; false where it must
    /// go to a thread all the same.
    async fn recall(&mut self, items: &VecDeque<Item>) -> bool {
        let Some(key) = self.wanted.take() else { return false };
        let requests = items.iter().map_while(|item| match item {
            Item::Request(request) => Some(request),
            Item::End(_) => None,
        });
        let (cache, reads) = (&self.state.objects.cache, &self.state.reads);
        self.recalls.read(cache, reads, key, requests.flat_map(Request::fetches)).await
    }

    /// Runs the first of `items` where it may wait, and those that follow it as far as it goes.
    ///
    /// The threads are those of the runtime for blocking work, as many as the settings say.
    /// Their queue needs no bound: a connection has one piece of work at a time.
    async fn run_on_thread(&mut self, items: &mut VecDeque<Item>) {
        let mut requests = VecDeque::new();
        while requests.len() < TRIP_REQUESTS_MAX
            && let Some(Item::Request(request)) =
                items.pop_front_if(|item| matches!(item, Item::Request(_)))
        {
            requests.push_back(request);
        }
        let state = Arc::clone(&self.state);
        let mut replies = std::mem::take(&mut self.replies);
        let work = move || {
            let run = || run_trip(&state, &mut replies, &mut requests);
            let done = catch_unwind(AssertUnwindSafe(run));
            (replies, requests, done)
        };
        let Ok((replies, requests, done)) = tokio::task::spawn_blocking(work).await else {
            // The runtime ends before the work has begun, and this task with it.
            return std::future::pending().await;
        };
        self.replies = replies;
        requests.into_iter().rev().for_each(|request| items.push_front(Item::Request(request)));
        match done {
            Ok(Progress::Close) => self.is_closing = true,
            Ok(_) => {}
            Err(_) => drop(self.fail()),
        }
    }

    /// A command has panicked: the client must not go on as if it knew what was done.
    fn fail(&mut self) -> Progress {
        self.state.counters.add(Count::Panics, 1);
        tracing::error!("a command has panicked; its connection is closed");
        self.replies.put(INTERNAL);
        self.is_closing = true;
        Progress::Close
    }

    /// Sends all replies.
    async fn flush(&mut self) -> io::Result<()> {
        // It may take its time.
        self.recalls.clear();
        let patience = self.state.options.write_timeout;
        let counters = &self.state.counters;
        let sent = |count| counters.add(Count::BytesWritten, count);
        stream::send(&mut *self.stream, &mut self.replies, patience, sent).await
    }
}

/// Whether a client is who it says.
fn introduce(state: &State, user: &[u8], password: &[u8]) -> bool {
    let is_known = state.options.users.as_ref().is_none_or(|users| users.know(user, password));
    state.counters.add(Count::Authentications, 1);
    state.counters.add(Count::AuthenticationErrors, usize::from(!is_known));
    is_known
}

/// Runs the first of `requests` where it may wait, and the others as far as replies allow; those
/// that are left stay.
fn run_trip(state: &State, replies: &mut Outgoing, requests: &mut VecDeque<Request>) -> Progress {
    while let Some(request) = requests.front_mut() {
        let mut execution = Execution::new(state, replies, true);
        let progress = request.run(&mut execution);
        state.counters.add(Count::Offloaded, 1);
        match progress {
            Progress::Done => drop(requests.pop_front()),
            Progress::More => return Progress::More,
            Progress::Wait => unreachable!("here it may wait"),
            Progress::Close => return Progress::Close,
        }
        if replies.len() >= TRIP_BYTES_MAX {
            break;
        }
    }
    Progress::Done
}

#[cfg(test)]
mod tests;
