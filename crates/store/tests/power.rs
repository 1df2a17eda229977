//! A power cut at every storage operation of a recorded workload.
//!
//! The workload runs once on the simulated disk. Before each of its operations
//! the test notes what the device would hold if power were lost there, with
//! unsynced data dropped, kept and torn, and how many writes were begun and how
//! many were promised to be durable. Afterwards each aftermath is opened: it
//! must hold exactly the writes up to some point between those two: nothing
//! synced is lost, what survives has no holes, and no batch is half there.

mod support;

use std::sync::{Arc, Mutex};

use support::{DIRECTORY, Dice, Limits, Model, START_MS, Value, alive, contents, options};
use tidekv::{Db, Durability, WriteBatch};
use tidekv_io::{ManualClock, MemoryStorage, Tear};

const KEYSPACES: [&str; 2] = ["a", "b"];
const LIMITS: Limits = Limits { memtable_bytes: 6 << 10, table_bytes: 4 << 10 };

type States = [Model; 2];

/// Where the workload stands.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Both keyspaces exist durably.
    is_created: bool,
    /// Writes begun.
    begun: usize,
    /// Writes that were promised to be on stable storage.
    durable: usize,
}

struct Aftermath {
    operation: String,
    tear: Tear,
    disk: MemoryStorage,
    progress: Progress,
}

struct Workload {
    db: Db,
    progress: Arc<Mutex<Progress>>,
    /// What the store must hold after each write.
    states: Vec<States>,
}

impl Workload {
    fn latest(&self) -> States {
        self.states.last().unwrap().clone()
    }

    fn begin(&mut self, state: States) {
        self.states.push(state);
        self.progress.lock().unwrap().begun += 1;
    }

    /// Everything so far is promised to be durable.
    fn all_durable(&self) {
        let mut progress = self.progress.lock().unwrap();
        progress.durable = progress.begun;
    }

    fn batch(&mut self, dice: &mut Dice) {
        let mut batch = WriteBatch::new();
        let mut state = self.latest();
        for _ in 0..1 + dice.below(6) {
            let (s, k) = (dice.below(2) as usize, dice.below(30));
            let keyspace = self.db.keyspace(KEYSPACES[s]).unwrap();
            let key = format!("key-{k:02}").into_bytes();
            match dice.below(8) {
                0 => {
                    batch.delete(&keyspace, &key);
                    state[s].remove(&key);
                }
                1 => {
                    let deadline = START_MS + 1000;
                    batch.put_until(&keyspace, &key, b"expiring", deadline);
                    state[s].insert(key, (b"expiring".to_vec(), Some(deadline)));
                }
                2 => {
                    let end = format!("key-{:02}", k + dice.below(5)).into_bytes();
                    batch.delete_range(&keyspace, &key, &end);
                    state[s].retain(|k, _| !(key <= *k && *k < end));
                }
                _ => {
                    let value = vec![dice.below(256) as u8; dice.below(400) as usize];
                    batch.put(&keyspace, &key, &value);
                    state[s].insert(key, (value, None));
                }
            }
        }
        self.begin(state);
        let durability = if dice.one_in(4) { Durability::Sync } else { Durability::Buffered };
        self.db.write_with(batch, durability).unwrap();
        if durability == Durability::Sync {
            self.all_durable();
        }
    }

    fn ingest(&mut self, dice: &mut Dice) {
        let first = dice.below(20);
        let entries: Vec<_> =
            (first..first + 5).map(|k| (format!("key-{k:02}"), "ingested")).collect();
        let mut state = self.latest();
        for (key, value) in &entries {
            state[0].insert(key.clone().into_bytes(), (value.as_bytes().to_vec(), None));
        }
        self.begin(state);
        self.db.keyspace(KEYSPACES[0]).unwrap().ingest(entries).unwrap();
        self.all_durable();
    }

    fn step(&mut self, dice: &mut Dice, number: u64) {
        match dice.below(40) {
            0 => {
                self.db.flush().unwrap();
                self.all_durable();
            }
            1 => {
                self.db.compact().unwrap();
                self.all_durable();
            }
            2 => self.ingest(dice),
            3 => {
                self.db.checkpoint(format!("/checkpoint-{number}")).unwrap();
                self.all_durable();
            }
            4 => {
                self.db.sync().unwrap();
                self.all_durable();
            }
            _ => self.batch(dice),
        }
    }
}

