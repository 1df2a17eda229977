//! Keys and values on a terminal, and in a pipe.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::run::{TestDirectory, tidekv};

/// What the command prints on a terminal.
fn on_terminal(place: &TestDirectory, name: &str, arguments: &[&str]) -> Vec<u8> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let open = || OpenOptions::new().read(true).write(true).open(&slave).unwrap();
    let mut command = tidekv();
    command.arg(name).arg("--data").arg(place.data()).args(arguments);
    let mut child = command.stdout(open()).stderr(open()).stdin(Stdio::null()).spawn().unwrap();
    drop(command);
    // The end of a terminal is an error.
    let mut shown = Vec::new();
    let _ = File::from(master).read_to_end(&mut shown);
    child.wait().unwrap();
    shown
}

#[test]
fn keys_and_values_are_escaped_on_a_terminal_and_raw_in_a_pipe() {
    let place = TestDirectory::new();
    let (key, value) = ("k\x1b[2J", "v\x1b]0;owned\x07\u{9b}31m");
    place.run("put", &[key, value]).ok();
    for (name, arguments, raw, shown) in [
        ("get", &[key][..], value.to_owned(), "v\\x1b]0;owned\\x07\\u{9b}31m\r\n"),
        ("scan", &[], format!("{key}\t{value}\n"), "k\\x1b[2J\tv\\x1b]0;owned\\x07\\u{9b}31m\r\n"),
        ("scan", &["--keys-only"], format!("{key}\n"), "k\\x1b[2J\r\n"),
        (
            "export",
            &[],
            format!("{key}\t{value}\n"),
            "k\\x1b[2J\tv\\x1b]0;owned\\x07\\u{9b}31m\r\n",
        ),
    ] {
        assert_eq!(place.run(name, arguments).ok(), raw.as_bytes(), "{name} {arguments:?}");
        let on_terminal = on_terminal(&place, name, arguments);
        assert_eq!(String::from_utf8_lossy(&on_terminal), shown, "{name} {arguments:?}");
    }
    for (name, arguments) in [
        ("get", &[key, "--json"][..]),
        ("get", &["missing\x1b[2J"]),
        ("scan", &["--json"]),
        ("scan", &["--json", "--keys-only"]),
        ("export", &["--format", "jsonl"]),
        ("export", &["--format", "binary"]),
        ("inspect", &[]),
        ("inspect", &["--log"]),
        ("inspect", &["--log", "--json"]),
        ("inspect", &["--manifest"]),
        ("stats", &[]),
        ("check", &[]),
    ] {
        let shown = on_terminal(&place, name, arguments);
        assert!(!shown.contains(&0x1b), "{name} {arguments:?}: {}", shown.escape_ascii());
        assert!(!shown.windows(2).any(|pair| pair == [0xc2, 0x9b]), "{name} {arguments:?}");
    }
}
