//! The flags of the meta commands: their list and their parser.
//!
//! Guarantees: accepts and rejects the same flags as memcached, with the same errors.

use base64::Engine;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use smallvec::SmallVec;
use tidekv_tiered::KEY_BYTES_MAX;

use crate::protocol::expiry::Expiry;
use crate::protocol::numerals::{digits_32, digits_64};
use crate::protocol::request::{Asked, BAD_FORMAT};
use crate::protocol::words::Line;

/// Maximum words of a meta command, its name included.
const WORDS_MAX: usize = 20;
/// Maximum bytes of an opaque token, its letter included.
const OPAQUE_BYTES_MAX: usize = 32;

pub(crate) const OPAQUE_TOO_LONG: &str = "CLIENT_ERROR opaque token too long";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

/// A flag.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "for the documentation, which a test makes"))]
pub(crate) struct Flag {
    pub(crate) letter: u8,
    /// The token after the letter; empty if there is none.
    pub(crate) token: &'static str,
    /// The second letters of the commands that use it; the others accept and ignore it.
    pub(crate) commands: &'static str,
    pub(crate) summary: &'static str,
}

const fn flag(
    letter: u8,
    token: &'static str,
    commands: &'static str,
    summary: &'static str,
) -> Flag {
    Flag { letter, token, commands, summary }
}

/// All flags.
#[cfg_attr(not(test), expect(dead_code, reason = "for the documentation, which a test makes"))]
#[rustfmt::skip]
pub(crate) static FLAGS: [Flag; 28] = [
    flag(b'b', "", "gsdae", "The key is base64 and may contain any bytes."),
    flag(b'c', "", "gsa", "Returns the version (CAS) of the object."),
    flag(b'C', "version", "gsda", "Succeeds only if the object has this version. With mg: leaves out the value if it has."),
    flag(b'D', "number", "a", "The number to add or subtract; 1 by default."),
    flag(b'E', "version", "gsda", "The new version of the object."),
    flag(b'f', "", "g", "Returns the client's flags."),
    flag(b'F', "flags", "s", "The client's flags, 32 bits."),
    flag(b'h', "", "g", "Returns whether the object had been fetched before: 0 or 1."),
    flag(b'I', "", "sd", "With md: marks the object as stale instead of removing it. With ms: stores a value of an older version, marked as stale."),
    flag(b'J', "number", "a", "The initial number of an object that `N` creates; 0 by default."),
    flag(b'k', "", "gsda", "Returns the key."),
    flag(b'l', "", "g", "Returns the seconds since the object was last fetched."),
    flag(b'L', "token", "", "For proxies; ignored."),
    flag(b'M', "mode", "sa", "One letter. ms: E adds, A appends, P prepends, R replaces, S sets. ma: I or + adds, D or - subtracts."),
    flag(b'N', "seconds", "gsa", "Creates the object with this time to live if it does not exist. With mg it lets the client win; with ms it belongs to the modes A and P."),
    flag(b'O', "token", "gsda", "Opaque token of up to 31 bytes, returned unchanged."),
    flag(b'P', "token", "", "For proxies; ignored."),
    flag(b'q', "", "gsda", "No reply in the usual case: a miss of mg, success of the others."),
    flag(b'R', "seconds", "g", "Lets the client win if the remaining time to live is less than this."),
    flag(b's', "", "gs", "Returns the length of the value."),
    flag(b't', "", "ga", "Returns the remaining time to live in seconds; -1 if the object does not expire."),
    flag(b'T', "seconds", "gsda", "The new time to live of the object; md: only with `I`."),
    flag(b'u', "", "g", "Does not count as an access."),
    flag(b'v', "", "ga", "Returns the value."),
    flag(b'W', "", "", "In a reply: the client has won and should store a new value."),
    flag(b'x', "", "d", "Removes the value and the client's flags, but keeps the object."),
    flag(b'X', "", "", "In a reply: the object is stale."),
    flag(b'Z', "", "", "In a reply: another client has already won."),
];

