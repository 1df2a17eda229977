//! The ordered map that every history must agree with: per keyspace a map from keys to their
//! versions, as many as open snapshots can see.
//!
//! It implements the guarantees of the interface in the simplest way that is fast enough for
//! millions of operations.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tidekv::ErrorKind;

use crate::answer::Answer;
use crate::operations::{
    Expectation, Moment, Operation, Payload, SLOTS, SPACES, Step, Walk, Write, key,
};
use crate::support::START_MS;

#[derive(Debug, Clone)]
struct Value {
    bytes: Arc<[u8]>,
    deadline_ms: Option<u64>,
}

impl Value {
    fn is_alive(&self, now_ms: u64) -> bool {
        self.deadline_ms.is_none_or(|deadline| deadline > now_ms)
    }
}

/// Versions of one key, oldest first; `None` is a deletion.
type Versions = Vec<(u64, Option<Value>)>;

type Item = (Vec<u8>, Value);

/// A keyspace and a range of its keys, its end excluded.
type Span = (usize, Vec<u8>, Vec<u8>);

/// A read of a transaction, or a watch.
#[derive(Debug, Clone)]
struct Watched {
    space: usize,
    key: Vec<u8>,
    was_written: bool,
}

#[derive(Debug)]
pub struct Model {
    spaces: [BTreeMap<Vec<u8>, Versions>; SPACES],
    default_ttl_ms: [Option<u32>; SPACES],
    /// Version of the last write.
    version: u64,
    now_ms: u64,
    snapshots: [Option<u64>; SLOTS],
    /// The snapshot of the running transaction.
    transaction: Option<u64>,
    reads: Vec<Watched>,
    /// Writes since that snapshot: keyspace, from, to (excluded).
    foreign: Vec<Span>,
    watches: [Option<Watched>; SLOTS],
    walks: [Option<VecDeque<Item>>; SLOTS],
}

impl Model {
    pub fn new() -> Self {
        Self {
            spaces: Default::default(),
            default_ttl_ms: [None; SPACES],
            version: 0,
            now_ms: START_MS,
            snapshots: [None; SLOTS],
            transaction: None,
            reads: Vec::new(),
            foreign: Vec::new(),
            watches: Default::default(),
            walks: Default::default(),
        }
    }

    // ---- Versions ----

    fn at(versions: &Versions, version: u64, now_ms: u64) -> Option<&Value> {
        let (_, value) = versions.iter().rev().find(|(v, _)| *v <= version)?;
        value.as_ref().filter(|value| value.is_alive(now_ms))
    }

    fn get(&self, space: usize, key: &[u8], version: u64) -> Option<&Value> {
        Self::at(self.spaces[space].get(key)?, version, self.now_ms)
    }

    fn push(versions: &mut Versions, version: u64, value: Option<Value>, newest_held: Option<u64>) {
        // The previous version stays only if a snapshot sees it.
        if versions.last().is_some_and(|(last, _)| newest_held.is_none_or(|held| *last > held)) {
            versions.pop();
        }
        versions.push((version, value));
    }

    fn newest_held(&self) -> Option<u64> {
        self.snapshots.iter().flatten().chain(&self.transaction).max().copied()
    }

    /// Notifies watchers that the keys from `from` up to `to` were written.
    fn note(&mut self, space: usize, from: &[u8], to: &[u8]) {
        let watches = self.watches.iter_mut().flatten();
        for watched in watches.chain(&mut self.reads).filter(|w| w.space == space) {
            watched.was_written |= from <= &watched.key[..] && &watched.key[..] < to;
        }
        if self.transaction.is_some() {
            self.foreign.push((space, from.to_vec(), to.to_vec()));
        }
    }

    fn set(&mut self, space: usize, key: Vec<u8>, value: Option<Value>) {
        self.note(space, &key, &[&key[..], &[0]].concat());
        self.version += 1;
        let held = self.newest_held();
        if value.is_none() && held.is_none() {
            self.spaces[space].remove(&key);
            return;
        }
        Self::push(self.spaces[space].entry(key).or_default(), self.version, value, held);
    }

