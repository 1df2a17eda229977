//! The databases of a server: what separates them, what moves between them, and what a restart or a
//! power cut leaves of that.

mod support;

use std::time::Duration;

use support::{Client, Value, list, open_db_on, options};
use tidekv::MemoryStorage;
use tidekv_io::{Clock, SystemClock, Tear};
use tidekv_resp::Server;

fn start_on(storage: &MemoryStorage) -> (tidekv::Db, Server, Client) {
    let db = open_db_on(storage);
    let server = Server::start(db.clone(), options()).unwrap();
    let client = Client::connect(&server);
    (db, server, client)
}

fn stop(db: &tidekv::Db, server: Server) {
    assert!(server.shutdown(Duration::from_secs(10)));
    db.close().unwrap();
}

/// Waits until a sweep has left `count` fields.
fn wait_for_fields(fields: &tidekv::Keyspace, count: usize) {
    let clock = SystemClock::new();
    let begun_ns = clock.monotonic_ns();
    while fields.iter().count() > count {
        let waited_ns = clock.monotonic_ns() - begun_ns;
        assert!(u128::from(waited_ns) < support::PATIENCE.as_nanos(), "the fields stay");
        clock.sleep(Duration::from_millis(20));
    }
}

#[test]
fn keyspaces_of_other_databases_are_created_when_they_are_written() {
    let storage = MemoryStorage::new();
    let (db, server, mut client) = start_on(&storage);
    let names = |db: &tidekv::Db| {
        let mut names = db.keyspace_names();
        names.sort();
        names
    };
    let first = ["default", "hash", "hash.fields", "hash.garbage"];
    assert_eq!(names(&db), first);
    client.ask("SELECT 7");
    for read in
        ["GET k", "HGET h f", "MGET a b", "DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY", "TTL k"]
    {
        client.ask(read);
    }
    assert_eq!(names(&db), first, "reads create nothing");
    assert_eq!(client.ask("SET k 7"), "OK");
    let expected = ["db.7", "db.7.hash", "default", "hash", "hash.fields", "hash.garbage"];
    assert_eq!(names(&db), expected);
    stop(&db, server);
}

#[test]
fn moved_and_swapped_data_survive_a_restart() {
    let storage = MemoryStorage::new();
    let (db, server, mut client) = start_on(&storage);
    client.ask_all(&[
        "SET s zero",
        "HSET h f zero",
        "HSET stays f zero",
        "PEXPIREAT h 9999999999999",
    ]);
    assert_eq!(client.ask("MOVE h 3"), 1);
    assert_eq!(client.ask("COPY s copied DB 2"), 1);
    assert_eq!(client.ask("SWAPDB 0 3"), "OK");
    assert_eq!(client.ask("HGET h f"), "zero");
    stop(&db, server);
    let (db, server, mut client) = start_on(&storage);
    assert_eq!(client.ask("KEYS *"), list(["h"]));
    assert_eq!(client.ask("HGETALL h"), list(["f", "zero"]));
    assert_eq!(client.ask("PEXPIRETIME h"), 9_999_999_999_999);
    client.ask("SELECT 3");
    assert_eq!(client.ask("KEYS *"), list(["s", "stays"]));
    client.ask("SELECT 2");
    assert_eq!(client.ask("KEYS *"), list(["copied"]));
    stop(&db, server);
}

#[test]
fn a_swap_in_a_transaction_is_stored_with_its_writes() {
    let storage = MemoryStorage::new();
    let db = open_db_on(&storage);
    let durable = tidekv_resp::ServerOptions { durability: tidekv::Durability::Sync, ..options() };
    let server = Server::start(db, durable).unwrap();
    let mut client = Client::connect(&server);
    let replies = client.ask_all(&[
        "SET k 0",
        "MULTI",
        "SET before 1",
        "SWAPDB 0 1",
        "SET after 1",
        "GET before",
        "SELECT 1",
        "GET before",
        "EXEC",
    ]);
    let exec = replies.last().unwrap().clone().items();
    assert_eq!(exec[3], Value::Null, "the content of database 1 is another one now");
    assert_eq!(exec[5], "1");
    let aftermath = storage.after_power_loss(Tear::DropUnsynced);
    let (_db, _server, mut client) = start_on(&aftermath);
    assert_eq!(client.ask("KEYS *"), list(["after"]));
    client.ask("SELECT 1");
    assert_eq!(client.ask("KEYS *"), list(["before", "k"]));
}

