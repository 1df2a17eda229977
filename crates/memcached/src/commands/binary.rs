//! The requests of the binary protocol: a second form of the same commands.
//!
//! Guarantees: any header, extras and key are a request or an error; a request that is not one, or
//! not allowed, ends its connection after its reply. `binary_execution` answers them.

use bytes::Bytes;
use tidekv_tiered::KEY_BYTES_MAX;

use crate::commands::arithmetic::Step;
use crate::commands::removal::Flush;
use crate::commands::statistic_lists::PROTOCOL_VERSION;
use crate::commands::statistics::Statistics;
use crate::commands::storing::Store;
use crate::protocol::binary::{Echo, Header, NO_CREATION, Opcode, Status};
use crate::protocol::expiry::Expiry;
use crate::protocol::request::{Fits, Mode};
use crate::state::counters::Count;

/// Maximum bytes of a body, as in memcached.
const BODY_BYTES_MAX: usize = 1 << 30;
/// The mechanism of authentication: a user and a password.
const MECHANISM: &[u8] = b"PLAIN";
/// Maximum bytes of a user and a password.
const CREDENTIALS_BYTES_MAX: usize = 2048;
/// The reply to an unknown opcode.
const UNKNOWN: Action = Action::Say(Status::UnknownCommand, "Unknown command");

/// The result of parsing a header, extras and a key.
#[derive(Debug)]
pub(crate) enum Framed {
    /// A complete request.
    Whole(Binary),
    /// A request whose reply ends the connection.
    Last(Binary),
    /// A request followed by a value of this many bytes.
    Value(Binary, u32),
    /// A request that is answered at once, and followed by this many bytes to skip.
    Skip(Binary, u64),
    /// A request to authenticate, followed by credentials of this length.
    Credentials(Echo, u32),
}

/// What the client of a request may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everything: the server has no users.
    Open,
    /// It must authenticate first.
    Stranger,
    /// Everything: it has authenticated.
    Known,
}

/// A request of the binary protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binary {
    pub(crate) echo: Echo,
    pub(crate) is_quiet: bool,
    pub(crate) action: Action,
}

/// What a request does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Fetch {
        key: Bytes,
        /// The new time to live, if it changes.
        expiry: Option<Expiry>,
        returns: Returns,
    },
    Store(Store),
    /// A value that is not stored.
    Refuse {
        /// The object that must not survive the value that should have replaced it.
        removed: Option<Bytes>,
        status: Status,
        count: Count,
    },
    Delete {
        key: Bytes,
        /// The version that the object must have; 0 for any.
        version: u64,
    },
    Step {
        key: Bytes,
        step: Step,
        /// The version that the number must have; 0 for any.
        version: u64,
        /// The number that is created if there is none, and its time to live.
        creation: Option<(u64, Expiry)>,
    },
    Flush(Flush),
    Statistics(Statistics),
    /// A constant reply.
    Say(Status, &'static str),
    /// Credentials that are none.
    FailAuthentication,
    /// An error that ends the connection.
    Reject(Status),
    Quit,
}

/// The parts of an object in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    Flags,
    Value,
    KeyAndValue,
}

