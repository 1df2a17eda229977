//! Memory that stores share, and what is refused because it does not fit.

use std::sync::Arc;

use tidekv::{
    Clock, Db, Durability, Environment, ErrorKind, InlineExecutor, ManualClock, MemoryBudget,
    MemoryStorage, Options, SystemClock, WriteBatch,
};
use tidekv_testkit::allocation;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

const MIB: u64 = 1 << 20;

/// How long a change of the shares may take: they are reviewed every two seconds.
const PATIENCE_NS: u64 = 60_000_000_000;

fn on(disk: &MemoryStorage) -> Options {
    let environment = Environment::default().storage(Arc::new(disk.clone()));
    Options::new().warm_start(false).environment(environment)
}

/// Without threads of its own, on a clock that stands still.
fn inline(disk: &MemoryStorage) -> Options {
    let environment = Environment::default()
        .storage(Arc::new(disk.clone()))
        .clock(Arc::new(ManualClock::new(1_000_000)))
        .executor(Arc::new(InlineExecutor::new()));
    Options::new().warm_start(false).environment(environment)
}

fn open(options: Options) -> Db {
    Db::open("/d", options).unwrap()
}

fn sum(stores: &[Db]) -> u64 {
    stores.iter().map(Db::memory_bytes).sum()
}

/// Five stores with default options took 125 % of the machine's memory.
#[test]
fn stores_without_a_budget_share_that_of_the_process() {
    let budget = MemoryBudget::of_process().bytes();
    assert!(budget <= (MemoryBudget::available_bytes() / 8).max(8 * MIB) && budget <= 256 * MIB);
    let stores: Vec<Db> = (0..5).map(|_| open(inline(&MemoryStorage::new()))).collect();
    assert!(sum(&stores) <= budget.max(5 * 8 * MIB), "{} of {budget}", sum(&stores));
    let own = open(inline(&MemoryStorage::new()).memory_bytes(900 * MIB));
    assert_eq!(own.memory_bytes(), 900 * MIB, "it was asked for");
    stores[0].set_memory_bytes(800 * MIB);
    assert_eq!(stores[0].memory_bytes(), 800 * MIB, "so was this");
    assert!(sum(&stores[1..]) <= budget.max(4 * 8 * MIB));
}

#[test]
fn store_that_fills_its_share_gets_what_others_leave() {
    let budget = MemoryBudget::new(64 * MIB);
    let of = |disk: &MemoryStorage| open(on(disk).memory_budget(budget.clone()));
    let (idle, small, busy) = (MemoryStorage::new(), MemoryStorage::new(), MemoryStorage::new());
    let stores = [of(&idle), of(&small), of(&busy)];
    assert!(sum(&stores) <= 64 * MIB);
    stores[1].keyspace("k").unwrap().put("a", "one").unwrap();
    let keyspace = stores[2].keyspace("k").unwrap();
    let value = [7; 4000];
    (0..20_000u32).for_each(|n| keyspace.put(n.to_be_bytes(), value).unwrap());
    keyspace.flush().unwrap();
    let clock = SystemClock::new();
    let began_ns = clock.monotonic_ns();
    // It gets memory, and uses it.
    let has_memory = || {
        let caches = stores[2].statistics().memory().cache_bytes;
        stores[2].memory_bytes() >= 44 * MIB && caches > 24 * MIB
    };
    while !has_memory() {
        let waited_ns = clock.monotonic_ns() - began_ns;
        assert!(waited_ns < PATIENCE_NS, "{:?}", stores.each_ref().map(Db::memory_bytes));
        for n in 0..20_000u32 {
            assert!(keyspace.get(n.to_be_bytes()).unwrap().is_some());
        }
        assert!(sum(&stores) <= 64 * MIB);
    }
    // A third store opens: the others make room first.
    let another = of(&MemoryStorage::new());
    assert!(sum(&stores) + another.memory_bytes() <= 64 * MIB);
    assert!(another.memory_bytes() >= 8 * MIB);
    assert_eq!(budget.stores(), 4);
    drop((stores, keyspace));
    assert_eq!((budget.stores(), another.memory_bytes()), (1, 64 * MIB));
    budget.set_bytes(16 * MIB);
    assert_eq!(another.memory_bytes(), 16 * MIB);
    another.set_memory_bytes(10 * MIB);
    assert_eq!(another.memory_bytes(), 10 * MIB, "the most of the budget that it may have");
}

/// A store that only writes does not fill its caches: it lost its part to one that reads.
#[test]
fn store_that_writes_keeps_its_share_beside_one_that_reads() {
    let budget = MemoryBudget::new(64 * MIB);
    let of = |disk: &MemoryStorage| open(on(disk).memory_budget(budget.clone()));
    let (reader, writer) = (of(&MemoryStorage::new()), of(&MemoryStorage::new()));
    let keyspace = reader.keyspace("k").unwrap();
    (0..15_000u32).for_each(|n| keyspace.put(n.to_be_bytes(), [7; 4000]).unwrap());
    keyspace.flush().unwrap();
    let written = writer.keyspace("k").unwrap();
    let clock = SystemClock::new();
    let begin_ns = clock.monotonic_ns();
    let mut round = 0u32;
    // Three reviews and more.
    while clock.monotonic_ns() - begin_ns < 8_000_000_000 {
        for n in 0..1000u32 {
            // Another thousand keys each round, so that its caches are full.
            keyspace.get(((1000 * round + n) % 15_000).to_be_bytes()).unwrap();
            written.put(format!("{round} {n}"), [7; 4000]).unwrap();
        }
        round += 1;
    }
    assert!(writer.memory_bytes() > 28 * MIB, "{}", writer.memory_bytes());
    written.put("large", vec![0; 6 << 20]).unwrap();
}

