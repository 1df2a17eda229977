//! One group commit: calls of several connections in one transaction, with one sync.
//!
//! Guarantees:
//! 1. Nothing is written, and no reply may be sent, before [`Batch::commit`] has succeeded; then
//!    all of it is durable.
//! 2. No part waits for another part's storage read, first head, large value or memory for replies:
//!    a part with one of these is not in the batch.
//! 3. A call that fails has written nothing; a call that panics affects no other connection.
//!
//! Both steps must run on an I/O thread: they wait for the store.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::RwLockReadGuard;
use tidekv::{Commit, Durability, Transaction};

use crate::commands::command::Call;
use crate::data::execution::{Backing, Execution};
use crate::dispatch::pipeline::{BATCH_BYTES, run_batch};
use crate::protocol::reply::{CommandError, Reply};
use crate::state::server_state::State;
use crate::state::session::Session;
use crate::state::stripes::KeySet;

/// A part that writes more is not in a batch: a command may write much more than its arguments, for
/// example `APPEND` to a large value.
const PART_BYTES_MAX: usize = 4 * BATCH_BYTES;

/// The calls of one connection, with its session.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) calls: Vec<Call>,
    pub(crate) session: Box<Session>,
    /// The memory that is reserved for its replies.
    pub(crate) reply_bytes_max: usize,
}

/// The outcome of a part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The replies to its first calls, or to all of them.
    Done(Vec<Reply>),
    /// The part is not in the batch and has written nothing: it must run alone.
    Alone,
    /// As above, but it may be in a batch that holds the turns of its keys.
    InTurn,
    /// One of its calls panicked.
    Panicked,
}

/// A transaction of several connections, not yet committed.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    state: &'a State,
    transaction: Box<Transaction>,
    /// The keys of each part in the batch.
    keys: Vec<KeySet>,
    written_bytes: usize,
    /// Whether the caller holds the turns of all keys.
    holds_turns: bool,
    /// Held until the commit: see `HeadPresence`.
    gate: RwLockReadGuard<'a, ()>,
}

impl Part {
    /// The keys of its calls.
    pub(crate) fn keys(&self) -> KeySet {
        let mut keys = KeySet::default();
        self.calls.iter().for_each(|call| call.collect_keys(&mut keys));
        keys
    }
}

/// The state of the transaction after a part.
enum Ran {
    /// The transaction contains the part, or is unchanged.
    Well(Outcome),
    /// The transaction contains a part of a command, or too much: it must be discarded.
    Badly(Outcome),
}

impl<'a> Batch<'a> {
    /// Executes the calls of `parts`, one part after the other; returns the outcome of each once
    /// the batch is committed. `holds_turns`: the caller holds the turns of all their keys.
    pub(crate) fn run(
        state: &'a State,
        parts: &mut [&mut Part],
        holds_turns: bool,
    ) -> (Vec<Outcome>, Self) {
        let gate = state.keyspaces.heads().enter();
        let transaction = Box::new(state.db.transaction());
        let mut round =
            Self { state, transaction, keys: Vec::new(), written_bytes: 0, holds_turns, gate };
        let mut outcomes = Vec::with_capacity(parts.len());
        for part in parts.iter_mut() {
            match round.add(part) {
                Ran::Well(outcome) => outcomes.push(outcome),
                Ran::Badly(outcome) => {
                    // The writes of the other parts are lost with the transaction: they start over.
                    let culprit = outcomes.len();
                    outcomes = vec![Outcome::InTurn; parts.len()];
                    outcomes[culprit] = outcome;
                    break;
                }
            }
        }
        (outcomes, round)
    }

    /// Executes the calls of `part`, if none of them must wait.
    fn add(&mut self, part: &mut Part) -> Ran {
        let state = self.state;
        let keys = part.keys();
        if self.written_bytes > BATCH_BYTES {
            return Ran::Well(Outcome::Alone);
        }
        if !self.holds_turns && state.stripes.has_turn(&keys) {
            return Ran::Well(Outcome::InTurn);
        }
        // An empty transaction remains, for the parts that start over.
        let empty = Box::new(state.db.transaction());
        let transaction = std::mem::replace(&mut self.transaction, empty);
        let backing = Backing::TransactionInMemory(transaction);
        let mut execution = Execution::new(state, &mut part.session, backing)
            .with_reply_memory(part.reply_bytes_max);
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

    /// Commits the batch durably, unless another writer has changed its keys.
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
