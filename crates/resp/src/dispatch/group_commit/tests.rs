//! Batches that conflict with another writer, or that cannot start.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidekv_io::{Clock, SystemClock};

use super::*;
use crate::commands::command::{Call, Command, Run};
use crate::dispatch::batch::tests::{PANICS, part, state, value};
use crate::state::keyspaces::Space;

/// How many more times [`MEDDLES`] does this.
static MEDDLING: AtomicU32 = AtomicU32::new(0);

/// Reads `a`, lets another writer change it, and writes `b`.
static MEDDLES: Command = Command {
    run: Run::Data(|execution, _| {
        let read = execution.get(Space::Strings, b"a")?;
        if MEDDLING.load(Ordering::Relaxed) > 0 {
            MEDDLING.fetch_sub(1, Ordering::Relaxed);
            execution.state.keyspaces.get(0, Space::Strings).unwrap().put("a", "meddled").unwrap();
        }
        let seen = read.map_or(Bytes::from("nothing"), |entry| entry.value);
        execution.put(Space::Strings, "b".into(), seen, None)?;
        Ok(Reply::OK)
    }),
    ..PANICS
};

#[test]
fn a_conflicting_batch_reads_again() {
    let done = || Some(Outcome::Done(vec![Reply::OK]));
    for (meddling, outcome, b) in [
        (0, done(), Some("nothing")),
        (1, done(), Some("meddled")),
        (u32::MAX, Some(Outcome::Alone), None),
    ] {
        let state = state();
        MEDDLING.store(meddling, Ordering::Relaxed);
        let mut part = part(&state, &["SET c 1"]);
        part.calls[0] = Call { command: &MEDDLES, words: vec!["meddles".into(), "a".into()] };
        let (answer, mut answered) = oneshot::channel();
        commit(&state, vec![Waiting { part, answer }]);
        assert_eq!(answered.try_recv().ok().map(|answered| answered.1), outcome);
        assert_eq!(value(&state, "b").as_deref(), b.map(str::as_bytes));
    }
}

#[test]
fn a_part_waits_for_the_turn_of_its_key() {
    let state = state();
    let waiting = part(&state, &["INCR a"]);
    let keys = waiting.keys();
    let turn = state.stripes.take_turn(&keys);
    let (answer, mut answered) = oneshot::channel();
    std::thread::scope(|scope| {
        let round = scope.spawn(|| commit(&state, vec![Waiting { part: waiting, answer }]));
        SystemClock::new().sleep(Duration::from_millis(50));
        assert!(answered.try_recv().is_err() && !round.is_finished());
        drop(turn);
        round.join().unwrap();
    });
    assert_eq!(answered.try_recv().unwrap().1, Outcome::Done(vec![Reply::Integer(1)]));
}

#[test]
fn parts_of_a_batch_that_cannot_start_are_answered_and_the_next_starts() {
    let state = Arc::new(state());
    let group_commit = Arc::new(GroupCommit::new(Arc::clone(&state)));
    let (answer, mut answered) = oneshot::channel();
    let waiting = Waiting { part: part(&state, &["SET a 1"]), answer };
    *group_commit.gathering.lock() = Gathering { waiting: vec![waiting], is_running: true };
    drop(BailOut(&group_commit));
    assert_eq!(answered.try_recv().unwrap().1, Outcome::Panicked);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (_, outcome) = runtime.block_on(group_commit.write(part(&state, &["SET a 1"])));
    assert_eq!(outcome, Outcome::Done(vec![Reply::OK]));
}
