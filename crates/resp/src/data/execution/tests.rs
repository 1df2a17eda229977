//! Reads and recorded accesses of executions, and the bounds of prefixes.

use std::sync::Arc;

use tidekv::{Db, Environment, Options};
use tidekv_io::{MemoryStorage, Storage};
use tidekv_net::clients::Arrival;

use super::*;
use crate::options::ServerOptions;

#[test]
fn bounds_of_a_prefix_contain_its_keys() {
    let bytes = |text: &'static [u8]| Bytes::from_static(text);
    assert_eq!(prefix_end(b"user:"), Bound::Excluded(bytes(b"user;")));
    assert_eq!(prefix_end(b"a\xff\xff"), Bound::Excluded(bytes(b"b")));
    assert_eq!(prefix_end(b"\xff"), Bound::Unbounded);
    let bounds = (Bound::Included(bytes(b"user:")), prefix_end(b"user:"));
    assert_eq!(common_prefix(&bounds), "user");
    assert!(!is_crossed(&bounds));
    assert!(is_crossed(&(Bound::Excluded(bytes(b"a")), Bound::Included(bytes(b"a")))));
    assert!(!is_crossed(&(Bound::Included(bytes(b"a")), Bound::Included(bytes(b"a")))));
}

/// A server's state over simulated storage.
fn state() -> State {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let environment = Environment::default().storage(storage);
    let options = Options::default().environment(environment).memory_bytes(16 << 20);
    let db = Db::open("data", options).expect("it opens");
    State::new(db, &ServerOptions::default(), 0).expect("it has its keyspaces")
}

#[test]
fn a_repeated_command_records_one_read() {
    let state = state();
    state.keyspaces.get(0, Space::Strings).expect("it exists").put("a", "1").expect("it is stored");
    let mut session =
        Session::new(state.clients.admit(Arrival::default(), 1).expect("it is the only one"), true);
    let loads =
        || state.curves.as_ref().expect("there are curves").loads()[Space::Strings as usize];
    let mut execution = Execution::new(&state, &mut session, Backing::Memory);
    assert!(execution.get(Space::Strings, b"a").expect("it is in memory").is_some());
    // Another key of the command was not in memory.
    execution.settle(false);
    assert_eq!(loads(), 0);
    assert!(execution.get(Space::Strings, b"a").expect("it is in memory").is_some());
    assert!(execution.get(Space::Strings, b"b").expect("it is nowhere").is_none());
    execution.settle(true);
    assert_eq!(loads(), 1);
}