/// A batch of 1 GiB was accepted with any budget, and the store needed several times as much to open
/// again.
#[test]
fn batch_that_does_not_fit_the_memory_budget_is_refused() {
    let disk = MemoryStorage::new();
    let db = open(inline(&disk).memory_bytes(16 * MIB));
    let keyspace = db.keyspace("k").unwrap();
    let error = keyspace.put("large", vec![0; 4 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("a batch may have 4194304"), "{error}");
    let mut batch = WriteBatch::new();
    (0..5000u32).for_each(|n| batch.put(&keyspace, n.to_be_bytes(), [0; 1000]));
    assert_eq!(db.write(batch).unwrap_err().kind(), ErrorKind::OutOfMemory);
    let mut transaction = db.transaction();
    transaction.put(&keyspace, "large", vec![0; 5 << 20]);
    assert_eq!(
        transaction.commit(Durability::Buffered).unwrap_err().kind(),
        ErrorKind::OutOfMemory
    );
    assert_eq!(keyspace.iter().count(), 0, "nothing was written");

    keyspace.put("fits", vec![0; 4_000_000]).unwrap();
    db.set_memory_bytes(32 * MIB);
    keyspace.put("large", vec![0; 4 << 20]).unwrap();
    assert_eq!(keyspace.iter().count(), 2);
}

/// The caches shrink before a large batch arrives, not at the next check.
#[test]
fn large_batches_push_blocks_out_of_the_cache() {
    let disk = MemoryStorage::new();
    let db = open(inline(&disk).memory_bytes(16 * MIB));
    let keyspace = db.keyspace("k").unwrap();
    let total = |db: &Db| {
        let memory = db.statistics().memory();
        memory.cache_bytes_max + memory.memtable_bytes + memory.metadata_bytes
    };
    for n in 0..12u32 {
        keyspace.put(n.to_be_bytes(), vec![7; 3_900_000]).unwrap();
        assert!(total(&db) <= 16 * MIB, "{} after {n}", total(&db));
    }
}

/// What keyspaces and their tables hold is charged. On a real disk, because the files of a simulated
/// one are in memory.
#[test]
fn keyspaces_are_charged() {
    const KEYSPACES: usize = 2000;
    /// Of a flush, whatever the number of keyspaces.
    const BUFFERS: u64 = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let live = allocation::live();
    let open = || {
        let mut options = inline(&MemoryStorage::new()).memory_bytes(64 * MIB);
        options.environment.storage = None;
        Db::open(directory.path(), options).unwrap()
    };
    let db = open();
    let charged = |db: &Db| {
        let memory = db.statistics().memory();
        memory.metadata_bytes + memory.cache_bytes + memory.memtable_bytes
    };
    let of_empty_store = allocation::live() - live;
    let charged_before = charged(&db);
    let check = |db: &Db, what: &str| {
        let held = (allocation::live() - live - of_empty_store) as u64;
        let charged = charged(db) - charged_before;
        assert!(
            charged * 10 >= held.saturating_sub(BUFFERS) * 9 && charged * 10 <= held * 13,
            "{what}: {charged} of {held} bytes are charged"
        );
    };
    let all: Vec<_> = (0..KEYSPACES).map(|n| db.keyspace(&format!("keyspace {n}"))).collect();
    drop(all);
    check(&db, "empty");
    (0..KEYSPACES).for_each(|n| {
        db.keyspace(&format!("keyspace {n}")).unwrap().put("a key", "a value").unwrap();
    });
    db.flush().unwrap();
    check(&db, "flushed");
    drop(db);
    let db = open();
    check(&db, "reopened");
}

#[test]
fn keyspaces_that_do_not_fit_the_memory_budget_are_refused() {
    let disk = MemoryStorage::new();
    let db = open(inline(&disk).memory_bytes(8 * MIB));
    let name = |n: usize| format!("keyspace {n}");
    let created = (0..20_000).map(|n| db.keyspace(&name(n)));
    let (count, error) = created.enumerate().find_map(|(n, it)| Some((n, it.err()?))).unwrap();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("no room for another keyspace"), "{error}");
    assert!(db.statistics().memory().metadata_bytes < 8 * MIB);
    db.keyspace(&name(0)).unwrap().put("a", "one").unwrap();
    assert!(db.drop_keyspace(&name(1)).unwrap());
    drop(db);
    // What was accepted opens again.
    let db = open(inline(&disk).memory_bytes(8 * MIB));
    assert_eq!(db.keyspace_names().len(), count - 1);
}

/// A read-only open kept whatever the log holds, whatever its budget.
#[test]
fn read_only_open_is_bounded_by_its_budget() {
    let disk = MemoryStorage::new();
    let db = open(inline(&disk).memory_bytes(256 * MIB));
    let keyspace = db.keyspace("k").unwrap();
    (0..20u32).for_each(|n| keyspace.put(n.to_be_bytes(), vec![7; 1 << 20]).unwrap());
    std::mem::forget(db);
    let copy = disk.after_power_loss(tidekv::Tear::KeepUnsynced);
    let read = |bytes: u64| Db::open("/d", inline(&copy).read_only(true).memory_bytes(bytes));
    let error = read(32 * MIB).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("raise the budget"), "{error}");
    let count = |db: Db| db.keyspace("k").unwrap().iter().count();
    assert_eq!(count(read(64 * MIB).unwrap()), 20);
    assert_eq!(count(open(inline(&copy).memory_bytes(32 * MIB))), 20, "a writer flushes them");
}
