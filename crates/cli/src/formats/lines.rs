//! Reads lines from a stream and counts them. A line ends with a newline or
//! with a carriage return and a newline; the last line may lack it. A line that is
//! too long takes no more memory than the longest one that is not: the rest of it is
//! read and dropped, and the next line can be read.

use std::io::{BufRead, ErrorKind, Read};

use super::record::ReadError;

/// Lines of a stream, one at a time.
pub struct Lines<'a> {
    input: Box<dyn BufRead + 'a>,
    line: Vec<u8>,
    number: u64,
    bytes_read: u64,
    bytes_max: u64,
}

impl<'a> Lines<'a> {
    /// Lines of at most `bytes_max` bytes.
    pub fn new(input: Box<dyn BufRead + 'a>, bytes_max: usize) -> Self {
        Self { input, line: Vec::new(), number: 0, bytes_read: 0, bytes_max: bytes_max as u64 }
    }

    /// Advances to the next line; false at the end.
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        self.line.clear();
        self.number += 1;
        let mut limited = (&mut self.input).take(self.bytes_max + 2);
        let read = limited.read_until(b'\n', &mut self.line);
        let bytes = read.map_err(|error| {
            ReadError::Broken(format!("line {} cannot be read: {error}", self.number))
        })?;
        self.bytes_read += bytes as u64;
        if bytes == 0 {
            return Ok(false);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        } else if bytes as u64 == self.bytes_max + 2 {
            self.drop_rest()?;
        }
        if self.line.len() as u64 > self.bytes_max {
            let (number, most) = (self.number, self.bytes_max);
            self.line = Vec::new();
            return Err(ReadError::Bad(format!(
                "line {number} is longer than {most} bytes, the maximum of a record with this memory \
                 budget"
            )));
        }
        Ok(true)
    }

    /// Reads to the end of the line without keeping it.
    fn drop_rest(&mut self) -> Result<(), ReadError> {
        loop {
            let number = self.number;
            let broken =
                |error| ReadError::Broken(format!("line {number} cannot be read: {error}"));
            let bytes = match self.input.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                bytes => bytes.map_err(broken)?,
            };
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let (count, is_end) = (end.map_or(bytes.len(), |end| end + 1), end.is_some());
            let is_end = is_end || bytes.is_empty();
            self.input.consume(count);
            self.bytes_read += count as u64;
            if is_end {
                return Ok(());
            }
        }
    }

    /// The line, without its end.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Its number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}
