//! `get`, `put`, `delete`, `scan`, and the common behaviour of all commands.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::run::{TestDirectory, run};

#[test]
fn get_returns_the_bytes_of_put() {
    let place = TestDirectory::new();
    assert_eq!(place.run("put", &["k", "v"]).ok(), b"");
    assert_eq!(place.run("get", &["k"]).ok(), b"v");
    let bytes: Vec<u8> = (0..=255).collect();
    place.run_with("put", &["bytes", "-"], &bytes).ok();
    assert_eq!(place.run("get", &["bytes"]).ok(), bytes);
    place.run("put", &["empty", ""]).ok();
    assert_eq!(place.run("get", &["empty"]).ok(), b"");
    place.run("delete", &["k"]).ok();
    place.run("get", &["k"]).fails(1, &["\"k\"", "default", "data"]);
    place.run("delete", &["k"]).ok();
}

#[test]
fn keys_may_be_any_bytes() {
    let place = TestDirectory::new();
    place.run("put", &["--key-base64", "AP8K", "v"]).ok();
    assert_eq!(place.run("get", &["--key-base64", "AP8K"]).ok(), b"v");
    let json = place.run("get", &["--json", "--key-base64", "AP8K"]);
    assert_eq!(json.text(), "{\"key_base64\":\"AP8K\",\"value\":\"v\"}\n");
    assert_eq!(place.run("scan", &["--keys-only"]).ok(), b"\x00\xff\\n\n");
    let data = place.data();
    let raw = [b"get".as_slice(), b"--data", data.as_os_str().as_bytes(), b"\xff\xfe"];
    let raw = raw.map(OsStr::from_bytes);
    run(&raw).fails(1, &["\\xff\\xfe"]);
    place.run("get", &["--key-base64", "%"]).fails(2, &["%", "base64"]);
}

#[test]
fn an_entry_expires_after_its_ttl() {
    let place = TestDirectory::new();
    place.run("put", &["--ttl", "1h", "kept", "v"]).ok();
    place.run("put", &["--ttl", "1ms", "gone", "v"]).ok();
    assert!(place.run("get", &["--json", "kept"]).text().contains("expires_at_ms"));
    place.run("get", &["gone"]).fails(1, &["gone"]);
}

#[test]
fn scans_are_bounded_on_all_sides() {
    let place = TestDirectory::new();
    for key in ["a", "b1", "b2", "b3", "c"] {
        place.run("put", &[key, &key.to_uppercase()]).ok();
    }
    for (arguments, keys) in [
        (&[][..], "a b1 b2 b3 c"),
        (&["--prefix", "b"], "b1 b2 b3"),
        (&["--start", "b2"], "b2 b3 c"),
        (&["--end", "b2"], "a b1"),
        (&["--prefix", "b", "--start", "b2", "--end", "z"], "b2 b3"),
        (&["--prefix", "b", "--reverse", "--limit", "2"], "b3 b2"),
        (&["--start", "c", "--end", "a"], ""),
        (&["--limit", "0"], ""),
    ] {
        let arguments = [arguments, &["--keys-only"]].concat();
        let scan = place.run("scan", &arguments);
        scan.ok();
        assert_eq!(scan.text().split_whitespace().collect::<Vec<_>>().join(" "), keys);
    }
    assert_eq!(place.run("scan", &["--prefix", "a"]).ok(), b"a\tA\n");
    let json = place.run("scan", &["--limit", "1", "--json"]);
    assert_eq!(json.ok(), b"{\"key\":\"a\",\"value\":\"A\"}\n");
    let keys = place.run("scan", &["--limit", "1", "--json", "--keys-only"]);
    assert_eq!(keys.ok(), b"{\"key\":\"a\"}\n");
}

