//! The workload of the power and fault proofs: all kinds of writes, chosen at random, with the
//! model that the store must agree with.
//!
//! It has batches over keyspaces, synced and not, transactions, conditional writes, expiry (the
//! clock advances, and is set back and forward while the store is open or closed), range deletes, clearing, bulk ingest, flushes, compactions, checkpoints,
//! changes of the budget and reopening with other settings. Everything runs in one thread, so that
//! a run repeats operation for operation.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt::Debug;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidekv::{
    Commit, Compression, Db, Durability, FilterKind, Keyspace, KeyspaceOptions, Options, WriteBatch,
};
use tidekv_io::{Clock, Executor, ManualClock, MemoryStorage};

use crate::expected::{Expected, Found, KEYSPACES, Times, Write, as_live, found_in, shown};
use crate::store_time::StoreTime;
use crate::support::split::SplitExecutor;
use crate::support::{DIRECTORY, Dice, Limits, Model, Value, cache_policy, options};

/// The step of the clock, and the time to live of expiring entries.
const TICK: Duration = Duration::from_millis(400);
const LIFE_MS: u64 = 1000;
/// The end of a deletion of all keys.
const BEHIND_ALL: [u8; 8] = [0xff; 8];

/// The time at the begin of a workload: many steps of the clock after 1970.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// The machine's clock is set by so much, in either direction.
const STEP_MS: i64 = 3_600_000;

/// The settings of the `n`th opening of the store.
pub fn settings(disk: &MemoryStorage, clock: &Arc<ManualClock>, n: u64) -> Options {
    let memtable_bytes = [6 << 10, 10 << 10, 4 << 10][(n % 3) as usize];
    let mut options = options(
        disk,
        clock,
        Limits { memtable_bytes, table_bytes: [4 << 10, 2 << 10][(n % 2) as usize] },
    );
    options.direct_io = n.is_multiple_of(2);
    options.cache_policy = cache_policy(&mut Dice(n)).into();
    options.cross_check = n.is_multiple_of(3);
    options.environment.executor = Some(Arc::new(SplitExecutor::new(clock)));
    options
}

/// A requested checkpoint.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    pub path: String,
    /// The number of writes in it.
    pub writes: usize,
    /// The time of the store and that of the machine when it was made.
    pub moment_ms: (u64, u64),
    pub is_done: bool,
}

/// The progress of the workload.
#[derive(Debug, Clone)]
pub struct Progress {
    /// All keyspaces exist durably.
    pub is_created: bool,
    /// The possible contents after each number of writes; the last write was begun.
    pub states: Arc<Vec<Arc<Expected>>>,
    /// Number of writes that must be on stable storage.
    pub durable: usize,
    pub checkpoints: Vec<Checkpoint>,
    pub time: StoreTime,
}

impl Progress {
    /// Number of writes that were begun.
    pub fn begun(&self) -> usize {
        self.states.len() - 1
    }

    /// Compares the contents with all acknowledged writes, synced or not.
    pub fn score_all(&self, found: &Found, times: Times) -> Result<(), String> {
        match self.states[self.begun()].contradiction(found, times) {
            None => Ok(()),
            Some(why) => Err(why),
        }
    }

    /// The time of a store that was opened after it had ended at `boot_ns`; the error explains why it
    /// cannot be. `is_whole`: no unsynced data was lost.
    pub fn time_of(&self, db: &Db, boot_ns: u64, is_whole: bool) -> Result<u64, String> {
        let now_ms = self.time_after(db, boot_ns, self.time.saved)?;
        if is_whole && now_ms < self.time.saved_ms {
            return Err(format!("its clock has gone back to {now_ms}, after {:?}", self.time));
        }
        Ok(now_ms)
    }

    /// The same of a checkpoint that was opened at `machine_ms`: the time goes on by what the machine's
    /// clock has gone forward.
    pub fn time_of_checkpoint(
        &self,
        db: &Db,
        machine_ms: u64,
        checkpoint: &Checkpoint,
    ) -> Result<u64, String> {
        let (now_ms, (store_ms, then_ms)) = (db.unix_ms(), checkpoint.moment_ms);
        let expected_ms = store_ms + machine_ms.saturating_sub(then_ms);
        // One that was cut may have no record.
        if now_ms == expected_ms || !checkpoint.is_done && now_ms == machine_ms {
            return Ok(now_ms);
        }
        Err(format!(
            "its clock shows {now_ms}, not {expected_ms}, after {:?}",
            checkpoint.moment_ms
        ))
    }

