//! Synced writes of several connections together: one transaction, one sync.
//!
//! A write that has to be durable waits for the disk, which takes as long for one
//! write as for fifty. So connections hand such writes in, and a *round* on an I/O
//! thread commits all that have come; what comes meanwhile is in the next one. Before
//! a round begins, the event loop gets to all whose requests have arrived: clients
//! that were answered together mostly come back together, and rounds of one and of
//! all the others would take turns otherwise.
//!
//! Guarantees:
//! 1. Every work that is handed in is answered, once, or the runtime ends before.
//! 2. What is answered with [`Tried::Done`] is durable, or its replies say why it is
//!    not; what is answered otherwise has written nothing. (But for a panic of the
//!    store: then nobody knows.)
//! 3. A command that panics ends its own connection only.
//!
//! Relies on: a connection hands in one work at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tidekv::Commit;
use tokio::sync::oneshot;

use crate::pipeline::{self, Outcome, Tried, Work};
use crate::reply::Reply;
use crate::state::State;

/// How often the event loop goes round before a round begins: once for the
/// connections that it knows to be ready, once for those that it finds then.
const TURNS: usize = 2;

/// How often writes are tried together before each is on its own: another writer
/// that has come in between once is seldom there twice.
const ATTEMPTS: usize = 2;

/// Writes that wait for the next round.
#[derive(Debug)]
pub(crate) struct Rounds {
    state: Arc<State>,
    gathering: Mutex<Gathering>,
}

#[derive(Debug, Default)]
struct Gathering {
    waiting: Vec<Waiting>,
    /// A round is under way or about to be.
    is_running: bool,
}

/// A work that waits, and who waits for it.
#[derive(Debug)]
struct Waiting {
    work: Work,
    answer: oneshot::Sender<(Work, Outcome)>,
}

impl Rounds {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state, gathering: Mutex::default() }
    }

    /// Hands in `work` for the next round and waits for its end.
    pub(crate) async fn write(self: &Arc<Self>, work: Work) -> (Work, Outcome) {
        let (answer, answered) = oneshot::channel();
        let was_running = {
            let mut gathering = self.gathering.lock();
            gathering.waiting.push(Waiting { work, answer });
            std::mem::replace(&mut gathering.is_running, true)
        };
        if !was_running {
            tokio::spawn(Arc::clone(self).run());
        }
        match answered.await {
            Ok(answered) => answered,
            // The runtime ends before the round has begun, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Has rounds run until no more writes wait. Each is a task of its own for the I/O
    /// threads, whose other work has its turn between two of them.
    async fn run(self: Arc<Self>) {
        loop {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            let waiting = {
                let mut gathering = self.gathering.lock();
                gathering.is_running = !gathering.waiting.is_empty();
                std::mem::take(&mut gathering.waiting)
            };
            if waiting.is_empty() {
                return;
            }
            let state = Arc::clone(&self.state);
            let committed = tokio::task::spawn_blocking(move || commit(&state, waiting)).await;
            // It does not panic; if the runtime ends before it has begun, so does this
            // task. Answers from here wake nobody on another thread.
            for (waiting, outcome) in committed.into_iter().flatten() {
                waiting.answer(outcome);
            }
        }
    }
}

impl Waiting {
    fn answer(self, outcome: Outcome) {
        // A connection that has ended meanwhile wants no answer.
        let _ = self.answer.send((self.work, outcome));
    }
}

/// Commits the writes of all that wait; what became of each.
fn commit(state: &State, mut waiting: Vec<Waiting>) -> Vec<(Waiting, Outcome)> {
    for _ in 0..ATTEMPTS {
        let mut works: Vec<&mut Work> = waiting.iter_mut().map(|w| &mut w.work).collect();
        let run = AssertUnwindSafe(|| pipeline::run_together(state, &mut works));
        // What panics here, and below, is the store.
        let Ok((outcomes, shared)) = catch_unwind(run) else {
            return waiting.into_iter().map(|waiting| (waiting, None)).collect();
        };
        // Who cannot be part of it goes on at once, elsewhere.
        let mut partners = Vec::with_capacity(waiting.len());
        for (waiting, outcome) in waiting.into_iter().zip(outcomes) {
            match outcome {
                Some(Tried::Done(replies)) => partners.push((waiting, replies)),
                outcome => waiting.answer(outcome),
            }
        }
        if partners.is_empty() {
            return Vec::new();
        }
        let committed = catch_unwind(AssertUnwindSafe(|| shared.commit()));
        if let Ok(Ok(Commit::Conflict)) = committed {
            waiting = partners.into_iter().map(|(waiting, _)| waiting).collect();
            continue;
        }
        let outcome = |mut replies: Vec<Reply>| match &committed {
            Ok(Ok(_)) => Some(Tried::Done(replies)),
            Ok(Err(error)) => {
                replies.fill(Reply::from(error.clone()));
                Some(Tried::Done(replies))
            }
            Err(_) => None,
        };
        return partners.into_iter().map(|(w, replies)| (w, outcome(replies))).collect();
    }
    waiting.into_iter().map(|waiting| (waiting, Some(Tried::Offload))).collect()
}
