//! A running server process for tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::run::Done;

/// A server that has printed its addresses; killed on drop.
pub struct Serving {
    pub child: Child,
    pub line: String,
}

impl Serving {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line:?}");
        Self { child, line }
    }

    /// The first address in its greeting.
    pub fn address(&self) -> &str {
        self.line["listening on ".len()..].split([';', ',']).next().unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).unwrap()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    pub fn wait(mut self) -> Done {
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Done { code, out: Vec::new(), err }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a command and returns the first line of its reply.
pub fn ask(stream: &mut (impl Read + Write), words: &[&str]) -> String {
    stream.write_all(format!("{}\r\n", words.join(" ")).as_bytes()).unwrap();
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "cut off after {line:?}");
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}
