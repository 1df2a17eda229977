//! Compares the server's replies with those of memcached 1.6.45, byte for byte.
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
use std::path::Path;
use std::time::Duration;

use support::subjects::{Ours, Subject, Theirs, escape, unescape};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/memcached.golden");
const END: &[u8] = b"MN\r\n";

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
