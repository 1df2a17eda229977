//! Gathers the synced writes of connections into rounds.
//!
//! A write that has to be durable waits for the disk, which takes as long for one
//! write as for fifty. The store's group commit joins *threads* that wait at once; a
//! connection would need an I/O thread of its own for the length of a sync, and two
//! wake-ups. This is group commit for *connections*: they hand their writes in, and a
//! [`Round`] on one I/O thread commits all that have come; what comes meanwhile is in
//! the next one. Before a round begins, the event loop gets to the connections whose
//! requests have arrived: clients that were answered together mostly come back
//! together, and rounds of a few and of all the others would take turns otherwise.
//! (With several event loops, connections of the others may miss a round.)
//!
//! Guarantees: every part that is handed in is answered, once, when its writes are
//! durable or when it is clear that none was made; or the runtime ends before. (After a
//! panic of the store nobody knows what it has written.)
//!
//! Relies on: a connection hands in one part at a time. [`Rounds::write`] belongs on
//! an event loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tidekv::Commit;
use tokio::sync::oneshot;

use crate::dispatch::round::{Outcome, Part, Round};
use crate::protocol::reply::Reply;
use crate::state::server_state::State;
use crate::state::stripes::KeySet;

/// How often the event loop's other tasks run before a round begins: once those that
/// it knows to be ready, once those that it finds then.
const YIELDS: usize = 2;

/// How often writes that hold their turns are tried together before each is on its
/// own: writers that have met nobody yet take no turn, and may still be in the way.
const ATTEMPTS: usize = 3;

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

/// A part that waits, and who waits for it.
#[derive(Debug)]
struct Waiting {
    part: Part,
    answer: oneshot::Sender<(Part, Outcome)>,
}

impl Rounds {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state, gathering: Mutex::default() }
    }

    /// Hands in `part` for the next round and waits for what becomes of it.
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
            // The runtime ends before the round has begun, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Has rounds run until no more parts wait. Each is a task of its own for the I/O
    /// threads, whose other work has its turn between two of them.
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
            // It answers by itself. If the runtime ends before it has begun, so does
            // this task.
            let _ = tokio::task::spawn_blocking(move || commit(&state, waiting)).await;
        }
    }
}

/// If the task that runs rounds cannot go on (the system may have no thread for it),
/// those that wait hear of it, and the next to come begins another.
struct BailOut<'a>(&'a Rounds);

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
        // A connection that has ended meanwhile wants no answer.
        let _ = self.answer.send((self.part, outcome));
    }
}

/// Commits the parts of all that wait, and answers each.
fn commit(state: &State, waiting: Vec<Waiting>) {
    let mut later = commit_together(state, waiting, false);
    if later.is_empty() {
        return;
    }
    // They have met another writer, or a key of theirs is somebody's turn: they take
    // theirs together.
    let keys = KeySet::union(later.iter().map(|waiting| waiting.part.keys()));
    let turns = state.stripes.take_turn(&keys);
    for _ in 0..ATTEMPTS {
        later = commit_together(state, later, true);
    }
    drop(turns);
    later.into_iter().for_each(|waiting| waiting.answer(Outcome::Alone));
}

/// One round. Answers those that are done and those that go on alone; the others may be
/// in a round that holds the turns of their keys.
fn commit_together(state: &State, mut waiting: Vec<Waiting>, holds_turns: bool) -> Vec<Waiting> {
    let mut parts: Vec<&mut Part> = waiting.iter_mut().map(|w| &mut w.part).collect();
    let run = AssertUnwindSafe(|| Round::run(state, &mut parts, holds_turns));
    // What panics here, and below, is the store: nobody knows what it has written.
    let Ok((outcomes, round)) = catch_unwind(run) else {
        waiting.into_iter().for_each(|waiting| waiting.answer(Outcome::Panicked));
        return Vec::new();
    };
    let (mut later, mut partners) = (Vec::new(), Vec::new());
    for (waiting, outcome) in waiting.into_iter().zip(outcomes) {
        match outcome {
            Outcome::Done(replies) => partners.push((waiting, replies)),
            Outcome::InTurn => later.push(waiting),
            // They go on at once.
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
