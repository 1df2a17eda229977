//! Reads requests out of a stream of bytes that arrives in pieces.
//!
//! Guarantees, whatever the bytes are:
//! 1. How the stream is cut into pieces does not change what is read.
//! 2. Memory is asked for as bytes arrive, never on the word of a length: a value takes at
//!    most twice what has come of it, and 16 KiB.
//! 3. A value has memory of its own, of just its length.
//! 4. A line is looked at once, however many pieces it comes in.
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

/// Most bytes of a line, as in memcached; lines of keys may be longer.
const LINE_BYTES_MAX: usize = 2048;
/// Most bytes of a line of keys: some thousands of the longest.
const KEYS_BYTES_MAX: usize = 1 << 20;
/// Commands that are followed by keys.
const KEYS_COMMANDS: [&[u8]; 5] = [b"get ", b"gets ", b"gat ", b"gats ", b"bget "];
/// Spaces that may stand before them.
const SPACES_MAX: usize = 100;
/// Most bytes of a user and a password, with what is between them.
const CREDENTIALS_BYTES_MAX: u32 = 2048;
/// The first byte of a request of the binary protocol.
const BINARY: u8 = 0x80;
/// A value takes so much at once.
const VALUE_STEP_BYTES: usize = 16 << 10;

/// What comes out of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More bytes are needed.
    Nothing,
    Request(Request),
    /// Who the client says it is.
    Credentials(Bytes, Bytes),
    /// The stream makes no sense any more: this is said, if anything, and nothing else is read.
    End(Option<&'static str>),
}

/// What is being read.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Line,
    Value(Box<Pending>),
    Skip(u64),
    /// So many bytes of a user and a password, and a line end.
    Credentials(u32),
}

/// A value of which a part has come.
#[derive(Debug)]
struct Pending {
    request: Request,
    value: Vec<u8>,
    len: usize,
}

impl Pending {
    /// Takes what belongs to the value off the front of `buffer`; whether it is whole.
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

    /// How much memory the value takes next. Doubling keeps copying within bounds.
    fn next_capacity(&self) -> usize {
        (2 * self.value.capacity()).max(VALUE_STEP_BYTES).min(self.len)
    }
}

/// Reads requests.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    stage: Stage,
    /// Bytes of the line in which there is no end.
    searched: usize,
}

impl Parser {
    /// Takes the next complete request off the front of `buffer`. Who is not `known` may only
    /// say who it is.
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

    /// Reads a line; `None` if it is only the beginning of something.
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
        // A lone `\r` is a line that says it.
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

    /// Reads the line of a client that has to say who it is: that of a `set`, with any key.
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

    /// The request whose value lies whole in `buffer`, as most do.
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

    /// How many bytes of a value are missing.
    pub(crate) fn missing_bytes(&self) -> usize {
        match &self.stage {
            Stage::Value(pending) => pending.len - pending.value.len(),
            _ => 0,
        }
    }

    /// How much memory the value takes that is being read.
    pub(crate) fn value_bytes(&self) -> usize {
        match &self.stage {
            Stage::Value(pending) => pending.value.capacity(),
            _ => 0,
        }
    }

    /// How much it takes when it is given room next.
    pub(crate) fn next_value_bytes(&self) -> usize {
        match &self.stage {
            Stage::Value(pending) if pending.value.len() < pending.value.capacity() => {
                pending.value.capacity()
            }
            Stage::Value(pending) => pending.next_capacity(),
            _ => 0,
        }
    }

    /// Room for the next bytes of the value, which is to be filled up to `limit` more.
    pub(crate) fn room(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let Stage::Value(pending) = &mut self.stage else { return None };
        if pending.value.len() == pending.value.capacity() {
            pending.grow(1);
        }
        let limit = pending.value.capacity().min(pending.len) - pending.value.len();
        Some((&mut pending.value, limit))
    }

    /// Gives up the value that is being read: there is no room for it. What is still to come of
    /// it is passed over.
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

/// A request with its value, if a line end comes behind it.
fn finish(mut request: Request, end: &[u8], value: impl FnOnce() -> Bytes) -> Request {
    if end != b"\r\n" {
        return request.with_bad_value();
    }
    request.put_value(value());
    request
}

/// Most bytes of the line that begins like `buffer`.
fn line_bytes_max(buffer: &[u8]) -> usize {
    if buffer.len() <= LINE_BYTES_MAX {
        return LINE_BYTES_MAX;
    }
    let spaces = buffer.iter().take_while(|&&byte| byte == b' ').count();
    let has_keys = KEYS_COMMANDS.iter().any(|name| buffer[spaces..].starts_with(name));
    if spaces <= SPACES_MAX && has_keys { KEYS_BYTES_MAX } else { LINE_BYTES_MAX }
}

/// A user and a password, with the line end behind them.
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
