//! Text for a terminal, without what a terminal would obey.
//!
//! Keys and values are bytes of others: a terminal executes the escape sequences in them, which can
//! change its title, its colours, or what is shown above. Guarantees: every byte that reaches the
//! terminal belongs to a character that is shown, a tab or a newline; all others (control characters,
//! bytes that are not UTF-8, marks that change the direction of text) are written as `\x1b` or
//! `\u{202e}`. Text that goes to a pipe or file is not changed.

use std::io::{self, IsTerminal, Write};

/// Standard output: raw, or for a terminal.
pub struct Standard {
    is_terminal: bool,
    /// The beginning of a character whose rest has not been written yet.
    open: Vec<u8>,
}

impl Standard {
    /// Standard output of this process.
    pub fn output() -> Self {
        Self { is_terminal: io::stdout().is_terminal(), open: Vec::new() }
    }
}

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return io::stdout().write(bytes);
        }
        let mut text = std::mem::take(&mut self.open);
        text.extend_from_slice(bytes);
        let whole = whole_characters(&text);
        self.open = text.split_off(whole);
        io::stdout().write_all(shown(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let open = std::mem::take(&mut self.open);
        io::stdout().write_all(shown(&open).as_bytes())?;
        io::stdout().flush()
    }
}

/// The length of `text` without an incomplete character at its end.
fn whole_characters(text: &[u8]) -> usize {
    match text.utf8_chunks().last() {
        Some(last) => {
            let invalid = last.invalid();
            // Only an incomplete character at the end is an error without a known length.
            let is_incomplete =
                std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none());
            if is_incomplete { text.len() - invalid.len() } else { text.len() }
        }
        None => 0,
    }
}

/// `text` as a terminal may show it.
pub fn shown(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' | '\t' => shown.push(character),
                '\0'..=' ' | '\x7f' if character != ' ' => {
                    shown.push_str(&format!("\\x{:02x}", character as u32));
                }
                _ if is_obeyed(character) => shown.extend(character.escape_unicode()),
                _ => shown.push(character),
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Whether terminals obey a character beyond ASCII: controls, and marks of the direction of text.
fn is_obeyed(character: char) -> bool {
    matches!(
        character,
        '\u{80}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        for (text, expected) in [
            (&b"plain, \xc3\xbcml\xc3\xa4ut \xe6\xbc\xa2\n\ttab"[..], "plain, ümläut 漢\n\ttab"),
            (b"\x1b]0;title\x07\x1b[31m", "\\x1b]0;title\\x07\\x1b[31m"),
            (b"over\rwritten\x08\x7f\0", "over\\x0dwritten\\x08\\x7f\\x00"),
            // C1 controls, as a character and as a byte.
            ("\u{9b}31m".as_bytes(), "\\u{9b}31m"),
            (b"\x9b31m \xff", "\\x9b31m \\xff"),
            ("a\u{202e}b\u{2066}c".as_bytes(), "a\\u{202e}b\\u{2066}c"),
            (b"cut \xe6\xbc", "cut \\xe6\\xbc"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn characters_may_be_written_in_parts() {
        for (text, whole) in [
            (&b""[..], 0),
            (b"abc", 3),
            (b"ab\xe6", 2),
            (b"ab\xe6\xbc", 2),
            (b"ab\xe6\xbc\xa2", 5),
            (b"ab\xff", 3),
            (b"ab\xe6c", 4),
            (b"\xf0\x9f", 0),
        ] {
            assert_eq!(whole_characters(text), whole, "{text:?}");
        }
    }
}
