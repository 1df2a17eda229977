//! A client of the Redis protocol over TCP. It keeps no values, neither those that it sends nor those
//! that it receives, so that many clients with large values take little memory.
//!
//! A connection must not be used after an error: the next bytes may belong to the previous reply.
//! One thread at a time may use a [`Client`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

use crate::load::dice::Dice;

/// The timeout of a reply, and of sending.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that values are made of, again and again.
const FILLER_BYTES: usize = 1 << 20;

const BUFFER_BYTES: usize = 16 << 10;

/// The beginning of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// A status, a value or a list of values.
    Something,
    Nothing,
    Integer(i64),
    Error(String),
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) said: Said,
    /// Its length in the protocol.
    pub(crate) bytes: u64,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// Bytes read are in `..filled`; bytes consumed in `..taken`.
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
}

/// Random bytes: values of one client are equal, and do not compress.
pub(crate) fn filler() -> &'static [u8] {
    static FILLER: OnceLock<Vec<u8>> = OnceLock::new();
    FILLER.get_or_init(|| {
        let mut dice = Dice::new(0xF111);
        (0..FILLER_BYTES / 8).flat_map(|_| dice.next().to_le_bytes()).collect()
    })
}

impl Client {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let buffer = vec![0; BUFFER_BYTES];
        Ok(Self { stream, request: Vec::new(), buffer, taken: 0, filled: 0 })
    }

    /// Sends a request and awaits its reply.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> io::Result<Answer> {
        self.send(words)?;
        self.answer()
    }

    /// The same for words separated by spaces.
    pub(crate) fn ask_line(&mut self, line: &str) -> io::Result<Answer> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.ask(&words)
    }

    /// Sends a request and awaits its reply; its last word has `value_bytes` bytes.
    pub(crate) fn ask_with_value(
        &mut self,
        words: &[&[u8]],
        value_bytes: u64,
    ) -> io::Result<Answer> {
        self.begin(words, value_bytes)?;
        let mut left = value_bytes;
        while left > 0 {
            let some = left.min(FILLER_BYTES as u64) as usize;
            self.stream.write_all(&filler()[..some])?;
            left -= some as u64;
        }
        self.stream.write_all(b"\r\n")?;
        self.answer()
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        self.request.clear();
        self.push(words);
        self.send_pushed()
    }

    /// Appends a request to those that [`Self::send_pushed`] sends.
    pub(crate) fn push(&mut self, words: &[&[u8]]) {
        self.push_head(words, words.len());
    }

    /// Sends the requests that were appended.
    pub(crate) fn send_pushed(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(&self.request);
        self.request.clear();
        sent
    }

    /// Sends a request up to the content of its last word, which has `value_bytes` bytes.
    pub(crate) fn begin(&mut self, words: &[&[u8]], value_bytes: u64) -> io::Result<()> {
        self.request.clear();
        self.push_head(words, words.len() + 1);
        self.request.extend(format!("${value_bytes}\r\n").bytes());
        self.send_pushed()
    }

    fn push_head(&mut self, words: &[&[u8]], count: usize) {
        self.request.extend(format!("*{count}\r\n").bytes());
        for word in words {
            self.request.extend(format!("${}\r\n", word.len()).bytes());
            self.request.extend(*word);
            self.request.extend(b"\r\n");
        }
    }

    /// Whether calls return at once, instead of waiting.
    pub(crate) fn set_waits(&self, waits: bool) -> io::Result<()> {
        self.stream.set_nonblocking(!waits)
    }

    /// Sends as many of `bytes` as the connection accepts at once.
    pub(crate) fn offer(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        }
    }

    /// Reads and forgets at most some KiB; 0: the connection is closed.
    pub(crate) fn sip(&mut self) -> io::Result<usize> {
        (self.taken, self.filled) = (0, 0);
        self.stream.read(&mut self.buffer)
    }

    /// Awaits a reply.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let (mut first, mut bytes, mut left) = (None, 0, 1_u64);
        while left > 0 {
            left -= 1;
            let line = self.line()?;
            bytes += line.len() as u64 + 2;
            let (kind, rest) = line.split_first().ok_or(ErrorKind::InvalidData)?;
            let number = || {
                let text = std::str::from_utf8(rest).map_err(|_| ErrorKind::InvalidData)?;
                text.parse::<i64>().map_err(|_| ErrorKind::InvalidData)
            };
            let said = match kind {
                b'-' => Said::Error(String::from_utf8_lossy(rest).into_owned()),
                b'+' => Said::Something,
                b':' => Said::Integer(number()?),
                b'$' | b'*' => match (number()?, kind) {
                    (..0, _) => Said::Nothing,
                    (length, b'$') => {
                        bytes += length as u64 + 2;
                        self.skip(length as u64 + 2)?;
                        Said::Something
                    }
                    (length, _) => {
                        left += length as u64;
                        Said::Something
                    }
                },
                _ => return Err(ErrorKind::InvalidData.into()),
            };
            first.get_or_insert(said);
        }
        Ok(Answer { said: first.unwrap_or(Said::Nothing), bytes })
    }

    /// The next line, without its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let some = &self.buffer[self.taken..self.filled];
            match some.iter().position(|&byte| byte == b'\n') {
                Some(at) => {
                    line.extend(&some[..at]);
                    self.taken += at + 1;
                    line.pop();
                    return Ok(line);
                }
                None => {
                    line.extend(some);
                    self.fill()?;
                }
            }
        }
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let mut left = bytes;
        loop {
            let some = left.min((self.filled - self.taken) as u64);
            self.taken += some as usize;
            left -= some;
            if left == 0 {
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// Reads more; the buffer has been consumed.
    fn fill(&mut self) -> io::Result<()> {
        loop {
            match self.sip() {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    self.filled = bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Up to the content of the value.
    const REQUEST: &[u8] = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$10\r\n";

    #[test]
    fn replies_are_told_apart_and_measured() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let replies = b"+OK\r\n-OOM no\r\n:-7\r\n$-1\r\n*2\r\n$3\r\na\r\n\r\n*1\r\n:5\r\n";
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = vec![0; REQUEST.len() + 12];
                stream.read_exact(&mut request).unwrap();
                stream.write_all(replies).unwrap();
                request
            });
            let mut client = Client::connect(port).unwrap();
            let first = client.ask_with_value(&[b"SET", b"key"], 10).unwrap();
            assert_eq!(first, Answer { said: Said::Something, bytes: 5 });
            let mut said = || client.answer().unwrap();
            assert_eq!(said().said, Said::Error("OOM no".into()));
            assert_eq!(said().said, Said::Integer(-7));
            assert_eq!(said().said, Said::Nothing);
            assert_eq!(said(), Answer { said: Said::Something, bytes: 21 });
            assert_eq!(client.answer().unwrap_err().kind(), ErrorKind::UnexpectedEof);
            let expected = [REQUEST, &filler()[..10], b"\r\n"].concat();
            assert_eq!(server.join().unwrap(), expected);
        });
    }
}
