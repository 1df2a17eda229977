//! The store under some settings: performs the operations of a list and returns their results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidekv::{
    Cached, Commit, Db, Entry, Environment, Iter, Keyspace, Options, Result, SecondaryCache,
    Snapshot, Watch, WriteBatch,
};
use tidekv_io::{
    Executor, InlineExecutor, LocalStorage, MemoryStorage, SeededRandom, Storage, Tear,
};

use crate::answer::Answer;
use crate::model::{bounds, prefix};
use crate::operations::{
    Expectation, Moment, Operation, Payload, SLOTS, SPACES, Step, Walk, Write, key,
};
use crate::settings::{Disk, Ending, ListClock, Settings, keyspace_options};
use crate::support::strange_tier::StrangeTier;
use crate::support::{Dice, cache_policy};
use crate::tally::Tally;

const NAMES: [&str; SPACES] = ["first", "second", "third"];

pub struct Subject {
    settings: Settings,
    dice: Dice,
    clock: Arc<ListClock>,
    simulated: MemoryStorage,
    /// Keeps the directory while the subject exists.
    _directory: Option<tempfile::TempDir>,
    storage: Arc<dyn Storage>,
    root: PathBuf,
    /// Numbers the directories: each checkpoint has its own.
    homes: u32,
    home: PathBuf,
    db: Option<Db>,
    spaces: Vec<Keyspace>,
    default_ttl_ms: [Option<u32>; SPACES],
    /// Outlives kills, power losses and directories: table numbers recur above it.
    tier: Option<Arc<dyn SecondaryCache>>,
    snapshots: [Option<Snapshot>; SLOTS],
    watches: [Option<Watch>; SLOTS],
    walks: [Option<Iter>; SLOTS],
    /// Keeps versions from being dropped, without being read.
    pinned: Option<Snapshot>,
    pub tally: Tally,
}

impl Subject {
    pub fn new(settings: &Settings) -> Self {
        let simulated = MemoryStorage::new();
        let (directory, storage): (_, Arc<dyn Storage>) = match settings.disk {
            Disk::Simulated => (None, Arc::new(simulated.clone())),
            Disk::Real { uring } => {
                let local = if uring { LocalStorage::new() } else { LocalStorage::without_uring() };
                (Some(tempfile::tempdir().unwrap()), Arc::new(local))
            }
        };
        let root = directory.as_ref().map_or(PathBuf::from("/"), |d| d.path().to_owned());
        let mut subject = Self {
            settings: settings.clone(),
            dice: Dice(settings.seed ^ 0xABCD_EF01),
            clock: ListClock::new(),
            simulated,
            _directory: directory,
            storage,
            home: root.join("home-0"),
            root,
            homes: 0,
            db: None,
            spaces: Vec::new(),
            default_ttl_ms: [None; SPACES],
            tier: settings.tier.map(|it| Arc::new(StrangeTier::new(it, settings.seed)) as _),
            snapshots: Default::default(),
            watches: Default::default(),
            walks: Default::default(),
            pinned: None,
            tally: Tally::default(),
        };
        subject.open();
        subject
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open between operations")
    }

    fn options(&self) -> Options {
        let settings = &self.settings;
        let inline = || Arc::new(InlineExecutor::new()) as Arc<dyn Executor>;
        let executor = (settings.threads == 0).then(inline);
        {
            let mut options = Options::default()
                .memory_bytes(settings.memory_bytes)
                .durability(settings.durability)
                .direct_io(settings.direct_io)
                .cache_policy(settings.cache_policy)
                .cross_check(settings.cross_check)
                .compaction_threads(settings.threads)
                .memtable_bytes(settings.memtable_bytes)
                .table_bytes(settings.table_bytes)
                .environment({
                    let mut options = Environment::default()
                        .storage(Arc::clone(&self.storage))
                        .clock(self.clock.clone())
                        .random(Arc::new(SeededRandom::new(settings.seed)));
                    options.executor = executor;
                    options.secondary_cache = self.tier.clone();
                    options
                })
                .with_research(|research| {
                    research.fingerprint_bits = settings.fingerprint_bits;
                    research.hot_list_share = settings.hot_list_share;
                });
            options.compaction_bytes_per_s = settings.compaction_bytes_per_s;
            options
        }
    }

