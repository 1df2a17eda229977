//! `serve`: its addresses, its shutdown, and the data afterwards.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::run::{TestDirectory, run, tidekv};
use crate::serving::{Serving, ask};

/// Starts a server on the data directory of `place`.
fn serve(place: &TestDirectory, arguments: &[&str]) -> Serving {
    start(place, tidekv(), arguments)
}

fn start(place: &TestDirectory, mut command: Command, arguments: &[&str]) -> Serving {
    command.arg("serve").arg("--data").arg(place.data()).args(arguments);
    Serving::start(command)
}

#[test]
fn a_signal_shuts_it_down_cleanly_and_keeps_acknowledged_writes() {
    for signal in ["-TERM", "-INT"] {
        let place = TestDirectory::new();
        let serving = serve(&place, &["--listen", "127.0.0.1:0", "--memory", "64MiB"]);
        assert!(serving.line.contains("64 MiB"), "{}", serving.line);
        assert!(serving.line.contains("not a power cut"), "{}", serving.line);
        let mut stream = serving.connect();
        assert_eq!(ask(&mut stream, &["SET", "k", "v"]), "+OK");
        // While the server runs, other commands can read but not write.
        assert_eq!(place.run("get", &["k"]).ok(), b"v");
        place.run("put", &["k", "w"]).fails(1, &["data", "open in another process", "server"]);
        let target = place.file("checkpoint");
        let checkpoint = place.run("checkpoint", &[target.to_str().unwrap()]);
        checkpoint.fails(1, &["open in another process", "TIDE.CHECKPOINT", "--checkpoint-dir"]);
        place.run("compact", &[]).fails(1, &["open in another process", "TIDE.COMPACT"]);
        place.run("check", &[]).ok();
        serving.signal(signal);
        let done = serving.wait();
        assert_eq!((done.code, &*done.err), (0, ""));
        assert_eq!(place.run("get", &["k"]).ok(), b"v");
        let log = place.run("check", &["--json"]);
        assert!(log.text().contains("\"ending\":\"complete\""), "{log:?}");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = TestDirectory::new();
    let serving = serve(&place, &["--listen", "127.0.0.1:0"]);
    let mut stream = serving.connect();
    assert_eq!(ask(&mut stream, &["SET", "k", &"v".repeat(1000)]), "+OK");
    // A client that reads no replies delays the shutdown. It sends until
    // the server stops reading.
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    while stream.write_all(&b"GET k\r\n".repeat(1000)).is_ok() {}
    let started = Instant::now();
    serving.signal("-TERM");
    std::thread::sleep(Duration::from_secs(1));
    serving.signal("-TERM");
    let done = serving.wait();
    assert_eq!(done.code, 1, "{done:?}");
    assert!(started.elapsed().as_secs() < 8, "it took {:?}", started.elapsed());
    assert_eq!(place.run("get", &["k"]).ok().len(), 1000);
}

#[test]
fn a_killed_server_loses_no_acknowledged_write() {
    let place = TestDirectory::new();
    let mut serving = serve(&place, &["--listen", "127.0.0.1:0"]);
    let mut stream = serving.connect();
    for i in 0..100 {
        assert_eq!(ask(&mut stream, &["SET", &format!("k{i:03}"), "v"]), "+OK");
    }
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    assert_eq!(place.run("scan", &[]).text().lines().count(), 100);
    place.run("put", &["after", "v"]).ok();
    assert_eq!(place.run("scan", &["--keys-only"]).text().lines().count(), 101);
}

#[test]
fn it_listens_on_every_address_and_prints_it() {
    let place = TestDirectory::new();
    let socket = format!("unix:{}", place.file("socket").display());
    let arguments = ["--listen", "127.0.0.1:0", "--listen", &socket, "--durability", "sync"];
    let serving = serve(&place, &arguments);
    assert!(serving.line.contains(&socket), "{}", serving.line);
    assert!(serving.line.contains("survive a power cut"), "{}", serving.line);
    assert_eq!(ask(&mut serving.connect(), &["PING"]), "+PONG");
    let mut stream = UnixStream::connect(place.file("socket")).unwrap();
    assert_eq!(ask(&mut stream, &["PING"]), "+PONG");
}

#[test]
fn the_password_comes_from_flag_file_environment_or_config() {
    let place = TestDirectory::new();
    let file = place.write("password", "secret\n");
    let config =
        place.write("tidekv.toml", "[serve]\npassword = \"wrong\"\nlisten = [\"127.0.0.1:0\"]\n");
    let (file, config) = (file.to_str().unwrap(), config.to_str().unwrap());
    let mut environment = tidekv();
    environment.env("TIDEKV_PASSWORD", "secret");
    for (command, arguments) in [
        (tidekv(), &["--password", "secret"][..]),
        (tidekv(), &["--password-file", file]),
        (environment, &[]),
    ] {
        let arguments = [arguments, &["--config", config]].concat();
        let serving = start(&place, command, &arguments);
        let mut stream = serving.connect();
        assert!(ask(&mut stream, &["GET", "k"]).starts_with("-NOAUTH"));
        assert!(ask(&mut stream, &["AUTH", "wrong"]).starts_with("-WRONGPASS"));
        assert_eq!(ask(&mut stream, &["AUTH", "secret"]), "+OK");
    }
    let serving = serve(&place, &["--config", config]);
    assert_eq!(ask(&mut serving.connect(), &["AUTH", "wrong"]), "+OK");
}

/// The response of the status page to a path; empty if it closes the connection.
fn get(serving: &Serving, path: &str) -> String {
    let url = serving.line.split("page at http://").nth(1).unwrap();
    let mut stream = TcpStream::connect(url.split('/').next().unwrap()).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_page_is_at_the_printed_address_and_ends_with_the_server() {
    let place = TestDirectory::new();
    let config = place.write("tidekv.toml", "[serve]\nhttp = \"127.0.0.1:0\"\n");
    let config = config.to_str().unwrap();
    for arguments in [&["--http", "127.0.0.1:0"][..], &["--config", config]] {
        let arguments = [arguments, &["--listen", "127.0.0.1:0"]].concat();
        let serving = serve(&place, &arguments);
        assert_eq!(ask(&mut serving.connect(), &["SET", "k", "v"]), "+OK");
        assert!(get(&serving, "/").contains("<title>TideKV</title>"), "{}", serving.line);
        assert!(get(&serving, "/metrics").contains("tidekv_commands_total 1"));
        serving.signal("-TERM");
        let done = serving.wait();
        assert_eq!((done.code, &*done.err), (0, ""));
    }
    let serving = serve(&place, &["--listen", "127.0.0.1:0"]);
    assert!(!serving.line.contains("page at"), "{}", serving.line);
}

#[test]
fn invalid_options_are_rejected_with_their_name() {
    let place = TestDirectory::new();
    let public = ["--listen", "0.0.0.0:0"];
    place.run("serve", &public).fails(1, &["0.0.0.0", "password"]);
    place.run("serve", &["--password-file", "/no/such/file"]).fails(1, &["/no/such/file"]);
    let serving = serve(&place, &["--listen", "127.0.0.1:0"]);
    let taken = serving.address().to_owned();
    place.run("serve", &["--listen", "127.0.0.1:0"]).fails(1, &["data", "open in another process"]);
    let other = TestDirectory::new();
    other.run("serve", &["--listen", &taken]).fails(1, &[&taken]);
    let page = |address| other.run("serve", &["--listen", "127.0.0.1:0", "--http", address]);
    page("0.0.0.0:0").fails(1, &["0.0.0.0", "password"]);
    page(&taken).fails(1, &[&taken]);
    page("unix:/tmp/page").fails(1, &["HTTP", "host and a port"]);
    for arguments in [
        &["--listen", "localhost:port"][..],
        &["--durability", "maybe"],
        &["--tls-cert", "cert.pem"],
        &["--http", "localhost:page"],
        &["--idle-timeout", "soon"],
    ] {
        assert_eq!(run(&[&["serve"], arguments].concat()).code, 2, "{arguments:?}");
    }
}

/// The signal of the limit of file sizes ended the process.
#[test]
fn a_limit_of_file_sizes_is_an_error_of_the_write() {
    let place = TestDirectory::new();
    place.run("put", &["k", "v"]).ok();
    let mut command = Command::new("sh");
    command.arg("-c").arg("ulimit -f 4000; exec \"$0\" \"$@\"");
    command.arg(env!("CARGO_BIN_EXE_tidekv")).arg("serve").arg("--data").arg(place.data());
    command.args(["--listen", "127.0.0.1:0", "--memory", "64MiB"]);
    let serving = Serving::start(command);
    let mut stream = serving.connect();
    let value = "x".repeat(60_000);
    // Any log is longer than the limit, which is 2 or 4 MB.
    let replies: Vec<String> = (0..400)
        .map(|n| ask(&mut stream, &["SET", &format!("k{n}"), &format!("{value}{n}")]))
        .collect();
    let refused = replies.iter().find(|reply| *reply != "+OK").expect("24 MB fit in no file");
    assert!(refused.starts_with("-"), "{refused}");
    assert_eq!(ask(&mut stream, &["GET", "k"]), "$1");
    assert_eq!(ask(&mut serving.connect(), &["PING"]), "+PONG");
}
