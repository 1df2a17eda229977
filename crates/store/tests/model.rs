//! The store compared with an ordered map: random operations of every kind, with snapshots,
//! reopenings, flushes and compactions in between.
//!
//! Failing lists of operations are shrunk by proptest.

mod support;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use support::{DIRECTORY, Limits, Model, Value, alive, collect, options};
use tidekv::{
    Cached, Compression, Db, Durability, FilterKind, Keyspace, KeyspaceOptions, Snapshot,
    WriteBatch,
};
use tidekv_io::{Clock, ManualClock, MemoryStorage};

const KEYSPACES: [&str; 2] = ["a", "b"];

#[derive(Debug, Clone)]
enum Step {
    Put(usize, u8, u16),
    PutTtl(usize, u8, u16, u64),
    Delete(usize, u8),
    DeleteRange(usize, u8, u8),
    DeleteFrom(usize, u8),
    Batch(Vec<(usize, u8, Option<u16>)>),
    CompareAndSet(usize, u8, bool, Option<u16>),
    Increment(usize, u8, i64),
    Ingest(usize, u8, u8),
    Get(usize, u8),
    MultiGet(usize, Vec<u8>),
    Range(usize, u8, u8, bool),
    BothEnds(usize, Vec<bool>),
    TakeSnapshot,
    ReadSnapshot,
    DropSnapshot,
    Clear(usize),
    Flush(usize),
    Compact(usize, u8, u8),
    Advance(u64),
    /// By an hour, forward or back.
    SetClock(bool),
    Reopen,
    Checkpoint,
}

fn key(k: u8) -> Vec<u8> {
    // Keys share prefixes, differ in length and contain zero bytes.
    match k % 3 {
        0 => vec![b'k', k],
        1 => vec![b'k', k, 0],
        _ => [&b"key/"[..], &[k; 9]].concat(),
    }
}