#[test]
fn a_flush_in_a_transaction_leaves_hashes_that_it_has_put_into_other_databases() {
    for put in ["MOVE h 1", "COPY h h DB 1"] {
        let storage = MemoryStorage::new();
        let (_db, _server, mut client) = start_on(&storage);
        client.ask_all(&["HSET h f v", "PEXPIREAT h 9999999999999"]);
        client.ask_all(&["MULTI", put, "FLUSHDB", "EXEC"]);
        assert_eq!(client.ask("DBSIZE"), 0, "{put}");
        client.ask("SELECT 1");
        assert_eq!(client.ask("HLEN h"), 1, "{put}");
        assert_eq!(client.ask("HGET h f"), "v", "{put}");
    }
}

#[test]
fn a_failed_transaction_leaves_the_connection_in_its_database() {
    let storage = MemoryStorage::new();
    let (_db, _server, mut client) = start_on(&storage);
    let large = "x".repeat(3 << 20);
    for write in ["SET", "GET"] {
        let mut commands = vec!["MULTI".to_owned(), "SELECT 1".to_owned()];
        match write {
            // More than one transaction may write, or return.
            "SET" => commands.extend((0..4).map(|i| format!("SET a{i} {large}"))),
            _ => {
                (0..4).for_each(|i| drop(client.ask(&format!("SET a{i} {large}"))));
                client.ask("SELECT 1");
                (0..4).for_each(|i| drop(client.ask(&format!("SET a{i} {large}"))));
                client.ask("SELECT 0");
                commands.extend((0..4).map(|i| format!("GET a{i}")));
            }
        }
        commands.push("EXEC".to_owned());
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let replies = client.ask_all(&commands);
        assert!(matches!(replies.last(), Some(Value::Error(_))), "{write}: {:?}", replies.last());
        client.ask("SET here 1");
        client.ask("SELECT 0");
        assert_eq!(client.ask("DEL here"), 1, "{write}");
    }
}

#[test]
fn a_flush_of_one_database_leaves_the_hashes_of_others() {
    let storage = MemoryStorage::new();
    let (db, server, mut client) = start_on(&storage);
    client.ask_all(&[
        "HSET h f 0",
        "SET s 0",
        "SELECT 1",
        "HSET h f 1",
        "HSET gone f 1",
        "SET s 1",
    ]);
    assert_eq!(client.ask("PEXPIREAT gone 9999999999999"), 1);
    assert_eq!(client.ask("FLUSHDB"), "OK");
    assert_eq!(client.ask("DBSIZE"), 0);
    client.ask("SELECT 0");
    assert_eq!(client.ask("DBSIZE"), 2);
    assert_eq!(client.ask("HGET h f"), "0");
    // The sweep removes the fields of the flushed hashes, and none of the other's.
    let fields = db.existing_keyspace("hash.fields").unwrap();
    wait_for_fields(&fields, 1);
    assert_eq!(client.ask("HGET h f"), "0");
    assert_eq!(client.ask("FLUSHDB"), "OK");
    assert_eq!(fields.iter().count(), 0, "no other database has hashes: nothing is left to sweep");
    client.ask_all(&["SET a 0", "SELECT 9", "SET a 9", "FLUSHALL"]);
    assert_eq!(client.ask("DBSIZE"), 0);
    stop(&db, server);
}

#[test]
fn an_expired_hash_of_another_database_is_swept() {
    let (db, clock) = support::open_db_at(1_700_000_000_000);
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::connect(&server);
    client.ask_all(&[
        "SELECT 4",
        "HSET h f 1",
        "PEXPIRE h 100",
        "HSET moved f 1",
        "PEXPIRE moved 100",
    ]);
    client.ask("MOVE moved 5");
    let fields = db.existing_keyspace("hash.fields").unwrap();
    assert_eq!(fields.iter().count(), 2);
    clock.advance(Duration::from_millis(200));
    assert_eq!(client.ask("EXISTS h"), 0);
    wait_for_fields(&fields, 0);
}

