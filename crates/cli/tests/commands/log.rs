//! The log of a server on standard error: no thread depends on it, and it does not repeat itself.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::{TestDirectory, tidekv};
use crate::serving::ask;

/// The timeout of any step.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server whose standard error is `stderr`, and its address.
fn start(mut command: Command, stderr: Stdio) -> (Running, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line["listening on ".len()..].split([';', ',']).next().unwrap().to_owned();
    (Running(child), address)
}

/// Killed on drop.
struct Running(Child);

impl Running {
    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }

    /// The exit code after SIGTERM.
    fn end(mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("SIGTERM does not end it");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Without a handler the signal ends a process.
#[test]
fn sighup_makes_a_server_read_its_certificate_again() {
    for (command, flag) in [("serve", "--data"), ("cache", "--state")] {
        let place = TestDirectory::new();
        let (log, pem) = (place.file("log"), place.file("pem"));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&pem, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
        let mut server = tidekv();
        server.arg(command).arg(flag).arg(place.data()).args(["--listen", "127.0.0.1:0"]);
        server.arg("--tls-cert").arg(&pem).arg("--tls-key").arg(&pem).env("TIDEKV_LOG", "info");
        let (server, _) = start(server, File::create(&log).unwrap().into());
        let wait_for = |text: &str| {
            let began = Instant::now();
            while !std::fs::read_to_string(&log).unwrap().contains(text) {
                assert!(began.elapsed() < PATIENCE, "{command}: no {text:?}");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        server.signal(rustix::process::Signal::HUP);
        wait_for("read the certificates again");
        std::fs::write(&pem, "damaged").unwrap();
        server.signal(rustix::process::Signal::HUP);
        wait_for("the old certificates stay");
        assert_eq!(server.end(), Some(0), "{command}");
    }
}

/// Writes until `count` writes are refused, and returns the first refusal.
fn write_until_refused(address: &str, count: usize) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let value = "x".repeat(50_000);
    let mut refused = Vec::new();
    for n in 0..2_000 {
        let reply = ask(&mut stream, &["SET", &format!("key{n}"), &value]);
        if reply != "+OK" {
            refused.push(reply);
        }
        if refused.len() == count {
            return refused.swap_remove(0);
        }
    }
    panic!("{} writes were refused", refused.len());
}

/// A standard error of each kind that a line may meet.
fn stderr_of(kind: &str, place: &TestDirectory) -> Stdio {
    match kind {
        "a file" => Stdio::from(File::create(place.file("log")).unwrap()),
        "a full disk" => OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
        // The reader is dropped.
        _ => std::io::pipe().unwrap().1.into(),
    }
}

/// The line "a flush failed" panicked in the thread of the flush, which cannot end then: all writers
/// waited for ever, and so did the shutdown.
#[test]
fn a_failing_flush_refuses_writes_also_if_it_cannot_be_logged() {
    for kind in ["a file", "a full disk", "a pipe without a reader"] {
        let place = TestDirectory::new();
        let mut command = tidekv();
        command.arg("serve").arg("--data").arg(place.data());
        command.args(["--memory", "16MiB", "--listen", "127.0.0.1:0"]);
        let (server, address) = start(command, stderr_of(kind, &place));
        std::fs::rename(place.data(), place.file("moved")).unwrap();
        let refusal = write_until_refused(&address, 200);
        assert!(refusal.starts_with('-'), "{kind}: {refusal}");
        // It says that it could not close the store cleanly.
        assert!(server.end().is_some(), "{kind}");
        if kind == "a file" {
            let log = std::fs::read_to_string(place.file("log")).unwrap();
            let lines = log.lines().filter(|line| line.contains("a flush failed")).count();
            assert!((1..30).contains(&lines), "{log}");
        }
    }
}

/// The lines "a flash device cannot be used" and "there are file handles for … connections", at the
/// start, ended a cache.
#[test]
fn a_cache_without_flash_and_with_few_handles_starts_also_if_it_cannot_be_logged() {
    for kind in ["a file", "a full disk", "a pipe without a reader"] {
        let place = TestDirectory::new();
        let mut command = Command::new("sh");
        command.arg("-c").arg("ulimit -n 1024; exec \"$0\" \"$@\"");
        command.arg(env!("CARGO_BIN_EXE_tidekv")).args(["cache", "--dram", "16MiB"]);
        command.arg("--flash").arg(format!("{}:64MiB", place.file("absent/flash").display()));
        command.arg("--state").arg(place.file("state")).args(["--listen", "127.0.0.1:0"]);
        let (server, address) = start(command, stderr_of(kind, &place));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(ask(&mut stream, &["set", "k", "0", "0", "1\r\nv"]), "STORED", "{kind}");
        assert_eq!(server.end(), Some(0), "{kind}");
        if kind == "a file" {
            let log = std::fs::read_to_string(place.file("log")).unwrap();
            for says in ["a flash device cannot be used", "file handles for"] {
                assert!(log.contains(says), "{log}");
            }
        }
    }
}
