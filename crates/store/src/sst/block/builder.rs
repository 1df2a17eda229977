//! [`BlockBuilder`]: collects entries in order and lays them out as a block.
//!
//! The size of the block is known to the byte before an entry is added, so that blocks can be cut
//! to fill a page.

use super::layout::{FORM_ENDS_U16, FORM_ENDS_U32, FORM_FIXED, pack_trailer};
use crate::format::coding::put_varint;
use crate::format::key::Trailer;

/// One column under construction.
#[derive(Debug, Default)]
struct ColumnBuilder {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The width of the cells so far, as long as all have the same.
    width: Option<usize>,
}

impl ColumnBuilder {
    /// Ends a cell at the end of the bytes.
    fn end_cell(&mut self) {
        let width = self.bytes.len() - self.ends.last().copied().unwrap_or(0);
        self.width = self.width_with(width);
        self.ends.push(self.bytes.len());
    }

    /// The width of all cells if one of `width` joined them.
    fn width_with(&self, width: usize) -> Option<usize> {
        if self.ends.is_empty() || self.width == Some(width) { Some(width) } else { None }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.width = None;
    }

    /// The start of cell `i`.
    fn start(&self, i: usize) -> usize {
        if i == 0 { 0 } else { self.ends[i - 1] }
    }
}

/// The form of a column with `bytes` bytes whose cells have `width`, if one.
fn form_of(width: Option<usize>, bytes: usize) -> u64 {
    match width {
        Some(width) => FORM_FIXED + width as u64,
        None if bytes <= usize::from(u16::MAX) => FORM_ENDS_U16,
        None => FORM_ENDS_U32,
    }
}

/// Bytes of a column with this form, its form included.
fn column_bytes(form: u64, entries: usize, bytes: usize) -> usize {
    let ends = match form {
        FORM_ENDS_U16 => 2 * entries,
        FORM_ENDS_U32 => 4 * entries,
        _ => 0,
    };
    varint_bytes(form) + ends + bytes
}

fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Collects the entries of a block. Its memory is kept from block to block.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    keys: ColumnBuilder,
    values: ColumnBuilder,
    /// Length of the prefix that all keys so far share.
    prefix_len: usize,
}

impl BlockBuilder {
    pub(crate) fn len(&self) -> usize {
        self.keys.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of the prefix that all keys so far share.
    pub(crate) fn prefix_len(&self) -> usize {
        self.prefix_len
    }

    /// Current size of the block in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let (keys, values) = (&self.keys, &self.values);
        self.size(
            self.len(),
            self.prefix_len,
            (keys.bytes.len(), keys.width),
            (values.bytes.len(), values.width),
        )
    }

    /// Size of the block in bytes after adding this entry.
    pub(crate) fn bytes_with(
        &self,
        user_key: &[u8],
        trailer: Trailer,
        payload_bytes: usize,
    ) -> usize {
        let value_bytes = varint_bytes(pack_trailer(trailer)) + payload_bytes;
        self.size(
            self.len() + 1,
            self.prefix_with(user_key),
            (self.keys.bytes.len() + user_key.len(), self.keys.width_with(user_key.len())),
            (self.values.bytes.len() + value_bytes, self.values.width_with(value_bytes)),
        )
    }

    /// Adds an entry after all others.
    pub(crate) fn add(&mut self, user_key: &[u8], trailer: Trailer, payload: &[u8]) {
        self.prefix_len = self.prefix_with(user_key);
        self.keys.bytes.extend_from_slice(user_key);
        self.keys.end_cell();
        put_varint(&mut self.values.bytes, pack_trailer(trailer));
        self.values.bytes.extend_from_slice(payload);
        self.values.end_cell();
    }

    /// Appends the block to `out` and starts the next one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let expected = out.len() + self.bytes();
        let (entries, prefix) = (self.len(), self.prefix_len);
        let (keys, values) = (&self.keys, &self.values);
        let key_width = keys.width.map(|width| width - prefix);
        let key_form = form_of(key_width, keys.bytes.len() - entries * prefix);
        let value_form = form_of(values.width, values.bytes.len());
        out.reserve(self.bytes());
        put_varint(out, entries as u64);
        put_varint(out, prefix as u64);
        out.extend_from_slice(&keys.bytes[..prefix]);
        put_varint(out, key_form);
        put_varint(out, value_form);
        put_ends(
            out,
            key_form,
            keys.ends.iter().enumerate().map(|(i, end)| end - (i + 1) * prefix),
        );
        put_ends(out, value_form, values.ends.iter().copied());
        for (i, &end) in keys.ends.iter().enumerate() {
            out.extend_from_slice(&keys.bytes[keys.start(i) + prefix..end]);
        }
        out.extend_from_slice(&values.bytes);
        debug_assert_eq!(out.len(), expected);
        self.keys.clear();
        self.values.clear();
        self.prefix_len = 0;
    }

    /// The length of the shared prefix if `user_key` joined.
    fn prefix_with(&self, user_key: &[u8]) -> usize {
        if self.is_empty() {
            return user_key.len();
        }
        let prefix = &self.keys.bytes[..self.prefix_len];
        if user_key.starts_with(prefix) {
            return self.prefix_len;
        }
        prefix.iter().zip(user_key).take_while(|(a, b)| a == b).count()
    }

    /// Bytes of a block; columns are (bytes before prefixes go, width).
    fn size(
        &self,
        entries: usize,
        prefix: usize,
        keys: (usize, Option<usize>),
        values: (usize, Option<usize>),
    ) -> usize {
        let key_bytes = keys.0 - entries * prefix;
        let key_form = form_of(keys.1.map(|width| width - prefix), key_bytes);
        let value_form = form_of(values.1, values.0);
        varint_bytes(entries as u64)
            + varint_bytes(prefix as u64)
            + prefix
            + column_bytes(key_form, entries, key_bytes)
            + column_bytes(value_form, entries, values.0)
    }
}

fn put_ends(out: &mut Vec<u8>, form: u64, ends: impl Iterator<Item = usize>) {
    match form {
        FORM_ENDS_U16 => ends.for_each(|end| out.extend_from_slice(&(end as u16).to_le_bytes())),
        FORM_ENDS_U32 => ends.for_each(|end| out.extend_from_slice(&(end as u32).to_le_bytes())),
        _ => {}
    }
}
