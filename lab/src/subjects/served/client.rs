//! A client of the memcached protocol, with the commands that the lab needs: `set`, `get`, `delete`
//! and `stats` in text, over a Unix socket.
//!
//! It guarantees:
//! 1. A request is usually one system call, and a value is passed on in its read buffer: without
//!    copies, as the client's cost is part of the measurement.
//! 2. A reply that violates the protocol is an error. A connection must not be used after an error:
//!    the next bytes may belong to the previous reply.
//!
//! One thread at a time may use a [`Connection`].

use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::load::keys::{key_of, number_of};

/// The maximum length of a key in the protocol.
const KEY_BYTES_MAX: usize = 250;
/// The longest line of a reply: a key with some numbers, or a line of `stats`.
const LINE_BYTES_MAX: usize = 2048;
/// The longest value: more than any subject gets.
const VALUE_BYTES_MAX: usize = 64 << 20;
/// The initial size of a buffer: a value of the default size with its line.
const BUFFER_BYTES: usize = 64 << 10;
/// Maximum lines of `stats`: a few hundred are usual.
const STATS_MAX: usize = 4096;

/// The timeout of a reply.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The line end after a value.
const VALUE_END: &[u8] = b"\r\nEND\r\n";
/// The server's reply if it had no memory for an object at the moment, which is not an error: the
/// object is not stored, or a miss.
const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory";
/// The server's reply to an object above its size limit.
const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large";

/// Appends `key` in a form that the protocol allows: without spaces and control bytes. A key of the
/// lab keeps its length, and distinct keys stay distinct.
///
/// # Errors
/// If it would be longer than the protocol allows.
pub(super) fn print_key(key: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let from = out.len();
    match number_of(key) {
        Some(number) if key == key_of(number) => push_hex(&number.to_be_bytes(), out),
        // Distinguishes it from the keys above.
        _ => {
            out.push(b'x');
            push_hex(key, out);
        }
    }
    match out.len() - from {
        0..=KEY_BYTES_MAX => Ok(()),
        _ => Err(Failure::usage(format!("a key of {} bytes is too long", key.len()))),
    }
}

fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend([byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
    }
}

/// A connection to a server, over any stream.
#[derive(Debug)]
pub(super) struct Connection<S> {
    stream: S,
    request: Vec<u8>,
    /// Bytes read are in `..filled`; bytes consumed in `..taken`.
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
}

fn lost(error: std::io::Error) -> Failure {
    let why = match error.kind() {
        // The error of a socket's timeout.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it says nothing".to_owned(),
        _ => error.to_string(),
    };
    Failure::system("lost the server of the cache", why)
}

/// An unexpected reply.
fn strange(request: &str, line: &[u8]) -> Failure {
    let line = String::from_utf8_lossy(&line[..line.len().min(100)]);
    Failure::new(format!("a strange reply to `{request}`: {line:?}"))
}

