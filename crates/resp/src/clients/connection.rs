//! A connection: reads requests, executes them, writes the replies.
//!
//! ```text
//!             read() ─ bytes ─► parse() ─ requests ─► execute() ─┐
//!               ▲                  ▲  └─ nothing whole ─► flush() │
//!               │                  └──────── more buffered ───────┤
//!               └────────────────── flush() ◄─────────────────────┘
//!   read() ─ end, idle, shutdown ─► close()      any ─ error ─► close()
//! ```
//!
//! Guarantees:
//! 1. Replies come in the order of requests.
//! 2. The event loop never waits for storage, except that the operating system may delay a buffered
//!    write; see `slow_disk_breaker.rs`.
//! 3. Unsent replies are bounded: beyond a few replies, requests are not executed until the client
//!    has received them, and a long reply is produced while it is sent. A client that receives
//!    nothing within the write timeout is disconnected; within seconds, if others need the memory
//!    of what it does not read.
//! 4. What a connection holds of requests and replies is reserved in the budget of all connections
//!    (`state/memory.rs`), but for a few KiB. A request without room is discarded, and answered with
//!    an error.
//! 5. Invalid input and a failing command, a panic included, end at most their own connection.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tidekv_net::stream::{self, Stream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::clients::outbox::{Outbox, REPLY_BYTES};
use crate::clients::queue::Queue;
use crate::clients::requests::{self, Request};
use crate::commands::catalogue::COMMANDS;
use crate::commands::command::{Call, ExecutionClass, Flag, Run, Verb, position};
use crate::data::watched_key::WatchedKey;
use crate::dispatch::batch::{Outcome, Part};
use crate::dispatch::group_commit::GroupCommit;
use crate::dispatch::observation;
use crate::dispatch::pipeline::{self, NeedsMemory, SMALL_BYTES_MAX, Tried, Way};
use crate::protocol::input::{FREE_BYTES, Input};
use crate::protocol::reply::{CommandError, OUT_OF_MEMORY, Reply};
use crate::state::monitors;
use crate::state::server_state::State;
use crate::state::session::Session;

/// The time to poll until another writer is done, which mostly takes microseconds: about the cost
/// of passing work to a thread and back on a busy machine.
const BUSY_NS_MAX: u64 = 200_000;

/// The reason why the session is present.
const ONE_PIECE: &str = "one piece of work at a time";

const NO_AUTH: CommandError = CommandError::text("NOAUTH Authentication required.");
const INTERNAL: CommandError = CommandError::text("ERR internal error");

/// The outcome of a step.
enum Step {
    /// The call is answered.
    Done,
    /// The call is queued until `EXEC`.
    Enqueue(Call),
    /// The call needs an I/O thread, or belongs to a batch.
    Offload(Call),
}

/// One connection.
pub(crate) struct Connection {
    state: Arc<State>,
    group_commit: Arc<GroupCommit>,
    stream: Box<dyn Stream>,
    /// Moves with the work to an I/O thread and returns with its outcome; `None` meanwhile.
    session: Option<Box<Session>>,
    input: Input,
    outbox: Outbox,
    queue: Option<Queue>,
    watches: Vec<WatchedKey>,
    /// The commands of all connections, after `MONITOR`.
    monitor: Option<mpsc::Receiver<Bytes>>,
    /// Whether one of the calls that are measured together writes.
    has_writes: bool,
}

impl Connection {
    pub(crate) fn new(
        state: Arc<State>,
        group_commit: Arc<GroupCommit>,
        stream: Box<dyn Stream>,
        session: Session,
    ) -> Self {
        Self {
            group_commit,
            stream,
            session: Some(Box::new(session)),
            input: Input::new(state.memory.requests().reservation()),
            outbox: Outbox::new(Arc::clone(&state)),
            queue: None,
            watches: Vec::new(),
            monitor: None,
            has_writes: false,
            state,
        }
    }