#[test]
fn swaps_do_not_tear_concurrent_commands() {
    let server = support::start();
    let mut client = Client::connect(&server);
    client.ask_all(&["MSET a 0 b 0", "SELECT 1", "MSET a 1 b 1"]);
    let address = support::tcp_address(&server);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::connect_tcp(&address);
            (0..300).for_each(|_| assert_eq!(client.ask("SWAPDB 0 1"), "OK"));
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = Client::connect_tcp(&address);
                for _ in 0..300 {
                    let pair = client.ask("MGET a b").items();
                    assert_eq!(pair[0], pair[1]);
                    client.ask_all(&["MULTI", "INCRBY a 2", "INCRBY b 2", "EXEC"]);
                }
            });
        }
    });
    for database in ["SELECT 0", "SELECT 1"] {
        client.ask(database);
        let pair = client.ask("MGET a b").items();
        assert_eq!(pair[0], pair[1]);
    }
}

#[test]
fn reads_from_storage_are_of_the_selected_database() {
    let storage = MemoryStorage::new();
    let (db, server, mut client) = start_on(&storage);
    for database in ["0", "7"] {
        let commands = [
            format!("SELECT {database}"),
            format!("MSET a a{database} b b{database}"),
            format!("HSET h f h{database}"),
            format!("SET only{database} v"),
        ];
        client.ask_all(&commands.each_ref().map(String::as_str));
    }
    stop(&db, server);
    let (db, server, mut client) = start_on(&storage);
    let replies = client.ask_all(&[
        "SELECT 7",
        "MGET a b only0",
        "STRLEN a",
        "EXISTS a b h only0 only7",
        "TYPE h",
        "HGET h f",
        "SELECT 0",
        "MGET a b only7",
        "HGET h f",
        "SELECT 3",
        "MGET a b",
        "TYPE h",
    ]);
    let pair = |a: &str, b: &str| {
        Value::List(vec![Value::Text(a.into()), Value::Text(b.into()), Value::Null])
    };
    assert_eq!(replies[1], pair("a7", "b7"));
    assert_eq!(replies[3], 4);
    assert_eq!(
        (&replies[4], &replies[5]),
        (&Value::Text("hash".into()), &Value::Text("h7".into()))
    );
    assert_eq!(replies[7], pair("a0", "b0"));
    assert_eq!(replies[8], "h0");
    assert_eq!(replies[10], Value::List(vec![Value::Null, Value::Null]));
    assert_eq!(replies[11], "none");
    stop(&db, server);
}

#[test]
fn a_group_commit_writes_to_the_database_of_each_connection() {
    let durable = tidekv_resp::ServerOptions { durability: tidekv::Durability::Sync, ..options() };
    let server = support::start_with(durable);
    let address = support::tcp_address(&server);
    std::thread::scope(|scope| {
        for database in 0..8 {
            let address = &address;
            scope.spawn(move || {
                let mut client = Client::connect_tcp(address);
                client.ask(&format!("SELECT {database}"));
                (0..30).for_each(|_| drop(client.ask(&format!("INCRBY n {}", database + 1))));
            });
        }
    });
    let mut client = Client::connect(&server);
    for database in 0..8 {
        client.ask(&format!("SELECT {database}"));
        assert_eq!(client.ask("GET n"), &*(30 * (database + 1)).to_string());
    }
}

#[test]
fn a_watch_is_of_one_database() {
    let server = support::start();
    let (mut client, mut other) = (Client::connect(&server), Client::connect(&server));
    let exec = |client: &mut Client| client.ask_all(&["MULTI", "PING", "EXEC"]).remove(2);
    client.ask_all(&["SET k 0", "WATCH k"]);
    other.ask_all(&["SELECT 1", "SET k 1"]);
    assert_eq!(exec(&mut client), list(["PONG"]));
    client.ask("WATCH k");
    other.ask("SWAPDB 0 1");
    assert_eq!(exec(&mut client), Value::Null);
    // Neither content has it.
    client.ask("WATCH absent");
    other.ask("SWAPDB 0 1");
    assert_eq!(exec(&mut client), list(["PONG"]));
    // Swapped forth and back.
    client.ask("WATCH k");
    other.ask_all(&["SWAPDB 0 1", "SWAPDB 1 0"]);
    assert_eq!(exec(&mut client), Value::Null);
}

#[test]
fn a_damaged_entry_of_the_slots_is_reported() {
    let storage = MemoryStorage::new();
    let db = open_db_on(&storage);
    db.keyspace("db").unwrap().put("slots", "nonsense").unwrap();
    let error = Server::start(db, options()).unwrap_err().to_string();
    assert!(error.contains("does not name each slot once"), "{error}");
}
