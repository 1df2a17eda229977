//! Executes the calls of a connection: on the event loop, if they need not wait, or on an I/O
//! thread; writes in one transaction. Calls of several connections together:
//! [`batch`](crate::dispatch::batch).
//!
//! Guarantees:
//! 1. Calls of a connection take effect in the order in which they were sent.
//! 2. Calls are atomic: none sees a part of another, wherever both run. (Point reads from memory by
//!    stripes, point reads from storage by stripes or by one snapshot for all of them, writes by
//!    transactions.)
//! 3. When a function here returns, its answered writes are committed with the durability of the
//!    settings; calls answered with an error of the store have written nothing.
//! 4. A writer with a conflict takes a turn on its keys and starts over, so it makes progress.
//!
//! Functions that take several calls may answer only the first of them, to bound replies and
//! writes; the caller calls again with the rest. Functions that take `reply_bytes_max`, the memory
//! that is reserved for replies, do nothing if the first reply exceeds it ([`NeedsMemory`]).

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use tidekv::{Attempt, Commit, Durability, Entry, KEY_BYTES_MAX, Keyspace};

use crate::commands::catalogue::COMMANDS;
use crate::commands::command::{Call, ExecutionClass, Flag, Group, Run, Verb};
use crate::commands::introspection;
use crate::data::execution::{Backing, Execution};
use crate::data::watched_key::WatchedKey;
use crate::dispatch::observation;
use crate::protocol::reply::{CommandError, CommandResult, OUT_OF_MEMORY, Reply};
use crate::state::keyspaces::Space;
use crate::state::server_state::State;
use crate::state::session::Session;
use crate::state::stripes::KeySet;

/// A batch ends after this many bytes of replies or writes.
pub(crate) const BATCH_BYTES: usize = 1 << 20;
/// Maximum watched keys of a connection.
const WATCHED_KEYS_MAX: usize = 2048;
/// Maximum calls of a writing batch.
pub(crate) const WRITE_CALLS_MAX: usize = 1024;
/// Maximum calls of a writing batch on the event loop: about a tenth of a millisecond, during which
/// its other connections wait.
const LOOP_CALLS_MAX: usize = 64;
/// Maximum bytes of their words, and of calls that share a group commit with other connections;
/// also the bytes of replies or writes after which a batch on the event loop ends.
pub(crate) const SMALL_BYTES_MAX: usize = 64 << 10;
/// Maximum calls of a batch that only reads: all their values are in memory before the first reply
/// is made.
const POINT_CALLS_MAX: usize = 64;

/// Nothing was done: the replies take this many bytes, more than are reserved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NeedsMemory(pub(crate) usize);

/// The reply with `result`, unless that must be had again with more memory.
fn answer(result: CommandResult) -> Result<Reply, NeedsMemory> {
    match result {
        Err(CommandError::NeedsMemory(bytes)) => Err(NeedsMemory(bytes)),
        result => Ok(Reply::from(result)),
    }
}

/// Executes one call; a failed call has written nothing.
fn run(execution: &mut Execution<'_>, call: &Call) -> CommandResult {
    let began_ns = match execution.session.lap_ns {
        0 => execution.state.monotonic_ns(),
        lap_ns => lap_ns,
    };
    let result = match call.command.run {
        Run::Data(run) => run(execution, call.arguments()),
        Run::Both(run) => run(execution, COMMANDS, call.arguments()),
        Run::Catalogue(run) => run(COMMANDS, call.arguments()),
        Run::Help(container) => Ok(introspection::help(COMMANDS, container)),
        // In a queue: EXEC has already cleared the watched keys.
        Run::Transaction(Verb::Unwatch) => Ok(Reply::OK),
        Run::Transaction(Verb::Monitor) => {
            Err(CommandError::text("ERR MONITOR isn't allowed for DENY BLOCKING client"))
        }
        Run::Transaction(_) | Run::Container(()) => {
            Err(CommandError::text("ERR this command cannot run here"))
        }
    };
    let result = result.and_then(|reply| execution.count_reply(&reply).map(|()| reply));
    execution.settle(result.is_ok());
    if !result.as_ref().is_err_and(CommandError::must_run_again) {
        let ended_ns = execution.state.monotonic_ns();
        execution.session.lap_ns = ended_ns;
        let took_ns = ended_ns.saturating_sub(began_ns);
        observation::note(execution.state, execution.session, call, took_ns, result.is_err());
    }
    result
}

