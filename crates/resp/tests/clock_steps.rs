//! The machine's clock is set while the server runs: what has expired does not come back, times to
//! live last as long as they say, and a time of day is the machine's.

mod support;

use std::time::Duration;

use support::{Client, Value, open_db_at, options};
use tidekv_io::Clock;
use tidekv_resp::Server;

const START_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;

#[test]
fn expired_keys_do_not_come_back_and_times_to_live_go_on() {
    let (db, clock) = open_db_at(START_MS);
    let server = Server::start(db, options()).unwrap();
    let mut client = Client::connect(&server);
    client.ask("SET gone 1 PX 700");
    client.ask("HSET hash f v");
    client.ask("PEXPIRE hash 700");
    client.ask("SET stays 1 PX 10000");
    clock.advance(Duration::from_millis(700));
    assert_eq!(client.ask("GET gone"), Value::Null);
    assert_eq!(client.ask("EXISTS hash"), 0);
    clock.set_back(HOUR_MS);
    assert_eq!(client.ask("GET gone"), Value::Null);
    assert_eq!(client.ask("TTL gone"), -2);
    assert_eq!(client.ask("HGET hash f"), Value::Null);
    assert_eq!(client.ask("PTTL stays"), 9300);
    clock.set_forward(25 * HOUR_MS);
    assert_eq!(client.ask("PTTL stays"), 9300);
    clock.advance(Duration::from_millis(9300));
    assert_eq!(client.ask("GET stays"), Value::Null);
}

#[test]
fn a_time_of_day_is_that_of_the_machine() {
    let (db, clock) = open_db_at(START_MS);
    let server = Server::start(db, options()).unwrap();
    let mut client = Client::connect(&server);
    for step in ["back", "forward"] {
        match step {
            "back" => clock.set_back(HOUR_MS),
            _ => clock.set_forward(3 * HOUR_MS),
        }
        let now_ms = clock.unix_ms();
        client.ask(&format!("SET a 1 PXAT {}", now_ms + 5000));
        client.ask("SET b 1");
        assert_eq!(client.ask(&format!("PEXPIREAT b {}", now_ms + 5000)), 1);
        client.ask("SET c 1 PX 5000");
        for key in ["a", "b", "c"] {
            assert_eq!(client.ask(&format!("PTTL {key}")), 5000, "{step} {key}");
            let deadline = i64::try_from(now_ms + 5000).unwrap();
            assert_eq!(client.ask(&format!("PEXPIRETIME {key}")), deadline, "{step} {key}");
            assert_eq!(client.ask(&format!("EXPIRETIME {key}")), deadline / 1000, "{step} {key}");
        }
        client.ask("SET d 1");
        assert_eq!(client.ask(&format!("PEXPIREAT d {}", now_ms - 1)), 1);
        assert_eq!(client.ask("EXISTS d"), 0, "{step}");
        client.ask("SET e 1 PXAT 1");
        assert_eq!(client.ask("EXISTS e"), 0, "{step}");
        clock.advance(Duration::from_millis(5000));
        assert_eq!(client.ask("EXISTS a b c"), 0, "{step}");
    }
}
