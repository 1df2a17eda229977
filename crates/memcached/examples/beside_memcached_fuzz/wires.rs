//! Connections to a server, and replies.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::{Result, frames, replies};

/// A server that has said nothing for this long waits for more bytes.
const SILENCE: Duration = Duration::from_secs(3);
/// Between the two parts of a request.
const GAP: Duration = Duration::from_millis(2);

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// With the meta commands.
    Text,
    Binary,
}

/// How a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The server has answered the next request, too.
    Complete,
    /// It has closed the connection.
    Closed,
    /// It waits for more bytes.
    Silent,
}

/// A reply to one or several requests.
#[derive(Debug)]
pub struct Reply {
    protocol: Protocol,
    pub bytes: Vec<u8>,
    pub end: End,
}

impl Reply {
    /// Whether both servers have given the same reply to `request`.
    pub fn is_like(&self, ours: &Self, request: &[u8]) -> bool {
        self.end == ours.end
            && match self.protocol {
                Protocol::Text => replies::are_alike(request, &self.bytes, &ours.bytes),
                Protocol::Binary => self.bytes == ours.bytes,
            }
    }

    /// The versions in it.
    pub fn versions(&self) -> Vec<u64> {
        match self.protocol {
            Protocol::Text => replies::versions(&self.bytes),
            Protocol::Binary => frames::versions(&self.bytes),
        }
    }

    /// It as text.
    pub fn shown(&self) -> String {
        let text = match self.protocol {
            Protocol::Text => replies::shortened(&self.bytes, 1000),
            Protocol::Binary => frames::shown(&self.bytes),
        };
        match self.end {
            End::Complete => text,
            End::Closed => format!("{text}<closed>"),
            End::Silent => format!("{text}<waits>"),
        }
    }
}

/// A connection to a server.
pub struct Wire {
    port: u16,
    protocol: Protocol,
    stream: TcpStream,
    /// Requests so far.
    count: u64,
}

impl Wire {
    /// Connects to the server at `port` of this machine.
    pub fn connect(port: u16, protocol: Protocol) -> Result<Self> {
        Ok(Self { port, protocol, stream: Self::stream(port)?, count: 0 })
    }

    fn stream(port: u16) -> Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_millis(100)))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Replaces the connection by another one.
    pub fn connect_again(&mut self) -> Result<()> {
        self.stream = Self::stream(self.port)?;
        Ok(())
    }

    /// Sends a request, in two parts if there is a `cut`, and receives its reply.
    pub fn ask(&mut self, bytes: &[u8], cut: usize) -> Result<Reply> {
        self.count += 1;
        let (behind, last) = match self.protocol {
            Protocol::Text => {
                let miss = format!("mg . O{}\r\n", self.count);
                (miss.into_bytes(), format!("EN O{}\r\n", self.count).into_bytes())
            }
            Protocol::Binary => {
                let mut reply = frames::last();
                reply[0] = 0x81;
                (frames::last(), reply)
            }
        };
        let (first, second) = bytes.split_at(cut);
        if cut > 0 {
            let _ = self.stream.write_all(first);
            std::thread::sleep(GAP);
        }
        // The server may close while this sends.
        let _ = self.stream.write_all(&[second, &behind].concat());
        let mut reply = Vec::new();
        let end = self.read(&mut reply, &last)?;
        if end == End::Complete {
            reply.truncate(reply.len() - last.len());
        }
        Ok(Reply { protocol: self.protocol, bytes: reply, end })
    }

    /// Reads until `last` comes.
    fn read(&mut self, reply: &mut Vec<u8>, last: &[u8]) -> Result<End> {
        let mut part = vec![0; 64 << 10];
        let mut heard = Instant::now();
        while !reply.ends_with(last) {
            match self.stream.read(&mut part) {
                Ok(0) => return Ok(End::Closed),
                Ok(count) => {
                    reply.extend_from_slice(&part[..count]);
                    heard = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(End::Closed),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if heard.elapsed() > SILENCE {
                        return Ok(End::Silent);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(End::Complete)
    }
}