/// Executes `calls` until the replies or writes fill a batch, or until one must run again. The only
/// errors are those of the first call that [`CommandError::must_run_again`] is about.
pub(crate) fn run_batch(
    execution: &mut Execution<'_>,
    calls: &[Call],
    bytes_max: usize,
) -> Result<Vec<Reply>, CommandError> {
    let mut replies = Vec::with_capacity(calls.len());
    for call in calls {
        let reply = match run(execution, call) {
            Err(error) if error.must_run_again() => {
                if replies.is_empty() {
                    return Err(error);
                }
                break;
            }
            result => Reply::from(result),
        };
        replies.push(reply);
        if execution.replied_bytes() + execution.written_bytes() > bytes_max {
            break;
        }
    }
    Ok(replies)
}

/// Executes a call on the event loop; `None` if that would block.
pub(crate) fn run_in_memory(state: &State, session: &mut Session, call: &Call) -> Option<Reply> {
    let result = if call.command.place == ExecutionClass::Loop {
        run(&mut Execution::new(state, session, Backing::Memory), call)
    } else {
        let mut keys = KeySet::default();
        call.collect_keys(&mut keys);
        let mark = state.stripes.begin_read(&keys)?;
        let result = run(&mut Execution::new(state, session, Backing::Memory), call);
        if !state.stripes.is_unchanged(&mark) {
            return None;
        }
        result
    };
    match result {
        Err(CommandError::WouldBlock) => None,
        result => {
            state.counters.loop_commands.add(1);
            Some(Reply::from(result))
        }
    }
}

/// Executes calls that read a few keys each: from the current state, as long as no writer commits
/// on their keys, because only such reads fill the value and pointer caches; otherwise from a
/// snapshot.
pub(crate) fn run_points(
    state: &State,
    session: &mut Session,
    calls: &[Call],
    reply_bytes_max: usize,
) -> Result<Vec<Reply>, NeedsMemory> {
    let calls = &calls[..calls.len().min(POINT_CALLS_MAX)];
    let (mut execution, calls) = match fetch_present(state, session.database(), calls) {
        Some((calls, entries)) => {
            (Execution::new(state, session, Backing::Fetched(entries)), calls)
        }
        None => (Execution::over_snapshot(state, session), calls),
    };
    let mut count = calls.len();
    execution.fetch(|snapshot, slot| {
        let bytes_max = state.memory.fetch_bytes_max();
        let read = |keyspace: &Keyspace, keys: &[&Bytes]| {
            snapshot.multi_get_up_to(keyspace, keys, bytes_max)
        };
        let (calls, entries) = fetch(state, slot, calls, read)?;
        count = calls.len();
        Some(entries)
    });
    let calls = &calls[..count];
    let mut execution = execution.with_reply_memory(reply_bytes_max);
    let replied = match run_batch(&mut execution, calls, BATCH_BYTES) {
        // A long string, whose parts were not read together.
        Err(CommandError::WouldBlock) => {
            let execution = Execution::over_snapshot(state, session);
            run_batch(&mut execution.with_reply_memory(reply_bytes_max), &calls[..1], BATCH_BYTES)
        }
        replied => replied,
    };
    replied.or_else(|error| answer(Err(error)).map(|reply| vec![reply]))
}

/// The entries read, by kind and key.
type Entries = HashMap<(Space, Bytes), Entry>;

/// Like [`fetch`], from the current state; also `None` if a writer has committed on the keys
/// meanwhile, so that the entries may be from different moments.
fn fetch_present<'a>(
    state: &State,
    database: usize,
    calls: &'a [Call],
) -> Option<(&'a [Call], Entries)> {
    let mut keys = KeySet::default();
    calls.iter().for_each(|call| call.collect_keys(&mut keys));
    let mark = state.stripes.begin_read(&keys)?;
    let slot = state.keyspaces.slot_map().slot(database);
    let bytes_max = state.memory.fetch_bytes_max();
    let read = |keyspace: &Keyspace, keys: &[&Bytes]| keyspace.multi_get_up_to(keys, bytes_max);
    let fetched = fetch(state, slot, calls, read)?;
    state.stripes.is_unchanged(&mark).then_some(fetched)
}

