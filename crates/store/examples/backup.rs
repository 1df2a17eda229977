//! Takes a backup of an open store, checks it, and opens the copy.
//!
//! ```sh
//! cargo run -p tidekv --example backup
//! ```
//!
//! A checkpoint shares table files with the store by hard links: it takes hardly any time or space,
//! and must be on the same file system. Copy it elsewhere, then delete it.

use tidekv::{Db, Options, check};

pub(crate) fn run() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let (data, backup) = (directory.path().join("data"), directory.path().join("backup"));
    let options = || Options::new().memory_bytes(64 << 20);
    let db = Db::open(&data, options())?;
    let orders = db.keyspace("orders")?;
    orders.ingest((0..1000).map(|n| (format!("order-{n:06}"), "paid")))?;
    orders.put("order-001000", "open")?;

    // The state of this moment; later writes are not in it.
    db.checkpoint(&backup)?;
    orders.clear()?;

    // The copy is a store of its own. Verify every checksum before you rely on it.
    let report = check::check(&backup, None, &mut |progress| println!("{progress:?}"))?;
    println!("{} entries in {} tables, intact", report.entries, report.tables);
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    assert_eq!(report.entries, 1001);

    // Restoring is opening: here without changing the copy.
    let copy = Db::open(&backup, options().read_only(true))?;
    let restored = copy.existing_keyspace("orders").ok_or("the copy has no orders")?;
    println!("{} orders in the copy", restored.iter().count());
    assert_eq!(restored.iter().count(), 1001);
    assert_eq!(restored.get("order-001000")?.ok_or("the order is missing")?, "open");
    assert_eq!(orders.iter().count(), 0);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}