#[test]
fn keyspaces_are_separate_and_a_missing_one_is_named() {
    let place = TestDirectory::new();
    place.run("put", &["--keyspace", "fruits", "apple", "red"]).ok();
    assert_eq!(place.run("get", &["--keyspace", "fruits", "apple"]).ok(), b"red");
    place.run("get", &["apple"]).fails(1, &["apple"]);
    assert_eq!(place.run("scan", &[]).ok(), b"");
    place.run("scan", &["--keyspace", "nuts"]).fails(1, &["nuts", "fruits"]);
    place.run("delete", &["--keyspace", "nuts", "x"]).fails(1, &["nuts", "fruits"]);
}

#[test]
fn a_directory_without_a_store_is_named_and_unchanged() {
    let place = TestDirectory::new();
    let commands: [(&str, &[&str]); 8] = [
        ("get", &["k"]),
        ("delete", &["k"]),
        ("scan", &[]),
        ("export", &[]),
        ("inspect", &[]),
        ("check", &[]),
        ("compact", &[]),
        ("stats", &[]),
    ];
    for (name, arguments) in commands {
        place.run(name, arguments).fails(1, &["there is no store in", "data"]);
        assert!(!place.data().exists(), "{name}");
    }
    std::fs::create_dir(place.data()).unwrap();
    for (name, arguments) in commands {
        place.run(name, arguments).fails(1, &["there is no store in", "data"]);
    }
}

#[test]
fn wrong_arguments_are_exit_code_2() {
    let place = TestDirectory::new();
    for (name, arguments) in [
        ("get", &[][..]),
        ("get", &["a", "b"]),
        ("put", &["a"]),
        ("scan", &["--limit", "x"]),
        ("import", &["--format", "xml", "-"]),
        ("import", &["--memory", "12XB", "-"]),
        ("inspect", &["--table", "1", "--log"]),
    ] {
        assert_eq!(place.run(name, arguments).code, 2, "{name} {arguments:?}");
    }
    assert_eq!(run(&["get", "k"]).code, 2, "--data is missing");
    assert_eq!(run(&["gets"]).code, 2);
    assert_eq!(run::<&str>(&[]).code, 2);
    let error = place.run("import", &["--memory", "12XB", "-"]).err;
    assert!(error.contains("12XB") && error.contains("512MiB"), "{error}");
    assert!(!place.data().exists());
}

#[test]
fn help_has_an_example() {
    let root = run(&["--help"]);
    assert!(root.text().contains("tidekv put --data"));
    for name in ["serve", "get", "put", "delete", "scan", "import", "export", "inspect", "check"] {
        let help = run(&[name, "--help"]);
        assert!(help.text().contains(&format!("  tidekv {name}")), "{name}");
        assert_eq!(help.code, 0);
    }
}

#[test]
fn maintenance_commands_preserve_the_data() {
    let place = TestDirectory::new();
    place.run("put", &["a", "1"]).ok();
    place.run("put", &["a", "2"]).ok();
    let target = place.file("copy");
    place.run("checkpoint", &[target.to_str().unwrap()]).ok();
    let said = place.run("compact", &[]);
    assert!(said.text().starts_with("compacted "), "{said:?}");
    assert_eq!(place.run("get", &["a"]).ok(), b"2");
    let copy = target.to_str().unwrap();
    run(&["check", "--data", copy]).ok();
    run(&["put", "--data", copy, "b", "3"]).ok();
    assert_eq!(run(&["scan", "--data", copy]).ok(), b"a\t2\nb\t3\n");
    run(&["check", "--data", copy]).ok();
    place.run("checkpoint", &[target.to_str().unwrap()]).fails(1, &["copy", "exists"]);
    assert!(place.run("stats", &[]).text().contains("keyspace \"default\": about 1 entry,"));
    let stats: serde_json::Value =
        serde_json::from_slice(place.run("stats", &["--json"]).ok()).unwrap();
    assert_eq!(stats["keyspaces"]["default"]["approximate_entries"], 1);
    assert_eq!(stats["counters"]["store.last_sequence"].as_u64(), Some(2));
}