    /// Serves the client until it disconnects, is disconnected, or `shutdown` becomes true.
    pub(crate) async fn serve(mut self, shutdown: watch::Receiver<bool>) {
        let mut waiter = shutdown.clone();
        let mut stop = pin!(waiter.wait_for(|stop| *stop));
        // The channel changes only once. Checking for a change is cheaper than waiting for one, and
        // a flood of requests leaves no time to wait.
        let client = self.session().client.client();
        let mut killed = pin!(client.killed());
        while shutdown.has_changed().is_ok_and(|changed| !changed) && !client.is_killed() {
            let mut monitor = self.monitor.take();
            let mut line = None;
            tokio::select! {
                biased;
                is_open = self.read() => if !is_open { break },
                next = monitors::next_line(&mut monitor) => line = Some(next),
                () = &mut killed => break,
                _ = &mut stop => break,
            }
            self.monitor = monitor;
            if let Some(line) = line
                && !self.show(line).await
            {
                break;
            }
            match self.work().await {
                Ok(()) if !self.session().is_closing => {}
                Ok(()) => break,
                // The client has disconnected: no reply can be sent.
                Err(_) => return,
            }
        }
        self.close().await;
    }

    /// Sends `line` of a monitor and those that wait behind it; false if the connection must end.
    async fn show(&mut self, line: Option<Bytes>) -> bool {
        let Some(line) = line else { return false };
        self.outbox.put(&line);
        while self.outbox.len() < REPLY_BYTES
            && let Some(Ok(line)) = self.monitor.as_mut().map(mpsc::Receiver::try_recv)
        {
            self.outbox.put(&line);
        }
        self.flush().await.is_ok()
    }

    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("it is away only while its work is waited for")
    }

    /// Waits for input; returns false at the end of the stream.
    async fn read(&mut self) -> bool {
        let fill = self.input.fill(&mut *self.stream);
        let filled = match self.state.settings.idle_timeout() {
            None => Ok(fill.await),
            Some(idle) => timeout(idle, fill).await,
        };
        match filled {
            Ok(Ok(bytes)) => {
                self.state.counters.input_bytes.add(bytes);
                bytes > 0
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::OutOfMemory => {
                self.reply(&Reply::from(OUT_OF_MEMORY));
                false
            }
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Executes all complete requests and sends the replies.
    async fn work(&mut self) -> io::Result<()> {
        loop {
            let session = self.session.as_mut().expect(ONE_PIECE);
            let requests = requests::parse(&mut self.input, &self.state, session);
            if requests.is_empty() {
                return self.flush().await;
            }
            let count = requests.len() as u64;
            self.has_writes = false;
            let began_ns = self.state.monotonic_ns();
            self.session().lap_ns = began_ns;
            self.execute(requests).await?;
            let took_ns = self.state.monotonic_ns().saturating_sub(began_ns);
            let counters = &self.state.counters;
            let latencies = if self.has_writes { &counters.write_ns } else { &counters.read_ns };
            latencies.record_many(took_ns, count);
            if self.session().is_closing {
                return self.flush().await;
            }
        }
    }

    async fn execute(&mut self, mut requests: VecDeque<Request>) -> io::Result<()> {
        while let Some(request) = requests.pop_front() {
            match request {
                Request::End => self.session().is_closing = true,
                Request::Refused(error) => self.refuse(error),
                Request::Discarded => {
                    self.state.counters.discarded_requests.add(1);
                    self.refuse(OUT_OF_MEMORY);
                }
                Request::Call(call) => {
                    if self.state.pause.may_hold() {
                        self.wait_while_paused(&call).await;
                        if self.session().is_closing {
                            return Ok(());
                        }
                    }
                    if call.command.has(Flag::NoAuth) {
                        let session = self.session.as_mut().expect(ONE_PIECE);
                        session.wait_to_guess(&self.state.guesses).await;
                    }
                    match self.step(call) {
                        Step::Done => {}
                        Step::Enqueue(call) => self.enqueue(call).await,
                        Step::Offload(call) => {
                            requests.push_front(Request::Call(call));
                            self.offload(&mut requests).await?;
                        }
                    }
                }
            }
            if self.session().is_closing {
                return Ok(());
            }
            if self.outbox.must_flush() {
                self.flush().await?;
                self.session().lap_ns = 0;
            }
        }
        Ok(())
    }

    /// Waits while the server is paused.
    async fn wait_while_paused(&mut self, call: &Call) {
        let is_exec = matches!(call.command.run, Run::Transaction(Verb::Exec));
        let may_write = match &self.queue {
            Some(queue) if is_exec => queue.may_write(),
            Some(_) => false,
            None => call.writes(),
        };
        while self.state.pause.holds(may_write, || self.state.now_ms())
            && !self.session().client.is_killed()
        {
            self.state.pause.wait().await;
        }
        let session = self.session();
        session.is_closing |= session.client.is_killed();
        session.lap_ns = 0;
    }

    /// Answers a call that needs neither the queue of a transaction nor an I/O thread.
    fn step(&mut self, call: Call) -> Step {
        if !self.session().is_authenticated() && !call.command.has(Flag::NoAuth) {
            if let Some(number) = position(COMMANDS, call.command) {
                self.state.command_statistics.of(number).reject();
            }
            self.refuse(NO_AUTH);
            return Step::Done;
        }
        let verb = match call.command.run {
            Run::Transaction(verb) => Some(verb),
            _ => None,
        };
        let is_queued = matches!(verb, None | Some(Verb::Unwatch | Verb::Monitor))
            && call.command.name != "quit";
        if self.queue.is_some() && is_queued {
            return Step::Enqueue(call);
        }
        if let Some(verb) = verb {
            return self.step_transaction(verb, call);
        }
        if !matches!(call.command.place, ExecutionClass::Loop | ExecutionClass::Point) {
            return Step::Offload(call);
        }
        match self.on_event_loop(|state, session| pipeline::run_in_memory(state, session, &call)) {
            None => {}
            // A large reply is made again on an I/O thread, when there is memory for it.
            Some(Some(reply)) if self.outbox.has_memory_for(&reply) => {
                self.reply(&reply);
                let shown = std::slice::from_ref(&call);
                observation::show(&self.state, self.session.as_deref(), shown);
            }
            Some(Some(_) | None) => return Step::Offload(call),
        }
        Step::Done
    }

    async fn enqueue(&mut self, call: Call) {
        let Some(queue) = &mut self.queue else { return };
        let pushed = queue.push(call).await;
        let len = queue.len();
        self.session().lap_ns = 0;
        self.session().client.queued.store(len as i64, Ordering::Relaxed);
        match pushed {
            Ok(()) => self.reply(&Reply::Simple("QUEUED")),
            Err(error) => self.refuse(error),
        }
    }

    fn step_transaction(&mut self, verb: Verb, call: Call) -> Step {
        let reply = match (verb, self.queue.is_some()) {
            (Verb::Multi, false) => {
                let reservation = self.state.memory.requests().reservation();
                let bytes_max = self.state.memory.request_bytes_max();
                self.set_queue(Some(Queue::new(reservation, bytes_max)));
                Reply::OK
            }
            (Verb::Multi, true) => Reply::Error("ERR MULTI calls can not be nested".into()),
            (Verb::Exec, true) | (Verb::Watch, false) => return Step::Offload(call),
            (Verb::Exec, false) => Reply::Error("ERR EXEC without MULTI".into()),
            (Verb::Discard, true) => {
                self.set_queue(None);
                self.set_watches(Vec::new());
                Reply::OK
            }
            (Verb::Discard, false) => Reply::Error("ERR DISCARD without MULTI".into()),
            (Verb::Monitor, _) => {
                self.monitor = Some(self.state.monitors.add());
                Reply::OK
            }
            (Verb::Reset, _) => {
                self.set_queue(None);
                self.set_watches(Vec::new());
                self.monitor = None;
                let needs_no_password = self.state.settings.password().is_none();
                self.session().reset(needs_no_password);
                Reply::Simple("RESET")
            }
            (Verb::Watch, true) => Reply::Error("ERR WATCH inside MULTI is not allowed".into()),
            (Verb::Unwatch, _) => {
                self.set_watches(Vec::new());
                Reply::OK
            }
        };
        self.reply(&reply);
        observation::show(&self.state, self.session.as_deref(), std::slice::from_ref(&call));
        Step::Done
    }

    /// Executes the first of `requests`, a call, together with the following ones if possible:
    /// writes on the event loop, if they need not wait, and everything else on an I/O thread.
    async fn offload(&mut self, requests: &mut VecDeque<Request>) -> io::Result<()> {
        let Some(Request::Call(first)) = requests.pop_front() else { return Ok(()) };
        match (first.command.run, first.command.place) {
            (Run::Transaction(verb), _) => {
                let shown = [first.clone()];
                if verb == Verb::Exec {
                    self.exec().await?;
                } else {
                    self.watch(first).await;
                }
                observation::show(&self.state, self.session.as_deref(), &shown);
            }
            (_, ExecutionClass::Alone | ExecutionClass::Walk) => self.run_alone(first).await?,
            _ => {
                let mut calls = vec![first];
                while let Some(Request::Call(next)) = requests.front()
                    && matches!(next.command.place, ExecutionClass::Point | ExecutionClass::Write)
                    && !self.state.pause.holds(next.writes(), || self.state.now_ms())
                    && let Some(Request::Call(next)) = requests.pop_front()
                {
                    calls.push(next);
                }
                let rest = self.run_batch(calls).await?;
                rest.into_iter().rev().for_each(|call| requests.push_front(Request::Call(call)));
            }
        }
        Ok(())
    }

    /// Executes calls that read a few keys or write; returns the remaining ones.
    async fn run_batch(&mut self, mut calls: Vec<Call>) -> io::Result<Vec<Call>> {
        self.has_writes |= calls.iter().any(Call::writes);
        let way = pipeline::way_of(&self.state, &calls);
        let tried = match way {
            Way::Loop => self.try_writes(&calls).await,
            Way::Batch => self.write_together(&mut calls).await,
            Way::Thread => Some(Tried::Offload),
        };
        let replies = match tried {
            None => return Ok(Vec::new()),
            Some(Tried::Done(replies)) => replies,
            Some(Tried::Busy | Tried::NeedsMemory(_) | Tried::Offload) => Vec::new(),
        };
        replies.iter().for_each(|reply| self.reply(reply));
        let rest = calls.split_off(replies.len());
        observation::show(&self.state, self.session.as_deref(), &calls);
        // Calls that an event loop leaves may suit it as well; calls that a group commit leaves
        // would mostly fail in the next one for the same reason.
        let is_for_loop = way == Way::Loop && !replies.is_empty();
        if rest.is_empty() || is_for_loop { Ok(rest) } else { self.run_on_thread(rest).await }
    }

    /// Executes calls on an I/O thread; returns the remaining ones.
    async fn run_on_thread(&mut self, calls: Vec<Call>) -> io::Result<Vec<Call>> {
        let writes = calls.iter().any(|call| call.command.place == ExecutionClass::Write);
        let execute = if writes { pipeline::run_writes } else { pipeline::run_points };
        let work = move |state: &State, session: &mut Session, calls: &Vec<Call>, bytes_max| {
            execute(state, session, calls, bytes_max)
        };
        let Some((mut calls, replies)) = self.run_with_memory(calls, false, work).await? else {
            return Ok(Vec::new());
        };
        // A call without memory for its reply is answered.
        let rest = calls.split_off(replies.as_ref().map_or(1, Vec::len));
        if let Some(replies) = replies {
            self.reply_all(replies).await?;
            observation::show(&self.state, self.session.as_deref(), &calls);
        }
        Ok(rest)
    }

    /// Runs `work` over `subject` on an I/O thread, with memory for the replies; again, with more, if
    /// it needs that. The result is `None` if it panicked, and without replies if there was no
    /// memory in time, which is answered.
    async fn run_with_memory<C, T, W>(
        &mut self,
        mut subject: C,
        is_walk: bool,
        work: W,
    ) -> io::Result<Option<(C, Option<T>)>>
    where
        C: Send + 'static,
        T: Send + 'static,
        W: Fn(&State, &mut Session, &C, usize) -> Result<T, NeedsMemory> + Clone + Send + 'static,
    {
        let mut bytes = self.state.memory.fetch_bytes_max();
        while self.outbox.reserve(bytes, &mut *self.stream).await? {
            // After the memory: a walk that waits for memory must not keep others from ending.
            let permit = match is_walk {
                true => self.state.walks.clone().acquire_owned().await.ok(),
                false => None,
            };
            let work = work.clone();
            let run = move |state: &State, session: &mut Session| {
                let replies = work(state, session, &subject, bytes);
                drop(permit);
                (subject, replies)
            };
            let replies;
            (subject, replies) = match self.on_io_thread(run).await {
                Some(done) => done,
                None => return Ok(None),
            };
            match replies {
                Ok(replies) => return Ok(Some((subject, Some(replies)))),
                // With some to spare, because values may grow meanwhile.
                Err(NeedsMemory(needed)) => {
                    bytes = needed.max((2 * bytes).min(self.state.memory.reply_bytes_max()));
                }
            }
        }
        self.refuse(OUT_OF_MEMORY);
        Ok(Some((subject, None)))
    }

    /// Appends `replies`, and sends those that are produced while they are sent.
    async fn reply_all(&mut self, replies: Vec<Reply>) -> io::Result<()> {
        for reply in replies {
            let is_taken = self.push_reply(&reply);
            if let Reply::Streamed(streamed) = reply
                && is_taken
            {
                let protocol = self.session().protocol();
                self.outbox.send_streamed(streamed, protocol, &mut *self.stream).await?;
            }
        }
        Ok(())
    }

    /// Executes writing calls on this event loop, if they need not wait; `None` if one panicked.
    /// While another writer is active, other connections run.
    async fn try_writes(&mut self, calls: &[Call]) -> Option<Tried> {
        let mut until_ns = None;
        let mut reply_bytes_max = FREE_BYTES;
        loop {
            let tried = self.on_event_loop(|state, session| {
                pipeline::try_writes(state, session, calls, reply_bytes_max)
            })?;
            match tried {
                Tried::Busy => {}
                Tried::NeedsMemory(bytes)
                    if bytes <= SMALL_BYTES_MAX && self.outbox.try_reserve(bytes) =>
                {
                    reply_bytes_max = bytes;
                    continue;
                }
                tried => return Some(tried),
            }
            let now_ns = self.state.monotonic_ns();
            if now_ns > *until_ns.get_or_insert(now_ns + BUSY_NS_MAX) {
                return Some(tried);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Executes writing calls together with those of other connections, and waits until they are
    /// durable; `None` if one panicked.
    async fn write_together(&mut self, calls: &mut Vec<Call>) -> Option<Tried> {
        let mut session = self.session.take().expect(ONE_PIECE);
        session.lap_ns = 0;
        let has_room = self.outbox.try_reserve(SMALL_BYTES_MAX);
        let reply_bytes_max = if has_room { SMALL_BYTES_MAX } else { FREE_BYTES };
        let part = Part { calls: std::mem::take(calls), session, reply_bytes_max };
        let (part, outcome) = self.group_commit.write(part).await;
        *calls = part.calls;
        self.session = Some(part.session);
        self.session().lap_ns = 0;
        match outcome {
            Outcome::Done(replies) => Some(Tried::Done(replies)),
            Outcome::Alone | Outcome::InTurn => Some(Tried::Offload),
            Outcome::Panicked => {
                self.fail();
                None
            }
        }
    }

    async fn run_alone(&mut self, call: Call) -> io::Result<()> {
        self.has_writes |= call.writes();
        let is_walk = call.command.place == ExecutionClass::Walk;
        if let Some((call, Some(reply))) =
            self.run_with_memory(call, is_walk, pipeline::run_alone).await?
        {
            self.reply_all(vec![reply]).await?;
            observation::show(&self.state, self.session.as_deref(), std::slice::from_ref(&call));
        }
        Ok(())
    }

    async fn exec(&mut self) -> io::Result<()> {
        let queue = self.queue.take();
        self.set_queue(None);
        let watches = std::mem::take(&mut self.watches);
        self.set_watches(Vec::new());
        // The memory of the calls is held until they are done.
        let Some((calls, _memory)) = queue.and_then(Queue::into_calls) else {
            let aborted = "EXECABORT Transaction discarded because of previous errors.";
            self.reply(&Reply::Error(aborted.into()));
            return Ok(());
        };
        self.has_writes |= calls.iter().any(Call::writes);
        let work =
            |state: &State, session: &mut Session, queued: &(Vec<Call>, Vec<_>), bytes_max| {
                pipeline::run_queue(state, session, &queued.0, &queued.1, bytes_max)
            };
        let queued = (calls, watches);
        if let Some(((calls, _), Some(reply))) = self.run_with_memory(queued, false, work).await? {
            self.reply(&reply);
            observation::show(&self.state, self.session.as_deref(), &calls);
        }
        Ok(())
    }

    async fn watch(&mut self, call: Call) {
        let watches = self.watches.clone();
        let watched = self
            .on_io_thread(move |state, session| {
                pipeline::watch(state, session.database(), &call, watches)
            })
            .await;
        match watched {
            None => {}
            Some(Err(error)) => self.refuse(error),
            Some(Ok(watches)) => {
                self.set_watches(watches);
                self.reply(&Reply::OK);
            }
        }
    }

    /// Runs `work`, which does not block, on this event loop; `None` if it panicked.
    fn on_event_loop<T>(&mut self, work: impl FnOnce(&State, &mut Session) -> T) -> Option<T> {
        let Self { state, session, .. } = self;
        let session = session.as_mut().expect("it is away only while its work is waited for");
        let done = catch_unwind(AssertUnwindSafe(|| work(state, session)));
        done.map_err(|_| self.fail()).ok()
    }

    /// Runs `work` on an I/O thread, where it may block; `None` if it panicked.
    ///
    /// The threads are the runtime's blocking threads; the settings give their number. Their queue
    /// needs no bound: a connection has one piece of work at a time.
    async fn on_io_thread<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&State, &mut Session) -> T + Send + 'static,
    ) -> Option<T> {
        let state = Arc::clone(&self.state);
        let mut session = self.session.take().expect(ONE_PIECE);
        // The work may wait for a thread.
        session.lap_ns = 0;
        let work = move || {
            let done = catch_unwind(AssertUnwindSafe(|| work(&state, &mut session)));
            (session, done)
        };
        let Ok((session, done)) = tokio::task::spawn_blocking(work).await else {
            // The runtime shuts down before the work has started, and this task with it.
            return std::future::pending().await;
        };
        self.session = Some(session);
        self.session().lap_ns = 0;
        done.map_err(|_| self.fail()).ok()
    }

    fn set_queue(&mut self, queue: Option<Queue>) {
        let queued = if queue.is_some() { 0 } else { -1 };
        self.session().client.queued.store(queued, Ordering::Relaxed);
        self.queue = queue;
    }

    fn set_watches(&mut self, watches: Vec<WatchedKey>) {
        self.session().client.watched.store(watches.len(), Ordering::Relaxed);
        self.watches = watches;
    }

    fn reply(&mut self, reply: &Reply) {
        self.push_reply(reply);
    }

    /// Appends the reply of a command; false if the client does not want it (`CLIENT REPLY`).
    fn push_reply(&mut self, reply: &Reply) -> bool {
        if let Reply::Error(message) = reply {
            self.state.counters.add_error(message);
        }
        let is_taken = self.session().takes_reply();
        if is_taken {
            let protocol = self.session().protocol();
            self.outbox.push(reply, protocol);
        }
        is_taken
    }

    /// Replies with an error to a request that cannot be executed; aborts a `MULTI` in progress.
    fn refuse(&mut self, error: CommandError) {
        if error.discards_transaction() {
            self.set_queue(None);
            self.set_watches(Vec::new());
        } else if let Some(queue) = &mut self.queue {
            queue.abort();
        }
        self.reply(&Reply::from(error));
    }

    /// A command panicked: its effects are unknown, so the connection must end.
    fn fail(&mut self) {
        self.state.counters.panics.add(1);
        tracing::error!("a command has panicked; its connection is closed");
        self.reply(&Reply::from(INTERNAL));
        self.session().is_closing = true;
    }

    /// Sends all replies.
    async fn flush(&mut self) -> io::Result<()> {
        self.outbox.flush(&mut *self.stream).await
    }

    /// Closes the stream so that the last replies arrive.
    async fn close(mut self) {
        let flushed = self.flush().await;
        // A client that was killed is in the list no more.
        if self.session().client.is_killed() {
            self.session = None;
        }
        if flushed.is_ok() {
            stream::end(&mut *self.stream).await;
        }
    }
}
