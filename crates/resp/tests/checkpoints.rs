//! Checkpoints and compactions that clients ask for, on a real directory.
#![allow(clippy::disallowed_methods, reason = "checkpoints are directories of the machine")]

mod support;

use std::path::Path;

use support::wire::eventually;
use support::{Client, Value, list, options};
use tempfile::TempDir;
use tidekv::{Db, Options};
use tidekv_resp::{Server, ServerOptions};

/// A server of a store in `place`, with a directory of checkpoints unless that is off.
fn serve(place: &TempDir, has_checkpoints: bool) -> (Db, Server) {
    let db = Db::open(place.path().join("data"), small()).unwrap();
    let directory = has_checkpoints.then(|| place.path().join("checkpoints"));
    let options = ServerOptions { checkpoint_directory: directory, ..options() };
    (db.clone(), Server::start(db, options).unwrap())
}

fn small() -> Options {
    Options::new().memory_bytes(16 << 20)
}

/// The value of `key` in the checkpoint at `path`.
fn value_in(path: &Path, key: &str) -> Option<Vec<u8>> {
    let db = Db::open(path, small().read_only(true)).unwrap();
    db.keyspace("default").unwrap().get(key).unwrap().map(|value| value.to_vec())
}

#[test]
fn checkpoints_are_off_unless_configured() {
    let place = TempDir::new().unwrap();
    let (_db, server) = serve(&place, false);
    let mut client = Client::connect(&server);
    for command in ["TIDE.CHECKPOINT a", "SAVE", "BGSAVE", "BGSAVE SCHEDULE"] {
        assert!(client.ask(command).is_error("ERR checkpoints are off"), "{command}");
    }
    // A client that could set a directory could write anywhere.
    assert!(client.ask("CONFIG SET dir /tmp").is_error("ERR CONFIG SET failed"));
    let refusal = "ERR CONFIG SET failed (possibly related to argument 'checkpoint-dir') - can't \
                   set immutable config";
    assert_eq!(client.ask("CONFIG SET checkpoint-dir /tmp"), Value::Error(refusal.into()));
    assert_eq!(client.ask("CONFIG GET checkpoint-*"), list(["checkpoint-dir", ""]));
    assert!(client.ask("BGSAVE NOW").is_error("ERR syntax error"));
    assert_eq!(client.ask("TIDE.COMPACT"), "OK");
    assert_eq!(client.info("persistence", "rdb_saves"), 0);
}

#[test]
fn a_checkpoint_holds_the_state_of_its_moment_below_the_directory() {
    let place = TempDir::new().unwrap();
    let (_db, server) = serve(&place, true);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("SET k one"), "OK");
    assert_eq!(client.ask("TIDE.CHECKPOINT monday"), "OK");
    assert_eq!(client.ask("SET k two"), "OK");
    let directory = place.path().join("checkpoints").canonicalize().unwrap();
    let shown = ["checkpoint-dir", directory.to_str().unwrap()];
    assert_eq!(client.ask("CONFIG GET CHECKPOINT-DIR"), list(shown));
    assert_eq!(value_in(&directory.join("monday"), "k").as_deref(), Some(&b"one"[..]));
    assert!(client.ask("TIDE.CHECKPOINT monday").is_error("ERR"));
    std::os::unix::fs::symlink(place.path(), directory.join("out")).unwrap();
    for name in ["..", "../outside", "/tmp/outside", "a/../../outside", "out/outside", "no/parent"]
    {
        assert!(client.ask(&format!("TIDE.CHECKPOINT {name}")).is_error("ERR the name"), "{name}");
    }
    assert!(!place.path().join("outside").exists());
    assert_eq!(client.info("persistence", "rdb_saves"), 1);
    assert_eq!(client.ask("MULTI"), "OK");
    assert_eq!(client.ask("TIDE.CHECKPOINT tuesday"), "QUEUED");
    assert_eq!(client.ask("TIDE.COMPACT"), "QUEUED");
    let refused = "ERR Command not allowed inside a transaction";
    for reply in client.ask("EXEC").items() {
        assert!(reply.is_error(refused), "{reply:?}");
    }
}

#[test]
fn saves_replace_the_last_one_and_are_reported() {
    let place = TempDir::new().unwrap();
    let (_db, server) = serve(&place, true);
    let mut client = Client::connect(&server);
    let started = client.ask("LASTSAVE");
    let dump = place.path().join("checkpoints/dump");
    for (number, command) in ["SAVE", "BGSAVE", "BGSAVE SCHEDULE", "SAVE"].iter().enumerate() {
        assert_eq!(client.ask(&format!("SET k {number}")), "OK");
        let expected = if *command == "SAVE" { "OK" } else { "Background saving started" };
        assert_eq!(client.ask(command), expected);
        let saves = number as u64 + 1;
        eventually("it is saved", || client.info("persistence", "rdb_saves") == saves);
        eventually("it has ended", || client.info("persistence", "rdb_bgsave_in_progress") == 0);
        assert_eq!(value_in(&dump, "k"), Some(number.to_string().into_bytes()));
    }
    let names: Vec<_> = std::fs::read_dir(dump.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(format!("{:?}", client.ask("LASTSAVE")) >= format!("{started:?}"));
    assert_eq!(client.info("persistence", "rdb_last_save_time"), last_save(&mut client));
    // One that was interrupted between its renames is restored, not lost.
    std::fs::rename(&dump, dump.with_file_name("dump.previous")).unwrap();
    std::fs::create_dir(dump.with_file_name("dump.unfinished")).unwrap();
    assert_eq!(client.ask("SAVE"), "OK");
    assert_eq!(value_in(&dump, "k").as_deref(), Some(&b"3"[..]));
    let names: Vec<_> = std::fs::read_dir(dump.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

fn last_save(client: &mut Client) -> u64 {
    match client.ask("LASTSAVE") {
        support::Value::Integer(seconds) => seconds as u64,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_compaction_drops_what_was_overwritten() {
    let place = TempDir::new().unwrap();
    let (db, server) = serve(&place, false);
    let mut client = Client::connect(&server);
    for _ in 0..3 {
        for n in 0..20 {
            assert_eq!(client.ask(&format!("SET key{n:02} {}", "x".repeat(1000))), "OK");
        }
    }
    let strings = db.keyspace("default").unwrap();
    assert_eq!(client.ask("TIDE.COMPACT [key00 (key10"), "OK");
    assert_eq!(client.ask("TIDE.COMPACT - +"), "OK");
    assert_eq!(strings.versions(), 20);
    assert_eq!(client.ask("TIDE.COMPACT + -"), "OK");
    assert!(client.ask("TIDE.COMPACT a").is_error("ERR syntax error"));
    assert_eq!(client.ask("DEL key00"), 1);
    assert_eq!(client.ask("TIDE.COMPACT"), "OK");
    assert_eq!(strings.versions(), 19);
    assert_eq!(client.ask("GET key01"), &*"x".repeat(1000));
}

#[test]
fn a_directory_of_checkpoints_in_that_of_the_store_is_refused() {
    let place = TempDir::new().unwrap();
    let db = Db::open(place.path().join("data"), small()).unwrap();
    let directory = Some(place.path().join("data/checkpoints"));
    let refused = Server::start(db, ServerOptions { checkpoint_directory: directory, ..options() });
    assert!(refused.unwrap_err().to_string().contains("in the data directory"));
}
