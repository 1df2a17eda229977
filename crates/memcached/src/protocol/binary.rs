//! The frames of memcached's binary protocol: headers, opcodes, status codes.
//!
//! A request and a reply begin with a header of 24 bytes, with big-endian numbers; the body that
//! follows it consists of extras, a key and a value:
//!
//! ```text
//! 0      1       2           4           5          6            8         12      16
//! magic  opcode  key length  extras len  data type  reserved,    body len  opaque  version (CAS)
//!                                                   or a status
//! ```

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 24;
/// The first byte of a request, which tells the binary protocol from the text protocol.
pub(crate) const REQUEST_MAGIC: u8 = 0x80;
/// The first byte of a reply.
const REPLY_MAGIC: u8 = 0x81;
/// The expiry of an increment that must not create its number.
pub(crate) const NO_CREATION: u32 = u32::MAX;

/// The header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) opcode: u8,
    pub(crate) key_len: usize,
    pub(crate) extras_len: usize,
    /// Length of extras, key and value.
    pub(crate) body_len: usize,
    /// Returned unchanged.
    opaque: [u8; 4],
    /// The version that the object must have; 0 for any.
    pub(crate) version: u64,
}

impl Header {
    /// Parses a header; `None` if it is not one of a request.
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let [magic, opcode, key_0, key_1, extras_len, _, _, _, rest @ ..] = bytes;
        if *magic != REQUEST_MAGIC {
            return None;
        }
        let (body_len, rest) = rest.split_first_chunk()?;
        let (opaque, version) = rest.split_first_chunk()?;
        Some(Self {
            opcode: *opcode,
            key_len: usize::from(u16::from_be_bytes([*key_0, *key_1])),
            extras_len: usize::from(*extras_len),
            body_len: u32::from_be_bytes(*body_len) as usize,
            opaque: *opaque,
            version: u64::from_be_bytes(*version.first_chunk()?),
        })
    }

    /// Length of the value; `None` if the body is shorter than extras and key.
    pub(crate) fn value_len(&self) -> Option<usize> {
        self.body_len.checked_sub(self.key_len + self.extras_len)
    }

    /// What a reply repeats.
    pub(crate) fn echo(&self) -> Echo {
        Echo { opcode: self.opcode, opaque: self.opaque }
    }
}

/// The part of a request that its reply repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Echo {
    opcode: u8,
    opaque: [u8; 4],
}

impl Echo {
    /// The header of a reply. The lengths are those of its extras, its key and its value.
    pub(crate) fn reply(
        self,
        status: Status,
        (extras_len, key_len, value_len): (u8, u16, usize),
        version: u64,
    ) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = REPLY_MAGIC;
        bytes[1] = self.opcode;
        bytes[2..4].copy_from_slice(&key_len.to_be_bytes());
        bytes[4] = extras_len;
        bytes[6..8].copy_from_slice(&(status as u16).to_be_bytes());
        // An object is at most 1 GiB long.
        let body_len = (usize::from(extras_len) + usize::from(key_len) + value_len) as u32;
        bytes[8..12].copy_from_slice(&body_len.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.opaque);
        bytes[16..24].copy_from_slice(&version.to_be_bytes());
        bytes
    }
}

/// What an opcode does. A quiet opcode has the same operation as its loud one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opcode {
    Get,
    GetKey,
    GetAndTouch,
    GetKeyAndTouch,
    Touch,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Delete,
    Increment,
    Decrement,
    Flush,
    Noop,
    Version,
    Stat,
    Quit,
    SaslMechanisms,
    SaslAuth,
    SaslStep,
}

impl Opcode {
    /// The operation of a number, and whether it is quiet; `None` for an unknown one.
    pub(crate) fn of(number: u8) -> Option<(Self, bool)> {
        OPCODES.iter().find_map(|&(opcode, loud, quiet)| {
            let is_quiet = quiet == Some(number);
            (is_quiet || loud == number).then_some((opcode, is_quiet))
        })
    }

    /// Whether a client needs no authentication for it.
    pub(crate) fn is_for_strangers(self) -> bool {
        matches!(self, Self::SaslMechanisms | Self::SaslAuth | Self::SaslStep | Self::Version)
    }
}