    fn time_after(&self, db: &Db, boot_ns: u64, saved: usize) -> Result<u64, String> {
        let (now_ms, possible) = (db.unix_ms(), self.time.possible_ms(boot_ns, saved));
        if possible.contains(&now_ms) {
            return Ok(now_ms);
        }
        Err(format!("its clock shows {now_ms}, not {possible:?}, after {:?}", self.time))
    }

    /// Compares the contents after a power loss with the durable writes.
    pub fn judge(&self, found: &Found, times: Times) -> Result<(), String> {
        let possible = self.durable..=self.begun();
        if possible.clone().any(|n| self.states[n].admits(found, times)) {
            return Ok(());
        }
        let fit: Vec<usize> =
            (0..self.states.len()).filter(|&n| self.states[n].admits(found, times)).collect();
        let why = self.states[self.begun()].contradiction(found, times);
        Err(format!("its contents are those after {fit:?} writes, not {possible:?}: {why:?}"))
    }
}

/// A store, its operations, and its expected contents.
pub struct Workload {
    pub disk: MemoryStorage,
    pub clock: Arc<ManualClock>,
    pub db: Option<Db>,
    pub progress: Arc<Mutex<Progress>>,
    /// The expected results of reads.
    pub live: [Model; 3],
    pub openings: u64,
    /// A failed sync may have lost writes that were acknowledged but not synced.
    pub buffered_may_go: bool,
    /// Deviations from the expected contents.
    pub losses: Vec<String>,
    /// Counters of stores that were closed.
    pub counted: Counted,
    /// The operations of the storage while the store was closed.
    closings: Vec<Range<u64>>,
    /// The executor of the current store.
    executor: Option<Arc<SplitExecutor>>,
}

/// The events of a workload.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    pub writes: u64,
    pub failed: u64,
    pub flushes: u64,
    pub compactions: u64,
    pub moves: u64,
    pub expired: u64,
    pub background_errors: u64,
    pub full_disk_retries: u64,
    pub read_failures: u64,
    pub ingests: u64,
    pub checkpoints: u64,
    pub reopenings: u64,
    pub transactions: u64,
    pub clears: u64,
    pub drops: u64,
    pub clock_steps: u64,
}

impl Workload {
    /// A workload on an empty disk, with no store opened yet.
    pub fn new() -> Self {
        Self {
            disk: MemoryStorage::new(),
            clock: Arc::new(ManualClock::new(BEGIN_MS)),
            db: None,
            progress: Arc::new(Mutex::new(Progress {
                is_created: false,
                states: Arc::new(vec![Arc::default()]),
                durable: 0,
                checkpoints: Vec::new(),
                time: StoreTime { ahead_ms: BEGIN_MS, steps: Vec::new(), saved: 0, saved_ms: 0 },
            })),
            live: Default::default(),
            openings: 0,
            buffered_may_go: false,
            losses: Vec::new(),
            counted: Counted::default(),
            closings: Vec::new(),
            executor: None,
        }
    }

    /// Whether the store was being closed at that operation of the storage.
    pub fn was_closing(&self, operation: u64) -> bool {
        self.closings.iter().any(|closing| closing.contains(&operation))
    }

    /// The time of the store.
    pub fn now_ms(&self) -> u64 {
        self.progress().time.now_ms(self.boot_ns())
    }

    /// The time of the clock that cannot be set.
    pub fn boot_ns(&self) -> u64 {
        self.clock.boot_ns()
    }

    /// Sets the machine's clock, back or forward.
    fn step_clock(&mut self, dice: &mut Dice) -> i64 {
        self.counted.clock_steps += 1;
        let step_ms = if dice.one_in(2) { STEP_MS } else { -STEP_MS };
        match step_ms {
            1.. => self.clock.set_forward(step_ms.unsigned_abs()),
            _ => self.clock.set_back(step_ms.unsigned_abs()),
        }
        self.progress().time.steps.push(step_ms);
        step_ms
    }

    /// Storage has failed: the time is perhaps not saved, or cannot be read.
    fn time_may_go(&self) -> bool {
        !self.disk.struck().is_empty()
    }

    /// Nothing that was saved is certain any more, if storage has failed.
    pub fn note_faults(&self) {
        if self.time_may_go() {
            let time = &mut self.progress().time;
            (time.saved, time.saved_ms) = (0, 0);
        }
    }

