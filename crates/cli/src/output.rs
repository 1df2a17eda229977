//! The output of commands: lines, and keys in them.

use std::io::{IsTerminal, Write};

use crate::failure::{Failure, Result};
use crate::formats::jsonl::text_or_base64;
use crate::terminal::{Standard, shown};

/// Prints `text` and a newline.
pub fn line(text: &str) -> Result<()> {
    let mut out = Standard::output();
    // Together: the lines of several threads do not mix.
    out.write_all(format!("{text}\n").as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output(&error))
}

/// Prints `bytes`, unchanged unless it is on a terminal.
pub fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = Standard::output();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

/// Prints a message on standard error.
pub fn warn(text: &str) {
    let mut out = std::io::stderr();
    let text = if out.is_terminal() { shown(text.as_bytes()) } else { text.to_owned() };
    // Standard error may be closed; the output is complete without the message.
    let _ = writeln!(out, "tidekv: {text}");
}

/// Adds bytes to a JSON object: as text under `name`, or as base64 under
/// `name_base64`.
pub fn put_bytes(
    object: &mut serde_json::Map<String, serde_json::Value>,
    name: &str,
    bytes: &[u8],
) {
    match text_or_base64(bytes) {
        (Some(text), _) => object.insert(name.into(), text.into()),
        (None, base64) => object.insert(format!("{name}_base64"), base64.into()),
    };
}

/// Formats a key for display: quoted, other than printable characters escaped, at most its first
/// 40 bytes.
pub fn show_key(key: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    let shown = &key[..key.len().min(SHOWN_BYTES_MAX)];
    let more = if shown.len() < key.len() { "…" } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
}
