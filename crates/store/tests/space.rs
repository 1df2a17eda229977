//! Deleted, range-deleted and expired data gives its space and its read cost back without a call of
//! `compact`: in one level and in many, idle, after a snapshot is released and after a restart; and
//! a full disk can be emptied.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use support::split::SplitExecutor;
use support::{DIRECTORY, Dice, Limits, Model, START_MS, alive, collect, count, options};
use tidekv::{Db, ErrorKind, Keyspace, Snapshot};
use tidekv_io::{Clock, Fault, FaultRule, ManualClock, MemoryStorage, Operation, Storage, Tear};

const SMALL: Limits = Limits { memtable_bytes: 64 << 10, table_bytes: 32 << 10 };

/// A store whose delayed jobs follow a clock that is moved by hand.
struct World {
    disk: MemoryStorage,
    clock: Arc<ManualClock>,
    executor: Arc<SplitExecutor>,
    db: Db,
    keyspace: Keyspace,
}

fn opened(disk: &MemoryStorage, clock: &Arc<ManualClock>) -> tidekv::Result<World> {
    opened_with(disk, clock, SMALL)
}

fn opened_with(
    disk: &MemoryStorage,
    clock: &Arc<ManualClock>,
    limits: Limits,
) -> tidekv::Result<World> {
    let executor = Arc::new(SplitExecutor::new(clock));
    let mut options = options(disk, clock, limits).warm_start(false);
    options.environment.executor = Some(executor.clone());
    let db = Db::open(DIRECTORY, options)?;
    let keyspace = db.keyspace("k")?;
    Ok(World { disk: disk.clone(), clock: Arc::clone(clock), executor, db, keyspace })
}

impl World {
    fn new() -> Self {
        opened(&MemoryStorage::new(), &Arc::new(ManualClock::new(START_MS))).unwrap()
    }

    fn reopened(self) -> Self {
        let (disk, clock) = (self.disk.clone(), Arc::clone(&self.clock));
        drop(self);
        opened(&disk, &clock).unwrap()
    }

    /// Time passes in which nobody uses the store.
    fn rest(&self, seconds: u64) {
        for _ in 0..4 * seconds {
            self.clock.advance(Duration::from_millis(250));
            self.executor.run_due();
        }
    }

    fn table_bytes(&self) -> u64 {
        (0..7).map(|level| count(&self.db, &format!("level{level}.bytes"))).sum()
    }

    fn tables(&self) -> u64 {
        (0..7).map(|level| count(&self.db, &format!("level{level}.tables"))).sum()
    }

    /// The lengths of the table files.
    fn file_bytes(&self) -> u64 {
        let directory = Path::new(DIRECTORY);
        let names = self.disk.list(directory).unwrap();
        let tables = names.iter().filter(|entry| entry.name.ends_with(".table"));
        tables.map(|t| self.disk.read_file(directory.join(&t.name)).unwrap().len() as u64).sum()
    }

    /// The bytes that a scan of everything reads after a restart.
    fn scan_bytes(self) -> (Self, u64) {
        let world = self.reopened();
        let before = count(&world.db, "io.read_bytes");
        collect(world.keyspace.iter());
        let bytes = count(&world.db, "io.read_bytes") - before;
        (world, bytes)
    }

    /// Jobs that change tables, so far.
    fn jobs(&self) -> Vec<u64> {
        let names = [
            "flush.count",
            "compaction.count",
            "compaction.trivial_moves",
            "compaction.expired_tables_dropped",
            "compaction.covered_tables_dropped",
        ];
        names.iter().map(|name| count(&self.db, name)).collect()
    }
}

/// How nine of ten entries die.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Death {
    Delete,
    RangeDelete,
    Expire,
}

const DEATHS: [Death; 3] = [Death::Delete, Death::RangeDelete, Death::Expire];

fn key(i: u64) -> String {
    format!("key-{i:06}")
}

/// Not compressible, so that bytes on disk follow the sizes of values.
fn value(i: u64, bytes: usize) -> Vec<u8> {
    let mut dice = Dice(i * 7919 + 1);
    (0..bytes).map(|_| dice.below(256) as u8).collect()
}

/// The entries that stay: one stretch in ten, or one key in ten.
fn stays(i: u64, death: Death) -> bool {
    match death {
        Death::RangeDelete => i / 20 % 10 == 3,
        _ => i % 10 == 3,
    }
}