    fn open(&mut self) {
        let db = Db::open(&self.home, self.options()).unwrap();
        db.set_cache_bytes_max(self.settings.cache_bytes_max);
        self.db = Some(db);
        for space in 0..SPACES {
            self.change_options(space);
        }
    }

    fn change_options(&mut self, space: usize) {
        let options = keyspace_options(&mut self.dice, self.default_ttl_ms[space]);
        let keyspace = self.db().keyspace_with(NAMES[space], options).unwrap();
        match self.spaces.get_mut(space) {
            Some(handle) => *handle = keyspace,
            None => self.spaces.push(keyspace),
        }
    }

    fn let_go(&mut self) {
        self.count();
        self.snapshots = Default::default();
        self.watches = Default::default();
        self.walks = Default::default();
        self.pinned = None;
        self.spaces.clear();
    }

    fn count(&mut self) {
        let statistics = self.db().statistics();
        let levels = (0..7).filter(|level| {
            let name = format!("level{level}.tables");
            statistics.counters.iter().any(|(n, tables)| *n == name && *tables > 0)
        });
        self.tally.levels = self.tally.levels.max(levels.count() as u64);
        self.tally.flushes += statistics.counter("flush.count");
        self.tally.kv_hits += statistics.counter("cache.kv.hits");
        self.tally.warm_values += statistics.counter("warm_start.values");
        self.tally.kp_hits += statistics.counter("cache.kp.hits");
        self.tally.kp_errors += statistics.counter("cache.kp.errors");
        self.tally.kp_moves += statistics.counter("cache.kp.relocations");
        self.tally.stale_inserts += statistics.counter("cache.point.stale_inserts");
        self.tally.tier_hits += statistics.counter("secondary_cache.hits");
        self.tally.tier_wrong += statistics.counter("secondary_cache.mismatches");
        self.tally.seek_compactions += statistics.counter("compaction.seek_triggered");
        self.tally.compactions +=
            statistics.counter("compaction.count") + statistics.counter("compaction.trivial_moves");
    }

    /// Ends the store as the settings define.
    fn close(&mut self) {
        self.tally.reopenings += 1;
        self.let_go();
        let aftermath = match self.settings.ending {
            Ending::Close => {
                self.db().close().unwrap();
                None
            }
            Ending::Kill => Some(Tear::KeepUnsynced),
            // Every write was synced, so nothing is missing afterwards.
            Ending::PowerCut => Some(match self.dice.one_in(2) {
                true => Tear::DropUnsynced,
                false => Tear::Torn { seed: self.dice.below(1 << 30) },
            }),
        };
        if let Some(tear) = aftermath {
            let disk = self.simulated.after_power_loss(tear);
            self.db = None;
            self.storage = Arc::new(disk.clone());
            self.simulated = disk;
        }
        self.db = None;
    }

    fn new_home(&mut self) -> PathBuf {
        self.homes += 1;
        self.root.join(format!("home-{}", self.homes))
    }

    fn remove_home(&self, home: &Path) {
        for entry in self.storage.list(home).unwrap() {
            self.storage.remove(&home.join(entry.name)).unwrap();
        }
    }

    /// Does something that is not an operation and must have no effect.
    pub fn disturb(&mut self) {
        if self.settings.disturbed_one_in == u64::MAX
            || !self.dice.one_in(self.settings.disturbed_one_in)
        {
            return;
        }
        let space = self.dice.below(SPACES as u64) as usize;
        match self.dice.below(13) {
            12 => self.step_clock(),
            0 | 1 => self.spaces[space].flush().unwrap(),
            2 => self.change_options(space),
            3 => {
                // Evicts everything, then continues as before.
                self.db().set_cache_bytes_max(0);
                self.db().set_cache_bytes_max(self.settings.cache_bytes_max);
            }
            4 => {
                let bytes = self.dice.below(1 << 20);
                self.db().set_cache_bytes_max(bytes);
            }
            9 => {
                let policy = cache_policy(&mut self.dice);
                self.db().set_cache_policy(policy);
            }
            5 => self.pinned = Some(self.db().snapshot()),
            6 => self.pinned = None,
            7 => {
                let from = self.dice.below(1 << 16) as u32;
                self.spaces[space].compact_range(key(from)..key(from + 4000)).unwrap();
            }
            10 | 11 => self.reopen_cleanly(),
            _ => {
                // A scan with read-ahead, abandoned half way.
                let _ = self.spaces[space].iter().take(200).count();
            }
        }
    }

