//! Parses requests from a stream of bytes that arrives in pieces.
//!
//! Guarantees, for any bytes:
//! 1. The division of the stream into pieces does not change the result.
//! 2. Memory is allocated as bytes arrive, never by an announced length: a value uses at most twice
//!    its received bytes plus 16 KiB.
//! 3. A value has its own allocation of exactly its length.
//! 4. A line is scanned once, in any number of pieces.
//!
//! ```text
//!           line ── a request that is whole ──► line
//!            │ ├─── a value comes behind ─────► value ── it is whole ──► line
//!            │ └─── it is not wanted ─────────► skip ─── all is gone ──► line
//!            └──── too long, or no line at all ► (nothing more is read)
//! ```
//!
//! The first byte of a connection decides whether it speaks the binary protocol, which has frames
//! instead of lines, unless a setting does.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use crate::commands::binary::{self, Access, Binary, Framed};
use crate::commands::catalogue::{self, LINE_TOO_LONG, Parsed, Request, UNAUTHENTICATED};
use crate::protocol::binary::{Echo, HEADER_BYTES, Header, REQUEST_MAGIC};
use crate::protocol::numerals::unsigned_32;
use crate::protocol::request::{BAD_FORMAT, Fits, LINE_END_BYTES};
use crate::protocol::words::{Line, words_of};
use crate::settings::options::ProtocolChoice;

/// Minimum bytes of a line with its end, as in memcached.
const LINE_BYTES_MIN: usize = 4;
/// Maximum bytes of a line, as in memcached; lines of keys may be longer.
const LINE_BYTES_MAX: usize = 2048;
/// Maximum bytes of a line of keys: some thousands of the longest keys.
const KEYS_BYTES_MAX: usize = 1 << 20;
/// Commands that are followed by keys.
const KEYS_COMMANDS: [&[u8]; 4] = [b"get ", b"gets ", b"gat ", b"gats "];
/// Maximum bytes of a user and a password, separator included.
const CREDENTIALS_BYTES_MAX: u32 = 2048;
/// The error of credentials of a greater length.
const TOKEN_TOO_LONG: &str = "CLIENT_ERROR auth token too long";
/// Initial allocation of a value.
const VALUE_STEP_BYTES: usize = 16 << 10;

/// The next element of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More bytes are needed.
    Nothing,
    Request(Request),
    Credentials(Credentials),
    /// A protocol error, with its message if there is one: nothing more is parsed.
    End(Option<&'static str>),
}

/// A client's attempt to authenticate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Bytes,
    pub(crate) password: Bytes,
    /// The request of the binary protocol that has them.
    pub(crate) echo: Option<Echo>,
}

/// The state of the parser.
#[derive(Debug, Default)]
enum Stage {
    /// Nothing has been received.
    #[default]
    Start,
    Line,
    /// A request of the binary protocol.
    Frame,
    Value(Box<Pending>),
    Skip(u64),
    /// User and password of this length, and a line end.
    Credentials(u32),
    /// Credentials of the binary protocol, of this length.
    BinaryCredentials(Echo, u32),
    /// Nothing more is read.
    End,
}

/// A partially received value.
#[derive(Debug)]
struct Pending {
    request: Request,
    value: Vec<u8>,
    len: usize,
    /// Bytes of the line end that follows it.
    end_len: usize,
}

impl Pending {
    /// Moves the bytes of the value from the front of `buffer`; returns whether it is complete.
    fn take(&mut self, buffer: &mut BytesMut) -> bool {
        let count = buffer.len().min(self.len - self.value.len());
        self.grow(count);
        self.value.extend_from_slice(&buffer[..count]);
        buffer.advance(count);
        self.value.len() == self.len
    }

    /// Makes room for `count` more bytes.
    fn grow(&mut self, count: usize) {
        let needed = self.value.len() + count;
        if needed > self.value.capacity() {
            let capacity = self.next_capacity().max(needed).min(self.len);
            self.value.reserve_exact(capacity - self.value.len());
        }
    }

    /// The next capacity of the value. Doubling bounds the copying.
    fn next_capacity(&self) -> usize {
        (2 * self.value.capacity()).max(VALUE_STEP_BYTES).min(self.len)
    }
}

/// Parses requests.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    protocol: ProtocolChoice,
    stage: Stage,
    is_binary: bool,
    /// Bytes of the line scanned without finding its end.
    searched: u32,
}

impl Parser {
    /// A parser of the given protocol.
    pub(crate) fn of(protocol: ProtocolChoice) -> Self {
        Self { protocol, ..Self::default() }
    }

