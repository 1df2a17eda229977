//! One round: calls of several connections in one transaction, with one sync.
//!
//! Guarantees:
//! 1. Nothing is written, and no reply may be sent, before [`Round::commit`] has said
//!    that it is done; then all of it is durable.
//! 2. Nobody waits for a read from storage, for the first hash or for the large value
//!    of somebody else: a part that has one is not in the round.
//! 3. A call that fails has written nothing; one that panics takes nobody with it.
//!
//! Both steps belong on an I/O thread: they wait for the store.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::RwLockReadGuard;
use tidekv::{Commit, Durability, Transaction};

use crate::commands::command::Call;
use crate::data::execution::{Backing, Execution};
use crate::dispatch::pipeline::{BATCH_BYTES, makes_hash, run_batch};
use crate::protocol::reply::{CommandError, Reply};
use crate::state::server_state::State;
use crate::state::session::Session;
use crate::state::stripes::KeySet;

/// A part that has written more is not in a round: a command may write much more than
/// it says, such as `APPEND` to a large value.
const PART_BYTES_MAX: usize = 4 * BATCH_BYTES;

/// Calls of one connection, with the session that they run in.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) calls: Vec<Call>,
    pub(crate) session: Box<Session>,
}

/// What became of a part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The replies to its first calls, or to all.
    Done(Vec<Reply>),
    /// It is not in the round and has written nothing: it is to run by itself.
    Alone,
    /// As above, but it may be in a round that holds the turns of its keys.
    InTurn,
    /// One of its calls has panicked.
    Panicked,
}

/// A transaction of several connections, not yet committed.
#[derive(Debug)]
pub(crate) struct Round<'a> {
    state: &'a State,
    transaction: Box<Transaction>,
    /// Of each part that is in it.
    keys: Vec<KeySet>,
    written_bytes: usize,
    /// Whether the caller holds the turns of all keys.
    holds_turns: bool,
    /// Held until the commit: see `HashPresence`.
    gate: RwLockReadGuard<'a, ()>,
}

impl Part {
    /// What its calls touch.
    pub(crate) fn keys(&self) -> KeySet {
        let mut keys = KeySet::default();
        self.calls.iter().for_each(|call| call.collect_keys(&mut keys));
        keys
    }
}

/// What a part has made of the transaction.
enum Ran {
    /// It is in it, or has left it as it was.
    Well(Outcome),
    /// The transaction holds half of a command, or too much: it is gone.
    Badly(Outcome),
}

impl<'a> Round<'a> {
    /// Runs the calls of `parts`, one part after the other; what becomes of each once
    /// the round is committed. `holds_turns`: the caller holds those of all their keys.
    pub(crate) fn run(
        state: &'a State,
        parts: &mut [&mut Part],
        holds_turns: bool,
    ) -> (Vec<Outcome>, Self) {
        let gate = state.keyspaces.hashes().enter();
        let transaction = Box::new(state.db.transaction());
        let mut round =
            Self { state, transaction, keys: Vec::new(), written_bytes: 0, holds_turns, gate };
        let mut outcomes = Vec::with_capacity(parts.len());
        for part in parts.iter_mut() {
            match round.add(part) {
                Ran::Well(outcome) => outcomes.push(outcome),
                Ran::Badly(outcome) => {
                    // What the others have written went with it: they start over.
                    let culprit = outcomes.len();
                    outcomes = vec![Outcome::InTurn; parts.len()];
                    outcomes[culprit] = outcome;
                    break;
                }
            }
        }
        (outcomes, round)
    }

    /// Runs the calls of `part`, if none of them has to wait.
    fn add(&mut self, part: &mut Part) -> Ran {
        let state = self.state;
        let keys = part.keys();
        let is_first_hash = !state.keyspaces.hashes().exist() && part.calls.iter().any(makes_hash);
        if is_first_hash || self.written_bytes > BATCH_BYTES {
            return Ran::Well(Outcome::Alone);
        }
        if !self.holds_turns && state.stripes.has_turn(&keys) {
            return Ran::Well(Outcome::InTurn);
        }
        // An empty one stays for whoever starts over.
        let empty = Box::new(state.db.transaction());
        let transaction = std::mem::replace(&mut self.transaction, empty);
        let backing = Backing::TransactionInMemory(transaction);
        let mut execution = Execution::new(state, &mut part.session, backing);
        let run = AssertUnwindSafe(|| run_batch(&mut execution, &part.calls, BATCH_BYTES));
        let outcome = match catch_unwind(run) {
            Ok(Ok(replies)) => Outcome::Done(replies),
            Ok(Err(_)) => Outcome::Alone,
            Err(_) => return Ran::Badly(Outcome::Panicked),
        };
        let written_bytes = execution.written_bytes();
        if written_bytes > PART_BYTES_MAX {
            return Ran::Badly(Outcome::Alone);
        }
        self.transaction = execution.into_transaction();
        self.written_bytes += written_bytes;
        self.keys.push(keys);
        Ran::Well(outcome)
    }

    /// Makes all of it durable, unless another writer has come in between.
    pub(crate) fn commit(self) -> Result<Commit, CommandError> {
        let stripes = &self.state.stripes;
        let marks: Vec<_> = self.keys.iter().map(|keys| stripes.begin_commit(keys)).collect();
        let committed = self.transaction.commit(Durability::Sync);
        drop(marks);
        drop(self.gate);
        if matches!(committed, Ok(Commit::Conflict)) {
            self.state.counters.conflicts.add(1);
        }
        Ok(committed?)
    }
}

#[cfg(test)]
pub(crate) mod tests;
