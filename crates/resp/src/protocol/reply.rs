//! Replies of commands, and their encoding in RESP2 and RESP3.
//!
//! A [`Reply`] is a tree independent of the protocol version; [`ReplyBuffer`] encodes it in the
//! version of the client. RESP2 lacks some types: a map or a set becomes an array, and a null the
//! null of its context.
//!
//! Guarantees: the encoding is well-formed for any strings (line ends are removed from messages); a
//! large value is not copied.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tidekv_net::outgoing::Outgoing;

/// The elements of a [`Streamed`] reply that are in memory at a time, about.
pub(crate) const STREAMED_BYTES: usize = 64 << 10;

/// The protocol version of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    /// RESP2, the default.
    #[default]
    Two,
    /// RESP3, after `HELLO 3`.
    Three,
}

/// The error of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// The command must wait for storage, which the event loop must not do.
    WouldBlock,
    /// The command creates the first head of the store: it must run again, once that is announced.
    FirstHead,
    /// The reply, with those before it, takes this many bytes: more than are reserved. The command
    /// has written nothing.
    NeedsMemory(usize),
    /// An error for the client: an error code in capitals, a space, a sentence.
    Message(Cow<'static, str>),
}

/// The error of a request, a write or a reply that does not fit, with the words of Redis.
pub(crate) const OUT_OF_MEMORY: CommandError =
    CommandError::text("OOM command not allowed when used memory > 'maxmemory'.");

impl CommandError {
    pub(crate) const fn text(message: &'static str) -> Self {
        Self::Message(Cow::Borrowed(message))
    }

    /// Whether it is no answer: the command has written nothing and must run again.
    pub(crate) fn must_run_again(&self) -> bool {
        !matches!(self, Self::Message(_))
    }

    /// Whether it discards the transaction at once: the error of an invalid `EXEC`.
    pub(crate) fn discards_transaction(&self) -> bool {
        matches!(self, Self::Message(message) if message.starts_with("EXECABORT"))
    }
}

impl From<String> for CommandError {
    fn from(message: String) -> Self {
        Self::Message(Cow::Owned(message))
    }
}

impl From<tidekv::Error> for CommandError {
    fn from(error: tidekv::Error) -> Self {
        match error.kind() {
            tidekv::ErrorKind::OutOfMemory => OUT_OF_MEMORY,
            _ => Self::Message(Cow::Owned(format!("ERR {error}"))),
        }
    }
}

/// The result of a command.
pub(crate) type CommandResult = Result<Reply, CommandError>;

/// The reply to a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    /// A short text without line ends, like `OK`.
    Simple(&'static str),
    /// An error, starting with its code.
    Error(Cow<'static, str>),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Bytes),
    /// Text for people, in lines.
    Verbatim(String),
    /// A null bulk string.
    Null,
    /// A null array.
    NullArray,
    /// Replies in order.
    Array(Vec<Reply>),
    /// Replies in no particular order.
    Set(Vec<Reply>),
    /// Keys and values.
    Map(Vec<(Reply, Reply)>),
    /// A sequence or a long string that is produced while it is sent; not within another type.
    Streamed(Arc<Streamed>),
}

/// The type of a sequence of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SequenceKind {
    Array,
    /// Its elements are keys and values in turn.
    Map,
}

/// The type of a [`Streamed`] reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamedKind {
    Sequence(SequenceKind),
    /// A bulk string; its elements are pieces of it.
    Bulk,
}

impl SequenceKind {
    /// The reply with `elements`.
    pub(crate) fn reply(self, elements: Vec<Reply>) -> Reply {
        match self {
            Self::Array => Reply::Array(elements),
            Self::Map => {
                let mut elements = elements.into_iter();
                let pairs = std::iter::from_fn(|| Some((elements.next()?, elements.next()?)));
                Reply::Map(pairs.collect())
            }
        }
    }
}

/// A sequence or a string of known length whose elements are produced while they are sent.
pub(crate) struct Streamed {
    kind: StreamedKind,
    elements: Mutex<Elements>,
}

/// The elements of a sequence that are still to be sent.
struct Elements {
    source: Box<dyn Iterator<Item = CommandResult> + Send>,
    /// Their number, or their bytes if they are pieces of a string.
    left: u64,
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// No two are equal.
impl PartialEq for Streamed {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Streamed {
    /// A reply with the first `count` elements of `source`.
    pub(crate) fn reply(
        kind: SequenceKind,
        count: u64,
        source: impl Iterator<Item = CommandResult> + Send + 'static,
    ) -> Reply {
        Self::of(StreamedKind::Sequence(kind), count, source)
    }

    fn of(
        kind: StreamedKind,
        left: u64,
        source: impl Iterator<Item = CommandResult> + Send + 'static,
    ) -> Reply {
        let elements = Mutex::new(Elements { source: Box::new(source), left });
        Reply::Streamed(Arc::new(Self { kind, elements }))
    }

