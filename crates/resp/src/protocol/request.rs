//! Parses requests from a stream of bytes that arrives in pieces: RESP arrays of bulk strings, and
//! inline commands.
//!
//! Guarantees, for any bytes:
//! 1. The division of the stream into pieces does not change the result.
//! 2. Memory is allocated as bytes arrive, never by an announced length. Of a request that is larger
//!    than its limit ([`Parsed::TooLarge`]), or for which there is no room ([`Parser::discard`]), no
//!    bytes are kept, and the stream continues behind it.
//! 3. The state of an incomplete request is kept, so a value in a thousand pieces costs no more
//!    than in one. (Only the headers of a short request are parsed at most twice.)
//! 4. Arguments are slices of the buffer, not copies.
//!
//! After an error the stream is unusable and the connection ends. Errors have the messages of
//! Redis. Redis skips two bytes after each length and value; this parser requires them to be
//! `\r\n`.

use bytes::{Bytes, BytesMut};

use crate::protocol::number::parse_i64;

/// Maximum arguments of one command.
const ARGUMENTS_MAX: usize = 1 << 20;
/// Maximum bytes of a line: an inline command, or a length.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Maximum words of a request parsed in one pass.
const SHORT_WORDS_MAX: usize = 4;
/// Maximum length of an argument: the default of `proto-max-bulk-len` in Redis.
const BULK_BYTES_MAX: usize = 512 << 20;
/// The memory of an argument in addition to its bytes: as a range, and then as a word.
const ARGUMENT_OVERHEAD_BYTES: usize = size_of::<(usize, usize)>() + size_of::<Bytes>();
/// Limits of unauthenticated clients.
const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;
const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 << 10;

/// Limits of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum bytes of one request in memory; a larger one is discarded.
    pub(crate) request_bytes_max: usize,
    /// Whether the client may send more than `AUTH` needs.
    pub(crate) authenticated: bool,
}

/// A protocol error; the client gets it after `ERR Protocol error: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Protocol error: {0}")]
pub(crate) struct ProtocolError(String);

impl ProtocolError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The arguments of a command, its name first; never empty.
pub(crate) type Arguments = Vec<Bytes>;

/// A complete request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Its arguments.
    Request(Arguments),
    /// It was discarded: it is larger than the limit, or there was no room for it.
    TooLarge,
}

/// The state of the request at the front of the buffer. Positions count from its first byte.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// Arguments still missing; `None` before the array's length.
    missing: Option<usize>,
    /// The length of the current argument.
    bulk: Option<usize>,
    /// The range of each complete argument.
    found: Vec<(usize, usize)>,
    /// The request is being discarded; `bulk` counts the bytes of its current argument
    /// that have not arrived.
    is_discarding: bool,
    /// Everything before this position has been parsed.
    at: usize,
    /// There is no line end between `at` and this position.
    searched: usize,
}

