//! JSON lines: one object per record, with `key` and `value` as strings,
//! or `key_base64` and `value_base64` if the bytes are not UTF-8, and
//! `expires_at_ms` (milliseconds since 1970) if the entry expires.

use std::borrow::Cow;
use std::io::{BufRead, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tidekv::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

use super::lines::Lines;
use super::record::{ReadError, Record, RecordLimits, RecordReader, RecordWriter};

/// Every byte as `\u0000`, and the names.
const LINE_BYTES_MAX: usize = 6 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) + 4096;

#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    key_base64: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

/// The bytes as text, or as base64 if they are not UTF-8: one of the two.
pub fn text_or_base64(bytes: &[u8]) -> (Option<&str>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

/// Decodes base64, as in arguments.
pub fn parse_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("it is not valid base64: {error}"))
}

/// A record as one line, without its end.
pub fn to_json(record: Record<'_>) -> String {
    let (key, key_base64) = text_or_base64(record.key);
    let (value, value_base64) = text_or_base64(record.value);
    let line = Line {
        key: key.map(Cow::Borrowed),
        key_base64: key_base64.map(Cow::Owned),
        value: value.map(Cow::Borrowed),
        value_base64: value_base64.map(Cow::Owned),
        expires_at_ms: record.expires_at_ms,
    };
    serde_json::to_string(&line).expect("strings and numbers are always JSON")
}

/// A key alone as one line, without its end.
pub fn key_to_json(key: &[u8]) -> String {
    let (text, base64) = text_or_base64(key);
    let line = Line {
        key: text.map(Cow::Borrowed),
        key_base64: base64.map(Cow::Owned),
        ..Line::default()
    };
    serde_json::to_string(&line).expect("strings are always JSON")
}

/// Reads records from JSON lines.
pub struct JsonlReader<'a> {
    lines: Lines<'a>,
    key: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: Option<u64>,
}

impl<'a> JsonlReader<'a> {
    /// The records of `input`.
    pub fn new(input: Box<dyn BufRead + 'a>, limits: RecordLimits) -> Self {
        let lines = Lines::new(input, LINE_BYTES_MAX.min(limits.line_bytes));
        Self { lines, key: Vec::new(), value: Vec::new(), expires_at_ms: None }
    }
}

/// Writes the present one of the two forms to `out`.
fn take(
    name: &str,
    text: Option<Cow<'_, str>>,
    base64: Option<Cow<'_, str>>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    out.clear();
    match (text, base64) {
        (Some(text), None) => out.extend_from_slice(text.as_bytes()),
        (None, Some(base64)) => STANDARD
            .decode_vec(base64.as_bytes(), out)
            .map_err(|error| format!("has a {name}_base64 that is not base64: {error}"))?,
        (None, None) => return Err(format!("has neither {name} nor {name}_base64")),
        (Some(_), Some(_)) => return Err(format!("has both {name} and {name}_base64")),
    }
    Ok(())
}

impl RecordReader for JsonlReader<'_> {
    fn advance(&mut self) -> Result<bool, ReadError> {
        if !self.lines.advance()? {
            return Ok(false);
        }
        let bad = |what: String| ReadError::Bad(format!("line {} {what}", self.lines.number()));
        let line: Line<'_> = serde_json::from_slice(self.lines.line()).map_err(|error| {
            let (column, text) = (error.column(), error.to_string());
            let text = text.split(" at line ").next().unwrap_or_default();
            bad(format!("is not a record in JSON (column {column}): {text}"))
        })?;
        self.expires_at_ms = line.expires_at_ms;
        take("key", line.key, line.key_base64, &mut self.key).map_err(bad)?;
        take("value", line.value, line.value_base64, &mut self.value).map_err(bad)?;
        Ok(true)
    }

    fn record(&self) -> Record<'_> {
        Record { key: &self.key, value: &self.value, expires_at_ms: self.expires_at_ms }
    }

    fn place(&self) -> String {
        format!("line {}", self.lines.number())
    }

    fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }
}

/// Writes records as JSON lines.
#[derive(Default)]
pub struct JsonlWriter;

impl RecordWriter for JsonlWriter {
    fn write(&mut self, out: &mut dyn Write, record: Record<'_>) -> std::io::Result<()> {
        out.write_all(to_json(record).as_bytes())?;
        out.write_all(b"\n")
    }
}
