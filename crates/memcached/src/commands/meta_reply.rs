//! The replies of meta commands: a code, and the attributes requested by flags.

use bytes::Bytes;
use tidekv_tiered::Deadline;

use crate::commands::execution::{Execution, Progress};
use crate::protocol::flags::encode;
use crate::protocol::request::Asked;

/// A line of a reply under construction. It is short: the key and an opaque token are its longest
/// parts.
#[derive(Debug)]
pub(crate) struct MetaReply(Vec<u8>);

impl MetaReply {
    /// A reply that begins with a code.
    pub(crate) fn new(code: &str) -> Self {
        let mut text = Vec::with_capacity(64);
        text.extend_from_slice(code.as_bytes());
        Self(text)
    }

    /// A reply that begins with the code of success: `VA` and a length if the value goes along.
    pub(crate) fn found(value_len: Option<usize>) -> Self {
        let Some(len) = value_len else { return Self::new("HD") };
        let mut reply = Self::new("VA ");
        reply.number(len as u64);
        reply
    }

    /// A flag without a token.
    pub(crate) fn flag(&mut self, letter: u8) {
        self.0.extend_from_slice(&[b' ', letter]);
    }

    /// A flag with a number.
    pub(crate) fn numbered(&mut self, letter: u8, number: u64) {
        self.flag(letter);
        self.number(number);
    }

    /// The remaining time to live.
    pub(crate) fn time_left(&mut self, deadline: Deadline, now_s: u32) {
        match deadline.remaining_s(now_s) {
            Some(seconds) => self.numbered(b't', u64::from(seconds)),
            None => {
                self.flag(b't');
                self.0.extend_from_slice(b"-1");
            }
        }
    }

    pub(crate) fn key(&mut self, key: &Bytes, is_binary: bool) {
        self.flag(b'k');
        match is_binary {
            true => {
                self.0.extend_from_slice(encode(key).as_bytes());
                self.flag(b'b');
            }
            false => self.0.extend_from_slice(key),
        }
    }

    /// A token of the request, unchanged.
    pub(crate) fn word(&mut self, word: &[u8]) {
        self.0.push(b' ');
        self.0.extend_from_slice(word);
    }

    /// The attributes that need no object: the key and the opaque token.
    pub(crate) fn echo(&mut self, asked: &[Asked], key: &Bytes, is_binary: bool) {
        for Asked { letter, word } in asked {
            match letter {
                b'O' => self.word(word),
                b'k' => self.key(key, is_binary),
                _ => {}
            }
        }
    }

    /// Ends the line, and sends it.
    pub(crate) fn send(mut self, execution: &mut Execution<'_>) -> Progress {
        self.0.extend_from_slice(b"\r\n");
        execution.out.put(&self.0);
        Progress::Done
    }

    /// Ends the line, and sends it with a value.
    pub(crate) fn send_with(self, execution: &mut Execution<'_>, value: &Bytes) -> Progress {
        self.send(execution);
        execution.out.put_value(value);
        execution.out.put(b"\r\n");
        Progress::Done
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}