    /// Sets the machine's clock, which has no effect once the store has saved the time.
    fn step_clock(&mut self) {
        if self.settings.ending == Ending::Close || !self.is_held() {
            self.tally.clock_steps += 1;
            self.clock.step();
            self.reopen_cleanly();
        }
    }

    fn is_held(&self) -> bool {
        self.snapshots.iter().any(Option::is_some)
            || self.watches.iter().any(Option::is_some)
            || self.walks.iter().any(Option::is_some)
    }

    /// Closes the store cleanly and opens it again, unless open handles would be lost.
    fn reopen_cleanly(&mut self) {
        if !self.is_held() {
            self.tally.reopenings += 1;
            self.let_go();
            self.db().close().unwrap();
            self.db = None;
            self.open();
        }
    }

    /// Ends the subject and adds its counters to `tally`.
    pub fn finish(mut self, tally: &mut Tally) {
        self.let_go();
        self.db().close().unwrap();
        tally.add(self.tally);
    }

    // ---- Operations ----

    pub fn run(&mut self, operation: &Operation, answer: &mut Answer) {
        match operation {
            Operation::Write(write) => self.write(write),
            Operation::Batch(writes) => {
                let mut batch = WriteBatch::new();
                writes.iter().for_each(|write| self.add(&mut batch, write));
                self.db().write(batch).unwrap();
            }
            &Operation::CompareAndSet { space, key: k, expected, new } => {
                self.compare_and_set(space, k, expected, new, answer);
            }
            &Operation::Increment { space, key: k, delta } => {
                match self.spaces[space].increment(key(k), delta) {
                    Ok(sum) => answer.number(sum),
                    Err(error) => answer.error(error.kind()),
                }
            }
            Operation::Transaction(steps) => self.run_transaction(steps, answer),
            Operation::Ingest { .. } => self.ingest(operation, answer),
            &Operation::Clear { space } => {
                self.spaces[space].clear().unwrap();
                self.watches = Default::default();
            }
            &Operation::DefaultTtl { space, ttl_ms } => {
                self.default_ttl_ms[space] = ttl_ms;
                self.change_options(space);
            }
            Operation::OpenWalk { slot, walk } => self.walks[*slot] = self.walk(walk),
            &Operation::StepWalk { slot, reverse, count } => {
                let Some(walk) = &mut self.walks[slot] else { return answer.word("closed") };
                for step in 0..count {
                    if !say_next(walk, reverse, step % 2 == 1, answer) {
                        return answer.word("end");
                    }
                }
            }
            &Operation::CloseWalk { slot } => self.walks[slot] = None,
            &Operation::TakeSnapshot { slot } => {
                self.snapshots[slot] = Some(self.db().snapshot());
            }
            &Operation::DropSnapshot { slot } => self.snapshots[slot] = None,
            &Operation::Watch { slot, space, key: k } => {
                let watch = self.db().watch(&self.spaces[space], key(k)).unwrap();
                self.watches[slot] = Some(watch);
            }
            &Operation::Unwatch { slot } => self.watches[slot] = None,
            Operation::EmptyKey { space } => self.refused(*space, answer),
            upkeep @ (Operation::Flush { .. }
            | Operation::Compact { .. }
            | Operation::CompactAll
            | Operation::Sync
            | Operation::Advance { .. }
            | Operation::Budget
            | Operation::Reopen
            | Operation::Checkpoint { .. }
            | Operation::ReadOnly) => self.upkeep(upkeep, answer),
            read => self.read(read, answer),
        }
    }

