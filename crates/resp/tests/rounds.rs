//! Group commit of synced writes of many clients: they share syncs, each is durable when it is
//! answered, and none gets the failure of another.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::{Client, Value, open_db_on, options};
use tidekv::Durability;
use tidekv_io::{Clock, Fault, FaultRule, MemoryStorage, Operation, SystemClock, Tear};
use tidekv_resp::{Server, ServerOptions};

const CLIENTS: usize = 8;

/// With one I/O thread: the store's group commit, which joins threads, has none to join, so only
/// the server's group commit shares syncs.
fn start_synced(disk: &MemoryStorage) -> Server {
    let options = ServerOptions { durability: Durability::Sync, io_threads: 1, ..options() };
    Server::start(open_db_on(disk), options).unwrap()
}

/// Runs `work` with many clients concurrently; returns the result of each.
fn by_all<T: Send>(server: &Server, work: impl Fn(usize, &mut Client) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let client = |number| scope.spawn(move || work(number, &mut Client::connect(server)));
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

#[test]
fn writers_that_wait_for_the_disk_share_its_sync() {
    let (disk, clock) = (MemoryStorage::new(), SystemClock::new());
    let server = start_synced(&disk);
    let syncs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&syncs);
    disk.on_operation(move |record| {
        if record.operation == Operation::Sync && record.path.extension() == Some("log".as_ref()) {
            counted.fetch_add(1, Ordering::Relaxed);
            clock.sleep(Duration::from_millis(10));
        }
    });
    let rounds = 20;
    by_all(&server, |number, client| {
        for i in 0..rounds {
            assert_eq!(client.ask(&format!("SET k{number} {i}")), "OK");
        }
    });
    disk.clear_on_operation();
    // All could share each; a busy machine must reach only half of that.
    let (syncs, writes) = (syncs.load(Ordering::Relaxed), (rounds * CLIENTS) as u64);
    assert!(syncs >= rounds as u64, "{syncs} syncs for {rounds} writes, each after the last");
    assert!(2 * syncs <= writes, "{syncs} syncs for {writes} writes");
}

#[test]
fn acknowledged_writes_survive_a_power_cut() {
    let disk = MemoryStorage::new();
    let server = start_synced(&disk);
    by_all(&server, |number, client| {
        for i in 0..50 {
            let commands = [&*format!("SET k{number} {i}"), "INCR all", &format!("INCR n{number}")];
            let replies = client.ask_all(&commands);
            assert_eq!(
                (&replies[0], &replies[2]),
                (&Value::Text("OK".into()), &Value::Integer(i + 1))
            );
        }
    });
    let db = open_db_on(&disk.after_power_loss(Tear::DropUnsynced));
    let strings = db.keyspace("default").unwrap();
    let value = |key: &str| String::from_utf8(strings.get(key).unwrap().unwrap().to_vec()).unwrap();
    for number in 0..CLIENTS {
        assert_eq!(value(&format!("k{number}")), "49");
        assert_eq!(value(&format!("n{number}")), "50");
    }
    assert_eq!(value("all"), (50 * CLIENTS).to_string());
}

#[test]
fn each_sees_the_writes_of_all_before_it() {
    let server = start_synced(&MemoryStorage::new());
    let counts = by_all(&server, |number, client| {
        let mut seen = Vec::new();
        for i in 0..100 {
            let Value::Integer(count) = client.ask("INCR all") else { panic!("no number") };
            seen.push(count);
            // An acknowledged write is visible to the next request of any client.
            assert!(client.ask("GET all").text().parse::<i64>().unwrap() >= count);
            assert_eq!(client.ask(&format!("HINCRBY h f{number} 1")), i + 1);
        }
        assert!(seen.is_sorted());
        seen
    });
    let mut counts: Vec<i64> = counts.into_iter().flatten().collect();
    counts.sort_unstable();
    assert!(counts.into_iter().eq(1..=100 * CLIENTS as i64), "each count is given once");
}

#[test]
fn a_failing_command_does_not_affect_others_in_its_batch() {
    let server = start_synced(&MemoryStorage::new());
    assert_eq!(Client::connect(&server).ask("SET word x"), "OK");
    by_all(&server, |number, client| {
        for i in 0..50 {
            if number % 2 == 0 {
                let replies = client.ask_all(&["SET even 1", "INCR word", "APPEND even 2"]);
                assert!(replies[1].is_error("ERR value is not an integer"), "{replies:?}");
                assert!(matches!(replies[2], Value::Integer(2..)));
            } else {
                assert_eq!(client.ask(&format!("INCR n{number}")), i + 1);
            }
        }
    });
    assert_eq!(Client::connect(&server).ask("GET word"), "x");
}

#[test]
fn all_waiting_clients_get_the_error_of_a_failed_sync() {
    let disk = MemoryStorage::new();
    let server = start_synced(&disk);
    assert_eq!(Client::connect(&server).ask("SET before 1"), "OK");
    disk.add_fault(FaultRule::always(Operation::Sync, Fault::SyncLost).on_path(".log"));
    let replies = by_all(&server, |number, client| {
        let reply = client.ask(&format!("SET k{number} 1"));
        assert_eq!(client.ask("GET before"), "1");
        reply
    });
    assert!(replies.iter().all(|reply| reply.is_error("ERR ")), "{replies:?}");
    // The disk works again, but its contents are unknown.
    disk.clear_faults();
    assert!(Client::connect(&server).ask("SET after 1").is_error("ERR "));
    let kept = open_db_on(&disk.after_power_loss(Tear::DropUnsynced));
    let strings = kept.keyspace("default").unwrap();
    assert_eq!(strings.get("before").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(strings.iter().count(), 1);
}
