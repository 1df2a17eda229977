//! The result of an operation, as bytes: two results are equal if and only if their bytes are.

use tidekv::ErrorKind;
use xxhash_rust::xxh3::xxh3_64;

/// The result of an operation.
#[derive(Debug, Default)]
pub struct Answer(Vec<u8>);

impl Answer {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn word(&mut self, word: &str) {
        self.0.extend_from_slice(word.as_bytes());
        self.0.push(b' ');
    }

    pub fn number(&mut self, number: i64) {
        self.0.push(b'#');
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    /// A value and its deadline.
    pub fn value(&mut self, value: &[u8], deadline_ms: Option<u64>) {
        self.0.push(b'=');
        self.bytes(value);
        self.0.extend_from_slice(&deadline_ms.unwrap_or(u64::MAX).to_le_bytes());
    }

    pub fn entry(&mut self, entry: Option<(&[u8], Option<u64>)>) {
        match entry {
            Some((value, deadline)) => self.value(value, deadline),
            None => self.0.push(b'-'),
        }
    }

    /// An entry of an iteration.
    pub fn item(&mut self, key: &[u8], value: &[u8], deadline_ms: Option<u64>) {
        self.0.push(b'>');
        self.bytes(key);
        self.value(value, deadline_ms);
    }

    pub fn error(&mut self, kind: ErrorKind) {
        self.word(match kind {
            ErrorKind::InvalidInput => "invalid",
            _ => "failed",
        });
    }

    pub fn hash(&self) -> u64 {
        xxh3_64(&self.0)
    }

    /// For people: as text, with unprintable bytes escaped, truncated if long.
    pub fn text(&self) -> String {
        let shown = &self.0[..self.0.len().min(600)];
        let more = if shown.len() < self.0.len() { "…" } else { "" };
        format!("{} bytes: {}{more}", self.0.len(), shown.escape_ascii())
    }
}
