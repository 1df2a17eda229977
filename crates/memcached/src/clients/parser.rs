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

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use crate::commands::catalogue::{
    self, Fits, LINE_TOO_LONG, NO_BINARY, Parsed, Request, UNAUTHENTICATED,
};
use crate::protocol::numerals::unsigned_32;
use crate::protocol::request::LINE_END_BYTES;
use crate::protocol::words::{Line, words_of};

/// Maximum bytes of a line, as in memcached; lines of keys may be longer.
const LINE_BYTES_MAX: usize = 2048;
/// Maximum bytes of a line of keys: some thousands of the longest keys.
const KEYS_BYTES_MAX: usize = 1 << 20;
/// Commands that are followed by keys.
const KEYS_COMMANDS: [&[u8]; 5] = [b"get ", b"gets ", b"gat ", b"gats ", b"bget "];
/// Maximum spaces before them.
const SPACES_MAX: usize = 100;
/// Maximum bytes of a user and a password, separator included.
const CREDENTIALS_BYTES_MAX: u32 = 2048;
/// The first byte of a request of the binary protocol.
const BINARY: u8 = 0x80;
/// Initial allocation of a value.
const VALUE_STEP_BYTES: usize = 16 << 10;

/// The next element of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More bytes are needed.
    Nothing,
    Request(Request),
    /// User and password of the client.
    Credentials(Bytes, Bytes),
    /// A protocol error, with its message if there is one: nothing more is parsed.
    End(Option<&'static str>),
}

/// The state of the parser.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Line,
    Value(Box<Pending>),
    Skip(u64),
    /// User and password of this length, and a line end.
    Credentials(u32),
}

/// A partially received value.
#[derive(Debug)]
struct Pending {
    request: Request,
    value: Vec<u8>,
    len: usize,
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
    stage: Stage,
    /// Bytes of the line scanned without finding its end.
    searched: usize,
}

impl Parser {
    /// Removes the next complete request from the front of `buffer`. A client that is not
    /// `is_known` may only authenticate.
    pub(crate) fn next(&mut self, buffer: &mut BytesMut, is_known: bool, fits: Fits<'_>) -> Next {
        loop {
            match &mut self.stage {
                Stage::Line if buffer.first() == Some(&BINARY) => {
                    return Next::End(Some(NO_BINARY));
                }
                Stage::Line => {
                    if let Some(next) = self.line(buffer, is_known, fits) {
                        return next;
                    }
                }
                Stage::Value(pending) => {
                    if !pending.take(buffer) || buffer.len() < LINE_END_BYTES as usize {
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
                    self.stage = Stage::Line;
                }
                Stage::Credentials(len) => {
                    let len = *len as usize;
                    if buffer.len() < len + LINE_END_BYTES as usize {
                        return Next::Nothing;
                    }
                    self.stage = Stage::Line;
                    return credentials(&buffer.split_to(len + LINE_END_BYTES as usize));
                }
            }
        }
    }

    /// Parses a line; `None` if more bytes belong to the request.
    fn line(&mut self, buffer: &mut BytesMut, is_known: bool, fits: Fits<'_>) -> Option<Next> {
        let end = memchr(b'\n', &buffer[self.searched..]).map(|found| self.searched + found);
        let limit = if is_known { line_bytes_max(buffer) } else { LINE_BYTES_MAX };
        if end.unwrap_or(buffer.len()) > limit {
            return Some(Next::End(Some(LINE_TOO_LONG)));
        }
        let Some(end) = end else {
            self.searched = buffer.len();
            return Some(Next::Nothing);
        };
        self.searched = 0;
        let mut line = buffer.split_to(end + 1).freeze();
        line.truncate(end);
        if !is_known {
            return self.introduction(line);
        }
        // A single `\r` is a line of its own.
        if line.len() > 1 && line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        match catalogue::read(&Line::new(line), fits) {
            Parsed::Whole(request) => Some(Next::Request(request)),
            Parsed::Value(request, len) => {
                let len = len as usize;
                match Self::take_whole(buffer, request, len) {
                    Ok(next) => Some(next),
                    Err(request) => {
                        let pending = Pending { request, value: Vec::new(), len };
                        self.stage = Stage::Value(Box::new(pending));
                        None
                    }
                }
            }
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
            Some(len) if len > CREDENTIALS_BYTES_MAX => Some(Next::End(Some(UNAUTHENTICATED))),
            Some(len) => {
                self.stage = Stage::Credentials(len);
                None
            }
        }
    }

    /// The request whose complete value is in `buffer`, as most are.
    fn take_whole(buffer: &mut BytesMut, request: Request, len: usize) -> Result<Next, Request> {
        let Some(bytes) = buffer.get(..len + LINE_END_BYTES as usize) else { return Err(request) };
        let (value, end) = bytes.split_at(len);
        let request = finish(request, end, || Bytes::copy_from_slice(value));
        buffer.advance(len + LINE_END_BYTES as usize);
        Ok(Next::Request(request))
    }

    fn finish_value(&mut self, buffer: &mut BytesMut) -> Request {
        let stage = std::mem::take(&mut self.stage);
        let Stage::Value(pending) = stage else { unreachable!("a value is being read") };
        let Pending { request, mut value, .. } = *pending;
        let end = buffer.split_to(LINE_END_BYTES as usize);
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
                self.stage = Stage::Skip(missing + LINE_END_BYTES);
                Some(pending.request.without_room())
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }
}

/// A request with its value, if a line end follows.
fn finish(mut request: Request, end: &[u8], value: impl FnOnce() -> Bytes) -> Request {
    if end != b"\r\n" {
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
    let spaces = buffer.iter().take_while(|&&byte| byte == b' ').count();
    let has_keys = KEYS_COMMANDS.iter().any(|name| buffer[spaces..].starts_with(name));
    if spaces <= SPACES_MAX && has_keys { KEYS_BYTES_MAX } else { LINE_BYTES_MAX }
}

/// Parses a user and a password, followed by a line end.
fn credentials(bytes: &[u8]) -> Next {
    let Some(text) = bytes.strip_suffix(b"\r\n") else {
        return Next::Request(Request::say("CLIENT_ERROR bad command line termination"));
    };
    let mut words = words_of(text);
    match (words.next(), words.next()) {
        (Some(user), Some(password)) => {
            Next::Credentials(Bytes::copy_from_slice(user), Bytes::copy_from_slice(password))
        }
        _ => Next::Request(Request::say("CLIENT_ERROR bad authentication token format")),
    }
}

#[cfg(test)]
mod tests;