    /// The clock was set since the store saved the time.
    fn has_new_steps(&self) -> bool {
        let time = &self.progress().time;
        time.saved < time.steps.len()
    }

    /// The store has noticed all steps and saved the time, if storage works.
    fn time_is_saved(&self) {
        if !self.time_may_go() {
            let time = &mut self.progress().time;
            time.saved = time.steps.len();
            time.saved_ms = time.now_ms(self.boot_ns());
        }
    }

    /// A read has seen whether `key` has expired: then the time was saved within the last second.
    fn note_read(&self, s: usize, key: &[u8]) {
        let now_ms = self.now_ms();
        let deadline = self.live[s].get(key).and_then(|(_, deadline)| *deadline);
        if deadline.is_some_and(|deadline| deadline <= now_ms) && !self.time_may_go() {
            let time = &mut self.progress().time;
            time.saved_ms = time.saved_ms.max(now_ms - 1000);
        }
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap()
    }

    /// All writes so far must be durable.
    pub fn all_durable(&self) {
        let mut progress = self.progress();
        progress.durable = progress.begun();
    }

    /// Opens the store. Its contents are then the only possible ones, and durable.
    pub fn open(&mut self) -> tidekv::Result<()> {
        let executor = Arc::new(SplitExecutor::new(&self.clock));
        let mut options = settings(&self.disk, &self.clock, self.openings);
        options.environment.executor = Some(Arc::clone(&executor) as Arc<dyn Executor>);
        let db = Db::open(DIRECTORY, options)?;
        self.executor = Some(executor);
        self.openings += 1;
        for name in KEYSPACES {
            db.keyspace_with(name, keyspace_options(name))?;
        }
        let found = found_in(&db)?;
        self.note_faults();
        let mut progress = self.progress.lock().unwrap();
        progress.is_created = true;
        let ended_ms = progress.time.now_ms(self.boot_ns());
        let judged = progress.time_of(&db, self.boot_ns(), true).and_then(|now_ms| {
            progress.time.ahead_ms = now_ms - self.boot_ns() / 1_000_000;
            if self.time_may_go() {
                // An older record may be found the next time.
                progress.time.steps.push(ended_ms.cast_signed() - now_ms.cast_signed());
            }
            let times = Times::after(ended_ms, now_ms);
            match self.buffered_may_go {
                true => progress.judge(&found, times),
                false => progress.score_all(&found, times),
            }
        });
        if let Err(why) = judged {
            self.losses.push(format!("after opening: {why}"));
        }
        self.live = as_live(&found);
        let settled = Arc::new(Expected::exactly(&self.live));
        Arc::make_mut(&mut progress.states).push(settled);
        progress.durable = progress.begun();
        drop(progress);
        self.time_is_saved();
        self.db = Some(db);
        Ok(())
    }

    /// Opens the store read-only, concurrently with the open one.
    fn look(&mut self) -> tidekv::Result<()> {
        let options = settings(&self.disk, &self.clock, self.openings);
        let db = Db::open(DIRECTORY, options.read_only(true))?;
        let found = found_in(&db)?;
        self.counted.read_failures += db.statistics().counter("io.read_failures");
        self.note_faults();
        let progress = self.progress.lock().unwrap();
        let ended_ms = progress.time.now_ms(self.boot_ns());
        let judged = progress.time_of(&db, self.boot_ns(), true);
        let times = judged.map(|now_ms| Times::after(ended_ms, now_ms));
        if let Err(why) = times.and_then(|times| progress.judge(&found, times)) {
            self.losses.push(format!("reading only: {why}"));
        }
        Ok(())
    }

    pub fn store(&self) -> &Db {
        self.db.as_ref().expect("the store is open")
    }

    /// The keyspace; created again if a drop succeeded, but not the creation after it.
    fn keyspace(&self, s: usize) -> tidekv::Result<Keyspace> {
        match self.store().existing_keyspace(KEYSPACES[s]) {
            Some(keyspace) => Ok(keyspace),
            None => self.store().keyspace_with(KEYSPACES[s], keyspace_options(KEYSPACES[s])),
        }
    }