/// Writes `entries`, of which nine of ten are to die; in one level, if asked for.
fn fill(world: &World, entries: u64, bytes: usize, death: Death, is_one_level: bool) {
    let mut order: Vec<u64> = (0..entries).collect();
    let mut dice = Dice(5);
    (1..entries as usize).rev().for_each(|i| order.swap(i, dice.below(i as u64 + 1) as usize));
    for i in order {
        let value = value(i, bytes);
        if death == Death::Expire && !stays(i, death) {
            world.keyspace.put_with_ttl(key(i), value, Duration::from_secs(3600)).unwrap();
        } else {
            world.keyspace.put(key(i), value).unwrap();
        }
    }
    world.db.flush().unwrap();
    if is_one_level {
        world.db.compact().unwrap();
    }
}

fn kill(world: &World, entries: u64, death: Death) {
    match death {
        Death::Delete => {
            let dying = (0..entries).filter(|&i| !stays(i, death));
            dying.for_each(|i| world.keyspace.delete(key(i)).unwrap());
        }
        Death::RangeDelete => {
            for stretch in 0..entries.div_ceil(20) {
                let (start, end) = (stretch * 20, stretch * 20 + 20);
                if !stays(start, death) {
                    world.keyspace.delete_range(key(start), key(end)).unwrap();
                }
            }
        }
        Death::Expire => world.clock.advance(Duration::from_secs(3601)),
    }
}

/// A store that never held what died.
fn twin(entries: u64, bytes: usize, death: Death) -> World {
    let twin = World::new();
    for i in (0..entries).filter(|&i| stays(i, death)) {
        twin.keyspace.put(key(i), value(i, bytes)).unwrap();
    }
    twin.db.flush().unwrap();
    twin.db.compact().unwrap();
    twin
}

/// How many entries of each size.
const SIZES: [(u64, usize); 3] = [(6000, 100), (600, 4 << 10), (100, 100 << 10)];

#[test]
fn nine_tenths_give_their_space_and_their_read_cost_back_within_a_minute() {
    for (entries, bytes) in SIZES {
        for death in DEATHS {
            let twin = twin(entries, bytes, death);
            let (twin, twin_scan) = twin.scan_bytes();
            let expected = collect(twin.keyspace.iter());
            for (is_one_level, is_reopened) in [(true, false), (false, false), (false, true)] {
                let what = format!("{bytes} {death:?} {is_one_level} {is_reopened}");
                let mut world = World::new();
                fill(&world, entries, bytes, death, is_one_level);
                let before = world.table_bytes();
                kill(&world, entries, death);
                if is_reopened {
                    world = world.reopened();
                }
                world.rest(60);
                let (left, live) = (world.table_bytes(), twin.table_bytes());
                assert!(left * 10 <= live * 12, "{what}: {left} of {before} are left, {live} live");
                assert_eq!(world.file_bytes(), left, "{what}: files stay");
                assert_eq!(collect(world.keyspace.iter()), expected, "{what}");
                let jobs = world.jobs();
                world.rest(180);
                assert_eq!(world.jobs(), jobs, "{what}: it does not end");
                let (world, scan) = world.scan_bytes();
                assert!(scan <= 2 * twin_scan, "{what}: a scan reads {scan}, not {twin_scan}");
                assert_eq!(collect(world.keyspace.iter()), expected, "{what}");
            }
        }
    }
}

/// Once most of a store was compacted away, the last range tombstones covered a tenth of the keys but
/// half of the bytes, which counted as a tenth: they stayed.
#[test]
fn ranges_count_by_the_bytes_that_they_cover() {
    let limits = Limits { memtable_bytes: 1 << 20, table_bytes: 64 << 20 };
    let clock = Arc::new(ManualClock::new(START_MS));
    let world = opened_with(&MemoryStorage::new(), &clock, limits).unwrap();
    let entries = 12_800;
    fill(&world, entries, 4000, Death::RangeDelete, true);
    let (most, all) = (0..entries / 200 * 9 * 20, entries / 200 * 9 * 20..entries);
    for part in [most, all] {
        for start in part.step_by(20).filter(|&start| !stays(start, Death::RangeDelete)) {
            world.keyspace.delete_range(key(start), key(start + 20)).unwrap();
        }
        world.rest(60);
    }
    let live = (0..entries).filter(|&i| stays(i, Death::RangeDelete)).count() as u64 * 4010;
    let left = world.table_bytes();
    assert!(left * 10 <= live * 12, "{left} are left, {live} live");
}

