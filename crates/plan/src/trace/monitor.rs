//! The output of `MONITOR`: `1339518083.107412 [0 127.0.0.1:60866] "set" "key" "a\x00value"`.

use std::io::BufRead;

use super::command::{Word, requests};
use super::request::{Fault, Parts, Requests};

/// Longer ones are broken.
const LINE_BYTES_MAX: u64 = 16 << 20;

pub(super) struct Lines<R> {
    input: R,
    count: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, count: 0 }
    }
}

impl<R: BufRead> Parts for Lines<R> {
    fn next_part(&mut self) -> Option<Result<Requests, Fault>> {
        let mut line = Vec::new();
        match std::io::Read::take(&mut self.input, LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => self.count += 1,
            Err(error) => return Some(Err(Fault::Io(error))),
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if text.is_empty() || text == "OK" {
            return Some(Ok(Requests::new()));
        }
        let broken = |what: &str| Fault::Broken { line: self.count, what: what.to_owned() };
        let Some((time, rest)) = parts(text) else {
            return Some(Err(broken("it does not begin with a time and a client")));
        };
        let Some(words) = words(rest) else {
            return Some(Err(broken("a word is unterminated or has an unknown escape")));
        };
        let mut found = requests(&words, Some(time));
        found.iter_mut().for_each(|request| request.seconds = Some(time));
        Some(Ok(found))
    }
}

/// Whether a line has this format.
pub(super) fn is_line(line: &str) -> bool {
    line == "OK" || parts(line).is_some()
}

/// The time, and the raw words.
fn parts(line: &str) -> Option<(f64, &str)> {
    let (time, rest) = line.split_once(" [")?;
    let (_, words) = rest.split_once("] ")?;
    let time = time.parse::<f64>().ok().filter(|time| time.is_finite())?;
    words.starts_with('"').then_some((time, words))
}

/// Words in quotes, with the escapes of Redis.
fn words(text: &str) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut bytes = text.bytes();
    loop {
        match bytes.next() {
            None => return Some(words),
            Some(b' ') => continue,
            Some(b'"') => {}
            Some(_) => return None,
        }
        let mut word = Vec::new();
        loop {
            match bytes.next()? {
                b'"' => break,
                b'\\' => word.push(match bytes.next()? {
                    b'x' => {
                        let digit = |byte: u8| char::from(byte).to_digit(16);
                        let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                        (high * 16 + low) as u8
                    }
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    other @ (b'"' | b'\\') => other,
                    _ => return None,
                }),
                other => word.push(other),
            }
        }
        words.push(Word::from(&word[..]));
    }
}
