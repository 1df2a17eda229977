//! A line of a request, and its words.
//!
//! Guarantees: words are separated by spaces, and no other byte is a space; of a line with many
//! words only the first ones are split.

use bytes::Bytes;
use smallvec::SmallVec;

/// Maximum words that are split.
pub(crate) const WORDS_MAX: usize = 23;

/// A line without its end.
#[derive(Debug)]
pub(crate) struct Line {
    bytes: Bytes,
    /// Where each word starts and ends.
    words: SmallVec<[(u32, u32); 8]>,
}

impl Line {
    pub(crate) fn new(bytes: Bytes) -> Self {
        let mut words = SmallVec::new();
        let mut start = 0;
        while words.len() < WORDS_MAX
            && let Some(skipped) = bytes[start..].iter().position(|&byte| byte != b' ')
        {
            start += skipped;
            let rest = &bytes[start..];
            let len = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
            // A line is far shorter than 4 GiB.
            words.push((start as u32, (start + len) as u32));
            start += len;
        }
        Self { bytes, words }
    }

    /// The bytes up to the first space: the name of most commands.
    pub(crate) fn name(&self) -> &[u8] {
        self.bytes.split(|&byte| byte == b' ').next().unwrap_or_default()
    }

    /// Number of words.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// A word; empty if there is none at `index`.
    pub(crate) fn word(&self, index: usize) -> &[u8] {
        match self.words.get(index) {
            Some(&(start, end)) => &self.bytes[start as usize..end as usize],
            None => b"",
        }
    }

    /// A word as bytes that may outlive the line.
    pub(crate) fn owned_word(&self, index: usize) -> Bytes {
        self.bytes.slice_ref(self.word(index))
    }

    /// The last word.
    pub(crate) fn last_word(&self) -> &[u8] {
        self.word(self.words.len().saturating_sub(1))
    }

    /// Whether the last word is `noreply`.
    pub(crate) fn is_quiet(&self) -> bool {
        self.last_word() == b"noreply"
    }

    /// Everything from a word on.
    pub(crate) fn rest_from(&self, index: usize) -> Bytes {
        match self.words.get(index) {
            Some(&(start, _)) => self.bytes.slice(start as usize..),
            None => Bytes::new(),
        }
    }
}

/// The words of `text`, however many.
pub(crate) fn words_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b' ').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &'static [u8]) -> Vec<&'static [u8]> {
        let line = Line::new(Bytes::from_static(text));
        let found: Vec<Bytes> = (0..line.len()).map(|index| line.owned_word(index)).collect();
        found.into_iter().map(|word| &*word.to_vec().leak()).collect()
    }

    #[test]
    fn words_are_separated_by_spaces() {
        assert_eq!(words(b"get  a b "), [&b"get"[..], b"a", b"b"]);
        assert_eq!(words(b"\tget\r a"), [&b"\tget\r"[..], b"a"]);
        assert_eq!(words(b"get a\0b c"), [&b"get"[..], b"a\0b", b"c"]);
        assert!(words(b"   ").is_empty());
        assert!(words(b"").is_empty());
        assert_eq!(words(b" x").len(), 1);
    }

    #[test]
    fn the_rest_of_a_line_is_available() {
        let line = Line::new(Bytes::from("x ".repeat(100)));
        assert_eq!(line.len(), WORDS_MAX);
        assert_eq!(words_of(&line.rest_from(1)).count(), 99);
        assert!(line.rest_from(40).is_empty());
        assert_eq!(line.word(40), b"");
        assert!(!line.is_quiet());
        assert!(Line::new(Bytes::from_static(b"x noreply ")).is_quiet());
    }
}
