//! Commands on the bits of strings. Bit 0 is the highest bit of the first byte, as in Redis.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::commands::errors::{STRING_BYTES_MAX, SYNTAX, integer, is_word};
use crate::data::execution::Execution;
use crate::data::values::{self, StringValue};
use crate::protocol::number::parse_i64;
use crate::protocol::reply::{CommandError, CommandResult, Reply};

const BIT_OFFSET: CommandError =
    CommandError::text("ERR bit offset is not an integer or out of range");
const BIT_VALUE: CommandError = CommandError::text("ERR bit is not an integer or out of range");

/// Parses the offset of a bit; `#n` counts fields of `width` bits, if that is given.
pub(crate) fn bit_offset(argument: &[u8], width: Option<u32>) -> Result<usize, CommandError> {
    let (digits, factor) = match (argument.strip_prefix(b"#"), width) {
        (Some(digits), Some(width)) => (digits, i64::from(width)),
        _ => (argument, 1),
    };
    let offset = parse_i64(digits).and_then(|number| number.checked_mul(factor));
    offset
        .and_then(|offset| usize::try_from(offset).ok())
        .filter(|offset| offset / 8 < STRING_BYTES_MAX)
        .ok_or(BIT_OFFSET)
}

fn bit_at(value: &[u8], offset: usize) -> u8 {
    value.get(offset / 8).map_or(0, |byte| byte >> (7 - offset % 8) & 1)
}

/// The bytes of a range of a string; behind its end, and without a string, they are zeros.
pub(crate) fn bytes_of(
    execution: &mut Execution<'_>,
    string: Option<&StringValue>,
    range: Range<usize>,
) -> Result<BytesMut, CommandError> {
    let mut bytes = BytesMut::with_capacity(range.len());
    if let Some(string) = string {
        let stored = range.start.min(string.len())..range.end.min(string.len());
        bytes.extend_from_slice(&string.read(execution, stored)?);
    }
    bytes.resize(range.len(), 0);
    Ok(bytes)
}

pub(crate) fn setbit(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let key = &arguments[0];
    let offset = bit_offset(&arguments[1], None)?;
    let bit = match parse_i64(&arguments[2]) {
        Some(bit @ (0 | 1)) => bit as u8,
        _ => return Err(BIT_VALUE),
    };
    let old = values::find_string(execution, key)?;
    let at = offset / 8;
    let mut byte = bytes_of(execution, old.as_ref(), at..at + 1)?;
    let previous = bit_at(&byte, offset % 8);
    if previous == bit && old.as_ref().is_some_and(|string| at < string.len()) {
        // The key does not change, so it does not for WATCH.
        return Ok(Reply::Integer(i64::from(previous)));
    }
    let mask = 1 << (7 - offset % 8);
    byte[0] = byte[0] & !mask | bit << (7 - offset % 8);
    values::patch_string(execution, key, old, &[(at, byte.freeze())])?;
    Ok(Reply::Integer(i64::from(previous)))
}

pub(crate) fn getbit(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let offset = bit_offset(&arguments[1], None)?;
    let string = values::find_string(execution, &arguments[0])?;
    let byte = bytes_of(execution, string.as_ref(), offset / 8..offset / 8 + 1)?;
    Ok(Reply::Integer(i64::from(bit_at(&byte, offset % 8))))
}

/// A range of bits: from the first, inclusive, to the last, inclusive; `None`: it is empty.
type BitRange = Option<(usize, usize)>;

/// The bits of a range of bytes or bits in a string of `len` bytes; negative numbers count from
/// the end.
fn bit_range(start: i64, end: i64, is_of_bits: bool, len: usize) -> BitRange {
    let total = if is_of_bits { 8 * len as i64 } else { len as i64 };
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_end = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(total - 1));
    if start > end {
        return None;
    }
    let (start, end) = (start as usize, end as usize);
    Some(if is_of_bits { (start, end) } else { (8 * start, 8 * end + 7) })
}

/// Whether the unit of a range is bits; the default is bytes.
fn is_of_bits(unit: Option<&Bytes>) -> Result<bool, CommandError> {
    match unit {
        None => Ok(false),
        Some(unit) if is_word(unit, "BIT") => Ok(true),
        Some(unit) if is_word(unit, "BYTE") => Ok(false),
        Some(_) => Err(SYNTAX),
    }
}

/// Calls `visit` with the bytes of a range of bits, piece by piece, and the position of the first bit
/// of each that belongs to the range and of the last one, within the piece; until it returns false.
fn visit_bits(
    execution: &mut Execution<'_>,
    string: &StringValue,
    (first, last): (usize, usize),
    mut visit: impl FnMut(&[u8], (usize, usize)) -> bool,
) -> Result<(), CommandError> {
    let mut at = first / 8;
    string.visit(execution, at..last / 8 + 1, |piece| {
        let start = 8 * at;
        at += piece.len();
        if piece.is_empty() {
            return true;
        }
        visit(piece, (first.max(start) - start, last.min(8 * at - 1) - start))
    })
}

