//! Compares the server's replies with those of memcached 1.6.18, byte for byte.
//!
//! `testdata/memcached.golden` holds requests (`>`, with `\r`, `\n` and bytes as in Rust, and a
//! line end behind each), the reply of memcached (`<`), and for an intended difference, the reply
//! of this server (`!`) under a comment with the reason. A line `---` starts with an empty cache
//! that has assigned no version yet; `@ 3` advances the clock by three seconds; `#` starts a
//! comment. After each request an `mn` is sent, whose reply ends the comparison: `<EOF>` means that
//! the connection was closed before, after which a new one is opened.
//!
//! `TIDEKV_MEMCACHED=memcached TIDEKV_BLESS=1` starts that program for each part and records the
//! `<` lines again.
#![expect(clippy::disallowed_methods, reason = "the recording lies in the repository")]

mod support;

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidekv_io::{Clock, ManualClock, SystemClock};
use tidekv_memcached::{Address, CacheServer, CacheServerOptions, OffsetClock};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/memcached.golden");
const END: &[u8] = b"MN\r\n";

/// A server under test.
trait Subject {
    fn socket(&self) -> &Path;
    fn let_pass(&self, time: Duration);
}

/// This server, with a stopped clock.
struct Ours {
    _server: CacheServer,
    clock: Arc<ManualClock>,
    socket: PathBuf,
}

impl Ours {
    fn start(directory: &Path, number: usize) -> Self {
        // The previous server may still hold its file.
        let socket = directory.join(format!("ours{number}"));
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let moved = Arc::new(OffsetClock::new(clock.clone()));
        let options = CacheServerOptions {
            listen: vec![Address::Unix(socket.clone())],
            ..CacheServerOptions::default()
        };
        let server = CacheServer::start(
            support::open_with(&tidekv_tiered::Options::default(), moved),
            options,
        )
        .unwrap();
        Self { _server: server, clock, socket }
    }
}

impl Subject for Ours {
    fn socket(&self) -> &Path {
        &self.socket
    }

    fn let_pass(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

/// A memcached.
struct Theirs {
    process: Child,
    socket: PathBuf,
}

impl Theirs {
    fn start(program: &str, directory: &Path) -> Self {
        let socket = directory.join("theirs");
        let process = Command::new(program)
            .args(["-u", "root", "-s"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let clock = SystemClock::new();
        while UnixStream::connect(&socket).is_err() {
            clock.sleep(Duration::from_millis(10));
        }
        // Its seconds tick independently: start just after a tick.
        clock.sleep(Duration::from_millis(1100));
        Self { process, socket }
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Subject for Theirs {
    fn socket(&self) -> &Path {
        &self.socket
    }

    fn let_pass(&self, time: Duration) {
        SystemClock::new().sleep(time);
    }
}

/// A connection to a subject.
struct Asker {
    subject: Box<dyn Subject>,
    stream: UnixStream,
}

impl Asker {
    fn new(subject: Box<dyn Subject>) -> Self {
        let stream = Self::connect(&*subject);
        Self { subject, stream }
    }

    fn connect(subject: &dyn Subject) -> UnixStream {
        let stream = UnixStream::connect(subject.socket()).unwrap();
        stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
        stream
    }

    /// The reply to a request, in the format of the recording.
    fn ask(&mut self, request: &str) -> String {
        let mut bytes = unescape(request);
        bytes.extend_from_slice(b"\r\nmn\r\n");
        let mut answer = Vec::new();
        // The server may close while the client is sending.
        let _ = self.stream.write_all(&bytes);
        while !answer.ends_with(END) {
            let mut part = [0; 4096];
            match self.stream.read(&mut part) {
                Ok(0) => return self.begin_again(&answer),
                Ok(count) => answer.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return self.begin_again(&answer);
                }
                Err(error) => panic!("{request}: {error}, after {}", escape(&answer)),
            }
        }
        answer.truncate(answer.len() - END.len());
        escape(&answer)
    }

    fn begin_again(&mut self, answer: &[u8]) -> String {
        self.stream = Self::connect(&*self.subject);
        format!("{}<EOF>", escape(answer))
    }
}

fn escape(bytes: &[u8]) -> String {
    let quotes = |byte: &u8| matches!(byte, b'"' | b'\'');
    let escape = |&byte: &u8| match byte {
        byte if quotes(&byte) => char::from(byte).to_string(),
        byte => byte.escape_ascii().to_string(),
    };
    bytes.iter().map(escape).collect()
}

/// Reads `\r`, `\n`, `\\`, `\x00` and, to keep lines short, `{x*300}`.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        rest = &rest[next.len_utf8()..];
        match next {
            '\\' => {
                let (byte, len) = match &rest[..1] {
                    "r" => (b'\r', 1),
                    "n" => (b'\n', 1),
                    "x" => (u8::from_str_radix(&rest[1..3], 16).unwrap(), 3),
                    _ => (b'\\', 1),
                };
                bytes.push(byte);
                rest = &rest[len..];
            }
            '{' => {
                let (inner, behind) = rest.split_once('}').unwrap();
                let (what, count) = inner.rsplit_once('*').unwrap();
                bytes.extend(what.repeat(count.parse().unwrap()).bytes());
                rest = behind;
            }
            next => bytes.extend_from_slice(next.to_string().as_bytes()),
        }
    }
    bytes
}

fn pass(line: &str) -> Option<Duration> {
    Some(Duration::from_secs(line.strip_prefix("@ ")?.parse().unwrap()))
}

#[test]
fn replies_are_those_of_memcached() {
    let golden = std::fs::read_to_string(PATH).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let program = std::env::var("TIDEKV_MEMCACHED").ok();
    if let Some(program) = program.filter(|_| std::env::var_os("TIDEKV_BLESS").is_some()) {
        std::fs::write(PATH, record(&golden, &program, directory.path())).unwrap();
    }
    let golden = std::fs::read_to_string(PATH).unwrap();
    let mut asker = Asker::new(Box::new(Ours::start(directory.path(), 0)));
    let (mut wrong, mut compared) = (String::new(), 0);
    let mut lines = golden.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        if line == "---" {
            asker = Asker::new(Box::new(Ours::start(directory.path(), number)));
        }
        if let Some(time) = pass(line) {
            asker.subject.let_pass(time);
        }
        let Some(request) = line.strip_prefix("> ") else { continue };
        let mut expected = lines.next().and_then(|(_, line)| line.strip_prefix("< "));
        if let Some((_, line)) = lines.peek()
            && let Some(ours) = line.strip_prefix("! ")
        {
            assert_ne!(expected, Some(ours), "line {}: they do not differ", number + 1);
            expected = Some(ours);
        }
        let got = asker.ask(request);
        compared += 1;
        if Some(&got[..]) != expected {
            let expected = expected.unwrap_or("nothing");
            let number = number + 1;
            let _ = writeln!(wrong, "{number}: {request}\n  expected {expected}\n  but got  {got}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(compared > 200, "only {compared} requests are compared");
}

fn record(golden: &str, program: &str, directory: &Path) -> String {
    let mut recorded = String::new();
    let mut asker = Asker::new(Box::new(Theirs::start(program, directory)));
    for line in golden.lines().filter(|line| !line.starts_with("< ")) {
        let _ = writeln!(recorded, "{line}");
        if line == "---" {
            drop(asker);
            asker = Asker::new(Box::new(Theirs::start(program, directory)));
        }
        if let Some(time) = pass(line) {
            asker.subject.let_pass(time);
        }
        if let Some(request) = line.strip_prefix("> ") {
            let _ = writeln!(recorded, "< {}", asker.ask(request));
        }
    }
    recorded
}
