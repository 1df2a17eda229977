//! `BITFIELD`: integers of any width in the bits of a string.

use bytes::{Bytes, BytesMut};

use crate::commands::bits::{bit_offset, string_of};
use crate::commands::errors::{SYNTAX, integer, is_word};
use crate::data::execution::Execution;
use crate::data::values;
use crate::protocol::reply::{CommandError, CommandResult, Reply};
use crate::state::keyspaces::Space;

const INVALID_TYPE: CommandError = CommandError::text(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 \
     is.",
);

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FieldType {
    is_signed: bool,
    /// 1 to 64, or to 63 if unsigned.
    bits: u32,
}

impl FieldType {
    fn parse(argument: &[u8]) -> Result<Self, CommandError> {
        let (is_signed, digits) = match argument {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(INVALID_TYPE),
        };
        let bits = integer(digits).map_err(|_| INVALID_TYPE)?;
        let bits_max = if is_signed { 64 } else { 63 };
        match (1..=bits_max).contains(&bits) {
            true => Ok(Self { is_signed, bits: bits as u32 }),
            false => Err(INVALID_TYPE),
        }
    }

    fn min(self) -> i128 {
        if self.is_signed { -(1 << (self.bits - 1)) } else { 0 }
    }

    fn max(self) -> i128 {
        if self.is_signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// The number with the lowest bits of `number`.
    fn wrapped(self, number: i128) -> i128 {
        let span = 1_i128 << self.bits;
        let low = number.rem_euclid(span);
        if low > self.max() { low - span } else { low }
    }

    fn read(self, value: &[u8], offset: usize) -> i128 {
        let bit = |at: usize| value.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
        let bits = offset..offset + self.bits as usize;
        self.wrapped(bits.fold(0, |number, at| number << 1 | i128::from(bit(at))))
    }

    /// Writes the lowest bits of `number`; the string grows if it must.
    fn write(self, value: &mut BytesMut, offset: usize, number: i128) {
        let end = offset + self.bits as usize;
        value.resize(value.len().max(end.div_ceil(8)), 0);
        for (at, shift) in (offset..end).zip((0..self.bits).rev()) {
            let bit = (number >> shift & 1) as u8;
            let mask = 1 << (7 - at % 8);
            value[at / 8] = value[at / 8] & !mask | bit << (7 - at % 8);
        }
    }
}

/// What happens to a number that its type cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Overflow {
    /// The number that is stored instead of `number`; `None`: nothing. `is_set`: it is that of a
    /// `SET`, not a sum.
    fn settle(self, number: i128, field: FieldType, is_set: bool) -> Option<i128> {
        let fits = (field.min()..=field.max()).contains(&number);
        // Redis computes the distance to the maximum in 64 bits: where that overflows, it takes the
        // number for too large instead of too small.
        let is_taken_for_large =
            is_set && field.is_signed && field.max() - number > i128::from(i64::MAX);
        match self {
            _ if fits => Some(number),
            Self::Wrap => Some(field.wrapped(number)),
            Self::Saturate if is_taken_for_large => Some(field.max()),
            Self::Saturate => Some(number.clamp(field.min(), field.max())),
            Self::Fail => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

struct Operation {
    field: FieldType,
    offset: usize,
    action: Action,
    overflow: Overflow,
}

fn parse(arguments: &[Bytes]) -> Result<Vec<Operation>, CommandError> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut rest = arguments;
    while let [word, after @ ..] = rest {
        if is_word(word, "OVERFLOW") && !after.is_empty() {
            let kinds =
                [("WRAP", Overflow::Wrap), ("SAT", Overflow::Saturate), ("FAIL", Overflow::Fail)];
            let named = kinds.into_iter().find(|(name, _)| is_word(&after[0], name));
            overflow = named.ok_or(CommandError::text("ERR Invalid OVERFLOW type specified"))?.1;
            rest = &after[1..];
            continue;
        }
        let count = match word {
            word if is_word(word, "GET") => 2,
            word if is_word(word, "SET") || is_word(word, "INCRBY") => 3,
            _ => return Err(SYNTAX),
        };
        if after.len() < count {
            return Err(SYNTAX);
        }
        let field = FieldType::parse(&after[0])?;
        let offset = bit_offset(&after[1], Some(field.bits))?;
        let action = match count {
            2 => Action::Get,
            _ if is_word(word, "SET") => Action::Set(integer(&after[2])?),
            _ => Action::Add(integer(&after[2])?),
        };
        operations.push(Operation { field, offset, action, overflow });
        rest = &after[count..];
    }
    Ok(operations)
}

pub(crate) fn bitfield(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let operations = parse(&arguments[1..])?;
    let found = values::find_string(execution, &arguments[0])?;
    let is_missing = found.is_none();
    let (old, deadline) =
        found.map_or((Bytes::new(), None), |entry| (entry.value, entry.expires_at_ms));
    let mut value = BytesMut::from(&old[..]);
    let writes = operations.iter().any(|operation| !matches!(operation.action, Action::Get));
    let mut replies = Vec::with_capacity(operations.len());
    if let Some(end) = operations
        .iter()
        .filter(|operation| !matches!(operation.action, Action::Get))
        .map(|operation| operation.offset + operation.field.bits as usize)
        .max()
    {
        execution.check_value(end.div_ceil(8))?;
        // As in Redis, also if the operation then fails.
        value.resize(value.len().max(end.div_ceil(8)), 0);
    }
    for Operation { field, offset, action, overflow } in operations {
        let before = field.read(&value, offset);
        let (wanted, is_sum) = match action {
            Action::Get => (None, false),
            // A number to set is read in the type's own width.
            Action::Set(number) if field.is_signed => (Some(i128::from(number)), false),
            Action::Set(number) => (Some(i128::from(number as u64)), false),
            Action::Add(number) => (Some(before + i128::from(number)), true),
        };
        let stored = wanted.map(|wanted| overflow.settle(wanted, field, !is_sum));
        if let Some(Some(stored)) = stored {
            field.write(&mut value, offset, stored);
        }
        replies.push(match stored {
            Some(None) => Reply::Null,
            Some(Some(stored)) if is_sum => Reply::Integer(stored as i64),
            _ => Reply::Integer(before as i64),
        });
    }
    // A key that does not change, does not for WATCH.
    if writes && (is_missing || value[..] != old[..]) {
        execution.put(Space::Strings, arguments[0].clone(), value.freeze(), deadline)?;
    }
    Ok(Reply::Array(replies))
}

pub(crate) fn bitfield_ro(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let operations = parse(&arguments[1..])?;
    if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
        return Err(CommandError::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let (value, _) = string_of(execution, &arguments[0])?;
    let read = |operation: &Operation| {
        Reply::Integer(operation.field.read(&value, operation.offset) as i64)
    };
    Ok(Reply::Array(operations.iter().map(read).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        for (text, number) in [("u4", 9), ("i5", -3), ("i64", i64::MIN), ("u63", i64::MAX)] {
            let field = FieldType::parse(text.as_bytes()).unwrap();
            for offset in [0, 3, 64] {
                let mut value = BytesMut::from(&b"\xff"[..]);
                field.write(&mut value, offset, i128::from(number));
                assert_eq!(field.read(&value, offset), i128::from(number), "{text} {offset}");
            }
        }
        for text in ["", "u", "u64", "i65", "i0", "x8", "u08"] {
            assert!(FieldType::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn overflows_wrap_saturate_or_fail() {
        let field = FieldType { is_signed: true, bits: 8 };
        for (overflow, high, low) in [
            (Overflow::Wrap, Some(-128), Some(127)),
            (Overflow::Saturate, Some(127), Some(-128)),
            (Overflow::Fail, None, None),
        ] {
            assert_eq!(overflow.settle(128, field, true), high);
            assert_eq!(overflow.settle(-129, field, true), low);
            assert_eq!(overflow.settle(5, field, false), Some(5));
        }
        assert_eq!(Overflow::Saturate.settle(i128::from(i64::MIN), field, true), Some(127));
        assert_eq!(Overflow::Saturate.settle(i128::from(i64::MIN), field, false), Some(-128));
    }
}