/// Runs the workload; returns every aftermath and the states to hold them to.
fn record(seed: u64, steps: u64) -> (Vec<Aftermath>, Vec<States>) {
    let disk = MemoryStorage::new();
    let clock = Arc::new(ManualClock::new(START_MS));
    let progress = Arc::new(Mutex::new(Progress::default()));
    let aftermaths = Arc::new(Mutex::new(Vec::new()));
    {
        let (disk_again, progress, aftermaths) =
            (disk.clone(), progress.clone(), aftermaths.clone());
        disk.on_operation(move |operation| {
            for tear in
                [Tear::DropUnsynced, Tear::KeepUnsynced, Tear::Torn { seed: operation.number }]
            {
                let disk = disk_again.after_power_loss(tear);
                let progress = *progress.lock().unwrap();
                let operation = operation.to_string();
                aftermaths.lock().unwrap().push(Aftermath { operation, tear, disk, progress });
            }
        });
    }
    let mut dice = Dice(seed);
    let db = Db::open(DIRECTORY, options(&disk, &clock, LIMITS)).unwrap();
    for name in KEYSPACES {
        db.keyspace(name).unwrap();
    }
    progress.lock().unwrap().is_created = true;
    let mut workload = Workload { db, progress, states: vec![States::default()] };
    for number in 0..steps {
        workload.step(&mut dice, number);
    }
    workload.db.close().unwrap();
    workload.all_durable();
    disk.clear_on_operation();
    let states = std::mem::take(&mut workload.states);
    drop(workload);
    let aftermaths = std::mem::take(&mut *aftermaths.lock().unwrap());
    (aftermaths, states)
}

fn live(state: &States) -> [Vec<(Vec<u8>, Value)>; 2] {
    [alive(&state[0], START_MS), alive(&state[1], START_MS)]
}

fn check(aftermath: &Aftermath, states: &[States]) {
    let Aftermath { operation, tear, disk, progress } = aftermath;
    let clock = Arc::new(ManualClock::new(START_MS));
    let story = format!("power lost before {operation}, {tear:?}, {progress:?}");
    let db = match Db::open(DIRECTORY, options(disk, &clock, LIMITS)) {
        Ok(db) => db,
        Err(error) => panic!("{story}: {error}"),
    };
    if progress.is_created {
        assert_eq!(db.keyspace_names(), KEYSPACES, "{story}");
    }
    let found = KEYSPACES.map(|name| contents(&db, name));
    let possible = progress.durable..=progress.begun;
    assert!(
        possible.clone().any(|n| live(&states[n]) == found),
        "{story}: the contents are those of writes {:?}, not of {possible:?}",
        (0..states.len()).filter(|&n| live(&states[n]) == found).collect::<Vec<_>>()
    );
    // It goes on from there, and keeps that as well.
    db.keyspace("a").unwrap().put("after", "the cut").unwrap();
    db.close().unwrap();
    let db = Db::open(DIRECTORY, options(disk, &clock, LIMITS)).unwrap();
    assert_eq!(
        db.keyspace("a").unwrap().get("after").unwrap().as_deref(),
        Some(&b"the cut"[..]),
        "{story}"
    );
    assert_eq!(contents(&db, "b"), found[1], "{story}");
}

#[test]
fn a_cut_at_any_operation_loses_nothing_that_was_synced() {
    let mut cuts = 0;
    for seed in 1..=4 {
        let (aftermaths, states) = record(seed, 60);
        cuts += aftermaths.len();
        aftermaths.iter().for_each(|aftermath| check(aftermath, &states));
    }
    assert!(cuts > 2000, "only {cuts} aftermaths were checked");
}

#[test]
fn a_cut_during_recovery_loses_nothing_either() {
    let (aftermaths, states) = record(77, 40);
    // Opening one of every seventh aftermath is cut at each of its operations.
    for aftermath in aftermaths.iter().skip(aftermaths.len() / 2).step_by(7) {
        let clock = Arc::new(ManualClock::new(START_MS));
        for cut in 0.. {
            let disk = aftermath.disk.after_power_loss(Tear::KeepUnsynced);
            let start = disk.operations();
            disk.cut_power_at(start + cut);
            let opened = Db::open(DIRECTORY, options(&disk, &clock, LIMITS));
            let is_whole = opened.is_ok();
            drop(opened);
            let second = Aftermath {
                operation: format!(
                    "{} and again {cut} operations into recovery",
                    aftermath.operation
                ),
                tear: Tear::Torn { seed: cut },
                disk: disk.after_power_loss(Tear::Torn { seed: cut }),
                progress: aftermath.progress,
            };
            check(&second, &states);
            if is_whole {
                break;
            }
        }
    }
}