/// Parses a request.
pub(crate) fn read(
    header: &Header,
    (extras, key): (&[u8], Bytes),
    access: Access,
    fits: Fits<'_>,
) -> Framed {
    let request = |is_quiet, action| Binary { echo: header.echo(), is_quiet, action };
    let (opcode, is_quiet, value_len) = match checked(header, access) {
        Ok(checked) => checked,
        Err(Wrong::Unknown(value_len)) => {
            return Framed::Skip(request(false, UNKNOWN), value_len as u64);
        }
        Err(Wrong::Request(status)) => return Framed::Last(request(false, Action::Reject(status))),
    };
    let skip = |action| Framed::Skip(request(false, action), value_len as u64);
    match opcode {
        Opcode::Set | Opcode::Add | Opcode::Replace | Opcode::Append | Opcode::Prepend => {
            let store = store_of(opcode, header, (extras, key));
            if fits(store.key.len(), value_len) {
                // The body has at most 1 GiB.
                return Framed::Value(request(is_quiet, Action::Store(store)), value_len as u32);
            }
            let removes = opcode == Opcode::Set;
            skip(refusal(store, removes, Status::TooLarge, Count::TooLarge))
        }
        // A value is read as the next request, as in memcached.
        Opcode::Stat => {
            let statistics = Statistics::of_key(&key).map(Action::Statistics);
            let missing = Action::Say(Status::NotFound, Status::NotFound.text());
            Framed::Whole(request(false, statistics.unwrap_or(missing)))
        }
        Opcode::SaslMechanisms | Opcode::SaslAuth | Opcode::SaslStep if access == Access::Open => {
            skip(UNKNOWN)
        }
        Opcode::SaslMechanisms => skip(Action::Say(Status::Success, "PLAIN")),
        Opcode::SaslAuth if key == MECHANISM && value_len <= CREDENTIALS_BYTES_MAX => {
            Framed::Credentials(header.echo(), value_len as u32)
        }
        // PLAIN has one step only.
        Opcode::SaslAuth | Opcode::SaslStep => skip(Action::FailAuthentication),
        _ => Framed::Whole(request(is_quiet, without_value(opcode, header, (extras, key)))),
    }
}

/// Why a request is not executed.
enum Wrong {
    /// It has no known opcode, and a value of this length.
    Unknown(usize),
    /// It is not a request, or not allowed.
    Request(Status),
}

/// The operation of a request, whether it is quiet, and the length of its value.
fn checked(header: &Header, access: Access) -> Result<(Opcode, bool, usize), Wrong> {
    let wrong = |status| Err(Wrong::Request(status));
    let Some(value_len) = header.value_len() else { return wrong(Status::UnknownCommand) };
    if header.body_len > BODY_BYTES_MAX {
        return wrong(Status::Invalid);
    }
    let found = Opcode::of(header.opcode);
    let is_for_strangers = found.is_some_and(|(opcode, _)| opcode.is_for_strangers());
    if access == Access::Stranger && !is_for_strangers {
        return wrong(Status::AuthError);
    }
    if header.key_len > KEY_BYTES_MAX {
        return wrong(Status::Invalid);
    }
    let (opcode, is_quiet) = found.ok_or(Wrong::Unknown(value_len))?;
    match has_fields(opcode, header, value_len) {
        true => Ok((opcode, is_quiet, value_len)),
        false => wrong(Status::Invalid),
    }
}

