//! Counters that many threads change at the same time: one key with `increment`, two keys together
//! with transactions.
//!
//! ```sh
//! cargo run -p tidekv --example counters
//! ```

use tidekv::{Commit, Db, Durability, Keyspace, Options};

const THREADS: i64 = 4;
const ROUNDS: i64 = 250;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Moves one unit from an account to another; returns the number of conflicts that it met.
fn transfer(db: &Db, accounts: &Keyspace, from: &str, to: &str) -> Result<u32, Failure> {
    let mut conflicts = 0;
    loop {
        let mut transaction = db.transaction();
        for (account, change) in [(from, -1), (to, 1)] {
            let entry = transaction.get(accounts, account)?.ok_or("the account is missing")?;
            let balance: i64 = std::str::from_utf8(&entry.value)?.parse()?;
            transaction.put(accounts, account, (balance + change).to_string());
        }
        match transaction.commit(Durability::Buffered)? {
            Commit::Done => return Ok(conflicts),
            Commit::Conflict => conflicts += 1, // somebody else has changed an account: start over
        }
    }
}

fn balance(accounts: &Keyspace, account: &str) -> Result<i64, Failure> {
    let value = accounts.get(account)?.ok_or("the account is missing")?;
    Ok(std::str::from_utf8(&value)?.parse()?)
}

pub(crate) fn run() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), Options::new().memory_bytes(64 << 20))?;
    let counters = db.keyspace("counters")?;
    let accounts = db.keyspace("accounts")?;
    accounts.put("alice", "1000")?;
    accounts.put("bob", "1000")?;

    let work = |thread: i64| {
        let mut conflicts = 0;
        for _ in 0..ROUNDS {
            counters.increment("visits", 1)?;
            let (from, to) = if thread % 2 == 0 { ("alice", "bob") } else { ("bob", "alice") };
            conflicts += transfer(&db, &accounts, from, to)?;
        }
        Ok::<u32, Failure>(conflicts)
    };
    let conflicts = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || work(n))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        joined.sum::<Result<u32, Failure>>()
    })?;

    let visits = counters.increment("visits", 0)?;
    let (alice, bob) = (balance(&accounts, "alice")?, balance(&accounts, "bob")?);
    println!("{visits} visits; alice {alice}, bob {bob}; {conflicts} conflicts were repeated");
    assert_eq!(visits, THREADS * ROUNDS);
    assert_eq!((alice, bob), (1000, 1000), "as many transfers in each direction");
    Ok(())
}

fn main() -> Result<(), Failure> {
    run()
}
