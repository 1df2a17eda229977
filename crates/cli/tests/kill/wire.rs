//! A simple client of the Redis protocol over a Unix socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A reply of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Text(String),
    Nil,
    Number(i64),
    Many(Vec<Reply>),
    Error(String),
}

impl Reply {
    /// The text of a text reply.
    #[track_caller]
    pub fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => panic!("{other:?} is not text"),
        }
    }

    /// The replies inside.
    #[track_caller]
    pub fn many(self) -> Vec<Self> {
        match self {
            Self::Many(replies) => replies,
            other => panic!("{other:?} is not an array"),
        }
    }
}

/// The words of one request.
pub type Words = Vec<String>;

pub struct Client {
    reader: BufReader<UnixStream>,
}

impl Client {
    /// Connects to a server that answers.
    pub fn connect(socket: &Path) -> Option<Self> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let mut client = Self { reader: BufReader::new(stream) };
        let pong = client.ask(&["PING"])?;
        (pong == Reply::Text("PONG".into())).then_some(client)
    }

    /// Sends requests; false if the connection failed.
    pub fn send(&mut self, requests: &[Words]) -> bool {
        let mut out = Vec::new();
        for words in requests {
            write!(out, "*{}\r\n", words.len()).unwrap();
            for word in words {
                write!(out, "${}\r\n{word}\r\n", word.len()).unwrap();
            }
        }
        self.reader.get_mut().write_all(&out).is_ok()
    }

    /// The next reply; `None` if the server is gone.
    pub fn reply(&mut self) -> Option<Reply> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).ok()? == 0 || !line.ends_with("\r\n") {
            return None;
        }
        let rest = line[1..].trim_end();
        Some(match (line.as_bytes()[0], rest) {
            (b'$' | b'*', "-1") => Reply::Nil,
            (b'$', len) => {
                let len: usize = len.parse().unwrap();
                let mut body = vec![0; len + 2];
                self.reader.read_exact(&mut body).ok()?;
                Reply::Text(String::from_utf8_lossy(&body[..len]).into_owned())
            }
            (b'*', count) => {
                let count: usize = count.parse().unwrap();
                Reply::Many((0..count).map(|_| self.reply()).collect::<Option<_>>()?)
            }
            (b':', number) => Reply::Number(number.parse().unwrap()),
            (b'-', message) => Reply::Error(message.to_owned()),
            _ => Reply::Text(rest.to_owned()),
        })
    }

    /// Sends one request and waits for its reply.
    pub fn ask(&mut self, words: &[&str]) -> Option<Reply> {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        if self.send(&[words]) { self.reply() } else { None }
    }
}