    /// Removes the next complete request from the front of `buffer`.
    pub(crate) fn next(&mut self, buffer: &mut BytesMut, access: Access, fits: Fits<'_>) -> Next {
        loop {
            match &mut self.stage {
                Stage::Start => {
                    let Some(&first) = buffer.first() else { return Next::Nothing };
                    self.is_binary = match self.protocol {
                        ProtocolChoice::Auto => first == REQUEST_MAGIC,
                        ProtocolChoice::Text => false,
                        ProtocolChoice::Binary => true,
                    };
                    self.stage = self.between();
                }
                Stage::End => return Next::Nothing,
                Stage::Line => {
                    if let Some(next) = self.line(buffer, access != Access::Stranger, fits) {
                        return next;
                    }
                }
                Stage::Frame => {
                    if let Some(next) = self.frame(buffer, access, fits) {
                        return next;
                    }
                }
                Stage::Value(pending) => {
                    if !pending.take(buffer) || buffer.len() < pending.end_len {
                        return Next::Nothing;
                    }
                    return Next::Request(self.finish_value(buffer));
                }
                Stage::Skip(left) => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
                    buffer.advance(count);
                    *left -= count as u64;
                    if *left > 0 {
                        return Next::Nothing;
                    }
                    self.stage = self.between();
                }
                Stage::Credentials(len) => {
                    let len = *len as usize;
                    if buffer.len() < len + LINE_END_BYTES as usize {
                        return Next::Nothing;
                    }
                    self.stage = self.between();
                    return credentials(&buffer.split_to(len + LINE_END_BYTES as usize));
                }
                Stage::BinaryCredentials(echo, len) => {
                    let (echo, len) = (*echo, *len as usize);
                    if buffer.len() < len {
                        return Next::Nothing;
                    }
                    self.stage = self.between();
                    return match binary::credentials(&buffer.split_to(len)) {
                        Some((user, password)) => {
                            Next::Credentials(Credentials { user, password, echo: Some(echo) })
                        }
                        None => of_binary(Binary::failed_authentication(echo)),
                    };
                }
            }
        }
    }

    /// The stage between two requests.
    fn between(&self) -> Stage {
        if self.is_binary { Stage::Frame } else { Stage::Line }
    }

    /// Whether the client speaks the binary protocol.
    pub(crate) fn is_binary(&self) -> bool {
        self.is_binary
    }

    /// Parses a header, extras and a key; `None` if more bytes belong to the request.
    fn frame(&mut self, buffer: &mut BytesMut, access: Access, fits: Fits<'_>) -> Option<Next> {
        let Some(bytes) = buffer.first_chunk() else { return Some(Next::Nothing) };
        let Some(header) = Header::parse(bytes) else { return Some(Next::End(None)) };
        // Also those of a request that is not one: at most 64 KiB.
        let extras_end = HEADER_BYTES + header.extras_len;
        if buffer.len() < extras_end + header.key_len {
            return Some(Next::Nothing);
        }
        let mut front = buffer.split_to(extras_end + header.key_len).freeze();
        let key = front.split_off(extras_end);
        let extras = front.slice(HEADER_BYTES..);
        match binary::read(&header, (&extras, key), access, fits) {
            Framed::Whole(request) => Some(of_binary(request)),
            Framed::Last(request) => {
                self.stage = Stage::End;
                Some(of_binary(request))
            }
            Framed::Value(request, len) => {
                self.value(buffer, Request::Binary(Box::new(request)), (len, 0))
            }
            Framed::Skip(request, bytes) => {
                self.stage = Stage::Skip(bytes);
                Some(of_binary(request))
            }
            Framed::Credentials(echo, len) => {
                self.stage = Stage::BinaryCredentials(echo, len);
                None
            }
        }
    }

    /// The request whose value of `len` bytes follows, and behind it `end_len` bytes of a line end;
    /// `None` if the value is not complete.
    fn value(
        &mut self,
        buffer: &mut BytesMut,
        request: Request,
        (len, end_len): (u32, u64),
    ) -> Option<Next> {
        let (len, end_len) = (len as usize, end_len as usize);
        match Self::take_whole(buffer, request, (len, end_len)) {
            Ok(next) => Some(next),
            Err(request) => {
                let pending = Pending { request, value: Vec::new(), len, end_len };
                self.stage = Stage::Value(Box::new(pending));
                None
            }
        }
    }

    /// Parses a line; `None` if more bytes belong to the request.
    fn line(&mut self, buffer: &mut BytesMut, is_known: bool, fits: Fits<'_>) -> Option<Next> {
        let searched = self.searched as usize;
        let end = memchr(b'\n', &buffer[searched..]).map(|found| searched + found);
        let limit = if is_known { line_bytes_max(buffer) } else { LINE_BYTES_MAX };
        if end.unwrap_or(buffer.len()) > limit {
            return Some(Next::End(Some(LINE_TOO_LONG)));
        }
        let Some(end) = end else {
            // At most 1 MiB.
            self.searched = buffer.len() as u32;
            return Some(Next::Nothing);
        };
        self.searched = 0;
        let mut line = buffer.split_to(end + 1).freeze();
        line.truncate(end);
        if !is_known {
            return self.introduction(line);
        }
        if end + 1 < LINE_BYTES_MIN {
            return Some(Next::Request(Request::say(BAD_FORMAT)));
        }
        if line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        match catalogue::read(&Line::new(line), fits) {
            Parsed::Whole(request) => Some(Next::Request(request)),
            Parsed::Value(request, len) => self.value(buffer, request, (len, LINE_END_BYTES)),
            Parsed::Skip(request, bytes) => {
                self.stage = Stage::Skip(bytes);
                Some(Next::Request(request))
            }
            Parsed::Stranger => Some(Next::End(None)),
        }
    }

    /// Parses the line of an unauthenticated client: a `set`, with any key.
    fn introduction(&mut self, line: Bytes) -> Option<Next> {
        let line = Line::new(line);
        let len = unsigned_32(line.word(4)).filter(|_| line.word(0) == b"set");
        match len {
            None => Some(Next::Request(Request::say(UNAUTHENTICATED))),
            // What follows is read as the next line, as in memcached.
            Some(len) if len > CREDENTIALS_BYTES_MAX => {
                Some(Next::Request(Request::say(TOKEN_TOO_LONG)))
            }
            Some(len) => {
                self.stage = Stage::Credentials(len);
                None
            }
        }
    }

    /// The request whose complete value is in `buffer`, as most are.
    fn take_whole(
        buffer: &mut BytesMut,
        request: Request,
        (len, end_len): (usize, usize),
    ) -> Result<Next, Request> {
        let Some(bytes) = buffer.get(..len + end_len) else { return Err(request) };
        let (value, end) = bytes.split_at(len);
        let request = finish(request, end, || Bytes::copy_from_slice(value));
        buffer.advance(len + end_len);
        Ok(Next::Request(request))
    }

    fn finish_value(&mut self, buffer: &mut BytesMut) -> Request {
        let between = self.between();
        let stage = std::mem::replace(&mut self.stage, between);
        let Stage::Value(pending) = stage else { unreachable!("a value is being read") };
        let Pending { request, mut value, end_len, .. } = *pending;
        let end = buffer.split_to(end_len);
        finish(request, &end, || {
            value.shrink_to_fit();
            Bytes::from(value)
        })
    }

    /// Missing bytes of the value.
    pub(crate) fn missing_bytes(&self) -> usize {
        match &self.stage {
            Stage::Value(pending) => pending.len - pending.value.len(),
            _ => 0,
        }
    }

    /// Memory of the current value.
    pub(crate) fn value_bytes(&self) -> usize {
        match &self.stage {
            Stage::Value(pending) => pending.value.capacity(),
            _ => 0,
        }
    }

    /// Memory of the current value after the next growth.
    pub(crate) fn next_value_bytes(&self) -> usize {
        match &self.stage {
            Stage::Value(pending) if pending.value.len() < pending.value.capacity() => {
                pending.value.capacity()
            }
            Stage::Value(pending) => pending.next_capacity(),
            _ => 0,
        }
    }

    /// The buffer for the next bytes of the value, and the number of bytes that may be added.
    pub(crate) fn room(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let Stage::Value(pending) = &mut self.stage else { return None };
        if pending.value.len() == pending.value.capacity() {
            pending.grow(1);
        }
        let limit = pending.value.capacity().min(pending.len) - pending.value.len();
        Some((&mut pending.value, limit))
    }

    /// Discards the current value for lack of room, and skips its remaining bytes.
    pub(crate) fn give_up(&mut self) -> Option<Request> {
        let missing = self.missing_bytes() as u64;
        match std::mem::take(&mut self.stage) {
            Stage::Value(pending) => {
                self.stage = Stage::Skip(missing + pending.end_len as u64);
                Some(pending.request.without_room())
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }
}

fn of_binary(request: Binary) -> Next {
    Next::Request(Request::Binary(Box::new(request)))
}

/// A request with its value, if a line end follows, or nothing in the binary protocol.
fn finish(mut request: Request, end: &[u8], value: impl FnOnce() -> Bytes) -> Request {
    if !end.is_empty() && end != b"\r\n" {
        return request.with_bad_value();
    }
    request.put_value(value());
    request
}

/// Maximum bytes of the line that starts with `buffer`.
fn line_bytes_max(buffer: &[u8]) -> usize {
    if buffer.len() <= LINE_BYTES_MAX {
        return LINE_BYTES_MAX;
    }
    let has_keys = KEYS_COMMANDS.iter().any(|name| buffer.starts_with(name));
    if has_keys { KEYS_BYTES_MAX } else { LINE_BYTES_MAX }
}

/// Parses a user and a password, followed by a line end.
fn credentials(bytes: &[u8]) -> Next {
    let Some(text) = bytes.strip_suffix(b"\r\n") else {
        return Next::Request(Request::say("CLIENT_ERROR bad command line termination"));
    };
    let mut words = words_of(text);
    match (words.next(), words.next()) {
        (Some(user), Some(password)) => {
            let (user, password) = (Bytes::copy_from_slice(user), Bytes::copy_from_slice(password));
            Next::Credentials(Credentials { user, password, echo: None })
        }
        _ => Next::Request(Request::say("CLIENT_ERROR bad authentication token format")),
    }
}

#[cfg(test)]
mod tests;
