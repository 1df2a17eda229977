//! Random requests of the binary protocol.

use crate::requests::{Generator, Request};

/// The opaque number of the request behind each, whose reply ends the comparison.
pub const LAST_OPAQUE: [u8; 4] = [0xfe; 4];
pub const HEADER_BYTES: usize = 24;
const NOOP: u8 = 0x0a;

const EXPIRIES: &[u32] =
    &[0, 0, 0, 100_000, 2_000_000, 2_592_000, 2_592_001, 2_100_000_000, 4_000_000_000, u32::MAX];
const NUMBERS: &[u64] = &[0, 1, 1, 5, 100, u64::MAX, u64::MAX - 1, 1 << 63];

/// The parts of a request.
#[derive(Default)]
struct Frame {
    opcode: u8,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    version: u64,
}

impl Frame {
    fn bytes(&self, opaque: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend_from_slice(&(self.key.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[self.extras.len() as u8, 0, 0, 0]);
        let len = (self.extras.len() + self.key.len() + self.value.len()) as u32;
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(&opaque);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        [&bytes[..], &self.extras, &self.key, &self.value].concat()
    }
}

/// The request whose reply ends the comparison.
pub fn last() -> Vec<u8> {
    Frame { opcode: NOOP, ..Frame::default() }.bytes(LAST_OPAQUE)
}

/// The next request of the binary protocol, sometimes several at once.
pub fn next(generator: &Generator) -> Request {
    let mut bytes = request(generator);
    // In one packet a read and an increment of the same key differ.
    let counts = |bytes: &[u8]| [5, 6, 0x15, 0x16].contains(&bytes[1]);
    while generator.below(6) == 0 {
        let next = request(generator);
        if !counts(&next) && !counts(&bytes) {
            bytes.extend_from_slice(&next);
        }
    }
    Request { bytes, pauses: generator.take_pause() }
}

fn request(generator: &Generator) -> Vec<u8> {
    let mut frame = frame(generator);
    spoil(generator, &mut frame);
    let mut bytes = frame.bytes([b'o', 0, 0, generator.below(256) as u8]);
    match generator.below(400) {
        // All statistics would be told.
        _ if frame.opcode == 0x10 || !is_known(frame.opcode) => {}
        // Other divisions of the same body.
        0 => bytes[3] = bytes[3].wrapping_add(1),
        1 => bytes[3] = bytes[3].wrapping_sub(1),
        2 => bytes[4] = bytes[4].wrapping_add(4),
        3 => bytes[4] = 0,
        4 => bytes[2..4].fill(0),
        5 => bytes[5] = 1,
        6 => bytes[6] = 1,
        7 if generator.below(4) == 0 => bytes[0] = 0x81,
        _ => {}
    }
    bytes
}

/// A valid request.
fn frame(generator: &Generator) -> Frame {
    let opcode = opcode(generator);
    let mut frame = Frame { opcode, ..Frame::default() };
    let expiry = || {
        let expiry = if generator.pauses() { 1 } else { generator.one_of(EXPIRIES) };
        expiry.to_be_bytes()
    };
    match opcode {
        0x00 | 0x09 | 0x0c | 0x0d => frame.key = generator.key(),
        0x01..=0x03 | 0x11..=0x13 => {
            let flags = generator.one_of(&[0, 0, 7, u32::MAX]).to_be_bytes();
            frame.extras = [flags, expiry()].concat();
            frame.key = generator.key();
            frame.value = generator.value();
            frame.version = if generator.below(5) == 0 { generator.version() } else { 0 };
            if generator.below(1500) == 0 {
                frame.value = vec![b'z'; (1 << 20) + 1];
            }
        }
        0x04 | 0x14 => {
            frame.key = generator.key();
            frame.version = if generator.below(3) == 0 { generator.version() } else { 0 };
        }
        0x05 | 0x06 | 0x15 | 0x16 => {
            let [delta, initial] = [0, 0].map(|_| generator.one_of(NUMBERS).to_be_bytes());
            frame.extras = [&delta[..], &initial, &expiry()].concat();
            frame.key = generator.key();
            frame.version = if generator.below(5) == 0 { generator.version() } else { 0 };
        }
        0x08 | 0x18 if generator.below(2) == 0 => frame.extras = expiry().to_vec(),
        0x0e | 0x0f | 0x19 | 0x1a => {
            frame.key = generator.key();
            frame.value = generator.value();
            frame.version = if generator.below(3) == 0 { generator.version() } else { 0 };
        }
        0x10 => {
            frame.key = generator
                .one_of(&["foo", "reset", "resets", "res", "detail foo", "cachedump"])
                .into()
        }
        0x1c..=0x1e | 0x23 | 0x24 => {
            frame.extras = expiry().to_vec();
            frame.key = generator.key();
        }
        _ => {}
    }
    frame
}

fn opcode(generator: &Generator) -> u8 {
    let opcode = generator.below(0x25) as u8;
    match opcode {
        // Rare: they end the connection, change much, or are unknown.
        0x07 | 0x08 | 0x17 | 0x18 | 0x20..=0x22 if generator.below(20) > 0 => {
            self::opcode(generator)
        }
        0x1f | 0x1b if generator.below(10) > 0 => self::opcode(generator),
        0x24 if generator.below(20) == 0 => generator.below(256) as u8,
        opcode => opcode,
    }
}

/// Whether memcached has this opcode. Of others it skips extras and key twice.
fn is_known(opcode: u8) -> bool {
    matches!(opcode, 0..=0x1a | 0x1c..=0x1e | 0x23 | 0x24)
}

/// Makes the request invalid, rarely.
fn spoil(generator: &Generator, frame: &mut Frame) {
    if !is_known(frame.opcode) {
        if generator.below(3) == 0 {
            frame.value = b"body".to_vec();
        }
        return;
    }
    match generator.below(120) {
        0 => frame.extras.clear(),
        1 => frame.extras.extend_from_slice(&[0; 4]),
        // Without a key it asks for all statistics.
        2 if frame.opcode != 0x10 => frame.key.clear(),
        3 => frame.key = generator.key(),
        4 => frame.value = b"xyz".to_vec(),
        5 => frame.version = generator.version(),
        6 => frame.extras.truncate(frame.extras.len() / 2),
        _ => {}
    }
}

/// The frames of a reply, as text.
pub fn shown(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    while let Some(header) = bytes.get(..HEADER_BYTES) {
        let number = |range: std::ops::Range<usize>| {
            header[range].iter().fold(0, |number, &byte| number << 8 | usize::from(byte))
        };
        let end = bytes.len().min(HEADER_BYTES + number(8..12));
        let body = &bytes[HEADER_BYTES..end];
        let body = crate::replies::shortened(body, 300);
        text.push_str(&format!(
            "[{:02x} op={:02x} key={} extras={} type={:x} status={:x} body={} opaque={:x} cas={} {body}]",
            header[0], header[1], number(2..4), header[4], header[5], number(6..8),
            number(8..12), number(12..16), number(16..24),
        ));
        bytes = &bytes[end..];
    }
    format!("{text}{}", bytes.escape_ascii())
}

/// The versions in a reply.
pub fn versions(mut bytes: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    while let Some(header) = bytes.get(..HEADER_BYTES) {
        let len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
        found.extend(header[16..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes)));
        bytes = bytes.get(HEADER_BYTES + len..).unwrap_or_default();
    }
    found.retain(|&version| version > 0);
    found
}