impl<S: Read + Write> Connection<S> {
    pub(super) fn new(stream: S) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self { stream, request: Vec::new(), buffer, taken: 0, filled: 0 }
    }

    /// Sets `key` to `value`; whether there was memory for it.
    pub(super) fn set(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.store(key, 0, value, &[NO_MEMORY])
    }

    /// Sets `key` to `value` with these flags; whether the server accepted it: it may lack memory,
    /// or the value may exceed its limit.
    pub(super) fn set_with_flags(&mut self, key: &[u8], flags: u32, value: &[u8]) -> Result<bool> {
        self.store(key, flags, value, &[NO_MEMORY, TOO_LARGE])
    }

    fn store(&mut self, key: &[u8], flags: u32, value: &[u8], refusals: &[&[u8]]) -> Result<bool> {
        self.begin(b"set ", key)?;
        write!(self.request, " {flags} 0 {}\r\n", value.len()).expect("a vector takes everything");
        let mut parts = [&self.request[..], value, b"\r\n"].map(IoSlice::new);
        write_all(&mut self.stream, &mut parts)?;
        match self.line()? {
            b"STORED" => Ok(true),
            line if refusals.iter().any(|refusal| line.starts_with(refusal)) => Ok(false),
            line => Err(strange("set", line)),
        }
    }

    /// Deletes `key`.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.begin(b"delete ", key)?;
        self.send()?;
        match self.line()? {
            b"DELETED" | b"NOT_FOUND" => Ok(()),
            line => Err(strange("delete", line)),
        }
    }

    /// Passes the value of `key` to `see`; whether it exists.
    pub(super) fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get_with_flags(key, &mut |_, value| see(value))
    }

    /// Passes the flags and the value of `key` to `see`; whether it exists.
    pub(super) fn get_with_flags(
        &mut self,
        key: &[u8],
        see: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<bool> {
        self.begin(b"get ", key)?;
        self.send()?;
        let asked = b"get ".len()..self.request.len() - b"\r\n".len();
        let line = self.line_range()?;
        let line = &self.buffer[line];
        if line == b"END" || line.starts_with(NO_MEMORY) {
            return Ok(false);
        }
        let header = flags_and_bytes(line, &self.request[asked]);
        let (flags, bytes) = header.ok_or_else(|| strange("get", line))?;
        let whole = self.bytes_range(bytes + VALUE_END.len())?;
        let (value, end) = self.buffer[whole].split_at(bytes);
        if end != VALUE_END {
            return Err(strange("get", end));
        }
        see(flags, value);
        Ok(true)
    }

    /// Stores `sets`, keys and values, and then requests `gets`, all in one write, with keys as
    /// they are in the protocol; reports for each get in turn whether it was a hit. Returns whether
    /// there was memory for all of `sets`.
    pub(super) fn exchange<'a>(
        &mut self,
        sets: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        gets: impl Iterator<Item = &'a [u8]>,
        see: &mut dyn FnMut(bool),
    ) -> Result<bool> {
        self.start_reply()?;
        self.request.clear();
        let (mut stores, mut asks) = (0, 0);
        for (key, value) in sets {
            self.request.extend([b"set ", key].concat());
            write!(self.request, " 0 0 {}\r\n", value.len()).expect("a vector takes everything");
            self.request.extend(value);
            self.request.extend(b"\r\n");
            stores += 1;
        }
        for key in gets {
            for part in [b"get ", key, b"\r\n"] {
                self.request.extend(part);
            }
            asks += 1;
        }
        write_all(&mut self.stream, &mut [IoSlice::new(&self.request)])?;
        let mut has_memory = true;
        for _ in 0..stores {
            match self.line()? {
                b"STORED" => {}
                line if line.starts_with(NO_MEMORY) => has_memory = false,
                line => return Err(strange("set", line)),
            }
        }
        for _ in 0..asks {
            see(self.is_found()?);
        }
        Ok(has_memory)
    }

    /// Skips a reply to a get; whether it has a value.
    fn is_found(&mut self) -> Result<bool> {
        let line = self.line()?;
        if line == b"END" {
            return Ok(false);
        }
        let bytes = std::str::from_utf8(line).ok().and_then(|line| {
            line.strip_prefix("VALUE ")?.rsplit(' ').next()?.parse::<usize>().ok()
        });
        let bytes = bytes.filter(|&bytes| bytes <= VALUE_BYTES_MAX);
        let bytes = bytes.ok_or_else(|| strange("get", line))?;
        let whole = self.bytes_range(bytes + VALUE_END.len())?;
        match &self.buffer[whole][bytes..] {
            VALUE_END => Ok(true),
            end => Err(strange("get", end)),
        }
    }

    /// The numeric statistics of the server, by name.
    pub(super) fn stats(&mut self) -> Result<BTreeMap<String, u64>> {
        self.stats_of("")
    }

    /// The same for a group of statistics.
    pub(super) fn stats_of(&mut self, part: &str) -> Result<BTreeMap<String, u64>> {
        self.request.clear();
        write!(self.request, "stats {part}").expect("a vector takes everything");
        self.request.truncate(self.request.trim_ascii_end().len());
        self.request.extend(b"\r\n");
        self.start_reply()?;
        write_all(&mut self.stream, &mut [IoSlice::new(&self.request)])?;
        let mut stats = BTreeMap::new();
        for _ in 0..STATS_MAX {
            let line = self.line()?;
            if line == b"END" {
                return Ok(stats);
            }
            let text = std::str::from_utf8(line).map_err(|_| strange("stats", line))?;
            let pair = text.strip_prefix("STAT ").and_then(|rest| rest.split_once(' '));
            let (name, value) = pair.ok_or_else(|| strange("stats", line))?;
            if let Ok(value) = value.parse() {
                stats.insert(name.to_owned(), value);
            }
        }
        Err(Failure::new("the server of the cache has no end of `stats`"))
    }

    /// Begins a request for `key`.
    fn begin(&mut self, command: &[u8], key: &[u8]) -> Result<()> {
        self.start_reply()?;
        self.request.clear();
        self.request.extend(command);
        print_key(key, &mut self.request)
    }

    fn send(&mut self) -> Result<()> {
        self.request.extend(b"\r\n");
        write_all(&mut self.stream, &mut [IoSlice::new(&self.request)])
    }

    /// Prepares for the next reply; the previous one must be consumed.
    fn start_reply(&mut self) -> Result<()> {
        let left = &self.buffer[self.taken..self.filled];
        if !left.is_empty() {
            return Err(strange("nothing", left));
        }
        (self.taken, self.filled) = (0, 0);
        Ok(())
    }

    /// The next line, without its end.
    fn line(&mut self) -> Result<&[u8]> {
        let line = self.line_range()?;
        Ok(&self.buffer[line])
    }

    fn line_range(&mut self) -> Result<std::ops::Range<usize>> {
        let mut looked_at = self.taken;
        loop {
            let unseen = &self.buffer[looked_at..self.filled];
            if let Some(at) = unseen.iter().position(|&byte| byte == b'\n') {
                let (from, end) = (self.taken, looked_at + at);
                self.taken = end + 1;
                let has_return = end > from && self.buffer[end - 1] == b'\r';
                return Ok(from..end - usize::from(has_return));
            }
            looked_at = self.filled;
            if self.filled - self.taken > LINE_BYTES_MAX {
                return Err(strange("a request", &self.buffer[self.taken..self.filled]));
            }
            self.fill(LINE_BYTES_MAX)?;
        }
    }

    /// The next bytes, of this number.
    fn bytes_range(&mut self, bytes: usize) -> Result<std::ops::Range<usize>> {
        while self.filled - self.taken < bytes {
            self.fill(bytes - (self.filled - self.taken))?;
        }
        let from = self.taken;
        self.taken += bytes;
        Ok(from..from + bytes)
    }

    /// Reads available bytes, with room for at least this number.
    fn fill(&mut self, room: usize) -> Result<()> {
        if self.buffer.len() < self.filled + room {
            self.buffer.resize(self.filled + room, 0);
        }
        loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err(lost(ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => {
                    self.filled += bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
    }
}

/// Flags and length in a line `VALUE key flags length`, if it is one and of this key.
fn flags_and_bytes(line: &[u8], key: &[u8]) -> Option<(u32, usize)> {
    let rest = line.strip_prefix(b"VALUE ")?.strip_prefix(key)?.strip_prefix(b" ")?;
    let (flags, bytes) = std::str::from_utf8(rest).ok()?.split_once(' ')?;
    let bytes = bytes.parse().ok().filter(|&bytes| bytes <= VALUE_BYTES_MAX)?;
    Some((flags.parse().ok()?, bytes))
}

/// Writes all of `parts`, in one call if the stream accepts it.
fn write_all(stream: &mut impl Write, mut parts: &mut [IoSlice<'_>]) -> Result<()> {
    // Empty parts would write no bytes.
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match stream.write_vectored(parts) {
            Ok(0) => return Err(lost(ErrorKind::WriteZero.into())),
            Ok(bytes) => IoSlice::advance_slices(&mut parts, bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(lost(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