/// A number of four bytes in the extras.
fn number(extras: &[u8], from: usize) -> Option<u32> {
    extras.get(from..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// A number of eight bytes in the extras, or 0.
fn long(extras: &[u8], from: usize) -> u64 {
    let bytes = extras.get(from..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn store_of(opcode: Opcode, header: &Header, (extras, key): (&[u8], Bytes)) -> Store {
    Store {
        key,
        value: Bytes::new(),
        mode: mode_of(opcode, header.version),
        flags: number(extras, 0).unwrap_or(0),
        expiry: Expiry::of_unsigned(number(extras, 4).unwrap_or(0)),
        compare: Some(header.version),
        explicit: None,
        creates: false,
        may_be_stale: false,
        marks: 0,
    }
}

/// The action of a request without a value.
fn without_value(opcode: Opcode, header: &Header, (extras, key): (&[u8], Bytes)) -> Action {
    let expiry = number(extras, 0).map(Expiry::of_unsigned);
    match opcode {
        Opcode::Get | Opcode::GetAndTouch => Action::Fetch { key, expiry, returns: Returns::Value },
        Opcode::GetKey | Opcode::GetKeyAndTouch => {
            Action::Fetch { key, expiry, returns: Returns::KeyAndValue }
        }
        Opcode::Touch => Action::Fetch { key, expiry, returns: Returns::Flags },
        Opcode::Delete => Action::Delete { key, version: header.version },
        Opcode::Increment | Opcode::Decrement => {
            let step = Step { delta: long(extras, 0), is_down: opcode == Opcode::Decrement };
            let expiry = number(extras, 16).filter(|&expiry| expiry != NO_CREATION);
            let creation = expiry.map(|expiry| (long(extras, 8), Expiry::of_unsigned(expiry)));
            Action::Step { key, step, version: header.version, creation }
        }
        Opcode::Flush => {
            let delay = number(extras, 0).filter(|&delay| delay > 0);
            Action::Flush(Flush::after(delay.map(Expiry::of_unsigned)))
        }
        Opcode::Version => Action::Say(Status::Success, PROTOCOL_VERSION),
        Opcode::Quit => Action::Quit,
        _ => Action::Say(Status::Success, ""),
    }
}

/// Whether a request has the extras, key and value of its operation.
fn has_fields(opcode: Opcode, header: &Header, value_len: usize) -> bool {
    let Header { extras_len, key_len, .. } = *header;
    let (has_key, has_value) = (key_len > 0, value_len > 0);
    match opcode {
        Opcode::Get | Opcode::GetKey | Opcode::Delete => extras_len == 0 && has_key && !has_value,
        Opcode::Touch | Opcode::GetAndTouch | Opcode::GetKeyAndTouch => extras_len == 4 && has_key,
        Opcode::Set | Opcode::Add | Opcode::Replace => extras_len == 8 && has_key,
        Opcode::Append | Opcode::Prepend | Opcode::SaslAuth | Opcode::SaslStep => {
            extras_len == 0 && has_key
        }
        Opcode::Increment | Opcode::Decrement => extras_len == 20 && has_key && !has_value,
        Opcode::Flush => matches!(extras_len, 0 | 4) && !has_key && !has_value,
        Opcode::Stat => extras_len == 0,
        Opcode::Noop | Opcode::Version | Opcode::Quit | Opcode::SaslMechanisms => {
            header.body_len == 0
        }
    }
}

fn mode_of(opcode: Opcode, version: u64) -> Mode {
    match opcode {
        Opcode::Append => Mode::Append,
        Opcode::Prepend => Mode::Prepend,
        _ if version != 0 => Mode::Cas,
        Opcode::Add => Mode::Add,
        Opcode::Replace => Mode::Replace,
        _ => Mode::Set,
    }
}

fn refusal(store: Store, removes: bool, status: Status, count: Count) -> Action {
    Action::Refuse { removed: removes.then_some(store.key), status, count }
}

/// The user and the password of SASL's PLAIN (RFC 4616): an identity that is not used, a user and a
/// password, separated by zero bytes.
pub(crate) fn credentials(bytes: &[u8]) -> Option<(Bytes, Bytes)> {
    let mut parts = bytes.splitn(3, |&byte| byte == 0).skip(1);
    let (user, password) = (parts.next()?, parts.next()?);
    (!user.is_empty()).then(|| (Bytes::copy_from_slice(user), Bytes::copy_from_slice(password)))
}

impl Binary {
    /// The reply to credentials that are none.
    pub(crate) fn failed_authentication(echo: Echo) -> Self {
        Self { echo, is_quiet: false, action: Action::FailAuthentication }
    }

    /// The key that it will look up.
    pub(crate) fn fetched_key(&self) -> Option<&[u8]> {
        match &self.action {
            Action::Fetch { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Sets the value that followed it.
    pub(crate) fn put_value(&mut self, value: Bytes) {
        if let Action::Store(store) = &mut self.action {
            store.value = value;
        }
    }

    /// The request that remains if there is no memory to receive its value.
    pub(crate) fn without_room(self) -> Self {
        let action = match self.action {
            Action::Store(store) => {
                let removes = store.mode == Mode::Set;
                refusal(store, removes, Status::NoMemory, Count::NoMemory)
            }
            action => action,
        };
        Self { is_quiet: false, action, ..self }
    }
}