/// Reads the keys of `calls` together, to wait for the disk once. Returns the first calls, all of
/// whose keys were read: fewer than given if their values take too much memory. `None` if that is
/// less than one call, which then reads one key after another, or if the calls read other keys too.
fn fetch<'a>(
    state: &State,
    slot: usize,
    calls: &'a [Call],
    read: impl Fn(&Keyspace, &[&Bytes]) -> tidekv::Result<Vec<Option<Entry>>>,
) -> Option<(&'a [Call], Entries)> {
    if calls.iter().any(|call| call.command.group == Group::Hash) {
        return None;
    }
    let keys_of = |call: &'a Call| {
        let keys = call.command.keys(&call.words);
        keys.filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()))
    };
    // In the order of the calls, each once.
    let mut seen = HashSet::new();
    let keys: Vec<&Bytes> =
        calls.iter().flat_map(keys_of).filter(|key| seen.insert(&key[..])).collect();
    let mut entries = HashMap::with_capacity(keys.len());
    // The call that an error belongs to will meet it again.
    let mut count = keys.len();
    let mut missing = keys.clone();
    for space in [Space::Strings, Space::Heads] {
        if space == Space::Heads && (!state.keyspaces.heads().exist() || missing.is_empty()) {
            break;
        }
        let Some(keyspace) = state.keyspaces.get(slot, space) else { break };
        let found = read(keyspace, &missing).ok()?;
        if found.len() < missing.len() {
            let first_unread = missing[found.len()];
            count = count.min(keys.iter().position(|key| *key == first_unread)?);
        }
        let mut still_missing = Vec::new();
        for (key, entry) in missing.iter().zip(found) {
            match entry {
                Some(entry) => drop(entries.insert((space, Bytes::clone(key)), entry)),
                None => still_missing.push(*key),
            }
        }
        missing = still_missing;
    }
    let unread: HashSet<&[u8]> = keys[count..].iter().map(|key| &key[..]).collect();
    let is_read = |call: &'a Call| keys_of(call).all(|key| !unread.contains(&key[..]));
    let covered = calls.iter().take_while(|call| is_read(call)).count();
    (covered > 0).then_some((&calls[..covered], entries))
}

/// The dispatch of calls that an event loop does not answer one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Try them on the event loop: [`try_writes`].
    Loop,
    /// Write them together with those of other connections: [`batch`](crate::dispatch::batch).
    Batch,
    /// Execute them on an I/O thread: [`run_writes`] if some write, otherwise [`run_points`].
    Thread,
}

/// The dispatch of `calls`.
pub(crate) fn way_of(state: &State, calls: &[Call]) -> Way {
    let is_small =
        |calls: &[Call]| calls.iter().map(Call::bytes_len).sum::<usize>() <= SMALL_BYTES_MAX;
    if !calls.iter().any(|call| call.command.place == ExecutionClass::Write) {
        return Way::Thread;
    }
    match state.settings.durability() {
        Durability::Sync if is_small(calls) => Way::Batch,
        Durability::Buffered if is_small(on_loop(calls)) => {
            let is_breaker_open = state.slow_disk_breaker.is_on(|| state.monotonic_ns());
            if is_breaker_open { Way::Thread } else { Way::Loop }
        }
        _ => Way::Thread,
    }
}

/// The first of `calls` that an event loop executes at a time.
fn on_loop(calls: &[Call]) -> &[Call] {
    &calls[..calls.len().min(LOOP_CALLS_MAX)]
}

/// The outcome of writes tried on the event loop.
#[derive(Debug)]
pub(crate) enum Tried {
    /// They succeeded.
    Done(Vec<Reply>),
    /// Another writer is active: try again soon.
    Busy,
    /// Nothing was written: the first reply needs this much memory.
    NeedsMemory(usize),
    /// They must wait, or have failed: nothing was written, and [`run_writes`] must execute them.
    Offload,
}

