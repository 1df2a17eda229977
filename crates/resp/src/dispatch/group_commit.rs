//! Group commit: batches the synced writes of connections.
//!
//! A durable write waits for the disk, which takes as long for one write as for fifty. The store's
//! group commit joins *threads* that wait at the same time; a connection would need an I/O thread
//! of its own for the length of a sync, and two wake-ups. This is group commit for *connections*:
//! they submit their writes, and a [`Batch`] on one I/O thread commits all of them; later writes
//! are in the next batch. Before a batch starts, the event loop runs the connections whose requests
//! have arrived: clients that were answered together mostly return together, and batches of a few
//! clients would otherwise alternate with batches of all the others. (With several event loops,
//! connections of the others may miss a batch.)
//!
//! Guarantees: every submitted part is answered, once, when its writes are durable or when it is
//! certain that none was made; or the runtime ends before. (After a panic of the store it is
//! unknown what was written.)
//!
//! Relies on: a connection submits one part at a time. [`GroupCommit::write`] must run on an event
//! loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tidekv::Commit;
use tokio::sync::oneshot;

use crate::dispatch::batch::{Batch, Outcome, Part};
use crate::protocol::reply::Reply;
use crate::state::server_state::State;
use crate::state::stripes::KeySet;

/// How often the event loop's other tasks run before a batch starts: once the tasks known to be
/// ready, once the tasks found ready then.
const YIELDS: usize = 2;

/// How often writes that hold their turns are tried together before each runs alone: writers
/// without a conflict take no turn and may still interfere.
const ATTEMPTS: usize = 3;

/// Writes that wait for the next batch.
#[derive(Debug)]
pub(crate) struct GroupCommit {
    state: Arc<State>,
    gathering: Mutex<Gathering>,
}

#[derive(Debug, Default)]
struct Gathering {
    waiting: Vec<Waiting>,
    /// A batch is running or about to start.
    is_running: bool,
}

/// A waiting part, with the channel for its answer.
#[derive(Debug)]
struct Waiting {
    part: Part,
    answer: oneshot::Sender<(Part, Outcome)>,
}

impl GroupCommit {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state, gathering: Mutex::default() }
    }

    /// Submits `part` for the next batch and waits for its outcome.
    pub(crate) async fn write(self: &Arc<Self>, part: Part) -> (Part, Outcome) {
        let (answer, answered) = oneshot::channel();
        let was_running = {
            let mut gathering = self.gathering.lock();
            gathering.waiting.push(Waiting { part, answer });
            std::mem::replace(&mut gathering.is_running, true)
        };
        if !was_running {
            tokio::spawn(Arc::clone(self).run());
        }
        match answered.await {
            Ok(answered) => answered,
            // The runtime shuts down before the batch has started, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Runs batches until no more parts wait. Each is a separate task of the I/O threads, so that
    /// other work runs between two batches.
    async fn run(self: Arc<Self>) {
        let bail_out = BailOut(&self);
        loop {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            let waiting = {
                let mut gathering = self.gathering.lock();
                gathering.is_running = !gathering.waiting.is_empty();
                std::mem::take(&mut gathering.waiting)
            };
            if waiting.is_empty() {
                return std::mem::forget(bail_out);
            }
            let state = Arc::clone(&self.state);
            // It answers by itself. If the runtime shuts down before it starts, this task ends too.
            let _ = tokio::task::spawn_blocking(move || commit(&state, waiting)).await;
        }
    }
}

/// If the task that runs batches cannot continue (the system may have no thread for it), dropping
/// this answers the waiting parts, and the next part starts a new task.
struct BailOut<'a>(&'a GroupCommit);

impl Drop for BailOut<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut gathering = self.0.gathering.lock();
            gathering.is_running = false;
            std::mem::take(&mut gathering.waiting)
        };
        waiting.into_iter().for_each(|waiting| waiting.answer(Outcome::Panicked));
    }
}

impl Waiting {
    fn answer(self, outcome: Outcome) {
        // The connection may have ended meanwhile.
        let _ = self.answer.send((self.part, outcome));
    }
}

/// Commits all waiting parts, and answers each.
fn commit(state: &State, waiting: Vec<Waiting>) {
    let mut later = commit_together(state, waiting, false);
    if later.is_empty() {
        return;
    }
    // They conflict with another writer, or another writer holds the turn of a key: take the turns
    // of all their keys together.
    let keys = KeySet::union(later.iter().map(|waiting| waiting.part.keys()));
    let turns = state.stripes.take_turn(&keys);
    for _ in 0..ATTEMPTS {
        later = commit_together(state, later, true);
    }
    drop(turns);
    later.into_iter().for_each(|waiting| waiting.answer(Outcome::Alone));
}

/// Runs one batch. Answers the parts that are done and those that continue alone; the others may be
/// in a batch that holds the turns of their keys.
fn commit_together(state: &State, mut waiting: Vec<Waiting>, holds_turns: bool) -> Vec<Waiting> {
    let mut parts: Vec<&mut Part> = waiting.iter_mut().map(|w| &mut w.part).collect();
    let run = AssertUnwindSafe(|| Batch::run(state, &mut parts, holds_turns));
    // A panic here, and below, is one of the store: it is unknown what was written.
    let Ok((outcomes, round)) = catch_unwind(run) else {
        waiting.into_iter().for_each(|waiting| waiting.answer(Outcome::Panicked));
        return Vec::new();
    };
    let (mut later, mut partners) = (Vec::new(), Vec::new());
    for (waiting, outcome) in waiting.into_iter().zip(outcomes) {
        match outcome {
            Outcome::Done(replies) => partners.push((waiting, replies)),
            Outcome::InTurn => later.push(waiting),
            // They continue at once.
            Outcome::Alone | Outcome::Panicked => waiting.answer(outcome),
        }
    }
    if partners.is_empty() {
        return later;
    }
    let committed = catch_unwind(AssertUnwindSafe(|| round.commit()));
    for (waiting, replies) in partners {
        match &committed {
            Ok(Ok(Commit::Done)) => waiting.answer(Outcome::Done(replies)),
            Ok(Ok(Commit::Conflict)) => later.push(waiting),
            Ok(Err(error)) => {
                let error = Reply::from(error.clone());
                waiting.answer(Outcome::Done(vec![error; replies.len()]));
            }
            Err(_) => waiting.answer(Outcome::Panicked),
        }
    }
    later
}

#[cfg(test)]
mod tests;
