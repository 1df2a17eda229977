//! [`Layout`]: where the parts of a block stand, found and checked once, when
//! the block enters memory. The format is in `block.rs`.
//!
//! Guarantee: with a layout from [`Layout::parse`], every entry of those same
//! bytes can be read without another check and without a panic.

use crate::coding::Reader;
use crate::key::{KEY_BYTES_MAX, Kind, SEQUENCE_MAX, Trailer};

// Forms of a column; larger numbers are a fixed width. Do not change.
pub(super) const FORM_ENDS_U16: u64 = 0;
pub(super) const FORM_ENDS_U32: u64 = 1;
pub(super) const FORM_FIXED: u64 = 2;

/// Bits of the kind in a packed trailer. Do not change.
const KIND_BITS: u32 = 3;

/// Sequence and kind as one number that is small when the sequence is.
pub(super) fn pack_trailer(trailer: Trailer) -> u64 {
    trailer.sequence() << KIND_BITS | u64::from(trailer.0 as u8)
}

/// The trailer behind a packed one; `None` when there is no such kind or
/// sequence.
fn unpack_trailer(packed: u64) -> Option<Trailer> {
    let sequence = packed >> KIND_BITS;
    let kind = Kind::from_u8((packed & ((1 << KIND_BITS) - 1)) as u8)?;
    (sequence <= SEQUENCE_MAX).then(|| Trailer::new(sequence, kind))
}

/// Splits the bytes of a value column into trailer and payload.
#[inline]
pub(super) fn split_trailer(value: &[u8]) -> Option<(Trailer, usize)> {
    // One byte is all that the entries of the last level have.
    if let Some(&first) = value.first()
        && first < 0x80
    {
        return Some((unpack_trailer(u64::from(first))?, 1));
    }
    let mut reader = Reader::new(value);
    let trailer = unpack_trailer(reader.varint()?)?;
    Some((trailer, value.len() - reader.rest().len()))
}

/// How the cells of a column are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Fixed { width: usize },
    EndsU16 { at: usize },
    EndsU32 { at: usize },
}

/// One byte string for each entry, one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    form: Form,
    /// Where its bytes begin in the block.
    base: usize,
}

impl Column {
    /// Where cell `i` stands in the block.
    #[inline(always)]
    pub(super) fn cell(&self, block: &[u8], i: usize) -> (usize, usize) {
        if let Form::Fixed { width } = self.form {
            return (self.base + i * width, self.base + (i + 1) * width);
        }
        let start = if i == 0 { 0 } else { self.end(block, i - 1) };
        (self.base + start, self.base + self.end(block, i))
    }

    /// Where cell `i` ends, counted from the start of the column.
    #[inline(always)]
    fn end(&self, block: &[u8], i: usize) -> usize {
        match self.form {
            Form::Fixed { width } => (i + 1) * width,
            Form::EndsU16 { at } => {
                let at = at + 2 * i;
                usize::from(u16::from_le_bytes([block[at], block[at + 1]]))
            }
            Form::EndsU32 { at } => {
                let at = at + 4 * i;
                u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
                    as usize
            }
        }
    }

    /// How many bytes its `entries` cells have, if they ascend and end by
    /// `bytes_max`.
    fn checked_bytes(&self, block: &[u8], entries: usize, bytes_max: usize) -> Option<usize> {
        if let Form::Fixed { width } = self.form {
            return entries.checked_mul(width).filter(|&bytes| bytes <= bytes_max);
        }
        let mut last = 0;
        for i in 0..entries {
            let end = self.end(block, i);
            if end < last {
                return None;
            }
            last = end;
        }
        (last <= bytes_max).then_some(last)
    }
}

/// Where the parts of a block stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(super) entries: usize,
    pub(super) prefix: (usize, usize),
    pub(super) keys: Column,
    pub(super) values: Column,
}

impl Layout {
    /// Reads and checks a block from untrusted bytes.
    pub(crate) fn parse(block: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(block);
        let entries = reader.varint_usize()?;
        // Every entry has at least one byte, its trailer.
        if entries > block.len() {
            return None;
        }
        let prefix = reader.bytes().filter(|p| p.len() <= KEY_BYTES_MAX)?;
        let prefix_end = block.len() - reader.rest().len();
        let key_form = reader.varint()?;
        let value_form = reader.varint()?;
        let key_form = take_form(&mut reader, block, key_form, entries)?;
        let value_form = take_form(&mut reader, block, value_form, entries)?;
        let base = block.len() - reader.rest().len();
        let mut layout = Self {
            entries,
            prefix: (prefix_end - prefix.len(), prefix_end),
            keys: Column { form: key_form, base },
            values: Column { form: value_form, base },
        };
        let key_bytes = layout.keys.checked_bytes(block, entries, block.len() - base)?;
        layout.values.base = base + key_bytes;
        let left = block.len() - layout.values.base;
        if layout.values.checked_bytes(block, entries, left)? != left {
            return None;
        }
        for i in 0..entries {
            let (start, end) = layout.values.cell(block, i);
            split_trailer(&block[start..end])?;
        }
        Some(layout)
    }
}

fn take_form(reader: &mut Reader<'_>, block: &[u8], form: u64, entries: usize) -> Option<Form> {
    let at = block.len() - reader.rest().len();
    Some(match form {
        FORM_ENDS_U16 => {
            reader.take(entries.checked_mul(2)?)?;
            Form::EndsU16 { at }
        }
        FORM_ENDS_U32 => {
            reader.take(entries.checked_mul(4)?)?;
            Form::EndsU32 { at }
        }
        _ => Form::Fixed { width: usize::try_from(form - FORM_FIXED).ok()? },
    })
}
