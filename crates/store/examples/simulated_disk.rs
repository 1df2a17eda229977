//! Tests a program against power cuts, without a disk: an `Environment` of simulated parts.
//!
//! ```sh
//! cargo run -p tidekv --example simulated_disk
//! ```
//!
//! `MemoryStorage` keeps apart the bytes that were synced. With `InlineExecutor`, `ManualClock` and
//! `SeededRandom` every run is the same: background work runs in the calling thread, time moves only
//! when the test advances it.

use std::sync::Arc;
use std::time::Duration;

use tidekv::{
    Db, Durability, Environment, InlineExecutor, ManualClock, MemoryStorage, Options, SeededRandom,
    Tear, WriteBatch,
};

const START_MS: u64 = 1_800_000_000_000;

fn options(disk: &Arc<MemoryStorage>, clock: &Arc<ManualClock>) -> Options {
    let environment = Environment::default()
        .storage(disk.clone())
        .clock(clock.clone())
        .random(Arc::new(SeededRandom::new(7)))
        .executor(Arc::new(InlineExecutor::new()));
    Options::new().memory_bytes(8 << 20).environment(environment)
}

pub(crate) fn run() -> Result<(), Box<dyn std::error::Error>> {
    let disk = Arc::new(MemoryStorage::new());
    let clock = Arc::new(ManualClock::new(START_MS));
    let db = Db::open("/data", options(&disk, &clock))?;
    let orders = db.keyspace("orders")?;

    // Each order is a batch of two writes: half an order must never be found.
    for n in 0..100 {
        let mut batch = WriteBatch::new();
        batch.put(&orders, format!("order/{n:03}"), "paid");
        batch.put(&orders, format!("invoice/{n:03}"), "sent");
        let durability = if n < 50 { Durability::Sync } else { Durability::Buffered };
        db.write_with(batch, durability)?;
    }
    orders.put_with_ttl("lock", "worker-1", Duration::from_secs(60))?;
    db.sync()?;
    for n in 100..150 {
        let mut batch = WriteBatch::new();
        batch.put(&orders, format!("order/{n:03}"), "paid");
        batch.put(&orders, format!("invoice/{n:03}"), "sent");
        db.write(batch)?;
    }

    // The power fails. The disk loses all, none or some of the bytes that were not synced.
    let torn = (0..20).map(|seed| Tear::Torn { seed });
    for tear in [Tear::DropUnsynced, Tear::KeepUnsynced].into_iter().chain(torn) {
        let aftermath = Arc::new(disk.after_power_loss(tear));
        let db = Db::open("/data", options(&aftermath, &clock))?;
        let found = db.keyspace("orders")?;
        let (orders, invoices) = (found.prefix("order/").count(), found.prefix("invoice/").count());
        println!("{tear:?}: {orders} orders");
        assert_eq!(orders, invoices, "a batch is atomic");
        assert!((100..=150).contains(&orders), "everything that was synced survives");
        assert!(found.contains(format!("order/{:03}", orders - 1))?, "without holes");
        match tear {
            Tear::DropUnsynced => assert_eq!(orders, 100),
            Tear::KeepUnsynced => assert_eq!(orders, 150),
            Tear::Torn { .. } => {}
        }
    }

    // Time moves by hand: the lock expires without waiting.
    assert!(orders.contains("lock")?);
    clock.advance(Duration::from_secs(60));
    assert!(!orders.contains("lock")?);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}
