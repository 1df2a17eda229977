//! Compares the server's replies with those of Redis 7.0, byte for byte.
//!
//! `testdata/replies.golden` holds commands (`>`, as one would type them), the reply of Redis
//! (`<`), and for an intended difference, the reply of this server (`!`) under a comment with the
//! reason. A line `---` starts a new connection and, like the file itself, an empty database, `---
//! 3` one with RESP3; `#` starts a comment.
//!
//! `TIDEKV_REDIS=host:port TIDEKV_BLESS=1` records the `<` lines again from a Redis, whose data it
//! removes.
#![expect(clippy::disallowed_methods, reason = "the recording lies in the repository")]

mod support;

use std::fmt::Write;

use support::Client;
use tidekv_resp::Server;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/replies.golden");

fn escape(bytes: &[u8]) -> String {
    let quotes = |byte: &u8| matches!(byte, b'"' | b'\'');
    let escape = |&byte: &u8| match byte {
        byte if quotes(&byte) => char::from(byte).to_string(),
        byte => byte.escape_ascii().to_string(),
    };
    bytes.iter().map(escape).collect()
}

fn ask(client: &mut Client, command: &str) -> String {
    client.send(format!("{command}\r\n").as_bytes());
    escape(&client.read_raw())
}

/// A connection for the section that `line` starts.
fn begin(line: &str, address: &str) -> Client {
    let mut client = Client::connect_tcp(address);
    ask(&mut client, "FLUSHALL");
    if line == "--- 3" {
        ask(&mut client, "HELLO 3");
    }
    client
}

#[test]
fn replies_are_those_of_redis() {
    let golden = std::fs::read_to_string(PATH).unwrap();
    // The clock is stopped, so that remaining times are reproducible.
    let (db, _clock) = support::open_db_at(1_700_000_000_000);
    let server = Server::start(db, support::options()).unwrap();
    let redis = std::env::var("TIDEKV_REDIS").ok();
    if let Some(redis) = redis.filter(|_| std::env::var_os("TIDEKV_BLESS").is_some()) {
        std::fs::write(PATH, record(&golden, &redis)).unwrap();
    }
    let golden = std::fs::read_to_string(PATH).unwrap();
    let mut client = Client::connect(&server);
    let mut wrong = String::new();
    let mut lines = golden.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        if line.starts_with("---") {
            client = begin(line, &support::tcp_address(&server));
        }
        let Some(command) = line.strip_prefix("> ") else { continue };
        let mut expected = lines.next().and_then(|(_, line)| line.strip_prefix("< "));
        if let Some((_, line)) = lines.peek()
            && let Some(ours) = line.strip_prefix("! ")
        {
            expected = Some(ours);
        }
        let got = ask(&mut client, command);
        if Some(&got[..]) != expected {
            let expected = expected.unwrap_or("nothing");
            let _ = writeln!(
                wrong,
                "{}: {command}\n  expected {expected}\n  but got  {got}",
                number + 1
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn record(golden: &str, redis: &str) -> String {
    let mut recorded = String::new();
    let mut client = begin("---", redis);
    for line in golden.lines().filter(|line| !line.starts_with("< ")) {
        let _ = writeln!(recorded, "{line}");
        if line.starts_with("---") {
            client = begin(line, redis);
        }
        if let Some(command) = line.strip_prefix("> ") {
            let _ = writeln!(recorded, "< {}", ask(&mut client, command));
        }
    }
    recorded
}