    /// A bulk string of `len` bytes with the pieces of `source`.
    pub(crate) fn bulk(
        len: u64,
        source: impl Iterator<Item = CommandResult> + Send + 'static,
    ) -> Reply {
        Self::of(StreamedKind::Bulk, len, source)
    }

    /// The next elements, of about [`STREAMED_BYTES`]; none at the end. May wait for storage.
    ///
    /// # Errors
    ///
    /// If an element cannot be read, or there are fewer or more than were announced. The reply
    /// cannot be completed then.
    pub(crate) fn next(&self) -> Result<Vec<Reply>, CommandError> {
        const WRONG_COUNT: CommandError =
            CommandError::text("ERR the number of elements has changed while they were sent");
        let mut elements = self.elements.lock();
        let mut next = Vec::new();
        let mut produced = 0;
        while elements.left > 0 && produced < STREAMED_BYTES {
            let element = elements.source.next().ok_or(WRONG_COUNT)??;
            produced += element.bytes_len();
            let counted = match (self.kind, &element) {
                (StreamedKind::Bulk, Reply::Bulk(piece)) => piece.len() as u64,
                _ => 1,
            };
            elements.left = elements.left.checked_sub(counted).ok_or(WRONG_COUNT)?;
            next.push(element);
        }
        if next.is_empty() && elements.source.next().is_some() {
            return Err(WRONG_COUNT);
        }
        Ok(next)
    }
}

impl Reply {
    pub(crate) const OK: Self = Self::Simple("OK");

    /// A bulk string of static text.
    pub(crate) const fn word(text: &'static str) -> Self {
        Self::Bulk(Bytes::from_static(text.as_bytes()))
    }

    /// A bulk string.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Bulk(Bytes::from(text.into()))
    }

    /// A bulk string, or null.
    pub(crate) fn bulk_or_null(bytes: Option<Bytes>) -> Self {
        bytes.map_or(Self::Null, Self::Bulk)
    }

    /// 1 or 0.
    pub(crate) fn flag(on: bool) -> Self {
        Self::Integer(i64::from(on))
    }

    /// A count.
    pub(crate) fn count(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// The approximate size of the reply in memory and on the wire.
    pub(crate) fn bytes_len(&self) -> usize {
        let of_all = |replies: &[Self]| replies.iter().map(Self::bytes_len).sum::<usize>();
        size_of::<Self>()
            + match self {
                Self::Bulk(bytes) => bytes.len(),
                Self::Verbatim(text) => text.len(),
                Self::Error(text) => text.len(),
                Self::Array(replies) | Self::Set(replies) => of_all(replies),
                Self::Map(pairs) => pairs.iter().map(|(k, v)| k.bytes_len() + v.bytes_len()).sum(),
                Self::Streamed(_) => STREAMED_BYTES,
                _ => 0,
            }
    }
}

impl From<CommandError> for Reply {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Message(message) => Self::Error(message),
            // The callers that ask for these errors handle them.
            CommandError::WouldBlock | CommandError::FirstHead | CommandError::NeedsMemory(_) => {
                unreachable!("the command must run again")
            }
        }
    }
}

impl From<CommandResult> for Reply {
    fn from(result: CommandResult) -> Self {
        result.unwrap_or_else(Self::from)
    }
}

/// Encoded replies to be sent.
#[derive(Debug, Default)]
pub(crate) struct ReplyBuffer(Outgoing);

impl Deref for ReplyBuffer {
    type Target = Outgoing;

    fn deref(&self) -> &Outgoing {
        &self.0
    }
}

impl DerefMut for ReplyBuffer {
    fn deref_mut(&mut self) -> &mut Outgoing {
        &mut self.0
    }
}

impl ReplyBuffer {
    /// Appends the encoding of `reply`.
    pub(crate) fn push(&mut self, reply: &Reply, protocol: Protocol) {
        let resp3 = protocol == Protocol::Three;
        match reply {
            Reply::Simple(text) => self.line(b'+', text),
            Reply::Error(text) if text.contains(['\r', '\n']) => {
                self.line(b'-', &text.replace(['\r', '\n'], " "));
            }
            Reply::Error(text) => self.line(b'-', text),
            Reply::Integer(number) => self.number(b':', *number),
            Reply::Bulk(bytes) => self.bulk(bytes),
            Reply::Verbatim(text) if resp3 => {
                self.header(b'=', text.len() + 4);
                self.0.put(b"txt:");
                self.0.put(text.as_bytes());
                self.0.put(b"\r\n");
            }
            Reply::Verbatim(text) => {
                self.header(b'$', text.len());
                self.0.put(text.as_bytes());
                self.0.put(b"\r\n");
            }
            Reply::Null | Reply::NullArray if resp3 => self.0.put(b"_\r\n"),
            Reply::Null => self.0.put(b"$-1\r\n"),
            Reply::NullArray => self.0.put(b"*-1\r\n"),
            Reply::Array(replies) => self.sequence(b'*', replies, protocol),
            // The connection sends the elements.
            Reply::Streamed(streamed) => {
                let count = streamed.elements.lock().left as usize;
                match streamed.kind {
                    StreamedKind::Sequence(SequenceKind::Map) if resp3 => {
                        self.header(b'%', count / 2);
                    }
                    StreamedKind::Sequence(_) => self.header(b'*', count),
                    StreamedKind::Bulk => self.header(b'$', count),
                }
            }
            Reply::Set(replies) => {
                self.sequence(if resp3 { b'~' } else { b'*' }, replies, protocol);
            }
            Reply::Map(pairs) => {
                let (kind, count) =
                    if resp3 { (b'%', pairs.len()) } else { (b'*', 2 * pairs.len()) };
                self.header(kind, count);
                for (key, value) in pairs {
                    self.push(key, protocol);
                    self.push(value, protocol);
                }
            }
        }
    }