/// Each operation with its number, and that of its quiet form.
#[rustfmt::skip]
static OPCODES: [(Opcode, u8, Option<u8>); 21] = [
    (Opcode::Get, 0x00, Some(0x09)),
    (Opcode::Set, 0x01, Some(0x11)),
    (Opcode::Add, 0x02, Some(0x12)),
    (Opcode::Replace, 0x03, Some(0x13)),
    (Opcode::Delete, 0x04, Some(0x14)),
    (Opcode::Increment, 0x05, Some(0x15)),
    (Opcode::Decrement, 0x06, Some(0x16)),
    (Opcode::Quit, 0x07, Some(0x17)),
    (Opcode::Flush, 0x08, Some(0x18)),
    (Opcode::Noop, 0x0a, None),
    (Opcode::Version, 0x0b, None),
    (Opcode::GetKey, 0x0c, Some(0x0d)),
    (Opcode::Append, 0x0e, Some(0x19)),
    (Opcode::Prepend, 0x0f, Some(0x1a)),
    (Opcode::Stat, 0x10, None),
    (Opcode::Touch, 0x1c, None),
    (Opcode::GetAndTouch, 0x1d, Some(0x1e)),
    (Opcode::GetKeyAndTouch, 0x23, Some(0x24)),
    (Opcode::SaslMechanisms, 0x20, None),
    (Opcode::SaslAuth, 0x21, None),
    (Opcode::SaslStep, 0x22, None),
];

/// The status of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Status {
    Success = 0x00,
    NotFound = 0x01,
    Exists = 0x02,
    TooLarge = 0x03,
    Invalid = 0x04,
    NotStored = 0x05,
    NonNumeric = 0x06,
    AuthError = 0x20,
    UnknownCommand = 0x81,
    NoMemory = 0x82,
}

impl Status {
    /// The text that goes along, as in memcached.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Success => "",
            Self::NotFound => "Not found",
            Self::Exists => "Data exists for key.",
            Self::TooLarge => "Too large.",
            Self::Invalid => "Invalid arguments",
            Self::NotStored => "Not stored.",
            Self::NonNumeric => "Non-numeric server-side value for incr or decr",
            Self::AuthError => "Auth failure.",
            Self::UnknownCommand => "Unknown command",
            Self::NoMemory => "Out of memory",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_and_repeated() {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..5].copy_from_slice(&[REQUEST_MAGIC, 0x11, 1, 2, 8]);
        bytes[8..].copy_from_slice(&[0, 1, 0, 0, 9, 8, 7, 6, 0, 0, 0, 0, 0, 0, 1, 0]);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!((header.key_len, header.extras_len, header.body_len), (0x102, 8, 0x1_0000));
        assert_eq!((header.version, header.value_len()), (256, Some(0x1_0000 - 0x102 - 8)));
        let reply = header.echo().reply(Status::Exists, (4, 3, 5), 7);
        assert_eq!(reply[..2], [REPLY_MAGIC, 0x11]);
        assert_eq!(reply[2..12], [0, 3, 4, 0, 0, 2, 0, 0, 0, 12]);
        assert_eq!(reply[12..], [9, 8, 7, 6, 0, 0, 0, 0, 0, 0, 0, 7]);
        let short = Header { body_len: 0x102 + 7, ..header };
        assert_eq!(short.value_len(), None);
        bytes[0] = REPLY_MAGIC;
        assert_eq!(Header::parse(&bytes), None);
    }

    #[test]
    fn each_number_has_one_operation() {
        for (index, &(opcode, loud, quiet)) in OPCODES.iter().enumerate() {
            assert_eq!(Opcode::of(loud), Some((opcode, false)));
            assert!(quiet.is_none_or(|quiet| Opcode::of(quiet) == Some((opcode, true))));
            assert!(OPCODES[..index].iter().all(|&(earlier, ..)| earlier != opcode));
        }
        assert_eq!((Opcode::of(0x1b), Opcode::of(0xff)), (None, None));
    }
}
