//! Compares the server's replies in the binary protocol with those of memcached 1.6.45, byte for
//! byte.
//!
//! `testdata/binary.golden` holds frames of requests (`>`) and of the replies of memcached (`<`),
//! each with its opcode or status in hexadecimal and the fields that are not empty: `extras` in
//! hexadecimal, `key`, `value`, `cas`. A request may state a wrong `body` length. A line `---`
//! starts with an empty cache, `@ 3` advances the clock by three seconds, `#` starts a comment, and
//! `! ` is the reply of this server where it differs on purpose. `<EOF>` means that the connection
//! was closed.
//!
//! `TIDEKV_MEMCACHED=memcached TIDEKV_BLESS=1` starts that program for each part and records the
//! `<` lines again.
#![expect(clippy::disallowed_methods, reason = "the recording lies in the repository")]

mod support;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use support::subjects::{Ours, Subject, Theirs, escape, unescape};
use support::{CacheClient, options, set, socket, start, start_with};
use tidekv_memcached::{CacheServerOptions, Users};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/binary.golden");
const HEADER_BYTES: usize = 24;
const NOOP: u8 = 0x0a;
/// The opaque number of requests, and of the one whose reply ends the comparison.
const OPAQUE: [u8; 4] = [1, 2, 3, 4];
const LAST_OPAQUE: [u8; 4] = [0xff; 4];

/// A frame, of a request or a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Frame {
    opcode: u8,
    status: u16,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    cas: u64,
    opaque: [u8; 4],
    /// The stated length of the body, if it is wrong.
    body_len: Option<u32>,
}

