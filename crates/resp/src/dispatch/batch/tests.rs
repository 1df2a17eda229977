//! Which calls are in a batch, and which are not.

use std::sync::Arc;

use bytes::Bytes;
use tidekv::{Environment, Options};
use tidekv_io::{MemoryStorage, Storage};
use tidekv_net::clients::Arrival;

use super::*;
use crate::commands::catalogue;
use crate::commands::command::{Command, ExecutionClass, Flag, Group, Keys, Run};
use crate::options::ServerOptions;
use crate::state::keyspaces::Space;

pub(crate) const PANICS: Command = Command {
    name: "panics",
    arity: 2,
    place: ExecutionClass::Write,
    flags: &[Flag::Write],
    keys: Keys::ONE,
    group: Group::String,
    since: "",
    syntax: "",
    summary: "",
    run: Run::Data(|execution, arguments| {
        execution.delete(Space::Strings, arguments[0].clone())?;
        panic!("a bug")
    }),
};

pub(crate) fn state() -> State {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let environment = Environment::default().storage(storage);
    let db = tidekv::Db::open("data", Options::default().environment(environment)).unwrap();
    State::new(db, &ServerOptions::default(), 0).unwrap()
}

/// The part that a connection submits; an unknown command panics.
pub(crate) fn part(state: &State, commands: &[&str]) -> Part {
    let call = |command: &&str| {
        let words: Vec<Bytes> =
            command.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
        let panics = Call { command: const { &PANICS }, words: words.clone() };
        catalogue::resolve(words, None).unwrap_or(panics)
    };
    let client = state.clients.admit(Arrival::default(), 10).unwrap();
    let session = Box::new(Session::new(client, true));
    Part { calls: commands.iter().map(call).collect(), session, reply_bytes_max: 64 << 10 }
}

pub(crate) fn value(state: &State, key: &str) -> Option<Bytes> {
    state.keyspaces.get(0, Space::Strings).unwrap().get(key).unwrap()
}

#[test]
fn parts_see_the_writes_of_earlier_parts() {
    let state = state();
    let mut parts = [
        part(&state, &["SET a 1", "INCR a"]),
        part(&state, &["INCR a"]),
        part(&state, &["INCR a", "HSET h f v"]),
        part(&state, &["INCR a", "INCR b"]),
        part(&state, &["HSET h f v"]),
    ];
    let (outcomes, round) = Batch::run(&state, &mut parts.each_mut(), false);
    let expected = [
        Outcome::Done(vec![Reply::OK, Reply::Integer(2)]),
        Outcome::Done(vec![Reply::Integer(3)]),
        // The first head must wait at the gate.
        Outcome::Done(vec![Reply::Integer(4)]),
        Outcome::Done(vec![Reply::Integer(5), Reply::Integer(1)]),
        Outcome::Alone,
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(value(&state, "a"), None);
    assert_eq!(round.commit(), Ok(Commit::Done));
    assert_eq!(value(&state, "a").unwrap(), "5");
}

#[test]
fn a_panic_affects_only_its_own_part() {
    let state = state();
    let mut parts = [
        part(&state, &["SET a 1"]),
        part(&state, &["SET b 1", "panics a"]),
        part(&state, &["SET c 1"]),
    ];
    let (outcomes, round) = Batch::run(&state, &mut parts.each_mut(), false);
    assert_eq!(outcomes, [Outcome::InTurn, Outcome::Panicked, Outcome::InTurn]);
    assert_eq!(round.commit(), Ok(Commit::Done));
    assert!(["a", "b", "c"].iter().all(|key| value(&state, key).is_none()));
}

#[test]
fn large_writes_run_alone() {
    let state = state();
    state.keyspaces.heads().announce();
    let value = "x".repeat(BATCH_BYTES);
    let set = |key: &str| part(&state, &[&format!("SET {key} {value}")]);
    let (mut a, mut b, mut c) = (set("a"), set("b"), part(&state, &["SET c 1"]));
    let (outcomes, _) = Batch::run(&state, &mut [&mut a, &mut b, &mut c], false);
    // The first part has filled the batch.
    assert_eq!(outcomes, [Outcome::Done(vec![Reply::OK]), Outcome::Alone, Outcome::Alone]);
    let mut large = part(&state, &[&format!("APPEND d {}", value.repeat(5))]);
    let (outcomes, _) = Batch::run(&state, &mut [&mut c, &mut large], false);
    assert_eq!(outcomes, [Outcome::InTurn, Outcome::Alone]);
}

#[test]
fn parts_whose_replies_lack_memory_run_alone() {
    let state = state();
    let value = "x".repeat(10 << 10);
    let mut parts = [
        part(&state, &[&format!("SET a {value}"), "GETDEL a"]),
        part(&state, &["SET b 1", &format!("SET b {value} GET"), "GETSET b 2"]),
        part(&state, &["GETDEL a"]),
    ];
    parts.iter_mut().for_each(|part| part.reply_bytes_max = 8 << 10);
    let (outcomes, batch) = Batch::run(&state, &mut parts.each_mut(), false);
    let expected = [
        Outcome::Done(vec![Reply::OK]),
        Outcome::Done(vec![Reply::OK, Reply::text("1")]),
        Outcome::Alone,
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(batch.commit(), Ok(Commit::Done));
    assert_eq!(self::value(&state, "a").unwrap(), value, "a call without memory has no effect");
    assert_eq!(self::value(&state, "b").unwrap(), value);
}

#[test]
fn turns_of_others_are_respected() {
    let state = state();
    let (mut ours, mut others) = (part(&state, &["INCR a"]), part(&state, &["INCR b"]));
    let keys = ours.keys();
    let turn = state.stripes.take_turn(&keys);
    let done = Outcome::Done(vec![Reply::Integer(1)]);
    let (outcomes, _) = Batch::run(&state, &mut [&mut ours, &mut others], false);
    assert_eq!(outcomes, [Outcome::InTurn, done.clone()]);
    let (outcomes, _) = Batch::run(&state, &mut [&mut ours], true);
    assert_eq!(outcomes, [done]);
    drop(turn);
}

#[test]
fn expired_keys_are_gone_for_the_next_part_too() {
    let state = state();
    let mut parts = [part(&state, &["SET k v PXAT 1"]), part(&state, &["SETNX k w", "GET k"])];
    let (outcomes, round) = Batch::run(&state, &mut parts.each_mut(), false);
    let expected = vec![Reply::Integer(1), Reply::Bulk("w".into())];
    assert_eq!(outcomes[1], Outcome::Done(expected));
    assert_eq!(round.commit(), Ok(Commit::Done));
    assert_eq!(value(&state, "k").unwrap(), "w");
}
