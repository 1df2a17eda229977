//! Shared parts of the store's tests: a store on simulated storage with tiny limits, and the
//! ordered map that it must agree with.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod held;
pub mod split;
pub mod strange_tier;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidekv::{Db, Environment, Options};
use tidekv_cache::{Ablation, Ablations, CachePolicy};
use tidekv_io::{InlineExecutor, ManualClock, MemoryStorage, SeededRandom};

/// Start time of the simulated clock.
pub const START_MS: u64 = 1_000_000;

/// The directory of the store under test.
pub const DIRECTORY: &str = "/data";

/// Limits so small that a few hundred operations fill every level.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub memtable_bytes: u64,
    pub table_bytes: u64,
}

pub const TINY: Limits = Limits { memtable_bytes: 8 << 10, table_bytes: 4 << 10 };

/// The value of the store's counter `name`.
pub fn count(db: &Db, name: &str) -> u64 {
    let statistics = db.statistics();
    assert!(statistics.counters.iter().any(|(known, _)| *known == name), "there is no {name}");
    statistics.counter(name)
}

/// Options for a store on `disk` that does everything in the caller's thread, so that every run is
/// the same.
pub fn options(disk: &MemoryStorage, clock: &Arc<ManualClock>, limits: Limits) -> Options {
    Options::default()
        .memory_bytes(8 << 20)
        .memtable_bytes(limits.memtable_bytes)
        .table_bytes(limits.table_bytes)
        .environment(
            Environment::default()
                .storage(Arc::new(disk.clone()))
                .clock(clock.clone())
                .random(Arc::new(SeededRandom::new(1)))
                .executor(Arc::new(InlineExecutor::new())),
        )
        .with_research(|research| {
            research.hot_list_share = 1;
        })
}

/// A deterministic source of small numbers.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The adaptive policy without the mechanisms for changes of the tree, and without some others.
fn tide_without(dice: &mut Dice) -> CachePolicy {
    let of_changes = Ablations::NONE.and(Ablation::Repair).and(Ablation::Sync);
    let others = Ablations::all().filter(|_| dice.one_in(2));
    CachePolicy::AdaptiveWithout(others.fold(of_changes, |set, (idea, _)| set.and(idea)))
}

/// A cache policy; all have the same probability.
pub fn cache_policy(dice: &mut Dice) -> CachePolicy {
    match dice.below(12) {
        0 => CachePolicy::Adaptive,
        1 => CachePolicy::BlockOnly,
        2 => CachePolicy::Fixed { kv: 100, kp: 0 },
        3 => CachePolicy::Fixed { kv: 0, kp: 100 },
        4 => CachePolicy::BlockClock,
        5 => CachePolicy::BlockS3Fifo,
        6 => CachePolicy::AC_KEY,
        7 => CachePolicy::AcKey { k: 1 << dice.below(24), theta: dice.below(101) as u8 },
        8 => tide_without(dice),
        9 => {
            // Often without values, without pointers or without blocks.
            let kv = if dice.one_in(3) { 0 } else { dice.below(101) as u8 };
            let kp = if dice.one_in(3) { 0 } else { dice.below(u64::from(101 - kv)) as u8 };
            CachePolicy::AcKeyFixed { kv, kp: if dice.one_in(3) { 100 - kv } else { kp } }
        }
        _ => {
            let kv = dice.below(91) as u8;
            CachePolicy::Fixed { kv, kp: dice.below(u64::from(100 - kv)) as u8 }
        }
    }
}

/// The result of `task`, if it ends within that many seconds; `None` if it hangs or panics.
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a real thread is waited for in real time"
)]
pub fn within<T: Send + 'static>(
    seconds: u64,
    task: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(task());
    });
    receiver.recv_timeout(std::time::Duration::from_secs(seconds)).ok()
}

/// A value and its deadline.
pub type Value = (Vec<u8>, Option<u64>);

/// The expected contents of a keyspace.
pub type Model = BTreeMap<Vec<u8>, Value>;

/// The entries of `model` that are alive at `now_ms`.
pub fn alive(model: &Model, now_ms: u64) -> Vec<(Vec<u8>, Value)> {
    let living = model.iter().filter(|(_, (_, deadline))| deadline.is_none_or(|d| d > now_ms));
    living.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// All entries of a keyspace.
pub fn contents(db: &Db, keyspace: &str) -> Vec<(Vec<u8>, Value)> {
    let keyspace = db.keyspace(keyspace).unwrap();
    collect(keyspace.iter())
}

pub fn collect(
    iter: impl Iterator<Item = tidekv::Result<(tidekv::Bytes, tidekv::Entry)>>,
) -> Vec<(Vec<u8>, Value)> {
    iter.map(|item| {
        let (key, entry) = item.unwrap();
        (key.to_vec(), (entry.value.to_vec(), entry.expires_at_ms))
    })
    .collect()
}
