//! `check` and `inspect` on sound, damaged and foreign directories; the lock.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::run::{TestDirectory, tidekv};

/// A store with a table and a log that holds writes.
fn filled() -> TestDirectory {
    let place = TestDirectory::new();
    let lines: String = (0..3000).map(|i| format!("{i:08}\tvalue of {i}\n")).collect();
    place.run_with("import", &["-"], lines.as_bytes()).ok();
    place.run("put", &["k", "v"]).ok();
    place.run("compact", &[]).ok();
    place.run("put", &["k", "in the log"]).ok();
    place
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn name_of(files: &Value, role: &str) -> String {
    let files = files["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["role"] == role).unwrap();
    file["name"].as_str().unwrap().to_owned()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_store_passes_and_nothing_is_written() {
    let place = filled();
    place.write("data/notes.txt", "mine");
    let before = place.contents();
    let said = place.run("check", &[]);
    said.ok();
    assert!(said.text().contains("is sound: "), "{said:?}");
    assert!(said.text().contains("notes.txt: not a file of the store"));
    let report = json(place.run("check", &["--json"]).ok());
    assert_eq!(report["sound"], true);
    assert_eq!(report["entries"], 3001);
    for arguments in [&[][..], &["--log"], &["--manifest"], &["--json"], &["--log", "--json"]] {
        place.run("inspect", arguments).ok();
    }
    place.run("get", &["k"]).ok();
    place.run("scan", &[]).ok();
    assert_eq!(place.contents(), before);
}

#[test]
fn check_names_the_file_with_a_flipped_bit() {
    let place = filled();
    let files = json(place.run("inspect", &["--json"]).ok());
    for (role, at) in [("table", 100), ("log", 20), ("manifest", 20), ("current", 12)] {
        let name = name_of(&files, role);
        let path = place.data().join(&name);
        flip(&path, at);
        let done = place.run("check", &[]);
        assert_eq!(done.code, 1, "{role}: {done:?}");
        assert!(done.text().contains(&name), "{role}: {done:?}");
        assert!(done.err.contains("damaged") && done.err.contains("copy"), "{role}: {done:?}");
        let report = json(&place.run("check", &["--json"]).out);
        assert_eq!(report["sound"], false, "{role}");
        assert!(report["damage"][0]["file"].as_str().unwrap().ends_with(&name), "{role}");
        flip(&path, at);
    }
    assert_eq!(place.run("check", &[]).code, 0);
    // The report lists all damage, not only the first.
    flip(&place.data().join(name_of(&files, "table")), 100);
    flip(&place.data().join(name_of(&files, "current")), 12);
    let done = place.run("check", &[]);
    assert!(done.text().contains(".table is damaged"), "{done:?}");
    assert!(done.text().contains("CURRENT is damaged"), "{done:?}");
    done.fails(1, &["2 files"]);
}

#[test]
fn a_missing_table_is_named() {
    let place = filled();
    let files = json(place.run("inspect", &["--json"]).ok());
    let name = name_of(&files, "table");
    std::fs::remove_file(place.data().join(&name)).unwrap();
    place.run("check", &[]).fails(1, &[&name]);
    place.run("get", &["k"]).fails(1, &[&name, "missing"]);
}

#[test]
fn inspect_shows_every_part() {
    let place = filled();
    let store = json(place.run("inspect", &["--json"]).ok());
    assert_eq!(store["keyspaces"][0]["name"], "default");
    let levels = store["keyspaces"][0]["levels"].as_array().unwrap();
    let tables: Vec<&Value> = levels.iter().flat_map(|level| level.as_array().unwrap()).collect();
    assert_eq!(tables[0]["smallest"], "00000000");
    let entries: u64 = tables.iter().map(|table| table["entries"].as_u64().unwrap()).sum();
    assert_eq!(entries, 3001);
    let id = tables[0]["table"].to_string();
    let table = json(place.run("inspect", &["--table", &id, "--json"]).ok());
    assert_eq!(table["entries"], tables[0]["entries"]);
    assert!(table["blocks"].as_array().unwrap().iter().any(|block| block["kind"] == "index"));
    assert!(place.run("inspect", &["--table", &id]).text().contains("filter"));
    place.run("inspect", &["--table", "999"]).fails(1, &["000999.table"]);
    let log = place.run("inspect", &["--log", "--json"]);
    let record = json(log.text().lines().next().unwrap().as_bytes());
    assert_eq!(record["operations"][0]["key"], "k");
    assert_eq!(record["operations"][0]["value_bytes"], 10);
    assert!(place.run("inspect", &["--log"]).text().contains("put \"k\" 10 bytes"));
    assert!(place.run("inspect", &["--manifest"]).text().contains("add-table"));
    assert!(place.run("inspect", &[]).text().contains("level 6: "));
}

#[test]
fn a_newer_store_is_rejected_and_unchanged() {
    let place = filled();
    place.write("data/CURRENT", "tidekv 2 MANIFEST-000042 and something new\n");
    let before = place.contents();
    let commands: [(&str, &[&str]); 8] = [
        ("get", &["k"]),
        ("put", &["k", "v"]),
        ("delete", &["k"]),
        ("scan", &[]),
        ("import", &["-"]),
        ("compact", &[]),
        ("inspect", &[]),
        ("check", &[]),
    ];
    for (name, arguments) in commands {
        place.run(name, arguments).fails(1, &["CURRENT", "newer version"]);
        assert_eq!(place.contents(), before, "{name}");
    }
}

/// A command that keeps the directory open until dropped: an import
/// that waits for its input.
struct Holder(Child);

impl Holder {
    fn new(place: &TestDirectory) -> Self {
        loop {
            let mut command = tidekv();
            command.arg("import").arg("--data").arg(place.data()).arg("-");
            let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let mut holder = Self(child);
            // Either the import has the lock and the put fails, or an earlier
            // put had the lock and the import failed: then retry.
            while holder.0.try_wait().unwrap().is_none() {
                std::thread::sleep(std::time::Duration::from_millis(50));
                if place.run("put", &["k", "v"]).code != 0 {
                    return holder;
                }
            }
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_second_writer_is_rejected_and_readers_are_not() {
    let place = filled();
    let holder = Holder::new(&place);
    let data = place.data();
    let data = data.to_str().unwrap();
    place.run("put", &["k", "v2"]).fails(1, &[data, "open in another process"]);
    place.run("import", &["-"]).fails(1, &[data, "open in another process"]);
    assert_eq!(place.run("get", &["00000007"]).ok(), b"value of 7");
    assert_eq!(place.run("check", &[]).code, 0);
    place.run("inspect", &[]).ok();
    drop(holder);
    place.run("put", &["k", "v3"]).ok();
    assert_eq!(place.run("get", &["k"]).ok(), b"v3");
}
