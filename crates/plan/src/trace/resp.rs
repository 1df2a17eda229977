//! Commands of the Redis protocol, as arrays of bulk strings (as clients send them, and as an
//! append-only file contains them).

use std::io::{self, BufRead, Read};

use super::command::{KEPT_BYTES_MAX, Word, has_deadline, requests};
use super::request::{Fault, Parts, Requests};

/// Redis accepts no longer ones.
const WORDS_MAX: u64 = 1 << 20;
const WORD_BYTES_MAX: u64 = 512 << 20;
/// The beginning of a line with a time, between the commands of an append-only file, or in front of
/// them.
pub(super) const TIME: &str = "#TS:";
/// `*`, a number and the end of a line.
const HEAD_BYTES_MAX: u64 = 32;

pub(super) struct Commands<R> {
    input: R,
    /// Commands so far.
    count: u64,
    is_broken: bool,
    /// The time of the last `#TS:`, in seconds since 1970.
    now_s: Option<f64>,
    /// Commands with a deadline whose distance is unknown.
    unknown_deadlines: u64,
}

impl<R: BufRead> Commands<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, count: 0, is_broken: false, now_s: None, unknown_deadlines: 0 }
    }

    /// The number after `mark`; `None` at the end of the trace.
    fn head(&mut self, mark: u8) -> Result<Option<u64>, Trouble> {
        let mut line = Vec::new();
        loop {
            (&mut self.input).take(HEAD_BYTES_MAX).read_until(b'\n', &mut line)?;
            match line.first() {
                None => return Ok(None),
                Some(b'#') if mark == b'*' => {
                    let text = std::str::from_utf8(&line).unwrap_or_default().trim_end();
                    let time = text.strip_prefix(TIME).and_then(|time| time.parse().ok());
                    self.now_s = time.or(self.now_s);
                    line.clear();
                }
                Some(_) => break,
            }
        }
        let digits = line.strip_prefix(&[mark]).and_then(|rest| rest.strip_suffix(b"\r\n"));
        let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let mark = char::from(mark);
        number
            .map(Some)
            .ok_or_else(|| Trouble::Broken(format!("the number after {mark} is missing")))
    }

    fn command(&mut self) -> Result<Option<Vec<Word>>, Trouble> {
        let Some(count) = self.head(b'*')? else { return Ok(None) };
        if count > WORDS_MAX {
            return Err(Trouble::Broken(format!("{count} words are too many")));
        }
        let mut words = Vec::new();
        for _ in 0..count {
            let bytes = self.head(b'$')?.ok_or_else(truncate)?;
            if bytes > WORD_BYTES_MAX {
                return Err(Trouble::Broken(format!("a word of {bytes} bytes is too long")));
            }
            let mut begin = Vec::new();
            let kept = bytes.min(KEPT_BYTES_MAX + 1);
            let read = (&mut self.input).take(kept).read_to_end(&mut begin)? as u64;
            let skipped = io::copy(&mut (&mut self.input).take(bytes - kept), &mut io::sink())?;
            let mut end = [0; 2];
            self.input.read_exact(&mut end)?;
            if read + skipped < bytes || end != *b"\r\n" {
                return Err(Trouble::Broken("a word does not have its declared length".to_owned()));
            }
            words.push(Word { begin, bytes });
        }
        Ok(Some(words))
    }
}

/// A fault, before the number of its command is known.
enum Trouble {
    Io(io::Error),
    Broken(String),
}

fn truncate() -> Trouble {
    Trouble::Broken("it is truncated".to_owned())
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => truncate(),
            _ => Self::Io(error),
        }
    }
}

impl<R: BufRead> Parts for Commands<R> {
    fn notes(&self) -> Vec<String> {
        let unknown = self.unknown_deadlines;
        let note = || {
            format!(
                "{unknown} commands have a deadline, but the file has no times to count from (set \
                 aof-timestamp-enabled in Redis): they are read as without one"
            )
        };
        (unknown > 0).then(note).into_iter().collect()
    }

    fn next_part(&mut self) -> Option<Result<Requests, Fault>> {
        if self.is_broken {
            return None;
        }
        self.count += 1;
        let line = self.count;
        let fault = match self.command() {
            Ok(words) => {
                let words = words?;
                let is_unknown = self.now_s.is_none() && has_deadline(&words);
                self.unknown_deadlines += u64::from(is_unknown);
                let mut found = requests(&words, self.now_s);
                found.iter_mut().for_each(|request| request.seconds = self.now_s);
                return Some(Ok(found));
            }
            Err(Trouble::Io(error)) => Fault::Io(error),
            Err(Trouble::Broken(what)) => {
                let what = format!("command: {what}; the rest of the trace is not read");
                Fault::Broken { line, what }
            }
        };
        self.is_broken = true;
        Some(Err(fault))
    }
}