fn value(v: u16) -> Vec<u8> {
    vec![v as u8; usize::from(v % 700)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ks = 0..KEYSPACES.len();
    let k = 0u8..40;
    let one = prop_oneof![
        12 => (ks.clone(), k.clone(), any::<u16>()).prop_map(|(s, k, v)| Step::Put(s, k, v)),
        3 => (ks.clone(), k.clone(), any::<u16>(), 0u64..50).prop_map(|(s, k, v, t)| Step::PutTtl(s, k, v, t)),
        4 => (ks.clone(), k.clone()).prop_map(|(s, k)| Step::Delete(s, k)),
        2 => (ks.clone(), k.clone(), k.clone()).prop_map(|(s, a, b)| Step::DeleteRange(s, a, b)),
        1 => (ks.clone(), k.clone()).prop_map(|(s, k)| Step::DeleteFrom(s, k)),
        3 => prop::collection::vec((ks.clone(), k.clone(), any::<Option<u16>>()), 1..6).prop_map(Step::Batch),
        2 => (ks.clone(), k.clone(), any::<bool>(), any::<Option<u16>>()).prop_map(|(s, k, b, v)| Step::CompareAndSet(s, k, b, v)),
        1 => (ks.clone(), k.clone(), -9i64..9).prop_map(|(s, k, d)| Step::Increment(s, k, d)),
        1 => (ks.clone(), k.clone(), k.clone()).prop_map(|(s, a, b)| Step::Ingest(s, a, b)),
        4 => (ks.clone(), k.clone()).prop_map(|(s, k)| Step::Get(s, k)),
        2 => (ks.clone(), prop::collection::vec(k.clone(), 0..12)).prop_map(|(s, k)| Step::MultiGet(s, k)),
        3 => (ks.clone(), k.clone(), k.clone(), any::<bool>()).prop_map(|(s, a, b, r)| Step::Range(s, a, b, r)),
        2 => (ks.clone(), prop::collection::vec(any::<bool>(), 0..60)).prop_map(|(s, d)| Step::BothEnds(s, d)),
        1 => Just(Step::TakeSnapshot),
        2 => Just(Step::ReadSnapshot),
        1 => Just(Step::DropSnapshot),
        1 => ks.clone().prop_map(Step::Clear),
        3 => ks.clone().prop_map(Step::Flush),
        1 => (ks.clone(), k.clone(), k.clone()).prop_map(|(s, a, b)| Step::Compact(s, a, b)),
        2 => (1u64..30).prop_map(Step::Advance),
        1 => any::<bool>().prop_map(Step::SetClock),
        1 => Just(Step::Reopen),
        1 => Just(Step::Checkpoint),
    ];
    prop::collection::vec(one, 1..240)
}

/// Many hours after 1970.
const BEGIN_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;

struct World {
    disk: MemoryStorage,
    clock: Arc<ManualClock>,
    limits: Limits,
    keyspace_options: KeyspaceOptions,
    db: Option<Db>,
    models: [Model; 2],
    snapshots: Vec<(Snapshot, [Model; 2])>,
    checkpoints: u32,
}

impl World {
    fn new(limits: Limits, keyspace_options: KeyspaceOptions) -> Self {
        let disk = MemoryStorage::new();
        let clock = Arc::new(ManualClock::new(BEGIN_MS));
        let db = Db::open(DIRECTORY, options(&disk, &clock, limits)).unwrap();
        Self {
            disk,
            clock,
            limits,
            keyspace_options,
            db: Some(db),
            models: Default::default(),
            snapshots: Vec::new(),
            checkpoints: 0,
        }
    }

    /// The time of the store. Steps of the machine's clock do not move it.
    fn now(&self) -> u64 {
        BEGIN_MS + self.clock.boot_ns() / 1_000_000
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn keyspace(&self, index: usize) -> Keyspace {
        self.db().keyspace_with(KEYSPACES[index], self.keyspace_options.clone()).unwrap()
    }

    fn expected(&self, index: usize, key: &[u8]) -> Option<Value> {
        self.models[index].get(key).filter(|(_, d)| d.is_none_or(|d| d > self.now())).cloned()
    }

    fn run(&mut self, step: &Step) {
        match step.clone() {
            Step::Put(s, k, v) => {
                self.keyspace(s).put(key(k), value(v)).unwrap();
                self.models[s].insert(key(k), (value(v), None));
            }
            Step::PutTtl(s, k, v, ttl) => {
                self.keyspace(s)
                    .put_with_ttl(key(k), value(v), Duration::from_millis(ttl))
                    .unwrap();
                let deadline = self.now() + ttl;
                self.models[s].insert(key(k), (value(v), Some(deadline)));
            }
            Step::Delete(s, k) => {
                self.keyspace(s).delete(key(k)).unwrap();
                self.models[s].remove(&key(k));
            }
            Step::DeleteRange(s, a, b) => {
                self.keyspace(s).delete_range(key(a), key(b)).unwrap();
                self.models[s].retain(|k, _| !(key(a) <= *k && *k < key(b)));
            }
            Step::DeleteFrom(s, k) => {
                self.keyspace(s).delete_from(key(k)).unwrap();
                self.models[s].retain(|other, _| *other < key(k));
            }
            Step::Batch(writes) => self.batch(&writes),
            Step::CompareAndSet(s, k, right, new) => self.compare_and_set(s, k, right, new),
            Step::Increment(s, k, delta) => {
                let key = [&b"n"[..], &[k]].concat();
                let current = self.expected(s, &key);
                let sum = current
                    .map_or(0, |(v, _)| String::from_utf8(v).unwrap().parse::<i64>().unwrap())
                    + delta;
                assert_eq!(self.keyspace(s).increment(&key, delta).unwrap(), sum);
                self.models[s].insert(key, (sum.to_string().into_bytes(), None));
            }
            Step::Ingest(s, a, b) => {
                let entries: std::collections::BTreeMap<_, _> =
                    (a.min(b)..=a.max(b)).map(|k| (key(k), value(u16::from(k) * 7))).collect();
                let count = self.keyspace(s).ingest(entries.clone()).unwrap();
                assert_eq!(count, entries.len() as u64);
                self.models[s].extend(entries.into_iter().map(|(k, v)| (k, (v, None))));
            }
            Step::Clear(s) => {
                self.keyspace(s).clear().unwrap();
                self.models[s].clear();
            }
            Step::Flush(s) => self.keyspace(s).flush().unwrap(),
            Step::Compact(s, a, b) => self.keyspace(s).compact_range(key(a)..key(b)).unwrap(),
            Step::Advance(ms) => self.clock.advance(Duration::from_millis(ms)),
            Step::SetClock(true) => self.clock.set_forward(HOUR_MS),
            Step::SetClock(false) => self.clock.set_back(HOUR_MS),
            Step::TakeSnapshot => {
                let snapshot = self.db().snapshot();
                self.snapshots.push((snapshot, self.models.clone()));
            }
            Step::DropSnapshot => {
                self.snapshots.pop();
            }
            Step::Reopen => self.reopen(),
            Step::Checkpoint => self.checkpoint(),
            read => self.read(&read),
        }
    }

    fn batch(&mut self, writes: &[(usize, u8, Option<u16>)]) {
        let mut batch = WriteBatch::new();
        for &(s, k, v) in writes {
            match v {
                Some(v) => {
                    batch.put(&self.keyspace(s), key(k), value(v));
                    self.models[s].insert(key(k), (value(v), None));
                }
                None => {
                    batch.delete(&self.keyspace(s), key(k));
                    self.models[s].remove(&key(k));
                }
            }
        }
        self.db().write_with(batch, Durability::Sync).unwrap();
    }

    fn compare_and_set(&mut self, s: usize, k: u8, right: bool, new: Option<u16>) {
        let current = self.expected(s, &key(k)).map(|(v, _)| v);
        let expected = if right { current.clone() } else { Some(b"something else".to_vec()) };
        let new = new.map(value);
        let done =
            self.keyspace(s).compare_and_set(key(k), expected.as_deref(), new.as_deref()).unwrap();
        assert_eq!(done, expected == current);
        if done {
            match new {
                Some(value) => self.models[s].insert(key(k), (value, None)),
                None => self.models[s].remove(&key(k)),
            };
        }
    }

    fn read(&self, step: &Step) {
        match step.clone() {
            Step::Get(s, k) => {
                let keyspace = self.keyspace(s);
                let got = keyspace
                    .get_entry(key(k))
                    .unwrap()
                    .map(|e| (e.value.to_vec(), e.expires_at_ms));
                assert_eq!(got, self.expected(s, &key(k)));
                let mut value = Vec::new();
                let is_there = keyspace.get_into(key(k), &mut value).unwrap();
                assert_eq!(is_there.then_some(value), got.clone().map(|(value, _)| value));
                if let Cached::Ready(entry) = keyspace.try_get_cached(key(k)).unwrap() {
                    assert_eq!(entry.map(|e| e.value.to_vec()), got.map(|(v, _)| v));
                }
            }
            Step::MultiGet(s, ks) => {
                let keys: Vec<_> = ks.iter().map(|&k| key(k)).collect();
                let got = self.keyspace(s).multi_get(&keys).unwrap();
                for (key, entry) in keys.iter().zip(got) {
                    assert_eq!(
                        entry.map(|e| (e.value.to_vec(), e.expires_at_ms)),
                        self.expected(s, key)
                    );
                }
            }
            Step::Range(s, a, b, reverse) => {
                let walk = self.keyspace(s).range(key(a)..key(b));
                let got = if reverse { collect(walk.rev()) } else { collect(walk) };
                let mut expected = alive(&self.models[s], self.now());
                expected.retain(|(k, _)| key(a) <= *k && *k < key(b));
                if reverse {
                    expected.reverse();
                }
                assert_eq!(got, expected);
            }
            Step::BothEnds(s, directions) => {
                let mut walk = self.keyspace(s).iter();
                let mut expected = alive(&self.models[s], self.now()).into_iter();
                for front in directions {
                    let (got, expected) = if front {
                        (walk.next(), expected.next())
                    } else {
                        (walk.next_back(), expected.next_back())
                    };
                    assert_eq!(got.map(|item| item.unwrap().0.to_vec()), expected.map(|(k, _)| k));
                }
            }
            Step::ReadSnapshot => {
                for (snapshot, models) in &self.snapshots {
                    for (s, model) in models.iter().enumerate() {
                        let keyspace = self.keyspace(s);
                        let expected = alive(model, self.now());
                        assert_eq!(collect(snapshot.iter(&keyspace)), expected);
                        for k in 0..40 {
                            let got = snapshot.get(&keyspace, key(k)).unwrap().map(|v| v.to_vec());
                            let there = expected
                                .iter()
                                .find(|(e, _)| *e == key(k))
                                .map(|(_, (v, _))| v.clone());
                            assert_eq!(got, there);
                        }
                    }
                }
            }
            other => unreachable!("{other:?} is no read"),
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.db = None;
        self.db = Some(Db::open(DIRECTORY, options(&self.disk, &self.clock, self.limits)).unwrap());
    }

    fn checkpoint(&mut self) {
        self.checkpoints += 1;
        let path = format!("/checkpoint-{}", self.checkpoints);
        self.db().checkpoint(&path).unwrap();
        let copy = Db::open(&path, options(&self.disk, &self.clock, self.limits)).unwrap();
        for (s, name) in KEYSPACES.iter().enumerate() {
            assert_eq!(support::contents(&copy, name), alive(&self.models[s], self.now()));
        }
    }

    fn check_everything(&self) {
        assert_eq!(self.db().unix_ms(), self.now());
        for s in 0..KEYSPACES.len() {
            let expected = alive(&self.models[s], self.now());
            assert_eq!(collect(self.keyspace(s).iter()), expected);
            let mut backward = collect(self.keyspace(s).iter().rev());
            backward.reverse();
            assert_eq!(backward, expected);
            for (key, (value, _)) in &expected {
                assert_eq!(self.keyspace(s).get(key).unwrap().as_deref(), Some(&value[..]));
            }
        }
        self.read(&Step::ReadSnapshot);
    }
}

fn run(limits: Limits, keyspace_options: KeyspaceOptions, steps: &[Step]) {
    let mut world = World::new(limits, keyspace_options);
    for step in steps {
        world.run(step);
    }
    world.check_everything();
    world.reopen();
    world.check_everything();
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_an_ordered_map(
        steps in steps(),
        memtable_kib in prop::sample::select(vec![4u64, 8, 32]),
        table_kib in prop::sample::select(vec![1u64, 4, 64]),
        block_bytes in prop::sample::select(vec![512u32, 4096]),
        compressed in any::<bool>(),
        filter_bits_per_key in prop::sample::select(vec![0u8, 10]),
        filter_kind in prop::sample::select(vec![FilterKind::Bloom, FilterKind::Cuckoo]),
    ) {
        let limits = Limits { memtable_bytes: memtable_kib << 10, table_bytes: table_kib << 10 };
        let (compression, compression_last) =
            if compressed { (Compression::Lz4, Compression::Zstd) } else { Default::default() };
        let options = KeyspaceOptions::default().block_bytes(block_bytes).compression(compression).compression_last(compression_last).filter_bits_per_key(filter_bits_per_key).filter_kind(filter_kind);
        run(limits, options, &steps);
    }
}