/// The flags of a request.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) has_binary_key: bool,
    pub(crate) wants_value: bool,
    pub(crate) is_quiet: bool,
    /// The access does not count.
    pub(crate) is_unseen: bool,
    pub(crate) invalidates: bool,
    pub(crate) drops_value: bool,
    /// The letter of the mode; 0 if its token has none.
    pub(crate) mode: Option<u8>,
    pub(crate) expiry: Option<Expiry>,
    pub(crate) vivify: Option<Expiry>,
    pub(crate) recache: Option<Expiry>,
    pub(crate) client_flags: u32,
    pub(crate) compare: Option<u64>,
    pub(crate) explicit: Option<u64>,
    pub(crate) delta: Option<u64>,
    pub(crate) initial: u64,
    /// The flags that add to the reply, or change later ones, in order.
    pub(crate) asked: SmallVec<[Asked; 4]>,
}

/// Parses the key and the flags of a line; the flags start at the word `first`. [`check`] must have
/// accepted the line.
pub(crate) fn read(line: &Line, first: usize) -> Result<(Bytes, Flags), &'static str> {
    if line.word(1).len() > KEY_BYTES_MAX {
        return Err(BAD_FORMAT);
    }
    if line.len() > WORDS_MAX {
        return Err("CLIENT_ERROR options flags are too long");
    }
    let mut flags = Flags::default();
    let mut seen = [false; 128];
    let mut wrong = None;
    for index in first..line.len() {
        let word = line.word(index);
        let letter = word[0];
        if letter >= 127 || std::mem::replace(&mut seen[usize::from(letter)], true) {
            return Err("CLIENT_ERROR duplicate flag");
        }
        // The error of the last invalid flag is returned.
        match flags.read(letter, word) {
            Ok(()) => {}
            Err(Wrong::Flag) => return Err("CLIENT_ERROR invalid flag"),
            Err(Wrong::Token(message)) => wrong = Some(message.or(wrong.flatten())),
        }
        if b"stcflhOkTNR".contains(&letter) {
            flags.asked.push(Asked { letter, word: line.owned_word(index) });
        }
    }
    let mut key = line.owned_word(1);
    if flags.has_binary_key {
        match decode(&key) {
            Some(decoded) => key = decoded,
            None => wrong = wrong.or(Some(Some("CLIENT_ERROR error decoding key"))),
        }
    }
    match wrong {
        None => Ok((key, flags)),
        Some(message) => Err(message.unwrap_or(BAD_FORMAT)),
    }
}

/// The check of all meta commands: a word from `first` on begins with a letter, a digit, or one of
/// the signs between the letters.
pub(crate) fn check(line: &Line, first: usize) -> Result<(), &'static str> {
    let is_flag = |index| matches!(line.word(index)[0], b'A'..=b'z' | b'0'..=b'9');
    if (first..line.len()).all(is_flag) { Ok(()) } else { Err(BAD_FORMAT) }
}