#[test]
fn an_emptied_store_finds_that_it_is_empty_in_few_reads() {
    for death in DEATHS {
        let mut world = World::new();
        for i in 0..6000 {
            let value = value(i, 100);
            match death {
                Death::Expire => {
                    world.keyspace.put_with_ttl(key(i), value, Duration::from_secs(60)).unwrap();
                }
                _ => world.keyspace.put(key(i), value).unwrap(),
            }
        }
        world.db.flush().unwrap();
        match death {
            Death::Delete => (0..6000).for_each(|i| world.keyspace.delete(key(i)).unwrap()),
            Death::RangeDelete => world.keyspace.delete_range("", "z").unwrap(),
            Death::Expire => world.clock.advance(Duration::from_secs(61)),
        }
        world.rest(60);
        for _ in 0..2 {
            let before = count(&world.db, "io.reads");
            assert!(world.keyspace.iter().next().is_none());
            let reads = count(&world.db, "io.reads") - before;
            assert!(reads <= 4, "{death:?}: {reads} reads");
            assert!(world.table_bytes() < 16 << 10, "{death:?}: {}", world.table_bytes());
            world = world.reopened();
        }
    }
}

#[test]
fn what_a_snapshot_sees_stays_until_it_is_released() {
    for death in [Death::Delete, Death::RangeDelete] {
        for is_one_level in [true, false] {
            let (entries, bytes) = (2000, 200);
            let live = twin(entries, bytes, death).table_bytes();
            let world = World::new();
            fill(&world, entries, bytes, death, is_one_level);
            let before = collect(world.keyspace.iter());
            let snapshot = world.db.snapshot();
            kill(&world, entries, death);
            world.rest(60);
            assert_eq!(collect(snapshot.iter(&world.keyspace)), before, "{death:?}");
            let jobs = world.jobs();
            world.rest(60);
            assert_eq!(world.jobs(), jobs, "{death:?}: nothing can be freed");
            drop(snapshot);
            world.rest(60);
            let left = world.table_bytes();
            assert!(left * 10 <= live * 12, "{death:?}: {left} are left, {live} live");
            let is_over = |i: &u64| stays(*i, death);
            assert_eq!(world.keyspace.iter().count(), (0..entries).filter(is_over).count());
        }
    }
}

/// A snapshot taken after the deletion needs nothing of what was deleted.
#[test]
fn a_later_snapshot_holds_nothing() {
    for death in DEATHS {
        let (entries, bytes) = (2000, 200);
        let live = twin(entries, bytes, death).table_bytes();
        let world = World::new();
        fill(&world, entries, bytes, death, false);
        kill(&world, entries, death);
        let snapshot = world.db.snapshot();
        world.rest(60);
        let left = world.table_bytes();
        assert!(left * 10 <= live * 12, "{death:?}: {left} are left, {live} live");
        drop(snapshot);
    }
}

/// Table reads since the history was cleared.
fn table_reads(disk: &MemoryStorage) -> usize {
    let is_table = |path: &Path| path.extension().is_some_and(|extension| extension == "table");
    let history = disk.history();
    history.iter().filter(|r| r.operation == Operation::Read && is_table(&r.path)).count()
}

#[test]
fn time_series_are_dropped_by_whole_tables_unread() {
    let world = World::new();
    let put = |i: u64| {
        let ttl = Duration::from_secs(600);
        world.keyspace.put_with_ttl(key(i), value(i, 100), ttl).unwrap();
    };
    for i in 0..20_000 {
        put(i);
        world.clock.advance(Duration::from_millis(20));
    }
    world.db.flush().unwrap();
    world.rest(5);
    assert!(world.tables() > 10);
    let (written, tables) = (count(&world.db, "compaction.write_bytes"), world.tables());
    world.disk.record_history(true);
    world.rest(400);
    let dropped = count(&world.db, "compaction.expired_tables_dropped");
    assert!(dropped >= tables / 4 && world.tables() > 0, "{dropped} of {tables}");
    world.rest(800);
    assert_eq!(world.tables(), 0, "{:?}", world.jobs());
    assert_eq!(count(&world.db, "compaction.write_bytes"), written, "something was rewritten");
    assert_eq!(table_reads(&world.disk), 0);
    assert!(count(&world.db, "compaction.dropped_bytes") > 1 << 20);
    assert!(world.keyspace.iter().next().is_none());
}