    /// Closes the store; after any result, it is no longer open.
    pub fn close(&mut self) -> tidekv::Result<()> {
        let Some(db) = self.db.take() else { return Ok(()) };
        let statistics = db.statistics();
        let counted = &mut self.counted;
        counted.flushes += statistics.counter("flush.count");
        counted.compactions += statistics.counter("compaction.count");
        counted.moves += statistics.counter("compaction.trivial_moves");
        counted.expired += statistics.counter("compaction.entries_expired");
        counted.background_errors += statistics.counter("background.errors");
        counted.full_disk_retries += statistics.counter("background.full_disk_retries");
        counted.read_failures += statistics.counter("io.read_failures");
        let first = self.disk.operations();
        let closed = db.close();
        self.closings.push(first..self.disk.operations());
        if closed.is_ok() {
            self.all_durable();
            self.time_is_saved();
        }
        closed
    }

    /// Checks that the store shows exactly the acknowledged writes. The caller judges errors of the
    /// storage.
    pub fn verify(&mut self) -> tidekv::Result<()> {
        let (found, expected) = (found_in(self.store())?, shown(&self.live, self.now_ms()));
        if found != expected {
            let times = Times::at(self.now_ms());
            let why = Expected::exactly(&self.live).contradiction(&found, times);
            self.losses.push(why.unwrap_or_else(|| "entries are out of order".into()));
        }
        Ok(())
    }