    fn delete_range(&mut self, space: usize, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        self.note(space, from, to);
        self.version += 1;
        let (version, held) = (self.version, self.newest_held());
        let mut gone = Vec::new();
        for (key, versions) in self.spaces[space].range_mut::<[u8], _>(between(from, to)) {
            Self::push(versions, version, None, held);
            if versions.len() == 1 {
                gone.push(key.clone());
            }
        }
        for key in gone {
            self.spaces[space].remove(&key);
        }
    }

    fn default_deadline(&self, space: usize) -> Option<u64> {
        self.default_ttl_ms[space].map(|ttl| self.now_ms + u64::from(ttl))
    }

    fn write(&mut self, write: &Write) {
        match *write {
            Write::Put { space, key: k, value } => {
                let deadline_ms = self.default_deadline(space);
                self.put(space, k, value, deadline_ms);
            }
            Write::PutTtl { space, key: k, value, ttl_ms } => {
                self.put(space, k, value, Some(self.now_ms + u64::from(ttl_ms)));
            }
            Write::Delete { space, key: k } => self.set(space, key(k), None),
            Write::DeleteRange { space, from, to } => {
                self.delete_range(space, &key(from), &key(to));
            }
        }
    }

    fn put(&mut self, space: usize, k: u32, value: Payload, deadline_ms: Option<u64>) {
        let bytes = value.bytes().into();
        self.set(space, key(k), Some(Value { bytes, deadline_ms }));
    }

    // ---- Iteration ----

    fn version_of(&self, moment: Moment) -> Option<u64> {
        match moment {
            Moment::Now => Some(u64::MAX),
            Moment::Snapshot(slot) => self.snapshots[slot],
        }
    }

