//! Internal keys: a user key, the sequence number of its write and the kind of
//! entry. They are ordered by user key ascending, then newest first, so that
//! the first entry at or after `(key, sequence)` is what a reader at that
//! sequence sees.
//!
//! A [`Trailer`] packs sequence and kind into 64 bits: `sequence << 8 | kind`.
//! Kinds are values on disk: do not change them.

use std::cmp::Ordering;

use bytes::{Buf, Bytes};

/// The number of a write; every write of a store has its own, ascending.
pub(crate) type Sequence = u64;

/// The largest sequence number (56 bits).
pub(crate) const SEQUENCE_MAX: Sequence = (1 << 56) - 1;

/// Longest user key in bytes; the shortest is 1.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Longest value in bytes, where the memory budget allows a batch of that size
/// ([`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX)).
pub const VALUE_BYTES_MAX: usize = 256 << 20;

/// The kind of an entry. Values on disk: do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The key was deleted.
    Delete = 0,
    /// The value follows.
    Value = 1,
    /// Eight bytes of deadline (little-endian milliseconds since 1970), then
    /// the value.
    Expiring = 2,
    /// All keys from this one up to the value (exclusive) are deleted. Only in batches and the log;
    /// tables store these separately.
    RangeDelete = 3,
}

impl Kind {
    pub(crate) fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Delete,
            1 => Self::Value,
            2 => Self::Expiring,
            3 => Self::RangeDelete,
            _ => return None,
        })
    }
}

/// Sequence and kind of an entry, packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Trailer(pub(crate) u64);

impl Trailer {
    pub(crate) fn new(sequence: Sequence, kind: Kind) -> Self {
        debug_assert!(sequence <= SEQUENCE_MAX);
        Self(sequence << 8 | kind as u64)
    }

    /// The trailer that sorts before every entry that a reader at `sequence` may see, and after
    /// every newer one.
    pub(crate) fn seek(sequence: Sequence) -> Self {
        Self(sequence << 8 | 0xff)
    }

    pub(crate) fn sequence(self) -> Sequence {
        self.0 >> 8
    }

    /// `None` when the byte on disk is not a valid kind.
    pub(crate) fn checked_kind(self) -> Option<Kind> {
        Kind::from_u8(self.0 as u8)
    }

    /// The kind of a trailer that was checked when it was decoded.
    pub(crate) fn kind(self) -> Kind {
        self.checked_kind().expect("kinds are checked when they are decoded")
    }
}

/// Compares two internal keys: user key ascending, trailer descending.
pub(crate) fn compare(a: (&[u8], Trailer), b: (&[u8], Trailer)) -> Ordering {
    a.0.cmp(b.0).then(b.1.cmp(&a.1))
}

/// A user key prepared for a point read: its hash is computed once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookupKey<'a> {
    pub(crate) user_key: &'a [u8],
    pub(crate) hash: u64,
    /// Entries newer than this are invisible.
    pub(crate) sequence: Sequence,
}

impl<'a> LookupKey<'a> {
    pub(crate) fn new(user_key: &'a [u8], sequence: Sequence) -> Self {
        Self { user_key, hash: crate::format::checksum::key_hash(user_key), sequence }
    }
}

/// Splits the payload of an [`Kind::Expiring`] entry into deadline and value.
pub(crate) fn split_deadline(payload: &[u8]) -> Option<(u64, &[u8])> {
    let (head, value) = payload.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*head), value))
}

/// Takes the deadline off the payload of an [`Kind::Expiring`] entry.
pub(crate) fn take_deadline(payload: &mut Bytes) -> Option<u64> {
    let (deadline, _) = split_deadline(payload)?;
    // A slice of unshared bytes would allocate.
    payload.advance(size_of::<u64>());
    Some(deadline)
}

/// The first key after all keys that begin with `prefix`; `None` when no such key exists, because
/// the prefix is empty or all 0xff.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// A key of the fewest bytes that is at or after `left` and before `right`, for index separators.
/// `left < right` must hold.
///
/// Where both keys go on after their first different byte, `right` cut behind that byte is such a
/// key: it is longer than the shared prefix by one byte, however long the keys are. Otherwise
/// `right` ends there: `left` is cut where a byte can be raised.
pub(crate) fn shortest_separator(left: &[u8], right: &[u8], out: &mut Vec<u8>) {
    debug_assert!(left < right);
    out.clear();
    let shared = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    if shared == left.len() {
        out.extend_from_slice(left);
    } else if shared + 1 < right.len() {
        out.extend_from_slice(&right[..=shared]);
    } else {
        let is_below = left[shared] + 1 < right[shared];
        cut_above(left, if is_below { shared } else { shared + 1 }, out);
    }
}

/// Appends `key`, cut after its first byte from `from` on that can be raised, with that byte raised;
/// all of `key` if none can.
pub(crate) fn cut_above(key: &[u8], from: usize, out: &mut Vec<u8>) {
    match key[from..].iter().position(|&byte| byte < 0xff) {
        // A cut at the last byte makes the key no shorter.
        Some(at) if from + at + 1 < key.len() => {
            out.extend_from_slice(&key[..=from + at]);
            *out.last_mut().expect("at least one byte was appended") += 1;
        }
        _ => out.extend_from_slice(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_entries_of_a_key_come_first() {
        let old = Trailer::new(1, Kind::Value);
        let new = Trailer::new(2, Kind::Delete);
        assert_eq!(compare((b"a", new), (b"a", old)), Ordering::Less);
        assert_eq!(compare((b"a", old), (b"b", new)), Ordering::Less);
        assert!(compare((b"a", Trailer::seek(2)), (b"a", new)).is_le());
        assert!(compare((b"a", Trailer::seek(1)), (b"a", new)).is_gt());
    }

    /// All keys of up to three bytes of `alphabet`.
    fn short_keys(alphabet: &[u8]) -> Vec<Vec<u8>> {
        let longer = |keys: &[Vec<u8>]| -> Vec<Vec<u8>> {
            let with = |key: &Vec<u8>| {
                alphabet.iter().map(|&byte| [&key[..], &[byte]].concat()).collect::<Vec<_>>()
            };
            keys.iter().flat_map(with).collect()
        };
        let one = longer(&[Vec::new()]);
        let two = longer(&one);
        let three = longer(&two);
        let mut all = [one, two, three].concat();
        all.sort();
        all
    }

    /// Separators of keys whose first different bytes were neighbours, as half of all random keys
    /// have them, were the whole keys: with keys of 4 000 bytes each index block held one or two of
    /// them, and the tables of 300 MB of keys took 737 MB and 143 MB of memory.
    #[test]
    fn no_separator_is_longer_than_necessary() {
        let keys = short_keys(&[0, 1, 2, 0x7f, 0xfe, 0xff]);
        let mut out = Vec::new();
        for (at, left) in keys.iter().enumerate() {
            for right in &keys[at + 1..] {
                shortest_separator(left, right, &mut out);
                assert!(*left <= out && out < *right, "{left:?} {out:?} {right:?}");
                let shorter = keys.iter().filter(|key| key.len() < out.len());
                let is_between = |key: &&Vec<u8>| left <= *key && *key < right;
                let best = shorter.filter(is_between).map(|key| key.len()).min();
                assert_eq!(best, None, "{left:?} {out:?} {right:?}");
            }
        }
        let long = |head: &[u8]| [head, &[b'q'; 4000]].concat();
        shortest_separator(&long(b"00a3"), &long(b"00a4"), &mut out);
        assert_eq!(out, b"00a4");
        shortest_separator(&long(b"00a3"), b"00a4", &mut out);
        assert_eq!(out, b"00a3r");
    }
}
