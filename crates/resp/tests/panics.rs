//! A server whose store panics in the background, which would be a bug: clients that write get
//! errors and do not wait, those that read are served, and the server ends when it is told to.

mod support;

use support::{Client, PATIENCE, Value, open_db_on, options};
use tidekv_io::{Clock, MemoryStorage, Operation, SystemClock};
use tidekv_resp::Server;

#[test]
fn clients_do_not_wait_for_background_work_that_has_panicked() {
    for (operation, where_) in [(Operation::Create, "a flush"), (Operation::Remove, "after it")] {
        let disk = MemoryStorage::new();
        let server = Server::start(open_db_on(&disk), options()).unwrap();
        let mut client = Client::connect(&server);
        assert_eq!(client.ask("SET first 1"), "OK");
        disk.on_operation(move |record| {
            let is_table = record.path.extension().is_some_and(|found| found == "table");
            let is_one = is_table && record.operation == operation;
            assert!(!is_one, "the storage panics, as the test wants it");
        });
        let (clock, value) = (SystemClock::new(), "v".repeat(100_000));
        let mut i = 0_u32;
        let error = loop {
            assert!(clock.monotonic_ns() < PATIENCE.as_nanos() as u64, "{where_}: no error");
            i = i.wrapping_add(0x9e37_79b1);
            match client.ask(&format!("SET key-{i} {i}{value}")) {
                Value::Error(error) => break error,
                reply => assert_eq!(reply, "OK"),
            }
        };
        assert!(error.contains("panicked"), "{where_}: {error}");
        assert_eq!(client.ask("GET first"), "1", "{where_}");
        let mut other = Client::connect(&server);
        assert_eq!(other.ask("PING"), "PONG");
        assert_eq!(other.ask("GET first"), "1", "{where_}");
        disk.clear_on_operation();
        assert!(server.shutdown(PATIENCE), "{where_}: it does not end");
    }
}