    /// Reads some keys one by one; returns the first error, if any, after all of them.
    pub fn read_points(&mut self, dice: &mut Dice) -> tidekv::Result<()> {
        let mut outcome = Ok(());
        for _ in 0..4 {
            let s = dice.below(3) as usize;
            let key = format!("key-{:02}", dice.below(30)).into_bytes();
            let expected = self.shown(s, &key);
            let keyspace = self.store().existing_keyspace(KEYSPACES[s]);
            match keyspace.map_or(Ok(None), |keyspace| keyspace.get_entry(&key)) {
                Ok(entry) => {
                    self.note_read(s, &key);
                    let found = entry.map(|e| (e.value.to_vec(), e.expires_at_ms));
                    if found != expected {
                        self.losses.push(format!("a get in {} shows another value", KEYSPACES[s]));
                    }
                }
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// The expected result of a read of `key`.
    fn shown(&self, s: usize, key: &[u8]) -> Option<Value> {
        let now_ms = self.now_ms();
        self.live[s].get(key).filter(|(_, deadline)| deadline.is_none_or(|d| d > now_ms)).cloned()
    }

    // ---- Writes ----

    /// Records `writes` as begun, performs them with `run`, and records the outcome.
    fn write<T: Debug>(
        &mut self,
        writes: Vec<Write>,
        durable: bool,
        run: impl FnOnce(&Self) -> tidekv::Result<T>,
    ) -> tidekv::Result<()> {
        let before = {
            let mut progress = self.progress.lock().unwrap();
            let before = Expected::clone(&progress.states[progress.begun()]);
            let mut state = before.clone();
            writes.iter().for_each(|write| state.apply(write));
            Arc::make_mut(&mut progress.states).push(Arc::new(state));
            before
        };
        let outcome = run(self);
        match &outcome {
            Ok(_) => {
                self.counted.writes += 1;
                writes.iter().for_each(|write| write.apply(&mut self.live));
                if durable {
                    self.all_durable();
                }
            }
            Err(_) => {
                self.counted.failed += 1;
                let mut perhaps = before;
                writes.iter().for_each(|write| perhaps.apply_perhaps(write));
                let mut progress = self.progress.lock().unwrap();
                *Arc::make_mut(&mut progress.states).last_mut().unwrap() = Arc::new(perhaps);
            }
        }
        outcome.map(|_| ())
    }

    /// A batch over the keyspaces. It always writes its number to two of them, which must therefore
    /// always agree.
    pub fn batch(&mut self, dice: &mut Dice, durability: Durability) -> tidekv::Result<()> {
        let mut writes = Vec::new();
        let number = self.progress().states.len().to_string().into_bytes();
        writes.push(Write::Put(0, b"!last".to_vec(), (number.clone(), None)));
        writes.push(Write::Put(1, b"!last".to_vec(), (number, None)));
        for _ in 0..1 + dice.below(6) {
            let (s, k) = (dice.below(3) as usize, dice.below(30));
            let key = format!("key-{k:02}").into_bytes();
            writes.push(match dice.below(8) {
                0 => Write::Delete(s, key),
                1 => {
                    let deadline = self.now_ms() + LIFE_MS;
                    Write::Put(s, key, (b"expiring".to_vec(), Some(deadline)))
                }
                2 => {
                    let end = match dice.one_in(4) {
                        true => BEHIND_ALL.to_vec(),
                        false => format!("key-{:02}", k + dice.below(5)).into_bytes(),
                    };
                    Write::DeleteRange(s, key, end)
                }
                _ => {
                    let value = vec![dice.below(256) as u8; dice.below(400) as usize];
                    Write::Put(s, key, (value, self.default_deadline(s)))
                }
            });
        }
        let mut batch = WriteBatch::new();
        for write in &writes {
            match write {
                Write::Put(2, key, (value, Some(deadline))) if value != b"expiring" => {
                    assert_eq!(Some(*deadline), self.default_deadline(2));
                    batch.put(&self.keyspace(2)?, key, value);
                }
                Write::Put(s, key, (value, Some(deadline))) => {
                    batch.put_until(&self.keyspace(*s)?, key, value, *deadline);
                }
                Write::Put(s, key, (value, None)) => batch.put(&self.keyspace(*s)?, key, value),
                Write::Delete(s, key) => batch.delete(&self.keyspace(*s)?, key),
                Write::DeleteRange(s, start, end) if end[..] == BEHIND_ALL => {
                    batch.delete_from(&self.keyspace(*s)?, start);
                }
                Write::DeleteRange(s, start, end) => {
                    batch.delete_range(&self.keyspace(*s)?, start, end);
                }
            }
        }
        let has_deadline =
            writes.iter().any(|write| matches!(write, Write::Put(_, _, (_, Some(_)))));
        self.write(writes, durability == Durability::Sync, |this| {
            this.store().write_with(batch, durability)
        })?;
        // Without a new step, the last record stays.
        if has_deadline && self.has_new_steps() {
            self.time_is_saved();
        }
        Ok(())
    }

    /// The third keyspace gives a default deadline to entries without one.
    fn default_deadline(&self, s: usize) -> Option<u64> {
        (s == 2).then(|| self.now_ms() + 3 * LIFE_MS)
    }

    fn ingest(&mut self, dice: &mut Dice) -> tidekv::Result<()> {
        let first = dice.below(20);
        let s = dice.below(2) as usize;
        // Occasionally more than fits into one table, or after all other keys.
        let (count, prefix, len) = match dice.below(4) {
            0 => (40, "key-", 200),
            1 => (8, "new-", 100),
            _ => (5, "key-", 30),
        };
        let value = vec![b'i'; len];
        let entries: Vec<_> =
            (first..first + count).map(|k| (format!("{prefix}{k:02}"), value.clone())).collect();
        let put = |(key, value): &(String, Vec<u8>)| {
            Write::Put(s, key.clone().into_bytes(), (value.clone(), None))
        };
        let writes = entries.iter().map(put).collect();
        self.counted.ingests += 1;
        self.write(writes, true, |this| this.keyspace(s)?.ingest(entries))
    }

    /// Moves a value from one keyspace to another in a transaction.
    fn transaction(&mut self, dice: &mut Dice) -> tidekv::Result<()> {
        let key = format!("key-{:02}", dice.below(30)).into_bytes();
        let shown = self.shown(0, &key);
        let (a, b) = (self.keyspace(0)?, self.keyspace(1)?);
        let mut transaction = self.store().transaction();
        let found = transaction.get(&a, &key)?.map(|e| (e.value.to_vec(), e.expires_at_ms));
        if found != shown {
            self.losses.push("a transaction reads another value".into());
        }
        self.note_read(0, &key);
        let moved: Value = (shown.map_or(b"nothing".to_vec(), |(value, _)| value), None);
        transaction.delete(&a, &key);
        transaction.put(&b, &key, &moved.0);
        let durability = if dice.one_in(2) { Durability::Sync } else { Durability::Buffered };
        self.counted.transactions += 1;
        let writes = vec![Write::Delete(0, key.clone()), Write::Put(1, key, moved)];
        self.write(writes, durability == Durability::Sync, |_| {
            let commit = transaction.commit(durability)?;
            assert_eq!(commit, Commit::Done, "no concurrent writer");
            Ok(())
        })
    }

    fn increment(&mut self) -> tidekv::Result<()> {
        let number = self.live[1]
            .get(&b"count"[..])
            .map_or(0, |(text, _)| std::str::from_utf8(text).unwrap().parse::<i64>().unwrap());
        let sum = (number + 3).to_string().into_bytes();
        self.write(vec![Write::Put(1, b"count".to_vec(), (sum, None))], false, |this| {
            let sum = this.keyspace(1)?.increment("count", 3)?;
            assert_eq!(sum, number + 3);
            Ok(())
        })
    }

    /// Empties the third keyspace.
    fn clear(&mut self) -> tidekv::Result<()> {
        self.counted.clears += 1;
        let all = Write::DeleteRange(2, Vec::new(), BEHIND_ALL.to_vec());
        self.write(vec![all], false, |this| this.keyspace(2)?.clear())
    }

    /// Drops the third keyspace and creates it again.
    fn drop_keyspace(&mut self) -> tidekv::Result<()> {
        self.counted.drops += 1;
        let all = Write::DeleteRange(2, Vec::new(), BEHIND_ALL.to_vec());
        self.write(vec![all], true, |this| this.store().drop_keyspace(KEYSPACES[2]))?;
        self.keyspace(2).map(|_| ())
    }

    // ---- Maintenance ----

    /// Success makes all earlier writes durable.
    pub fn promises(&self, outcome: tidekv::Result<()>) -> tidekv::Result<()> {
        if outcome.is_ok() {
            self.all_durable();
        }
        outcome
    }

    fn checkpoint(&mut self) -> tidekv::Result<()> {
        let moment_ms = (self.now_ms(), self.clock.unix_ms());
        let (path, writes) = {
            let mut progress = self.progress();
            let path = format!("/checkpoints/{}", progress.checkpoints.len());
            let writes = progress.begun();
            let made = Checkpoint { path: path.clone(), writes, moment_ms, is_done: false };
            progress.checkpoints.push(made);
            (path, writes)
        };
        self.counted.checkpoints += 1;
        let outcome = self.store().checkpoint(path);
        let mut progress = self.progress();
        if outcome.is_ok() {
            progress.checkpoints.last_mut().unwrap().is_done = true;
            progress.durable = writes;
        }
        outcome
    }

    /// Reopens the store with other settings.
    pub fn reopen(&mut self) -> tidekv::Result<()> {
        self.counted.reopenings += 1;
        self.close()?;
        self.open()
    }

    /// The machine's clock is set while the store is closed.
    fn reopen_at_another_time(&mut self, dice: &mut Dice) -> tidekv::Result<()> {
        self.counted.reopenings += 1;
        self.close()?;
        let closed_ms = self.now_ms();
        let step_ms = self.step_clock(dice);
        self.open()?;
        // Time does not go back, and a step forward is time that has passed.
        let expected_ms = closed_ms.saturating_add_signed(step_ms.max(0));
        let opened_ms = self.store().unix_ms();
        if opened_ms != expected_ms && !self.time_may_go() {
            self.losses.push(format!("opened at {opened_ms} instead of {expected_ms}"));
        }
        Ok(())
    }

    /// One step.
    pub fn step(&mut self, dice: &mut Dice) -> tidekv::Result<()> {
        match dice.below(51) {
            0 => self.promises(self.store().flush()),
            1 => self.promises(self.store().compact()),
            2 | 3 => self.ingest(dice),
            4 => self.checkpoint(),
            5 => self.promises(self.store().sync()),
            6 | 7 => self.transaction(dice),
            8 => self.increment(),
            9 => self.clear(),
            10 => self.reopen(),
            11 => {
                self.store().set_memory_bytes([8 << 20, 64 << 20][dice.below(2) as usize]);
                Ok(())
            }
            12 | 13 => {
                self.clock.advance(TICK);
                if let (Some(executor), true) = (&self.executor, self.db.is_some()) {
                    executor.run_due();
                }
                Ok(())
            }
            15 => self.look(),
            16 => self.drop_keyspace(),
            17 | 18 => {
                self.step_clock(dice);
                Ok(())
            }
            19 => self.reopen_at_another_time(dice),
            14 => self.keyspace(0)?.compact_range("key-05".."key-15"),
            _ => {
                let durability =
                    if dice.one_in(4) { Durability::Sync } else { Durability::Buffered };
                self.batch(dice, durability)
            }
        }
    }
}

/// Each keyspace has settings of its own.
fn keyspace_options(name: &str) -> KeyspaceOptions {
    match name {
        "b" => KeyspaceOptions::default()
            .compression(Compression::Lz4)
            .block_bytes(1024)
            // So coarse that many keys are false positives, which are repaired.
            .filter_bits_per_key(4)
            .filter_kind(FilterKind::Cuckoo),
        "c" => KeyspaceOptions::default().default_ttl(Duration::from_millis(3 * LIFE_MS)),
        _ => KeyspaceOptions::default(),
    }
}