/// The newest version of a key had expired: dropped with its table, it would have shown the one
/// below it again.
#[test]
fn expired_entries_do_not_uncover_older_versions() {
    for is_below in [true, false] {
        let world = World::new();
        (0..500).for_each(|i| world.keyspace.put(key(i), value(i, 100)).unwrap());
        world.db.flush().unwrap();
        if is_below {
            world.db.compact().unwrap();
        }
        let snapshot = world.db.snapshot();
        for i in 100..400 {
            world.keyspace.put_with_ttl(key(i), "new", Duration::from_secs(30)).unwrap();
        }
        world.db.flush().unwrap();
        for _ in 0..3 {
            world.rest(30);
            let found = collect(world.keyspace.iter());
            let is_gone =
                |i: &u64| world.clock.unix_ms() >= START_MS + 30_000 && (100..400).contains(i);
            let expected = (0..500).filter(|i| !is_gone(i)).count();
            assert_eq!(found.len(), expected);
            assert_eq!(snapshot.iter(&world.keyspace).count(), 500);
        }
        drop(snapshot);
        world.rest(60);
        assert_eq!(world.keyspace.iter().count(), 200);
        let world = world.reopened();
        assert_eq!(world.keyspace.iter().count(), 200);
    }
}

/// A drop of what has expired leaves the trace that a key was written since a transaction read it.
#[test]
fn a_transaction_meets_the_writes_of_tables_that_have_expired_since() {
    use tidekv::{Commit, Durability};

    let world = World::new();
    let ttl = Duration::from_secs(30);
    (0..100).for_each(|i| world.keyspace.put_with_ttl(key(i), "old", ttl).unwrap());
    world.db.flush().unwrap();
    let mut transaction = world.db.transaction();
    assert!(transaction.get(&world.keyspace, key(7)).unwrap().is_some());
    // Another writer deletes it, or sets it for a shorter time.
    (0..50).for_each(|i| world.keyspace.delete(key(i)).unwrap());
    (50..100).for_each(|i| world.keyspace.put_with_ttl(key(i), "new", ttl / 2).unwrap());
    world.db.flush().unwrap();
    world.rest(60);
    assert_eq!(world.keyspace.iter().count(), 0);
    transaction.put_without_ttl(&world.keyspace, key(7), "back");
    assert_eq!(transaction.commit(Durability::Buffered).unwrap(), Commit::Conflict);
    assert_eq!(world.keyspace.get(key(7)).unwrap(), None);
    // Without the transaction's snapshot everything goes.
    world.rest(60);
    assert_eq!(world.tables(), 0);
}

#[test]
fn a_covered_table_is_dropped_at_once_and_unread() {
    let world = World::new();
    fill(&world, 3000, 100, Death::Delete, true);
    (0..300).for_each(|i| world.keyspace.put(format!("other-{i}"), "stays").unwrap());
    world.db.flush().unwrap();
    let (tables, files) = (world.tables(), world.file_bytes());
    world.disk.record_history(true);
    world.keyspace.delete_range("key-", "key-9").unwrap();
    assert_eq!(table_reads(&world.disk), 0);
    assert!(count(&world.db, "compaction.covered_tables_dropped") >= tables - 2);
    assert!(world.file_bytes() < files / 5, "{} of {files}", world.file_bytes());
    assert_eq!(world.keyspace.iter().count(), 300);
    // The tombstone was in the log only.
    let after = world.disk.after_power_loss(Tear::DropUnsynced);
    let after = opened(&after, &world.clock).unwrap();
    assert_eq!(after.keyspace.iter().count(), 300);
}

/// Deletions of absent keys look like dead data, but free nothing: that must not go on for ever.
#[test]
fn deletions_of_absent_keys_end_too() {
    let world = World::new();
    (0..2000).for_each(|i| world.keyspace.put(key(2 * i), value(i, 100)).unwrap());
    world.db.flush().unwrap();
    world.db.compact().unwrap();
    (0..2000).for_each(|i| world.keyspace.delete(key(2 * i + 1)).unwrap());
    world.rest(60);
    assert_eq!(world.keyspace.iter().count(), 2000);
    let jobs = world.jobs();
    world.rest(300);
    assert_eq!(world.jobs(), jobs);
}