impl Parser {
    /// Removes the next complete request from the front of `buffer`; `None` if more bytes are
    /// needed.
    pub(crate) fn next(
        &mut self,
        buffer: &mut BytesMut,
        limits: Limits,
    ) -> Result<Option<Parsed>, ProtocolError> {
        loop {
            match (self.missing, buffer.first()) {
                (None, None) => return Ok(None),
                (None, Some(b'*')) => {
                    if let Some(arguments) = whole_short_request(buffer, limits) {
                        self.reset();
                        return Ok(Some(Parsed::Request(arguments)));
                    }
                    if !self.array_header(buffer, limits)? {
                        return Ok(None);
                    }
                }
                (None, Some(_)) => match self.inline(buffer)? {
                    None => return Ok(None),
                    Some(arguments) if arguments.is_empty() => {}
                    Some(arguments) => return Ok(Some(Parsed::Request(arguments))),
                },
                (Some(0), _) if self.is_discarding => {
                    self.skip(buffer);
                    return Ok(Some(Parsed::TooLarge));
                }
                (Some(0), _) => return Ok(Some(Parsed::Request(self.take(buffer)))),
                (Some(_), _) if self.is_discarding => {
                    if !self.discard_bulk(buffer, limits)? {
                        return Ok(None);
                    }
                }
                (Some(_), _) => {
                    if !self.bulk(buffer, limits)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// The number of bytes that the current argument still needs at least, if known and if they are
    /// kept; otherwise 0.
    pub(crate) fn wanted_bytes(&self, buffered: usize) -> usize {
        let bulk = self.bulk.filter(|_| !self.is_discarding);
        bulk.map_or(0, |bulk| (self.at + bulk + 2).saturating_sub(buffered))
    }

    /// The memory of the current request in addition to its bytes.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.found.len() * ARGUMENT_OVERHEAD_BYTES
    }

    /// Discards the incomplete request at the front of `buffer`, what has arrived of it and what
    /// will; false for an inline command, whose end is unknown.
    pub(crate) fn discard(&mut self, buffer: &mut BytesMut) -> bool {
        if self.missing.is_none() {
            return false;
        }
        if !self.is_discarding {
            self.is_discarding = true;
            self.found = Vec::new();
            // What remains is a part of the current argument, or of the line before it. In a buffer
            // of its own, so that the memory is released.
            *buffer = BytesMut::from(&buffer[self.at..]);
            self.searched = self.searched.saturating_sub(self.at);
            self.at = 0;
        }
        true
    }

    /// Discards an argument of a request that is too large, or its length; false if more bytes are
    /// needed.
    fn discard_bulk(
        &mut self,
        buffer: &mut BytesMut,
        limits: Limits,
    ) -> Result<bool, ProtocolError> {
        let Some(left) = self.bulk else {
            return self.bulk_header(buffer, limits);
        };
        let arrived = left.min(buffer.len() - self.at);
        let _ = buffer.split_to(self.at + arrived);
        (self.at, self.searched) = (0, 0);
        self.bulk = Some(left - arrived);
        if left > arrived {
            return Ok(false);
        }
        self.bulk(buffer, limits)
    }

    fn array_header(
        &mut self,
        buffer: &mut BytesMut,
        limits: Limits,
    ) -> Result<bool, ProtocolError> {
        let Some(line) = self.line(buffer, "too big mbulk count string")? else {
            return Ok(false);
        };
        let count = parse_i64(&buffer[line.0 + 1..line.1])
            .filter(|&count| count <= ARGUMENTS_MAX as i64)
            .ok_or_else(|| ProtocolError::new("invalid multibulk length"))?;
        match usize::try_from(count) {
            // Redis skips empty and null arrays.
            Err(_) | Ok(0) => self.skip(buffer),
            Ok(count) if count > UNAUTHENTICATED_ARGUMENTS_MAX && !limits.authenticated => {
                return Err(ProtocolError::new("unauthenticated multibulk length"));
            }
            Ok(count) => self.missing = Some(count),
        }
        Ok(true)
    }

    /// Parses the length of an argument, or its bytes; false if more bytes are needed.
    fn bulk(&mut self, buffer: &mut BytesMut, limits: Limits) -> Result<bool, ProtocolError> {
        let Some(length) = self.bulk else {
            return self.bulk_header(buffer, limits);
        };
        let end = self.at + length;
        match buffer.get(end..end + 2) {
            None => Ok(false),
            Some(b"\r\n") => {
                if !self.is_discarding {
                    self.found.push((self.at, end));
                }
                self.missing = self.missing.map(|missing| missing - 1);
                self.bulk = None;
                self.at = end + 2;
                self.searched = self.at;
                Ok(true)
            }
            Some(_) => Err(ProtocolError::new("expected '\\r\\n' after a bulk string")),
        }
    }

    fn bulk_header(
        &mut self,
        buffer: &mut BytesMut,
        limits: Limits,
    ) -> Result<bool, ProtocolError> {
        if let Some(&kind) = buffer.get(self.at)
            && kind != b'$'
        {
            let shown = if kind.is_ascii_graphic() || kind == b' ' { kind } else { b'?' };
            return Err(ProtocolError::new(format!("expected '$', got '{}'", shown as char)));
        }
        let Some(line) = self.line(buffer, "too big bulk count string")? else {
            return Ok(false);
        };
        let length = parse_i64(&buffer[line.0 + 1..line.1])
            .and_then(|length| usize::try_from(length).ok())
            .filter(|&length| length <= BULK_BYTES_MAX)
            .ok_or_else(|| ProtocolError::new("invalid bulk length"))?;
        if length > UNAUTHENTICATED_BULK_BYTES_MAX && !limits.authenticated {
            return Err(ProtocolError::new("unauthenticated bulk length"));
        }
        self.bulk = Some(length);
        let bytes = self.at + length + self.overhead_bytes() + ARGUMENT_OVERHEAD_BYTES;
        if bytes > limits.request_bytes_max {
            self.discard(buffer);
        }
        Ok(true)
    }

    /// The line at `at`, without its `\r\n`; moves past it.
    fn line(
        &mut self,
        buffer: &BytesMut,
        too_long: &str,
    ) -> Result<Option<(usize, usize)>, ProtocolError> {
        let from = self.searched.max(self.at);
        let end = buffer[from..].iter().position(|&byte| byte == b'\r').map(|found| from + found);
        let Some(end) = end else {
            self.searched = buffer.len();
            return match buffer.len() - self.at > LINE_BYTES_MAX {
                true => Err(ProtocolError::new(too_long)),
                false => Ok(None),
            };
        };
        self.searched = end;
        match buffer.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => {
                let line = (self.at, end);
                self.at = end + 2;
                self.searched = self.at;
                Ok(Some(line))
            }
            Some(_) => Err(ProtocolError::new("expected '\\n' after '\\r'")),
        }
    }

    /// Removes an inline command; an empty one for a blank line.
    fn inline(&mut self, buffer: &mut BytesMut) -> Result<Option<Arguments>, ProtocolError> {
        let end = buffer[self.searched..].iter().position(|&byte| byte == b'\n');
        let Some(end) = end.map(|found| self.searched + found) else {
            self.searched = buffer.len();
            return match buffer.len() > LINE_BYTES_MAX {
                true => Err(ProtocolError::new("too big inline request")),
                false => Ok(None),
            };
        };
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        let arguments =
            split_line(line).ok_or_else(|| ProtocolError::new("unbalanced quotes in request"))?;
        self.at = end + 1;
        self.skip(buffer);
        Ok(Some(arguments))
    }

    fn take(&mut self, buffer: &mut BytesMut) -> Arguments {
        let request = buffer.split_to(self.at).freeze();
        let arguments = self.found.iter().map(|&(from, to)| request.slice(from..to)).collect();
        self.reset();
        arguments
    }

    fn skip(&mut self, buffer: &mut BytesMut) {
        let _ = buffer.split_to(self.at);
        self.reset();
    }

    fn reset(&mut self) {
        self.found.clear();
        // The memory for a command of a million arguments must not stay with an idle client.
        self.found.shrink_to(64);
        (self.missing, self.bulk, self.at, self.searched) = (None, None, 0, 0);
        self.is_discarding = false;
    }
}

/// Removes a short request from the front of `buffer` if it is complete and valid, as most are. The
/// steps of [`Parser`] parse everything else, errors included, from the beginning.
fn whole_short_request(buffer: &mut BytesMut, limits: Limits) -> Option<Arguments> {
    if !limits.authenticated {
        return None;
    }
    let (count, mut at) = short_header(buffer, 0, b'*')?;
    let mut spans = [(0, 0); SHORT_WORDS_MAX];
    let spans = spans.get_mut(..count).filter(|spans| !spans.is_empty())?;
    for span in &mut *spans {
        let (length, start) = short_header(buffer, at, b'$')?;
        let end = start + length;
        let bytes = end + count * ARGUMENT_OVERHEAD_BYTES;
        if bytes > limits.request_bytes_max || buffer.get(end..end + 2)? != b"\r\n" {
            return None;
        }
        *span = (start, end);
        at = end + 2;
    }
    let request = buffer.split_to(at).freeze();
    Some(spans.iter().map(|&(start, end)| request.slice(start..end)).collect())
}

/// The number after `kind` at `at`, canonical and of at most seven digits, and the position after
/// its line end.
#[inline]
fn short_header(bytes: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let rest = bytes.get(at..)?;
    let digit = |i: usize| Some(rest.get(i)?.wrapping_sub(b'0')).filter(|&digit| digit <= 9);
    if *rest.first()? != kind {
        return None;
    }
    let mut number = usize::from(digit(1)?);
    let mut end = 2;
    while let Some(next) = digit(end) {
        if number == 0 || end > 7 {
            return None;
        }
        number = 10 * number + usize::from(next);
        end += 1;
    }
    (rest.get(end..end + 2)? == b"\r\n").then_some((number, at + end + 2))
}

/// Splits a line at spaces, with quotes as in a shell: `"..."` may contain `\n`, `\xff` and similar
/// escapes, `'...'` only `\'`. `None` if a quote is not closed or not followed by a space.
fn split_line(line: &[u8]) -> Option<Arguments> {
    let mut arguments = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|byte| !is_space(*byte));
        let Some(start) = start else {
            return Some(arguments);
        };
        let (argument, behind) = split_word(&rest[start..])?;
        arguments.push(argument);
        rest = behind;
    }
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b || byte == 0
}