enum Wrong {
    Flag,
    /// With the message, if it is not that of an earlier token or the general one.
    Token(Option<&'static str>),
}

impl Flags {
    fn read(&mut self, letter: u8, word: &[u8]) -> Result<(), Wrong> {
        let token = &word[1..];
        let expiry = || Expiry::parse(token).ok_or(Wrong::Token(Some(BAD_TOKEN))).map(Some);
        let version = || digits_64(token).ok_or(Wrong::Token(Some(BAD_TOKEN))).map(Some);
        let number = |message| digits_64(token).ok_or(Wrong::Token(Some(message)));
        match letter {
            b'b' => self.has_binary_key = true,
            b'v' => self.wants_value = true,
            b'q' => self.is_quiet = true,
            b'u' => self.is_unseen = true,
            b'I' => self.invalidates = true,
            b'x' => self.drops_value = true,
            b'N' => self.vivify = expiry()?,
            b'T' => self.expiry = expiry()?,
            b'R' => self.recache = expiry()?,
            b'F' => self.client_flags = digits_32(token).ok_or(Wrong::Token(None))?,
            b'C' => self.compare = version()?,
            b'E' => self.explicit = version()?,
            b'J' => self.initial = number("CLIENT_ERROR invalid numeric initial value")?,
            b'D' => self.delta = Some(number("CLIENT_ERROR invalid numeric delta value")?),
            b'M' => self.mode = Some(token.first().copied().unwrap_or(0)),
            b'O' if word.len() > OPAQUE_BYTES_MAX => {
                return Err(Wrong::Token(Some(OPAQUE_TOO_LONG)));
            }
            b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' | b'l' | b'h' => {}
            _ => return Err(Wrong::Flag),
        }
        Ok(())
    }
}

/// Decodes base64 as memcached does: skips other bytes, and ends with the first four characters that
/// have padding, wherever it is in them; what follows must be whole.
pub(crate) fn decode(text: &[u8]) -> Option<Bytes> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let mut clean: SmallVec<[u8; KEY_BYTES_MAX]> = text.iter().copied().filter(is_part).collect();
    if !clean.len().is_multiple_of(4) {
        return None;
    }
    let is_padding = |byte: &&u8| **byte == b'=';
    let padded = clean.chunks(4).position(|four| four.contains(&b'='));
    let padding = padded.map_or(0, |place| {
        clean.truncate(4 * (place + 1));
        clean[4 * place..].iter().filter(is_padding).count()
    });
    if padding > 2 {
        return None;
    }
    // It stands for zeros, of which the last bytes are dropped.
    clean.iter_mut().filter(|byte| **byte == b'=').for_each(|byte| *byte = b'A');
    let mut decoded = BASE64.decode(&clean).ok()?;
    decoded.truncate(decoded.len() - padding);
    (!decoded.is_empty()).then(|| decoded.into())
}

/// The bytes in base64.
pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Trailing bits may be set.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> Result<(Bytes, Flags), &'static str> {
        let line = Line::new(Bytes::copy_from_slice(text.as_bytes()));
        read(&line, 2)
    }

    #[test]
    fn flags_are_parsed_with_their_tokens() {
        let (key, found) = flags("mg YWJj b v q T60 N30 R5 C7 Oabc k t").unwrap();
        assert_eq!(key, "abc");
        assert!(found.has_binary_key && found.wants_value && found.is_quiet);
        assert_eq!(found.expiry, Expiry::parse(b"60"));
        assert_eq!((found.compare, found.delta), (Some(7), None));
        let letters: Vec<u8> = found.asked.iter().map(|asked| asked.letter).collect();
        assert_eq!(letters, b"TNROkt");
        assert_eq!(found.asked[3].word, "Oabc");
    }

    #[test]
    fn invalid_flags_get_the_errors_of_memcached() {
        for (text, error) in [
            ("mg a s s", "CLIENT_ERROR duplicate flag"),
            ("mg a \u{fe}", "CLIENT_ERROR duplicate flag"),
            ("mg a !", "CLIENT_ERROR invalid flag"),
            ("mg a W", "CLIENT_ERROR invalid flag"),
            ("mg a Tx", BAD_TOKEN),
            ("mg a T", BAD_TOKEN),
            ("mg a Dx", "CLIENT_ERROR invalid numeric delta value"),
            ("mg a D-1", "CLIENT_ERROR invalid numeric delta value"),
            ("mg a Jx", "CLIENT_ERROR invalid numeric initial value"),
            ("mg a Fx", BAD_FORMAT),
            ("mg a! b", "CLIENT_ERROR error decoding key"),
            ("mg abcde b", "CLIENT_ERROR error decoding key"),
            ("mg a O1234567890123456789012345678901x", OPAQUE_TOO_LONG),
        ] {
            assert_eq!(flags(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn every_letter_is_in_the_list_or_rejected() {
        for letter in 33..127_u8 {
            let text = format!("mg a {}1", char::from(letter));
            let is_known =
                FLAGS.iter().any(|flag| flag.letter == letter && !b"WXZ".contains(&letter));
            let is_refused = flags(&text) == Err("CLIENT_ERROR invalid flag");
            assert_eq!(is_known, !is_refused, "{text}");
        }
        for flag in &FLAGS {
            assert!(flag.summary.ends_with('.'), "{flag:?}");
        }
    }
}