    fn items(
        &self,
        space: usize,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        version: u64,
    ) -> impl DoubleEndedIterator<Item = (&[u8], &Value)> {
        let is_empty = match (&bounds.0, &bounds.1) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from >= to,
        };
        let bounds = if is_empty {
            (Bound::Included(Vec::new()), Bound::Excluded(Vec::new()))
        } else {
            bounds
        };
        self.spaces[space].range::<Vec<u8>, _>(bounds).filter_map(move |(key, versions)| {
            Some((&key[..], Self::at(versions, version, self.now_ms)?))
        })
    }

    fn walk(&self, walk: &Walk) -> Option<impl DoubleEndedIterator<Item = (&[u8], &Value)>> {
        let version = self.version_of(walk.moment)?;
        Some(self.items(walk.space, bounds(walk), version))
    }

    fn prefix(
        &self,
        space: usize,
        prefix: Vec<u8>,
        version: u64,
    ) -> impl Iterator<Item = (&[u8], &Value)> {
        let bounds = (Bound::Included(prefix.clone()), Bound::Unbounded);
        self.items(space, bounds, version).take_while(move |(key, _)| key.starts_with(&prefix))
    }

    // ---- Operations ----

    /// Performs `operation` and computes its expected result.
    pub fn run(&mut self, operation: &Operation, answer: &mut Answer) {
        match operation {
            Operation::Write(write) => self.write(write),
            Operation::Batch(writes) => writes.iter().for_each(|write| self.write(write)),
            &Operation::CompareAndSet { space, key: k, expected, new } => {
                self.compare_and_set(space, k, expected, new, answer);
            }
            &Operation::Increment { space, key: k, delta } => {
                self.increment(space, k, delta, answer);
            }
            Operation::Transaction(steps) => self.run_transaction(steps, answer),
            &Operation::Ingest { space, first, stride, count, seed, sorted } => {
                if !sorted && count > 1 {
                    return answer.error(ErrorKind::InvalidInput);
                }
                answer.number(i64::from(count));
                let deadline_ms = self.default_deadline(space);
                for i in 0..count {
                    let value = Payload { seed: seed.wrapping_add(i), len: seed % 97 };
                    self.put(space, first + i * stride, value, deadline_ms);
                }
            }
            &Operation::Clear { space } => {
                // Whether it changes keys that do not exist is not promised.
                self.watches = Default::default();
                let end = self.items(space, (Bound::Unbounded, Bound::Unbounded), u64::MAX);
                let end = end.map(|(key, _)| key).next_back();
                if let Some(end) = end.map(|key| [key, &[0]].concat()) {
                    self.delete_range(space, b"", &end);
                }
            }
            &Operation::DefaultTtl { space, ttl_ms } => self.default_ttl_ms[space] = ttl_ms,
            &Operation::Advance { ms } => self.now_ms += u64::from(ms),
            &Operation::TakeSnapshot { slot } => self.snapshots[slot] = Some(self.version),
            &Operation::DropSnapshot { slot } => self.snapshots[slot] = None,
            &Operation::Watch { slot, space, key: k } => {
                self.watches[slot] = Some(Watched { space, key: key(k), was_written: false });
            }
            &Operation::Unwatch { slot } => self.watches[slot] = None,
            Operation::OpenWalk { slot, walk } => {
                let items = self.walk(walk).map(|items| {
                    items.map(|(key, value)| kept(key, value, walk.keys_only)).collect()
                });
                self.walks[*slot] = items;
            }
            &Operation::StepWalk { slot, reverse, count } => {
                self.step_walk(slot, reverse, count, answer);
            }
            &Operation::CloseWalk { slot } => self.walks[slot] = None,
            Operation::Reopen => self.let_go(),
            Operation::Checkpoint { moves } => {
                self.everything(answer);
                if *moves {
                    self.let_go();
                }
            }
            Operation::ReadOnly => {
                self.everything(answer);
                self.let_go();
            }
            Operation::Everything => self.everything(answer),
            Operation::EmptyKey { .. } => {
                (0..4).for_each(|_| answer.error(ErrorKind::InvalidInput));
            }
            Operation::Flush { .. }
            | Operation::Compact { .. }
            | Operation::CompactAll
            | Operation::Sync
            | Operation::Budget => {}
            read => self.read(read, answer),
        }
    }

    fn let_go(&mut self) {
        self.snapshots = [None; SLOTS];
        self.watches = Default::default();
        self.walks = Default::default();
    }

    fn compare_and_set(
        &mut self,
        space: usize,
        k: u32,
        expected: Expectation,
        new: Option<Payload>,
        answer: &mut Answer,
    ) {
        let is_there = self.get(space, &key(k), u64::MAX).is_some();
        let holds = match expected {
            Expectation::Absence => !is_there,
            Expectation::Presence => true,
            Expectation::Wrong => false,
        };
        answer.word(if holds { "set" } else { "kept" });
        match new {
            _ if !holds => {}
            Some(value) => {
                let deadline_ms = self.default_deadline(space);
                self.put(space, k, value, deadline_ms);
            }
            None => self.set(space, key(k), None),
        }
    }

    fn increment(&mut self, space: usize, k: u32, delta: i64, answer: &mut Answer) {
        let current = self.get(space, &key(k), u64::MAX);
        let number = match current {
            None => Some(0),
            Some(value) => std::str::from_utf8(&value.bytes).ok().and_then(|t| t.parse().ok()),
        };
        let Some(sum) = number.and_then(|number: i64| number.checked_add(delta)) else {
            return answer.error(ErrorKind::InvalidInput);
        };
        // A key keeps its deadline, or stays without one.
        let deadline_ms = match current {
            Some(value) => value.deadline_ms,
            None => self.default_deadline(space),
        };
        answer.number(sum);
        let bytes = sum.to_string().into_bytes().into();
        self.set(space, key(k), Some(Value { bytes, deadline_ms }));
    }

    fn step_walk(&mut self, slot: usize, reverse: bool, count: u32, answer: &mut Answer) {
        let Some(items) = &mut self.walks[slot] else { return answer.word("closed") };
        for _ in 0..count {
            let item = if reverse { items.pop_back() } else { items.pop_front() };
            match item {
                Some((key, value)) => answer.item(&key, &value.bytes, value.deadline_ms),
                None => return answer.word("end"),
            }
        }
    }

    fn read(&self, operation: &Operation, answer: &mut Answer) {
        match operation {
            &Operation::Get { space, key: k, moment } => match self.version_of(moment) {
                Some(version) => answer.entry(shown(self.get(space, &key(k), version))),
                None => answer.word("no snapshot"),
            },
            &Operation::GetCached { space, key: k } => {
                answer.entry(shown(self.get(space, &key(k), u64::MAX)));
            }
            &Operation::Contains { space, key: k } => {
                let is_there = self.get(space, &key(k), u64::MAX).is_some();
                answer.word(if is_there { "there" } else { "not there" });
            }
            Operation::MultiGet { space, keys } => {
                for &k in keys {
                    answer.entry(shown(self.get(*space, &key(k), u64::MAX)));
                }
            }
            Operation::Range { walk, limit, reverse } => {
                let Some(items) = self.walk(walk) else { return answer.word("no snapshot") };
                let say = |(key, value): (&[u8], &Value)| say(key, value, walk.keys_only, answer);
                let limit = *limit as usize;
                match reverse {
                    false => items.take(limit).for_each(say),
                    true => items.rev().take(limit).for_each(say),
                }
            }
            &Operation::Prefix { space, key: k, cut, moment, limit } => {
                let Some(version) = self.version_of(moment) else {
                    return answer.word("no snapshot");
                };
                let items = self.prefix(space, prefix(k, cut), version);
                items.take(limit as usize).for_each(|(key, value)| say(key, value, false, answer));
            }
            Operation::BothEnds { walk, ends } => {
                let Some(mut items) = self.walk(walk) else { return answer.word("no snapshot") };
                let mut ends = *ends;
                while ends != 0 {
                    let item = if ends & 1 == 0 { items.next() } else { items.next_back() };
                    let Some((key, value)) = item else { return answer.word("end") };
                    say(key, value, walk.keys_only, answer);
                    ends >>= 1;
                }
            }
            other => unreachable!("{other:?} is no read"),
        }
    }

    fn everything(&self, answer: &mut Answer) {
        for space in 0..SPACES {
            let items = self.items(space, (Bound::Unbounded, Bound::Unbounded), u64::MAX);
            items.for_each(|(key, value)| say(key, value, false, answer));
            answer.word("end");
        }
    }

    // ---- Transactions ----

    fn run_transaction(&mut self, steps: &[Step], answer: &mut Answer) {
        let mut own: BTreeMap<(usize, Vec<u8>), Option<Value>> = BTreeMap::new();
        let mut deleted: Vec<Span> = Vec::new();
        let mut writes = Vec::new();
        let mut required = Vec::new();
        for step in steps {
            match step {
                &Step::Get { space, key: k } => {
                    self.get_in_transaction(space, key(k), &own, &deleted, answer);
                }
                &Step::Prefix { space, key: k, cut } => {
                    let version = *self.transaction.get_or_insert(self.version);
                    let prefix = prefix(k, cut);
                    let is_deleted = |key: &[u8]| covers(&deleted, space, key);
                    let items = self.prefix(space, prefix.clone(), version);
                    let mut found: BTreeMap<&[u8], &Value> =
                        items.filter(|(key, _)| !is_deleted(key)).collect();
                    for ((s, key), value) in &own {
                        match value {
                            _ if *s != space || !key.starts_with(&prefix) => None,
                            Some(value) => found.insert(key, value),
                            None => found.remove(&key[..]),
                        };
                    }
                    found.into_iter().for_each(|(key, value)| say(key, value, false, answer));
                }
                Step::Write(write) => {
                    self.write_in_transaction(write, &mut own, &mut deleted);
                    writes.push(write);
                }
                Step::Foreign(write) => self.write(write),
                Step::Flush { .. } | Step::Compact { .. } => {}
                &Step::Require { slot } => required.push(slot),
            }
        }
        let is_written = |slot: &usize| self.watches[*slot].as_ref().is_some_and(|w| w.was_written);
        let conflict = required.iter().any(is_written) || self.reads.iter().any(|r| r.was_written);
        self.transaction = None;
        self.reads.clear();
        self.foreign.clear();
        answer.word(if conflict { "conflict" } else { "done" });
        if !conflict {
            writes.into_iter().for_each(|write| self.write(write));
        }
    }

    fn get_in_transaction(
        &mut self,
        space: usize,
        key: Vec<u8>,
        own: &BTreeMap<(usize, Vec<u8>), Option<Value>>,
        deleted: &[Span],
        answer: &mut Answer,
    ) {
        if let Some(value) = own.get(&(space, key.clone())) {
            return answer.entry(shown(value.as_ref()));
        }
        if covers(deleted, space, &key) {
            return answer.entry(None);
        }
        let version = *self.transaction.get_or_insert(self.version);
        answer.entry(shown(self.get(space, &key, version)));
        // Read before: then it counts from that moment, which is the same for all reads of a
        // transaction.
        if !self.reads.iter().any(|read| read.space == space && read.key == key) {
            let was_written = covers(&self.foreign, space, &key);
            self.reads.push(Watched { space, key, was_written });
        }
    }

    fn write_in_transaction(
        &self,
        write: &Write,
        own: &mut BTreeMap<(usize, Vec<u8>), Option<Value>>,
        deleted: &mut Vec<Span>,
    ) {
        let now_ms = self.now_ms;
        // Time does not advance within a transaction: live entries stay alive.
        let mut put = |space, k, value: Payload, deadline_ms| {
            let value = Value { bytes: value.bytes().into(), deadline_ms };
            own.insert((space, key(k)), Some(value).filter(|value| value.is_alive(now_ms)));
        };
        match *write {
            Write::Put { space, key, value } => {
                put(space, key, value, self.default_deadline(space));
            }
            Write::PutTtl { space, key, value, ttl_ms } => {
                put(space, key, value, Some(now_ms + u64::from(ttl_ms)));
            }
            Write::Delete { space, key: k } => {
                own.insert((space, key(k)), None);
            }
            Write::DeleteRange { space, from, to } => {
                let (from, to) = (key(from), key(to));
                if from < to {
                    for ((s, key), value) in own.iter_mut() {
                        if *s == space && from <= *key && *key < to {
                            *value = None;
                        }
                    }
                    deleted.push((space, from, to));
                }
            }
        }
    }
}