/// Executes calls, some of which write, on the event loop in one transaction.
pub(crate) fn try_writes(
    state: &State,
    session: &mut Session,
    calls: &[Call],
    reply_bytes_max: usize,
) -> Tried {
    let calls = on_loop(calls);
    // The setting may have changed while waiting for another writer.
    if state.settings.durability() != Durability::Buffered {
        return Tried::Offload;
    }
    if state.db.is_busy() {
        return Tried::Busy;
    }
    let mut keys = KeySet::default();
    calls.iter().for_each(|call| call.collect_keys(&mut keys));
    let heads = state.keyspaces.heads();
    let Some(gate) = heads.try_enter() else { return Tried::Offload };
    if state.stripes.has_turn(&keys) {
        return Tried::Offload;
    }
    let backing = Backing::TransactionInMemory(Box::new(state.db.transaction()));
    let mut execution = Execution::new(state, session, backing).with_reply_memory(reply_bytes_max);
    let replies = match run_batch(&mut execution, calls, SMALL_BYTES_MAX) {
        Ok(replies) => replies,
        Err(CommandError::NeedsMemory(bytes)) => return Tried::NeedsMemory(bytes),
        Err(_) => return Tried::Offload,
    };
    let began_ns = state.monotonic_ns();
    let mark = state.stripes.begin_commit(&keys);
    let attempt = execution.try_commit();
    drop(mark);
    drop(gate);
    state.slow_disk_breaker.note(began_ns, state.monotonic_ns());
    match attempt {
        Ok(Attempt::Done) => {
            state.counters.loop_commands.add(replies.len());
            Tried::Done(replies)
        }
        Ok(Attempt::Busy) => Tried::Busy,
        Ok(Attempt::Conflict | Attempt::WouldBlock) | Err(_) => Tried::Offload,
    }
}

/// Executes calls, some of which write, in one transaction.
pub(crate) fn run_writes(
    state: &State,
    session: &mut Session,
    calls: &[Call],
    reply_bytes_max: usize,
) -> Result<Vec<Reply>, NeedsMemory> {
    let calls = &calls[..calls.len().min(WRITE_CALLS_MAX)];
    let body = |execution: &mut Execution<'_>| run_batch(execution, calls, BATCH_BYTES);
    match transact(state, session, calls, &[], reply_bytes_max, body) {
        Ok(Some(replies)) => Ok(replies),
        Ok(None) => unreachable!("nothing is watched"),
        Err(error) => answer(Err(error)).map(|reply| vec![reply; calls.len()]),
    }
}

/// Executes one call alone, reading from one snapshot.
pub(crate) fn run_alone(
    state: &State,
    session: &mut Session,
    call: &Call,
    reply_bytes_max: usize,
) -> Result<Reply, NeedsMemory> {
    let heads = state.keyspaces.heads();
    let gate = call.excludes_others().then(|| heads.exclude());
    let execution = match gate {
        Some(_) => Execution::new(state, session, Backing::Snapshot(state.db.snapshot())),
        None => Execution::over_snapshot(state, session),
    };
    let mut execution = execution.with_reply_memory(reply_bytes_max);
    let result = run(&mut execution, call);
    let mut keys = KeySet::default();
    if call.command.has(Flag::Write) {
        call.collect_keys(&mut keys);
    }
    let mark = state.stripes.begin_commit(&keys);
    let committed = execution.commit(state.settings.durability());
    drop(mark);
    drop(gate);
    answer(committed.and(result))
}

/// Records the state of the keys of `WATCH`.
///
/// A key that is already watched keeps its watch: the older one is stricter. Each watch holds a
/// snapshot, so their number is bounded.
pub(crate) fn watch(
    state: &State,
    database: usize,
    call: &Call,
    mut watched: Vec<WatchedKey>,
) -> Result<Vec<WatchedKey>, CommandError> {
    let _gate = state.keyspaces.heads().enter();
    for key in call.command.keys(&call.words) {
        if watched.iter().any(|watched| watched.is(database, key)) {
            continue;
        }
        if watched.len() == WATCHED_KEYS_MAX {
            return Err(CommandError::text("ERR too many watched keys"));
        }
        watched.extend(WatchedKey::new(state, database, key)?);
    }
    Ok(watched)
}