/// Random writes, deletions, deadlines, snapshots and rests against an ordered map.
#[test]
fn reclaiming_changes_no_answer() {
    for seed in 0..24 {
        let mut dice = Dice(seed);
        let mut world = World::new();
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..700u64 {
            let i = dice.below(200);
            match dice.below(24) {
                0..=7 => {
                    let value = value(step, 20 + dice.below(300) as usize);
                    world.keyspace.put(key(i), &value).unwrap();
                    model.insert(key(i).into_bytes(), (value, None));
                }
                8..=12 => {
                    let (value, ttl) = (value(step, 100), 1 + dice.below(20_000));
                    let deadline = world.clock.unix_ms() + ttl;
                    let ttl = Duration::from_millis(ttl);
                    // A stretch of neighbours, so that whole tables expire.
                    for i in i..(i + dice.below(30)).min(200) {
                        world.keyspace.put_with_ttl(key(i), &value, ttl).unwrap();
                        model.insert(key(i).into_bytes(), (value.clone(), Some(deadline)));
                    }
                }
                13..=15 => {
                    for i in i..(i + dice.below(40)).min(200) {
                        world.keyspace.delete(key(i)).unwrap();
                        model.remove(key(i).as_bytes());
                    }
                }
                16 | 17 => {
                    let (start, end) = (key(i), key(i + dice.below(80)));
                    world.keyspace.delete_range(&start, &end).unwrap();
                    let is_in = |key: &[u8]| start.as_bytes() <= key && key < end.as_bytes();
                    model.retain(|key, _| !is_in(key));
                }
                18 => world.db.flush().unwrap(),
                19 if snapshots.len() < 3 => snapshots.push((world.db.snapshot(), model.clone())),
                19 | 20 => {
                    if !snapshots.is_empty() {
                        snapshots.remove(dice.below(snapshots.len() as u64) as usize);
                    }
                }
                21 => world.rest(1 + dice.below(12)),
                22 => world.rest(1),
                _ => {
                    if dice.one_in(6) {
                        snapshots.clear();
                        world = world.reopened();
                    }
                }
            }
            if step % 10 == 0 {
                let now_ms = world.clock.unix_ms();
                assert_eq!(collect(world.keyspace.iter()), alive(&model, now_ms), "{seed} {step}");
                for (snapshot, model) in &snapshots {
                    let found = collect(snapshot.iter(&world.keyspace));
                    assert_eq!(found, alive(model, now_ms), "seed {seed}, step {step}: snapshot");
                }
                let found = world.keyspace.get(key(i)).unwrap().map(|value| value.to_vec());
                let expected = alive(&model, now_ms).into_iter().collect::<BTreeMap<_, _>>();
                let expected = expected.get(key(i).as_bytes()).map(|(value, _)| value.clone());
                assert_eq!(found, expected, "seed {seed}, step {step}: get");
            }
        }
    }
}

/// The power fails at any operation of a drop: the deletion and the drop are both there, or both
/// are not, and so are the writes before them.
#[test]
fn power_cut_during_a_drop_keeps_whole_prefixes() {
    let run = |cut: Option<u64>| {
        let world = World::new();
        fill(&world, 400, 200, Death::Delete, true);
        world.keyspace.put("last", "write").unwrap();
        let start = world.disk.operations();
        cut.iter().for_each(|&cut| world.disk.cut_power_at(start + cut));
        let deleted = world.keyspace.delete_range("key-", "key-9").is_ok();
        (world.disk.operations() - start, deleted, world.disk.clone(), Arc::clone(&world.clock))
    };
    let operations = run(None).0;
    assert!(operations > 4);
    let mut kinds = [0, 0];
    for cut in 0..=operations {
        for tear in [Tear::DropUnsynced, Tear::KeepUnsynced, Tear::Torn { seed: cut }] {
            let (_, _, disk, clock) = run(Some(cut));
            let after = opened(&disk.after_power_loss(tear), &clock).unwrap();
            let (left, has_last) =
                (after.keyspace.prefix("key-").count(), after.keyspace.contains("last").unwrap());
            assert!(left == 400 || left == 0 && has_last, "cut {cut}: {left} {has_last}");
            kinds[usize::from(left == 0)] += 1;
        }
    }
    assert!(kinds.iter().all(|&kind| kind > 0), "{kinds:?}");
}

/// Fills the disk until writes fail. Returns how many succeeded.
fn fill_disk(world: &World, capacity: u64) -> u64 {
    world.disk.set_capacity(Some(capacity));
    for i in 0.. {
        match world.keyspace.put(key(i), value(i, 1000)) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                // Not the first refusal only.
                for j in 0..50 {
                    let _ = world.keyspace.put(key(i + j), value(i, 1000));
                }
                // To the last byte.
                while world.keyspace.put("key-", "").is_ok() {}
                return i;
            }
        }
    }
    unreachable!("the disk is bounded")
}