fn covers(deleted: &[Span], space: usize, key: &[u8]) -> bool {
    deleted.iter().any(|(s, from, to)| *s == space && **from <= *key && *key < **to)
}

fn between<'a>(from: &'a [u8], to: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    (Bound::Included(from), Bound::Excluded(to))
}

fn shown(value: Option<&Value>) -> Option<(&[u8], Option<u64>)> {
    value.map(|value| (&*value.bytes, value.deadline_ms))
}

fn kept(key: &[u8], value: &Value, keys_only: bool) -> Item {
    let bytes = if keys_only { Arc::from([]) } else { Arc::clone(&value.bytes) };
    (key.to_vec(), Value { bytes, deadline_ms: value.deadline_ms })
}

fn say(key: &[u8], value: &Value, keys_only: bool, answer: &mut Answer) {
    answer.item(key, if keys_only { b"" } else { &value.bytes }, value.deadline_ms);
}

/// The bounds of an iteration.
pub fn bounds(walk: &Walk) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bound = |end: Option<(u32, bool)>, is_open: bool| match end {
        None => Bound::Unbounded,
        Some((k, flip)) if flip == is_open => Bound::Included(key(k)),
        Some((k, _)) => Bound::Excluded(key(k)),
    };
    (bound(walk.from, false), bound(walk.to, true))
}

/// The common prefix of all keys around number `k`, without `cut` hexadecimal digits.
pub fn prefix(k: u32, cut: usize) -> Vec<u8> {
    let mut prefix = key(k / 2 * 2);
    prefix.truncate(prefix.len() - cut);
    prefix
}