impl Frame {
    /// A request from its notation.
    fn parse(text: &str) -> Self {
        let (opcode, fields) = text.split_once(' ').unwrap_or((text, ""));
        let opcode = u8::from_str_radix(opcode, 16).unwrap();
        let mut frame = Self { opcode, opaque: OPAQUE, ..Self::default() };
        for field in fields.split(' ').filter(|field| !field.is_empty()) {
            let (name, content) = field.split_once('=').unwrap();
            match name {
                "extras" => frame.extras = hex(content),
                "key" => frame.key = unescape(content),
                "value" => frame.value = unescape(content),
                "cas" => frame.cas = content.parse().unwrap(),
                "body" => frame.body_len = Some(content.parse().unwrap()),
                other => panic!("unknown field {other}"),
            }
        }
        frame
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend_from_slice(&(self.key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[self.extras.len() as u8, 0, 0, 0]);
        let len = (self.extras.len() + self.key.len() + self.value.len()) as u32;
        bytes.extend_from_slice(&self.body_len.unwrap_or(len).to_be_bytes());
        bytes.extend_from_slice(&self.opaque);
        bytes.extend_from_slice(&self.cas.to_be_bytes());
        [&bytes[..], &self.extras, &self.key, &self.value].concat()
    }

    /// The next reply; `None` at the end of the connection.
    fn receive(stream: &mut impl Read) -> Option<Self> {
        let mut header = [0; HEADER_BYTES];
        stream.read_exact(&mut header).ok()?;
        assert_eq!(header[0], 0x81, "the magic of a reply: {header:?}");
        let number = |range: std::ops::Range<usize>| {
            header[range].iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
        };
        let mut body = vec![0; number(8..12) as usize];
        stream.read_exact(&mut body).unwrap();
        let value = body.split_off(usize::from(header[4]) + number(2..4) as usize);
        let key = body.split_off(usize::from(header[4]));
        Some(Self {
            opcode: header[1],
            status: number(6..8) as u16,
            extras: body,
            key,
            value,
            cas: number(16..24),
            opaque: header[12..16].try_into().unwrap(),
            body_len: None,
        })
    }

    /// The notation of a reply to `request`.
    fn shown(&self, request: &Self) -> String {
        assert_eq!((self.opcode, self.opaque), (request.opcode, request.opaque), "{self:?}");
        let mut text = format!("{:02x}", self.status);
        if !self.extras.is_empty() {
            let _ = write!(text, " extras={}", hex_of(&self.extras));
        }
        for (name, bytes) in [("key", &self.key), ("value", &self.value)] {
            if !bytes.is_empty() {
                let _ = write!(text, " {name}={}", escape(bytes).replace(' ', "\\x20"));
            }
        }
        if self.cas != 0 {
            let _ = write!(text, " cas={}", self.cas);
        }
        text
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits = (0..text.len() / 2).map(|i| &text[2 * i..2 * i + 2]);
    digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A connection to a subject.
struct Asker {
    subject: Box<dyn Subject>,
    stream: UnixStream,
}

impl Asker {
    fn new(subject: Box<dyn Subject>) -> Self {
        let stream = UnixStream::connect(subject.socket()).unwrap();
        stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
        Self { subject, stream }
    }

    /// The replies to a request.
    fn ask(&mut self, request: &Frame) -> String {
        let noop = Frame { opcode: NOOP, opaque: LAST_OPAQUE, ..Frame::default() };
        // The server may close while the client is sending.
        let _ = self.stream.write_all(&[request.bytes(), noop.bytes()].concat());
        let mut shown = Vec::new();
        loop {
            match Frame::receive(&mut self.stream) {
                Some(reply) if reply.opaque == LAST_OPAQUE => break,
                Some(reply) => shown.push(reply.shown(request)),
                None => {
                    self.stream = UnixStream::connect(self.subject.socket()).unwrap();
                    shown.push("<EOF>".into());
                    break;
                }
            }
        }
        shown.join(" | ")
    }
}

/// The replies of a subject, in the format of the recording.
fn replies(golden: &str, start: impl Fn(usize) -> Box<dyn Subject>) -> String {
    let mut asker = None;
    let mut told = String::new();
    for (number, line) in golden.lines().enumerate() {
        if line.starts_with('<') || line.starts_with('!') {
            continue;
        }
        let _ = writeln!(told, "{line}");
        if line == "---" {
            // Only one of them runs at a time.
            drop(asker.take());
        }
        let asker = asker.get_or_insert_with(|| Asker::new(start(number)));
        if let Some(seconds) = line.strip_prefix("@ ") {
            asker.subject.let_pass(Duration::from_secs(seconds.parse().unwrap()));
        }
        if let Some(request) = line.strip_prefix("> ") {
            let _ = writeln!(told, "< {}", asker.ask(&Frame::parse(request)));
        }
    }
    told
}

/// Replaces the replies of memcached by those that differ on purpose.
fn expected(golden: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in golden.lines() {
        match line.strip_prefix("! ") {
            Some(ours) => *lines.last_mut().unwrap() = format!("< {ours}"),
            None => lines.push(line.into()),
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn replies_are_those_of_memcached() {
    let mut golden = std::fs::read_to_string(PATH).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let program = std::env::var("TIDEKV_MEMCACHED").ok();
    if let Some(program) = program.filter(|_| std::env::var_os("TIDEKV_BLESS").is_some()) {
        golden = recorded(&golden, &program, path);
        std::fs::write(PATH, &golden).unwrap();
    }
    assert!(golden.matches("\n> ").count() > 80, "only few requests are compared");
    let ours = replies(&golden, |number| Box::new(Ours::start(path, number)));
    let expected = expected(&golden);
    for (number, (ours, expected)) in ours.lines().zip(expected.lines()).enumerate() {
        assert_eq!(ours, expected, "line {} without the lines of differences", number + 1);
    }
    assert_eq!(ours.lines().count(), expected.lines().count());
}

/// The recording with new replies of memcached; intended differences stay.
fn recorded(golden: &str, program: &str, directory: &Path) -> String {
    let told = replies(golden, |_| Box::new(Theirs::start(program, directory)));
    let differences = golden.lines().scan(0, |requests, line| {
        *requests += usize::from(line.starts_with("> "));
        Some((*requests, line))
    });
    let differences: Vec<_> = differences.filter(|(_, line)| line.starts_with('!')).collect();
    let (mut text, mut requests) = (String::new(), 0);
    for line in told.lines() {
        let _ = writeln!(text, "{line}");
        requests += usize::from(line.starts_with("> "));
        if line.starts_with('<') {
            for (_, difference) in differences.iter().filter(|(number, _)| *number == requests) {
                let _ = writeln!(text, "{difference}");
            }
        }
    }
    text
}

fn say(stream: &mut (impl Read + Write), request: &str) -> Option<Frame> {
    stream.write_all(&Frame::parse(request).bytes()).unwrap();
    Frame::receive(stream)
}

#[test]
fn clients_authenticate_with_sasl() {
    let users = Some(Users::parse("user:password\nother:secret").unwrap());
    let server = start_with(CacheServerOptions { users, ..options() });
    let mut stream = socket(&server);
    let list = say(&mut stream, "20").unwrap();
    assert_eq!((list.status, &list.value[..]), (0, &b"PLAIN"[..]));
    assert_eq!(say(&mut stream, "0b").unwrap().status, 0);
    for wrong in [
        "21 key=PLAIN value=\\x00user\\x00secret",
        "21 key=PLAIN value=user",
        "21 key=PLAIN",
        "21 key=CRAM-MD5 value=x",
        "22 key=PLAIN value=\\x00user\\x00password",
    ] {
        let reply = say(&mut stream, wrong).unwrap();
        assert_eq!((reply.status, &reply.value[..]), (0x20, &b"Auth failure."[..]), "{wrong}");
    }
    let welcome = say(&mut stream, "21 key=PLAIN value=any\\x00user\\x00password").unwrap();
    assert_eq!((welcome.status, &welcome.value[..]), (0, &b"Authenticated"[..]));
    let stored = "01 extras=0000000000000000 key=a value=1";
    assert_eq!(say(&mut stream, stored).unwrap().status, 0);
    // Wrong credentials take what right ones gave.
    assert_eq!(say(&mut stream, "21 key=PLAIN value=\\x00user\\x00x").unwrap().status, 0x20);
    assert_eq!(say(&mut stream, "00 key=a").unwrap().status, 0x20);
    assert_eq!(say(&mut stream, "0b"), None);
    let mut stranger = socket(&server);
    assert_eq!(say(&mut stranger, stored).unwrap().status, 0x20);
    assert_eq!(Frame::receive(&mut stranger), None);
    let mut text = CacheClient::connect(&server);
    text.send(set("any", "other secret"));
    assert_eq!(text.read_until("\r\n"), "STORED\r\n");
    let stats = text.ask("stats\r\n");
    assert!(stats.contains("STAT auth_cmds 8\r\n"), "{stats}");
    assert!(stats.contains("STAT auth_errors 6\r\n"), "{stats}");
}

#[test]
fn both_protocols_see_the_same_objects() {
    let server = start();
    let (mut text, mut stream) = (CacheClient::connect(&server), socket(&server));
    assert_eq!(text.ask("set a 7 0 5\r\nhello\r\n"), "STORED\r\n");
    let found = say(&mut stream, "00 key=a").unwrap();
    assert_eq!((&found.extras[..], &found.value[..]), (&[0, 0, 0, 7][..], &b"hello"[..]));
    let stored = "01 extras=0000000900000000 key=b value=\\x00\\x0d\\x0a";
    assert_eq!(say(&mut stream, stored).unwrap().status, 0);
    assert_eq!(text.ask("get b\r\n"), "VALUE b 9 3\r\n\0\r\n\r\nEND\r\n");
}

#[test]
fn statistics_are_those_of_the_text_protocol() {
    let server = start();
    let (mut text, mut stream) = (CacheClient::connect(&server), socket(&server));
    for kind in ["", "settings", "items", "slabs", "sizes", "conns"] {
        text.ask("set a 0 0 1\r\n1\r\n");
        let lines = text.ask(format!("stats {kind}\r\n"));
        let names: Vec<_> = lines.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        let key = if kind.is_empty() { String::new() } else { format!(" key={kind}") };
        stream.write_all(&Frame::parse(&format!("10{key}")).bytes()).unwrap();
        let mut told = Vec::new();
        loop {
            let frame = Frame::receive(&mut stream).unwrap();
            if frame.key.is_empty() {
                break;
            }
            told.push(String::from_utf8(frame.key).unwrap());
        }
        assert_eq!(told, names, "{kind}");
        assert!(!told.is_empty(), "{kind}");
    }
    assert_eq!(say(&mut stream, "10 key=unknown").unwrap().status, 1);
}

#[test]
fn values_may_arrive_in_pieces_and_in_any_number() {
    let server = start();
    let mut stream = socket(&server);
    let value = vec![b'v'; 300_000];
    let mut request = Frame::parse("11 extras=0000000000000000 key=big");
    request.value.clone_from(&value);
    let bytes = request.bytes();
    for piece in bytes.chunks(40_000) {
        stream.write_all(piece).unwrap();
    }
    let mut gets = Vec::new();
    for number in 0..400 {
        let key = if number % 2 == 0 { "big" } else { "absent" };
        gets.extend_from_slice(&Frame::parse(&format!("09 key={key}")).bytes());
    }
    gets.extend_from_slice(&Frame::parse("0a").bytes());
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&gets).unwrap());
    for _ in 0..200 {
        let found = Frame::receive(&mut stream).unwrap();
        assert!(found.opcode == 0x09 && found.value == value);
    }
    assert_eq!(Frame::receive(&mut stream).unwrap().opcode, NOOP);
    sender.join().unwrap();
}