    fn write(&self, write: &Write) {
        match *write {
            Write::Put { space, key: k, value } => {
                self.spaces[space].put(key(k), value.bytes()).unwrap();
            }
            Write::PutTtl { space, key: k, value, ttl_ms } => {
                let ttl = Duration::from_millis(u64::from(ttl_ms));
                self.spaces[space].put_with_ttl(key(k), value.bytes(), ttl).unwrap();
            }
            Write::Delete { space, key: k } => self.spaces[space].delete(key(k)).unwrap(),
            Write::DeleteRange { space, from, to } => {
                self.spaces[space].delete_range(key(from), key(to)).unwrap();
            }
        }
    }

    fn deadline(&self, ttl_ms: u32) -> u64 {
        self.db().unix_ms() + u64::from(ttl_ms)
    }

    fn add(&self, batch: &mut WriteBatch, write: &Write) {
        match *write {
            Write::Put { space, key: k, value } => {
                batch.put(&self.spaces[space], key(k), value.bytes());
            }
            Write::PutTtl { space, key: k, value, ttl_ms } => {
                let deadline = self.deadline(ttl_ms);
                batch.put_until(&self.spaces[space], key(k), value.bytes(), deadline);
            }
            Write::Delete { space, key: k } => batch.delete(&self.spaces[space], key(k)),
            Write::DeleteRange { space, from, to } => {
                batch.delete_range(&self.spaces[space], key(from), key(to));
            }
        }
    }

    fn compare_and_set(
        &self,
        space: usize,
        k: u32,
        expected: Expectation,
        new: Option<Payload>,
        answer: &mut Answer,
    ) {
        let keyspace = &self.spaces[space];
        let expected = match expected {
            Expectation::Absence => None,
            Expectation::Presence => keyspace.get(key(k)).unwrap(),
            Expectation::Wrong => Some("never written".into()),
        };
        let new = new.map(Payload::bytes);
        let set = keyspace.compare_and_set(key(k), expected.as_deref(), new.as_deref()).unwrap();
        answer.word(if set { "set" } else { "kept" });
    }

    fn ingest(&self, operation: &Operation, answer: &mut Answer) {
        let &Operation::Ingest { space, first, stride, count, seed, sorted } = operation else {
            unreachable!()
        };
        let mut entries: Vec<_> = (0..count)
            .map(|i| {
                let value = Payload { seed: seed.wrapping_add(i), len: seed % 97 };
                (key(first + i * stride), value.bytes())
            })
            .collect();
        if !sorted {
            entries.reverse();
        }
        match self.spaces[space].ingest(entries) {
            Ok(count) => answer.number(count as i64),
            Err(error) => answer.error(error.kind()),
        }
    }

    fn refused(&self, space: usize, answer: &mut Answer) {
        let keyspace = &self.spaces[space];
        let outcomes = [
            keyspace.put(b"", b"v").err(),
            keyspace.delete(b"").err(),
            keyspace.get(b"").err(),
            keyspace.multi_get(&[&b"k"[..], b""]).err(),
        ];
        for error in outcomes {
            answer.error(error.expect("an empty key is refused").kind());
        }
    }

    // ---- Reads ----

    fn walk(&self, walk: &Walk) -> Option<Iter> {
        let (keyspace, bounds) = (&self.spaces[walk.space], bounds(walk));
        let iter = match walk.moment {
            Moment::Now => keyspace.range::<Vec<u8>>(bounds),
            Moment::Snapshot(slot) => {
                self.snapshots[slot].as_ref()?.range::<Vec<u8>>(keyspace, bounds)
            }
        };
        Some(if walk.keys_only { iter.keys_only() } else { iter })
    }

