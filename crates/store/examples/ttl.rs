//! Sessions that expire: a default time to live, one for a single value, and the end of both.
//!
//! ```sh
//! cargo run -p tidekv --example ttl
//! ```
//!
//! A `ManualClock` stands in for the clock of the machine, so that the example need not wait.

use std::sync::Arc;
use std::time::Duration;

use tidekv::{Db, Environment, KeyspaceOptions, ManualClock, Options};

pub(crate) fn run() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let clock = Arc::new(ManualClock::new(1_800_000_000_000));
    let environment = Environment::default().clock(clock.clone());
    let options = Options::new().memory_bytes(64 << 20).environment(environment);
    let db = Db::open(directory.path(), options)?;

    let an_hour = Duration::from_secs(3600);
    let sessions = db.keyspace_with("sessions", KeyspaceOptions::new().default_ttl(an_hour))?;
    sessions.put("browser", "ada")?; // an hour
    sessions.put_with_ttl("phone", "ada", 24 * an_hour)?;
    let entry = sessions.get_entry("browser")?.ok_or("the session is missing")?;
    let left_ms = entry.expires_at_ms.ok_or("it never expires")? - db.unix_ms();
    println!("the browser's session expires in {left_ms} ms");
    assert_eq!(left_ms, 3_600_000);

    // To renew a session, write it again.
    clock.advance(an_hour / 2);
    sessions.put("browser", "ada")?;
    clock.advance(an_hour / 2);
    assert!(sessions.contains("browser")?);

    // An expired entry is no longer returned, by reads and by iterators.
    clock.advance(an_hour);
    assert_eq!(sessions.get("browser")?, None);
    assert!(sessions.contains("phone")?);
    println!("after an hour without a renewal: {} session", sessions.iter().count());
    assert_eq!(sessions.iter().count(), 1);

    // Compactions remove expired entries from storage; they run by themselves as data grows.
    clock.advance(24 * an_hour);
    db.compact()?;
    println!("after a day: {} entries on storage", sessions.approximate_len());
    assert_eq!(sessions.approximate_len(), 0);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}
