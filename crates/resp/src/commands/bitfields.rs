//! `BITFIELD`: integers of any width in the bits of a string.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::commands::bits::{self, bit_offset};
use crate::commands::errors::{SYNTAX, integer, is_word};
use crate::data::execution::Execution;
use crate::data::long_string::Patch;
use crate::data::values::{self, StringValue};
use crate::protocol::reply::{CommandError, CommandResult, Reply};

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

    /// The bytes that have a bit of the field at `offset`.
    fn bytes(self, offset: usize) -> Range<usize> {
        offset / 8..(offset + self.bits as usize).div_ceil(8)
    }

    /// Writes the lowest bits of `number`.
    fn write(self, value: &mut [u8], offset: usize, number: i128) {
        let end = offset + self.bits as usize;
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

/// A string with the bytes that were changed.
struct Edited {
    string: Option<StringValue>,
    changed: BTreeMap<usize, u8>,
}

impl Edited {
    fn read(
        &self,
        execution: &mut Execution<'_>,
        range: Range<usize>,
    ) -> Result<BytesMut, CommandError> {
        let start = range.start;
        let mut bytes = bits::bytes_of(execution, self.string.as_ref(), range.clone())?;
        for (at, byte) in self.changed.range(range) {
            bytes[at - start] = *byte;
        }
        Ok(bytes)
    }

    /// The changed bytes, those in a row together.
    fn patches(&self) -> Vec<Patch> {
        let mut runs: Vec<(usize, Vec<u8>)> = Vec::new();
        for (&at, &byte) in &self.changed {
            match runs.last_mut() {
                Some((start, run)) if *start + run.len() == at => run.push(byte),
                _ => runs.push((at, vec![byte])),
            }
        }
        runs.into_iter().map(|(at, run)| (at, Bytes::from(run))).collect()
    }
}

pub(crate) fn bitfield(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let operations = parse(&arguments[1..])?;
    let string = values::find_string(execution, &arguments[0])?;
    let len = string.as_ref().map_or(0, StringValue::len);
    // A key that does not change, does not for WATCH.
    let mut has_changed = false;
    let mut edited = Edited { string, changed: BTreeMap::new() };
    let mut replies = Vec::with_capacity(operations.len());
    if let Some(end) = operations
        .iter()
        .filter(|operation| !matches!(operation.action, Action::Get))
        .map(|operation| operation.field.bytes(operation.offset).end)
        .max()
        && end > len
    {
        // As in Redis, also if the operation then fails.
        edited.changed.insert(end - 1, 0);
        has_changed = true;
    }
    for Operation { field, offset, action, overflow } in operations {
        let range = field.bytes(offset);
        let mut bytes = edited.read(execution, range.clone())?;
        let before = field.read(&bytes, offset % 8);
        let (wanted, is_sum) = match action {
            Action::Get => (None, false),
            // A number to set is read in the type's own width.
            Action::Set(number) if field.is_signed => (Some(i128::from(number)), false),
            Action::Set(number) => (Some(i128::from(number as u64)), false),
            Action::Add(number) => (Some(before + i128::from(number)), true),
        };
        let stored = wanted.map(|wanted| overflow.settle(wanted, field, !is_sum));
        if let Some(Some(stored)) = stored {
            field.write(&mut bytes, offset % 8, stored);
            has_changed |= stored != before;
            edited.changed.extend(range.zip(bytes));
        }
        replies.push(match stored {
            Some(None) => Reply::Null,
            Some(Some(stored)) if is_sum => Reply::Integer(stored as i64),
            _ => Reply::Integer(before as i64),
        });
    }
    if has_changed {
        let patches = edited.patches();
        values::patch_string(execution, &arguments[0], edited.string, &patches)?;
    }
    Ok(Reply::Array(replies))
}

pub(crate) fn bitfield_ro(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let operations = parse(&arguments[1..])?;
    if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
        return Err(CommandError::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let string = values::find_string(execution, &arguments[0])?;
    let mut replies = Vec::with_capacity(operations.len());
    for Operation { field, offset, .. } in operations {
        let bytes = bits::bytes_of(execution, string.as_ref(), field.bytes(offset))?;
        replies.push(Reply::Integer(field.read(&bytes, offset % 8) as i64));
    }
    Ok(Reply::Array(replies))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        for (text, number) in [("u4", 9), ("i5", -3), ("i64", i64::MIN), ("u63", i64::MAX)] {
            let field = FieldType::parse(text.as_bytes()).unwrap();
            for offset in [0, 3, 64] {
                let mut value = [0xff; 20];
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
