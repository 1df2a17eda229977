//! Synced writes of many clients: that they share syncs, that each is durable when it
//! is answered, and that none hears of another's failure.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::{Client, Value, open_db_on, options};
use tidekv::Durability;
use tidekv_io::{Clock, Fault, FaultRule, MemoryStorage, Operation, SystemClock, Tear};
use tidekv_resp::{Server, ServerOptions};

const CLIENTS: usize = 8;

/// With one I/O thread: the store's group commit, which joins threads, finds none to
/// join, so what is shared is shared by a round.
fn start_synced(disk: &MemoryStorage) -> Server {
    let options = ServerOptions { durability: Durability::Sync, io_threads: 1, ..options() };
    Server::start(open_db_on(disk), options).unwrap()
}

/// Has `work` done by so many clients at once; what each has found.
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
    // All could share each; only half of that is asked of a busy machine.
    let (syncs, writes) = (syncs.load(Ordering::Relaxed), (rounds * CLIENTS) as u64);
    assert!(syncs >= rounds as u64, "{syncs} syncs for {rounds} writes, each after the last");
    assert!(2 * syncs <= writes, "{syncs} syncs for {writes} writes");
}

#[test]
fn what_was_answered_survives_a_power_cut() {
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
            // What was answered is there for whoever asks next, on whatever way.
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
fn a_command_that_fails_hinders_none_of_its_neighbours() {
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
fn a_lost_sync_is_told_to_all_that_waited_for_it() {
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
    // The disk is well again, but nobody knows what it has kept.
    disk.clear_faults();
    assert!(Client::connect(&server).ask("SET after 1").is_error("ERR "));
    let kept = open_db_on(&disk.after_power_loss(Tear::DropUnsynced));
    let strings = kept.keyspace("default").unwrap();
    assert_eq!(strings.get("before").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(strings.iter().count(), 1);
}
