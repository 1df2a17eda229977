//! Tab-separated text: a line for each record, key, tab, value.
//!
//! In both, a tab, newline, carriage return and backslash are written `\t`, `\n`,
//! `\r` and `\\`; all other bytes are unchanged, so every key and value
//! survives byte for byte. The format has no expiry times. The reader treats an
//! unescaped carriage return at the end of a line as part of the line end.

use std::io::{BufRead, Write};

use tidekv::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use super::lines::Lines;
use super::record::{ReadError, Record, RecordLimits, RecordReader, RecordWriter};

/// Every byte escaped, and the tab.
const LINE_BYTES_MAX: usize = 2 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) + 1;

/// Appends `bytes` with escapes to `out`.
pub fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            _ => out.push(byte),
        }
    }
}

/// Writes `text` without escapes to `out`; the error describes the malformed escape.
fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        out.push(match rest.get(at + 1) {
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'\\') => b'\\',
            Some(other) => {
                let other = other.escape_ascii();
                return Err(format!("has the unknown escape \\{other}: write a backslash as \\\\"));
            }
            None => return Err("ends with a lone backslash: write it as \\\\".into()),
        });
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Reads tab-separated records.
pub struct TsvReader<'a> {
    lines: Lines<'a>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'a> TsvReader<'a> {
    /// The records of `input`.
    pub fn new(input: Box<dyn BufRead + 'a>, limits: RecordLimits) -> Self {
        let lines = Lines::new(input, LINE_BYTES_MAX.min(limits.line_bytes));
        Self { lines, key: Vec::new(), value: Vec::new() }
    }
}

impl RecordReader for TsvReader<'_> {
    fn advance(&mut self) -> Result<bool, ReadError> {
        if !self.lines.advance()? {
            return Ok(false);
        }
        let line = self.lines.line();
        let bad = |what: &str| ReadError::Bad(format!("line {} {what}", self.lines.number()));
        let tab = line.iter().position(|&byte| byte == b'\t');
        let tab = tab.ok_or_else(|| bad("has no tab between key and value"))?;
        let (key, value) = (&line[..tab], &line[tab + 1..]);
        if value.contains(&b'\t') {
            return Err(bad("has a second tab: write a tab inside a value as \\t"));
        }
        unescape(key, &mut self.key).map_err(|what| bad(&what))?;
        unescape(value, &mut self.value).map_err(|what| bad(&what))?;
        Ok(true)
    }

    fn record(&self) -> Record<'_> {
        Record { key: &self.key, value: &self.value, expires_at_ms: None }
    }

    fn place(&self) -> String {
        format!("line {}", self.lines.number())
    }

    fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }
}

/// Writes tab-separated records.
#[derive(Default)]
pub struct TsvWriter {
    line: Vec<u8>,
}

impl RecordWriter for TsvWriter {
    fn write(&mut self, out: &mut dyn Write, record: Record<'_>) -> std::io::Result<()> {
        self.line.clear();
        escape(record.key, &mut self.line);
        self.line.push(b'\t');
        escape(record.value, &mut self.line);
        self.line.push(b'\n');
        out.write_all(&self.line)
    }
}