    fn get(&self, space: usize, k: u32, moment: Moment, answer: &mut Answer) {
        let keyspace = &self.spaces[space];
        let entry = match moment {
            Moment::Now => keyspace.get_entry(key(k)),
            Moment::Snapshot(slot) => match &self.snapshots[slot] {
                Some(snapshot) => snapshot.get_entry(keyspace, key(k)),
                None => return answer.word("no snapshot"),
            },
        };
        let entry = entry.unwrap();
        if let Moment::Now = moment {
            let mut value = b"of another key".to_vec();
            let is_there = keyspace.get_into(key(k), &mut value).unwrap();
            assert_eq!(is_there.then_some(&value[..]), entry.as_ref().map(|e| &e.value[..]));
            assert!(is_there || value.is_empty());
        }
        answer.entry(shown(&entry));
    }

    fn get_cached(&mut self, space: usize, k: u32, answer: &mut Answer) {
        let entry = match self.spaces[space].try_get_cached(key(k)).unwrap() {
            Cached::Ready(entry) => entry,
            Cached::WouldBlock => {
                self.tally.would_block += 1;
                self.spaces[space].get_entry(key(k)).unwrap()
            }
        };
        answer.entry(shown(&entry));
    }

    fn read(&mut self, operation: &Operation, answer: &mut Answer) {
        match operation {
            &Operation::Get { space, key, moment } => self.get(space, key, moment, answer),
            &Operation::GetCached { space, key } => self.get_cached(space, key, answer),
            &Operation::Contains { space, key: k } => {
                let is_there = self.spaces[space].contains(key(k)).unwrap();
                answer.word(if is_there { "there" } else { "not there" });
            }
            Operation::MultiGet { space, keys } => {
                let keys: Vec<_> = keys.iter().map(|&k| key(k)).collect();
                let entries = self.spaces[*space].multi_get(&keys).unwrap();
                entries.iter().for_each(|entry| answer.entry(shown(entry)));
            }
            Operation::Range { walk, limit, reverse } => {
                let Some(items) = self.walk(walk) else { return answer.word("no snapshot") };
                let limit = *limit as usize;
                match reverse {
                    false => items.take(limit).for_each(|item| say(item, answer)),
                    true => items.rev().take(limit).for_each(|item| say(item, answer)),
                }
            }
            &Operation::Prefix { space, key, cut, moment, limit } => {
                let (keyspace, prefix) = (&self.spaces[space], prefix(key, cut));
                let items = match moment {
                    Moment::Now => keyspace.prefix(prefix),
                    Moment::Snapshot(slot) => match &self.snapshots[slot] {
                        Some(snapshot) => snapshot.prefix(keyspace, prefix),
                        None => return answer.word("no snapshot"),
                    },
                };
                items.take(limit as usize).for_each(|item| say(item, answer));
            }
            Operation::BothEnds { walk, ends } => {
                let Some(mut items) = self.walk(walk) else { return answer.word("no snapshot") };
                let mut ends = *ends;
                while ends != 0 {
                    if !say_next(&mut items, ends & 1 == 1, ends & 2 == 0, answer) {
                        return answer.word("end");
                    }
                    ends >>= 1;
                }
            }
            Operation::Everything => {
                everything(&self.spaces, answer);
                for keyspace in &self.spaces {
                    assert!(is_the_same_backward(keyspace), "backward it is another keyspace");
                }
            }
            other => unreachable!("{other:?} is no read"),
        }
    }

    // ---- Maintenance ----

    fn upkeep(&mut self, operation: &Operation, answer: &mut Answer) {
        match *operation {
            Operation::Flush { space: None } => self.db().flush().unwrap(),
            Operation::Flush { space: Some(space) } => self.spaces[space].flush().unwrap(),
            Operation::Compact { space, from, to } => {
                self.spaces[space].compact_range(key(from)..=key(to)).unwrap();
            }
            Operation::CompactAll => self.db().compact().unwrap(),
            Operation::Sync => self.db().sync().unwrap(),
            Operation::Advance { ms } => self.clock.advance(ms),
            Operation::Budget => {
                let bytes = self.dice.below(32 << 20);
                self.db().set_memory_bytes(bytes);
            }
            Operation::Reopen => {
                self.close();
                self.open();
            }
            Operation::ReadOnly => {
                self.close();
                let options = self.options().read_only(true);
                let db = Db::open(&self.home, options).unwrap();
                everything(&spaces_of(&db), answer);
                drop(db);
                self.open();
            }
            Operation::Checkpoint { moves } => {
                let target = self.new_home();
                self.db().checkpoint(&target).unwrap();
                let copy = Db::open(&target, self.options()).unwrap();
                everything(&spaces_of(&copy), answer);
                copy.close().unwrap();
                drop(copy);
                if moves {
                    self.close();
                    let old = std::mem::replace(&mut self.home, target);
                    self.remove_home(&old);
                    self.open();
                } else {
                    self.remove_home(&target);
                }
            }
            ref other => unreachable!("{other:?} is no upkeep"),
        }
    }

