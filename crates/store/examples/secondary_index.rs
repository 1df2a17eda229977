//! Finds records by a second key: an index in a keyspace of its own, changed in the same batch as
//! the record.
//!
//! ```sh
//! cargo run -p tidekv --example secondary_index
//! ```
//!
//! `users` maps a name to a city, `users-by-city` has an empty value for each `CITY \0 NAME`. One
//! batch writes both, so the index never disagrees with the records, also after a crash. With
//! several writers, use a transaction, which detects that a record has changed between the read
//! and the commit.

use tidekv::{Commit, Db, Durability, Keyspace, Options, Result, WriteBatch};

struct Users {
    db: Db,
    users: Keyspace,
    by_city: Keyspace,
}

fn index_key(city: &[u8], name: &[u8]) -> Vec<u8> {
    [city, b"\0", name].concat()
}

impl Users {
    fn open(db: Db) -> Result<Self> {
        let (users, by_city) = (db.keyspace("users")?, db.keyspace("users-by-city")?);
        Ok(Self { db, users, by_city })
    }

    /// Sets the city of a user. For one writer at a time.
    fn set(&self, name: &str, city: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        if let Some(old) = self.users.get(name)? {
            batch.delete(&self.by_city, index_key(&old, name.as_bytes()));
        }
        batch.put(&self.users, name, city);
        batch.put(&self.by_city, index_key(city.as_bytes(), name.as_bytes()), "");
        self.db.write(batch)
    }

    /// Sets the city of a user, with any number of concurrent writers.
    fn set_concurrently(&self, name: &str, city: &str) -> Result<()> {
        loop {
            let mut transaction = self.db.transaction();
            if let Some(old) = transaction.get(&self.users, name)? {
                let old = index_key(&old.value, name.as_bytes());
                transaction.delete(&self.by_city, old);
            }
            transaction.put(&self.users, name, city);
            transaction.put(&self.by_city, index_key(city.as_bytes(), name.as_bytes()), "");
            if transaction.commit(Durability::Buffered)? == Commit::Done {
                return Ok(());
            }
        }
    }

    /// The names of all users of a city, in order.
    fn in_city(&self, city: &str) -> Result<Vec<String>> {
        let prefix = index_key(city.as_bytes(), b"");
        let name = |entry: Result<(tidekv::Bytes, tidekv::Entry)>| {
            entry.map(|(key, _)| String::from_utf8_lossy(&key[prefix.len()..]).into_owned())
        };
        self.by_city.prefix(&prefix).keys_only().map(name).collect()
    }
}

pub(crate) fn run() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), Options::new().memory_bytes(64 << 20))?;
    let users = Users::open(db)?;
    users.set("ada", "London")?;
    users.set("alan", "London")?;
    users.set("grace", "New York")?;
    println!("London: {:?}", users.in_city("London")?);
    assert_eq!(users.in_city("London")?, ["ada", "alan"]);

    // A move changes the record and both entries of the index together.
    users.set("alan", "Manchester")?;
    users.set_concurrently("grace", "Arlington")?;
    println!("Manchester: {:?}", users.in_city("Manchester")?);
    assert_eq!(users.in_city("London")?, ["ada"]);
    assert_eq!(users.in_city("Manchester")?, ["alan"]);
    assert_eq!(users.in_city("Arlington")?, ["grace"]);
    assert_eq!(users.by_city.iter().count(), users.users.iter().count());
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    run()
}
