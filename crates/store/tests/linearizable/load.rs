//! One thread's part of the load: operations of every kind on few keys, each recorded with its
//! outcome and the times between which it ran.

use std::sync::atomic::{AtomicU64, Ordering};

use tidekv::{Bytes, Cached, Commit, Db, Durability, Entry, Keyspace, Result, WriteBatch};

use crate::checker::Event;
use crate::object::{ABSENT, Operation, SLOTS};
use crate::support::Dice;

/// Number of concurrent objects: few, so that threads conflict.
pub const OBJECTS: usize = 3;

/// Number of keys that only fill memtables and tables.
const FILLERS: u64 = 3000;

type Values = Vec<(usize, i64)>;

/// The store under load, and the clock of its history.
pub struct Arena {
    pub db: Db,
    pub keyspaces: [Keyspace; 2],
    /// Gives every event a time of its own.
    pub clock: AtomicU64,
}

/// The keyspace of a slot and its key in it.
pub fn place(object: usize, slot: usize) -> (usize, String) {
    (slot / 2, format!("object-{object}/{}", ["a", "b"][slot % 2]))
}

fn number(value: Option<Bytes>) -> i64 {
    value.map_or(ABSENT, |bytes| std::str::from_utf8(&bytes).unwrap().parse().unwrap())
}

fn number_of(entry: Option<Entry>) -> i64 {
    number(entry.map(|entry| entry.value))
}

/// The values of all slots at one moment.
pub fn read_all(arena: &Arena, object: usize) -> Values {
    let snapshot = arena.db.snapshot();
    let read = |slot| {
        let (space, key) = place(object, slot);
        (slot, number(snapshot.get(&arena.keyspaces[space], key).unwrap()))
    };
    (0..SLOTS).map(read).collect()
}

/// A thread.
pub struct Client<'a> {
    arena: &'a Arena,
    thread: usize,
    dice: Dice,
    /// Makes every written value unique.
    written: i64,
    /// The last value that it has seen in each slot.
    seen: [[i64; SLOTS]; OBJECTS],
    pub events: [Vec<Event>; OBJECTS],
}

impl<'a> Client<'a> {
    pub fn new(arena: &'a Arena, thread: usize, seed: u64) -> Self {
        Self {
            arena,
            thread,
            dice: Dice(seed ^ (thread as u64) << 32),
            written: 0,
            seen: [[ABSENT; SLOTS]; OBJECTS],
            events: Default::default(),
        }
    }

    /// Does one operation.
    pub fn step(&mut self) {
        if self.dice.one_in(5) {
            self.fill();
        }
        let object = self.dice.below(OBJECTS as u64) as usize;
        let invoked = self.arena.clock.fetch_add(1, Ordering::SeqCst);
        let operation = self.operation(object).unwrap();
        let returned = self.arena.clock.fetch_add(1, Ordering::SeqCst);
        self.note(object, &operation);
        self.events[object].push(Event { thread: self.thread, invoked, returned, operation });
    }

    /// Writes unobserved keys, so that memtables fill up.
    fn fill(&mut self) {
        let keyspace = &self.arena.keyspaces[self.dice.below(2) as usize];
        // Before, between and after the objects.
        let head = ["a", "object-0/a0", "object-1/b", "z"][self.dice.below(4) as usize];
        let key = format!("{head}{:05}", self.dice.below(FILLERS));
        let len = self.dice.below(1200) as usize;
        keyspace.put(key, vec![b'f'; len]).unwrap();
    }

    fn note(&mut self, object: usize, operation: &Operation) {
        if let Operation::Read(values)
        | Operation::Write(values)
        | Operation::Transaction { writes: values, .. } = operation
        {
            values.iter().for_each(|&(slot, value)| self.seen[object][slot] = value);
        }
    }

    fn slot(&mut self) -> usize {
        self.dice.below(SLOTS as u64) as usize
    }

    fn fresh(&mut self) -> i64 {
        self.written += 1;
        // Far enough apart that sums are new values as well.
        (self.written * 64 + self.thread as i64) * 1000
    }

    /// Some slots with new values, or with none: a deletion.
    fn writes(&mut self, slots: &[usize]) -> Values {
        let mut value = || if self.dice.one_in(6) { ABSENT } else { 0 };
        let kinds: Vec<i64> = slots.iter().map(|_| value()).collect();
        let with = |(&slot, kind)| (slot, if kind == ABSENT { ABSENT } else { self.fresh() });
        slots.iter().zip(kinds).map(with).collect()
    }

