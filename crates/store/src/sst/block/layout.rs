//! [`Layout`]: the positions of the parts of a block, computed and checked once, when the block
//! enters memory. The format is in `block.rs`.
//!
//! Guarantee: with a layout from [`Layout::parse`], every entry of those same
//! bytes can be read without another check and without a panic.

use crate::format::coding::Reader;
use crate::format::key::{KEY_BYTES_MAX, Kind, SEQUENCE_MAX, Trailer};

// Forms of a column; larger numbers are a fixed width. Do not change.
pub(super) const FORM_ENDS_U16: u64 = 0;
pub(super) const FORM_ENDS_U32: u64 = 1;
pub(super) const FORM_FIXED: u64 = 2;

/// Bits of the kind in a packed trailer. Do not change.
const KIND_BITS: u32 = 3;

/// Sequence and kind as one number, which is small for small sequences.
pub(super) fn pack_trailer(trailer: Trailer) -> u64 {
    trailer.sequence() << KIND_BITS | u64::from(trailer.0 as u8)
}

/// The trailer in a packed one; `None` when its kind or sequence is invalid.
fn unpack_trailer(packed: u64) -> Option<Trailer> {
    let sequence = packed >> KIND_BITS;
    let kind = Kind::from_u8((packed & ((1 << KIND_BITS) - 1)) as u8)?;
    (sequence <= SEQUENCE_MAX).then(|| Trailer::new(sequence, kind))
}

/// Splits the bytes of a value column into trailer and payload.
#[inline]
pub(super) fn split_trailer(value: &[u8]) -> Option<(Trailer, usize)> {
    // Entries of the last level have a single byte.
    if let Some(&first) = value.first()
        && first < 0x80
    {
        return Some((unpack_trailer(u64::from(first))?, 1));
    }
    let mut reader = Reader::new(value);
    let trailer = unpack_trailer(reader.varint()?)?;
    Some((trailer, value.len() - reader.rest().len()))
}

/// The form of a column: how its cells are located.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Fixed { width: u32 },
    EndsU16 { at: u32 },
    EndsU32 { at: u32 },
}

/// One byte string for each entry, one after another. Small numbers, so that a lookup finds a
/// block's layout in the cache line of its `Arc`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    form: Form,
    /// The offset of its bytes in the block.
    base: u32,
}

impl Column {
    /// The offset of the first cell in the block.
    pub(super) fn start(&self) -> u32 {
        self.base
    }

    /// The range of cell `i` in the block.
    #[inline(always)]
    pub(super) fn cell(&self, block: &[u8], i: usize) -> (usize, usize) {
        let base = self.base as usize;
        if let Form::Fixed { width } = self.form {
            let start = base + i * width as usize;
            return (start, start + width as usize);
        }
        let start = if i == 0 { 0 } else { self.end(block, i - 1) };
        (base + start, base + self.end(block, i))
    }

    /// The end of cell `i`, relative to the start of the column.
    #[inline(always)]
    fn end(&self, block: &[u8], i: usize) -> usize {
        match self.form {
            Form::Fixed { width } => (i + 1) * width as usize,
            Form::EndsU16 { at } => {
                let at = at as usize + 2 * i;
                usize::from(u16::from_le_bytes([block[at], block[at + 1]]))
            }
            Form::EndsU32 { at } => {
                let at = at as usize + 4 * i;
                u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
                    as usize
            }
        }
    }

    /// The total length of its `entries` cells, if they ascend, end within the block, and are all
    /// valid. (Every block that is read passes here: the loops are written so that the compiler
    /// adds no other check.)
    #[inline]
    fn checked_bytes(
        &self,
        block: &[u8],
        entries: usize,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Option<usize> {
        let cells = &block[self.base as usize..];
        let mut last = 0;
        let mut ends_at = |end: usize| {
            let cell = cells.get(last..end);
            last = end;
            cell.is_some_and(&is_right)
        };
        let are_right = match self.form {
            Form::Fixed { width } => {
                let bytes = fixed_bytes(width, entries, cells.len())?;
                (1..=entries).all(|i| ends_at(i * width as usize)) && bytes == last
            }
            Form::EndsU16 { at } => {
                let (ends, _) = block[at as usize..][..2 * entries].as_chunks();
                ends.iter().all(|&end| ends_at(usize::from(u16::from_le_bytes(end))))
            }
            Form::EndsU32 { at } => {
                let (ends, _) = block[at as usize..][..4 * entries].as_chunks();
                ends.iter().all(|&end| ends_at(u32::from_le_bytes(end) as usize))
            }
        };
        are_right.then_some(last)
    }
}

/// The positions of the parts of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(super) entries: u32,
    pub(super) prefix: (u32, u32),
    pub(super) keys: Column,
    pub(super) values: Column,
}

impl Layout {
    /// Reads and checks a block from untrusted bytes.
    pub(crate) fn parse(block: &[u8]) -> Option<Self> {
        // After this check, every position in the block fits a `u32`.
        u32::try_from(block.len()).ok()?;
        let mut reader = Reader::new(block);
        let at = |reader: &Reader<'_>| (block.len() - reader.rest().len()) as u32;
        let entries = reader.varint_usize()?;
        // Every entry has at least one byte, its trailer.
        if entries > block.len() {
            return None;
        }
        let prefix = reader.bytes().filter(|p| p.len() <= KEY_BYTES_MAX)?;
        let prefix = (at(&reader) - prefix.len() as u32, at(&reader));
        let forms = (reader.varint()?, reader.varint()?);
        let key_form = take_form(&mut reader, block, forms.0, entries)?;
        let value_form = take_form(&mut reader, block, forms.1, entries)?;
        let base = at(&reader);
        let keys = Column { form: key_form, base };
        let key_bytes = match key_form {
            // Any bytes are a valid key: if all cells fit, each is valid.
            Form::Fixed { width } => fixed_bytes(width, entries, block.len() - base as usize)?,
            _ => keys.checked_bytes(block, entries, |_| true)?,
        };
        let values = Column { form: value_form, base: base + key_bytes as u32 };
        let left = block.len() - values.base as usize;
        let value_bytes =
            values.checked_bytes(block, entries, |value| split_trailer(value).is_some())?;
        if value_bytes != left {
            return None;
        }
        Some(Self { entries: entries as u32, prefix, keys, values })
    }
}

/// The bytes of cells of one width, if they fit into `bytes_max`.
fn fixed_bytes(width: u32, entries: usize, bytes_max: usize) -> Option<usize> {
    entries.checked_mul(width as usize).filter(|&bytes| bytes <= bytes_max)
}

fn take_form(reader: &mut Reader<'_>, block: &[u8], form: u64, entries: usize) -> Option<Form> {
    let at = (block.len() - reader.rest().len()) as u32;
    Some(match form {
        FORM_ENDS_U16 => {
            reader.take(entries.checked_mul(2)?)?;
            Form::EndsU16 { at }
        }
        FORM_ENDS_U32 => {
            reader.take(entries.checked_mul(4)?)?;
            Form::EndsU32 { at }
        }
        _ => Form::Fixed { width: u32::try_from(form - FORM_FIXED).ok()? },
    })
}