    // ---- Transactions ----

    fn run_transaction(&mut self, steps: &[Step], answer: &mut Answer) {
        let mut tx = self.db().transaction();
        for step in steps {
            match step {
                &Step::Get { space, key: k } => {
                    let entry = tx.get(&self.spaces[space], key(k)).unwrap();
                    answer.entry(shown(&entry));
                }
                &Step::Prefix { space, key, cut } => {
                    let entries = tx.prefix(&self.spaces[space], prefix(key, cut)).unwrap();
                    for (key, entry) in &entries {
                        answer.item(key, &entry.value, entry.expires_at_ms);
                    }
                }
                Step::Write(Write::Put { space, key: k, value }) => {
                    tx.put(&self.spaces[*space], key(*k), value.bytes());
                }
                &Step::Write(Write::PutTtl { space, key: k, value, ttl_ms }) => {
                    let deadline = self.deadline(ttl_ms);
                    tx.put_until(&self.spaces[space], key(k), value.bytes(), deadline);
                }
                &Step::Write(Write::Delete { space, key: k }) => {
                    tx.delete(&self.spaces[space], key(k));
                }
                &Step::Write(Write::DeleteRange { space, from, to }) => {
                    tx.delete_range(&self.spaces[space], key(from), key(to));
                }
                Step::Foreign(write) => self.write(write),
                &Step::Flush { space } => self.spaces[space].flush().unwrap(),
                &Step::Compact { space, from, to } => {
                    self.spaces[space].compact_range(key(from)..key(to)).unwrap();
                }
                &Step::Require { slot } => {
                    self.watches[slot].iter().for_each(|watch| tx.require_unchanged(watch));
                }
            }
        }
        match tx.commit(self.settings.durability).unwrap() {
            Commit::Done => answer.word("done"),
            Commit::Conflict => {
                self.tally.conflicts += 1;
                answer.word("conflict");
            }
        }
    }
}

fn spaces_of(db: &Db) -> Vec<Keyspace> {
    NAMES.iter().map(|name| db.keyspace(name).unwrap()).collect()
}

fn everything(spaces: &[Keyspace], answer: &mut Answer) {
    for keyspace in spaces {
        keyspace.iter().for_each(|item| say(item, answer));
        answer.word("end");
    }
}

fn is_the_same_backward(keyspace: &Keyspace) -> bool {
    let mut backward: Vec<_> = keyspace.iter().rev().map(Result::unwrap).collect();
    backward.reverse();
    keyspace.iter().map(Result::unwrap).eq(backward)
}

fn shown(entry: &Option<Entry>) -> Option<(&[u8], Option<u64>)> {
    entry.as_ref().map(|entry| (&entry.value[..], entry.expires_at_ms))
}

/// Records the next item of an iteration, or the previous one; false if there is none. In ascending
/// order it may be a borrowed entry.
fn say_next(walk: &mut Iter, reverse: bool, is_lent: bool, answer: &mut Answer) -> bool {
    if !reverse && is_lent {
        let lent = walk.next_ref().unwrap();
        lent.inspect(|lent| answer.item(lent.key, lent.value, lent.expires_at_ms)).is_some()
    } else {
        let item = if reverse { walk.next_back() } else { walk.next() };
        item.map(|item| say(item, answer)).is_some()
    }
}

fn say(item: Result<(tidekv::Bytes, Entry)>, answer: &mut Answer) {
    let (key, entry) = item.unwrap();
    answer.item(&key, &entry.value, entry.expires_at_ms);
}