    /// Appends an element of `streamed`, whose head was pushed.
    pub(crate) fn push_element(
        &mut self,
        streamed: &Streamed,
        element: &Reply,
        protocol: Protocol,
    ) {
        match (streamed.kind, element) {
            (StreamedKind::Bulk, Reply::Bulk(piece)) => self.0.put_value(piece),
            _ => self.push(element, protocol),
        }
    }

    /// Appends the end of `streamed`, all of whose elements were pushed.
    pub(crate) fn push_end(&mut self, streamed: &Streamed) {
        if streamed.kind == StreamedKind::Bulk {
            self.0.put(b"\r\n");
        }
    }

    fn sequence(&mut self, kind: u8, replies: &[Reply], protocol: Protocol) {
        self.header(kind, replies.len());
        for reply in replies {
            self.push(reply, protocol);
        }
    }

    fn bulk(&mut self, bytes: &Bytes) {
        self.header(b'$', bytes.len());
        self.0.put_value(bytes);
        self.0.put(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.0.put(&[kind]);
        self.0.put(text.as_bytes());
        self.0.put(b"\r\n");
    }

    fn header(&mut self, kind: u8, count: usize) {
        self.number(kind, count as i64);
    }

    fn number(&mut self, kind: u8, number: i64) {
        self.0.put(&[kind]);
        self.0.put(itoa::Buffer::new().format(number).as_bytes());
        self.0.put(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;
    use tidekv_net::outgoing::UNCOPIED_BYTES_MIN;

    fn front(buffer: &ReplyBuffer) -> Vec<u8> {
        let mut slices = [IoSlice::new(b"")];
        buffer.front(&mut slices);
        slices[0].to_vec()
    }

    fn written(reply: &Reply, protocol: Protocol) -> String {
        let mut buffer = ReplyBuffer::default();
        buffer.push(reply, protocol);
        let mut all = Vec::new();
        while !buffer.is_empty() {
            // A socket accepts any number of bytes.
            let mut taken = front(&buffer);
            taken.truncate(3);
            all.extend_from_slice(&taken);
            buffer.advance(taken.len());
        }
        buffer.shrink();
        assert_eq!(buffer.len(), 0);
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn each_type_is_encoded_in_both_versions() {
        let map = Reply::Map(vec![(Reply::word("a"), Reply::Integer(-1))]);
        for (reply, two, three) in [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::NullArray, "*-1\r\n", "_\r\n"),
            (map, "*2\r\n$1\r\na\r\n:-1\r\n", "%1\r\n$1\r\na\r\n:-1\r\n"),
            (Reply::Set(vec![Reply::OK]), "*1\r\n+OK\r\n", "~1\r\n+OK\r\n"),
            (Reply::Verbatim("hi".into()), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (Reply::Error("ERR a\r\nb".into()), "-ERR a  b\r\n", "-ERR a  b\r\n"),
        ] {
            assert_eq!(written(&reply, Protocol::Two), two);
            assert_eq!(written(&reply, Protocol::Three), three);
        }
    }

    #[test]
    fn large_values_are_pieces_of_their_own() {
        let value = Bytes::from(vec![b'x'; UNCOPIED_BYTES_MIN]);
        let mut buffer = ReplyBuffer::default();
        buffer.push(&Reply::Array(vec![Reply::Bulk(value.clone()), Reply::OK]), Protocol::Two);
        assert_eq!(buffer.len(), value.len() + "*1\r\n$16384\r\n\r\n+OK\r\n".len());
        assert_eq!(front(&buffer), b"*2\r\n$16384\r\n");
        let sent = front(&buffer).len();
        buffer.advance(sent);
        assert_eq!(front(&buffer), value);
        let sent = front(&buffer).len();
        buffer.advance(sent);
        assert_eq!(front(&buffer), b"\r\n+OK\r\n");
        // Bytes added while a part of the tail is sent follow it.
        buffer.advance(2);
        buffer.push(&Reply::Bulk(value.clone()), Protocol::Two);
        assert_eq!(buffer.len(), "+OK\r\n$16384\r\n\r\n".len() + value.len());
        assert_eq!(front(&buffer), b"+OK\r\n$16384\r\n");
    }
}