/// Executes the calls of a `MULTI` atomically; null if a watched key has changed.
pub(crate) fn run_queue(
    state: &State,
    session: &mut Session,
    calls: &[Call],
    watches: &[WatchedKey],
    reply_bytes_max: usize,
) -> Result<Reply, NeedsMemory> {
    let run_all = |execution: &mut Execution<'_>| {
        let mut replies = Vec::with_capacity(calls.len());
        for call in calls {
            let reply = match run(execution, call) {
                Err(error) if error.must_run_again() => return Err(error),
                result => Reply::from(result),
            };
            state.memory.check_reply(execution.replied_bytes())?;
            if execution.written_bytes() > state.memory.request_bytes_max() {
                return Err(OUT_OF_MEMORY);
            }
            replies.push(reply);
        }
        Ok(replies)
    };
    let database = session.database();
    let outcome = if calls.iter().any(|call| call.command.has(Flag::Write)) {
        transact(state, session, calls, watches, reply_bytes_max, run_all)
    } else {
        let execution = Execution::over_snapshot(state, session).without_streams();
        let mut execution = execution.with_reply_memory(reply_bytes_max);
        // If the keys are unchanged now, they were unchanged when the snapshot was taken. Calls of
        // a failed transaction must not change the session or the settings.
        match have_changed(state, watches) {
            Ok(false) => run_all(&mut execution).map(Some),
            Ok(true) => Ok(None),
            Err(error) => Err(error),
        }
    };
    if !matches!(outcome, Ok(Some(_))) {
        // A queued `SELECT` had no effect either.
        session.select(database);
    }
    match outcome {
        Ok(Some(replies)) => Ok(Reply::Array(replies)),
        Ok(None) => Ok(Reply::NullArray),
        Err(error) => answer(Err(error)),
    }
}

fn have_changed(state: &State, watches: &[WatchedKey]) -> Result<bool, CommandError> {
    if watches.is_empty() {
        return Ok(false);
    }
    let _gate = state.keyspaces.heads().enter();
    if are_gone(state, watches)? {
        return Ok(true);
    }
    let mut transaction = state.db.transaction();
    watches.iter().for_each(|watch| watch.guard(&mut transaction));
    Ok(transaction.commit(Durability::Buffered)? == Commit::Conflict)
}

/// Whether a watched key has expired or its database was swapped.
fn are_gone(state: &State, watches: &[WatchedKey]) -> Result<bool, CommandError> {
    watches.iter().try_fold(false, |gone, watch| Ok(gone || watch.is_gone(state)?))
}

/// Runs `body` in a transaction, and again after each conflict with another writer; `None` if a
/// watched key has changed.
fn transact<T>(
    state: &State,
    session: &mut Session,
    calls: &[Call],
    watches: &[WatchedKey],
    reply_bytes_max: usize,
    body: impl Fn(&mut Execution<'_>) -> Result<T, CommandError>,
) -> Result<Option<T>, CommandError> {
    let mut keys = KeySet::default();
    calls.iter().for_each(|call| call.collect_keys(&mut keys));
    let heads = state.keyspaces.heads();
    let excludes_others = calls.iter().any(Call::excludes_others);
    let mut turns = Vec::new();
    let database = session.database();
    // Before the calls change the session or the settings; the commit checks again.
    if have_changed(state, watches)? {
        return Ok(None);
    }
    loop {
        let gate = if excludes_others {
            Gate::Alone(heads.exclude())
        } else {
            Gate::Shared(heads.enter())
        };
        if are_gone(state, watches)? {
            return Ok(None);
        }
        let mut transaction = state.db.transaction();
        watches.iter().for_each(|watch| watch.guard(&mut transaction));
        let backing = Backing::Transaction(Box::new(transaction));
        // An attempt that met a conflict may have selected another one.
        session.select(database);
        let mut execution =
            Execution::new(state, session, backing).with_reply_memory(reply_bytes_max);
        let value = match body(&mut execution) {
            Err(CommandError::FirstHead) => {
                drop(execution);
                drop(gate);
                heads.announce();
                continue;
            }
            value => value?,
        };
        let mark = state.stripes.begin_commit(&keys);
        let commit = execution.commit(state.settings.durability())?;
        drop(mark);
        drop(gate);
        if commit == Commit::Done {
            return Ok(Some(value));
        }
        state.counters.conflicts.add(1);
        if have_changed(state, watches)? {
            session.select(database);
            return Ok(None);
        }
        if turns.is_empty() {
            turns = state.stripes.take_turn(&keys);
        }
    }
}

/// The gate as a transaction holds it.
#[expect(dead_code, reason = "held until it is dropped")]
enum Gate<'a> {
    Shared(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
}