/// The number of set bits of a range.
fn count_bits(value: &[u8], (first, last): (usize, usize)) -> u64 {
    let bytes = &value[first / 8..=last / 8];
    let ones: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let before = bytes[0] & !(0xff >> (first % 8));
    let after = bytes[bytes.len() - 1] & !(0xff << (7 - last % 8)) as u8;
    ones - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

pub(crate) fn bitcount(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    // The key is read before the other arguments are checked, as in Redis.
    let Some(string) = values::find_string(execution, &arguments[0])? else {
        return Ok(Reply::Integer(0));
    };
    let (start, end, unit) = match &arguments[1..] {
        [] => (0, -1, false),
        [start, end, unit @ ..] if unit.len() < 2 => {
            let (start, end) = (integer(start)?, integer(end)?);
            if start < 0 && end < 0 && start > end {
                return Ok(Reply::Integer(0));
            }
            (start, end, is_of_bits(unit.first())?)
        }
        _ => return Err(SYNTAX),
    };
    let mut count = 0;
    if let Some(range) = bit_range(start, end, unit, string.len()) {
        visit_bits(execution, &string, range, |piece, range| {
            count += count_bits(piece, range);
            true
        })?;
    }
    Ok(Reply::Integer(count as i64))
}

/// The position of the first bit of a range that is `bit`.
fn find_bit(value: &[u8], bit: u8, (first, last): (usize, usize)) -> Option<usize> {
    let skipped = if bit == 1 { 0 } else { 0xff };
    let mut at = first;
    while at <= last {
        if at.is_multiple_of(8) && value[at / 8] == skipped {
            at += 8;
        } else if bit_at(value, at) == bit {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

pub(crate) fn bitpos(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let bit = match integer(&arguments[1])? {
        bit @ (0 | 1) => bit as u8,
        _ => return Err(CommandError::text("ERR The bit argument must be 1 or 0.")),
    };
    let Some(string) = values::find_string(execution, &arguments[0])? else {
        return Ok(Reply::Integer(if bit == 1 { -1 } else { 0 }));
    };
    let (start, end, unit, has_end) = match &arguments[2..] {
        [] => (0, -1, false, false),
        [start] => (integer(start)?, -1, false, false),
        [start, end, unit @ ..] if unit.len() < 2 => {
            let (start, unit) = (integer(start)?, is_of_bits(unit.first())?);
            (start, integer(end)?, unit, true)
        }
        _ => return Err(SYNTAX),
    };
    let Some(range) = position_range(start, end, unit, string.len()) else {
        return Ok(Reply::Integer(-1));
    };
    let (mut found, mut at) = (None, range.0 / 8 * 8);
    visit_bits(execution, &string, range, |piece, range| {
        found = find_bit(piece, bit, range).map(|within| at + within);
        at += 8 * piece.len();
        found.is_none()
    })?;
    Ok(match found {
        Some(at) => Reply::count(at),
        // Without an end, a string continues with zeros.
        None if bit == 0 && !has_end => Reply::count(8 * string.len()),
        None => Reply::Integer(-1),
    })
}

/// Like [`bit_range`], as `BITPOS` reads a range whose end is before its start.
fn position_range(start: i64, end: i64, is_of_bits: bool, len: usize) -> BitRange {
    let total = if is_of_bits { 8 * len as i64 } else { len as i64 };
    let from_end = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
    bit_range(from_end(start), from_end(end), is_of_bits, len)
}

/// An operation of `BITOP`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

pub(crate) fn bitop(execution: &mut Execution<'_>, arguments: &[Bytes]) -> CommandResult {
    let operations = [
        ("AND", Operation::And),
        ("OR", Operation::Or),
        ("XOR", Operation::Xor),
        ("NOT", Operation::Not),
    ];
    let named = operations.into_iter().find(|(name, _)| is_word(&arguments[0], name));
    let (_, operation) = named.ok_or(SYNTAX)?;
    let (target, sources) = (&arguments[1], &arguments[2..]);
    if operation == Operation::Not && sources.len() > 1 {
        return Err(CommandError::text("ERR BITOP NOT must be called with a single source key."));
    }
    let mut operands = Vec::with_capacity(sources.len());
    let mut bytes = 0;
    for source in sources {
        let Some(string) = values::find_string(execution, source)? else {
            operands.push(Bytes::new());
            continue;
        };
        bytes += string.len();
        execution.state.memory.check_reply(bytes)?;
        operands.push(string.whole(execution)?);
    }
    let len = operands.iter().map(Bytes::len).max().unwrap_or(0);
    if len == 0 {
        values::remove(execution, target)?;
        return Ok(Reply::Integer(0));
    }
    // A shorter operand continues with zeros.
    let mut result = BytesMut::from(&operands[0][..]);
    result.resize(len, 0);
    for operand in &operands[1..] {
        let padded = operand.iter().copied().chain(std::iter::repeat(0));
        for (byte, other) in result.iter_mut().zip(padded) {
            match operation {
                Operation::And => *byte &= other,
                Operation::Or => *byte |= other,
                Operation::Xor | Operation::Not => *byte ^= other,
            }
        }
    }
    if operation == Operation::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    values::put_string(execution, target, result.freeze(), None)?;
    Ok(Reply::count(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_range_are_counted_and_found() {
        let value = b"\xf0\x0f\x00\xff";
        for first in 0..32 {
            for last in first..32 {
                let ones = (first..=last).filter(|&at| bit_at(value, at) == 1).count();
                assert_eq!(count_bits(value, (first, last)), ones as u64, "{first} {last}");
                for bit in [0, 1] {
                    let expected = (first..=last).find(|&at| bit_at(value, at) == bit);
                    assert_eq!(find_bit(value, bit, (first, last)), expected, "{first} {last}");
                }
            }
        }
    }
}