    fn operation(&mut self, object: usize) -> Result<Operation> {
        let slot = self.slot();
        let (space, key) = place(object, slot);
        let keyspace = &self.arena.keyspaces[space];
        Ok(match self.dice.below(100) {
            0..13 => Operation::Read(vec![(slot, number(keyspace.get(key)?))]),
            13..25 => {
                let mut value = Vec::new();
                let is_there = keyspace.get_into(key, &mut value)?;
                Operation::Read(vec![(slot, number(is_there.then(|| value.into())))])
            }
            25..30 => {
                let entry = match keyspace.try_get_cached(&key)? {
                    Cached::Ready(entry) => entry,
                    Cached::WouldBlock => keyspace.get_entry(&key)?,
                };
                Operation::Read(vec![(slot, number_of(entry))])
            }
            30..38 => self.multi_get(object, space)?,
            38..46 => Operation::Read(read_all(self.arena, object)),
            46..54 => self.walk(object, space)?,
            54..64 => {
                let value = self.fresh();
                keyspace.put(key, value.to_string())?;
                Operation::Write(vec![(slot, value)])
            }
            64..67 => {
                keyspace.delete(key)?;
                Operation::Write(vec![(slot, ABSENT)])
            }
            67..74 => self.compare_and_set(object, slot)?,
            74..80 => {
                let delta = 1 + self.dice.below(9) as i64;
                let sum = keyspace.increment(key, delta)?;
                Operation::Add { slot, delta, sum }
            }
            80..86 => {
                let slots = [2 * space, 2 * space + 1];
                self.batch(object, &slots)?
            }
            86..92 => {
                let other = (slot + 2) % SLOTS;
                self.batch(object, &[slot, other])?
            }
            92 => {
                let (from, to) = (place(object, 2 * space).1, place(object, 2 * space + 1).1 + "x");
                keyspace.delete_range(from, to)?;
                Operation::Write(vec![(2 * space, ABSENT), (2 * space + 1, ABSENT)])
            }
            93 => self.ingest(object, space)?,
            _ => self.transaction(object)?,
        })
    }

    fn multi_get(&self, object: usize, space: usize) -> Result<Operation> {
        let slots = [2 * space, 2 * space + 1];
        let keys = slots.map(|slot| place(object, slot).1);
        let found = self.arena.keyspaces[space].multi_get(&keys)?;
        Ok(Operation::Read(slots.into_iter().zip(found.into_iter().map(number_of)).collect()))
    }

    fn walk(&mut self, object: usize, space: usize) -> Result<Operation> {
        let prefix = format!("object-{object}/");
        let walk = self.arena.keyspaces[space].prefix(&prefix);
        let items: Vec<_> = match self.dice.one_in(2) {
            false => walk.collect::<Result<_>>()?,
            true => walk.rev().collect::<Result<_>>()?,
        };
        let value_of = |slot| {
            let key = place(object, slot).1;
            let item = items.iter().find(|(found, _)| *found == *key.as_bytes());
            (slot, number_of(item.map(|(_, entry)| entry.clone())))
        };
        Ok(Operation::Read(vec![value_of(2 * space), value_of(2 * space + 1)]))
    }

    fn compare_and_set(&mut self, object: usize, slot: usize) -> Result<Operation> {
        let (space, key) = place(object, slot);
        let (expected, new) = (self.seen[object][slot], self.writes(&[slot])[0].1);
        let text = |value: i64| (value != ABSENT).then(|| value.to_string());
        let (before, after) = (text(expected), text(new));
        let is_done = self.arena.keyspaces[space].compare_and_set(
            key,
            before.as_ref().map(String::as_bytes),
            after.as_ref().map(String::as_bytes),
        )?;
        // It may succeed next time.
        self.seen[object][slot] = match is_done {
            true => new,
            false => number(self.arena.keyspaces[space].get(place(object, slot).1)?),
        };
        Ok(Operation::CompareAndSet { slot, expected, new, is_done })
    }

    fn batch(&mut self, object: usize, slots: &[usize]) -> Result<Operation> {
        let writes = self.writes(slots);
        let mut batch = WriteBatch::new();
        for &(slot, value) in &writes {
            let (space, key) = place(object, slot);
            match value {
                ABSENT => batch.delete(&self.arena.keyspaces[space], key.as_bytes()),
                _ => {
                    let text = value.to_string();
                    batch.put(&self.arena.keyspaces[space], key.as_bytes(), text.as_bytes());
                }
            }
        }
        let durability = if self.dice.one_in(4) { Durability::Sync } else { Durability::Buffered };
        self.arena.db.write_with(batch, durability)?;
        Ok(Operation::Write(writes))
    }

    fn ingest(&mut self, object: usize, space: usize) -> Result<Operation> {
        let slots = [2 * space, 2 * space + 1];
        let writes: Values = slots.iter().map(|&slot| (slot, self.fresh())).collect();
        let entries = writes.iter().map(|&(slot, v)| (place(object, slot).1, v.to_string()));
        self.arena.keyspaces[space].ingest(entries)?;
        Ok(Operation::Write(writes))
    }

    fn transaction(&mut self, object: usize) -> Result<Operation> {
        let mut transaction = self.arena.db.transaction();
        let mut reads = Values::new();
        for slot in [self.slot(), self.slot()] {
            if reads.iter().any(|(read, _)| *read == slot) {
                continue;
            }
            let (space, key) = place(object, slot);
            let entry = transaction.get(&self.arena.keyspaces[space], key.as_bytes())?;
            reads.push((slot, number_of(entry)));
        }
        let first = self.slot();
        let writes = self.writes(&[first, (first + 1) % SLOTS]);
        for &(slot, value) in &writes {
            let (space, key) = place(object, slot);
            let keyspace = &self.arena.keyspaces[space];
            match value {
                ABSENT => transaction.delete(keyspace, key.as_bytes()),
                _ => transaction.put(keyspace, key.as_bytes(), value.to_string().as_bytes()),
            }
        }
        Ok(match transaction.commit(Durability::Buffered)? {
            Commit::Done => Operation::Transaction { reads, writes },
            // In this case it was a read of one moment.
            Commit::Conflict => Operation::Read(reads),
        })
    }
}