fn split_word(mut rest: &[u8]) -> Option<(Bytes, &[u8])> {
    let mut word = Vec::new();
    loop {
        match *rest {
            [] => break,
            [byte, ..] if is_space(byte) => break,
            [quote @ (b'"' | b'\''), ref quoted @ ..] => {
                rest = unquote(quote, quoted, &mut word)?;
                if rest.first().is_some_and(|byte| !is_space(*byte)) {
                    return None;
                }
                break;
            }
            [byte, ref behind @ ..] => {
                word.push(byte);
                rest = behind;
            }
        }
    }
    Some((Bytes::from(word), rest))
}

/// Parses up to the closing `quote`; returns the rest.
fn unquote<'a>(quote: u8, mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let hex = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    loop {
        match *rest {
            [] => return None,
            [byte, ref behind @ ..] if byte == quote => return Some(behind),
            [b'\\', b'\'', ref behind @ ..] if quote == b'\'' => {
                word.push(b'\'');
                rest = behind;
            }
            [b'\\', b'x', high, low, ref behind @ ..]
                if quote == b'"' && hex(high).is_some() && hex(low).is_some() =>
            {
                word.push(hex(high)? << 4 | hex(low)?);
                rest = behind;
            }
            [b'\\', escaped, ref behind @ ..] if quote == b'"' => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => other,
                });
                rest = behind;
            }
            [byte, ref behind @ ..] => {
                word.push(byte);
                rest = behind;
            }
        }
    }
}

#[cfg(test)]
mod tests;
