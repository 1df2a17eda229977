//! Opens a store, writes, reads, scans, takes a snapshot, and opens the store again.
//!
//! ```sh
//! cargo run -p tidekv --example getting_started
//! ```

use tidekv::{Db, Durability, Options, WriteBatch};

pub(crate) fn run() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let options = || Options::new().memory_bytes(64 << 20);
    let db = Db::open(directory.path(), options())?;
    let fruits = db.keyspace("fruits")?;

    // Single writes and reads.
    fruits.put("apple", "red")?;
    let color = fruits.get("apple")?.ok_or("there is no apple")?;
    println!("an apple is {}", String::from_utf8_lossy(&color));
    assert_eq!(color, "red");

    // A batch takes effect completely or not at all. This one survives a power cut.
    let mut batch = WriteBatch::new();
    batch.put(&fruits, "banana", "yellow");
    batch.put(&fruits, "cherry", "red");
    batch.put(&fruits, "lemon", "yellow");
    batch.delete(&fruits, "apple");
    db.write_with(batch, Durability::Sync)?;

    // A snapshot does not see later writes.
    let snapshot = db.snapshot();
    fruits.put("lemon", "green")?;
    assert_eq!(snapshot.get(&fruits, "lemon")?.ok_or("there is no lemon")?, "yellow");

    // Iterators return keys in order, from either end.
    for entry in fruits.range("b".."d") {
        let (key, entry) = entry?;
        println!("{} = {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&entry.value));
    }
    assert_eq!(fruits.range("b".."d").count(), 2);
    let (last, _) = fruits.iter().next_back().ok_or("there are no fruits")??;
    assert_eq!(last, "lemon");

    // `close` waits for background work. The data is there when the store is opened again.
    db.close()?;
    let db = Db::open(directory.path(), options())?;
    let fruits = db.keyspace("fruits")?;
    println!("after opening again: {} fruits", fruits.iter().count());
    assert_eq!(fruits.iter().count(), 3);
    assert_eq!(fruits.get("lemon")?.ok_or("there is no lemon")?, "green");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}