/// Everything was deleted on a full disk, and nothing was freed: the deletion needed a new log, the
/// flush a new table, and writes stopped for good.
#[test]
fn a_full_disk_is_emptied_by_deleting_everything() {
    for how in 0..3 {
        let world = World::new();
        let filled = fill_disk(&world, 2 << 20);
        assert!(filled > 500, "{filled}");
        match how {
            0 => world.keyspace.clear().unwrap(),
            1 => world.keyspace.delete_range("", "z").unwrap(),
            _ => assert!(world.db.drop_keyspace("k").unwrap()),
        }
        let keyspace = world.db.keyspace("k").unwrap();
        assert!(keyspace.iter().next().is_none());
        assert!(world.file_bytes() < 200 << 10, "{how}: {} stay", world.file_bytes());
        world.rest(30);
        for i in 0..filled / 2 {
            keyspace.put(key(i), value(i, 1000)).unwrap_or_else(|e| panic!("{how}, {i}: {e}"));
        }
        world.db.flush().unwrap();
        assert_eq!(keyspace.iter().count() as u64, filled / 2);
        drop(keyspace);
        let world = world.reopened();
        assert_eq!(world.keyspace.iter().count() as u64, filled / 2);
    }
}

/// There was space for the log and none for tables: writers waited for flushes that could not
/// succeed, and so did the deletion that would have freed space.
#[test]
fn a_deletion_does_not_wait_for_flushes_that_fail() {
    let world = World::new();
    fill(&world, 3000, 100, Death::Delete, true);
    let files = world.file_bytes();
    world.disk.add_fault(FaultRule {
        operation: Some(Operation::Write),
        path_contains: Some(".table".into()),
        skip: 0,
        times: None,
        fault: Fault::Fail(tidekv_io::ErrorKind::Full),
    });
    let refused = (0..200_000).find_map(|i| world.keyspace.put(key(i), value(i, 1000)).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::Full);
    world.keyspace.delete_range("", "z").unwrap();
    assert!(world.file_bytes() < files / 5, "{} of {files}", world.file_bytes());
    assert!(world.keyspace.iter().next().is_none());
}

/// Many times over, so that no reserve is used up.
#[test]
fn a_full_disk_can_be_emptied_again_and_again() {
    let world = World::new();
    for round in 0..8 {
        fill_disk(&world, 2 << 20);
        world.keyspace.clear().unwrap_or_else(|error| panic!("round {round}: {error}"));
        world.rest(10);
        assert!(world.keyspace.iter().next().is_none());
        assert!(world.table_bytes() < 200 << 10, "round {round}: {}", world.table_bytes());
    }
}

/// Every key was deleted, one after another, and the store still refused writes: the deletions needed
/// space in a table before what they delete could go.
#[test]
fn a_full_disk_is_emptied_by_deletions_of_single_keys() {
    for (memtable_kib, table_kib) in [(64, 64), (512, 64), (128, 16)] {
        let limits = Limits { memtable_bytes: memtable_kib << 10, table_bytes: table_kib << 10 };
        for space in (10..40_u64).map(|n| n * (30 << 10)) {
            let clock = Arc::new(ManualClock::new(START_MS));
            let world = opened_with(&MemoryStorage::new(), &clock, limits).unwrap();
            let files = world.disk.paths();
            let used = files.iter().map(|path| world.disk.read_file(path).unwrap().len() as u64);
            world.disk.set_capacity(Some(used.sum::<u64>() + space));
            let put = |i: u32| world.keyspace.put(i.to_be_bytes(), vec![b'v'; 3000]);
            let refused_at = (0..).find(|&i| put(i).is_err()).unwrap();
            for i in 0..refused_at {
                world.keyspace.delete(i.to_be_bytes()).unwrap();
            }
            let is_accepted = |_| {
                world.rest(1);
                put(0).is_ok()
            };
            let what = format!("{memtable_kib} KiB, {space}");
            assert!((0..30).any(is_accepted), "{what}: {:?}, {:?}", put(0), world.db.health());
            world.rest(30);
            for i in 0..refused_at / 4 {
                put(i).unwrap_or_else(|error| panic!("{what}, {i}: {error}"));
            }
        }
    }
}
